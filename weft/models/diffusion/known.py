"""Densities whose diffusion is known: mixtures of Gaussians, noised, with score, best prediction and log density at every t.

What a perfectly trained network would say; samplers and likelihoods are judged with it, apart from learning.
"""

from __future__ import annotations

import math
from typing import Any

import weft

from ... import nn
from ...tensor import Tensor
from .predictions import check_prediction, target_of
from .schedules import NoiseSchedule

__all__ = ["NoisedMixture", "PerfectNetwork"]


class NoisedMixture:
    """Σ wₖ N(μₖ, σₖ²) and what a x₀ + s ε makes of it: Σ wₖ N(a μₖ, a² σₖ² + s²).

    means: (K, D); scales: σₖ (K,) or (K, D); weights: (K,), equal by default. a, s: numbers, or tensors (B, 1)
    """

    def __init__(self, means: Any, scales: Any, weights: Any = None) -> None:
        self.means = weft.as_tensor(means, dtype=weft.float64)
        scales = weft.as_tensor(scales, dtype=weft.float64)
        self.scales = (scales if scales.ndim == 2 else scales.reshape(-1, 1)).expand(self.means.shape)
        count = len(self.means)
        self.weights = weft.full((count,), 1 / count).double() if weights is None else weft.as_tensor(weights).double()

    def log_prob(self, x: Tensor, a: float | Tensor = 1.0, s: float | Tensor = 0.0) -> Tensor:
        """log density of the noised mixture: (B, D) → (B,)"""
        return self._joint(x, a, s)[0].logsumexp(1)

    def score(self, x: Tensor, a: float | Tensor = 1.0, s: float | Tensor = 0.0) -> Tensor:
        """Its gradient, in closed form: (B, D) → (B, D)"""
        joint, gap, variance = self._joint(x, a, s)
        return -(joint.softmax(1).unsqueeze(2) * gap / variance).sum(1)

    def sample(self, n: int, generator: Any = None) -> Tensor:
        """n draws of the mixture itself: (n, D)"""
        chosen = weft.multinomial(self.weights, n, replacement=True, generator=generator)
        noise = weft.randn(n, self.means.shape[1], dtype=weft.float64, generator=generator)
        return self.means[chosen] + self.scales[chosen] * noise

    def _joint(self, x: Tensor, a: Any, s: Any) -> tuple[Tensor, Tensor, Tensor]:
        """log wₖ N(x; …) (B, K), x − a μₖ and the variances (B, K, D)"""
        a, s = (v.unsqueeze(1) if isinstance(v, Tensor) and v.ndim else v for v in (a, s))
        means, scales = self.means.to(x.dtype), self.scales.to(x.dtype)
        gap = x.unsqueeze(1) - a * means
        variance = (a * scales) ** 2 + s**2 + weft.zeros_like(gap)
        each = -0.5 * (gap**2 / variance + variance.log() + math.log(2 * math.pi)).sum(2)
        return each + self.weights.log().to(x.dtype), gap, variance


class PerfectNetwork(nn.Module):
    """What a network of a `NoiseSchedule` would say of a `NoisedMixture` if it knew everything: ε̂ = −s ∇ log q_t(x).

    t may lie between two steps: log SNR is interpolated.
    """

    def __init__(self, mixture: NoisedMixture, schedule: NoiseSchedule, prediction_type: str = "epsilon") -> None:
        super().__init__()
        check_prediction(prediction_type)
        self.mixture, self.prediction_type = mixture, prediction_type
        self.log_snr = schedule.snr.log()

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        below = t.double().floor().long().clamp(0, len(self.log_snr) - 1)
        above = (below + 1).clamp(max=len(self.log_snr) - 1)
        log_snr = weft.lerp(self.log_snr[below], self.log_snr[above], t.double() - below).unsqueeze(1)
        a, s = log_snr.sigmoid().sqrt().to(x.dtype), (-log_snr).sigmoid().sqrt().to(x.dtype)
        epsilon = -s * self.mixture.score(x, a, s)
        return target_of(self.prediction_type, (x - s * epsilon) / a, epsilon, a, s)
