"""Looking inside a compiled function: what each pass left, the kernels with their work, times and memory."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import PIPELINE, build_plan, jit
from .graph import Argument, Graph
from .loops import HostCall
from .roofline import Roofline, measured

RUNS = 7


@dataclass
class Step:
    """One step of a plan: what it computes, its work, and its time against the least possible."""

    phase: int
    threads: str
    kernel: str
    operations: str
    lines: str
    flops: int
    nbytes: int
    predicted: float  # microseconds
    time: float  # microseconds, median

    @property
    def share(self) -> float:
        """Of the measured roofline: 1 is as fast as this machine can."""
        return self.predicted / self.time if self.time else 0.0


@dataclass
class Profile:
    """The steps of a plan with their times."""

    steps: list[Step]
    roofline: Roofline
    threads: int
    memory: int  # bytes of temporary values, shared
    unshared: int  # bytes if nothing were shared

    def __str__(self) -> str:
        total = sum(s.time for s in self.steps)
        least = sum(s.predicted for s in self.steps)
        head = f"{'phase':>5} {'threads':>7} {'µs':>9} {'least':>9} {'share':>6} {'MFLOP':>9} {'kB':>9}  kernel"
        rows = [
            f"{s.phase:5d} {s.threads:>7} {s.time:9.2f} {s.predicted:9.2f} {s.share:6.0%} {s.flops / 1e6:9.3f} "
            f"{s.nbytes / 1e3:9.1f}  {s.kernel}: {s.operations}"
            for s in self.steps
        ]
        foot = (
            f"{len(self.steps)} steps, {total:.1f} µs, at least {least:.1f} µs at {self.roofline.gflops:.0f} GFLOP/s and "
            f"{self.roofline.gbytes:.1f} GB/s ({self.threads} threads)\n"
            f"temporary values: {self.memory / 1e6:.2f} MB (without sharing {self.unshared / 1e6:.2f} MB)"
        )
        return "\n".join([head, *rows, foot])

    def slowest(self, count: int = 10) -> list[Step]:
        """The steps that take the most time."""
        return sorted(self.steps, key=lambda s: -s.time)[:count]


@dataclass
class Explanation:
    """A compiled function from its graph to machine code; printed as text, drawn by `draw`."""

    passes: list[tuple[str, str]]
    profile: Profile
    plan: Any
    graph: Graph

    def __str__(self) -> str:
        parts = [f"passes: {' → '.join(PIPELINE)}"]
        parts += [f"\n── after {name} ──\n{text}" for name, text in self.passes]
        return "\n".join([*parts, "\n── plan ──", str(self.profile)])

    def llvm(self, number: int) -> str:
        """The LLVM text of step `number`."""
        kernel = self.plan.slots[number].step.kernel
        return kernel.text(jit.symbol(kernel.key()), jit.Target.host())

    def assembly(self, number: int) -> str:
        """The machine code of step `number`, as the assembler writes it."""
        from ..runtime.native import barrier_ir

        kernel = self.plan.slots[number].step.kernel
        text = kernel.text(jit.symbol(kernel.key()), jit.Target.host(), barrier_ir())
        return jit.emit_assembly(text, jit.Target.host())

    def draw(self, path: str | None = None) -> str:
        """The steps as a picture (SVG text), boxes from top to bottom in phases; written to `path` if given."""
        from .drawing import draw_plan

        text = draw_plan(self)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return text


def explain(graph: Graph, arrays: Sequence[np.ndarray], threads: int | None, without: Any) -> Explanation:
    """Compile a graph anew, keeping what each pass leaves, and time it. States are put back afterwards."""
    log: list[tuple[str, str]] = []
    plan = build_plan(graph, threads, without, log)
    return Explanation(log, profile(plan, arrays), plan, graph)


def profile(plan: Any, arrays: Sequence[np.ndarray]) -> Profile:
    """Time every step of a plan; tensors that it writes are as before afterwards."""
    times = _untouched(plan, arrays, lambda: [plan.measure(arrays) for _ in range(RUNS)])
    medians = [statistics.median(column) for column in zip(*times, strict=True)]
    roof = measured(plan.threads)
    steps = []
    for slot, taken in zip(plan.slots, medians, strict=True):
        step = slot.step
        host = isinstance(step, HostCall)
        flops, nbytes = (0, 0) if host else (step.kernel.flops, step.kernel.nbytes)
        nodes = step.group.nodes
        steps.append(
            Step(
                phase=slot.phase,
                threads="python" if host else "all" if slot.only is None else f"only {slot.only}",
                kernel="host" if host else type(step.kernel).__name__,
                operations=" ".join(n.op.name for n in nodes),
                lines=", ".join(dict.fromkeys(n.line for n in nodes if n.line)),
                flops=flops,
                nbytes=nbytes,
                predicted=roof.seconds(flops, nbytes) * 1e6,
                time=taken,
            )
        )
    unshared = sum(life.size for life in plan.lives.values())
    return Profile(steps, roof, plan.threads, plan.memory.nbytes, unshared)


def _untouched(plan: Any, arrays: Sequence[np.ndarray], run: Callable[[], Any]) -> Any:
    """Run something that writes states, then put them back."""
    kept = []
    for state in plan.graph.states:
        if state.final is not None:
            op = state.value.node.op
            array = arrays[op.position] if isinstance(op, Argument) else op.tensor.array
            kept.append((array, array.copy()))
    try:
        return run()
    finally:
        for array, before in kept:
            array[...] = before


