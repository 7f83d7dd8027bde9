"""How the spatial functions read their arguments: one number or one for each dimension, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import ArgumentError, DtypeError, ShapeError
from ...ops.core.operands import python_int
from ...tensor import Tensor

__all__ = ["batched", "check_not_empty", "per_dimension", "same_dtype", "spatial", "spread", "total"]


def per_dimension(value: Any, n: int, name: str, what: str, lowest: int | None = None) -> tuple[int, ...]:
    """An integer for each of n dimensions, from one integer or a sequence of 1 or n."""
    if isinstance(value, (tuple, list)):
        if len(value) not in (1, n):
            raise ShapeError(
                f"{name}: expected {what} to be a single integer value or a list of {n} values to match the "
                f"{n} spatial dimensions, but got {what}={list(value)}"
            )
        found = tuple(python_int(v, name) for v in value) * (n if len(value) == 1 else 1)
    else:
        found = (python_int(value, name),) * n
    if lowest is not None and any(v < lowest for v in found):
        kind = "greater than zero" if lowest == 1 else "non-negative"
        raise ShapeError(f"{name}: {what} should be {kind}, but got {list(found)}")
    return found


def spread(value: Any, n: int) -> tuple[int, ...]:
    """What a layer keeps of an argument: a sequence as it is, one number for each of n dimensions; calls check it."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * n


def batched(input: Tensor, n: int, name: str, channels: bool = True) -> tuple[Tensor, bool]:
    """The input with a batch dimension (N, C, *spatial), and whether it had to be added."""
    if not isinstance(input, Tensor):
        raise ArgumentError(f"{name}: argument 'input' must be a Tensor, got {type(input).__name__}")
    rank = n + channels
    if input.ndim not in (rank, rank + 1):
        raise ShapeError(
            f"{name}: Expected {rank}D (unbatched) or {rank + 1}D (batched) input to {name}, but got input of "
            f"size: {list(input.shape)}"
        )
    return (input.unsqueeze(0), True) if input.ndim == rank else (input, False)


def check_not_empty(input: Tensor, n: int, name: str) -> None:
    """All sizes but the batch must be positive: there is no window on nothing."""
    rank = n + 1
    if 0 in input.shape[input.ndim - rank :]:
        raise ShapeError(
            f"{name}: Expected {rank}D or {rank + 1}D (batch mode) tensor with optional 0 dim batch size for input, "
            f"but got: {list(input.shape)}"
        )


def same_dtype(name: str, input: Tensor, **others: Tensor | None) -> None:
    """Refuse a weight or bias of another element type than the input."""
    for what, other in others.items():
        if other is not None and other.dtype is not input.dtype:
            raise DtypeError(
                f"{name}: Input type ({input.dtype}) and {what} type ({other.dtype}) should be the same; "
                "convert one with .to(...)"
            )


def spatial(x: Tensor, n: int) -> tuple[int, ...]:
    """The sizes of the last n dimensions."""
    return tuple(x.shape[x.ndim - n :])


def total(sizes: Sequence[int]) -> int:
    """The product of sizes."""
    product = 1
    for size in sizes:
        product *= size
    return product
