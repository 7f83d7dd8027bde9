"""Denoising diffusion (Sohl-Dickstein et al. 2015; Ho et al. 2020), with every term of its bound, and learned variances
(Nichol and Dhariwal 2021)."""

from __future__ import annotations

import math
from typing import Any

import weft

from ... import nn
from ...errors import ArgumentError, DtypeError, OptionError, ShapeError
from ...tensor import Tensor
from ..generative.plans import in_one_plan
from ..generative.protocol import Bound, GenerativeModel, bound, estimate
from .predictions import check_prediction, parts_of, target_of
from .sampling import Predict, classifier_free_guidance, denoise
from .schedulers import DDIMScheduler, DDPMScheduler, Scheduler
from .schedules import NoiseSchedule, at, min_snr_weights
from .solvers import (
    DPMSolverMultistepScheduler,
    EulerAncestralDiscreteScheduler,
    EulerDiscreteScheduler,
    HeunDiscreteScheduler,
)
from .terms import (
    Terms,
    discretised_normal_log_prob,
    log_variance_range,
    normal_kl,
    posterior_mean,
    prior_term,
)

__all__ = ["DDPM", "Conditioned"]

SAMPLERS: dict[str, type[Scheduler]] = {
    "ddpm": DDPMScheduler,
    "ddim": DDIMScheduler,
    "dpm": DPMSolverMultistepScheduler,
    "euler": EulerDiscreteScheduler,
    "euler_ancestral": EulerAncestralDiscreteScheduler,
    "heun": HeunDiscreteScheduler,
}
HYBRID = 0.001  # weight of the bound in the loss of learned variances


class Conditioned(GenerativeModel):
    """What models with a network of (x, t), or (x, t, class), share: shapes, classes, classifier-free guidance.

    classes: number of classes; the network gets classes 0 … classes − 1, and `classes` itself for none
    drop: the share of examples whose class a training step hides, so that one network learns both
    """

    continuous = True

    def __init__(self, network: nn.Module, event_shape: tuple[int, ...], classes: int = 0, drop: float = 0.1) -> None:
        super().__init__()
        if not 0 <= drop <= 1:
            raise OptionError(f"{type(self).__name__}: expected drop from 0 to 1, got {drop}")
        self.network, self.event_shape, self.classes, self.drop = network, tuple(event_shape), classes, drop

    @property
    def elements(self) -> int:
        """How many numbers an x has."""
        return weft.Size(self.event_shape).numel()

    def predict(self, x: Tensor, t: Tensor, condition: Tensor | None = None) -> Tensor:
        """The network's output, for no class where none is given: like x"""
        if not self.classes:
            return self.network(x, t)
        if condition is None:
            condition = weft.full((len(x),), self.classes, dtype=weft.int64)
        return self.network(x, t, condition)

    def guided(self, condition: Tensor | None, guidance: Tensor | None) -> Predict:
        """Predictions for these classes; with a guidance w, u + w (c − u) from one pass over both.

        For samplers, whose rows all have the same t: a network that broadcasts times (`broadcasts_time`) is told it once.
        """
        once = getattr(self.network, "broadcasts_time", False)
        if condition is None or guidance is None:
            return lambda x, t: self.predict(x, t[:1] if once else t, condition)
        both = weft.cat([condition, weft.full_like(condition, self.classes)])

        def predict(x: Tensor, t: Tensor) -> Tensor:
            found = self.predict(weft.cat([x, x]), t[:1] if once else weft.cat([t, t]), both)
            return classifier_free_guidance(*found.chunk(2), guidance)

        return predict

    def hidden(self, condition: Tensor | None, generator: Any) -> Tensor | None:
        """Classes for a training step, some of them hidden."""
        if condition is None:
            return None
        drawn = weft.rand(len(condition), generator=generator) < self.drop
        return weft.where(drawn, self.classes, condition)

    def given(self, n: int, condition: Any) -> Tensor | None:
        """Conditions as a tensor (n,), or None; one number stands for all."""
        if condition is None:
            return None
        if not self.classes:
            self._unconditional(condition)
        condition = weft.as_tensor(condition, dtype=weft.int64)
        condition = condition.expand(n) if condition.ndim == 0 else condition
        if tuple(condition.shape) != (n,):
            raise ShapeError(f"{type(self).__name__}: expected {n} classes, got shape {tuple(condition.shape)}")
        return condition

    def check(self, x: Tensor) -> None:
        """Refuse data of another shape or of whole numbers."""
        if tuple(x.shape[1:]) != self.event_shape or not len(x):
            sizes = ", ".join(map(str, self.event_shape))
            raise ShapeError(
                f"{type(self).__name__}: expected x of shape (B, {sizes}) with B > 0, got {tuple(x.shape)}"
            )
        if not x.dtype.is_floating_point:
            raise DtypeError(
                f"{type(self).__name__}: expected floating-point x, got {x.dtype}; scale it to [0, 1] first"
            )

    def noise(self, n: int, generator: Any = None) -> Tensor:
        """Standard normal noise of the network's type: (n, *event)"""
        parameter = next(self.parameters(), None)
        kind = weft.get_default_dtype() if parameter is None else parameter.dtype
        return weft.randn(n, *self.event_shape, dtype=kind, generator=generator)


class DDPM(Conditioned):
    """q(x_t | x₀) = N(√ᾱₜ x₀, 1 − ᾱₜ);  p(x_{t−1} | x_t) = N(μ̃(x_t, x̂₀(x_t, t)), σₜ²).

    network: (B, *event), t (B,) [, class (B,)] → (B, *event), or with twice the channels for learned variances
    schedule: a `NoiseSchedule`, or "linear" or "cosine" with steps
    prediction_type: what the network says, "epsilon", "sample" or "v_prediction"
    variance_type: σₜ² is β̃ₜ ("fixed_small"), βₜ ("fixed_large"), or learned in between ("learned_range")
    levels: x are levels of grey in [0, 1], and p(x) their probability; the model itself works in [−1, 1]. None: x are real
        numbers, taken as they are, and p(x) is their density
    min_snr: γ of the weights min(SNR, γ) in the loss; None weighs all steps alike (L_simple)

    >>> model = DDPM(weft.nn.Identity(), (2,))
    >>> model.promises
    {'log_prob_bound': 'bound', 'elbo': 'bound', 'score': 'estimate', 'sample': 'estimate'}
    """

    def __init__(
        self,
        network: nn.Module,
        event_shape: tuple[int, ...],
        schedule: NoiseSchedule | str = "linear",
        steps: int = 1000,
        *,
        prediction_type: str = "epsilon",
        variance_type: str = "fixed_small",
        levels: int | None = None,
        min_snr: float | None = None,
        classes: int = 0,
        drop: float = 0.1,
    ) -> None:
        super().__init__(network, event_shape, classes, drop)
        check_prediction(prediction_type)
        self.schedule = schedule if isinstance(schedule, NoiseSchedule) else NoiseSchedule(schedule, steps)
        DDPMScheduler(self.schedule, variance_type=variance_type)  # refuses what is none
        self.prediction_type, self.variance_type = prediction_type, variance_type
        self.levels, self.min_snr = levels, min_snr

    # ---------------------------------------------------------------------- training
    def loss(self, x: Tensor, condition: Any = None, generator: Any = None) -> Tensor:
        """E w(t) ‖target − output‖² / D over uniform t: a scalar. Learned variances add 0.001 of the bound, whose gradient
        does not reach the means (L_hybrid)."""
        self.check(x)
        x0, condition = self.inside(x), self.hidden(self.given(len(x), condition), generator)
        t = weft.randint(len(self.schedule), (len(x),), generator=generator)
        noise = weft.randn(x.shape, dtype=x.dtype, generator=generator)
        a, s = self.schedule.rates(t, x0)
        noisy = a * x0 + s * noise
        output = self.predict(noisy, t, condition)
        wanted = target_of(self.prediction_type, x0, noise, a, s)
        means = self._split(output)[0]
        each = ((means - wanted) ** 2).flatten(1).mean(1)
        if self.min_snr is not None:
            each = each * at(min_snr_weights(self.schedule.snr, self.min_snr, self.prediction_type), t, each)
        if self.variance_type == "learned_range":
            fixed = weft.cat([means.detach(), self._split(output)[1]], 1)
            each = each + HYBRID * len(self.schedule) * self._term(x0, noisy, t, fixed) / self.elements
        return each.mean()

    # ---------------------------------------------------------------------- the bound
    @weft.no_grad()
    def terms(self, x: Tensor, condition: Any = None, generator: Any = None) -> Terms:
        """Every term of the bound, each at one draw of x_t: T calls of the network."""
        self.check(x)
        return self._terms(x, self.given(len(x), condition), generator)

    @in_one_plan
    def _terms(self, x: Tensor, condition: Tensor | None, generator: Any = None) -> Terms:
        with weft.no_grad():
            x0 = self.inside(x)
            every = lambda carry, t: (carry, self._drawn_term(x0, t.expand(len(x0)), condition, generator))
            found = weft.scan(every, (), weft.arange(len(self.schedule)))[1]  # (T, B)
            return Terms(prior_term(self.schedule, x0), found[1:].mT, found[0])

    @bound
    def elbo(self, x: Tensor, condition: Any = None, generator: Any = None, draws: int | None = None) -> Tensor:
        """−(L_T + Σ L_t + L₀), a lower bound of log p(x) in the mean over what is drawn: (B,)

        draws: estimate Σ L_t from so many steps instead of all T, one drawn from each of as many equal parts of 1 … T − 1
        """
        self.check(x)
        condition = self.given(len(x), condition)
        if draws is None or draws >= len(self.schedule) - 1:
            return -self._terms(x, condition, generator).total
        if draws < 1:
            raise OptionError(f"DDPM.elbo: expected 1 draw or more, got {draws}")
        return self._estimated(x, condition, draws, generator)

    @in_one_plan
    def _estimated(self, x: Tensor, condition: Tensor | None, draws: int, generator: Any = None) -> Tensor:
        with weft.no_grad():
            x0, later = self.inside(x), len(self.schedule) - 1

            def add(number: Tensor, total: Tensor) -> Tensor:
                place = (number + weft.rand(len(x0), dtype=weft.float64, generator=generator)) / draws  # in [0, 1)
                t = 1 + (place * later).long().clamp(max=later - 1)
                return total + self._drawn_term(x0, t, condition, generator) * (later / draws)

            first = self._drawn_term(x0, weft.zeros(len(x0), dtype=weft.int64), condition, generator)
            return -weft.fori_loop(0, draws, add, prior_term(self.schedule, x0) + first)

    @bound
    def log_prob_bound(
        self, x: Tensor, condition: Any = None, generator: Any = None, draws: int | None = None, repeats: int = 2
    ) -> Bound:
        """The mean of `repeats` draws of `elbo`, with its standard error (0 for a single draw): side "lower", (B,)"""
        if repeats < 1:
            raise OptionError(f"DDPM.log_prob_bound: expected 1 repeat or more, got {repeats}")
        found = weft.stack([self.elbo(x, condition, generator, draws) for _ in range(repeats)])  # (R, B)
        error = found.std(0) / math.sqrt(repeats) if repeats > 1 else weft.zeros_like(found[0])
        return Bound(found.mean(0), "lower", error)

    def _drawn_term(self, x0: Tensor, t: Tensor, condition: Tensor | None, generator: Any) -> Tensor:
        noise = weft.randn(x0.shape, dtype=x0.dtype, generator=generator)
        noisy = self.schedule.add_noise(x0, noise, t)
        return self._term(x0, noisy, t, self.predict(noisy, t, condition))

    def _term(self, x0: Tensor, x: Tensor, t: Tensor, output: Tensor) -> Tensor:
        """L_t, or L₀ where t is 0: (B,)"""
        mean, log_variance = self._reverse(x, t, output)
        small, _ = log_variance_range(self.schedule, t, x)
        kl = normal_kl(posterior_mean(self.schedule, x0, x, t), small, mean, log_variance)
        if self.levels is None:
            gap = (x0 - mean) ** 2 * (-log_variance).exp()
            decoder = 0.5 * (gap + log_variance + math.log(2 * math.pi))
        else:
            decoder = -discretised_normal_log_prob(x0, mean, log_variance, self.levels)
        return weft.where(t == 0, decoder.flatten(1).sum(1), kl.flatten(1).sum(1))

    def _reverse(self, x: Tensor, t: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance of p(x_{t−1} | x_t)"""
        means, share = self._split(output)
        a, s = self.schedule.rates(t, x)
        x0 = parts_of(self.prediction_type, means, x, a, s, self._clip).x0
        small, large = log_variance_range(self.schedule, t, x)
        if share is not None:
            log_variance = small + (share + 1) / 2 * (large - small)
        elif self.variance_type == "fixed_small":
            log_variance = small
        else:  # step 0 has the small one here too: x₀ is meant to be sharp
            log_variance = weft.where((t == 0).reshape(small.shape), small, large)
        return posterior_mean(self.schedule, x0, x, t), log_variance

    def means(self, output: Tensor) -> Tensor:
        """The network's output without its variances."""
        return self._split(output)[0]

    def _split(self, output: Tensor) -> tuple[Tensor, Tensor | None]:
        if self.variance_type != "learned_range":
            return output, None
        means, share = output.chunk(2, 1)
        return means, share

    # ---------------------------------------------------------------------- scores and samples
    @estimate
    def score(self, x: Tensor, t: int | Tensor = 0, condition: Any = None) -> Tensor:
        """∇ log q(x_t) ≈ −ε̂ / √(1 − ᾱₜ), at the least noise by default: like x (in [−1, 1] where there are levels)"""
        self.check(x)
        t = weft.as_tensor(t).expand(len(x)) if not isinstance(t, Tensor) or t.ndim == 0 else t
        a, s = self.schedule.rates(t, x)
        output = self.means(self.predict(x, t, self.given(len(x), condition)))
        return -parts_of(self.prediction_type, output, x, a, s).epsilon / s

    @estimate
    def sample(
        self,
        n: int,
        condition: Any = None,
        generator: Any = None,
        *,
        sampler: str | Scheduler = "ddpm",
        steps: int | None = None,
        eta: float = 0.0,
        guidance: float | Tensor | None = None,
    ) -> Tensor:
        """n draws as one native plan: (n, *event), in [0, 1] where there are levels.

        sampler: "ddpm", "ddim", "dpm" (DPM-Solver++), "euler", "euler_ancestral", "heun", or a `Scheduler` with its timesteps set
        steps: of the sampler, all by default; eta: of DDIM's noise; guidance: w of u + w (c − u), which no plan depends on
        """
        condition = self.given(n, condition)
        if guidance is not None and condition is None:
            raise ArgumentError("DDPM.sample: guidance needs a condition")
        if isinstance(sampler, str) and sampler not in SAMPLERS:
            raise OptionError(f"DDPM.sample: sampler is one of {', '.join(SAMPLERS)}, or a Scheduler; got {sampler!r}")
        scale = None if guidance is None else weft.as_tensor(guidance, dtype=self.noise(1).dtype)
        return self._sampled(n, condition, sampler, steps, eta, scale, generator)

    @in_one_plan
    def _sampled(
        self, n: int, condition: Any, sampler: Any, steps: int | None, eta: float, guidance: Any, generator: Any = None
    ) -> Tensor:
        with weft.no_grad():
            scheduler = self.scheduler(sampler, steps, eta) if isinstance(sampler, str) else sampler
            whole = self.guided(condition, guidance)
            means = lambda x, t: self.means(whole(x, t))
            predict = whole if isinstance(scheduler, DDPMScheduler) else means
            return self.outside(denoise(predict, scheduler, self.noise(n, generator), generator))

    def scheduler(self, kind: str = "ddpm", steps: int | None = None, eta: float = 0.0) -> Scheduler:
        """A scheduler that fits this model."""
        options: dict[str, Any] = {"clip_sample": self._clip is not None, "clip_sample_range": self._clip or 1.0}
        ends = {"timestep_spacing": "trailing" if steps == 1 else "linspace"}  # from T − 1 to 0
        own: dict[str, dict[str, Any]] = {"ddpm": {"variance_type": self.variance_type} | ends, "ddim": {"eta": eta}}
        own |= dict.fromkeys(("euler", "euler_ancestral", "heun"), {"use_karras_sigmas": True} | ends)
        options |= {"timestep_spacing": "trailing"} | own.get(kind, {})  # either starts where there is only noise
        made = SAMPLERS[kind](self.schedule, prediction_type=self.prediction_type, **options)
        made.set_timesteps(len(self.schedule) if steps is None else steps)
        return made

    # ---------------------------------------------------------------------- scales
    @property
    def _clip(self) -> float | None:
        return None if self.levels is None else 1.0

    def inside(self, x: Tensor) -> Tensor:
        """Data as the network sees them."""
        return x if self.levels is None else 2 * x - 1

    def outside(self, x: Tensor) -> Tensor:
        """Back to the data's scale."""
        return x if self.levels is None else ((x + 1) / 2).clamp(0, 1)
