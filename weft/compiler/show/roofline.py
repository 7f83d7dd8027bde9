"""What this machine can do at best: multiply-adds and bytes a second, measured by generated code."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass

import numpy as np

from ...kernels.kernel import Kernel
from ...kernels.llvm import jit
from ...kernels.llvm.builder import Function
from ...kernels.pool import get_pool
from ...runtime import native
from ..plan.buffers import address, aligned

__all__ = ["Roofline", "measured"]

CHAINS = 12  # independent sums: more than latency times throughput of current processors
ROUNDS = 200_000
STREAM = 1 << 26  # bytes read and written: beyond every cache
TRIES = 5


class MultiplyAdd(Kernel):
    """Nothing but fused multiply-adds in registers."""

    def key(self) -> str:
        return f"probe multiply-add {CHAINS} {ROUNDS}"

    def emit(self, f: Function) -> None:
        lanes = f.target.vector_bytes // 4
        x = f.splat(f.load(f.arg(0), 0, "f32"), lanes)
        with f.loop(0, ROUNDS, carry=[f.const("f32", 0.0, lanes)] * CHAINS, runs=True) as loop:
            loop.next([f.fma(x, x, c) for c in loop.carry])
        total = loop.results[0]
        for part in loop.results[1:]:
            total = total + part
        f.store(f.total(total), f.arg(0), f.tid + 1)


class StreamProbe(Kernel):
    """y ← x · 1.5 over large arrays."""

    def key(self) -> str:
        return f"probe stream {STREAM}"

    def emit(self, f: Function) -> None:
        lanes = f.target.vector_bytes // 4
        lo, hi = f.split(STREAM // 4, lanes)
        with f.loop(lo, hi, lanes) as loop:
            f.store(f.load(f.arg(0), loop.i, "f32", lanes) * 1.5, f.arg(1), loop.i)


@dataclass(frozen=True)
class Roofline:
    """Billions of floating-point operations and of bytes a second, all threads together."""

    gflops: float
    gbytes: float

    def seconds(self, flops: float, nbytes: float) -> float:
        """The least time for so much work: limited by arithmetic or by memory, whichever takes longer."""
        return max(flops / self.gflops, nbytes / self.gbytes) / 1e9


@functools.cache
def measured(threads: int) -> Roofline:
    """The best of a few tries with so many threads."""
    target = jit.Target.host()
    numbers = np.zeros(1024, np.float32)
    numbers[0] = 1e-3
    memory = aligned(2 * STREAM)
    start = address(memory)
    probe = MultiplyAdd()
    work = 2 * CHAINS * ROUNDS * (target.vector_bytes // 4) * threads
    return Roofline(
        work / _fastest(probe, [address(numbers)], threads) / 1e9,
        2 * STREAM / _fastest(StreamProbe(), [start, start + STREAM], threads) / 1e9,
    )


def _fastest(kernel: Kernel, words: list[int], threads: int) -> float:
    """Seconds of the quickest run."""
    key = kernel.key()
    text = functools.partial(kernel.text, jit.symbol(key), jit.Target.host(), native.barrier_ir())
    handle = jit.build({key: text})[key]
    arguments = np.array(words, np.int64)
    plan = np.array([1, handle.address, address(arguments), 1, 0], np.int64)
    pool, best = get_pool(threads), float("inf")
    for _ in range(TRIES):
        begin = time.perf_counter()
        pool.run(address(plan))
        best = min(best, time.perf_counter() - begin)
    return best
