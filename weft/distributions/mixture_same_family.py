"""Mixtures of distributions of one family."""

from __future__ import annotations

import copy
import math
from typing import Any, ClassVar

import weft

from ..autograd import no_grad
from ..errors import InvalidValueError, UnsupportedError
from ..sizes import Size
from ..tensor import Tensor
from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .quantiles import least_count, root_between

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """p(x) = Σ_k π_k p_k(x).

    mixture_distribution: a `Categorical` with the weights π
    component_distribution: the p_k, along its last batch dimension

    >>> weights = weft.distributions.Categorical(weft.ones(2))
    >>> mixture = weft.distributions.MixtureSameFamily(weights, weft.distributions.Normal(weft.tensor([-1.0, 3.0]), 1.0))
    >>> mixture.mean
    tensor(1.)
    """

    arg_constraints: ClassVar = {}
    has_rsample = False
    _look_first: ClassVar = ("log_prob",)  # cdf: the components do

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        _check_mixture(mixture_distribution, component_distribution)
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        self._num_component = component_distribution.batch_shape[-1]
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(component_distribution.batch_shape[:-1], event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> MixtureSameFamily:
        new = super().expand(batch_shape, _instance)
        new._component_distribution = self._component_distribution.expand((*Size(batch_shape), self._num_component))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        return new

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """Which component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components, along the last batch dimension."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        """π with dimensions of size 1 for the event: (*batch, K, 1, …)."""
        probs = self._mixture_distribution.probs
        return probs.reshape(probs.shape + (1,) * self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self._component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        """E[Var] + Var[E] over the components."""
        dim, components = -1 - self._event_ndims, self._component_distribution
        between = (components.mean - self.mean.unsqueeze(dim)).square()
        return (self._weights() * (components.variance + between)).sum(dim)

    def _padded(self, value: Tensor) -> Tensor:
        return value.unsqueeze(-1 - self._event_ndims)  # (*, event) → (*, 1, event)

    def cdf(self, value: Tensor) -> Tensor:
        return self._weighted(self._component_distribution.cdf(self._padded(value)))

    def _weighted(self, parts: Tensor) -> Tensor:
        """Σ_k π_k of what each component says: (*, K) → (*)."""
        return (parts * self._mixture_distribution.probs).sum(-1)

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile of a mixture of numbers, searched for between those of its components; with gradients."""
        if self._event_shape:
            raise UnsupportedError(f"MixtureSameFamily.icdf: events of shape {self._event_shape} have no quantiles")
        components = copy.copy(self._component_distribution)
        components._validate_args = False  # values of one component may lie outside the support of another
        p = value.expand(weft.broadcast_shapes(value.shape, self._batch_shape))
        bounds = lambda p: self._bounds(components.icdf(p.unsqueeze(-1)))
        if components._lattice is not None:
            first, step = components._lattice
            inside = lambda k: self._weighted(components._cumulative(self._padded(first + k * step)))
            last = bounds(weft.ones_like(p))[1]
            return first + step * least_count(inside, p, (last - first) / step, self._mixture_distribution.probs)
        cumulative = lambda x: self._weighted(components.cdf(self._padded(x)))
        density = lambda x: self._weighted(components.log_prob(self._padded(x)).exp())
        return root_between(cumulative, density, p, bounds)

    def _bounds(self, quantiles: Tensor) -> tuple[Tensor, Tensor]:
        """The least and the greatest quantile of the components that take part: (*, K) → (*), (*)."""
        present = self._mixture_distribution.probs > 0
        quantiles = quantiles.to(self._mixture_distribution.probs.dtype)  # those of categories are integers
        return quantiles.where(present, math.inf).amin(-1), quantiles.where(present, -math.inf).amax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        parts = self._component_distribution.log_prob(self._padded(value))
        return (parts + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            which = self._mixture_distribution.sample(sample_shape)  # (*sample, *batch)
            drawn = self._component_distribution.sample(sample_shape)  # (*sample, *batch, K, *event)
            dim, event = -1 - self._event_ndims, tuple(self._event_shape)
            index = which.reshape(tuple(which.shape) + (1,) * (1 + self._event_ndims))
            index = index.expand((*tuple(which.shape), 1, *event))
            return weft.gather(drawn, drawn.dim() + dim, index).squeeze(dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"


def _check_mixture(mixture: Any, components: Any) -> None:
    """A `Categorical` over the last batch dimension of the components."""
    if not isinstance(mixture, Categorical):
        raise InvalidValueError("The Mixture distribution needs to be an instance of weft.distributions.Categorical")
    if not isinstance(components, Distribution):
        raise InvalidValueError("The Component distribution needs to be an instance of weft.distributions.Distribution")
    wanted, found = mixture.batch_shape, components.batch_shape[:-1]
    for a, b in zip(reversed(wanted), reversed(found), strict=False):
        if a != 1 and b != 1 and a != b:
            raise InvalidValueError(
                f"`mixture_distribution.batch_shape` ({wanted}) is not compatible with "
                f"`component_distribution.batch_shape`({found})"
            )
    count, size = mixture.param_shape[-1], components.batch_shape[-1]
    if count != size:
        raise InvalidValueError(
            f"`mixture_distribution component` ({count}) does not equal `component_distribution.batch_shape[-1]` ({size})"
        )
