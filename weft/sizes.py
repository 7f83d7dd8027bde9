"""The sizes of a tensor, and the numbers of its dimensions."""

from __future__ import annotations

from typing import Any

from .errors import ArgumentError, IndexRangeError, ShapeError

__all__ = ["Size", "wrap_dim", "wrap_dims"]


class Size(tuple):
    """The sizes of a tensor: a tuple that can count its elements."""

    __slots__ = ()

    def numel(self) -> int:
        count = 1
        for size in self:
            count *= size
        return count

    def __repr__(self) -> str:
        return f"weft.Size({list(self)})"

    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return Size(found) if isinstance(key, slice) else found

    def __add__(self, other: tuple) -> Size:
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: tuple) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple.__add__(tuple(other), self))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Size, (tuple(self),))


Size.__module__ = "weft"  # where users find it: `type(x.shape)` prints so


def wrap_dim(dim: int, ndim: int, name: str) -> int:
    """A dimension number in 0…ndim−1 from one in −ndim…ndim−1 (0-d tensors act as if 1-d)."""
    count = max(ndim, 1)
    try:
        dim = dim.__index__()
    except (AttributeError, TypeError):
        raise ArgumentError(f"{name}: a dimension must be an integer, got {type(dim).__name__}") from None
    if not -count <= dim < count:
        raise IndexRangeError(
            f"{name}: Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {dim})"
        )
    return dim % count


def own_dim(dim: int, ndim: int, name: str) -> int:
    """The same of a tensor that has to have it: one without dimensions has no first."""
    if not ndim:
        raise IndexRangeError(f"{name}: dimension {dim} was asked for, but the tensor has no dimensions")
    return wrap_dim(dim, ndim, name)


def wrap_dims(dims: Any, ndim: int, name: str) -> tuple[int, ...]:
    """Several dimension numbers (an int, a sequence, or None for all), checked for repetition."""
    if dims is None:
        return tuple(range(ndim))
    if not isinstance(dims, (tuple, list)):
        dims = (dims,)
    found = tuple(wrap_dim(d, ndim, name) for d in dims)
    if len(set(found)) != len(found):
        repeated = next(d for d in found if found.count(d) > 1)
        raise ShapeError(f"{name}: dim {repeated} appears multiple times in the list of dims {tuple(dims)}")
    return found if ndim else ()
