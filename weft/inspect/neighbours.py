"""t-SNE: points of many dimensions drawn in the plane so that neighbours stay neighbours (N2 §4.2).

p_{j|i} ∝ exp(−‖xᵢ − xⱼ‖² / 2σᵢ²) with σᵢ such that each point has `perplexity` neighbours; p_ij = (p_{j|i} + p_{i|j}) / 2N.
In the plane q_ij ∝ w_ij = 1 / (1 + ‖yᵢ − yⱼ‖²) (Cauchy). Minimised is KL(P ‖ Q), with the gradient

    ∂KL/∂yᵢ = 4 Σⱼ (p_ij − q_ij) w_ij (yᵢ − yⱼ)          (van der Maaten and Hinton 2008)

Distances between clusters, and their sizes, mean nothing: the heavy tails of the Cauchy kernel give them freely.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import weft

from ..errors import OptionError
from ..tensor import Tensor
from .drawing import COLOURS, Picture, blank, scatter, table_of
from .projection import pca
from .quadtree import repulsion

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from scipy.sparse import csr_matrix

__all__ = [
    *("Embedding", "barnes_hut_gradient", "exact_gradient", "joint_probabilities", "kl_divergence"),
    *("neighbour_probabilities", "perplexity_search", "trustworthiness", "tsne"),
]

Array = NDArray[np.float64]
BLOCK = 1 << 16  # numbers of a block of rows, so that its temporaries stay in the cache
BISECTIONS = 64


@dataclasses.dataclass(frozen=True)
class Embedding(Picture):
    """Where t-SNE put the points, (N, d); KL(P ‖ Q) at the end, and every 50 iterations on the way."""

    points: Array
    kl: float
    history: list[tuple[int, float]]
    perplexity: float
    method: str

    def figure(self, labels: Any = None) -> Figure:
        """The points, coloured by labels, and the course of the divergence."""
        figure, axes = blank(1, 2, 4.8, 4.4, width_ratios=[2.2, 1])
        left, right = axes[0]
        scatter(left, self.points, labels)
        left.set(xticks=[], yticks=[])
        left.set_aspect("equal", adjustable="datalim")
        left.set_title(f"t-SNE, perplexity {self.perplexity:g}", fontsize=10)
        right.plot(*zip(*self.history, strict=True), "o-", ms=3, color=COLOURS[0])
        right.set(xlabel="iteration", title=f"KL(P ‖ Q) = {self.kl:.3f}", ylim=(0, None))
        return figure


def tsne(
    x: Any,
    dimensions: int = 2,
    perplexity: float = 30.0,
    method: str = "barnes_hut",
    iterations: int = 1000,
    early_exaggeration: float = 12.0,
    learning_rate: float | None = None,
    theta: float = 0.5,
    init: Any = "pca",
    generator: weft.Generator | None = None,
) -> Embedding:
    """Embed rows of x (N, D); method "exact" sums over all pairs, "barnes_hut" over near points and far cells.

    Momentum 0.5 and P times `early_exaggeration` for 250 iterations, then, from rest, momentum 0.8; a gain for every
    coordinate grows by 0.2 while signs of gradient and motion differ and shrinks by a fifth otherwise. learning_rate:
    default max(N / early_exaggeration / 4, 50). init: "pca" (scaled to a spread of 1e-4), "random", or an array
    (N, dimensions).

    >>> images, labels = weft.data.load_digits()
    >>> tsne(images.reshape(1797, 64), perplexity=30).figure(labels)
    """
    x = table_of(x, "tsne", 3)
    if method not in ("exact", "barnes_hut"):
        raise OptionError(f"tsne: method must be 'exact' or 'barnes_hut', got {method!r}")
    if dimensions < 1 or (method == "barnes_hut" and dimensions > 3):
        raise OptionError(f"tsne: {method} works in 1 … {3 if method == 'barnes_hut' else 'any'}, got {dimensions}")
    y = _start(x, dimensions, init, generator)
    if method == "exact":
        p = joint_probabilities(x, perplexity)
        slope: Slope = lambda y, factor: exact_gradient(p * factor if factor != 1 else p, y)
    else:
        near = neighbour_probabilities(x, perplexity)
        slope = lambda y, factor: barnes_hut_gradient(near * factor if factor != 1 else near, y, theta)
    rate = max(len(x) / early_exaggeration / 4, 50.0) if learning_rate is None else learning_rate
    history = [row for row in _descend(y, slope, iterations, early_exaggeration, rate) if row is not None]
    return Embedding(y, history[-1][1], history, perplexity, method)


Slope = Callable[[Array, float], tuple[Array, float]]


def _descend(
    y: Array, slope: Slope, iterations: int, exaggeration: float, rate: float
) -> Iterator[tuple[int, float] | None]:
    """Move y in place; yields (iteration, KL) every 50 iterations and at the end."""
    exploring = min(250, iterations // 2)
    for step in range(iterations):
        if step in (0, exploring):  # gains grown in clusters that swing under exaggeration would throw points far away
            motion, gains = np.zeros_like(y), np.ones_like(y)
        early = step < exploring
        g, _ = slope(y, exaggeration if early else 1.0)
        gains = np.where(g * motion < 0, gains + 0.2, np.maximum(gains * 0.8, 0.01))
        motion = (0.5 if early else 0.8) * motion - rate * gains * g
        y += motion
        y -= y.mean(0)
        if step % 50 == 49 and step < iterations - 1:
            yield step + 1, slope(y, 1.0)[1]
    yield iterations, slope(y, 1.0)[1]


def _start(x: Array, dimensions: int, init: Any, generator: weft.Generator | None) -> Array:
    generator = weft.Generator().manual_seed(0) if generator is None else generator
    if isinstance(init, str) and init not in ("pca", "random"):
        raise OptionError(f"tsne: init must be 'pca', 'random' or an array, got {init!r}")
    if isinstance(init, str) and init == "pca" and min(x.shape) >= dimensions:
        y = pca(x, dimensions).scores
        spread = float(y[:, 0].std())
        if spread > 0:
            return y / spread * 1e-4
    if isinstance(init, str):
        return generator.normal((len(x), dimensions), np.float64, std=1e-4)
    y = table_of(init, "tsne: init").copy()
    if y.shape != (len(x), dimensions):
        raise OptionError(f"tsne: init has shape {y.shape}, expected {(len(x), dimensions)}")
    return y


# ------------------------------------------------------------------------- similarities


def perplexity_search(squares: Array, perplexity: float) -> tuple[Array, Array]:
    """β = 1 / 2σ² for every row of squared distances (N, K) to others, and p ∝ exp(−β d²), with 2^H(p) = perplexity.

    The entropy falls as β grows; β is found by bisection, 64 halvings for all rows at once. Shape: → (N,), (N, K)
    """
    K = squares.shape[1]
    if not 1 <= perplexity <= K:
        raise OptionError(
            f"perplexity must lie between 1 and {K}, the number of others, got {perplexity}; choose a smaller one"
        )
    squares = squares - squares.min(1, keepdims=True)  # p does not change, and one term is exp(0)
    low, high = np.zeros(len(squares)), np.full(len(squares), np.inf)
    beta = 1 / np.maximum(squares.mean(1), 1e-300)
    for _ in range(BISECTIONS):
        entropy = _gaussian(squares, beta)[1]
        flat = entropy > math.log(perplexity)
        low, high = np.where(flat, beta, low), np.where(flat, high, beta)
        beta = np.where(np.isinf(high), np.minimum(low * 2, 1e300), (low + np.where(np.isinf(high), low, high)) / 2)
    return beta, _gaussian(squares, beta)[0]


def _gaussian(squares: Array, beta: Array) -> tuple[Array, Array]:
    p = np.exp(-beta[:, None] * squares)
    total = p.sum(1)
    entropy = np.log(total) + beta * (p * squares).sum(1) / total
    return p / total[:, None], entropy


def _squares(a: Array, b: Array) -> Array:
    """‖aᵢ − bⱼ‖², at least 0."""
    found = a @ b.T
    found *= -2
    found += (a * a).sum(1)[:, None]
    found += (b * b).sum(1)
    return np.maximum(found, 0, out=found)


def joint_probabilities(x: Any, perplexity: float) -> Array:
    """p_ij = (p_{j|i} + p_{i|j}) / 2N over all pairs, 0 on the diagonal: symmetric, with sum 1. Shape: (N, D) → (N, N)"""
    x = table_of(x, "joint_probabilities", 3)
    N = len(x)
    others = ~np.eye(N, dtype=bool)
    squares = _squares(x - x.mean(0), x - x.mean(0))[others].reshape(N, N - 1)  # without the diagonal
    p = np.zeros((N, N))
    p[others] = perplexity_search(squares, perplexity)[1].ravel()
    return (p + p.T) / (2 * N)


def neighbour_probabilities(x: Any, perplexity: float) -> csr_matrix:
    """The same over the 3 · perplexity nearest neighbours only, as a sparse matrix (van der Maaten 2014)."""
    from scipy.sparse import csr_matrix

    x = table_of(x, "neighbour_probabilities", 3)
    N, K = len(x), min(len(x) - 1, int(3 * perplexity + 1))
    near = _nearest(x, K)
    squares = ((x[:, None] - x[near]) ** 2).sum(-1) if N * K * x.shape[1] < 1 << 24 else _blocked(x, near)
    p = csr_matrix(
        (perplexity_search(squares, perplexity)[1].ravel(), near.ravel(), np.arange(0, N * K + 1, K)), (N, N)
    )
    return ((p + p.T) / (2 * N)).tocsr()


def _blocked(x: Array, near: NDArray) -> Array:
    return np.stack([((x[i] - x[row]) ** 2).sum(1) for i, row in enumerate(near)])


def _nearest(x: Array, count: int) -> NDArray[np.int64]:
    """The nearest others of every point, nearest first: (N, count)."""
    x, rows = x - x.mean(0), []
    step = max(1, BLOCK * 8 // len(x))
    for start in range(0, len(x), step):
        squares = _squares(x[start : start + step], x)
        squares[np.arange(len(squares)), start + np.arange(len(squares))] = np.inf
        found = np.argpartition(squares, count - 1, 1)[:, :count]
        rows.append(np.take_along_axis(found, np.take_along_axis(squares, found, 1).argsort(1, kind="stable"), 1))
    return np.concatenate(rows)


# ------------------------------------------------------------------------- divergence and gradient


def kl_divergence(p: Tensor, y: Tensor) -> Tensor:
    """KL(P ‖ Q) of points y (N, d), as tensors, for autograd."""
    squares = ((y[:, None] - y[None]) ** 2).sum(-1)  # (N, N)
    w = (1 - weft.eye(len(y), dtype=y.dtype)) / (1 + squares)
    q = w / w.sum()
    tiny = weft.finfo(y.dtype).tiny
    return (p * ((p + tiny).log() - (q + tiny).log())).sum()


def exact_gradient(p: Array, y: Array) -> tuple[Array, float]:
    """∂KL/∂y (N, d) and KL(P ‖ Q), over all pairs, a block of rows at a time. P (N, N) may be exaggerated."""
    N = len(y)
    step = max(1, BLOCK // N)
    blocks = [slice(i, min(i + step, N)) for i in range(0, N, step)]
    kernels = np.empty((N, N))
    for rows in blocks:
        kernels[rows] = 1 / (1 + _squares(y[rows], y))
    np.fill_diagonal(kernels, 0)
    total = float(kernels.sum())
    g, kl = np.empty_like(y), 0.0
    for rows in blocks:
        w, part = kernels[rows], p[rows]
        pull = (part - w / total) * w
        g[rows] = 4 * (pull.sum(1, keepdims=True) * y[rows] - pull @ y)
        some = part > 0
        kl += float((part[some] * np.log(part[some] * total / w[some])).sum())
    return g, kl


def barnes_hut_gradient(p: csr_matrix, y: Array, theta: float = 0.5) -> tuple[Array, float]:
    """The same with attraction by the neighbours in a sparse P and repulsion by cells of a quadtree (θ)."""
    from scipy.sparse import csr_matrix

    push, total = repulsion(y, theta)
    i = np.repeat(np.arange(len(y)), np.diff(p.indptr))
    away = y[i] - y[p.indices]
    w = 1 / (1 + np.einsum("nd,nd->n", away, away))
    pull = csr_matrix((p.data * w, p.indices, p.indptr), p.shape)
    attraction = np.asarray(pull.sum(1)) * y - pull @ y
    kl = float((p.data * np.log(np.maximum(p.data, 1e-300) * total / w)).sum())
    return 4 * (attraction - push / total), kl


def trustworthiness(x: Any, y: Any, neighbours: int = 5) -> float:
    """1 − 2 / (N k (2N − 3k − 1)) Σᵢ Σ_{j ∈ k nearest of yᵢ} max(0, rank of j from xᵢ − k) (Venna and Kaski 2001).

    1 where all neighbours in the picture y are neighbours in the data x.
    """
    x, y = table_of(x, "trustworthiness", 3), table_of(y, "trustworthiness", 3)
    N, k = len(x), neighbours
    if len(y) != N or not 1 <= k < N / 2:
        raise OptionError(f"trustworthiness: expected as many rows and k < N / 2, got {N}, {len(y)} rows and k = {k}")
    squares = _squares(x - x.mean(0), x - x.mean(0))
    np.fill_diagonal(squares, -1)  # each point is the first of its own list
    ranks = np.empty((N, N), np.int64)
    np.put_along_axis(ranks, squares.argsort(1, kind="stable"), np.broadcast_to(np.arange(N), (N, N)), 1)
    excess = np.take_along_axis(ranks, _nearest(y, k), 1) - k
    return 1 - 2 / (N * k * (2 * N - 3 * k - 1)) * float(np.maximum(excess, 0).sum())
