"""Lists of edges made, changed and chosen from: loops, directions, repetitions, neighbourhoods.

Each function takes an edge_index (2, E) with attributes of its edges, as in PyTorch Geometric's `utils`, or a whole
`Graph`, of which it gives a new one with all attributes of edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

import weft

from ..data.graph import Graph
from ..errors import OptionError, ShapeError
from ..tensor import Tensor, wrap

__all__ = [
    "add_remaining_self_loops",
    "add_self_loops",
    "coalesce",
    "degree",
    "k_hop_subgraph",
    "remove_self_loops",
    "subgraph",
    "to_undirected",
]

REDUCTIONS = {"sum": "sum", "add": "sum", "mean": "mean", "min": "amin", "max": "amax", "mul": "prod", "prod": "prod"}
_NOTHING: Any = object()


# ------------------------------------------------------------------------------------------------ sizes
def node_count(edge_index: Tensor, num_nodes: int | None = None) -> int:
    """The number given, or else one more than the largest in edge_index."""
    if num_nodes is not None:
        return num_nodes
    return int(edge_index.max()) + 1 if edge_index.numel() else 0


def degree(
    index: Tensor | Graph, num_nodes: int | None = None, dtype: Any = None, *, weight: Tensor | None = None
) -> Tensor:
    """How often each number occurs, or the weights of its occurrences: dᵢ = Σ_e [index_e = i] · w_e.

    Of edge_index[0] these are out-degrees, of edge_index[1] in-degrees. Of a graph: dᵢ = Σⱼ aᵢⱼ, the sums of rows.
    Shape: (E,) → (N,), float32 or the type of the weights

    >>> weft.graphs.degree(weft.tensor([0, 2, 2]), num_nodes=4).tolist()
    [1.0, 0.0, 2.0, 0.0]
    """
    if isinstance(index, Graph):
        return degree(index.edge_index[0], index.num_nodes, dtype, weight=index.edge_weight)
    ones = weft.ones(index.shape[0], dtype=dtype) if weight is None else weight if dtype is None else weight.to(dtype)
    return ones.new_zeros(node_count(index, num_nodes)).index_add(0, index, ones)


# ------------------------------------------------------------------------------------------------ loops
@overload
def remove_self_loops(edge_index: Graph) -> Graph: ...
@overload
def remove_self_loops(edge_index: Tensor, edge_attr: Tensor | None = None) -> tuple[Tensor, Tensor | None]: ...
def remove_self_loops(edge_index: Any, edge_attr: Tensor | None = None) -> Any:
    """The edges that join different nodes, and their attributes.

    >>> weft.graphs.remove_self_loops(weft.tensor([[0, 1, 1], [1, 1, 0]]))[0].tolist()
    [[0, 1], [1, 0]]
    """
    if isinstance(edge_index, Graph):
        return edge_index.with_edges(edge_index.edge_index[0] != edge_index.edge_index[1])
    kept = edge_index[0] != edge_index[1]
    return edge_index[:, kept], None if edge_attr is None else edge_attr[kept]


@overload
def add_self_loops(edge_index: Graph, *, fill_value: float | Tensor | str = 1.0) -> Graph: ...
@overload
def add_self_loops(
    edge_index: Tensor,
    edge_attr: Tensor | None = None,
    fill_value: float | Tensor | str = 1.0,
    num_nodes: int | None = None,
) -> tuple[Tensor, Tensor | None]: ...
def add_self_loops(
    edge_index: Any,
    edge_attr: Tensor | None = None,
    fill_value: float | Tensor | str = 1.0,
    num_nodes: int | None = None,
) -> Any:
    """The edges, and after them a loop i → i for every node, also where there is one.

    fill_value: the attributes of loops: a number, a row, or how to reduce those of the edges that end at the node:
        "sum", "mean", "min", "max", "mul"
    Shape: (2, E), (E, …) → (2, E + N), (E + N, …)

    >>> edges, weights = weft.graphs.add_self_loops(weft.tensor([[0], [1]]), weft.tensor([3.0]))
    >>> edges.tolist(), weights.tolist()
    ([[0, 0, 1], [1, 0, 1]], [3.0, 1.0, 1.0])
    """
    if isinstance(edge_index, Graph):
        graph, count = edge_index, edge_index.num_nodes
        both = {n: add_self_loops(graph.edge_index, v, fill_value, count)[1] for n, v in graph.of_edges().items()}
        edges, _ = add_self_loops(graph.edge_index, None, fill_value, count)
        return graph.replace(edge_index=edges, num_nodes=count, **both)
    count = node_count(edge_index, num_nodes)
    loops = weft.arange(count, dtype=edge_index.dtype).expand(2, count)
    edges = weft.cat([edge_index, loops], 1)
    if edge_attr is None:
        return edges, None
    return edges, weft.cat([edge_attr, _of_loops(edge_index, edge_attr, fill_value, count)])


@overload
def add_remaining_self_loops(edge_index: Graph, *, fill_value: float | Tensor | str = 1.0) -> Graph: ...
@overload
def add_remaining_self_loops(
    edge_index: Tensor,
    edge_attr: Tensor | None = None,
    fill_value: float | Tensor | str = 1.0,
    num_nodes: int | None = None,
) -> tuple[Tensor, Tensor | None]: ...
def add_remaining_self_loops(
    edge_index: Any,
    edge_attr: Tensor | None = None,
    fill_value: float | Tensor | str = 1.0,
    num_nodes: int | None = None,
) -> Any:
    """The edges between different nodes, and after them one loop for every node.

    A loop that is there keeps its attributes (of several the last one's); the others get `fill_value`, as in
    `add_self_loops`.
    Shape: (2, E), (E, …) → (2, E' + N), (E' + N, …) with E' edges that are no loops

    >>> edges, weights = weft.graphs.add_remaining_self_loops(weft.tensor([[0, 1], [0, 0]]), weft.tensor([5.0, 3.0]))
    >>> edges.tolist(), weights.tolist()
    ([[1, 0, 1], [0, 0, 1]], [3.0, 5.0, 1.0])
    """
    if isinstance(edge_index, Graph):
        graph, count = edge_index, edge_index.num_nodes
        parts = graph.of_edges().items()
        both = {n: add_remaining_self_loops(graph.edge_index, v, fill_value, count)[1] for n, v in parts}
        edges, _ = add_remaining_self_loops(graph.edge_index, None, fill_value, count)
        return graph.replace(edge_index=edges, num_nodes=count, **both)
    count = node_count(edge_index, num_nodes)
    proper = edge_index[0] != edge_index[1]
    edges, attributes = add_self_loops(edge_index[:, proper], None, fill_value, count)
    if edge_attr is not None:
        loops = _of_loops(edge_index[:, proper], edge_attr[proper], fill_value, count)
        source = edge_index.array[0]
        last = np.full(count, -1, np.int64)
        last[source[~proper.array]] = np.flatnonzero(~proper.array)
        kept = wrap(np.flatnonzero(last >= 0))
        loops = loops.index_copy(0, kept, edge_attr[wrap(last[last >= 0])])
        attributes = weft.cat([edge_attr[proper], loops])
    return edges, attributes


def _of_loops(edge_index: Tensor, edge_attr: Tensor, fill_value: float | Tensor | str, count: int) -> Tensor:
    shape = (count, *edge_attr.shape[1:])
    if isinstance(fill_value, str):
        return _reduced(edge_attr, edge_index[1], count, fill_value)
    if isinstance(fill_value, Tensor):
        return fill_value.to(edge_attr.dtype).expand(shape)
    return edge_attr.new_full(shape, fill_value)


# ------------------------------------------------------------------------------------------------ repetitions, directions
@overload
def coalesce(edge_index: Graph, *, reduce: str = "sum") -> Graph: ...
@overload
def coalesce(edge_index: Tensor, *, num_nodes: int | None = None, reduce: str = "sum") -> Tensor: ...
@overload
def coalesce(
    edge_index: Tensor, edge_attr: Tensor | None, num_nodes: int | None = None, reduce: str = "sum"
) -> tuple[Tensor, Tensor | None]: ...
def coalesce(edge_index: Any, edge_attr: Any = _NOTHING, num_nodes: int | None = None, reduce: str = "sum") -> Any:
    """The different edges in order of source and target; attributes of equal ones reduced to one.

    reduce: "sum", "mean", "min", "max", "mul"
    Gives edge_index alone where no edge_attr is given.

    >>> edges, weights = weft.graphs.coalesce(weft.tensor([[1, 0, 1], [0, 1, 0]]), weft.tensor([1.0, 2.0, 3.0]))
    >>> edges.tolist(), weights.tolist()
    ([[0, 1], [1, 0]], [2.0, 4.0])
    """
    if isinstance(edge_index, Graph):
        return _merged_graph(edge_index, edge_index.edge_index, edge_index.of_edges(), reduce)
    given = {} if edge_attr is _NOTHING or edge_attr is None else {"edge_attr": edge_attr}
    edges, parts = _merged(edge_index, given, node_count(edge_index, num_nodes), reduce)
    return edges if edge_attr is _NOTHING else (edges, parts.get("edge_attr"))


@overload
def to_undirected(edge_index: Graph, *, reduce: str = "sum") -> Graph: ...
@overload
def to_undirected(edge_index: Tensor, *, num_nodes: int | None = None, reduce: str = "sum") -> Tensor: ...
@overload
def to_undirected(
    edge_index: Tensor, edge_attr: Tensor | None, num_nodes: int | None = None, reduce: str = "sum"
) -> tuple[Tensor, Tensor | None]: ...
def to_undirected(edge_index: Any, edge_attr: Any = _NOTHING, num_nodes: int | None = None, reduce: str = "sum") -> Any:
    """Every edge in both directions, in order, each once; attributes of equal ones reduced to one.

    An edge that was there in both directions has the sum of both in each, unless `reduce` is another (as in `coalesce`).

    >>> weft.graphs.to_undirected(weft.tensor([[0, 1, 1], [1, 0, 2]])).tolist()
    [[0, 1, 1, 2], [1, 0, 2, 1]]
    """
    if isinstance(edge_index, Graph):
        both = {name: value.repeat_interleave(2, 0) for name, value in edge_index.of_edges().items()}
        return _merged_graph(edge_index, _mirrored(edge_index.edge_index), both, reduce)
    given = {} if edge_attr is _NOTHING or edge_attr is None else {"edge_attr": edge_attr.repeat_interleave(2, 0)}
    edges, parts = _merged(_mirrored(edge_index), given, node_count(edge_index, num_nodes), reduce)
    return edges if edge_attr is _NOTHING else (edges, parts.get("edge_attr"))


def _mirrored(edge_index: Tensor) -> Tensor:
    """Each edge and then its reverse, (2, 2E): both directions of a pair are summed in the same order, to the same bits."""
    return weft.stack([edge_index, edge_index.flip(0)], -1).reshape(2, -1)


def _merged_graph(graph: Graph, edge_index: Tensor, parts: dict[str, Tensor], reduce: str) -> Graph:
    edges, merged = _merged(edge_index, parts, graph.num_nodes, reduce)
    return graph.replace(edge_index=edges, num_nodes=graph.num_nodes, **merged)


def _merged(edge_index: Tensor, parts: dict[str, Tensor], count: int, reduce: str) -> tuple[Tensor, dict[str, Tensor]]:
    """Edges in order, each once; the parts of equal ones reduced."""
    _reduction(reduce)
    source, target = edge_index.array
    width = max(count, 1)
    keys, place = np.unique(source.astype(np.int64) * width + target, return_inverse=True)
    edges = wrap(np.stack(np.divmod(keys, width)).astype(edge_index.array.dtype))
    return edges, {name: _reduced(value, wrap(place), len(keys), reduce) for name, value in parts.items()}


def _reduced(values: Tensor, index: Tensor, count: int, reduce: str) -> Tensor:
    """Rows of equal index reduced to one; 0 where there is none."""
    kind = _reduction(reduce)
    start = values.new_zeros((count, *values.shape[1:]))
    if kind == "sum":
        return start.index_add(0, index, values)
    return start.index_reduce(0, index, values, kind, include_self=False)


def _reduction(name: str) -> str:
    if name not in REDUCTIONS:
        raise OptionError(f"reduce: expected one of {', '.join(REDUCTIONS)}, got {name!r}")
    return REDUCTIONS[name]


# ------------------------------------------------------------------------------------------------ parts of a graph
def subgraph(
    subset: Tensor | Sequence[int],
    edge_index: Tensor,
    edge_attr: Tensor | None = None,
    relabel_nodes: bool = False,
    num_nodes: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """The edges between some nodes, and their attributes; `graph.subgraph(subset)` gives a whole graph.

    subset: (N,) bool, or numbers of nodes
    relabel_nodes: number the nodes anew, in the order in which they have numbers (or stand in `subset`)

    >>> weft.graphs.subgraph([2, 1], weft.tensor([[0, 1, 2], [1, 2, 1]]), relabel_nodes=True)[0].tolist()
    [[1, 0], [0, 1]]
    """
    nodes = chosen_nodes(subset)
    count = max(node_count(edge_index, num_nodes), int(nodes.max(initial=-1)) + 1)
    number = np.full(count, -1, np.int64)
    number[nodes] = np.arange(len(nodes))
    kept = (number[edge_index.array] >= 0).all(0)
    edges = edge_index.array[:, kept]
    edges = number[edges] if relabel_nodes else edges
    return wrap(edges), None if edge_attr is None else edge_attr[wrap(kept)]


def chosen_nodes(subset: Tensor | Sequence[int] | int) -> np.ndarray:
    """Numbers of nodes: of a mask those that it holds."""
    given = np.asarray(subset.array if isinstance(subset, Tensor) else subset)
    given = given.astype(np.int64) if given.size == 0 and given.dtype != np.bool_ else given
    if given.dtype == np.bool_:
        return np.flatnonzero(given)
    if given.dtype.kind not in "iu" or given.ndim > 1 or (given.size and given.min() < 0):
        raise ShapeError(f"expected numbers of nodes, or a bool for each, got {given.dtype} {given.shape}")
    return np.atleast_1d(given)


def k_hop_subgraph(
    node_idx: Tensor | Sequence[int] | int,
    num_hops: int,
    edge_index: Tensor,
    relabel_nodes: bool = False,
    num_nodes: int | None = None,
    flow: str = "source_to_target",
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What `num_hops` layers of message passing see of the graph from some nodes: subset, edges, mapping, edge mask.

    subset: (K,) the nodes from which one of `node_idx` is reached in at most so many steps, in order
    edges: (2, E') all edges between them; mapping: where in the subset `node_idx` are; edge mask: (E,) bool
    flow: "source_to_target" (messages go along edges), or "target_to_source"

    >>> subset, edges, mapping, mask = weft.graphs.k_hop_subgraph(2, 1, weft.tensor([[0, 1, 2], [1, 2, 3]]))
    >>> subset.tolist(), edges.tolist(), mapping.tolist(), mask.tolist()
    ([1, 2], [[1], [2]], [1], [False, True, False])
    """
    if flow not in ("source_to_target", "target_to_source"):
        raise OptionError(f"k_hop_subgraph: flow must be 'source_to_target' or 'target_to_source', got {flow!r}")
    if num_hops < 0:
        raise OptionError(f"k_hop_subgraph: expected num_hops of at least 0, got {num_hops}")
    nodes = chosen_nodes(node_idx)
    count = max(node_count(edge_index, num_nodes), int(nodes.max(initial=-1)) + 1)
    near, far = edge_index.array[::-1] if flow == "source_to_target" else edge_index.array
    reached = np.zeros(count, bool)
    reached[nodes] = True
    for _ in range(num_hops):
        reached[far[reached[near]]] = True
    kept = reached[edge_index.array].all(0)
    number = np.cumsum(reached) - 1
    edges = edge_index.array[:, kept]
    edges = number[edges] if relabel_nodes else edges
    return wrap(np.flatnonzero(reached)), wrap(edges), wrap(number[nodes]), wrap(kept)
