"""Augmentation of graphs: `weft.data.Graph`, as sources and `synthetic` give them, or tuples of arrays and tensors.

A tuple is (x, edge_index) or (x, edge_index, edge_attr): features (V, F), edges (2, E), (E, …). One graph, or several in
one (disjoint unions are graphs too). The result is of the same kind as the input; labels, masks and `batch` of a `Graph`
follow its nodes.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import OptionError, ShapeError
from ...random import Generator
from ...tensor import Tensor, wrap
from ..graph import Graph
from .base import Augmentation, Source, probability

__all__ = ["DropEdges", "DropNodes", "MaskFeatures", "RandomSubgraph"]


class _OfGraphs(Augmentation):
    """A random function of one graph."""

    def __call__(self, x: Any, generator: Generator | None = None) -> Any:
        name = type(self).__name__
        result = self.apply(_opened(x, name), Source.of(generator, 1, name))
        if isinstance(x, Graph):
            return result
        parts = [result.x, result.edge_index, result.edge_attr][: len(x)]
        return type(x)([new if isinstance(old, Tensor) else new.array for old, new in zip(x, parts, strict=True)])

    @abstractmethod
    def apply(self, graph: Graph, source: Source) -> Graph:
        """The new graph."""


class DropEdges(_OfGraphs):
    """Each edge removed with probability p. undirected: both directions of an edge share their fate."""

    def __init__(self, p: float = 0.2, undirected: bool = False) -> None:
        self.p, self.undirected = probability(p, "DropEdges"), undirected

    def apply(self, graph: Graph, source: Source) -> Graph:
        edges = graph.edge_index.array
        number = np.arange(edges.shape[1])
        if self.undirected:
            ends = np.sort(edges, 0).astype(np.int64)
            _, number = np.unique(ends[0] * max(graph.num_nodes, 1) + ends[1], return_inverse=True)
        kept = source.uniform(edges.shape[1])[0][number] >= self.p
        return _apart(graph.with_edges(wrap(kept)))


class MaskFeatures(_OfGraphs):
    """Each feature set to 0 with probability p: whole columns (as in GRACE), or with `each` every entry by itself."""

    def __init__(self, p: float = 0.2, each: bool = False) -> None:
        self.p, self.each = probability(p, "MaskFeatures"), each

    def apply(self, graph: Graph, source: Source) -> Graph:
        if graph.x is None:
            raise OptionError("MaskFeatures: expected a graph with features x, got one without")
        x = graph.x.array
        kept = source.uniform(*(x.shape if self.each else x.shape[1:]))[0] >= self.p
        return _apart(graph).replace(x=wrap(np.where(kept, x, x.dtype.type(0))))


class DropNodes(_OfGraphs):
    """Each node removed with probability p, with its edges; the others are numbered anew. One node always stays.

    Use `kept(graph, generator)` with a generator in the same state to know which (for labels).
    """

    def __init__(self, p: float = 0.1) -> None:
        self.p = probability(p, "DropNodes")

    def apply(self, graph: Graph, source: Source) -> Graph:
        return graph.subgraph(wrap(self._kept(graph.num_nodes, source)))

    def kept(self, graph: Any, generator: Generator | None = None) -> Tensor:
        """The numbers of the nodes that a call with a generator in this state keeps."""
        count = _opened(graph, "DropNodes").num_nodes
        return wrap(np.flatnonzero(self._kept(count, Source.of(generator, 1, "DropNodes"))))

    def _kept(self, count: int, source: Source) -> NDArray[np.bool_]:
        u = source.uniform(count)[0]
        return (u >= self.p) | (np.arange(count) == (u.argmax() if count else 0))


class RandomSubgraph(_OfGraphs):
    """The subgraph on a share `ratio` of the nodes, grown from a random one along edges in random order.

    Where a component is used up, growth starts again from another random node.
    """

    def __init__(self, ratio: float = 0.8) -> None:
        if not 0 < ratio <= 1:
            raise OptionError(f"RandomSubgraph: expected a ratio in (0, 1], got {ratio}")
        self.ratio = ratio

    def apply(self, graph: Graph, source: Source) -> Graph:
        count = graph.num_nodes
        order = source.uniform(count)[0].argsort(kind="stable")
        kept = np.zeros(count, np.bool_)
        kept[_grown(graph.edge_index.array, order, -int(-self.ratio * count // 1))] = True
        return graph.subgraph(wrap(kept))


def _grown(edges: NDArray, order: NDArray, count: int) -> list[int]:
    """`count` nodes: always the neighbour of those taken that comes first in `order`, or else the first one left."""
    import heapq

    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    neighbours = _neighbours(edges, len(order))
    taken, waiting, fresh = np.zeros(len(order), np.bool_), [], iter(order)
    result: list[int] = []
    while len(result) < count:
        node = int(order[heapq.heappop(waiting)]) if waiting else int(next(fresh))
        if taken[node]:
            continue
        taken[node] = True
        result.append(node)
        for other in neighbours[node]:
            heapq.heappush(waiting, int(rank[other]))
    return result


def _neighbours(edges: NDArray, count: int) -> list[NDArray]:
    """Of each node, those that an edge in either direction joins to it."""
    both = np.concatenate([edges, edges[::-1]], 1)
    both = both[:, both[0].argsort(kind="stable")]
    return np.split(both[1], np.searchsorted(both[0], np.arange(1, count)))


def _apart(graph: Graph) -> Graph:
    """The same graph with memory of its own: what is done to it afterwards does not reach the input."""
    return graph.clone()


def _opened(graph: Any, name: str) -> Graph:
    """The graph, or that of a tuple."""
    if isinstance(graph, Graph):
        return graph
    if not isinstance(graph, (tuple, list)) or not 2 <= len(graph) <= 3:
        raise OptionError(
            f"{name}: expected a weft.data.Graph, or (x, edge_index) or (x, edge_index, edge_attr), got "
            f"{type(graph).__name__}"
        )
    x, edges, *attributes = (part.array if isinstance(part, Tensor) else np.asarray(part) for part in graph)
    if x.ndim != 2 or edges.ndim != 2 or len(edges) != 2 or any(len(a) != edges.shape[1] for a in attributes):
        raise ShapeError(
            f"{name}: expected features (V, F), edges (2, E) and attributes (E, …), got {x.shape}, {edges.shape}"
            + "".join(f", {a.shape}" for a in attributes)
        )
    if edges.size and not (edges.min() >= 0 and edges.max() < len(x)):
        raise OptionError(f"{name}: expected node numbers in [0, {len(x)}), got {edges.min()} … {edges.max()}")
    return Graph(wrap(x), wrap(edges), wrap(attributes[0]) if attributes else None)
