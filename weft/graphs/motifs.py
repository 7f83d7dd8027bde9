"""Small subgraphs that a graph has more often than chance would have it: triangles, stars, cycles, cliques (N2 §7).

A motif is counted where its vertices have just its edges between them (induced). Directions, weights, loops and repeated edges
are not looked at.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import weft

from ..data.graph import Graph
from ..errors import OptionError
from ..runtime.lazy import LazyModule
from ..tensor import Tensor, wrap
from .edges import to_undirected

__all__ = ["Motif", "clustering_coefficient", "motif_counts", "motif_significance", "rewired", "triangles"]

sparse = LazyModule("scipy.sparse")


def _simple(graph: Graph) -> Any:
    """A with 1 for each pair that is joined in either direction, without loops."""
    source, target = graph.edge_index.array
    other = source != target
    ones, count = np.ones(int(other.sum()), np.int64), graph.num_nodes
    matrix = sparse.csr_array((ones, (source[other], target[other])), shape=(count, count))
    matrix = (matrix + matrix.T).tocsr()
    matrix.data[:] = 1
    return matrix


def triangles(graph: Graph) -> Tensor:
    """How many triangles each vertex is in: (A³)ᵢᵢ / 2. (N,) int64.

    >>> weft.graphs.triangles(weft.graphs.complete(4)).tolist()
    [3, 3, 3, 3]
    """
    matrix = _simple(graph)
    return wrap(np.asarray((matrix @ matrix).multiply(matrix).sum(1)).ravel().astype(np.int64) // 2)


def clustering_coefficient(graph: Graph) -> Tensor:
    """The share of pairs of neighbours that are joined: 2 tᵢ / (dᵢ (dᵢ − 1)), 0 below two neighbours. (N,) float64.

    >>> weft.graphs.clustering_coefficient(weft.graphs.ring(3)).tolist()
    [1.0, 1.0, 1.0]
    """
    degree = np.asarray(_simple(graph).sum(1)).ravel()
    pairs = degree * (degree - 1)
    return wrap(np.where(pairs > 0, 2 * triangles(graph).array / np.maximum(pairs, 1), 0.0))


def motif_counts(graph: Graph) -> dict[str, int]:
    """How often each connected graph on three and four vertices is there, by its name.

    Counted by sums over vertices, edges and common neighbours; only cliques of four are looked for edge by edge.

    >>> weft.graphs.motif_counts(weft.graphs.ring(4))
    {'path3': 4, 'triangle': 0, 'path4': 0, 'star': 0, 'cycle': 1, 'paw': 0, 'diamond': 0, 'clique': 0}
    """
    matrix = _simple(graph)
    degree = np.asarray(matrix.sum(1)).ravel().astype(np.int64)
    common = (matrix @ matrix).tocsr()  # ways of two steps
    upper = sparse.triu(common, 1).tocoo()
    edges = sparse.triu(matrix, 1).tocoo()
    shared = np.array([], np.int64)  # triangles on each edge; SciPy takes no empty index
    if edges.nnz:
        shared = np.asarray(common[edges.row, edges.col]).ravel()
    pairs = lambda n: n * (n - 1) // 2
    around = triangles(graph).array
    three = int(shared.sum()) // 3
    clique = _cliques(matrix, edges, shared)
    # subgraphs with at least these edges …
    diamonds, cycles = int(pairs(shared).sum()), int(pairs(upper.data).sum()) // 2
    paws, stars = int((around * (degree - 2)).sum()), int((pairs(degree) * (degree - 2) // 3).sum())
    paths = int(((degree[edges.row] - 1) * (degree[edges.col] - 1)).sum()) - 3 * three
    # … less those in which there are more
    diamond = diamonds - 6 * clique
    cycle, paw = cycles - diamond - 3 * clique, paws - 4 * diamond - 12 * clique
    star = stars - paw - 2 * diamond - 4 * clique
    path = paths - 2 * paw - 4 * cycle - 6 * diamond - 12 * clique
    return {
        **{"path3": int(pairs(degree).sum()) - 3 * three, "triangle": three, "path4": path, "star": star},
        **{"cycle": cycle, "paw": paw, "diamond": diamond, "clique": clique},
    }


def _cliques(matrix: Any, edges: Any, shared: np.ndarray) -> int:
    """Cliques of four: each has six edges, whose ends have the other two as joined common neighbours."""
    total, rows = 0, np.split(matrix.indices, matrix.indptr[1:-1])
    for a, b in zip(edges.row[shared > 1], edges.col[shared > 1], strict=True):
        both = np.intersect1d(rows[a], rows[b], assume_unique=True)
        total += int(matrix[both][:, both].sum()) // 2
    return total // 6


def rewired(graph: Graph, swaps: int | None = None, *, generator: weft.Generator | None = None) -> Graph:
    """A random graph in which every vertex has as many neighbours as before: pairs of edges exchange their ends.

    a – b, c – d become a – d, c – b where this makes no loop and no edge a second time (Maslov and Sneppen 2002).
    swaps: how often that is tried, by default ten times for every edge

    >>> ring = weft.graphs.ring(8)
    >>> other = weft.graphs.rewired(ring, generator=weft.Generator().manual_seed(0))
    >>> weft.graphs.degree(other.edge_index[0]).tolist() == weft.graphs.degree(ring.edge_index[0]).tolist()
    True
    """
    found = sparse.triu(_simple(graph), 1).tocoo()
    pairs, count = np.stack([found.row, found.col], 1).astype(np.int64), len(found.row)
    random = weft.default_generator if generator is None else generator
    tries = 10 * count if swaps is None else swaps
    known = {(int(a), int(b)) for a, b in pairs}
    drawn = (random.uniform((tries, 3), np.float64) * (count, count, 2)).astype(np.int64)
    for one, two, turned in drawn if count > 1 else ():
        (a, b), (c, d) = pairs[one], pairs[two][:: -1 if turned else 1]
        new = [(int(min(pair)), int(max(pair))) for pair in ((a, d), (c, b))]
        if one == two or a == d or c == b or new[0] in known or new[1] in known or new[0] == new[1]:
            continue
        known -= {tuple(sorted((int(a), int(b)))), tuple(sorted((int(c), int(d))))}
        known |= set(new)
        pairs[one], pairs[two] = new
    edges = to_undirected(wrap(np.ascontiguousarray(pairs.T)), num_nodes=graph.num_nodes)
    return Graph(edge_index=edges, num_nodes=graph.num_nodes)


class Motif(NamedTuple):
    """count: how often a motif is there; mean, deviation: in random graphs of the same degrees; z: (count − mean) / deviation."""

    count: int
    mean: float
    deviation: float
    z: float


def motif_significance(graph: Graph, samples: int = 20, *, generator: weft.Generator | None = None) -> dict[str, Motif]:
    """Which motifs are more frequent (z > 0) or rarer than in `rewired` graphs (Milo et al. 2002).

    >>> club = weft.graphs.watts_strogatz(30, 4, 0.05, seed=0)
    >>> weft.graphs.motif_significance(club, 5, generator=weft.Generator().manual_seed(0))["triangle"].z > 2
    True
    """
    if samples < 2:
        raise OptionError(f"motif_significance: expected at least 2 samples, got {samples}")
    own = motif_counts(graph)
    drawn = [motif_counts(rewired(graph, generator=generator)) for _ in range(samples)]
    found = {}
    for name, count in own.items():
        values = np.array([row[name] for row in drawn], float)
        mean, deviation = float(values.mean()), float(values.std(ddof=1))
        away = count - mean
        z = away / deviation if deviation else float(np.copysign(np.inf, away)) if away else 0.0
        found[name] = Motif(count, mean, deviation, z)
    return found
