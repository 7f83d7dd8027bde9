"""Looking inside a compiled function: what each pass left, the kernels with their work, times and memory."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import OptionError
from ...kernels.kernel import Kernel
from ...kernels.llvm import jit
from ...runtime.native import barrier_ir
from ..fuse.loops import HostCall
from ..graph.bodies import BodyCall, Repeat
from ..graph.graph import Argument, Graph
from ..pipeline import PIPELINE, build_plan
from ..plan.plan import told_host_work
from .roofline import Roofline, measured

__all__ = ["Explanation", "Profile", "explain"]

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
    without: Collection[str] = ()
    notes: Sequence[str] = ()  # what Python does at each call beside the plan

    def __str__(self) -> str:
        names = [f"({name} left out)" if name in self.without else name for name in PIPELINE]
        parts = [f"passes: {' → '.join(names)}"]
        parts += [f"\n── after {name} ──\n{text}" for name, text in self.passes if name not in self.without]
        return "\n".join([*parts, "\n── plan ──", str(self.profile), *self.notes])

    def llvm(self, number: int) -> str:
        """The LLVM text of the kernels of step `number`."""
        target = jit.Target.host()
        return "\n".join(kernel.text(jit.symbol(key), target) for key, kernel in self._kernels(number).items())

    def assembly(self, number: int) -> str:
        """The machine code of step `number`, as the assembler writes it."""
        target, barrier = jit.Target.host(), barrier_ir()
        texts = (kernel.text(jit.symbol(key), target, barrier) for key, kernel in self._kernels(number).items())
        return "\n".join(jit.emit_assembly(text, target) for text in texts)

    def _kernels(self, number: int) -> dict[str, Kernel]:
        found = {kernel.key(): kernel for kernel in _kernels(self.plan.slots[number].step)}
        if not found:
            raise OptionError(f"explain: step {number} ({self.profile.steps[number].operations}) is computed by Python")
        return found

    def draw(self, path: str | None = None) -> str:
        """The steps as a picture (SVG text), boxes from top to bottom in phases; written to `path` if given."""
        from .drawing import draw_plan

        text = draw_plan(self)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return text


def explain(
    graph: Graph, arrays: Sequence[np.ndarray], threads: int | None, without: Any, notes: Sequence[str] = ()
) -> Explanation:
    """Compile a graph anew, keeping what each pass leaves, and time it. States are put back afterwards."""
    log: list[tuple[str, str]] = []
    plan = build_plan(graph, threads, without, log)
    return Explanation(log, profile(plan, arrays), plan, graph, without, [*notes, *_host_notes(plan)])


def _host_notes(plan: Any) -> list[str]:
    work = plan.host_work()
    return [f"computed by Python at every call: {told_host_work(work)}"] if work else []


def profile(plan: Any, arrays: Sequence[np.ndarray]) -> Profile:
    """Time every step of a plan; tensors that it writes are as before afterwards."""
    times = _untouched(plan, arrays, lambda: [plan.measure(arrays) for _ in range(RUNS)])
    medians = [statistics.median(column) for column in zip(*times, strict=True)]
    roof = measured(plan.threads)
    steps = []
    for slot, taken in zip(plan.slots, medians, strict=True):
        step, nodes = slot.step, slot.step.group.nodes
        host = isinstance(step, HostCall)
        flops, nbytes = _work(step)
        python = host and not isinstance(step, Repeat)
        steps.append(
            Step(
                phase=slot.phase,
                threads="python" if python else _threads(slot),
                kernel="host" if python else "Repeat" if host else type(step.kernel).__name__,
                operations=_operations(step),
                lines=", ".join(dict.fromkeys(n.line for n in nodes if n.line)),
                flops=flops,
                nbytes=nbytes,
                predicted=roof.seconds(flops / (1 if host else step.kernel.pace), nbytes) * 1e6,
                time=taken,
            )
        )
    every = _plans(plan)
    unshared = sum(life.size for one in every for life in one.lives.values())
    return Profile(steps, roof, plan.threads, sum(one.memory.nbytes for one in every), unshared)


def _threads(slot: Any) -> str:
    if slot.only is None:
        return "all"
    return f"only {slot.only}" if slot.group == 1 else f"{slot.group} of all"


def _plans(plan: Any) -> list[Any]:
    """A plan and those of the bodies of its loops and branches."""
    inside = [inner for slot in plan.slots for inner in _bodies(slot.step)]
    return [plan, *(one for inner in inside for one in _plans(inner))]


def _bodies(step: Any) -> Sequence[Any]:
    return step.plans if isinstance(step, HostCall) else ()


def _kernels(step: Any) -> list[Kernel]:
    if isinstance(step, HostCall):
        return [k for plan in step.plans for slot in plan.slots for k in _kernels(slot.step)]
    return [step.kernel]


def _work(step: Any) -> tuple[int, int]:
    """Operations and bytes of a step; (0, 0) where Python decides how much there is."""
    if isinstance(step, Repeat):
        inside = [_work(slot.step) for slot in step.plan.slots]
        return tuple(step.node.op.length * sum(column) for column in zip(*inside, strict=True)) or (0, 0)
    return (0, 0) if isinstance(step, HostCall) else (step.kernel.flops, step.kernel.nbytes)


def _operations(step: Any) -> str:
    names = " ".join(node.op.name for node in step.group.nodes)
    if not isinstance(step, BodyCall):
        return names
    bodies = [" ".join(_operations(slot.step) for slot in plan.slots) for plan in step.plans]
    return f"{names} ({'; '.join(bodies)})"


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
