"""What an operation may tell the compiler about itself: each is optional, and what says nothing is computed by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["NativeForm"]


class NativeForm:
    """What is asked of whatever can stand in a node of a graph: operations, random numbers, loops, sources."""

    name: str

    lower: Callable | None = None  # (f, *operands, **params): an elementwise operation on one vector
    cost: int = 1  # of an element in native code, where an addition is 1
    unchanged: Callable | None = None  # (numbers, **params): which operand the result is, where known numbers tell
    native: Callable | None = None  # (node): an anchor, which asks for a kernel; None: not for this node
    parts: Callable | None = None  # (*tensors, **params): the same result in other operations
    planes: Callable | None = (
        None  # (*operands, **params): the same on the parts of complex numbers, ops/core/planes.py
    )
    pieces: Callable | None = None  # (out, *inputs, **params): a fill value, and the windows that inputs are copied to
    of_dense: Any = None  # the view that this copy is where memory lies dense
    exact: bool = False  # whether results are numbers of the inputs or their negatives: nothing is rounded
    halved: Any = None  # the same operation on float32 that is to be rounded to bfloat16, with a kernel for that
    transposes: bool = False  # whether f(a, b)ᵀ = f(bᵀ, aᵀ)
    checks: bool = False  # whether it only looks at indices, and ends the plan where one is wrong
    error: type[Exception] = Exception  # what it raises then
    bodies: tuple[Any, ...] = ()  # graphs inside: of a loop or a branch
    shared: bool = False  # whether other processes make the same call
    lent: bool = False  # whether its results lie in memory of others, for as long as the plan runs
    urgent: bool = False  # whether it runs as soon as what it reads is there, not when nothing else is left to do
