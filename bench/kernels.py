"""How near single compiled operations come to what the machine can do.

    python bench/kernels.py [--only products,convolutions,chains,attention] [--threads 1] [--rounds 9] [--json FILE]

products, convolutions: share of the rate of fused multiply-adds in registers; chains of elementwise operations: share
of the bandwidth of streams through memory. Rates and peaks are measured in turns, and the best of each are compared; on
one thread in seconds of the processor, which other programs disturb less. attention: memory that a forward and backward pass over 4,096 tokens adds to the process, beside that of the
form that keeps all scores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import machine

import weft
from weft import Tensor
from weft.nn import functional as F

SECONDS = 0.02  # what is timed lasts at least so long
# Rows, inner size and columns of the layers of the training steps in run.py, forward.
LAYERS = {
    "mlp_small": (64, 784, 128),
    "mlp_large": (64, 784, 512),
    "mlp_large hidden": (64, 512, 512),
    "lstm": (64, 128, 512),
    "gpt_small qkv": (1024, 128, 384),
    "gpt_small fc2": (1024, 512, 128),
    "gpt_medium qkv": (1024, 384, 1152),
    "gpt_medium fc2": (1024, 1536, 384),
    "vae": (128, 784, 400),
    "rbm_cd1": (64, 784, 256),
    "ddpm_mlp": (512, 256, 256),
    "vit_tiny fc1": (2080, 192, 768),
}


class Peak:
    """What the machine can do, by a probe: the highest of all its measurements, so that no share looks too good."""

    def __init__(self, probe: Callable[[], float], threads: int, unit: str) -> None:
        self.probe, self.clock, self.unit = probe, machine.clock(threads), unit
        self.highest = machine.best(probe)

    def measure(self) -> None:
        self.highest = max(self.highest, self.probe())


@dataclass
class Line:
    """A row of the table: what was measured, how fast, which part of the peak, and the part that is asked for."""

    name: str
    rate: float
    unit: str
    share: float
    goal: float
    failed: str = ""

    def __str__(self) -> str:
        if self.failed:
            return f"{self.name:44} failed: {self.failed}"
        mark = "✓" if self.share >= self.goal else " "
        return f"{self.name:44} {self.rate:8.1f} {self.unit:8} {self.share:6.0%}  goal {self.goal:.0%} {mark}"


def against(name: str, step: Callable[[], object], amount: float, peak: Peak, goal: float, rounds: int) -> Line:
    """Time a step that does `amount` (10⁹ units) in turns with the probe of the peak."""
    try:
        step()
    except Exception as error:  # the other lines are still of interest
        return Line(name, 0.0, peak.unit, 0.0, goal, f"{type(error).__name__}: {error}".splitlines()[0])
    start = time.perf_counter()
    step()
    repeats = max(1, round(SECONDS / (time.perf_counter() - start)))
    best = 0.0
    for _ in range(rounds):
        peak.measure()
        start = peak.clock()
        for _ in range(repeats):
            step()
        best = max(best, repeats * amount / (peak.clock() - start))
    return Line(name, best, peak.unit, best / peak.highest, goal)


def written(function: Callable[[], Tensor], threads: int, to: Tensor | None = None) -> Callable[[], object]:
    """A compiled step that computes a tensor into memory that is there already."""
    result = weft.empty_like(function().detach()) if to is None else to

    def step() -> None:
        result.copy_(function().detach())

    return weft.compile(step, threads=threads)


# ---------------------------------------------------------------------------------------------- lines


def products(threads: int, rounds: int) -> Iterator[Line]:
    """x Wᵀ, and for the layers of networks both gradients: g W and gᵀ x."""
    peak = Peak(machine.flop_probe(threads), threads, "GFLOP/s")
    a, b, c = (weft.randn(1024, 1024) for _ in range(3))
    yield against("1024³", written(lambda: a @ b, threads, c), 2e-9 * 1024**3, peak, 0.95, rounds)
    for name, (m, k, n) in LAYERS.items():
        x, w, g = weft.randn(m, k), weft.randn(n, k), weft.randn(m, n)
        forms = {"x Wᵀ": lambda x=x, w=w: x @ w.t(), "g W": lambda g=g, w=w: g @ w, "gᵀ x": lambda g=g, x=x: g.t() @ x}
        for form, function in forms.items():
            step = written(function, threads)
            yield against(f"{name} {m}·{k}·{n} {form}", step, 2e-9 * m * k * n, peak, 0.85, rounds)


def convolutions(threads: int, rounds: int) -> Iterator[Line]:
    """3 × 3, 64 → 64 channels, 28 × 28 pixels, batch 64; products with the padding's zeros are not counted.

    Several layers in a row, so that a change of layout at the borders of the plan does not count for much. The last line
    has 6 gradients of weights, 5 of inputs, and 5 layers forward (nothing needs the output of the sixth).
    """
    peak = Peak(machine.flop_probe(threads), threads, "GFLOP/s")
    x, g = (weft.randn(64, 64, 28, 28) for _ in range(2))
    weights = [weft.randn(64, 64, 3, 3) / 24 for _ in range(6)]
    once = 2e-9 * 64 * 64 * 64 * (3 * 28 - 2) ** 2

    def forward() -> Tensor:
        y = x
        for w in weights:
            y = F.conv2d(y, w, padding=1)
        return y

    yield against("conv2d 3×3, 6 layers, forward", written(forward, threads), 6 * once, peak, 0.9, rounds)
    x.requires_grad_()
    to_input = written(lambda: weft.autograd.grad(forward(), x, g)[0], threads)
    yield against("conv2d 3×3, 6 layers, gradient of the input", to_input, 6 * once, peak, 0.9, rounds)
    x.requires_grad_(False)
    for w in weights:
        w.requires_grad_()
    to_weights = written(lambda: weft.stack(weft.autograd.grad(forward(), weights, g)), threads)
    yield against("conv2d 3×3, 6 layers, training", to_weights, 16 * once, peak, 0.9, rounds)


def chains(threads: int, rounds: int) -> Iterator[Line]:
    """Elementwise operations over 64 MiB, into other memory and in place, each beside a plain scaling of that kind in
    the same memory: how the system has laid out its pages makes more difference than anything else."""
    x, y, to = (weft.randn(2**24) for _ in range(3))
    probes = machine.byte_probes(threads, (x.numpy(), to.numpy()))
    streams, place = (Peak(probes[name], threads, "GB/s") for name in ("streams", "place"))

    def update() -> None:
        x.mul_(0.99).add_(0.01).clamp_(-4, 4)

    in_place = weft.compile(update, threads=threads)
    apart = written(lambda: ((x * 1.5 + 0.5).relu() - 0.25) * 2, threads, to)
    two = written(lambda: (x * 0.5 + y).relu() * y, threads, to)
    size = 4e-9 * x.numel()
    yield against("((1.5 x + 0.5)⁺ − 0.25) · 2", apart, 2 * size, streams, 0.85, rounds)
    yield against("(0.5 x + y)⁺ · y", two, 3 * size, streams, 0.85, rounds)
    yield against("x ← clamp(0.99 x + 0.01), in place", in_place, 2 * size, place, 0.85, rounds)


# ------------------------------------------------------------------------------------ attention's memory

HEADS, TOKENS, WIDTH = 4, 4096, 64


def attention_memory(form: str) -> float:
    """MiB that one forward and backward pass adds to what the process had resident before; run in a fresh process."""
    attend = F.scaled_dot_product_attention if form == "compiled" else quadratic
    compiled = weft.compile(attention_step(attend, 64)) if form == "compiled" else attention_step(attend, 64)
    compiled()  # brings the code generator into memory
    step = attention_step(attend, TOKENS)
    step = weft.compile(step) if form == "compiled" else step
    before = machine.peak_memory(restart=True)
    step()
    return machine.peak_memory() - before


def attention_step(attend: Callable[..., Tensor], tokens: int) -> Callable[[], None]:
    q, k, v = (weft.randn(1, HEADS, tokens, WIDTH, requires_grad=True) for _ in range(3))
    g = weft.randn(1, HEADS, tokens, WIDTH)
    for x in (q, k, v):
        x.grad = weft.zeros_like(x)

    def step() -> None:
        attend(q, k, v).backward(g)

    return step


def quadratic(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention as it is written down: all scores at once."""
    return (q @ k.transpose(-2, -1) / WIDTH**0.5).softmax(-1) @ v


def attention() -> dict[str, float]:
    """Memory of both forms, each measured in a process of its own."""
    found = {}
    for form in ("quadratic", "compiled"):
        command = [sys.executable, str(Path(__file__)), "--memory", form]
        done = subprocess.run(command, env=machine.environment(2), capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        found[form] = float(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="products,convolutions,chains,attention")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", help="write the lines to this file")
    parser.add_argument("--memory", choices=("quadratic", "compiled"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        print(attention_memory(options.memory))
        return
    lines = []
    for section in (products, convolutions, chains):
        if section.__name__ in options.only.split(","):
            for line in section(options.threads, options.rounds):
                lines.append(asdict(line))
                print(line, flush=True)
    if "attention" in options.only.split(","):
        memory = attention()
        share = memory["compiled"] / memory["quadratic"]
        lines.append({"name": "attention", **memory, "share": share, "goal": 1 / 20})
        print(
            f"attention, {TOKENS} tokens: {memory['compiled']:.0f} MiB, quadratic form {memory['quadratic']:.0f} MiB, "
            f"1/{1 / share:.0f}  goal 1/20 {'✓' if share <= 1 / 20 else ''}"
        )
    if options.json:
        Path(options.json).write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
