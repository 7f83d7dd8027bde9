"""Distributions of the noise at the start of a flow: fixed, learned, or depending on the context.

Draws come from the caller's generator and carry gradients of what is learned.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...ops.math.implicit_gamma import log_standard_gamma
from ...tensor import Tensor

__all__ = ["GaussianNoise", "LogisticNoise", "Noise", "PowerNoise", "UniformNoise"]

F = nn.functional


class Noise(nn.Module):
    """z of shape `event_shape`, one a row."""

    def __init__(self, event_shape: int | tuple[int, ...], dtype: Any = None) -> None:
        super().__init__()
        self.event_shape = (event_shape,) if isinstance(event_shape, int) else tuple(event_shape)
        self.register_buffer("kind", weft.zeros((), dtype=dtype), persistent=False)  # of which type draws are

    @abstractmethod
    def draw(self, n: int, context: Tensor | None = None, generator: Any = None) -> Tensor:
        """n draws with gradients: (n, *event)"""

    @abstractmethod
    def log_prob(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        """log p(z): (B, *event) → (B,)"""

    def extra_repr(self) -> str:
        return f"event_shape={self.event_shape}"


class GaussianNoise(Noise):
    """z ~ N(μ, σ²), element by element: standard, learned, or μ and log σ linear in a context of that size.

    >>> GaussianNoise(2).log_prob(weft.zeros(1, 2))
    tensor([-1.8379])
    """

    def __init__(
        self, event_shape: int | tuple[int, ...], *, learned: bool = False, context: int = 0, dtype: Any = None
    ) -> None:
        super().__init__(event_shape, dtype)
        self.learned, self.context = learned, context
        if context:
            self.net = nn.Linear(context, 2 * math.prod(self.event_shape), dtype=dtype)
        elif learned:
            self.mean = nn.Parameter(weft.zeros(*self.event_shape, dtype=dtype))
            self.log_scale = nn.Parameter(weft.zeros(*self.event_shape, dtype=dtype))

    def draw(self, n: int, context: Tensor | None = None, generator: Any = None) -> Tensor:
        z = weft.randn(n, *self.event_shape, dtype=self.kind.dtype, generator=generator)
        place = self._place(context)
        return z if place is None else place[0] + z * place[1].exp()

    def log_prob(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        place, volume = self._place(context), weft.zeros((), dtype=z.dtype)
        if place is not None:
            z, volume = (z - place[0]) * (-place[1]).exp(), place[1]
        constant = 0.5 * math.log(2 * math.pi)
        return (-0.5 * z**2 - volume - constant).flatten(1).sum(1)

    def _place(self, context: Tensor | None) -> tuple[Tensor, Tensor] | None:
        if self.context:
            mean, log_scale = self.net(context).unflatten(-1, (2, *self.event_shape)).unbind(1)  # (B, *event) each
            return mean, log_scale
        return (self.mean, self.log_scale) if self.learned else None


class LogisticNoise(Noise):
    """z with p(z) = Πᵢ σ(zᵢ) σ(−zᵢ): heavier tails, the noise of NICE."""

    def draw(self, n: int, context: Tensor | None = None, generator: Any = None) -> Tensor:
        u = weft.rand(n, *self.event_shape, dtype=self.kind.dtype, generator=generator)
        tiny = weft.finfo(u.dtype).eps / 2
        return u.clamp(tiny, 1 - tiny).logit()

    def log_prob(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        return (F.logsigmoid(z) + F.logsigmoid(-z)).flatten(1).sum(1)


class PowerNoise(Noise):
    """z with p(z) ∝ Πᵢ exp(−|zᵢ / s|^β), the generalised normal distribution of variance 1; an exponent β > 1 is learned for
    each element: 2, where it starts, is the normal distribution, and ever larger ones come to the uniform one.

    A map that keeps volumes, as NICE's, cannot change how much area has how much density: the noise has to.

    >>> PowerNoise(2).log_prob(weft.zeros(1, 2))
    tensor([-1.8379], grad_fn=<NegBackward0>)
    """

    def __init__(self, event_shape: int | tuple[int, ...], exponent: float = 2.0, dtype: Any = None) -> None:
        super().__init__(event_shape, dtype)
        if not exponent > 1:
            raise OptionError(f"PowerNoise: expected an exponent above 1, got {exponent}")
        start = math.log(exponent - 1)
        self.log_excess = nn.Parameter(weft.full(self.event_shape, start, dtype=dtype))  # log(β − 1)

    def exponents(self) -> Tensor:
        """β: like event"""
        return 1 + self.log_excess.exp()

    def draw(self, n: int, context: Tensor | None = None, generator: Any = None) -> Tensor:
        power = self.exponents()  # |z / s|^β ~ Gamma(1/β, 1)
        log_size = log_standard_gamma((1 / power).expand(n, *self.event_shape), generator) / power
        sign = 2 * weft.bernoulli(weft.full(log_size.shape, 0.5, dtype=power.dtype), generator=generator) - 1
        return sign * (log_size + self._log_scale(power)).exp().to(power.dtype)

    def log_prob(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        power = self.exponents()
        log_scale = self._log_scale(power)
        near = (z.abs() * (-log_scale).exp()).clamp(min=weft.finfo(z.dtype).tiny)
        return -(near**power + log_scale + weft.lgamma(1 + 1 / power) + math.log(2)).flatten(1).sum(1)

    @staticmethod
    def _log_scale(power: Tensor) -> Tensor:
        """log s, for which the variance s² Γ(3/β) / Γ(1/β) is 1"""
        return (weft.lgamma(1 / power) - weft.lgamma(3 / power)) / 2


class UniformNoise(Noise):
    """z uniform in [low, high)ᵈ; log p = −∞ outside."""

    def __init__(
        self, event_shape: int | tuple[int, ...], low: float = 0.0, high: float = 1.0, dtype: Any = None
    ) -> None:
        super().__init__(event_shape, dtype)
        if not low < high:
            raise OptionError(f"UniformNoise: expected low < high, got {low} and {high}")
        self.low, self.high = low, high

    def draw(self, n: int, context: Tensor | None = None, generator: Any = None) -> Tensor:
        u = weft.rand(n, *self.event_shape, dtype=self.kind.dtype, generator=generator)
        return self.low + (self.high - self.low) * u

    def log_prob(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        inside = ((z >= self.low) & (z <= self.high)).flatten(1).all(1)
        value = -math.prod(self.event_shape) * math.log(self.high - self.low)
        return weft.where(inside, weft.full((), value, dtype=z.dtype), -math.inf)
