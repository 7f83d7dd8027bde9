"""The matrices of a graph: adjacency, incidence, Laplacians (N2 §7.1).

A[i, j] is the weight of the edge i → j (1 without weights); edges that are there several times add up. They are sparse
tensors whose values carry gradients to `edge_weight`; `.to_dense()` and `.scipy()` give the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import weft

from ..data.graph import Graph
from ..errors import OptionError
from ..runtime.lazy import LazyModule
from ..sparse import CSR, SparseTensor, ordered
from ..tensor import Tensor, wrap
from .edges import degree

__all__ = ["adjacency", "incidence", "laplacian"]

sparse = LazyModule("scipy.sparse")


def weights_of(graph: Graph) -> Tensor:
    """(E,): the weights of edges, 1 where there are none."""
    return weft.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight


def adjacency(graph: Graph) -> SparseTensor:
    """A (N, N) with aᵢⱼ = Σ of the weights of edges i → j.

    >>> weft.graphs.adjacency(weft.graphs.ring(3)).to_dense().tolist()
    [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    """
    source, target = graph.edge_index.array
    return ordered(source, target, weights_of(graph), (graph.num_nodes,) * 2, CSR)


def laplacian(graph: Graph, normalization: str | None = None) -> SparseTensor:
    """The Laplacian (N, N) of a graph.

        None    L = D − A, with D = diag(d), dᵢ = Σⱼ aᵢⱼ
        "sym"   L_sym = D^-½ L D^-½
        "rw"    L_rw = D⁻¹ L

    A node without edges has a row of zeros in each (1/0 counts as 0), so that the multiplicity of the eigenvalue 0 is
    the number of components for all three; loops change the normalised ones only.

    >>> weft.graphs.laplacian(weft.graphs.path(3)).to_dense().tolist()
    [[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]]
    """
    if normalization not in (None, "sym", "rw"):
        raise OptionError(f"laplacian: normalization must be None, 'sym' or 'rw', got {normalization!r}")
    count = graph.num_nodes
    source, target = graph.edge_index[0], graph.edge_index[1]
    weight, node = weights_of(graph), weft.arange(count)
    d = degree(source, count, weight=weight)
    off, diagonal = -weight, d
    if normalization is not None:
        inverse = weft.where(d > 0, 1 / weft.where(d > 0, d, 1.0), 0.0)
        left, right = (inverse, weft.ones_like(d)) if normalization == "rw" else (inverse.sqrt(), inverse.sqrt())
        off, diagonal = off * left[source] * right[target], d * left * right
    rows, columns = weft.cat([source, node]).array, weft.cat([target, node]).array
    return ordered(rows, columns, weft.cat([off, diagonal]), (count, count), CSR)


def incidence(graph: Graph, oriented: bool = True) -> SparseTensor:
    """P (N, M): a column for each of M edges, with −√w at its source and √w at its target; so L = P Pᵀ.

    An undirected edge has one column, from its lower to its higher number; a loop has one of zeros. Where edges are not
    all there in both directions, each has a column, and P Pᵀ is the Laplacian of the graph without directions.
    oriented: False for √w at both ends; then P Pᵀ = D + A

    >>> weft.graphs.incidence(weft.graphs.path(3)).to_dense().tolist()
    [[-1.0, 0.0], [1.0, -1.0], [0.0, 1.0]]
    """
    source, target = graph.edge_index.array
    if graph.is_undirected():
        kept = np.flatnonzero(source <= target)
    else:
        kept = np.arange(graph.num_edges)
    root = weights_of(graph)[wrap(kept)].sqrt()
    ends, column = (source[kept], target[kept]), np.arange(len(kept))
    proper = wrap(ends[0] != ends[1]).to(root.dtype)
    values = weft.cat([-root * proper if oriented else root * proper, root * proper])
    return ordered(np.concatenate(ends), np.concatenate([column, column]), values, (graph.num_nodes, len(kept)), CSR)


# ------------------------------------------------------------------------------------------ for SciPy
def scipy_adjacency(graph: Graph) -> Any:
    """A as a csr_array of float64, in order and without repetitions."""
    return scipy_of(adjacency(graph))


def scipy_laplacian(graph: Graph, normalization: str | None = None) -> Any:
    """A Laplacian as a csr_array of float64, computed in that type."""
    exact = graph.replace(edge_weight=weights_of(graph).detach().double())
    return scipy_of(laplacian(exact, normalization))


def scipy_of(matrix: SparseTensor) -> Any:
    return matrix.detach().double().scipy().tocsr()


def check_undirected(graph: Graph, name: str) -> None:
    """Raise unless the adjacency matrix is symmetric with weights of at least 0."""
    if not graph.is_undirected():
        matrix = scipy_adjacency(graph)
        if (matrix != matrix.T).nnz:
            raise OptionError(
                f"{name}: expected an undirected graph, got one with edges that have no equal in the other direction; "
                "make it so with weft.graphs.to_undirected(graph)"
            )
    if graph.edge_weight is not None and (graph.edge_weight.array < 0).any():
        raise OptionError(f"{name}: expected weights of at least 0, got {graph.edge_weight.array.min()}")
