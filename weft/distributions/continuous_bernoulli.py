"""The continuous Bernoulli distribution on [0, 1]."""

from __future__ import annotations

import math
from typing import Any

import weft

from ..tensor import Tensor
from . import constraints
from .exp_family import ExponentialFamily
from .utils import ProbsOrLogits, broadcast_parameters, clamp_probs, uniform

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """p(x) = C(λ) λˣ (1 − λ)¹⁻ˣ on [0, 1], λ = probs; C(λ) = 2 artanh(1 − 2λ)/(1 − 2λ) (Loaiza-Ganem, Cunningham 2019).

    Between the `lims` around λ = ½ the formulas are 0/0 and Taylor series stand in for them.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
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
        self._keep_parameter(clamp_probs(value) if self._by_probs and _in_unit(value) else value)
        self._lims = lims
        super().__init__(shape, validate_args=validate_args)

    def _pieces(self, probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Where λ is far from ½, λ with ½'s neighbourhood replaced, and λ − ½."""
        far = (probs <= self._lims[0]) | (probs > self._lims[1])
        return far, weft.where(far, probs, self._lims[0]), probs - 0.5

    def _log_constant(self, probs: Tensor) -> Tensor:
        """log C(λ)."""
        far, cut, x = self._pieces(probs)
        exact = ((-cut).log1p() - cut.log()).abs().log() - (1 - 2 * cut).abs().log()
        return weft.where(far, exact, math.log(2) + (4 / 3 + 104 / 45 * x.square()) * x.square())

    @property
    def mean(self) -> Tensor:
        far, cut, x = self._pieces(self.probs)
        exact = cut / (2 * cut - 1) + 1 / ((-cut).log1p() - cut.log())
        return weft.where(far, exact, 0.5 + (1 / 3 + 16 / 45 * x.square()) * x)

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    @property
    def variance(self) -> Tensor:
        far, cut, x = self._pieces(self.probs)
        exact = cut * (cut - 1) / (1 - 2 * cut).square() + ((-cut).log1p() - cut.log()).pow(-2)
        square = x.square()
        return weft.where(far, exact, 1 / 12 - (1 / 15 - 128 / 945 * square) * square)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The quantile of a uniform number."""
        return self.icdf(uniform(self._extended_shape(sample_shape), self._param))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = weft.broadcast_tensors(self.logits, value)
        powers = -weft.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return powers + self._log_constant(self.probs)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        far, cut, _ = self._pieces(self.probs)
        exact = (cut.pow(value) * (1 - cut).pow(1 - value) + cut - 1) / (2 * cut - 1)
        inside = weft.where(far, exact, value)
        return weft.where(value <= 0, 0.0, weft.where(value >= 1, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        far, cut, _ = self._pieces(self.probs)
        exact = ((-cut + value * (2 * cut - 1)).log1p() - (-cut).log1p()) / (cut.log() - (-cut).log1p())
        return weft.where(far, exact, value)

    def entropy(self) -> Tensor:
        log_odds = self.probs.log() - (-self.probs).log1p()
        return -self.mean * log_odds - (-self.probs).log1p() - self._log_constant(self.probs)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        """log((eˣ − 1)/x), near 0 by its series."""
        far = (x - 0).abs() > 0.004
        safe = weft.where(far, x, 1.0)
        return weft.where(far, (safe.expm1() / safe).log(), x / 2 + x.square() / 24 - x.pow(4) / 2880)


def _in_unit(probs: Tensor) -> bool:
    """Whether all are probabilities, so that moving them off 0 and 1 hides no error."""
    return bool(constraints.unit_interval.check(probs).all())
