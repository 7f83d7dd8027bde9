"""A model of scores in continuous time (Song et al. 2021): drawn by the reverse equation, or by its flow, which has a
likelihood."""

from __future__ import annotations

import math
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from ..generative.plans import in_one_plan
from ..generative.protocol import estimate
from .ddpm import Conditioned
from .flows import flow_to, log_prob_along
from .sde import SDE, VESDE, VPSDE, SubVPSDE, TimedScore, predictor_corrector

__all__ = ["ScoreSDE", "normal_log_prob"]

SDES: dict[str, type[SDE]] = {"vp": VPSDE, "subvp": SubVPSDE, "ve": VESDE}


class ScoreSDE(Conditioned):
    """s(x, t) = −f(x, t) / s(t) for t in (0, 1]: the network predicts the noise in x_t = a(t) x₀ + s(t) ε.

    network: (B, *event), t (B,) [, class (B,)] → (B, *event); of x_t / √(a² + s²), so that its input has one scale
    sde: "vp", "subvp", "ve", or an `SDE`
    likelihood_weighting: weigh errors of the score by g² instead of s², a bound on −log p (Song et al. 2021b)
    start: the smallest t, where walks end and likelihoods begin

    >>> ScoreSDE(weft.nn.Identity(), (2,)).promises
    {'log_prob': 'estimate', 'score': 'estimate', 'sample': 'estimate'}
    """

    def __init__(
        self,
        network: nn.Module,
        event_shape: tuple[int, ...],
        sde: SDE | str = "vp",
        *,
        likelihood_weighting: bool = False,
        start: float = 1e-3,
        classes: int = 0,
        drop: float = 0.1,
    ) -> None:
        super().__init__(network, event_shape, classes, drop)
        if isinstance(sde, str) and sde not in SDES:
            raise OptionError(f"ScoreSDE: sde is one of {', '.join(SDES)}, or an SDE; got {sde!r}")
        self.sde = SDES[sde]() if isinstance(sde, str) else sde
        self.likelihood_weighting, self.start = likelihood_weighting, start

    def noise_in(self, x: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
        """ε as predicted: (B, *event), (B,) → (B, *event)"""
        a, s = self.sde.kernel(t)
        return self.predict(x * self._wide((a**2 + s**2).rsqrt()), t, condition)

    def scores(self, x: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
        """∇ log q_t(x) as predicted: (B, *event), (B,) → (B, *event)"""
        return -self.noise_in(x, t, condition) / self._wide(self.sde.kernel(t)[1])

    def loss(self, x: Tensor, condition: Any = None, generator: Any = None) -> Tensor:
        """E ‖f(x_t, t) − ε‖² / D over uniform t: a scalar"""
        self.check(x)
        condition = self.hidden(self.given(len(x), condition), generator)
        t = self.start + (1 - self.start) * weft.rand(len(x), dtype=x.dtype, generator=generator)
        noise = weft.randn(x.shape, dtype=x.dtype, generator=generator)
        a, s = self.sde.kernel(t)
        each = (
            ((self.noise_in(self._wide(a) * x + self._wide(s) * noise, t, condition) - noise) ** 2).flatten(1).mean(1)
        )
        return (each * (self.sde.diffusion(t) / s) ** 2 if self.likelihood_weighting else each).mean()

    @estimate
    def score(self, x: Tensor, t: float = 0.0, condition: Any = None) -> Tensor:
        """∇ log q_t(x), at the smallest t unless told: like x"""
        self.check(x)
        time = weft.full((len(x),), max(t, self.start), dtype=x.dtype)
        return self.scores(x, time, self.given(len(x), condition))

    @estimate
    def log_prob(
        self,
        x: Tensor,
        condition: Any = None,
        generator: Any = None,
        *,
        steps: int = 100,
        trace: str = "exact",
    ) -> Tensor:
        """log p(x) of the probability flow, by `steps` Runge–Kutta steps from `start` to 1: (B,)

        An estimate: of the flow's density, which is not that of the noisy walk; with the error of the steps, and for
        trace="hutchinson" that of the directions drawn.
        """
        self.check(x)
        return self._log_prob(x, self.given(len(x), condition), steps, trace, generator)

    @in_one_plan
    def _log_prob(self, x: Tensor, condition: Any, steps: int, trace: str, generator: Any = None) -> Tensor:
        with weft.no_grad():
            velocity = self._slowed(lambda x, t: self.scores(x, t, condition))
            prior = lambda x: normal_log_prob(x, self.sde.prior_scale)
            start = math.sqrt(self.start)
            return log_prob_along(velocity, x, start, 1.0, prior, generator, steps=steps, trace=trace)

    @estimate
    def sample(
        self,
        n: int,
        condition: Any = None,
        generator: Any = None,
        *,
        sampler: str = "pc",
        steps: int = 200,
        corrections: int = 1,
        guidance: float | Tensor | None = None,
    ) -> Tensor:
        """n draws as one native plan: (n, *event)

        sampler: "em" (Euler–Maruyama), "pc" (predictor and corrector), "ode" (probability flow, Runge–Kutta steps)
        """
        if sampler not in ("em", "pc", "ode"):
            raise OptionError(f"ScoreSDE.sample: sampler is em, pc or ode, got {sampler!r}")
        scale = None if guidance is None else weft.as_tensor(guidance, dtype=self.noise(1).dtype)
        return self._sampled(n, self.given(n, condition), sampler, steps, corrections, scale, generator)

    @in_one_plan
    def _sampled(
        self, n: int, condition: Any, sampler: str, steps: int, corrections: int, guidance: Any, generator: Any = None
    ) -> Tensor:
        with weft.no_grad():
            start = self.noise(n, generator) * self.sde.prior_scale
            predict = self.guided(condition, guidance)

            def score(x: Tensor, t: Tensor) -> Tensor:
                a, s = self.sde.kernel(t)
                return -predict(x * self._wide((a**2 + s**2).rsqrt()), t) / self._wide(s)

            if sampler == "ode":
                return flow_to(self._slowed(score), start, 1.0, math.sqrt(self.start), steps)
            count = corrections if sampler == "pc" else 0
            return predictor_corrector(self.sde, score, start, steps, generator, end=self.start, corrections=count)

    def _slowed(self, score: TimedScore) -> TimedScore:
        """The flow along r = √t, whose equal steps lie closer together towards the data, where scores change fast."""
        velocity = self.sde.flow(score)
        return lambda x, r: 2 * r * velocity(x, r**2)

    def _wide(self, values: Tensor) -> Tensor:
        return values.reshape(-1, *(1 for _ in self.event_shape))


def normal_log_prob(x: Tensor, scale: float = 1.0) -> Tensor:
    """Σ log N(xᵢ; 0, scale²): (B, *event) → (B,)"""
    return -0.5 * ((x / scale) ** 2 + math.log(2 * math.pi * scale**2)).flatten(1).sum(1)
