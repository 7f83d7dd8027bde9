"""Reductions: sums, norms, extremes, and the places of extremes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import weft

from ...tensor import Tensor
from .registry import ints, rule

Reduce = Callable[[Tensor, tuple[int, ...], bool], Tensor]


def _extreme(fill: Callable[[np.dtype], float | bool], function: Reduce) -> Reduce:
    """A maximum or minimum, of no elements the limit of the type."""

    def reduced(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
        if x.dtype is weft.bool:
            return function(x.to(weft.uint8), axes, keep).to(weft.bool) if x.numel() else _empty(x, axes, keep, fill)
        return function(x, axes, keep) if x.numel() else _empty(x, axes, keep, fill)

    return reduced


def _empty(x: Tensor, axes: tuple[int, ...], keep: bool, fill: Callable[[np.dtype], float | bool]) -> Tensor:
    shape = [1 if k in axes else n for k, n in enumerate(x.shape) if keep or k not in axes]
    return weft.full(shape, fill(x.dtype.np), dtype=x.dtype)


def _lowest(kind: np.dtype) -> float | bool:
    return False if kind == np.dtype(bool) else -np.inf if kind.kind not in "iu" else int(np.iinfo(kind).min)


def _highest(kind: np.dtype) -> float | bool:
    return True if kind == np.dtype(bool) else np.inf if kind.kind not in "iu" else int(np.iinfo(kind).max)


def _product(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keepdim=keep)
    return x


REDUCTIONS: dict[str, Reduce] = {
    "ReduceSum": lambda x, axes, keep: x.sum(axes, keepdim=keep),
    "ReduceMean": lambda x, axes, keep: (
        x.mean(axes, keepdim=keep) if x.is_floating_point() else x.to(weft.float64).mean(axes, keepdim=keep)
    ),
    "ReduceProd": _product,
    "ReduceMax": _extreme(_lowest, lambda x, axes, keep: x.amax(axes, keepdim=keep)),
    "ReduceMin": _extreme(_highest, lambda x, axes, keep: x.amin(axes, keepdim=keep)),
    "ReduceL1": lambda x, axes, keep: x.abs().sum(axes, keepdim=keep),
    "ReduceL2": lambda x, axes, keep: (x * x).sum(axes, keepdim=keep).sqrt(),
    "ReduceSumSquare": lambda x, axes, keep: (x * x).sum(axes, keepdim=keep),
    "ReduceLogSum": lambda x, axes, keep: x.sum(axes, keepdim=keep).log(),
    "ReduceLogSumExp": lambda x, axes, keep: (
        weft.logsumexp(x, axes, keepdim=keep) if x.numel() else x.exp().sum(axes, keepdim=keep).log()
    ),
}


def _reduced(function: Reduce, x: Tensor, axes: Sequence[int] | None, keepdims: int, does_nothing: int = 0) -> Tensor:
    if not axes and does_nothing:
        return x
    chosen = tuple(range(x.ndim)) if not axes else tuple(sorted({a % x.ndim for a in axes}))
    return (
        function(x, chosen, bool(keepdims)).to(x.dtype) if chosen else function(x.reshape(1), (0,), False).to(x.dtype)
    )


def _enter(name: str, function: Reduce) -> None:
    @rule(name)
    def by_attribute(x: Tensor, *, axes: list[int] | None = None, keepdims: int = 1) -> Tensor:
        return _reduced(function, x, axes, keepdims)

    @rule(name, 13 if name == "ReduceSum" else 18, numbers=(1,))
    def by_input(
        x: Tensor, axes: np.ndarray | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Tensor:
        chosen = None if axes is None else ints(axes)
        if not chosen and noop_with_empty_axes:
            return _elementwise(name, x)
        return _reduced(function, x, chosen, keepdims)


def _elementwise(name: str, x: Tensor) -> Tensor:
    """What a reduction over no axes leaves: its function of the elements."""
    if name in ("ReduceL1", "ReduceL2"):
        return x.abs()
    if name == "ReduceSumSquare":
        return x * x
    return x.log() if name == "ReduceLogSum" else x


for _name, _function in REDUCTIONS.items():
    _enter(_name, _function)


@rule("ArgMax")
def arg_max(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return _place(x, weft.argmax, axis, keepdims, select_last_index)


@rule("ArgMin")
def arg_min(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return _place(x, weft.argmin, axis, keepdims, select_last_index)


def _place(x: Tensor, function: Callable[..., Tensor], axis: int, keepdims: int, last: int) -> Tensor:
    if not last:
        return function(x, axis, keepdim=bool(keepdims))
    return x.shape[axis] - 1 - function(x.flip(axis), axis, keepdim=bool(keepdims))
