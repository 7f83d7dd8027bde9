"""Signals on graphs (N2 §7.1.2, 7.8): a number for each node, how smooth they are, their frequencies, and filters.

A signal is (N,) or, several side by side, (N, C). Gradients flow to signals and to what a filter does to eigenvalues.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import weft

from ..data.graph import Graph
from ..errors import OptionError, ShapeError
from ..runtime.lazy import LazyModule
from ..sparse import SparseTensor
from ..tensor import Tensor, wrap
from .matrices import check_undirected, laplacian, scipy_laplacian, weights_of
from .spectra import spectrum

__all__ = [
    "GraphFourier",
    "chebyshev_coefficients",
    "chebyshev_filter",
    "dft_matrix",
    "heat_filter",
    "high_pass",
    "largest_eigenvalue",
    "low_pass",
    "quadratic_form",
    "rayleigh_quotient",
    "spectral_convolution",
]

solvers = LazyModule("scipy.sparse.linalg")
Response = Callable[[Tensor], Tensor]


# ------------------------------------------------------------------------------------------ smoothness
def quadratic_form(graph: Graph, f: Tensor) -> Tensor:
    """fᵀLf = ½ Σᵢⱼ aᵢⱼ (fᵢ − fⱼ)²: small where nodes that are joined have similar values.

    Shape: (N,) → (), (N, C) → (C,)

    >>> weft.graphs.quadratic_form(weft.graphs.path(3), weft.tensor([1.0, -2.0, 1.0])).item()
    18.0
    """
    _check(graph, f, "quadratic_form")
    difference = f[graph.edge_index[0]] - f[graph.edge_index[1]]
    weight = weights_of(graph).to(f.dtype)
    return 0.5 * (weight.reshape(-1, *[1] * (f.ndim - 1)) * difference**2).sum(0)


def rayleigh_quotient(graph: Graph, f: Tensor) -> Tensor:
    """fᵀLf / fᵀf; its critical points are the eigenvectors of L, its values there the eigenvalues.

    >>> weft.graphs.rayleigh_quotient(weft.graphs.path(3), weft.tensor([1.0, 0.0, -1.0])).item()
    1.0
    """
    return quadratic_form(graph, f) / (f**2).sum(0)


# ------------------------------------------------------------------------------------------ Fourier transform
class GraphFourier:
    """The Fourier transform of a graph: x̂ = Qᴴ x and x = Q x̂, with the eigenvectors Q of its Laplacian.

    graph: undirected; normalization: of its Laplacian, None or "sym"
    k: how many of the lowest frequencies there are; then `inverse(transform(x))` is the projection of x on them

    >>> fourier = weft.graphs.GraphFourier(weft.graphs.path(3))
    >>> x = weft.tensor([1.0, 2.0, 4.0], dtype=weft.float64)
    >>> fourier.inverse(fourier.transform(x)).round(decimals=6).tolist()
    [1.0, 2.0, 4.0]
    """

    eigenvalues: Tensor
    basis: Tensor

    def __init__(self, graph: Graph, normalization: str | None = None, k: int | None = None) -> None:
        if normalization not in (None, "sym"):
            raise OptionError(
                f"GraphFourier: normalization must be None or 'sym', whose eigenvectors are orthogonal, got {normalization!r}"
            )
        self.eigenvalues, self.basis = spectrum(graph, k, normalization)

    @classmethod
    def of_ring(cls, n: int) -> GraphFourier:
        """That of a ring with the discrete Fourier transform: q_k = (e^{2πi jk/n} / √n)ⱼ, λ_k = 2 − 2cos(2πk/n).

        >>> weft.graphs.GraphFourier.of_ring(4).eigenvalues.round(decimals=6).tolist()
        [0.0, 2.0, 4.0, 2.0]
        """
        made = object.__new__(cls)
        made.eigenvalues = 2 - 2 * weft.cos(2 * math.pi / n * weft.arange(n, dtype=weft.float64))
        made.basis = dft_matrix(n).conj().mT.resolve_conj()
        return made

    def transform(self, x: Tensor) -> Tensor:
        """x̂ = Qᴴ x: (N,) → (K,), (N, C) → (K, C)."""
        return self._matched(self.basis.conj().mT, x) @ self._typed(x)

    def inverse(self, coefficients: Tensor) -> Tensor:
        """x = Q x̂: (K,) → (N,), (K, C) → (N, C)."""
        return self._matched(self.basis, coefficients) @ self._typed(coefficients)

    def filter(self, x: Tensor, response: Response) -> Tensor:
        """Q g(Λ) Qᴴ x: every frequency λ multiplied by response(λ)."""
        gain = response(self.eigenvalues.to(x.dtype if not x.is_complex() else self.eigenvalues.dtype))
        return self._as(x, self.inverse(gain.reshape(-1, *[1] * (x.ndim - 1)) * self.transform(x)))

    def convolve(self, x: Tensor, w: Tensor) -> Tensor:
        """x ⊛ w = Q (Qᴴx ⊙ Qᴴw): a product of frequencies. On a ring √n times this is the circular convolution."""
        return self._as(x, self.inverse(self.transform(x) * self.transform(w)))

    def _matched(self, matrix: Tensor, x: Tensor) -> Tensor:
        if x.ndim not in (1, 2) or x.shape[0] != matrix.shape[1]:
            raise ShapeError(f"GraphFourier: expected {matrix.shape[1]} rows, (N,) or (N, C), got {tuple(x.shape)}")
        if matrix.is_complex():
            return matrix
        return matrix.to(x.dtype) if x.is_floating_point() else matrix

    def _typed(self, x: Tensor) -> Tensor:
        return x.to(self.basis.dtype) if self.basis.is_complex() or not x.is_floating_point() else x

    def _as(self, x: Tensor, result: Tensor) -> Tensor:
        return result.real if result.is_complex() and not x.is_complex() else result


def dft_matrix(n: int) -> Tensor:
    """F (n, n) complex128 with F_kj = e^{−2πi jk/n} / √n; F x is weft.fft.fft(x, norm="ortho").

    Unitary; F L Fᴴ is diagonal for the Laplacian of the ring.

    >>> weft.graphs.dft_matrix(2).real.round(decimals=4).tolist()
    [[0.7071, 0.7071], [0.7071, -0.7071]]
    """
    if n < 1:
        raise OptionError(f"dft_matrix: expected n of at least 1, got {n}")
    turns = np.outer(np.arange(n), np.arange(n)) % n / n
    return wrap(np.exp(-2j * np.pi * turns) / math.sqrt(n))


def spectral_convolution(fourier: GraphFourier, x: Tensor, theta: Tensor) -> Tensor:
    """H'_o = Σ_c Q (θ_{·,c,o} ⊙ Qᴴ x_c): a filter of its own for each pair of channels (Bruna et al. 2014).

    Shape: x (N, C), theta (K, C, O) → (N, O)

    >>> fourier = weft.graphs.GraphFourier(weft.graphs.ring(4))
    >>> weft.graphs.spectral_convolution(fourier, weft.ones(4, 2), weft.ones(4, 2, 3)).shape
    weft.Size([4, 3])
    """
    if theta.ndim != 3 or theta.shape[:2] != (len(fourier.eigenvalues), x.shape[-1]):
        raise ShapeError(
            f"spectral_convolution: expected theta ({len(fourier.eigenvalues)}, {x.shape[-1]}, O), got {tuple(theta.shape)}"
        )
    return fourier.inverse(weft.einsum("kc,kco->ko", fourier.transform(x), theta))


# ------------------------------------------------------------------------------------------ filters
def low_pass(cutoff: float) -> Response:
    """The ideal filter that keeps frequencies λ ≤ cutoff.

    >>> weft.graphs.low_pass(1.0)(weft.tensor([0.0, 1.0, 2.0])).tolist()
    [1.0, 1.0, 0.0]
    """
    return lambda values: (values <= cutoff).to(values.dtype)


def high_pass(cutoff: float) -> Response:
    """The ideal filter that keeps frequencies λ > cutoff.

    >>> weft.graphs.high_pass(1.0)(weft.tensor([0.0, 1.0, 2.0])).tolist()
    [0.0, 0.0, 1.0]
    """
    return lambda values: (values > cutoff).to(values.dtype)


def heat_filter(t: float | Tensor) -> Response:
    """e^{−tλ}: heat that has spread along the edges for a time t, the solution of x' = −L x.

    >>> weft.graphs.heat_filter(1.0)(weft.tensor([0.0])).tolist()
    [1.0]
    """
    return lambda values: weft.exp(-t * values)


def largest_eigenvalue(graph: Graph, normalization: str | None = None) -> float:
    """λ_N of the Laplacian, by Lanczos' method.

    >>> round(weft.graphs.largest_eigenvalue(weft.graphs.complete(5)), 6)
    5.0
    """
    check_undirected(graph, "largest_eigenvalue")
    matrix = scipy_laplacian(graph, normalization)
    if graph.num_nodes < 3:
        return float(np.linalg.eigvalsh(matrix.toarray()).max(initial=0.0))
    start = np.cos(np.arange(1, graph.num_nodes + 1) ** 2.0)
    return max(float(solvers.eigsh(matrix, 1, which="LA", v0=start, return_eigenvectors=False)[0]), 0.0)


def chebyshev_coefficients(response: Response, order: int, largest: float) -> Tensor:
    """c₀ … c_K with g(λ) ≈ Σ c_k T_k(2λ/λ_max − 1): the interpolation at K + 1 Chebyshev points.

    Exact for polynomials of degree up to K; the error of smooth g falls exponentially with K.

    >>> weft.graphs.chebyshev_coefficients(lambda values: values, 1, 2.0).tolist()
    [1.0, 1.0]
    """
    if order < 0:
        raise OptionError(f"chebyshev_coefficients: expected an order of at least 0, got {order}")
    angle = (weft.arange(order + 1, dtype=weft.float64) + 0.5) * (math.pi / (order + 1))
    gains = response((weft.cos(angle) + 1) * (largest / 2))
    waves = weft.cos(weft.arange(order + 1, dtype=weft.float64)[:, None] * angle)  # (k, point)
    scale = weft.tensor([1.0] + [2.0] * order, dtype=weft.float64) / (order + 1)
    return scale * (waves @ gains)


def chebyshev_filter(
    graph: Graph,
    x: Tensor,
    response: Response | Tensor,
    order: int | None = None,
    normalization: str | None = None,
    largest: float | None = None,
) -> Tensor:
    """g(L) x without eigenvectors: Σ c_k T_k(L̃) x, L̃ = 2L/λ_max − I, T_k = 2 L̃ T_{k−1} − T_{k−2}.

    Time is that of K products with L; what a node receives comes from at most K steps away (Hammond et al. 2011,
    Defferrard et al. 2016).
    response: g as a function of eigenvalues (with `order` K), or its coefficients c (K + 1,)
    largest: λ_max or a bound of it; it is computed where it is not given

    >>> ring = weft.graphs.ring(5)
    >>> x = weft.tensor([1.0, 0.0, 0.0, 0.0, 0.0])
    >>> weft.graphs.chebyshev_filter(ring, x, lambda values: values, 1).round(decimals=4).tolist()  # L x
    [2.0, -1.0, 0.0, 0.0, -1.0]
    """
    _check(graph, x, "chebyshev_filter")
    largest = largest_eigenvalue(graph, normalization) if largest is None else largest
    if isinstance(response, Tensor):
        coefficients = response
    elif order is None:
        raise OptionError("chebyshev_filter: a response needs an order")
    else:
        coefficients = chebyshev_coefficients(response, order, largest)
    matrix = laplacian(graph, normalization).to(x.dtype)
    return _chebyshev_sum(matrix, x, coefficients.to(x.dtype), 2 / largest if largest else 0.0)


def _chebyshev_sum(matrix: SparseTensor, x: Tensor, c: Tensor, scale: float) -> Tensor:
    columns = x if x.ndim == 2 else x[:, None]
    shifted = lambda v: scale * (matrix @ v) - v
    before, now = columns, shifted(columns)
    total = c[0] * before
    for k in range(1, len(c)):
        total = total + c[k] * now
        if k + 1 < len(c):
            before, now = now, 2 * shifted(now) - before
    return total.reshape(x.shape)


def _check(graph: Graph, x: Tensor, name: str) -> None:
    if x.ndim not in (1, 2) or x.shape[0] != graph.num_nodes:
        raise ShapeError(f"{name}: expected a signal (N,) or (N, C) with N = {graph.num_nodes}, got {tuple(x.shape)}")
    if not x.is_floating_point():
        raise ShapeError(f"{name}: expected a signal of floats, got {x.dtype}")
