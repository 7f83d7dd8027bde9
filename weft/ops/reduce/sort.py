"""Order: sorting, the k largest, modes and medians.

What selects elements (sort, topk, median…) finds their places with a primitive that has no gradient
and takes the values with `gather`, so that gradients follow the places.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ... import dtypes
from ...dtypes import BOOL, COMPLEX, INTEGER
from ...errors import IndexRangeError
from ...sizes import wrap_dim
from ...tensor import Tensor, wrap
from ..core.operands import python_int
from ..core.primitive import operation, register_module
from ..core.results import named_result
from ..math.elementwise import where
from .extremes import Selected, taken
from .reduce import Along, axis_operation, need_elements, refuse, wide_enough

__all__ = ["sort", "sorting_kernel"]

# -------------------------------------------------------------------------------------- primitives


def sorting_kernel(name: str, *given: Any) -> Any:
    """The native form of a node; `name` is that of a function in kernels/sort/anchors.py."""
    from ...kernels.sort import anchors as anchors_sort

    return getattr(anchors_sort, name)(*given)


class Argsort(Along):
    """The places of the elements in order along `dim`: equal ones keep theirs, NaN is the largest."""

    differentiable, low_precision = False, True

    def reference(self, x, *, dim, descending):
        x = wide_enough(x)
        if not descending:
            return np.argsort(x, axis=dim, kind="stable")
        return np.flip(x.shape[dim] - 1 - np.argsort(np.flip(x, dim), axis=dim, kind="stable"), dim)

    def native(self, node):
        dim = node.params["dim"]
        return sorting_kernel("ordered", node, dim, node.params["descending"], "places", node.inputs[0].shape[dim])


class TopPlaces(Along):
    """The places of the k largest (or smallest) elements along `dim`, in order; NaN is the largest.

    The first of equal elements come first.
    """

    differentiable, low_precision = False, True

    def reference(self, x, *, k, dim, largest):
        x, n = wide_enough(x), x.shape[dim]
        if k == 0 or n < 16 * k or n < 256:
            return _front(Argsort.reference(self, x, dim=dim, descending=largest), k, dim)
        found = np.argpartition(x, n - k if largest else k - 1, axis=dim)
        found = _front(np.flip(found, dim) if largest else found, k, dim)
        values = np.take_along_axis(x, found, dim)
        edge = np.take_along_axis(x, _front(np.flip(found, dim), 1, dim), dim)  # the k-th in order
        tied = lambda x: ((x == edge) | ((x != x) & (edge != edge))).sum(dim)
        if (tied(x) > tied(values)).any():  # the first of equal ones are wanted, not some of them
            return _front(Argsort.reference(self, x, dim=dim, descending=largest), k, dim)
        found = np.sort(found, axis=dim)
        order = Argsort.reference(self, np.take_along_axis(x, found, dim), dim=dim, descending=largest)
        return np.take_along_axis(found, order, dim)

    def native(self, node):
        return sorting_kernel("first_few", node, node.params["dim"], node.params["k"], node.params["largest"])


def _front(x: np.ndarray, k: int, dim: int) -> np.ndarray:
    return x[(slice(None),) * dim + (slice(k),)]


class Argmode(Along):
    """The place of the most frequent element along `dim`: the smallest of equally frequent, its last place."""

    differentiable, low_precision = False, True

    def reference(self, x, *, dim):
        x = wide_enough(x)
        order = np.argsort(x, axis=dim, kind="stable")
        line = np.moveaxis(np.take_along_axis(x, order, dim), dim, -1)
        places = np.arange(line.shape[-1])
        before = np.concatenate([line[..., :1], line[..., :-1]], -1)
        run = places - np.maximum.accumulate(np.where(before != line, places, 0), axis=-1)
        longest = np.moveaxis(np.argmax(run, axis=-1, keepdims=True), -1, dim)
        return np.take_along_axis(order, longest, dim)

    def native(self, node):
        return sorting_kernel("ordered", node, node.params["dim"], False, "mode")


ARGSORT, TOP_PLACES, ARGMODE = Argsort(), TopPlaces(), Argmode()
register_module(__name__)

# ----------------------------------------------------------------------------------------- sorting


@named_result("sort")
class Sort(NamedTuple):
    values: Tensor
    indices: Tensor


@named_result("topk")
class Topk(NamedTuple):
    values: Tensor
    indices: Tensor


@named_result("kthvalue")
class Kthvalue(NamedTuple):
    values: Tensor
    indices: Tensor


@named_result("mode")
class Mode(NamedTuple):
    values: Tensor
    indices: Tensor


def order_of(x: Tensor, dim: int, descending: bool, name: str) -> Tensor:
    """The places of the elements of x in order along `dim`."""
    refuse(x.is_complex(), name, x.dtype, "complex numbers have no order: sort .abs()")
    d = wrap_dim(dim, x.ndim, name)
    if x.ndim == 0:
        return ARGSORT(x.unsqueeze(0), dim=0, descending=False).squeeze(0)
    return ARGSORT(x, dim=d, descending=bool(descending))


@axis_operation()
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Sort:
    """(values, indices) in ascending or descending order along `dim`; always stable, NaN is the largest."""
    indices = order_of(input, dim, descending, "sort")
    return Sort(input.clone() if input.ndim == 0 else input.gather(wrap_dim(dim, input.ndim, "sort"), indices), indices)


@axis_operation(differentiable=False)
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that sort the tensor along `dim`."""
    return order_of(input, dim, descending, "argsort")


@operation(out=True)
def msort(input: Tensor) -> Tensor:
    """The elements in ascending order along the first dimension."""
    return sort(input, 0).values


@axis_operation()
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Topk:
    """(values, indices) of the k largest (or smallest) elements along `dim`, in order."""
    refuse(input.dtype.category in (BOOL, COMPLEX), "topk", input.dtype)
    d, k = wrap_dim(dim, input.ndim, "topk"), python_int(k, "topk")
    size = input.shape[d] if input.ndim else 1
    if not 0 <= k <= size:
        raise IndexRangeError(f"topk: selected index k out of range: k={k}, but dim {d} has size {size}")
    if input.ndim == 0:
        return Topk(input.clone(), order_of(input, 0, False, "topk"))
    indices = TOP_PLACES(input, k=k, dim=d, largest=bool(largest))
    return Topk(input.gather(d, indices), indices)


@axis_operation(exact_out=True)
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Kthvalue:
    """(values, indices) of the k-th smallest element (counted from 1) along `dim`."""
    refuse(input.dtype.category in (BOOL, COMPLEX), "kthvalue", input.dtype)
    d, k = wrap_dim(dim, input.ndim, "kthvalue"), python_int(k, "kthvalue")
    if input.ndim:
        need_elements(input, (d,), "kthvalue")
    size = input.shape[d] if input.ndim else 1
    if not 1 <= k <= size:
        raise IndexRangeError(
            f"kthvalue: selected number k out of range for dimension {d}: k={k}, the size is {size} (k counts from 1)"
        )
    order = order_of(input, dim, False, "kthvalue")
    return Kthvalue(*taken(input, order.narrow(d, k - 1, 1).contiguous() if input.ndim else order, d, keepdim))


@axis_operation()
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Mode:
    """(values, indices) of the most frequent element along `dim`, the smallest of equally frequent ones."""
    d = wrap_dim(dim, input.ndim, "mode")
    if input.ndim == 0:
        return Mode(input.clone(), order_of(input != input, 0, False, "mode"))
    refuse(input.is_complex() and input.numel() > 0, "mode", input.dtype, "complex numbers have no order")
    need_elements(input, (d,), "mode")
    return Mode(*taken(input, ARGMODE(input, dim=d), d, keepdim))


# ------------------------------------------------------------------------------------------ medians


@named_result("median")
class Median(NamedTuple):
    values: Tensor
    indices: Tensor


@named_result("nanmedian")
class Nanmedian(NamedTuple):
    values: Tensor
    indices: Tensor


class MedianOfAll(Selected):
    """The lower median of a line, NaN if there is one; equal elements share the gradient."""

    def reference(self, x, *, dim, keepdim):
        x = np.sort(wide_enough(x), axis=dim[0]).astype(x.dtype)
        n = x.shape[dim[0]]
        middle = np.take(x, (n - 1) // 2, axis=dim[0])
        last = np.take(x, n - 1, axis=dim[0])
        return np.where(last != last, last, middle)

    def native(self, node):
        return sorting_kernel("median", node, node.params["dim"][0], False)


class NanMedianOfAll(Selected):
    """The lower median of the elements of a line that are not NaN; equal elements share the gradient."""

    def reference(self, x, *, dim, keepdim):
        line = np.sort(np.moveaxis(wide_enough(x), dim[0], -1), axis=-1)
        known = (line == line).sum(-1, keepdims=True)
        place = np.maximum((known - 1) // 2, 0)
        return np.take_along_axis(line, place, -1)[..., 0].astype(x.dtype)

    def native(self, node):
        return sorting_kernel("median", node, node.params["dim"][0], True)


MEDIAN_OF_ALL, NAN_MEDIAN_OF_ALL = MedianOfAll(), NanMedianOfAll()


def _median_of_nothing(x: Tensor) -> Tensor:
    """NaN; for integers the number that NaN is converted to."""
    if x.dtype.category == INTEGER:
        return wrap(np.array(np.iinfo(x.dtype.np).min, x.dtype.np))
    return (x.to(x.dtype if x.is_floating_point() else dtypes.float64).sum() + math.nan).to(x.dtype)


def _median(x: Tensor, dim: int | None, keepdim: bool, name: str) -> Any:
    if dim is None and x.numel() == 0:
        return _median_of_nothing(x)
    refuse(x.dtype.category in (BOOL, COMPLEX), name, x.dtype)
    if dim is None:
        return (MEDIAN_OF_ALL if name == "median" else NAN_MEDIAN_OF_ALL)(x.reshape(-1), dim=(0,), keepdim=False)
    d = wrap_dim(dim, x.ndim, name)
    order = order_of(x, dim, False, name)
    if x.ndim == 0:
        return x.clone(), order
    need_elements(x, (d,), name)
    n = x.shape[d]
    if not x.is_floating_point():
        return taken(x, order.narrow(d, (n - 1) // 2, 1), d, keepdim)
    known = (~x.isnan()).sum(d, keepdim=True)
    if name == "median":
        place = where(known < n, known, (n - 1) // 2)  # the first NaN, if there is one
    else:
        place = ((known - 1).clamp(min=0) / 2).long()
    return taken(x, order.gather(d, place), d, keepdim)


@axis_operation()
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of all elements; with `dim` (values, indices) along it. NaN if there is one."""
    found = _median(input, dim, keepdim, "median")
    return found if dim is None else Median(*found)


@axis_operation()
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """`median` of the elements that are not NaN."""
    found = _median(input, dim, keepdim, "nanmedian")
    return found if dim is None else Nanmedian(*found)
