"""p(x | z): what the decoder says, read as the parameters of every element of x.

The heads are those of autoregressive models (bits, levels of grey, real numbers …): given z, the elements are independent.
"""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import DtypeError, InvalidValueError, ShapeError
from ...tape.modes import mode
from ...tensor import Tensor
from ..autoregressive.heads import GaussianHead, Head, head_named

__all__ = ["Likelihood", "SharedVariance", "likelihood_named"]


class Likelihood(nn.Module):
    """log p(x | z) = Σᵢ log p(xᵢ | parameters that the decoder says for element i).

    head: "bernoulli", "gaussian" (mean and log σ of each element), "logistic", "categorical", "continuous_bernoulli" … or
        a `Head`; P = head.parameters numbers an element
    Shape: what the decoder says (N, P · e₁, e₂, …) for x of (N, e₁, e₂, …): P whole copies of the event after each other,
        channels of pictures or numbers of a row
    """

    def __init__(self, head: str | Head) -> None:
        super().__init__()
        self.head = head_named(head)

    @property
    def numbers(self) -> int:
        """P: how many numbers the decoder says for each element of x."""
        return self.head.parameters

    def spread(self, said: Tensor) -> Tensor:
        """The parameters of each element: (N, P · e₁, e₂, …) → (N, e₁, e₂, …, P)"""
        if self.numbers == 1:
            return said.unsqueeze(-1)
        return said.unflatten(1, (self.numbers, said.shape[1] // self.numbers)).movedim(1, -1)

    def log_prob(self, said: Tensor, x: Tensor) -> Tensor:
        """log p(x | z) for K draws of z: (K · B, P · e₁, …), (B, *event) → (K, B)"""
        spread = self.spread(said)
        if spread.shape[1:-1] != x.shape[1:]:
            raise ShapeError(
                f"likelihood: the decoder speaks of events {tuple(spread.shape[1:-1])} ({self.numbers} numbers for each "
                f"element), x has {tuple(x.shape[1:])}"
            )
        draws = len(spread) // max(len(x), 1)
        each = spread.reshape(draws, *x.shape, spread.shape[-1])  # (K, B, *event, P)
        found = self.head.log_prob(each, x.expand(each.shape[:-1])).flatten(2).sum(2)
        return weft.where(self.head.supports(x).flatten(1).all(1), found, weft.nan)

    def mean(self, said: Tensor) -> Tensor:
        """E[x | z]: (N, P · e₁, …) → (N, *event)"""
        return self.head.mean(self.spread(said))

    def draw(self, said: Tensor, generator: Any = None) -> Tensor:
        """x ~ p(x | z): (N, P · e₁, …) → (N, *event)"""
        spread = self.spread(said)
        return self.head.draw(spread, self.head.noise(tuple(spread.shape[:-1]), spread.dtype, generator))

    def check(self, x: Tensor) -> None:
        """Refuse what has no probability, such as grey values for bits; compiled code reads no values, there it is NaN."""
        if not x.dtype.is_floating_point:
            raise DtypeError(f"{self}: expected x of a floating type, got {x.dtype}; write x.float()")
        if mode.interpreter is None and not self.head.supports(x).all().item():
            raise InvalidValueError(
                f"{self}: expected x of {self.head.domain}; other values have no probability under it, and the cross "
                "entropy of grey values is no likelihood. Binarise them, weft.bernoulli(x), or take "
                "likelihood='continuous_bernoulli', 'logistic' or 'gaussian'"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.head})"


class SharedVariance(Likelihood):
    """x ~ N(μ(z), σ²) with one σ for all elements and all z, which is learned: the decoder says μ alone.

    Parameters: log_scale (), starts at log σ = 0
    """

    def __init__(self, dtype: Any = None) -> None:
        super().__init__(GaussianHead())
        self.log_scale = nn.Parameter(weft.zeros((), dtype=dtype))

    @property
    def numbers(self) -> int:
        """One, the mean."""
        return 1

    def spread(self, said: Tensor) -> Tensor:
        """μ and log σ of each element: (N, *event) → (N, *event, 2)"""
        return weft.stack([said, self.log_scale.expand(said.shape)], -1)


def likelihood_named(likelihood: str | Head | Likelihood) -> Likelihood:
    """A likelihood itself, "shared_variance", or that of a head."""
    if isinstance(likelihood, Likelihood):
        return likelihood
    return SharedVariance() if likelihood == "shared_variance" else Likelihood(likelihood)
