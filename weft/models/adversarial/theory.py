"""What the game is worth where the densities are known: optimal discriminators, divergences, distances on the line.

Densities come as values at the points of a grid with cells of one volume (`weft.models.generative.grid` makes both).
"""

from __future__ import annotations

import math

import weft

from ...errors import InvalidValueError, ShapeError
from ...tensor import Tensor

__all__ = ["game_value", "jensen_shannon", "optimal_discriminator", "wasserstein_1d", "wasserstein_of_cdfs"]


def optimal_discriminator(p: Tensor, q: Tensor) -> Tensor:
    """D* = p / (p + q), the best answer to a generator with density q (N1 theorem 9.1); ½ where both are 0.

    Its logit is log p − log q: what a discriminator learns is the ratio of the densities.
    """
    _same(p, q)
    total = p + q
    return weft.where(total > 0, p / weft.where(total > 0, total, 1), 0.5)


def game_value(discriminator: Tensor, p: Tensor, q: Tensor, cell: float) -> float:
    """V(D, G) = ∫ p log D + q log(1 − D): of D* it is 2 JSD(p, q) − log 4, of any other D less."""
    _same(p, q)
    _same(p, discriminator)
    d = discriminator.double()
    return (weft.xlogy(p.double(), d) + weft.xlogy(q.double(), 1 - d)).sum().item() * cell


def jensen_shannon(p: Tensor, q: Tensor, cell: float) -> float:
    """½ KL(p ‖ m) + ½ KL(q ‖ m), m = ½ (p + q), in nats: 0 if p = q, log 2 if they never meet."""
    _same(p, q)
    p, q = p.double(), q.double()
    m = (p + q) / 2
    safe = weft.where(m > 0, m, 1)
    return 0.5 * (weft.xlogy(p, p / safe) + weft.xlogy(q, q / safe)).sum().item() * cell


def wasserstein_of_cdfs(f: Tensor, g: Tensor, cell: float) -> float:
    """W₁ = ∫ |F − G| of two distributions on the line, from their distribution functions on a grid."""
    _same(f, g)
    return (f.double() - g.double()).abs().sum().item() * cell


def wasserstein_1d(x: Tensor, y: Tensor) -> float:
    """W₁ of two samples on the line, of any sizes: the area between their empirical distribution functions.

    >>> wasserstein_1d(weft.tensor([0.0, 1.0, 3.0]), weft.tensor([5.0, 6.0, 8.0]))
    5.0
    """
    x, y = x.flatten().double().sort().values, y.flatten().double().sort().values
    if not x.numel() or not y.numel():
        raise ShapeError(f"wasserstein_1d: expected samples, got {x.numel()} and {y.numel()} numbers")
    both = weft.cat([x, y]).sort().values
    if not math.isfinite(both.sum().item()):
        raise InvalidValueError("wasserstein_1d: expected finite numbers; remove NaN and infinities first")
    f = weft.searchsorted(x, both[:-1], right=True).double() / len(x)
    g = weft.searchsorted(y, both[:-1], right=True).double() / len(y)
    return ((f - g).abs() * both.diff()).sum().item()


def _same(a: Tensor, b: Tensor) -> None:
    if a.shape != b.shape:
        raise ShapeError(f"expected values at the same points, got shapes {tuple(a.shape)} and {tuple(b.shape)}")
