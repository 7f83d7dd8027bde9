"""Arrays that have a geometry but no values: what tensors hold that are made during a trace, and what the tracer knows
tensors by that were there before. NumPy finds sizes, strides and addresses in them; whoever asks for values is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import TraceError
from ...ops.core import pointwise
from ...runtime.frames import is_ours
from ...tape.modes import mode
from ..graph.graph import Value

__all__ = ["Memory", "Stand", "no_values", "plain", "stand_in", "user_line"]

REMEDY = (
    "use weft.where, cond, while_loop or scan, move that part out of the compiled function, or pass fallback='eager' "
    "to weft.compile"
)


def user_line() -> str:
    """'file:line' of the innermost frame outside the package."""
    frame = sys._getframe(1)
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""


def no_values(what: str = "its values were asked for") -> TraceError:
    return TraceError(f"compile: at {user_line()} a tensor was used in a way that needs numbers: {what}; {REMEDY}")


# -------------------------------------------------------------------------------------- stand-ins


class Memory:
    """What lies under a tensor and all its views: the value it holds now, as the array `root` sees it."""

    def __init__(self, tracer: Any, root: np.ndarray, value: Value | None, constant: bool = False) -> None:
        self.tracer, self.root, self.value, self.version = tracer, root, value, 0
        self.constant = constant  # whether `root` itself holds the values, until it is written to
        self.scope = tracer.scopes[-1]  # the body of control flow in which it was made


_shape, _size = np.ndarray.shape.__get__, np.ndarray.size.__get__


class Stand(np.ndarray):
    """Sizes, strides and address of an array whose values are known only when the plan runs.

    `value` is what it showed when `memory` was at `version`.
    """

    memory: Memory | None = None
    value: Value | None = None
    version = 0
    origin: np.ndarray | None = None
    selection: Any = None  # the mask that chose its elements: how many they are should not be known

    @property
    def shape(self) -> tuple[int, ...]:
        if self.selection is not None:
            self.selection.look()
        return _shape(self)

    @property
    def size(self) -> int:
        if self.selection is not None and sys._getframe(1).f_globals["__name__"] != pointwise.__name__:
            self.selection.look()  # there it is only asked whether it is large, before it is known that there is a trace
        return _size(self)

    def __len__(self) -> int:
        return self.shape[0]

    def __array_function__(self, function: Callable, types: Any, args: Any, kwargs: Any) -> Any:
        if function in _GEOMETRIC:
            return function(*(plain(a) if isinstance(a, Stand) else a for a in args), **kwargs)
        raise _left_over() if mode.interpreter is None else no_values(f"numpy.{function.__name__}")

    def __array_ufunc__(self, ufunc: np.ufunc, *_: Any, **__: Any) -> Any:
        raise _left_over() if mode.interpreter is None else no_values(f"numpy.{ufunc.__name__}")

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise _left_over() if mode.interpreter is None else no_values()

    item = tolist = tobytes = astype = copy = __bool__ = __int__ = __float__ = __complex__ = __index__ = _refuse
    __setitem__ = fill = any = all = max = min = sum = _refuse

    def __repr__(self) -> str:
        return f"Stand({self.value})"


_GEOMETRIC = frozenset({np.empty_like, np.may_share_memory})  # what looks at sizes and addresses only


def _left_over() -> TraceError:
    return TraceError(
        "compile: a tensor made while a function was traced is used outside of it; return it from the compiled "
        "function instead of storing it elsewhere"
    )


def stand_in(array: np.ndarray, memory: Memory, value: Value | None) -> Stand:
    """A stand-in with the geometry of `array`; its value is current unless it is None."""
    made = array.view(Stand)
    made.memory, made.value, made.version = memory, value, memory.version if value is not None else -1
    made.origin = array  # kept alive: stand-ins of plain arrays are found by its identity
    return made


def plain(stand: Stand) -> np.ndarray:
    """The geometry alone, as an array that NumPy's functions take."""
    if stand.selection is not None:
        stand.selection.look()
    return stand.view(np.ndarray)
