"""Maps of single numbers: affine, exponential, powers, squashing functions, distribution functions."""

from __future__ import annotations

import math
from typing import Any

import weft

from ...dtypes import finfo
from ...nn import functional as F
from ...tensor import Tensor
from .. import constraints
from ..utils import sum_rightmost
from .base import PlainTransform, Transform

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "PowerTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
]


class ExpTransform(PlainTransform):
    """y = eˣ.

    >>> weft.distributions.ExpTransform()(weft.tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """

    domain, codomain = constraints.real, constraints.positive
    bijective, sign = True, 1

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x^exponent on the positive numbers.

    exponent: a number or a tensor that broadcasts

    >>> weft.distributions.PowerTransform(weft.tensor(2.0))(weft.tensor([1.0, 3.0]))
    tensor([1., 9.])
    """

    domain, codomain = constraints.positive, constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else weft.tensor(exponent)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)

    @property
    def sign(self) -> Tensor:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return weft.broadcast_shapes(shape, self.exponent.shape)

    def inverse_shape(self, shape: Any) -> Any:
        return weft.broadcast_shapes(shape, self.exponent.shape)


class SigmoidTransform(PlainTransform):
    """y = 1 / (1 + e⁻ˣ), kept off 0 and 1.

    >>> weft.distributions.SigmoidTransform()(weft.tensor(0.0))
    tensor(0.5000)
    """

    domain, codomain = constraints.real, constraints.unit_interval
    bijective, sign = True, 1

    def _call(self, x: Tensor) -> Tensor:
        return _inside(x.sigmoid())

    def _inverse(self, y: Tensor) -> Tensor:
        y = _inside(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x) - F.softplus(x)


def _inside(y: Tensor) -> Tensor:
    """Numbers of [0, 1] moved to where the logarithms of y and 1 − y are finite."""
    limits = finfo(y.dtype)
    return y.clamp(min=limits.tiny, max=1 - limits.eps)


class SoftplusTransform(PlainTransform):
    """y = log(1 + eˣ).

    >>> weft.distributions.SoftplusTransform()(weft.tensor(0.0))
    tensor(0.6931)
    """

    domain, codomain = constraints.real, constraints.positive
    bijective, sign = True, 1

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x)


class TanhTransform(PlainTransform):
    """y = tanh x.

    >>> weft.distributions.TanhTransform()(weft.tensor(1.0))
    tensor(0.7616)
    """

    domain, codomain = constraints.real, constraints.interval(-1.0, 1.0)
    bijective, sign = True, 1

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2 * (math.log(2) - x - F.softplus(-2 * x))  # log(1 − tanh² x), exact for large |x|


class AbsTransform(PlainTransform):
    """y = |x|; the inverse picks the positive x.

    >>> weft.distributions.AbsTransform()(weft.tensor([-1.0, 2.0]))
    tensor([1., 2.])
    """

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """y = loc + scale · x.

    loc, scale: numbers or tensors that broadcast
    event_dim: how many of the last dimensions are one event

    >>> weft.distributions.AffineTransform(1.0, 2.0)(weft.tensor([0.0, 3.0]))
    tensor([1., 7.])
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def domain(self) -> constraints.Constraint:
        return constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real

    @property
    def codomain(self) -> constraints.Constraint:
        return self.domain

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self._event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _same(self.loc, other.loc) and _same(self.scale, other.scale)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            slope = self.scale.abs().log().expand(weft.broadcast_shapes(x.shape, self.scale.shape))
        else:
            slope = weft.full_like(x, math.log(abs(self.scale)))
        return sum_rightmost(slope, self._event_dim)

    def forward_shape(self, shape: Any) -> Any:
        return weft.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    def inverse_shape(self, shape: Any) -> Any:
        return self.forward_shape(shape)


def _same(a: Any, b: Any) -> bool:
    """Whether two numbers or tensors are equal everywhere."""
    equal = a == b
    return bool(equal.all()) if isinstance(equal, Tensor) else equal


class CumulativeDistributionTransform(Transform):
    """y = F(x), the distribution function of a continuous distribution: maps its draws to uniform ones.

    distribution: the distribution, which must have `cdf` and `icdf`

    >>> weft.distributions.CumulativeDistributionTransform(weft.distributions.Normal(0.0, 1.0))(weft.tensor(0.0))
    tensor(0.5000)
    """

    bijective, sign = True, 1
    codomain = constraints.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> constraints.Constraint:
        return self.distribution.support

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
