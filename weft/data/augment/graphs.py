"""Augmentation of graphs (x, edge_index) or (x, edge_index, edge_attr): features (V, F), edges (2, E), (E, …).

One graph, or several in one (disjoint unions are graphs too). The result has the same entries as the input.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import OptionError, ShapeError
from ...random import Generator
from ...tensor import Tensor, wrap
from .base import Augmentation, Source, probability

__all__ = ["DropEdges", "DropNodes", "MaskFeatures", "RandomSubgraph"]

Graph = tuple[NDArray, NDArray, list[NDArray]]


class _OfGraphs(Augmentation):
    """A random function of one graph."""

    def __call__(self, x: Any, generator: Generator | None = None) -> Any:
        name = type(self).__name__
        graph = _opened(x, name)
        result = self.apply(graph, Source.of(generator, 1, name))
        parts = [result[0], result[1], *result[2]]
        return type(x)([wrap(p) if isinstance(old, Tensor) else p for old, p in zip(x, parts, strict=True)])

    @abstractmethod
    def apply(self, graph: Graph, source: Source) -> Graph:
        """The new graph."""


class DropEdges(_OfGraphs):
    """Each edge removed with probability p. undirected: both directions of an edge share their fate."""

    def __init__(self, p: float = 0.2, undirected: bool = False) -> None:
        self.p, self.undirected = probability(p, "DropEdges"), undirected

    def apply(self, graph: Graph, source: Source) -> Graph:
        x, edges, attributes = graph
        number = np.arange(edges.shape[1])
        if self.undirected:
            ends = np.sort(edges, 0).astype(np.int64)
            _, number = np.unique(ends[0] * max(len(x), 1) + ends[1], return_inverse=True)
        kept = source.uniform(edges.shape[1])[0][number] >= self.p
        return x.copy(), edges[:, kept], [a[kept] for a in attributes]


class MaskFeatures(_OfGraphs):
    """Each feature set to 0 with probability p: whole columns (as in GRACE), or with `each` every entry by itself."""

    def __init__(self, p: float = 0.2, each: bool = False) -> None:
        self.p, self.each = probability(p, "MaskFeatures"), each

    def apply(self, graph: Graph, source: Source) -> Graph:
        x, edges, attributes = graph
        kept = source.uniform(*(x.shape if self.each else x.shape[1:]))[0] >= self.p
        return np.where(kept, x, x.dtype.type(0)), edges.copy(), [a.copy() for a in attributes]


class DropNodes(_OfGraphs):
    """Each node removed with probability p, with its edges; the others are numbered anew. One node always stays.

    Use `kept(graph, generator)` with a generator in the same state to know which (for labels).
    """

    def __init__(self, p: float = 0.1) -> None:
        self.p = probability(p, "DropNodes")

    def apply(self, graph: Graph, source: Source) -> Graph:
        return induced(graph, self._kept(len(graph[0]), source))

    def kept(self, graph: Any, generator: Generator | None = None) -> Tensor:
        """The numbers of the nodes that a call with a generator in this state keeps."""
        count = len(_opened(graph, "DropNodes")[0])
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
        x, edges, _ = graph
        order = source.uniform(len(x))[0].argsort(kind="stable")
        kept = np.zeros(len(x), np.bool_)
        kept[_grown(edges, order, -int(-self.ratio * len(x) // 1))] = True
        return induced(graph, kept)


def induced(graph: Graph, kept: NDArray[np.bool_]) -> Graph:
    """The graph on the nodes kept, (V,) bool, with the edges between them, numbered anew."""
    x, edges, attributes = graph
    number = np.cumsum(kept) - 1
    inside = kept[edges].all(0) if edges.size else np.zeros(edges.shape[1], np.bool_)
    return x[kept], number[edges[:, inside]].astype(edges.dtype).reshape(2, -1), [a[inside] for a in attributes]


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


def _opened(graph: Any, name: str) -> Graph:
    if not isinstance(graph, (tuple, list)) or len(graph) < 2:
        raise OptionError(f"{name}: expected a graph (x, edge_index) or (x, edge_index, edge_attr)")
    x, edges, *attributes = (part.array if isinstance(part, Tensor) else np.asarray(part) for part in graph)
    if x.ndim != 2 or edges.ndim != 2 or len(edges) != 2 or any(len(a) != edges.shape[1] for a in attributes):
        raise ShapeError(
            f"{name}: expected features (V, F), edges (2, E) and attributes (E, …), got {x.shape}, {edges.shape}"
            + "".join(f", {a.shape}" for a in attributes)
        )
    if edges.size and not (edges.min() >= 0 and edges.max() < len(x)):
        raise OptionError(f"{name}: expected node numbers in [0, {len(x)}), got {edges.min()} … {edges.max()}")
    return x, edges, attributes
