"""What every kernel is: a structure that names itself and can write itself as native code."""

from __future__ import annotations

from typing import Any

from .llvm.builder import Function

__all__ = ["Kernel"]


class Kernel:
    """One native function. Its structure (sizes, strides, operations) is fixed; buffers come as argument words.

    Two kernels with equal `key()` are the same code. `scratch` is the private memory of each thread in bytes,
    whose common base is the last argument word. `serial`: too small to be shared between threads.
    """

    flops = 0
    nbytes = 0
    scratch = 0
    serial = False
    halts = False  # may end the plan early

    def key(self) -> str:
        """The complete description of the structure; equal descriptions mean equal code."""
        raise NotImplementedError

    def emit(self, f: Function) -> None:
        """Write the body of the function."""
        raise NotImplementedError

    def text(self, symbol: str, target: Any, barrier: str = "") -> str:
        """The LLVM module of this kernel."""
        f = Function(symbol, target)
        self.emit(f)
        return f.text(barrier)
