"""Central nodes: by neighbours, by distances, by the ways that lead through them, by central neighbours.

Nodes in directed graphs are central by what comes in, as in NetworkX. Loops and repeated edges count as A has them, or
not at all where ways are looked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..data.graph import Graph
from ..errors import OptionError, ShapeError
from ..runtime.lazy import LazyModule
from ..tensor import Tensor, wrap
from .matrices import scipy_adjacency

__all__ = [
    "betweenness_centrality",
    "closeness_centrality",
    "degree_centrality",
    "eigenvector_centrality",
    "katz_centrality",
]

csgraph = LazyModule("scipy.sparse.csgraph")
sparse = LazyModule("scipy.sparse")
solvers = LazyModule("scipy.sparse.linalg")
TABLE = 1 << 22  # distances that are in memory at once
DENSE = 200  # nodes up to which eigenvectors are computed by a dense decomposition


def degree_centrality(graph: Graph) -> Tensor:
    """Neighbours as a share of all others: d / (N − 1); in directed graphs edges in and out count. (N,) float64.

    >>> weft.graphs.degree_centrality(weft.graphs.path(3)).tolist()
    [0.5, 1.0, 0.5]
    """
    matrix = _ways(graph)
    loops = matrix.diagonal()
    out, into = (np.asarray(matrix.sum(axis)).ravel() for axis in (1, 0))
    degree = out + loops if _symmetric(matrix) else out + into
    return wrap(degree / (graph.num_nodes - 1) if graph.num_nodes > 1 else np.ones(graph.num_nodes))


def closeness_centrality(graph: Graph, distance: Tensor | None = None) -> Tensor:
    """r / Σ d(v, u) · r / (N − 1) for the r nodes v from which u is reached, 0 where there is none. (N,) float64.

    The second factor keeps small components small (Wasserman and Faust 1994).
    distance: (E,) lengths of edges, above 0; 1 if not given

    >>> weft.graphs.closeness_centrality(weft.graphs.path(3)).round(decimals=4).tolist()
    [0.6667, 1.0, 0.6667]
    """
    count = graph.num_nodes
    matrix = _ways(graph) if distance is None else _lengths(graph, distance)
    back, result = matrix.T.tocsr(), np.zeros(count)
    for own in _blocks(count):
        far = csgraph.dijkstra(back, indices=own, unweighted=distance is None)
        reached = np.isfinite(far)
        r, total = reached.sum(1) - 1, np.where(reached, far, 0).sum(1)
        result[own] = np.divide(r * r, total * max(count - 1, 1), out=np.zeros(len(own)), where=total > 0)
    return wrap(result)


def betweenness_centrality(graph: Graph, normalized: bool = True) -> Tensor:
    """Σ over pairs s, t of the share of shortest ways from s to t that lead through the node. (N,) float64.

    Brandes' sums (2001), for many s at once: level by level outwards σ ← Aᵀ σ counts the ways, and back
    δ_v = Σ_w σ_v / σ_w (1 + δ_w). Edges count as 1 long; the time is O(N E).
    normalized: divide by the number of pairs of other nodes

    >>> weft.graphs.betweenness_centrality(weft.graphs.path(3)).tolist()
    [0.0, 1.0, 0.0]
    """
    count, matrix = graph.num_nodes, _ways(graph)
    total = np.zeros(count)
    for own in _blocks(count):
        total += _dependencies(matrix, own)
    undirected = _symmetric(matrix)
    if normalized:
        return wrap(total / ((count - 1) * (count - 2)) if count > 2 else total)
    return wrap(total / 2 if undirected else total)


def _dependencies(matrix: Any, sources: np.ndarray) -> np.ndarray:
    """Σ over sources of what each node is needed for on shortest ways from them: (N,)."""
    count, column = matrix.shape[0], np.arange(len(sources))
    back = matrix.T.tocsr()
    level = np.full((count, len(sources)), -1)
    ways = np.zeros((count, len(sources)))
    level[sources, column], ways[sources, column] = 0, 1
    front, depth = ways, 0
    while front.any():
        depth += 1
        front = (back @ front) * (level < 0)
        level[front > 0] = depth
        ways = ways + front
    needed = np.zeros_like(ways)
    for step in range(depth - 1, 0, -1):
        share = np.divide(1 + needed, ways, out=np.zeros_like(ways), where=level == step)
        needed += ways * (matrix @ share) * (level == step - 1)
    needed[sources, column] = 0
    return needed.sum(1)


def eigenvector_centrality(graph: Graph) -> Tensor:
    """λ x = Aᵀ x with the largest λ: central is what central nodes lead to. (N,) float64, x ≥ 0, ‖x‖ = 1.

    It is unique where every node can be reached from every other one; other graphs are refused (Bonacich 1972).

    >>> weft.graphs.eigenvector_centrality(weft.graphs.ring(4)).round(decimals=6).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    matrix = scipy_adjacency(graph)
    parts = csgraph.connected_components(matrix, connection="strong")[0]
    if parts != 1:
        raise OptionError(
            f"eigenvector_centrality: expected every node to be reached from every other one, got {parts} parts"
        )
    if graph.num_nodes <= DENSE:
        values, vectors = np.linalg.eig(matrix.T.toarray())
        vector = np.real(vectors[:, np.real(values).argmax()])
    else:
        start = np.ones(graph.num_nodes)
        vector = solvers.eigs(matrix.T, 1, which="LR", v0=start)[1][:, 0].real
    return wrap(np.abs(vector) / np.linalg.norm(vector))


def katz_centrality(graph: Graph, alpha: float = 0.1, beta: float | Tensor = 1.0, normalized: bool = True) -> Tensor:
    """x = α Aᵀ x + β: ways that lead to a node count, those of k steps as αᵏ. (N,) float64 (Katz 1953).

    alpha: below 1 / λ_max(A); beta: what every node has, or (N,); normalized: divide by ‖x‖

    >>> weft.graphs.katz_centrality(weft.graphs.path(2), 0.5, normalized=False).tolist()
    [2.0, 2.0]
    """
    count, matrix = graph.num_nodes, scipy_adjacency(graph)
    given = np.asarray(beta.array if isinstance(beta, Tensor) else beta, np.float64)
    if given.shape not in ((), (count,)):
        raise ShapeError(f"katz_centrality: expected beta to be a number or ({count},), got {given.shape}")
    if not count:
        return wrap(np.zeros(0))
    x = solvers.spsolve((sparse.eye_array(count) - alpha * matrix.T).tocsc(), np.broadcast_to(given, count))
    if not np.isfinite(x).all() or ((given > 0).all() and (x <= 0).any()):
        raise OptionError(f"katz_centrality: expected alpha below 1 / the largest eigenvalue of A, got {alpha}")
    return wrap(x / np.linalg.norm(x) if normalized else x)


# ------------------------------------------------------------------------------------------ matrices of ways
def _ways(graph: Graph) -> Any:
    """A with 1 for each pair that is joined, however often and strongly."""
    matrix = scipy_adjacency(graph.replace(edge_weight=None))
    matrix.data[:] = 1
    return matrix


def _lengths(graph: Graph, distance: Tensor) -> Any:
    """The shortest of the edges i → j at [i, j]."""
    lengths = distance.array.astype(np.float64)
    if lengths.shape != (graph.num_edges,) or not (lengths > 0).all():
        raise OptionError(f"closeness_centrality: expected {graph.num_edges} distances above 0, got {lengths.shape}")
    order = np.argsort(-lengths, kind="stable")  # the last one written is the shortest
    source, target = graph.edge_index.array[:, order]
    keys, place = np.unique(source * max(graph.num_nodes, 1) + target, return_inverse=True)
    shortest = np.zeros(len(keys))
    shortest[place] = lengths[order]
    ends = np.divmod(keys, max(graph.num_nodes, 1))
    return sparse.csr_array((shortest, ends), shape=(graph.num_nodes,) * 2)


def _symmetric(matrix: Any) -> bool:
    return (matrix != matrix.T).nnz == 0


def _blocks(count: int) -> Iterator[np.ndarray]:
    """Nodes in groups of which a table (N, group) fits into memory."""
    size = max(1, TABLE // max(count, 1))
    return (np.arange(first, min(first + size, count)) for first in range(0, count, size))
