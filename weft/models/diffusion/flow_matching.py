"""Flow matching: a network learns the velocity that carries noise x₀ at t = 0 to data x₁ at t = 1 (Lipman et al. 2023).

Matchers have torchcfm's names and draw (t, x_t, u_t): a time, a point on the way between a pair, and the velocity there. The
regression on u_t of pairs has the gradient of that on the marginal velocity, E[u_t | x_t].
"""

from __future__ import annotations

import math
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..generative.plans import in_one_plan
from ..generative.protocol import estimate
from .couplings import OTPlanSampler
from .ddpm import Conditioned
from .flows import flow_to, log_prob_along
from .score_sde import normal_log_prob

__all__ = [
    "ConditionalFlowMatcher",
    "ExactOptimalTransportConditionalFlowMatcher",
    "FlowMatching",
    "TargetConditionalFlowMatcher",
    "VariancePreservingConditionalFlowMatcher",
]

Drawn = tuple[Tensor, Tensor, Tensor]


class ConditionalFlowMatcher:
    """x_t = (1 − t) x₀ + t x₁ + σ ε,  u_t = x₁ − x₀: straight lines between pairs at random (rectified flow for σ = 0)."""

    def __init__(self, sigma: float = 0.0) -> None:
        if sigma < 0:
            raise OptionError(f"{type(self).__name__}: expected sigma of 0 or more, got {sigma}")
        self.sigma = sigma

    def compute_mu_t(self, x0: Tensor, x1: Tensor, t: Tensor) -> Tensor:
        """The mean of x_t: like x"""
        return (1 - t) * x0 + t * x1

    def compute_sigma_t(self, t: Tensor) -> Tensor | float:
        """Its standard deviation"""
        return self.sigma

    def compute_conditional_flow(self, x0: Tensor, x1: Tensor, t: Tensor, xt: Tensor) -> Tensor:
        """u_t: like x"""
        return x1 - x0

    def sample_location_and_conditional_flow(
        self, x0: Tensor, x1: Tensor, t: Tensor | None = None, generator: Any = None
    ) -> Drawn:
        """t (B,), x_t and u_t for pairs of noise and data."""
        if x0.shape != x1.shape:
            raise ShapeError(
                f"{type(self).__name__}: noise and data differ in shape, {tuple(x0.shape)}, {tuple(x1.shape)}"
            )
        t = weft.rand(len(x0), dtype=x0.dtype, generator=generator) if t is None else t
        wide = t.reshape(-1, *(1 for _ in x0.shape[1:]))
        xt = self.compute_mu_t(x0, x1, wide)
        spread = self.compute_sigma_t(wide)
        if isinstance(spread, Tensor) or spread:
            xt = xt + spread * weft.randn(x0.shape, dtype=x0.dtype, generator=generator)
        return t, xt, self.compute_conditional_flow(x0, x1, wide, xt)

    def guided_sample_location_and_conditional_flow(
        self,
        x0: Tensor,
        x1: Tensor,
        y0: Tensor | None = None,
        y1: Tensor | None = None,
        t: Tensor | None = None,
        generator: Any = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
        """The same, with the labels of both ends, in the order of the pairs."""
        return *self.sample_location_and_conditional_flow(x0, x1, t, generator), y0, y1


class ExactOptimalTransportConditionalFlowMatcher(ConditionalFlowMatcher):
    """Straight lines between pairs of least total squared length within the batch: flows that hardly cross."""

    def __init__(self, sigma: float = 0.0) -> None:
        super().__init__(sigma)
        self.ot_sampler = OTPlanSampler()

    def sample_location_and_conditional_flow(
        self, x0: Tensor, x1: Tensor, t: Tensor | None = None, generator: Any = None
    ) -> Drawn:
        return self.guided_sample_location_and_conditional_flow(x0, x1, None, None, t, generator)[:3]

    def guided_sample_location_and_conditional_flow(
        self,
        x0: Tensor,
        x1: Tensor,
        y0: Tensor | None = None,
        y1: Tensor | None = None,
        t: Tensor | None = None,
        generator: Any = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
        x0, x1, y0, y1 = self.ot_sampler.sample_plan_with_labels(x0, x1, y0, y1)
        return *ConditionalFlowMatcher.sample_location_and_conditional_flow(self, x0, x1, t, generator), y0, y1


class TargetConditionalFlowMatcher(ConditionalFlowMatcher):
    """Lipman's: x_t = t x₁ + (1 − (1 − σ) t) ε, u_t = (x₁ − (1 − σ) x_t) / (1 − (1 − σ) t); x₀ is not looked at."""

    def compute_mu_t(self, x0: Tensor, x1: Tensor, t: Tensor) -> Tensor:
        return t * x1

    def compute_sigma_t(self, t: Tensor) -> Tensor:
        return 1 - (1 - self.sigma) * t

    def compute_conditional_flow(self, x0: Tensor, x1: Tensor, t: Tensor, xt: Tensor) -> Tensor:
        return (x1 - (1 - self.sigma) * xt) / (1 - (1 - self.sigma) * t)


class VariancePreservingConditionalFlowMatcher(ConditionalFlowMatcher):
    """x_t = cos(πt/2) x₀ + sin(πt/2) x₁ + σ ε (Albergo and Vanden-Eijnden 2023): unit variance stays unit variance."""

    def compute_mu_t(self, x0: Tensor, x1: Tensor, t: Tensor) -> Tensor:
        angle = math.pi / 2 * t
        return angle.cos() * x0 + angle.sin() * x1

    def compute_conditional_flow(self, x0: Tensor, x1: Tensor, t: Tensor, xt: Tensor) -> Tensor:
        angle = math.pi / 2 * t
        return math.pi / 2 * (angle.cos() * x1 - angle.sin() * x0)


class FlowMatching(Conditioned):
    """dx/dt = v(x, t) from N(0, 1) at t = 0 to the data at t = 1.

    network: v: (B, *event), t (B,) [, class (B,)] → (B, *event)
    matcher: straight lines by default. Pairs by optimal transport are found outside of compiled code: give `loss` the noise,
        `pair_by_transport` the order

    >>> FlowMatching(weft.nn.Identity(), (2,)).promises
    {'log_prob': 'estimate', 'sample': 'estimate'}
    """

    def __init__(
        self,
        network: nn.Module,
        event_shape: tuple[int, ...],
        matcher: ConditionalFlowMatcher | None = None,
        *,
        classes: int = 0,
        drop: float = 0.1,
    ) -> None:
        super().__init__(network, event_shape, classes, drop)
        self.matcher = matcher or ConditionalFlowMatcher()

    def loss(self, x: Tensor, condition: Any = None, generator: Any = None, *, noise: Tensor | None = None) -> Tensor:
        """E ‖v(x_t, t) − u_t‖² / D: a scalar. noise: x₀ of each row, drawn where it is not given"""
        self.check(x)
        condition = self.given(len(x), condition)
        noise = weft.randn(x.shape, dtype=x.dtype, generator=generator) if noise is None else noise
        drawn = self.matcher.guided_sample_location_and_conditional_flow(noise, x, None, condition, generator=generator)
        t, xt, wanted, _, condition = drawn
        found = self.predict(xt, t, self.hidden(condition, generator))
        return ((found - wanted) ** 2).flatten(1).mean(1).mean()

    @estimate
    def sample(
        self,
        n: int,
        condition: Any = None,
        generator: Any = None,
        *,
        steps: int = 20,
        method: str = "euler",
        guidance: float | Tensor | None = None,
    ) -> Tensor:
        """n draws as one native plan: (n, *event). method: "euler", "midpoint" or "rk4", 1, 2 or 4 calls a
        step, or "dopri5", which chooses its steps"""
        return self.carried(self.noise(n, generator), condition, steps=steps, method=method, guidance=guidance)

    def carried(
        self,
        noise: Tensor,
        condition: Any = None,
        *,
        steps: int = 20,
        method: str = "euler",
        guidance: float | Tensor | None = None,
    ) -> Tensor:
        """Where noise ends: like it"""
        scale = None if guidance is None else weft.as_tensor(guidance, dtype=noise.dtype)
        return self._carried(noise, self.given(len(noise), condition), steps, method, scale)

    @in_one_plan
    def _carried(
        self, noise: Tensor, condition: Any, steps: int, method: str, guidance: Any, generator: Any = None
    ) -> Tensor:
        with weft.no_grad():
            predict = self.guided(condition, guidance)
            velocity = lambda x, t: predict(x, t.expand(len(x)))
            return flow_to(velocity, noise, 0.0, 1.0, steps, method)

    @estimate
    def log_prob(
        self, x: Tensor, condition: Any = None, generator: Any = None, *, steps: int = 50, trace: str = "exact"
    ) -> Tensor:
        """log p(x) along the flow, by Runge–Kutta steps: (B,). trace: "exact" or "hutchinson" """
        self.check(x)
        return self._log_prob(x, self.given(len(x), condition), steps, trace, generator)

    @in_one_plan
    def _log_prob(self, x: Tensor, condition: Any, steps: int, trace: str, generator: Any = None) -> Tensor:
        with weft.no_grad():
            velocity = lambda x, t: self.predict(x, t.expand(len(x)), condition)
            return log_prob_along(velocity, x, 1.0, 0.0, normal_log_prob, generator, steps=steps, trace=trace)

    def reflow_pairs(
        self, n: int, condition: Any = None, generator: Any = None, *, steps: int = 20, method: str = "rk4"
    ) -> tuple[Tensor, Tensor]:
        """Noise and where this flow carries it, (n, *event) each: train on these pairs, with `loss(x, noise=…)`, for a
        straighter flow of the same marginals (rectified flow, Liu et al. 2023)."""
        noise = self.noise(n, generator)
        return noise, self.carried(noise, condition, steps=steps, method=method)

    @weft.no_grad()
    def straightness(self, noise: Tensor, condition: Any = None, *, steps: int = 20) -> float:
        """E ‖x₁ − x₀ − v(x_t, t)‖² / D along the flow's own paths; 0 if one Euler step is exact."""
        condition = self.given(len(noise), condition)
        x, path = noise, []
        for number in range(steps):
            path.append(self.predict(x, weft.full((len(x),), number / steps, dtype=x.dtype), condition))
            x = x + path[-1] / steps
        return sum(((x - noise - v) ** 2).mean().item() for v in path) / steps
