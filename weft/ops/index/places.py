"""The primitives of indexing by integer tensors: read places, add into them, replace them, combine with them.

Everything in `index.py` and `scatter.py` is made of these. The index tensors broadcast together (to I) and
stand for consecutive dimensions; a batch in front (vmap) is one more index tensor, an arange.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import IndexRangeError
from ...runtime.lazy import LazyModule
from ...tape.interpreter import interpreter_of
from ...tensor import Tensor, wrap
from ..core.formula import DROP, LOOK, SAVE
from ..core.operands import F32, raise_rank
from ..core.primitive import LOW_NUMPY, Indexing, register_module, summed_to
from ..math.elementwise import where

__all__ = ["ADD_AT", "COMBINE_AT", "INDEX", "PUT_AT", "along", "check_places"]

sparse = LazyModule("scipy.sparse")

SPARSE_FROM = 1024  # number of added elements from which a sparse product beats np.add.at


def out_of_range(index: np.ndarray, size: int, dim: int, name: str) -> IndexRangeError:
    """The error that names the first index outside of −size … size − 1."""
    wrong = index[(index < -size) | (index >= size)]
    return IndexRangeError(
        f"{name}: index {int(wrong.flat[0])} is out of bounds for dimension {dim} with size {size}; valid are "
        f"{-size} to {size - 1}"
    )


def flat_index(indices: Sequence[np.ndarray], sizes: Sequence[int], name: str = "index", first: int = 0) -> np.ndarray:
    """One index into the flattened dimensions for several index arrays into each; ranges are checked."""
    total = None
    for number, (index, size) in enumerate(zip(indices, sizes, strict=True)):
        if index.size:
            low, high = index.min(), index.max()
            if high >= size or low < -size:
                raise out_of_range(index, size, first + number, name)
            if low < 0:
                index = np.where(index < 0, index + size, index)
        total = index if total is None else total * size + index
    return total


def scattered_sum(places: np.ndarray, rows: np.ndarray, count: int) -> np.ndarray:
    """(N,), (N, D) → (count, D): row n is added at places[n]; low precision adds up in float32."""
    kind = rows.dtype
    rows = rows.astype(F32) if kind in LOW_NUMPY else rows
    if rows.size >= SPARSE_FROM and rows.dtype.kind in "fc":
        one = np.ones(len(places), rows.dtype)
        matrix = sparse.csc_array((one, places, np.arange(len(places) + 1)), shape=(count, len(places)))
        out = matrix @ rows
    else:
        out = np.zeros((count, rows.shape[1]), rows.dtype)
        np.add.at(out, places, rows)
    return out if out.dtype == kind else out.astype(kind)


def _align(indices: Sequence[Tensor], batched: Sequence[bool]) -> list[Tensor]:
    """Index tensors of which some carry a batch in front, raised so that they broadcast to (B, *I) or to I."""
    rank = max(i.ndim - b for i, b in zip(indices, batched, strict=True))
    return [raise_rank(i, rank) if b else i for i, b in zip(indices, batched, strict=True)]


def _counter(size: int, rank: int) -> Tensor:
    """0 … size − 1 along the first of 1 + rank dimensions: the index of the batch."""
    return wrap(np.arange(size).reshape(size, *(1,) * rank))


def _zero(g: Tensor) -> Tensor:
    return wrap(np.zeros((), g.dtype.np))


def _full(x: Tensor, batched: bool, size: int) -> Tensor:
    return x if batched else x.expand(size, *x.shape)


class Index(Indexing):
    """y = x[:, …, i₁, i₂, …]: `at` dimensions are kept in front, the next ones are read at the index tensors."""

    linear = (0,)

    def reference(self, x, *indices, at=0):
        if len(indices) == 1:
            try:
                return np.take(x, indices[0], axis=at)
            except IndexError:
                raise out_of_range(indices[0], x.shape[at], at, "index") from None
        kept, sizes, rest = x.shape[:at], x.shape[at : at + len(indices)], x.shape[at + len(indices) :]
        if x.flags.c_contiguous and x.size:
            flat = flat_index(indices, sizes, "index", at)
            return np.take(x.reshape(*kept, math.prod(sizes), *rest), flat, axis=at)
        flat_index(indices, sizes, "index", at)
        return np.ascontiguousarray(x[(slice(None),) * at + indices])

    def shapes(self, x, *indices, at=0):
        places = np.broadcast_shapes(*(i.shape for i in indices))
        return (*x.shape[:at], *places, *x.shape[at + len(indices) :]), x.dtype

    def _make_plan(self, needs):
        return DROP, (LOOK, *(SAVE,) * (len(needs) - 1))

    def vjp(self, g, y, x, *indices, at=0):
        sizes = tuple(x.shape[at : at + len(indices)])
        return (ADD_AT(g, *indices, sizes=sizes, at=at), *(None for _ in indices))

    def native(self, node):
        from ...kernels.memory.anchors import read_at

        return read_at(node, node.inputs[0], node.inputs[1:], node.params.get("at", 0))

    def batch(self, inputs, batched, size, params):
        x, *indices = inputs
        at = params.get("at", 0)
        if not any(batched[1:]):
            return INDEX(x, *indices, at=at + 1)
        aligned = _align(indices, batched[1:])
        rank = max(i.ndim for i in aligned) - 1
        if not batched[0]:
            y = INDEX(x, *aligned, at=at)  # (kept, B, I, rest)
            return y.movedim(at, 0) if at else y
        front = x.movedim(tuple(range(1, at + 1)), tuple(range(-at, 0))) if at else x  # (B, indexed, rest, kept)
        y = INDEX(front, _counter(size, rank), *aligned, at=0)  # (B, I, rest, kept)
        return y.movedim(tuple(range(-at, 0)), tuple(range(1, at + 1))) if at else y


class CheckPlaces(Indexing):
    """An error where an index is outside of low … size − 1 (and not `skip`); else nothing of interest.

    It stands in graphs, where values are not known when an operation is called: `check_places` is what calls it.
    """

    differentiable = False
    checks = True
    error = IndexRangeError

    def reference(self, index, *, low, size, skip, dim, name):
        wrong = (index < low) | (index >= size)
        wrong = wrong if skip is None else wrong & (index != skip)
        if wrong.any():
            params = {"low": low, "size": size, "skip": skip, "dim": dim, "name": name}
            raise IndexRangeError(self.message(int(index[wrong].flat[0]), **params))
        return np.zeros((), np.bool_)

    def message(self, index: int, *, low: int, size: int, skip: int | None, dim: int, name: str) -> str:
        return f"{name}: index {index} is out of bounds for dimension {dim} with size {size}; valid are {low} to {size - 1}"

    def shapes(self, index, **params):
        return (), np.dtype(np.bool_)

    def native(self, node):
        from ...kernels.memory.anchors import check_places

        return check_places(node)

    def batch(self, inputs, batched, size, params):
        return CHECK_PLACES(*inputs, **params).expand(size)


class AddAt(Indexing):
    """Zeros whose dimensions at … are `sizes`, with x added at the index tensors: the adjoint of Index."""

    linear = (0,)

    def reference(self, x, *indices, sizes, at=0):
        places = flat_index(indices, sizes)
        front = np.moveaxis(x, range(at, at + places.ndim), range(places.ndim)) if at else x  # (I, kept, rest)
        rest = front.shape[places.ndim :]
        rows = front.reshape(places.size, math.prod(rest))
        out = scattered_sum(places.ravel(), rows, math.prod(sizes)).reshape(*sizes, *rest)
        return np.moveaxis(out, range(len(sizes)), range(at, at + len(sizes))) if at else out

    def shapes(self, x, *indices, sizes, at=0):
        rank = len(np.broadcast_shapes(*(i.shape for i in indices)))
        return (*x.shape[:at], *sizes, *x.shape[at + rank :]), x.dtype

    def _make_plan(self, needs):
        return DROP, (DROP, *(SAVE,) * (len(needs) - 1))

    def vjp(self, g, y, x, *indices, sizes, at=0):
        return (INDEX(g, *indices, at=at), *(None for _ in indices))

    def native(self, node):
        from ...kernels.memory.anchors import add_at

        return add_at(node, node.inputs[0], node.inputs[1:], node.params.get("at", 0))

    def batch(self, inputs, batched, size, params):
        x, *indices = inputs
        sizes, at = params["sizes"], params.get("at", 0)
        if not any(batched[1:]):
            return ADD_AT(x, *indices, sizes=sizes, at=at + 1)
        aligned = _align(indices, batched[1:])
        rank = max(i.ndim for i in aligned) - 1
        x = _full(x, batched[0], size)  # (B, kept, I, rest)
        front = x.movedim(tuple(range(1, at + 1)), tuple(range(-at, 0))) if at else x
        y = ADD_AT(front, _counter(size, rank), *aligned, sizes=(size, *sizes), at=0)
        return y.movedim(tuple(range(-at, 0)), tuple(range(1, at + 1))) if at else y


class PutAt(Indexing):
    """A copy of x replaced by `value` at the index tensors, behind `at` dimensions; of several writes the last stays.

    `value` broadcasts to (kept, I, rest), what x[:, …, i₁, i₂, …] would be.
    """

    linear = (0, 1)

    def reference(self, x, value, *indices, at=0):
        flat_index(indices, x.shape[at : at + len(indices)], first=at)
        out = np.array(x, order="K")
        out[(slice(None),) * at + indices] = value
        return out

    def _make_plan(self, needs):
        return DROP, (LOOK, LOOK, *(SAVE,) * (len(needs) - 2))

    def vjp(self, g, y, x, value, *indices, at=0):
        sizes = tuple(x.shape[at : at + len(indices)])
        return (
            lambda: PUT_AT(g, _zero(g), *indices, at=at),
            lambda: summed_to(_where_last(INDEX(g, *indices, at=at), indices, sizes, at), value.shape),
            *(None for _ in indices),
        )

    def native(self, node):
        from ...kernels.memory.anchors import combine_at

        return combine_at(node, "put", node.params.get("at", 0))

    def batch(self, inputs, batched, size, params):
        x, value, *indices = inputs
        at = params.get("at", 0)
        aligned = _align(indices, batched[2:])
        rank = max(i.ndim - b for i, b in zip(aligned, batched[2:], strict=True))
        whole = rank + x.ndim - batched[0] - len(indices)  # dimensions of (kept, I, rest)
        x = _full(x, batched[0], size)
        value = raise_rank(value, whole) if batched[1] else value
        if not any(batched[2:]):
            return PUT_AT(x, value, *indices, at=at + 1)
        if not at:
            return PUT_AT(x, value, _counter(size, rank), *aligned)
        value = raise_rank(_full(value, batched[1], size), whole)
        kept, behind = tuple(range(1, at + 1)), tuple(range(-at, 0))
        y = PUT_AT(x.movedim(kept, behind), value.movedim(kept, behind), _counter(size, rank), *aligned)
        return y.movedim(behind, kept)


class LastAt(Indexing):
    """Which of several writes to one place stays: true at the last index of each place."""

    differentiable = False

    def reference(self, *indices, sizes):
        places = flat_index(indices, sizes)
        order = np.arange(places.size)
        writer = np.empty(math.prod(sizes), np.int64)
        writer[places.ravel()] = order
        return (writer[places.ravel()] == order).reshape(places.shape)

    def parts(self, *indices, sizes):
        places = np.broadcast_shapes(*(i.shape for i in indices))
        order = wrap(np.arange(math.prod(places)).reshape(places))
        writer = PUT_AT(wrap(np.zeros((), order.dtype.np)).expand(sizes), order, *indices)
        return INDEX(writer, *indices) == order

    def batch(self, inputs, batched, size, params):
        aligned = _align(inputs, batched)
        rank = max(i.ndim for i in aligned) - 1
        return LAST_AT(_counter(size, rank), *aligned, sizes=(size, *params["sizes"]))


def _where_last(g: Tensor, indices: Sequence[Tensor], sizes: tuple[int, ...], at: int) -> Tensor:
    """g (*kept, *I, *rest) where its write was the last to its place, else 0."""
    last = LAST_AT(*indices, sizes=sizes)
    return where(last.reshape(*last.shape, *(1,) * (g.ndim - at - last.ndim)), g, 0)


class CombineAt(Indexing):
    """x with `value` combined at the index tensors (leading dimensions) by 'prod', 'amax' or 'amin'."""

    def reference(self, x, value, *indices, reduce):
        flat_index(indices, x.shape[: len(indices)])
        kind = x.dtype
        out = x.astype(F32) if kind in LOW_NUMPY else np.array(x, order="K")
        ufunc = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[reduce]
        ufunc.at(out, indices, value.astype(out.dtype))
        return out.astype(kind) if out.dtype != kind else out

    def _make_plan(self, needs):
        return SAVE, (SAVE,) * len(needs)

    def vjp(self, g, y, x, value, *indices, reduce):
        if reduce == "prod":
            of_x, of_value = _product_slopes(g, x, value, indices)
        else:
            of_x, of_value = _extreme_slopes(g, y, x, value, indices)
        return (of_x, of_value, *(None for _ in indices))

    def native(self, node):
        from ...kernels.memory.anchors import combine_at

        return combine_at(node, node.params["reduce"], 0)

    def batch(self, inputs, batched, size, params):
        x, value, *indices = inputs
        aligned = _align(indices, batched[2:])
        rank = max(i.ndim - b for i, b in zip(aligned, batched[2:], strict=True))
        x, value = _full(x, batched[0], size), _full(value, batched[1], size)
        return COMBINE_AT(x, value, _counter(size, rank), *aligned, **params)


def _product_slopes(g: Tensor, x: Tensor, value: Tensor, indices: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """∂/∂c of a product is the product of the other factors: exact also where one factor is 0."""
    sizes = tuple(x.shape[: len(indices)])
    zero_x, zero_value = x == 0, value == 0
    zeros = zero_x.to(x.dtype) + ADD_AT(zero_value.to(x.dtype), *indices, sizes=sizes)
    rest = COMBINE_AT(where(zero_x, 1, x), where(zero_value, 1, value), *indices, reduce="prod")  # of non-zeros
    weighted, none, single = g * rest, zeros == 0, zeros == 1
    at = lambda t: INDEX(t, *indices)
    of_x = where(zero_x, where(single, weighted, 0), where(none, weighted / where(zero_x, 1, x), 0))
    of_value = where(
        zero_value,
        where(at(single), at(weighted), 0),
        where(at(none), at(weighted) / where(zero_value, 1, value), 0),
    )
    return of_x, of_value


def _extreme_slopes(g: Tensor, y: Tensor, x: Tensor, value: Tensor, indices: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The gradient goes to the elements that are the extreme, in equal parts."""
    sizes = tuple(x.shape[: len(indices)])
    chosen_x, chosen_value = (x == y).to(g.dtype), (value == INDEX(y, *indices)).to(g.dtype)
    share = g / (chosen_x + ADD_AT(chosen_value, *indices, sizes=sizes))
    return chosen_x * share, chosen_value * INDEX(share, *indices)


INDEX, ADD_AT, PUT_AT, LAST_AT, COMBINE_AT = Index(), AddAt(), PutAt(), LastAt(), CombineAt()
CHECK_PLACES = CheckPlaces()
register_module(__name__)


def check_places(index: Tensor, size: int, dim: int, name: str, low: int = 0, skip: int | None = None) -> None:
    """Refuse indices outside of low … size − 1; `skip` is allowed, too."""
    if not index.numel():
        return
    params = {"low": low, "size": size, "skip": skip, "dim": dim, "name": name}
    if interpreter_of(index) is not None:
        CHECK_PLACES(index, **params)
    elif skip is not None or index.array.min() < low or index.array.max() >= size:
        CHECK_PLACES.reference(index.array, **params)


def along(index: Tensor, d: int) -> tuple[Any, ...]:
    """The index tensors by which gather and scatter read: `index` at dimension `d`, own positions elsewhere."""
    rank = index.ndim
    own = lambda k: wrap(np.arange(index.shape[k]).reshape([-1 if i == k else 1 for i in range(rank)]))
    return tuple(index if k == d else own(k) for k in range(rank))
