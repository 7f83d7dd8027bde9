"""The continuous Bernoulli distribution on [0, 1]."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import weft

from ..nn import functional as F
from ..tensor import Tensor
from . import constraints
from .exp_family import ExponentialFamily
from .utils import ProbsOrLogits, broadcast_parameters, uniform

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """p(x) = C λˣ (1 − λ)¹⁻ˣ on [0, 1] (Loaiza-Ganem and Cunningham 2019).

    In the log-odds θ the density is e^(θx) θ/(e^θ − 1), and C = θ/tanh(θ/2). Near θ = 0, where formulas are 0/0, their
    series are used, on a region chosen for accuracy.

    probs: λ; or
    logits: its log-odds θ
    lims: PyTorch's bounds of that region in λ, accepted and kept

    >>> weft.distributions.ContinuousBernoulli(weft.tensor(0.5)).mean
    tensor(0.5000)
    """

    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        shape, (value,) = broadcast_parameters(self._take_parameter(probs, logits))
        self._keep_parameter(value)
        self._lims = lims
        super().__init__(shape, validate_args=validate_args)

    @property
    def _log_constant(self) -> Tensor:
        """log C = log(θ/tanh(θ/2))."""
        theta = self.logits
        near, safe = _split(theta, 0.01)
        series = math.log(2) + theta.square() / 12 - 7 * theta.pow(4) / 1440
        return weft.where(near, series, (safe / (safe / 2).tanh()).log())

    @property
    def mean(self) -> Tensor:
        """1/(1 − e^(−θ)) − 1/θ."""
        near, safe = _split(self.logits, 0.5)
        series = 0.5 + self.logits * _polynomial(self.logits, MEAN_SERIES)
        return weft.where(near, series, -1 / (-safe).expm1() - 1 / safe)

    @property
    def variance(self) -> Tensor:
        """1/θ² − 1/(4 sinh²(θ/2))."""
        near, safe = _split(self.logits, 0.5)
        series = _polynomial(self.logits, [(2 * k + 1) * c for k, c in enumerate(MEAN_SERIES)])
        return weft.where(near, series, safe.pow(-2) - (2 * (safe / 2).sinh()).pow(-2))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The quantile of a uniform number."""
        return self.icdf(uniform(self._extended_shape(sample_shape), self._param))

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = weft.broadcast_tensors(self.logits, value)
        powers = -F.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return powers + self._log_constant

    def cdf(self, value: Tensor) -> Tensor:
        """(e^(θx) − 1)/(e^θ − 1), for θ > 0 with e^(−θ) taken out of both, so that nothing overflows."""
        size = self.logits.abs()
        near, safe = _split(size, weft.finfo(size.dtype).tiny)
        x = value.clamp(min=0, max=1)
        falling = weft.where(near, x, (-safe * x).expm1() / (-safe).expm1())
        return weft.where(self.logits > 0, (size * (x - 1)).exp() * falling, falling)

    def icdf(self, value: Tensor) -> Tensor:
        """log(1 + u(e^θ − 1))/θ, for θ > 0 as 1 + log(u + (1 − u)e^(−θ))/θ."""
        near, safe = _split(self.logits.abs(), weft.finfo(self.logits.dtype).tiny)
        falling = -(value * (-safe).expm1()).log1p() / safe
        rising = 1 + (value + (1 - value) * (-safe).exp()).log() / safe
        return weft.where(near, value, weft.where(self.logits > 0, rising, falling))

    def entropy(self) -> Tensor:
        """log(1 + e^θ) − θ E x − log C."""
        return F.softplus(self.logits) - self.logits * self.mean - self._log_constant

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        """log((eˣ − 1)/x)."""
        near, safe = _split(x, 0.01)
        return weft.where(near, x / 2 + x.square() / 24 - x.pow(4) / 2880, (safe.expm1() / safe).log())


MEAN_SERIES = [1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160]  # of (E x − ½)/θ in powers of θ²


def _split(theta: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Where |θ| is below the bound, and θ with 1 put there, where the formulas divide by it."""
    near = theta.abs() < bound
    return near, weft.where(near, 1.0, theta)


def _polynomial(theta: Tensor, coefficients: list[float]) -> Tensor:
    """Σ c_k θ²ᵏ."""
    square, total = theta.square(), weft.zeros_like(theta)
    for coefficient in reversed(coefficients):
        total = total * square + coefficient
    return total
