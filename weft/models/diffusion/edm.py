"""Diffusion as Karras et al. (2022) set it up: inputs, outputs and loss scaled to unit variance at every noise level."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from ..generative.plans import in_one_plan
from ..generative.protocol import estimate
from .ddpm import Conditioned
from .schedules import karras_sigmas
from .solvers import HeunDiscreteScheduler

__all__ = ["EDM"]


class EDM(Conditioned):
    """D(x; σ) = c_skip x + c_out F(c_in x; ¼ log σ), the denoiser E[x₀ | x₀ + σ ε = x].

    c_skip = d² / (σ² + d²),  c_out = σ d / √(σ² + d²),  c_in = 1 / √(σ² + d²), with d the data's standard deviation
    network: F: (B, *event), (B,) [, class (B,)] → (B, *event)
    data_scale: d; mean, spread: of log σ in training; low, high: ends of the noise levels when drawing

    >>> EDM(weft.nn.Identity(), (2,)).promises
    {'score': 'estimate', 'sample': 'estimate'}
    """

    def __init__(
        self,
        network: nn.Module,
        event_shape: tuple[int, ...],
        *,
        data_scale: float = 0.5,
        mean: float = -1.2,
        spread: float = 1.2,
        low: float = 0.002,
        high: float = 80.0,
        classes: int = 0,
        drop: float = 0.1,
    ) -> None:
        super().__init__(network, event_shape, classes, drop)
        if not (data_scale > 0 and 0 < low < high):
            raise OptionError(f"EDM: expected data_scale > 0 and 0 < low < high, got {data_scale}, {low}, {high}")
        self.data_scale, self.mean, self.spread, self.low, self.high = data_scale, mean, spread, low, high

    def coefficients(self, sigma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """c_skip, c_out, c_in, to go with x: (B,) → (B, 1, …) each"""
        wide = sigma.reshape(-1, *(1 for _ in self.event_shape))
        total = wide**2 + self.data_scale**2
        return self.data_scale**2 / total, wide * self.data_scale * total.rsqrt(), total.rsqrt()

    def denoised(self, x: Tensor, sigma: Tensor, condition: Tensor | None = None) -> Tensor:
        """D(x; σ): (B, *event), (B,) → (B, *event)"""
        return self._denoised(x, sigma, lambda x, t: self.predict(x, t, condition))

    def _denoised(self, x: Tensor, sigma: Tensor, predict: Any) -> Tensor:
        skip, out, into = self.coefficients(sigma)
        return skip * x + out * predict(into * x, 0.25 * sigma.log())

    def loss(self, x: Tensor, condition: Any = None, generator: Any = None) -> Tensor:
        """E λ(σ) ‖D(x + σ ε; σ) − x‖² / D with λ = 1 / c_out², log σ ~ N(mean, spread²): a scalar"""
        self.check(x)
        condition = self.hidden(self.given(len(x), condition), generator)
        sigma = (self.mean + self.spread * weft.randn(len(x), dtype=x.dtype, generator=generator)).exp()
        wide = sigma.reshape(-1, *(1 for _ in self.event_shape))
        noisy = x + wide * weft.randn(x.shape, dtype=x.dtype, generator=generator)
        gap = (self.denoised(noisy, sigma, condition) - x) / self.coefficients(sigma)[1]
        return (gap**2).flatten(1).mean(1).mean()

    @estimate
    def score(self, x: Tensor, sigma: float | None = None, condition: Any = None) -> Tensor:
        """(D(x; σ) − x) / σ², at the lowest level unless told: like x"""
        self.check(x)
        level = self.low if sigma is None else sigma
        sigmas = weft.full((len(x),), level, dtype=x.dtype)
        return (self.denoised(x, sigmas, self.given(len(x), condition)) - x) / level**2

    @estimate
    def sample(
        self,
        n: int,
        condition: Any = None,
        generator: Any = None,
        *,
        steps: int = 18,
        guidance: float | Tensor | None = None,
    ) -> Tensor:
        """Heun's steps over Karras' noise levels, 2 steps − 1 calls of the network, one native plan: (n, *event)"""
        scale = None if guidance is None else weft.as_tensor(guidance, dtype=self.noise(1).dtype)
        return self._sampled(n, self.given(n, condition), steps, scale, generator)

    @in_one_plan
    def _sampled(self, n: int, condition: Any, steps: int, guidance: Any, generator: Any = None) -> Tensor:
        with weft.no_grad():
            scheduler = HeunDiscreteScheduler(prediction_type="sample")
            scheduler.set_sigmas(karras_sigmas(steps, self.low, self.high))
            predict = self.guided(condition, guidance)
            start = self.noise(n, generator) * self.high

            def step(number: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
                x, *memory = state
                sigma = scheduler.sigmas[number, 0].to(x.dtype).expand(n)
                x, _, memory = scheduler.advance(number, self._denoised(x, sigma, predict), x, tuple(memory))
                return (x, *memory)

            return weft.fori_loop(0, len(scheduler), step, (start, *scheduler.start(start)))[0]
