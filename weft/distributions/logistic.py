"""Logistic distributions: continuous, on a grid of levels, and mixtures of them."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import weft

from ..autograd import no_grad
from ..errors import InvalidValueError
from ..nn import functional as F
from ..tensor import Tensor
from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .location_scale import LocationScale
from .mixture_same_family import MixtureSameFamily
from .quantiles import least_count
from .utils import broadcast_parameters, uniform

__all__ = ["DiscretizedLogistic", "DiscretizedLogisticMixture", "Logistic", "LogisticMixture"]


class Logistic(LocationScale):
    """F(x) = σ((x − μ)/s), σ the sigmoid.

    loc, scale: μ and s

    >>> weft.distributions.Logistic(0.0, 1.0).cdf(weft.tensor(0.0))
    tensor(0.5000)
    """

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return (self.scale * math.pi).square() / 3

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """μ + s log(u/(1 − u)), u uniform."""
        return self.icdf(uniform(self._extended_shape(sample_shape), self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return F.logsigmoid(z) + F.logsigmoid(-z) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        return self._standard(value).sigmoid()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (value.log() - (-value).log1p())

    def entropy(self) -> Tensor:
        return self.scale.log() + 2


class DiscretizedLogistic(Distribution):
    """A logistic number rounded to a grid of values (Salimans et al. 2017).

    P(x) = σ((x + δ/2 − μ)/s) − σ((x − δ/2 − μ)/s), δ the step of the grid; the two ends take the tails. With
    b and a those arguments, P = σ(b) σ(−a) (1 − e^(a−b)): logarithms of it never cancel.

    loc, scale: μ and s
    low, high: the first and the last value of the grid
    levels: how many values it has

    >>> pixel = weft.distributions.DiscretizedLogistic(0.0, 0.5, levels=3)
    >>> pixel.log_prob(weft.tensor([-1.0, 0.0, 1.0])).exp().sum()
    tensor(1.)
    """

    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    has_enumerate_support = True

    def __init__(
        self,
        loc: Any,
        scale: Any,
        low: float = -1.0,
        high: float = 1.0,
        levels: int = 256,
        validate_args: bool | None = None,
    ) -> None:
        if levels < 2 or not low < high:
            raise InvalidValueError(
                f"DiscretizedLogistic: expected low < high and levels >= 2, got {low}, {high}, {levels}"
            )
        self.low, self.high, self.levels = low, high, levels
        self.step = (high - low) / (levels - 1)
        shape, (self.loc, self.scale) = broadcast_parameters(loc, scale)
        super().__init__(shape, validate_args=validate_args)

    @property
    def support(self) -> constraints.Constraint:
        return constraints.interval(self.low - self.step / 2, self.high + self.step / 2)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """A continuous draw at its nearest level."""
        with no_grad():
            drawn = Logistic(self.loc, self.scale, validate_args=False).sample(sample_shape)
            level = ((drawn - self.low) / self.step).round().clamp(min=0, max=self.levels - 1)
            return self.low + level * self.step

    def log_prob(self, value: Tensor) -> Tensor:
        upper = (value + self.step / 2 - self.loc) / self.scale
        lower = (value - self.step / 2 - self.loc) / self.scale
        width = (-(-self.step / self.scale).expm1()).log()
        below, above = F.logsigmoid(upper), F.logsigmoid(-lower)
        inside = below + above + width
        first, last = value < self.low + self.step / 2, value > self.high - self.step / 2
        return weft.where(first, below, weft.where(last, above, inside))

    def cdf(self, value: Tensor) -> Tensor:
        """σ((x + δ/2 − μ)/s) at a level, 1 at the last."""
        return self._cumulative(value)

    def _cumulative(self, value: Tensor) -> Tensor:
        found = ((value + self.step / 2 - self.loc) / self.scale).sigmoid()
        return weft.where(value > self.high - self.step / 2, 1.0, found)

    @property
    def _lattice(self) -> tuple[float, float]:
        return self.low, self.step

    def icdf(self, value: Tensor) -> Tensor:
        """The first level with F(x) ≥ value."""
        p, _ = weft.broadcast_tensors(value, self.loc)
        level = least_count(lambda k: self._cumulative(self.low + k * self.step), p, self.levels - 1.0, self.loc)
        return self.low + level * self.step

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = self.low + self.step * weft.arange(self.levels, dtype=self.loc.dtype)
        values = values.reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((self.levels, *tuple(self._batch_shape))) if expand else values

    @property
    def mode(self) -> Tensor:
        values = self.enumerate_support()
        best = self.log_prob(values).argmax(0, keepdim=True)
        return values.gather(0, best).squeeze(0)

    @property
    def mean(self) -> Tensor:
        values = self.enumerate_support(False)
        return (self.log_prob(values).exp() * values).sum(0)

    @property
    def variance(self) -> Tensor:
        values = self.enumerate_support(False)
        return (self.log_prob(values).exp() * (values - self.mean).square()).sum(0)

    def entropy(self) -> Tensor:
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)


def LogisticMixture(logits: Tensor, loc: Tensor, scale: Tensor) -> MixtureSameFamily:
    """Σ_k softmax(logits)_k Logistic(loc_k, scale_k): parameters (*, K)."""
    return MixtureSameFamily(Categorical(logits=logits), Logistic(loc, scale))


def DiscretizedLogisticMixture(
    logits: Tensor, loc: Tensor, scale: Tensor, low: float = -1.0, high: float = 1.0, levels: int = 256
) -> MixtureSameFamily:
    """Σ_k softmax(logits)_k DiscretizedLogistic(loc_k, scale_k): parameters (*, K); the pixels of PixelCNN++."""
    return MixtureSameFamily(Categorical(logits=logits), DiscretizedLogistic(loc, scale, low, high, levels))
