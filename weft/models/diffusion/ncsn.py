"""Noise-conditional score networks (Song and Ermon 2019): scores at many noise levels, and annealed Langevin dynamics."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from ..energy.dynamics import follow_score
from ..generative.plans import in_one_plan
from ..generative.protocol import estimate
from .ddpm import Conditioned
from .score_matching import denoising_score_matching

__all__ = ["NCSN"]


class NCSN(Conditioned):
    """s(x, σ) = f(x, log σ) / σ for σ₁ > … > σ_L, a geometric sequence; trained by denoising score matching, weighted σ².

    network: (B, *event), log σ (B,) [, class (B,)] → (B, *event)
    high, low, levels: σ₁, σ_L and L. σ₁ near the largest distance of two examples, so that chains mix; σ_L too small to see
    step: ε of the finest level, where σ is its unit: level i has ε σᵢ²; steps: Langevin steps at each level

    >>> NCSN(weft.nn.Identity(), (2,), levels=3).sigmas
    tensor([10.0000,  0.3162,  0.0100], dtype=weft.float64)
    """

    def __init__(
        self,
        network: nn.Module,
        event_shape: tuple[int, ...],
        *,
        high: float = 10.0,
        low: float = 0.01,
        levels: int = 10,
        step: float = 0.1,
        steps: int = 50,
        classes: int = 0,
        drop: float = 0.1,
    ) -> None:
        super().__init__(network, event_shape, classes, drop)
        if not (0 < low < high and levels > 1):
            raise OptionError(f"NCSN: expected 0 < low < high and 2 levels or more, got {low}, {high}, {levels}")
        self.step, self.steps = step, steps
        self.register_buffer("sigmas", weft.tensor(np.geomspace(high, low, levels)))

    def scores(self, x: Tensor, sigma: Tensor, condition: Tensor | None = None) -> Tensor:
        """s(x, σ) for one σ a row: (B, *event), (B,) → (B, *event)"""
        wide = sigma.reshape(-1, *(1 for _ in self.event_shape))
        return self.predict(x, sigma.log(), condition) / wide

    def loss(self, x: Tensor, condition: Any = None, generator: Any = None) -> Tensor:
        """E σ² ½‖s(x + σ ε, σ) + ε / σ‖² over levels drawn at random: a scalar"""
        self.check(x)
        condition = self.hidden(self.given(len(x), condition), generator)
        sigma = self.sigmas[weft.randint(len(self.sigmas), (len(x),), generator=generator)].to(x.dtype)
        wide = sigma.reshape(-1, *(1 for _ in self.event_shape))
        at_level = lambda noisy: self.scores(noisy, sigma, condition)
        return denoising_score_matching(at_level, x, wide, generator, weighted=True)

    @estimate
    def score(self, x: Tensor, condition: Any = None) -> Tensor:
        """The score at the finest level, of p smoothed by N(0, σ_L²): like x"""
        self.check(x)
        return self.scores(x, self.sigmas[-1].to(x.dtype).expand(len(x)), self.given(len(x), condition))

    @estimate
    @in_one_plan
    @weft.no_grad()
    def sample(self, n: int, condition: Any = None, generator: Any = None) -> Tensor:
        """Langevin chains from N(0, σ₁²), level after level, with a last step of denoising, x + σ_L² s: (n, *event)"""
        condition = self.given(n, condition)
        start = self.sigmas[0] * self.noise(n, generator)

        def level(x: Tensor, sigma: Tensor) -> tuple[Tensor, None]:
            sigma = sigma.to(x.dtype)
            score = lambda x: self.scores(x, sigma.expand(n), condition)
            return follow_score(score, x, self.steps, self.step * sigma**2, generator), None

        x, _ = weft.scan(level, start.to(self.noise(1).dtype), self.sigmas)
        finest = self.sigmas[-1].to(x.dtype)
        return x + finest**2 * self.scores(x, finest.expand(n), condition)
