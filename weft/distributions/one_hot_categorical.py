"""Categories as one-hot vectors, also with straight-through gradients."""

from __future__ import annotations

from typing import Any, ClassVar

import weft

from ..autograd import no_grad
from ..nn import functional as F
from ..tensor import Tensor
from . import constraints
from .categorical import Categorical
from .distribution import Distribution

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(Distribution):
    """P(e_k) = p_k for the unit vectors e_k. Events have shape (K,).

    probs: p, (*, K), divided here by their sum; or
    logits: log p up to a constant, (*, K)

    >>> weft.distributions.OneHotCategorical(weft.tensor([0.0, 1.0])).sample()
    tensor([0., 1.])
    """

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> OneHotCategorical:
        new = super().expand(batch_shape, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        return new

    @property
    def probs(self) -> Tensor:
        """Probabilities of the classes."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def param_shape(self) -> weft.Size:
        """The shape of the parameter that was given."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return F.one_hot(self.probs.argmax(-1), self._event_shape[0]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        index = self._categorical.sample(sample_shape)
        return F.one_hot(index, self._event_shape[0]).to(self._categorical._param.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        size = self._event_shape[0]
        values = weft.eye(size, dtype=self._categorical._param.dtype)
        values = values.reshape((size,) + (1,) * len(self._batch_shape) + (size,))
        return values.expand((size, *tuple(self._batch_shape), size)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """Draws are one-hot, gradients pass to the probabilities as if the draw were they (Bengio et al. 2013).

    >>> p = weft.tensor([0.5, 0.5], requires_grad=True)
    >>> (weft.distributions.OneHotCategoricalStraightThrough(p).rsample() * weft.tensor([1.0, 3.0])).sum().backward()
    >>> p.grad
    tensor([-1.,  1.])
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            drawn = self.sample(sample_shape)
        return drawn + (self.probs - self.probs.detach())
