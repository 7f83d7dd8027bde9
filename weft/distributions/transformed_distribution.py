"""The distribution of f(X) for a random X and invertible maps f."""

from __future__ import annotations

from typing import Any, ClassVar

from ..autograd import no_grad
from ..errors import InvalidValueError
from ..sizes import Size
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """Y = f_n(… f₁(X)): log p(y) = log p(x) − Σ log|det ∂fᵢ|.

    base_distribution: that of X
    transforms: one of `weft.distributions.transforms`, or a list f₁ … f_n

    >>> base, map = weft.distributions.Normal(0.0, 1.0), weft.distributions.AffineTransform(2.0, 3.0)
    >>> weft.distributions.TransformedDistribution(base, map).icdf(weft.tensor(0.5))
    tensor(2.)
    """

    arg_constraints: ClassVar = {}

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = _as_list(transforms)
        whole = ComposeTransform(self.transforms)
        base = _fitting(base_distribution, whole)
        self.base_dist = base
        shape = whole.forward_shape(base.batch_shape + base.event_shape)
        event_dim = whole.codomain.event_dim + max(len(base.event_shape) - whole.domain.event_dim, 0)
        cut = len(shape) - event_dim
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> TransformedDistribution:
        new = super().expand(batch_shape, _instance)
        shape = ComposeTransform(self.transforms).inverse_shape(Size(batch_shape) + self._event_shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        return new

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> constraints.Constraint:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self._event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        event_dim, total, y = len(self._event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            slope = transform.log_abs_det_jacobian(x, y)
            total = total - sum_rightmost(slope, event_dim - transform.domain.event_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def _turned(self, probability: Tensor) -> Tensor:
        """F or 1 − F, as the maps rise or fall."""
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return probability if isinstance(sign, int) and sign == 1 else sign * (probability - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._turned(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._turned(value)))


def _as_list(transforms: Any) -> list[Transform]:
    if isinstance(transforms, Transform):
        return [transforms]
    if not isinstance(transforms, list):
        raise InvalidValueError(f"transforms must be a Transform or list, but was {transforms}")
    if not all(isinstance(t, Transform) for t in transforms):
        raise InvalidValueError("transforms must be a Transform or a list of Transforms")
    return transforms


def _fitting(base: Distribution, transform: Transform) -> Distribution:
    """The base distribution with batch and event shapes as the maps need them."""
    shape, needed = base.batch_shape + base.event_shape, transform.domain.event_dim
    if len(shape) < needed:
        raise InvalidValueError(f"base_distribution needs to have shape with size at least {needed}, but got {shape}.")
    expanded = transform.inverse_shape(transform.forward_shape(shape))
    if tuple(expanded) != tuple(shape):
        base = base.expand(expanded[: len(expanded) - len(base.event_shape)])
    more = needed - len(base.event_shape)
    return Independent(base, more) if more > 0 else base
