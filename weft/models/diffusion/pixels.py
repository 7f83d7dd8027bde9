"""Denoising levels of grey: a network says what it expects of a pixel, Bayes' rule what the pixel itself adds.

At little noise x̂₀ has steep edges, where a black pixel is −1 exactly and its neighbour is not, and a network that says v or ε
has to find noise a hundred times smaller than x by itself. Here the network says p(x₀ | what is around), points and normal
densities, and the pixel's own x_t = a x₀ + s ε is weighed in by formula:

    p(x₀ | x_t) ∝ [Σ_j w_j δ(x₀ − p_j) + Σ_k w_k N(x₀; m_k, τ_k²)] N(x_t; a x₀, s²)

The mean of it is x̂₀. Its variance is that of the last step, and what σₜ² has above β̃ₜ in the others (Bao et al. 2022).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from .schedules import NoiseSchedule, at
from .terms import log_variance_range

__all__ = ["PixelPosterior", "PixelVelocity"]

LEAST = 1e-6  # variance of x₀; a bin of 256 levels has a standard deviation of 0.0023
WIDEST = 2.0  # a normal density's τ
NEAREST = 1e-3  # to the end of a flow, where velocities have no bound


class _Posterior(nn.Module):
    """p(x₀ | x_t) of every pixel, from what a network says.

    points: levels that have mass, from −1 to 1, such as black; (−1, 1) for bits
    normals: how many normal densities there are beside
    """

    def __init__(self, network: nn.Module, points: Sequence[float] = (-1.0,), normals: int = 2) -> None:
        super().__init__()
        if len(points) + normals < 2 or normals < 0:
            name = type(self).__name__
            raise OptionError(f"{name}: expected two parts or more, got {len(points)} points, {normals} normals")
        self.network, self.normals = network, normals
        self.broadcasts_time = getattr(network, "broadcasts_time", False)
        self.register_buffer("points", weft.tensor(points), persistent=False)
        self.means = nn.Parameter(weft.linspace(1, -1, normals + 1)[:-1])  # until the network moves them
        self.log_widths = nn.Parameter(weft.linspace(-3, -1, normals))

    @property
    def outputs(self) -> int:
        """How many numbers the network says of a pixel."""
        return len(self.points) + 3 * self.normals

    def said(self, x: Tensor, t: Tensor, condition: Tensor | None) -> Tensor:
        """What the network says: (B, C · outputs, *)"""
        return self.network(x, t) if condition is None else self.network(x, t, condition)

    def posterior(self, x: Tensor, a: Tensor, s: Tensor, said: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of x₀ given x_t = x and what the network said: like x each"""
        weights, means, squares = self._densities(said.unflatten(1, (self.outputs, -1)), x)
        x, a, s = x.unsqueeze(1), a.unsqueeze(1), s.unsqueeze(1)
        whole, gap = s**2 + a**2 * squares, x - a * means
        share = (weights - 0.5 * gap**2 / whole - 0.5 * whole.log()).softmax(1)
        gain = squares / whole
        each = means + a * gain * gap
        mean = (share * each).sum(1)
        return mean, (share * (gain * s**2 + (each - mean.unsqueeze(1)) ** 2)).sum(1)

    def _densities(self, said: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log w, m, τ² of every part: (B, P + K, C, *) each"""
        count, shape = len(self.points), (-1, *(1 for _ in x.shape[1:]))
        means = self.points.to(x.dtype).reshape(shape).expand(len(x), count, *x.shape[1:])
        if not self.normals:
            return said, means, weft.zeros_like(means)
        weights, moved, widths = said.split([count + self.normals, self.normals, self.normals], 1)
        widths = (widths + self.log_widths.reshape(shape)).clamp(max=math.log(WIDEST))
        means = weft.cat([means, moved + self.means.reshape(shape)], 1)
        return weights, means, weft.cat([weft.zeros_like(means[:, :count]), (2 * widths).exp()], 1)


class PixelPosterior(_Posterior):
    """v, and the share of log βₜ in log σₜ²: (B, C, *), t (B,) [, class (B,)] → (B, 2 C, *), for `DDPM` with
    "v_prediction" and "learned_range".

    network: the same inputs → (B, C · outputs, *): weights of all parts, means and log τ of normal ones
    points, normals: levels that have mass, and how many normal densities there are beside

    >>> noise = NoiseSchedule("cosine", 10)
    >>> PixelPosterior(nn.Linear(3, 6), noise, (-1.0, 1.0), 0).outputs
    2
    """

    def __init__(
        self, network: nn.Module, schedule: NoiseSchedule, points: Sequence[float] = (-1.0,), normals: int = 2
    ) -> None:
        super().__init__(network, points, normals)
        self.schedule = schedule
        self.own = weft.cat([weft.zeros(1, dtype=weft.float64), schedule.posterior_variance[1:]])
        self.toward = schedule.alphas_cumprod_prev * (schedule.betas / (1 - schedule.alphas_cumprod)) ** 2

    def forward(self, x: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
        said, t = self.said(x, t, condition), t.expand(len(x))
        a, s = self.schedule.rates(t, x)
        x0, variance = self.posterior(x, a, s, said)
        spread = at(self.own, t, x) + at(self.toward, t, x) * variance.clamp(min=LEAST)
        small, large = log_variance_range(self.schedule, t, x)
        share = 2 * (spread.log() - small) / (large - small).clamp(min=1e-4) - 1
        return weft.cat([(a * x - x0) / s, share], 1)


class PixelVelocity(_Posterior):
    """v = (x̂₁ − x_t) / (1 − t), the velocity of straight lines from noise at t = 0 to levels at t = 1, for `FlowMatching`:
    (B, C, *), t (B,) [, class (B,)] → (B, C, *)"""

    def forward(self, x: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
        time = t.expand(len(x)).reshape(-1, *(1 for _ in x.shape[1:])).to(x.dtype)
        left = (1 - time).clamp(min=NEAREST)
        return (self.posterior(x, time, left, self.said(x, t, condition))[0] - x) / left
