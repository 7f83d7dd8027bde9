"""Eigenvalues and eigenvectors of Laplacians (N2 §7.2–7.5): what they say of a graph, and how to find a few of many.

Eigenvectors are known up to their sign, and up to a rotation where an eigenvalue occurs several times: compare the
spaces they span, not the vectors (`subspace_distance`). Here the entry of largest magnitude is positive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..data.graph import Graph
from ..errors import OptionError, ShapeError
from ..runtime.lazy import LazyModule
from ..tensor import Tensor, wrap
from .matrices import check_undirected, scipy_adjacency, scipy_laplacian

__all__ = ["Spectrum", "connected_components", "fiedler_vector", "spectral_embedding", "spectrum", "subspace_distance"]

csgraph = LazyModule("scipy.sparse.csgraph")
sparse = LazyModule("scipy.sparse")
solvers = LazyModule("scipy.sparse.linalg")

DENSE = 400  # nodes up to which all eigenvectors are computed at once
SAME = 1e-10  # of the largest: eigenvalues so near are one
RESTARTS = 100  # of Lanczos' method, before the matrix is factored


class Spectrum(NamedTuple):
    """Eigenvalues λ₁ ≤ λ₂ ≤ … (k,) and eigenvectors q₁, q₂, … as columns (N, k), both float64."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def spectrum(graph: Graph, k: int | None = None, normalization: str | None = None) -> Spectrum:
    """The k smallest eigenvalues of the Laplacian of an undirected graph with their eigenvectors; all without k.

    L = Q Λ Qᵀ with 0 = λ₁ ≤ … ≤ λ_N ≤ 2 max d, and Σ λ = Σ d. For "sym" λ_N ≤ 2. For "rw" the eigenvectors solve
    L v = λ D v with vᵀ D v = 1 (nodes without edges count as d = 1).
    The space of λ = 0 is spanned by the indicators of components, which are found first; the other eigenvectors of large
    graphs come by Lanczos' method from λ_max I − L, or, where that does not converge, from (L + εI)⁻¹ (`eigsh`).

    >>> weft.graphs.spectrum(weft.graphs.path(3)).eigenvalues.round(decimals=6).abs().tolist()
    [0.0, 1.0, 3.0]
    """
    check_undirected(graph, "spectrum")
    count = graph.num_nodes
    if k is not None and not 0 <= k <= count:
        raise OptionError(f"spectrum: expected k of 0..{count}, got {k}")
    matrix = scipy_laplacian(graph, "sym" if normalization == "rw" else normalization)
    wanted = count if k is None else k
    if count <= DENSE or wanted > count // 2:
        values, vectors = np.linalg.eigh(matrix.toarray())
        values, vectors = values[:wanted], vectors[:, :wanted]
    else:
        values, vectors = _fewest(matrix, _kernel(graph, normalization), wanted)
    if normalization == "rw":
        d = np.asarray(scipy_adjacency(graph).sum(1)).ravel()
        vectors = vectors / np.sqrt(np.where(d > 0, d, 1))[:, None]
    return Spectrum(wrap(np.maximum(values, 0.0)), wrap(np.ascontiguousarray(_signed(vectors))))


def connected_components(graph: Graph) -> tuple[int, Tensor]:
    """How many components there are, and the number of that of each node (N,); directions do not count.

    >>> count, label = weft.graphs.connected_components(weft.graphs.Graph(edge_index=weft.tensor([[0], [2]])))
    >>> count, label.tolist()
    (2, [0, 1, 0])
    """
    count, label = csgraph.connected_components(scipy_adjacency(graph), directed=False)
    return int(count), wrap(label.astype(np.int64))


def fiedler_vector(graph: Graph, normalization: str | None = None) -> tuple[float, Tensor]:
    """λ₂ and its eigenvector q₂: argmin fᵀLf over ‖f‖ = 1, f ⊥ 1 (Rayleigh–Ritz); its signs cut the graph in two.

    λ₂ > 0 exactly if the graph is connected.

    >>> value, vector = weft.graphs.fiedler_vector(weft.graphs.path(4))
    >>> round(value, 6), len((vector > 0).nonzero())
    (0.585786, 2)
    """
    if graph.num_nodes < 2:
        raise OptionError(f"fiedler_vector: expected at least 2 nodes, got {graph.num_nodes}")
    values, vectors = spectrum(graph, 2, normalization)
    return float(values[1]), vectors[:, 1]


def spectral_embedding(graph: Graph, dim: int, normalization: str | None = "rw", drop_first: bool = True) -> Tensor:
    """Row v of the eigenvectors with the smallest eigenvalues as the place of node v: (N, dim).

    drop_first: leave q₁ out, which is constant where the graph is connected (unless "sym")

    >>> weft.graphs.spectral_embedding(weft.graphs.ring(8), 2).shape
    weft.Size([8, 2])
    """
    return spectrum(graph, dim + drop_first, normalization).eigenvectors[:, int(drop_first) :]


def subspace_distance(a: Tensor, b: Tensor) -> float:
    """The sine of the largest angle between the spaces that the columns of two matrices span: ‖QₐQₐᵀ − Q_bQ_bᵀ‖₂.

    >>> weft.graphs.subspace_distance(weft.eye(3)[:, :1], -weft.eye(3)[:, :1])
    0.0
    """
    if a.shape != b.shape or a.ndim != 2:
        raise ShapeError(f"subspace_distance: expected two matrices of one shape, got {a.shape} and {b.shape}")
    one, two = (np.linalg.qr(x.array.astype(np.float64))[0] for x in (a, b))
    rest = two - one @ (one.T @ two)
    return float(np.linalg.norm(rest, 2)) if rest.size else 0.0


def _kernel(graph: Graph, normalization: str | None) -> Any:
    """An orthonormal basis of the space of λ = 0, (N, C) sparse: the indicators of components, × √d if normalised."""
    count, label = connected_components(graph)
    d = np.asarray(scipy_adjacency(graph).sum(1)).ravel()
    entry = np.ones(graph.num_nodes) if normalization is None else np.sqrt(np.where(d > 0, d, 1))
    norm = np.sqrt(np.bincount(label.array, entry**2, minlength=count))
    places = (np.arange(graph.num_nodes), label.array)
    return sparse.csr_array((entry / norm[label.array], places), shape=(graph.num_nodes, count))


def _fewest(matrix: Any, kernel: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k smallest eigenvalues and their vectors, of which the first are the kernel."""
    zeros = kernel.shape[1]
    known = kernel[:, : min(k, zeros)].toarray()
    if k <= zeros:
        return np.zeros(k), known
    values, vectors = _above_zero(matrix, kernel, k - zeros)
    order = np.argsort(values, kind="stable")
    return np.concatenate([np.zeros(zeros), values[order]]), np.concatenate([known, vectors[:, order]], 1)


def _above_zero(matrix: Any, kernel: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    from scipy.sparse.linalg import ArpackNoConvergence

    count = matrix.shape[0]
    top = float(abs(matrix).sum(1).max())  # Gershgorin: no eigenvalue is larger
    start = np.cos(np.arange(1, count + 1) ** 2.0)  # any vector that is the same every time

    def flipped(x: np.ndarray) -> np.ndarray:
        """top · (I − UUᵀ) x − L x: what was smallest is largest, the kernel is at 0."""
        return top * (x - kernel @ (kernel.T @ x)) - matrix @ x

    try:
        values, vectors = _largest(flipped, start, k)
        return top - values, vectors
    except ArpackNoConvergence:
        pass
    zeros = kernel.shape[1]
    values, vectors = solvers.eigsh(matrix.tocsc(), k + zeros, sigma=-1e-4 * top / count, which="LM", v0=start)
    order = np.argsort(values)[zeros:]
    return values[order], vectors[:, order]


def _largest(product: Callable, start: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenvalues of a symmetric operator and their vectors.

    Of an eigenvalue that comes several times Lanczos' method may find fewer copies: so what is found is moved to 0, and what
    is largest then takes the place of what is smaller, until nothing is.
    """
    count = len(start)

    def lanczos(apply: Callable, start: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        operator = solvers.LinearOperator((count, count), matvec=apply, dtype=np.float64)
        width = min(count - 1, max(4 * k + 1, 40))
        return solvers.eigsh(operator, k, which="LA", v0=start, ncv=width, maxiter=RESTARTS)

    values, vectors = lanczos(product, start, k)
    while True:
        rest = lambda x, values=values, vectors=vectors: product(x) - vectors @ (values * (vectors.T @ x))
        start = np.roll(start, 1)
        start = start - vectors @ (vectors.T @ start)
        value, vector = lanczos(rest, start, 1)
        least = values.argmin()
        if value[0] <= values[least] + SAME * abs(values).max():
            return values, vectors
        values[least], vectors[:, least] = value[0], vector[:, 0]


def _signed(vectors: np.ndarray) -> np.ndarray:
    """Each column with its entry of largest magnitude positive."""
    if not vectors.size:
        return vectors
    largest = vectors[np.abs(vectors).argmax(0), np.arange(vectors.shape[1])]
    return vectors * np.where(largest < 0, -1.0, 1.0)
