"""Running single kernels in tests: buffers in, on any number of threads and for older processors of this family."""

from __future__ import annotations

import functools

import numpy as np

from weft.kernels.body import Access
from weft.kernels.kernel import Kernel
from weft.kernels.llvm import jit
from weft.kernels.llvm.values import OF_NUMPY
from weft.kernels.pool import Pool
from weft.runtime import native

from .native_samples import Plan, words

HOST = jit.Target.named("host")
OTHERS = ["x86-64-v2", "x86-64-v3"][: {16: 0, 32: 1, 64: 2}[HOST.vector_bytes]] if HOST.arch == "x86_64" else []
TARGETS = ["host", *OTHERS]


def access(arg: int, array: np.ndarray) -> Access:
    """An array as a buffer: a stride for each of its axes."""
    return Access(arg, OF_NUMPY[array.dtype], tuple(s // array.itemsize for s in array.strides))


@functools.cache
def pool(threads: int) -> Pool:
    return Pool(threads)


def run(kernel: Kernel, arrays: list[np.ndarray], threads: int = 1, target: str = "host") -> None:
    """Run a kernel on arrays as its argument words; scratch memory follows as the last word."""
    chosen = jit.Target.named(target)
    key = kernel.key()
    handle = jit.build({key: lambda: kernel.text(jit.symbol(key), chosen, native.BARRIER_IR)}, chosen)[key]
    sizes = [size for size in (kernel.scratch * threads, kernel.workspace) if size] or [0]
    given = [np.full(size + 128, 0xAB, np.uint8) for size in sizes]
    starts = [-(-memory.ctypes.data // 64) * 64 for memory in given]
    arguments = words(*arrays, *starts)
    pool(threads).run(Plan((handle, arguments, 1)).address)
    for memory, start, size in zip(given, starts, sizes, strict=True):
        assert (memory[start - memory.ctypes.data + size :] == 0xAB).all()
