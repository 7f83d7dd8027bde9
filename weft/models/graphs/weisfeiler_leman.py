"""Weisfeiler and Leman's test: colours of vertices refined by those of their neighbours, and a kernel of graphs made of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data.graph import Graph
from ...runtime.lazy import LazyModule

__all__ = ["wl_colours", "wl_features", "wl_kernel"]

sparse = LazyModule("scipy.sparse")


def wl_colours(graphs: Sequence[Graph], rounds: int, start: Sequence[NDArray] | None = None) -> list[list[NDArray]]:
    """Colours of the vertices of all graphs after 0, 1, … `rounds` rounds, numbered alike in all graphs.

    A round gives vertices with the same colour and the same bag of colours of neighbours the same new colour. start: first
    colours, by default those of the rows of x, or one for all without x.

    >>> path = Graph(edge_index=weft.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    >>> wl_colours([path], 1)[1][0].tolist()
    [0, 1, 0]
    """
    borders = np.cumsum([0, *[graph.num_nodes for graph in graphs]])
    ends = [graph.edge_index.numpy() + first for graph, first in zip(graphs, borders[:-1], strict=True)]
    edges = np.concatenate(ends, 1) if ends else np.zeros((2, 0), np.int64)
    order = np.argsort(edges[1], kind="stable")
    sources, starts = edges[0, order], np.searchsorted(edges[1, order], np.arange(borders[-1] + 1))
    colours = _first(graphs, int(borders[-1])) if start is None else _numbered(np.concatenate(start))
    found = [colours]
    for _ in range(rounds):
        seen = colours[sources]
        bags = [
            (int(own), *np.sort(seen[a:b]).tolist()) for own, a, b in zip(colours, starts[:-1], starts[1:], strict=True)
        ]
        names = {bag: number for number, bag in enumerate(sorted(set(bags)))}
        colours = np.array([names[bag] for bag in bags], np.int64)
        found.append(colours)
    return [[level[a:b] for a, b in pairwise(borders)] for level in found]


def wl_features(graphs: Sequence[Graph], rounds: int) -> Any:
    """How often each colour of each round occurs in each graph: a SciPy matrix (graphs, colours).

    >>> pair = Graph(edge_index=weft.tensor([[0, 1], [1, 0]]))
    >>> wl_features([pair, pair], 1).toarray().tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """
    parts = []
    for level in wl_colours(graphs, rounds):
        rows = np.repeat(np.arange(len(graphs)), [len(part) for part in level])
        columns = np.concatenate(level) if level else np.zeros(0, np.int64)
        size = (len(graphs), int(columns.max(initial=-1)) + 1)
        parts.append(sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=size))
    return sparse.hstack(parts).tocsr()


def wl_kernel(graphs: Sequence[Graph], rounds: int) -> NDArray:
    """The subtree kernel (Shervashidze et al. 2011), k(G, H) / √(k(G, G) k(H, H)): (graphs, graphs).

    >>> pair = Graph(edge_index=weft.tensor([[0, 1], [1, 0]]))
    >>> wl_kernel([pair, pair], 1).round(6).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    counts = wl_features(graphs, rounds)
    kernel = np.asarray((counts @ counts.T).todense(), float)
    scale = np.sqrt(np.maximum(kernel.diagonal(), 1e-300))
    return kernel / scale[:, None] / scale


def _first(graphs: Sequence[Graph], count: int) -> NDArray:
    if not graphs or any(graph.x is None for graph in graphs):
        return np.zeros(count, np.int64)
    return _numbered(np.concatenate([graph.x.numpy() for graph in graphs]))


def _numbered(rows: NDArray) -> NDArray:
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
