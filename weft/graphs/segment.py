"""Reductions over groups of rows and over the edges of a graph: sums, means, extremes, softmax, attention.

Names and meaning are those of PyTorch Geometric (`torch_geometric.utils`). An index need not be sorted. What is
sorted, and when: the first time that an index tensor comes here its rows are put in order by target, in time linear in
their number; the order is remembered with the tensor that owns the memory (a view such as `edge_index[1]` finds it
again) until that tensor is written to or goes away. The first backward pass puts the edges in order by source likewise.
Inside of `weft.compile` the same holds for index tensors from outside (captured ones, and what is computed from them and
constants alone): they are put in order when the function is traced, and it is traced anew after a write to them. An index
that is an argument of the compiled function may be another at every call and is never sorted: rows are then added at
their places one after the other, with the same results. `Edges` may be passed in the place of an `edge_index`.

Rows of one group are added in the order in which they were given, on any number of threads, eagerly and compiled:
sums, means and extremes are the same bits everywhere; exponentials may differ in the last ones between NumPy's and
native code. Targets that nothing comes to get 0, extremes included, as in PyTorch Geometric.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from ..errors import ArgumentError, DtypeError, IndexRangeError, OptionError, ShapeError
from ..ops.index.edges import Edges, known_edges, settled
from ..ops.index.places import ADD_AT, COMBINE_AT, INDEX, check_places
from ..ops.index.segments import (
    DOT_EDGES,
    EXTREME_EDGES,
    ORDER_EDGES,
    READ_EDGES,
    SOFTMAX_EDGES,
    SUM_EDGES,
    WEIGH_EDGES,
)
from ..sizes import wrap_dim
from ..tensor import Tensor, wrap

__all__ = [
    "Edges",
    "aggregate",
    "edge_attention",
    "edge_dot",
    "edges",
    "scatter",
    "segment",
    "softmax",
    "sources",
    "targets",
]

REDUCTIONS = ("sum", "add", "mean", "max", "amax", "min", "amin", "mul", "prod")


# ---------------------------------------------------------------------------------------------- groups of rows


def scatter(
    src: Tensor, index: Tensor | Edges, dim: int = 0, dim_size: int | None = None, reduce: str = "sum"
) -> Tensor:
    """The slices of `src` along `dim`, those with equal numbers in `index` reduced to one.

    yᵢ = ⊕ src[e] over all e with index[e] = i; reduce: 'sum' ('add'), 'mean', 'max', 'min' or 'mul'.
    A group without slices is 0 (1 for 'mul'). The gradient of an extreme goes in equal parts to those that are it.

    index: (E,) integers; dim_size: how many groups, by default the largest number + 1
    Shape: (*, E, *) → (*, dim_size, *)

    >>> weft.graphs.segment.scatter(weft.tensor([1.0, 2.0, 4.0]), weft.tensor([1, 0, 1]), reduce="max").tolist()
    [2.0, 4.0]
    """
    d = wrap_dim(dim, src.ndim, "scatter")
    _check_reduce(reduce, "scatter")
    rows = src.movedim(d, 0) if d else src
    if isinstance(index, Edges):
        if index.size[1] != src.shape[d]:
            raise ShapeError(f"scatter: {index} for {src.shape[d]} slices")
        y = _along(rows, index, None, reduce)
        return y.movedim(0, d) if d else y
    _check_index(index, src.shape[d], "scatter")
    count = _count(index, dim_size, "scatter")
    groups = _groups(index, count, "scatter")
    y = _unsorted(rows, index, count, reduce, "scatter") if groups is None else _along(rows, groups, None, reduce)
    return y.movedim(0, d) if d else y


def segment(src: Tensor, ptr: Tensor, reduce: str = "sum") -> Tensor:
    """The rows ptr[i] to ptr[i + 1] of `src` reduced to one, for every i; `reduce` as in `scatter`.

    Shape: (E, *), (M + 1,) → (M, *)

    >>> weft.graphs.segment.segment(weft.tensor([1.0, 2.0, 4.0]), weft.tensor([0, 1, 1, 3])).tolist()
    [1.0, 0.0, 6.0]
    """
    _check_reduce(reduce, "segment")
    return _along(src, _between(ptr, src.shape[0], "segment"), None, reduce)


def softmax(
    src: Tensor,
    index: Tensor | Edges | None = None,
    ptr: Tensor | None = None,
    num_nodes: int | None = None,
    dim: int = 0,
) -> Tensor:
    """αₑ = exp(sₑ) / Σ exp(sₖ) over all k in the group of e, which `index` numbers or `ptr` bounds.

    The largest of each group is subtracted first. A group that has nothing but −∞ is NaN, as it is without groups.
    Shape: (*, E, *) → (*, E, *)

    >>> weft.graphs.segment.softmax(weft.zeros(3), weft.tensor([0, 1, 1])).tolist()
    [1.0, 0.5, 0.5]
    """
    d = wrap_dim(dim, src.ndim, "softmax")
    if not src.is_floating_point():
        raise DtypeError(f"softmax: floating-point scores are needed, got {src.dtype}; convert with .float()")
    if (index is None) == (ptr is None):
        raise ArgumentError("softmax: give either `index` (the group of each slice) or `ptr` (where groups begin)")
    rows = src.movedim(d, 0) if d else src
    if ptr is not None:
        index = _between(ptr, src.shape[d], "softmax")
    if isinstance(index, Edges):
        groups = index
    else:
        _check_index(index, src.shape[d], "softmax")
        count = _count(index, num_nodes, "softmax")
        groups = _groups(index, count, "softmax")
    y = _unsorted_softmax(rows, index, count, "softmax") if groups is None else _softmax(rows, groups)
    return y.movedim(0, d) if d else y


def _softmax(rows: Tensor, groups: Edges) -> Tensor:
    """Shape: (E, *)"""
    return SOFTMAX_EDGES(_flat(rows), edges=groups).reshape(rows.shape)


def _unsorted_softmax(rows: Tensor, index: Tensor, count: int, name: str) -> Tensor:
    """Shape: (E, *)"""
    parts = (rows - INDEX(_unsorted(rows.detach(), index, count, "max", name), index)).exp()
    return parts / INDEX(_unsorted(parts, index, count, "sum", name), index)


# --------------------------------------------------------------------------------------------------- along edges


def edges(edge_index: Tensor, size: tuple[int, int] | int) -> Edges:
    """The edges of a graph, put in order when that is first needed, to be passed where an `edge_index` is.

    edge_index: (2, E), sources above targets; size: how many vertices, or (targets, sources) where these differ.
    """
    found = _edges_of(edge_index, (size, size) if isinstance(size, int) else tuple(size), "edges")
    if found is None:
        raise ArgumentError("edges: in a compiled function edge_index has to come from outside; make them there")
    return found


def aggregate(
    x: Tensor,
    edge_index: Tensor | Edges,
    weight: Tensor | None = None,
    dim_size: int | None = None,
    reduce: str = "sum",
) -> Tensor:
    """What comes to each vertex along its edges: yᵢ = ⊕ wₑ x[j] over all edges e from j to i; no message is stored.

    reduce: 'sum', 'mean', 'max', 'min' as in `scatter`; weights, (E,) or (E, H) for x of (N, H, …), only with 'sum' and
    'mean' ('mean' divides by the number of edges). dim_size: how many targets, by default as many as x has rows.
    Shape: (N, *) → (dim_size, *)

    >>> path = weft.tensor([[0, 1], [1, 2]])
    >>> weft.graphs.segment.aggregate(weft.tensor([[1.0], [2.0], [3.0]]), path).tolist()
    [[0.0], [1.0], [2.0]]
    """
    _check_reduce(reduce, "aggregate")
    if weight is not None and reduce not in ("sum", "add", "mean"):
        raise OptionError(f"aggregate: weights go with 'sum' and 'mean', not {reduce!r}; scale messages for `scatter`")
    size = (x.shape[0] if dim_size is None else dim_size, x.shape[0])
    found = _edges_of(edge_index, size, "aggregate")
    if weight is not None:
        _check_weights(weight, x, edge_index, "aggregate")
    if found is not None:
        return _along(x, found, weight, reduce)
    source, target = _ends(edge_index)
    messages = INDEX(x, source)
    if weight is not None:
        messages = weight.reshape(*weight.shape, *(1,) * (x.ndim - weight.ndim)) * messages
    return _unsorted(messages, target, size[0], reduce, "aggregate")


def edge_dot(a: Tensor, b: Tensor, edge_index: Tensor | Edges) -> Tensor:
    """sₑ = a[i] · b[j] for every edge e from j to i: the scores of dot-product attention, and of links.

    Shape: (M, F), (N, F) → (E,), or (M, H, F), (N, H, F) → (E, H)
    """
    if a.ndim not in (2, 3) or a.shape[1:] != b.shape[1:]:
        raise ShapeError(f"edge_dot: rows of equal sizes are needed, got {tuple(a.shape)} and {tuple(b.shape)}")
    found = _edges_of(edge_index, (a.shape[0], b.shape[0]), "edge_dot")
    if found is None:
        source, target = _ends(edge_index)
        return (INDEX(a, target) * INDEX(b, source)).sum(-1)
    if a.ndim == 3:
        return DOT_EDGES(a, b, edges=found)
    return DOT_EDGES(a.unsqueeze(1), b.unsqueeze(1), edges=found).squeeze(1)


def sources(x: Tensor, edge_index: Tensor | Edges, num_nodes: int | None = None) -> Tensor:
    """x[j] for every edge from j to i (PyG's x_j), with gradients added up vertex by vertex. Shape: (N, *) → (E, *)

    num_nodes: how many targets there are, by default as many as sources.
    """
    found = _edges_of(edge_index, (x.shape[0] if num_nodes is None else num_nodes, x.shape[0]), "sources")
    return INDEX(x, _ends(edge_index)[0]) if found is None else READ_EDGES(x, edges=found)


def targets(x: Tensor, edge_index: Tensor | Edges, num_nodes: int | None = None) -> Tensor:
    """x[i] for every edge from j to i (PyG's x_i), with gradients added up vertex by vertex. Shape: (M, *) → (E, *)

    num_nodes: how many sources there are, by default as many as targets.
    """
    found = _edges_of(edge_index, (x.shape[0], x.shape[0] if num_nodes is None else num_nodes), "targets")
    if found is None:
        target = _ends(edge_index)[1]
        check_places(target, x.shape[0], 0, "targets")
        return INDEX(x, target)
    return READ_EDGES(x, edges=found.T)


def edge_attention(
    score: Tensor | tuple[Tensor, Tensor],
    value: Tensor,
    edge_index: Tensor | Edges,
    num_nodes: int | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
    activation: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """yᵢ = Σ αₑ value[j] over the edges e from j to i, with α the softmax of the scores over the edges to i.

    score: one for each edge, or a pair (of sources, of targets) whose sum is the score of the edge between, as in GAT;
    `activation`, such as a leaky ReLU, is applied to scores before the softmax. Nothing of size E × H × F is made, forward
    or backward. A target without edges gets 0. dropout: a function that is applied to the weights α, such as
    `nn.Dropout(0.6)`; known edges are gone through in the order of their targets, and so are the weights it sees.
    num_nodes: how many targets, by default as many as sources.
    Shape: (E,), (N, F) → (num_nodes, F), or (E, H), (N, H, F) → (num_nodes, H, F); a pair: (N, H), (num_nodes, H)

    >>> edges = weft.tensor([[0, 1], [2, 2]])
    >>> weft.graphs.segment.edge_attention(weft.zeros(2), weft.tensor([[1.0], [3.0], [9.0]]), edges).tolist()
    [[0.0], [0.0], [2.0]]
    """
    size = (value.shape[0] if num_nodes is None else num_nodes, value.shape[0])
    pair = score if isinstance(score, tuple) else None
    _check_scores(score, value, size)
    found = _edges_of(edge_index, size, "edge_attention")
    if pair is None:
        _check_weights(score, value, edge_index, "edge_attention")
    if found is None:
        if pair is not None:
            score = sources(pair[0], edge_index, size[0]) + targets(pair[1], edge_index, size[1])
        score = score if activation is None else activation(score)
        weights = _unsorted_softmax(score, _ends(edge_index)[1], size[0], "edge_attention")
        return aggregate(value, edge_index, weights if dropout is None else dropout(weights), size[0])
    ordered = found.in_order()
    if pair is not None:
        score = READ_EDGES(pair[0], edges=ordered) + READ_EDGES(pair[1], edges=ordered.T)
    elif ordered is not found:
        score = ORDER_EDGES(score, edges=found, back=False)
    score = score if activation is None else activation(score)
    weights = _softmax(score, ordered)
    return _along(value, ordered, weights if dropout is None else dropout(weights), "sum")


def _check_scores(score: Tensor | tuple[Tensor, Tensor], value: Tensor, size: tuple[int, int]) -> None:
    for part, count in zip(score, size[::-1], strict=True) if isinstance(score, tuple) else ((score, None),):
        heads = part.ndim in (1, 2) and value.ndim == part.ndim + 1 and part.shape[1:] == value.shape[1:-1]
        if not heads or (count is not None and part.shape[0] != count):
            raise ShapeError(
                f"edge_attention: scores (E,) with values (N, F), or (E, H) with (N, H, F), are needed, or a pair of "
                f"(N, H) and (num_nodes, H); got {tuple(part.shape)} and {tuple(value.shape)}"
            )


# ------------------------------------------------------------------------------------------------ how it is done


def _along(x: Tensor, found: Edges, weight: Tensor | None, reduce: str) -> Tensor:
    """Rows of x along known edges, reduced at their targets. Shape: (N, *) → (M, *)"""
    rest, size = tuple(x.shape[1:]), found.size[0]
    if reduce in ("mul", "prod"):
        rows = INDEX(x, wrap(found.sources.astype(np.int64)))
        return _unsorted(rows, wrap(found.targets.astype(np.int64)), size, reduce, "scatter")
    if weight is not None and weight.ndim == 2:
        y = WEIGH_EDGES(weight, x.reshape(x.shape[0], weight.shape[1], _product(x.shape[2:])), edges=found)
    elif weight is not None:
        y = WEIGH_EDGES(weight.unsqueeze(1), x.reshape(x.shape[0], 1, _product(rest)), edges=found)
    elif reduce in ("sum", "add", "mean"):
        y = SUM_EDGES(_flat(x), edges=found)
    else:
        y = EXTREME_EDGES(_flat(x), edges=found, largest=reduce in ("max", "amax"))
    y = y.reshape(size, *rest)
    return _divided(y, wrap(found.counts().astype(np.int64))) if reduce == "mean" else y


def _ends(edge_index: Any) -> tuple[Tensor, Tensor]:
    """Sources and targets of edges that are not known before."""
    return edge_index[0], edge_index[1]


def _flat(x: Tensor) -> Tensor:
    """(N, *) → (N, F), where F may be told by the sizes alone."""
    return x.reshape(x.shape[0], _product(x.shape[1:]))


def _product(sizes: Any) -> int:
    return int(np.prod(tuple(sizes), dtype=np.int64))


def _unsorted(rows: Tensor, index: Tensor, size: int, reduce: str, name: str) -> Tensor:
    """Rows reduced at places that are not known before. Shape: (E, *) → (size, *)"""
    check_places(index, size, 0, name)
    if reduce in ("sum", "add", "mean"):
        y = ADD_AT(rows, index, sizes=(size,))
        return _divided(y, ADD_AT(index._filled(1), index, sizes=(size,))) if reduce == "mean" else y
    if reduce in ("mul", "prod"):
        return COMBINE_AT(rows.new_ones(size, *rows.shape[1:]), rows, index, reduce="prod")
    largest = reduce in ("max", "amax")
    start = rows.new_full((size, *rows.shape[1:]), _lowest(rows.dtype, largest))
    y = COMBINE_AT(start, rows, index, reduce="amax" if largest else "amin")
    some = ADD_AT(index._filled(1), index, sizes=(size,)) > 0
    return y.where(some.reshape(size, *(1,) * (rows.ndim - 1)), y._filled(0))


def _lowest(kind: dtypes.dtype, largest: bool) -> Any:
    if kind.category == dtypes.INTEGER:
        return np.iinfo(kind.np).min if largest else np.iinfo(kind.np).max
    return float("-inf") if largest else float("inf")


def _divided(total: Tensor, counts: Tensor) -> Tensor:
    counts = counts.clamp(min=1).reshape(-1, *(1,) * (total.ndim - 1)).to(total.dtype)
    return total // counts if total.dtype.category == dtypes.INTEGER else total / counts


def _groups(index: Tensor, count: int, name: str) -> Edges | None:
    return known_edges(index, ("groups", count), lambda a: Edges.to(_checked(a, count, 0, name), count))


def _edges_of(edge_index: Tensor | Edges, size: tuple[int, int], name: str) -> Edges | None:
    if isinstance(edge_index, Edges):
        if edge_index.size != size:
            raise ShapeError(f"{name}: {edge_index}, but there are {size[1]} sources and {size[0]} targets")
        return edge_index
    if not isinstance(edge_index, Tensor) or edge_index.ndim != 2 or edge_index.shape[0] != 2:
        shown = tuple(edge_index.shape) if isinstance(edge_index, Tensor) else type(edge_index).__name__
        raise ShapeError(f"{name}: edge_index must be (2, E), sources above targets, got {shown}")
    _check_whole(edge_index, name)

    def make(array: np.ndarray) -> Edges:
        return Edges(_checked(array[0], size[1], 0, name), _checked(array[1], size[0], 1, name), size)

    found = known_edges(edge_index, ("edges", size), make)
    if found is None:
        check_places(edge_index[0], size[1], 0, name)
    return found


def _between(ptr: Tensor, rows: int, name: str) -> Edges:
    if not isinstance(ptr, Tensor) or ptr.ndim != 1 or not ptr.shape[0]:
        raise ShapeError(f"{name}: ptr must be a vector of M + 1 integers")
    _check_whole(ptr, name)

    def make(array: np.ndarray) -> Edges:
        if array[0] != 0 or array[-1] != rows or (np.diff(array) < 0).any():
            raise ShapeError(
                f"{name}: ptr must rise from 0 to the number of rows, {rows}, got {array[0]} … {array[-1]}"
            )
        return Edges.between(array)

    found = known_edges(ptr, ("between", rows), make)
    if found is None:
        raise ArgumentError(f"{name}: in a compiled function ptr has to come from outside; use `scatter` with an index")
    return found


def _checked(index: np.ndarray, size: int, dim: int, name: str) -> np.ndarray:
    if index.size and not 0 <= index.min() <= index.max() < size:
        wrong = index[(index < 0) | (index >= size)][0]
        raise IndexRangeError(f"{name}: index {wrong} is out of bounds for size {size}; valid are 0 to {size - 1}")
    return index


def _check_whole(index: Tensor, name: str) -> None:
    if index.dtype not in (dtypes.int64, dtypes.int32):
        raise DtypeError(f"{name}: expected int64 or int32 indices, got {index.dtype}; convert them with .long()")


def _check_index(index: Any, count: int, name: str) -> None:
    if not isinstance(index, Tensor):
        raise ArgumentError(f"{name}: index must be a Tensor or Edges, got {type(index).__name__}")
    _check_whole(index, name)
    if index.ndim != 1 or index.shape[0] != count:
        raise ShapeError(
            f"{name}: index must be a vector with one number for each of {count} slices, got {tuple(index.shape)}"
        )


def _check_weights(weight: Tensor, x: Tensor, edge_index: Tensor | Edges, name: str) -> None:
    count = edge_index.count if isinstance(edge_index, Edges) else edge_index.shape[1]
    fits = weight.ndim in (1, 2) and weight.shape[0] == count
    if not fits or (weight.ndim == 2 and (x.ndim < 2 or weight.shape[1] != x.shape[1])):
        raise ShapeError(
            f"{name}: {count} edges with x of {tuple(x.shape)} need weights ({count},)"
            f"{f' or ({count}, {x.shape[1]})' if x.ndim > 1 else ''}, got {tuple(weight.shape)}"
        )
    if weight.dtype is not x.dtype:
        raise DtypeError(f"{name}: weights are {weight.dtype}, rows {x.dtype}; convert one with .to(...)")


def _count(index: Tensor, size: int | None, name: str) -> int:
    """How many groups there are."""
    if size is not None:
        return int(size)
    if not index.numel():
        return 0
    values = settled(index)
    return int(index.max() if values is None else values.max()) + 1


def _check_reduce(reduce: str, name: str) -> None:
    if reduce not in REDUCTIONS:
        raise OptionError(f"{name}: reduce must be one of {', '.join(REDUCTIONS)}, got {reduce!r}")
