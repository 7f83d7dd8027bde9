"""What operations are given: tensors, arrays and numbers told apart, lined up, and refused with a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from ...errors import ArgumentError, NumberRangeError, ShapeError
from ...tape.modes import mode
from ...tensor import Tensor, wrap

__all__ = [
    "F32",
    "F64",
    "FLOATS",
    "PYTHON_NUMBERS",
    "SCALARS",
    "as_operand",
    "broadcast_error",
    "contents",
    "is_number",
    "is_operand",
    "kept_copy",
    "kept_empty",
    "known_array",
    "number_error",
    "python_int",
    "raise_rank",
    "scalar_array",
]

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
FLOATS = frozenset({F32, F64})
PYTHON_NUMBERS = frozenset({bool, int, float, complex})
SCALARS: dict[tuple[Any, np.dtype], ndarray] = {}


def scalar_array(value: Any, kind: np.dtype) -> ndarray:
    """A 0-d array of a number, remembered: NumPy takes arrays faster than Python numbers."""
    key = (value, kind)
    found = SCALARS.get(key)
    if found is None:
        if kind.kind in "iu" and isinstance(value, int):
            found = np.array(value & (2 ** (8 * kind.itemsize) - 1), f"u{kind.itemsize}").view(kind)  # wraps around
        else:
            wide = kind.kind == "V" and type(value) is int  # 16-bit floats take integers of 64 bits at most
            try:
                found = mode.call(np.asarray, float(value) if wide else value, kind)
            except OverflowError as error:
                raise NumberRangeError(f"a number that no {kind.name} can hold: {error}") from None
        if value == 0:  # 0.0 and -0.0 are equal keys
            return found
        if len(SCALARS) > 4096:
            SCALARS.clear()
        SCALARS[key] = found
    return found


def kept_copy(a: ndarray, kind: np.dtype) -> ndarray:
    """The elements in another type, in memory laid out like `a`; where elements share memory (stride 0), as NumPy does
    for results of operations, not for copies."""
    if 0 not in a.strides:
        return a.astype(kind)
    out = kept_empty(a, kind)
    np.copyto(out, a, casting="unsafe")
    return out


def kept_empty(a: ndarray, kind: np.dtype) -> ndarray:
    """An array of no values that lies in memory as an elementwise result of `a` does."""
    if 0 not in a.strides or not a.size:
        return np.empty_like(a, kind, subok=False)
    flags = [["readonly"], ["writeonly", "allocate"]]
    return np.nditer([a, None], [], flags, [a.dtype, kind], order="K", casting="unsafe").operands[1]


def is_operand(value: Any) -> bool:
    """Whether an operator takes it: tensors, numbers, NumPy arrays."""
    return isinstance(value, (Tensor, bool, int, float, complex, np.generic, ndarray))


def as_operand(value: Any) -> Any:
    return wrap(value) if isinstance(value, ndarray) else value


def is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex, np.generic))


def contents(x: Tensor, name: str) -> ndarray:
    """The values of a tensor, for operations whose results have sizes that depend on them. A trace computes them at
    once, and holds while they stay the same."""
    over = mode.interpreter
    return x.array if over is None or x._interpreter is not None else over.contents(x, name)


def known_array(x: Tensor, name: str) -> ndarray:
    """The values of a tensor, for what Python computes with them; in a trace only constants have any."""
    over = mode.interpreter
    return x.array if over is None or x._interpreter is not None else over.known(x, name)


def number_error(name: str, argument: str, value: Any) -> ArgumentError:
    """What to say to a number where only a tensor is taken."""
    return ArgumentError(
        f"{name}: argument '{argument}' must be a Tensor, not {type(value).__name__} {value!r}; wrap it in weft.tensor(...)"
    )


def python_int(value: Any, name: str) -> int:
    """An integer argument given as int, NumPy integer or one-element integer tensor."""
    try:
        return value.__index__()
    except (AttributeError, TypeError):
        raise ArgumentError(f"{name}: expected an integer, got {type(value).__name__} {value!r}") from None


def raise_rank(x: Tensor, rank: int) -> Tensor:
    """(B, *rest) → (B, 1, …, 1, *rest) with `rank` dimensions behind the batch."""
    missing = rank - (x.ndim - 1)
    return x.reshape(x.shape[0], *(1,) * missing, *x.shape[1:]) if missing > 0 else x


def broadcast_error(name: str, *shapes: tuple[int, ...]) -> ShapeError:
    """What to say when sizes do not broadcast: which dimension, which sizes."""
    rank = max(len(s) for s in shapes)
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    for d in reversed(range(rank)):
        sizes = {s[d] for s in padded} - {1}
        if len(sizes) > 1:
            first, second = [s[d] for s in padded if s[d] != 1][:2]
            if first == second:
                second = next(s[d] for s in padded if s[d] not in (1, first))
            return ShapeError(
                f"{name}: The size of tensor a ({first}) must match the size of tensor b ({second}) at non-singleton "
                f"dimension {d}; shapes {', '.join(str(tuple(s)) for s in shapes)} cannot be broadcast: reshape or "
                "unsqueeze one of them"
            )
    return ShapeError(f"{name}: shapes {', '.join(str(tuple(s)) for s in shapes)} cannot be combined")
