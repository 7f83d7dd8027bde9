"""Graphs from and to other forms: NetworkX, SciPy, dense matrices, lists of edges, files of PyTorch Geometric."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import weft

from ..data.graph import Graph, holds_nodes
from ..errors import ArgumentError, ShapeError
from ..io.errors import LayoutError
from ..io.torch import load_torch
from ..runtime.lazy import LazyModule
from ..tensor import Tensor, wrap
from .edges import node_count, to_undirected
from .matrices import adjacency, scipy_of

__all__ = [
    "from_dense",
    "from_edge_list",
    "from_networkx",
    "from_scipy",
    "read_pyg",
    "to_dense_adj",
    "to_edge_list",
    "to_networkx",
    "to_scipy",
]

sparse = LazyModule("scipy.sparse")


# ------------------------------------------------------------------------------------------ matrices, lists
def from_dense(matrix: Tensor, **attributes: Any) -> Graph:
    """The graph whose edges are the entries of a matrix (N, N) that are not 0, with them as edge_weight.

    >>> weft.graphs.from_dense(weft.tensor([[0.0, 2.0], [0.0, 0.0]])).edge_index.tolist()
    [[0], [1]]
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"from_dense: expected a matrix (N, N), got {tuple(matrix.shape)}")
    places = np.stack(np.nonzero(matrix.array))
    weight = matrix[wrap(places[0]), wrap(places[1])]
    return Graph(edge_index=wrap(places), edge_weight=weight, num_nodes=matrix.shape[0], **attributes)


def from_scipy(matrix: Any, **attributes: Any) -> Graph:
    """The graph of a sparse matrix of SciPy's (N, N); stored entries are edges, in order, with edge_weight.

    >>> import scipy.sparse
    >>> weft.graphs.from_scipy(scipy.sparse.eye_array(2)).edge_index.tolist()
    [[0, 1], [0, 1]]
    """
    if not sparse.issparse(matrix) or matrix.shape[0] != matrix.shape[1]:
        raise ArgumentError(
            f"from_scipy: expected a square sparse matrix of SciPy's, got {type(matrix).__name__} "
            f"{getattr(matrix, 'shape', '')}"
        )
    rows = matrix.tocsr().tocoo()
    edges = np.stack([rows.row, rows.col]).astype(np.int64)
    return Graph(edge_index=wrap(edges), edge_weight=wrap(np.array(rows.data)), num_nodes=matrix.shape[0], **attributes)


def to_scipy(graph: Graph) -> Any:
    """A as SciPy's csr_array of float64; repeated edges add up.

    >>> weft.graphs.to_scipy(weft.graphs.path(2)).toarray().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    return scipy_of(adjacency(graph))


def from_edge_list(
    edges: Iterable[Sequence[Any]], num_nodes: int | None = None, undirected: bool = False, **attributes: Any
) -> Graph:
    """The graph of pairs (source, target) or triples (source, target, weight).

    undirected: each is there in both directions

    >>> weft.graphs.from_edge_list([(0, 1), (1, 2)], undirected=True).edge_index.tolist()
    [[0, 1, 1, 2], [1, 0, 2, 1]]
    """
    rows = [tuple(row) for row in edges]
    widths = {len(row) for row in rows}
    if widths - {2, 3} or len(widths) > 1:
        raise ShapeError(f"from_edge_list: expected pairs, or triples with weights, got rows of {sorted(widths)}")
    pairs = wrap(np.array([row[:2] for row in rows], np.int64).reshape(-1, 2).T.copy())
    weight = weft.tensor([float(row[2]) for row in rows]) if widths == {3} else None
    made = Graph(edge_index=pairs, edge_weight=weight, num_nodes=num_nodes, **attributes)
    return to_undirected(made) if undirected else made


def to_edge_list(graph: Graph) -> list[tuple]:
    """Pairs (source, target), or triples (source, target, weight) of a weighted graph.

    >>> weft.graphs.to_edge_list(weft.graphs.path(2))
    [(0, 1), (1, 0)]
    """
    pairs = graph.edge_index.T.tolist()
    if graph.edge_weight is None:
        return [(source, target) for source, target in pairs]
    return [(source, target, w) for (source, target), w in zip(pairs, graph.edge_weight.tolist(), strict=True)]


# ------------------------------------------------------------------------------------------ NetworkX
def from_networkx(graph: Any) -> Graph:
    """A graph of NetworkX's; nodes are numbered in its order, undirected edges are there in both directions.

    Attributes that all nodes (edges, or the graph itself) have and that are numbers or rows of them become tensors of
    their name: of edges "weight" becomes edge_weight and others edge_name unless they begin so. Others are left out.

    >>> import networkx
    >>> weft.graphs.from_networkx(networkx.path_graph(3)).edge_index.tolist()
    [[0, 1, 1, 2], [1, 0, 2, 1]]
    """
    number = {node: place for place, node in enumerate(graph)}
    ends = [(number[a], number[b], data) for a, b, data in graph.edges(data=True)]
    if not graph.is_directed():
        ends += [(b, a, data) for a, b, data in ends if a != b]
    ends.sort(key=lambda row: row[:2])
    pairs = np.array([row[:2] for row in ends], np.int64).reshape(-1, 2).T
    parts = _columns([data for _, data in graph.nodes(data=True)])
    of_edges = _columns([data for *_, data in ends])
    parts |= {name if name.startswith("edge_") else f"edge_{name}": value for name, value in of_edges.items()}
    parts |= {name: value[0] for name, value in _columns([graph.graph]).items()}
    return Graph(edge_index=wrap(np.ascontiguousarray(pairs)), num_nodes=len(number), **parts)


def _columns(rows: list[dict]) -> dict[str, Tensor]:
    """What all rows have and can be put into a tensor, by name."""
    found = {}
    for name in rows[0] if rows else ():
        values = [row.get(name) for row in rows]
        plain = [value.tolist() if isinstance(value, Tensor) else value for value in values]
        try:
            array = np.asarray(plain)
        except ValueError:  # rows of different lengths
            continue
        if array.dtype.kind in "biuf" and isinstance(name, str) and name.isidentifier():
            found[name] = weft.as_tensor(array.astype(np.float32) if array.dtype.kind == "f" else array)
    return found


def to_networkx(graph: Graph, create_using: Any) -> Any:
    """The graph in a class of NetworkX's: `to_networkx(graph, networkx.DiGraph)`, or in an empty graph of it.

    In an undirected class each edge that is there in both directions is one. Nodes and edges have their attributes, the
    names of those of edges without "edge_".

    >>> import networkx
    >>> weft.graphs.to_networkx(weft.graphs.path(3), networkx.Graph).number_of_edges()
    2
    """
    made = create_using() if isinstance(create_using, type) else create_using
    if not hasattr(made, "add_nodes_from") or len(made):
        raise ArgumentError(
            f"to_networkx: expected a class of NetworkX's such as networkx.Graph, or an empty graph of it, got {made!r}"
        )
    of_nodes = {name: value.tolist() for name, value in graph.of_nodes().items()}
    made.add_nodes_from((i, {name: rows[i] for name, rows in of_nodes.items()}) for i in range(graph.num_nodes))
    of_edges = {name.removeprefix("edge_"): value.tolist() for name, value in graph.of_edges().items()}
    once = not made.is_directed() and graph.is_undirected()
    for number, (source, target) in enumerate(graph.edge_index.T.tolist()):
        if source <= target or not once:
            made.add_edge(source, target, **{name: rows[number] for name, rows in of_edges.items()})
    return made


# ------------------------------------------------------------------------------------------ dense batches
def to_dense_adj(
    edge_index: Tensor, batch: Tensor | None = None, edge_attr: Tensor | None = None, max_num_nodes: int | None = None
) -> Tensor:
    """The adjacency matrices of graphs side by side: (B, M, M), or (B, M, M, D) with attributes; repeated edges add up.

    >>> weft.graphs.to_dense_adj(weft.tensor([[0, 1], [1, 0]]), weft.tensor([0, 0, 1])).tolist()
    [[[0.0, 1.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]
    """
    owner, place, counts, most = _places(batch, node_count(edge_index), max_num_nodes)
    source, target = edge_index.array
    flat = wrap((owner[source] * most + place[source]) * most + place[target])
    values = weft.ones(edge_index.shape[1]) if edge_attr is None else edge_attr
    dense = values.new_zeros((len(counts) * most * most, *values.shape[1:])).index_add(0, flat, values)
    return dense.reshape(len(counts), most, most, *values.shape[1:])


def _places(batch: Tensor | None, count: int, size: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """The graph of each node, its place there, how many nodes each graph has, how many places there are."""
    owner = np.zeros(count, np.int64) if batch is None else batch.array
    if (np.diff(owner) < 0).any():
        raise ShapeError("expected batch in rising order: the nodes of each graph side by side")
    counts = np.bincount(owner, minlength=1 if batch is None else 0)
    most = int(counts.max(initial=0)) if size is None else size
    if counts.max(initial=0) > most:
        raise ShapeError(f"expected graphs of at most {most} nodes, got one of {counts.max()}")
    return owner, np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner], counts, most


# ------------------------------------------------------------------------------------------ PyTorch Geometric
def read_pyg(path: str | os.PathLike[str]) -> list[Graph]:
    """The graphs in a file that PyTorch Geometric has written of a processed set, or in its folder; PyTorch not needed.

    path: `processed/data.pt`, or the folder of the set. It holds tensors of all graphs one after the other, and where
    each begins (None for a single graph). Files of versions before 2.4 hold objects and are refused.

    >>> graphs = weft.graphs.read_pyg("data/MUTAG/processed")  # doctest: +SKIP
    """
    file = Path(path)
    if file.is_dir():
        file = next((p for p in (file / "data.pt", file / "processed" / "data.pt") if p.exists()), file / "data.pt")
    tree = load_torch(file)
    parts = tree[:2] if isinstance(tree, tuple) and len(tree) >= 2 else (tree, None)
    values, borders = parts
    if not isinstance(values, dict) or not (borders is None or isinstance(borders, dict)):
        raise LayoutError(
            f"{file}: expected a dictionary of tensors and where each graph begins, got {type(values).__name__}"
        )
    values = {name: value for name, value in values.items() if value is not None and not name.startswith("_")}
    if borders is None:
        return [Graph(**values)]
    count = len(next(iter(borders.values()))) - 1
    return [
        Graph(**{n: _part(n, v, borders[n], i, file) for n, v in values.items() if n in borders}) for i in range(count)
    ]


def _part(name: str, value: Any, borders: Any, number: int, file: Path) -> Any:
    first, last = int(borders[number]), int(borders[number + 1])
    if name == "num_nodes":
        return int(value[number])
    if not isinstance(value, Tensor):
        return value[number] if isinstance(value, list) and len(value) > number else value
    if not 0 <= first <= last <= value.shape[-1 if holds_nodes(name) else 0]:
        raise LayoutError(f"{file}: {name} of graph {number} is said to be {first}..{last} of {tuple(value.shape)}")
    return value[..., first:last] if holds_nodes(name) else value[first:last]
