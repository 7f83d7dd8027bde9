"""Important nodes: PageRank and HITS, which come from walks along edges (N2 §7)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..data.graph import Graph
from ..errors import LinAlgError, OptionError, ShapeError
from ..runtime.lazy import LazyModule
from ..tensor import Tensor, wrap
from .matrices import scipy_adjacency

__all__ = ["Hits", "hits", "pagerank"]

solvers = LazyModule("scipy.sparse.linalg")
DENSE = 64  # nodes up to which singular vectors are computed by a dense decomposition


def pagerank(
    graph: Graph,
    alpha: float = 0.85,
    personalization: Tensor | None = None,
    dangling: Tensor | None = None,
    tol: float = 1e-12,
    max_iter: int = 1000,
) -> Tensor:
    """Where a walker is who follows an edge with probability α and else begins anew: (N,) float64, of sum 1.

    x = α (xᵀ D⁻¹A + (Σ of x where there is no way out) · dangling) + (1 − α) · personalization
    Edges are chosen in proportion to their weights. (Brin and Page 1998)

    personalization: (N,) where walks begin, in proportion; everywhere alike if not given
    dangling: (N,) where nodes without edges out of them lead to; where walks begin if not given
    tol, max_iter: iterate until Σ|change| < tol, or raise after so many steps

    >>> ring = weft.graphs.ring(4, directed=True)
    >>> weft.graphs.pagerank(ring).round(decimals=6).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    if not 0 <= alpha < 1:
        raise OptionError(f"pagerank: expected alpha in [0, 1), got {alpha}")
    count = graph.num_nodes
    if not count:
        return wrap(np.zeros(0))
    matrix = scipy_adjacency(graph)
    out = np.asarray(matrix.sum(1)).ravel()
    if matrix.nnz and matrix.data.min() < 0:
        raise OptionError(f"pagerank: expected weights of at least 0, got {matrix.data.min()}")
    step = matrix.multiply(np.divide(1, out, out=np.zeros(count), where=out > 0)[:, None]).T.tocsr()
    begin = _shares(personalization, count, "personalization")
    lead = begin if dangling is None else _shares(dangling, count, "dangling")
    x = np.full(count, 1 / count)
    for _ in range(max_iter):
        before = x
        x = alpha * (step @ x + x[out == 0].sum() * lead) + (1 - alpha) * begin
        if np.abs(x - before).sum() < tol:
            return wrap(x)
    raise LinAlgError(f"pagerank: the change is above {tol} after {max_iter} steps; give more, or a larger tol")


def _shares(given: Tensor | None, count: int, name: str) -> np.ndarray:
    if given is None:
        return np.full(count, 1 / count)
    shares = given.array.astype(np.float64)
    if shares.shape != (count,):
        raise ShapeError(f"pagerank: expected {name} ({count},), got {shares.shape}")
    if not (shares >= 0).all() or not shares.sum() > 0:
        raise OptionError(f"pagerank: expected {name} of at least 0 with some above, got {shares.tolist()[:8]}")
    return shares / shares.sum()


class Hits(NamedTuple):
    """(N,) each, of sum 1: hubs lead to good authorities, authorities are led to by good hubs."""

    hubs: Tensor
    authorities: Tensor


def hits(graph: Graph) -> Hits:
    """Hubs h ∝ A a and authorities a ∝ Aᵀ h: the first singular vectors of A (Kleinberg 1999).

    >>> star = weft.graphs.from_edge_list([(0, 1), (0, 2)])
    >>> weft.graphs.hits(star).hubs.tolist(), weft.graphs.hits(star).authorities.round(decimals=6).tolist()
    ([1.0, 0.0, 0.0], [0.0, 0.5, 0.5])
    """
    count = graph.num_nodes
    if not graph.num_edges:
        return Hits(wrap(np.zeros(count)), wrap(np.zeros(count)))
    matrix = scipy_adjacency(graph)
    a = np.abs(_first_right(matrix))
    h = matrix @ a
    a = matrix.T @ h
    return Hits(wrap(h / h.sum()), wrap(a / a.sum()))


def _first_right(matrix: Any) -> np.ndarray:
    if matrix.shape[0] <= DENSE:
        return np.linalg.svd(matrix.toarray())[2][0]
    return solvers.svds(matrix, 1, v0=np.ones(matrix.shape[0]), tol=1e-14)[2][0]
