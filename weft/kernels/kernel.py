"""What every kernel is: a structure that names itself and can write itself as native code."""

from __future__ import annotations

from typing import Any

from .llvm.builder import Function

__all__ = ["Kernel"]


class Kernel:
    """One native function. Its structure (sizes, strides, operations) is fixed; buffers come as argument words.

    Two kernels with equal `key()` are the same code. The memory that a kernel asks for comes in argument words of its own:
    those that it names, or the ones after its operands.
    """

    flops: int = 0
    pace: int = 1  # how much faster its arithmetic can be than multiply-adds of float32
    nbytes: int = 0
    serial: bool = False  # too small to be shared between threads
    most_threads: int = (
        0  # too small for more threads than this; 0: for any number. Not for kernels in which threads meet
    )
    workspace: int = 0  # bytes of memory that threads share during the kernel
    workspace_word: int | None = None
    scratch: int = 0  # bytes of private memory of each thread, one after the other
    scratch_word: int | None = None
    flag: int | None = (
        None  # the word of the address where a wrong index is told; the next one has the number of the node
    )
    halts: bool = False  # a wrong index ends the plan early
    meeting: int = 0  # words behind all others that the plan fills at each run: about other processes

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
