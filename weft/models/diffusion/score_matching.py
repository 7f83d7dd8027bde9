"""Score matching: losses whose minimum is s(x) = ∇ₓ log p(x), without p's constant (Hyvärinen 2005).

All are means over the rows of a batch. score: (B, *event) → (B, *event), each row for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft

from ...errors import OptionError
from ...tensor import Tensor

__all__ = [
    *("denoising_score_matching", "divergence", "explicit_score_matching", "hutchinson", "rademacher"),
    *("sliced_score_matching",),
]

Score = Callable[[Tensor], Tensor]


def explicit_score_matching(score: Score, x: Tensor) -> Tensor:
    """E[½‖s(x)‖² + tr ∂s/∂x]: ½ E‖s − ∇ log p‖² but for a constant; D slopes of s a row: a scalar"""
    found, trace = divergence(score, x)
    return (0.5 * (found**2).flatten(1).sum(1) + trace).mean()


def sliced_score_matching(
    score: Score, x: Tensor, generator: Any = None, *, slices: int = 1, reduced: bool = True
) -> Tensor:
    """E[vᵀ (∂s/∂x) v + ½ (vᵀs)²] over random directions v, one slope each (Song et al. 2019): a scalar

    reduced: ½‖s‖², which is known, in place of the mean of ½ (vᵀs)² over v: less variance, the same mean
    """
    if slices < 1:
        raise OptionError(f"sliced_score_matching: expected 1 slice or more, got {slices}")
    rows = x.repeat_interleave(slices, 0)
    v = weft.randn(rows.shape, dtype=x.dtype, generator=generator)
    found, slope = weft.func.jvp(score, (rows,), (v,))
    length = 0.5 * (found**2).flatten(1).sum(1) if reduced else 0.5 * (v * found).flatten(1).sum(1) ** 2
    return ((v * slope).flatten(1).sum(1) + length).mean()


def denoising_score_matching(
    score: Score, x: Tensor, sigma: float | Tensor, generator: Any = None, *, weighted: bool = False
) -> Tensor:
    """E ½‖s(x + σ ε) + ε / σ‖²: the score of p smoothed by N(0, σ²) (Vincent 2011): a scalar

    sigma: a number, or a tensor (B, 1, …); weighted: times σ², so that all noise levels weigh alike
    """
    noise = weft.randn(x.shape, dtype=x.dtype, generator=generator)
    found = score(x + sigma * noise)
    gap = sigma * found + noise if weighted else found + noise / sigma
    return (0.5 * gap**2).flatten(1).sum(1).mean()


def divergence(field: Score, x: Tensor) -> tuple[Tensor, Tensor]:
    """f(x) and tr ∂f/∂x, exactly, by one forward pass over D copies of every row: (B, *event), (B,)"""
    count, size = len(x), x[0].numel()
    rows = x.repeat_interleave(size, 0)  # (B · D, *event)
    units = weft.eye(size, dtype=x.dtype).repeat(count, 1).reshape(rows.shape)
    found, slopes = weft.func.jvp(field, (rows,), (units,))
    return found[::size], (slopes * units).flatten(1).sum(1).reshape(count, size).sum(1)


def hutchinson(field: Score, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """f(x) and vᵀ (∂f/∂x) v, whose mean over v of mean 0 and covariance 1 is the trace: (B, *event), (B,)"""
    found, slope = weft.func.jvp(field, (x,), (v,))
    return found, (v * slope).flatten(1).sum(1)


def rademacher(x: Tensor, generator: Any = None) -> Tensor:
    """±1 with equal chances, the directions of least variance: like x"""
    return 2.0 * (weft.rand(x.shape, dtype=x.dtype, generator=generator) < 0.5).to(x.dtype) - 1
