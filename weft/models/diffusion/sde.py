"""Diffusions in continuous time, dx = f(t) x dt + g(t) dw for t from 0 to 1 (Song et al. 2021): kernels, and the way back.

q(x_t | x₀) = N(a(t) x₀, s(t)²), with da/dt = f a and ds²/dt = 2 f s² + g². Reverse in time:
dx = (f x − g² ∇ log q_t) dt + g dw̄, or without noise, with the same marginals, dx/dt = f x − ½ g² ∇ log q_t.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import weft

from ...tensor import Tensor

__all__ = ["SDE", "VESDE", "VPSDE", "SubVPSDE", "euler_maruyama", "predictor_corrector"]

TimedScore = Callable[[Tensor, Tensor], Tensor]  # (B, *event), t (B,) → (B, *event)


class SDE(ABC):
    """A linear diffusion; t: tensor of any shape → the same shape."""

    @abstractmethod
    def drift(self, t: Tensor) -> Tensor:
        """f(t)"""

    @abstractmethod
    def diffusion(self, t: Tensor) -> Tensor:
        """g(t)"""

    @abstractmethod
    def kernel(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """a(t) and s(t)"""

    @property
    def prior_scale(self) -> float:
        """The standard deviation of the normal distribution that q at t = 1 is taken for."""
        return 1.0

    def flow(self, score: TimedScore) -> TimedScore:
        """f x − ½ g² s(x, t), the velocity of the probability flow; t: () → like x"""

        def velocity(x: Tensor, t: Tensor) -> Tensor:
            return self.drift(t) * x - 0.5 * self.diffusion(t) ** 2 * score(x, t.expand(len(x)))

        return velocity


@dataclass(frozen=True)
class VPSDE(SDE):
    """Variance preserving: f = −β/2, g² = β, β(t) = low + t (high − low); DDPM with infinitely many steps."""

    low: float = 0.1
    high: float = 20.0

    def beta(self, t: Tensor) -> Tensor:
        """β(t)"""
        return self.low + t * (self.high - self.low)

    def drift(self, t: Tensor) -> Tensor:
        return -0.5 * self.beta(t)

    def diffusion(self, t: Tensor) -> Tensor:
        return self.beta(t).sqrt()

    def kernel(self, t: Tensor) -> tuple[Tensor, Tensor]:
        half = -0.5 * (self.low * t + 0.5 * t**2 * (self.high - self.low))  # log a
        return half.exp(), (-weft.expm1(2 * half)).sqrt()


@dataclass(frozen=True)
class SubVPSDE(VPSDE):
    """g² = β (1 − e^(−2∫β)): less noise than variance preserving at every t, s = 1 − a²."""

    def diffusion(self, t: Tensor) -> Tensor:
        whole = -2 * (self.low * t + 0.5 * t**2 * (self.high - self.low))
        return (self.beta(t) * -weft.expm1(whole)).sqrt()

    def kernel(self, t: Tensor) -> tuple[Tensor, Tensor]:
        a, s = VPSDE.kernel(self, t)
        return a, s**2


@dataclass(frozen=True)
class VESDE(SDE):
    """Variance exploding: f = 0, g² = dσ²/dt, σ(t) = low (high / low)^t; s² = σ(t)² − σ(0)²."""

    low: float = 0.01
    high: float = 50.0

    def drift(self, t: Tensor) -> Tensor:
        return weft.zeros_like(t)

    def diffusion(self, t: Tensor) -> Tensor:
        return self._sigma(t) * math.sqrt(2 * math.log(self.high / self.low))

    def kernel(self, t: Tensor) -> tuple[Tensor, Tensor]:
        return weft.ones_like(t), self.low * weft.expm1(2 * t * math.log(self.high / self.low)).sqrt()

    def _sigma(self, t: Tensor) -> Tensor:
        return self.low * (t * math.log(self.high / self.low)).exp()

    @property
    def prior_scale(self) -> float:
        return math.sqrt(self.high**2 - self.low**2)


def euler_maruyama(
    sde: SDE, score: TimedScore, x: Tensor, steps: int, generator: Any = None, *, end: float = 1e-3
) -> Tensor:
    """The reverse equation from t = 1 to `end` in equal steps, without noise in the last one: like x"""
    return predictor_corrector(sde, score, x, steps, generator, end=end, corrections=0)


def predictor_corrector(
    sde: SDE,
    score: TimedScore,
    x: Tensor,
    steps: int,
    generator: Any = None,
    *,
    end: float = 1e-3,
    corrections: int = 1,
    ratio: float = 0.16,
) -> Tensor:
    """Euler–Maruyama steps, each followed by Langevin steps at the new t, which repair the marginal: like x

    ratio: r of the corrector's step ε = 2 (r ‖ξ‖ / ‖s‖)², norms meant over the batch. Returns the mean of the last step
    """
    times = weft.linspace(1.0, end, steps + 1, dtype=x.dtype)[:-1]
    width = (1.0 - end) / steps

    def noise() -> Tensor:
        return weft.randn(x.shape, dtype=x.dtype, generator=generator)

    def predict(x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        g = sde.diffusion(t)
        mean = x - width * (sde.drift(t) * x - g**2 * score(x, t.expand(len(x))))
        return mean, mean + g * math.sqrt(width) * noise()

    def correct(x: Tensor, t: Tensor) -> Tensor:
        slope, xi = score(x, t.expand(len(x))), noise()
        length = lambda rows: rows.flatten(1).norm(dim=1).mean()
        step = 2 * (ratio * length(xi) / length(slope)) ** 2
        return x + step * slope + (2 * step).sqrt() * xi

    def move(state: tuple[Tensor, Tensor], t: Tensor) -> tuple[tuple[Tensor, Tensor], None]:
        mean, found = predict(state[1], t)
        if corrections:
            found = weft.fori_loop(0, corrections, lambda _, x: correct(x, t - width), found)
        return (mean, found), None

    return weft.scan(move, (x, x), times)[0][0]
