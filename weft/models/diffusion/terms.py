"""The variational bound of a diffusion, term by term (Ho et al. 2020, eq. 5), and the likelihood of levels of grey.

−log p(x₀) ≤ L_T + Σ_{t=1}^{T−1} L_t + L₀, with steps numbered from 0 as in `NoiseSchedule`:
L_T = KL(q(x_T | x₀) ‖ N(0, 1)),  L_t = KL(q(x_{t−1} | x_t, x₀) ‖ p(x_{t−1} | x_t)),  L₀ = −log p(x₀ | x at step 0)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import weft

from ...errors import OptionError
from ...tensor import Tensor
from .schedules import NoiseSchedule, at

__all__ = ["Terms", "discretised_normal_log_prob", "log_variance_range", "normal_kl", "posterior_mean", "prior_term"]


class Terms(NamedTuple):
    """Terms of the bound in nats. prior: L_T (B,); transitions: L₁ … L_{T−1} (B, T − 1); decoder: L₀ (B,)

    `bits` divides by the number of dimensions and by log 2; what it gives is bits per dimension only of data that were not
    rescaled by the caller, or are discrete: a rescaled density is another density.
    """

    prior: Tensor
    transitions: Tensor
    decoder: Tensor

    @property
    def total(self) -> Tensor:
        """The bound on −log p(x): (B,)"""
        return self.prior + self.transitions.sum(1) + self.decoder

    def bits(self, dimensions: int) -> Terms:
        """The same in bits per dimension."""
        return Terms(*(part / (dimensions * math.log(2)) for part in self))


def normal_kl(mean: Tensor, log_variance: Tensor, other: Tensor, other_log_variance: Tensor) -> Tensor:
    """KL(N(μ₁, σ₁²) ‖ N(μ₂, σ₂²)) of every element, from logarithms of variances."""
    gap = log_variance - other_log_variance
    return 0.5 * (gap.exp() - 1 - gap + (mean - other) ** 2 * (-other_log_variance).exp())


def prior_term(schedule: NoiseSchedule, x: Tensor) -> Tensor:
    """L_T = KL(N(√ᾱ x₀, 1 − ᾱ) ‖ N(0, 1)) after the last step: (B, *event) → (B,)"""
    bar = schedule.alphas_cumprod[-1].to(x.dtype)
    return 0.5 * (bar * x**2 - bar - weft.log1p(-bar)).flatten(1).sum(1)


def posterior_mean(schedule: NoiseSchedule, x0: Tensor, x: Tensor, t: Tensor) -> Tensor:
    """The mean of q(x_{t−1} | x_t = x, x₀): √ᾱₜ₋₁ βₜ / (1 − ᾱₜ) x₀ + √αₜ (1 − ᾱₜ₋₁) / (1 − ᾱₜ) x"""
    bar, before, beta = (
        at(table, t, x, weft.float64)
        for table in (schedule.alphas_cumprod, schedule.alphas_cumprod_prev, schedule.betas)
    )
    toward, along = before.sqrt() * beta / (1 - bar), (1 - beta).sqrt() * (1 - before) / (1 - bar)
    return toward.to(x.dtype) * x0 + along.to(x.dtype) * x


def log_variance_range(schedule: NoiseSchedule, t: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """log β̃ₜ and log βₜ, between which the variance of a reverse step lies: shaped to go with x.

    β̃₀ = 0 would make the likelihood of x₀ infinite or nothing; step 0 takes β̃₁, as Nichol and Dhariwal do.
    """
    small = schedule.posterior_variance
    small = weft.cat([small[1:2] if len(small) > 1 else schedule.betas[:1], small[1:]])
    return at(small.log(), t, x), at(schedule.betas.log(), t, x)


def discretised_normal_log_prob(x: Tensor, mean: Tensor, log_variance: Tensor, levels: int = 256) -> Tensor:
    """log of the mass of N(mean, σ²) in the bin of x, for x one of `levels` equally spaced values from −1 to 1: like x.

    A bin is 2 / (levels − 1) wide; the first reaches to −∞ and the last to ∞, so that the levels' masses sum to one.
    """
    if levels < 2:
        raise OptionError(f"discretised_normal_log_prob: expected 2 levels or more, got {levels}")
    half = 1 / (levels - 1)
    scale = (-0.5 * log_variance).exp()
    z, width = (x - mean) * scale, half * scale
    tail = -z.abs()  # by symmetry; both ends on the side where log Φ is exact
    high, low = weft.special.log_ndtr(tail + width), weft.special.log_ndtr(tail - width)
    inside = high + (-weft.expm1(low - high)).clamp(min=1e-37).log()
    found = weft.where(x > 1 - half, weft.special.log_ndtr(width - z), inside)
    return weft.where(x < half - 1, weft.special.log_ndtr(z + width), found)
