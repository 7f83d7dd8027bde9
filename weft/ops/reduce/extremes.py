"""Largest and smallest elements along some dimensions, and where they lie."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...dtypes import BOOL, COMPLEX
from ...errors import ArgumentError, IndexRangeError
from ...sizes import wrap_dim
from ...tensor import Tensor, wrap
from ..core.primitive import Reduction, register_module
from ..core.results import named_result
from ..math.elementwise import where
from .reduce import Along, all_or, axis_operation, need_elements, refuse, restored, wide_enough
from .reduce import sum as total

__all__ = ["Selected", "taken"]


class Selected(Reduction, abstract=True):
    """y is one of the elements: all that are equal to it share the gradient (NaN equals NaN)."""

    accumulate = False

    def vjp(self, g, y, x, *, dim, keepdim):
        y = restored(y, dim, keepdim)
        chosen = ((x == y) | (x.isnan() & y.isnan())).to(g.dtype)
        return (restored(g, dim, keepdim) / total(chosen, dim, True) * chosen,) if dim else (g,)


def extremes(kind: str) -> tuple[float, float]:
    """The least and greatest number of a native type."""
    if kind in ("f32", "f64"):
        return -math.inf, math.inf
    if kind[0] == "u" or kind == "i1":
        return 0, (1 << int(kind[1:])) - 1
    half = 1 << int(kind[1:]) - 1
    return -half, half - 1


class Amax(Selected):
    """The largest element over `dim`; NaN counts as the largest."""

    def reference(self, x, *, dim, keepdim):
        return np.maximum.reduce(x, axis=dim, keepdims=keepdim)

    def combine(self, f, a, b):
        return f.maximum(a, b)

    def identity(self, kind):
        return extremes(kind)[0]


class Amin(Selected):
    """The smallest element over `dim`; NaN counts as the smallest."""

    def reference(self, x, *, dim, keepdim):
        return np.minimum.reduce(x, axis=dim, keepdims=keepdim)

    def combine(self, f, a, b):
        return f.minimum(a, b)

    def identity(self, kind):
        return extremes(kind)[1]


class Argmax(Along):
    """The place of the (first) largest element; a NaN counts as the largest."""

    differentiable, low_precision = False, True

    def reference(self, x, *, dim, keepdim):
        return np.argmax(wide_enough(x), axis=dim, keepdims=keepdim)

    def parts(self, x, *, dim, keepdim):
        return _first_place(x, AMAX(x, dim=(dim,), keepdim=True), dim, keepdim)


class Argmin(Along):
    """The place of the (first) smallest element; a NaN counts as the smallest."""

    differentiable, low_precision = False, True

    def reference(self, x, *, dim, keepdim):
        return np.argmin(wide_enough(x), axis=dim, keepdims=keepdim)

    def parts(self, x, *, dim, keepdim):
        return _first_place(x, AMIN(x, dim=(dim,), keepdim=True), dim, keepdim)


def _first_place(x: Tensor, extreme: Tensor, dim: int, keepdim: bool) -> Tensor:
    """Where along `dim` the first element lies that is the extreme, or NaN."""
    count = x.shape[dim]
    kind = np.int32 if count < 2**31 else np.int64
    places = wrap(np.arange(count, dtype=kind)).reshape(-1, *(1,) * (x.ndim - dim - 1))
    found = (x == extreme) | (x != x)
    return AMIN(where(found, places, wrap(np.array(count, kind))), dim=(dim,), keepdim=keepdim).long()


AMAX, AMIN, ARGMAX, ARGMIN = Amax(), Amin(), Argmax(), Argmin()
register_module(__name__)


def _extreme(primitive: Reduction, x: Tensor, dim: Any, keepdim: bool, name: str) -> Tensor:
    refuse(x.is_complex() and x.numel() > 0, name, x.dtype, "complex numbers have no order: compare .abs()")
    dims = all_or(dim, x.ndim, name)
    need_elements(x, dims, name)
    return primitive(x, dim=dims, keepdim=bool(keepdim))


@axis_operation(kind="Reduction", primitive=AMAX)
def amax(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The largest element over the given dimensions; equal ones share the gradient."""
    return _extreme(AMAX, input, dim, keepdim, "amax")


@axis_operation(kind="Reduction", primitive=AMIN)
def amin(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The smallest element over the given dimensions; equal ones share the gradient."""
    return _extreme(AMIN, input, dim, keepdim, "amin")


@named_result("aminmax")
class Aminmax(NamedTuple):
    min: Tensor
    max: Tensor


@axis_operation(exact_out=True)
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Aminmax:
    """(min, max) over one dimension or all."""
    return Aminmax(
        _extreme(AMIN, input, dim, keepdim, "aminmax"),
        _extreme(AMAX, input, dim, keepdim, "aminmax"),
    )


def _place(primitive: Along, x: Tensor, dim: int | None, keepdim: bool, name: str) -> Tensor:
    refuse(x.dtype.category in (BOOL, COMPLEX), name, x.dtype)
    if dim is None:
        if x.numel() == 0:
            raise IndexRangeError(
                f"{name}: Expected reduction dim to be specified for input.numel() == 0: the tensor of shape "
                f"{tuple(x.shape)} is empty and has no such element"
            )
        place = primitive(x.reshape(-1), dim=0, keepdim=False)
        return place.reshape((1,) * x.ndim) if keepdim else place
    return place_along(primitive, x, dim, keepdim, name)


def place_along(primitive: Along, x: Tensor, dim: int, keepdim: bool, name: str) -> Tensor:
    """The indices of the chosen elements along `dim`."""
    d = wrap_dim(dim, x.ndim, name)
    if x.ndim == 0:
        return primitive(x.unsqueeze(0), dim=0, keepdim=False)
    need_elements(x, (d,), name)
    return primitive(x, dim=d, keepdim=bool(keepdim))


@axis_operation(differentiable=False)
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of the largest element (of the flattened tensor, or along `dim`)."""
    return _place(ARGMAX, input, dim, keepdim, "argmax")


@axis_operation(differentiable=False)
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of the smallest element (of the flattened tensor, or along `dim`)."""
    return _place(ARGMIN, input, dim, keepdim, "argmin")


def taken(x: Tensor, indices: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The elements at `indices` (one along `dim`, which is kept), and the indices."""
    if x.ndim == 0:
        return x.unsqueeze(0).gather(0, indices.reshape(1)).squeeze(0), indices
    values = x.gather(dim, indices)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


@named_result("max")
class Max(NamedTuple):
    values: Tensor
    indices: Tensor


@named_result("min")
class Min(NamedTuple):
    values: Tensor
    indices: Tensor


def _max_or_min(input: Tensor, dim: Any, keepdim: bool, other: Any, name: str) -> Any:
    """The three meanings of `max` and `min`: of all elements, along a dimension, of two tensors."""
    if not isinstance(input, Tensor):
        raise ArgumentError(f"{name}: argument 'input' must be a Tensor, got {type(input).__name__}")
    if isinstance(dim, Tensor):
        other = dim
    if other is not None:
        return input.maximum(other) if name == "max" else input.minimum(other)
    if dim is None:
        return _extreme(AMAX if name == "max" else AMIN, input, (), keepdim, name)
    refuse(input.is_complex(), name, input.dtype, "complex numbers have no order: compare .abs()")
    indices = place_along(ARGMAX if name == "max" else ARGMIN, input, dim, True, name)
    return (Max if name == "max" else Min)(*taken(input, indices, wrap_dim(dim, input.ndim, name), keepdim))


@axis_operation()
def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
    """The largest element; with `dim` (values, indices) along it; with a second tensor the elementwise maximum."""
    return _max_or_min(input, dim, keepdim, other, "max")


@axis_operation()
def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
    """The smallest element; with `dim` (values, indices) along it; with a second tensor the elementwise minimum."""
    return _max_or_min(input, dim, keepdim, other, "min")
