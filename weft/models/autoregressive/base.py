"""What autoregressive models share: p(x) = Πᵢ p(xᵢ | x_<i), computed in one pass, drawn one element after the other.

A model states `conditionals`, the parameters of every factor, and a head (`heads.py`) that says what one element is given
them. Sampling takes its random numbers beforehand, some for each element, so that every way to sample, eager or compiled,
whole passes or kept activations, draws the same x.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import weft

from ... import nn
from ...errors import ArgumentError, ShapeError
from ...tensor import Tensor
from ..generative.plans import in_one_plan
from ..generative.protocol import GenerativeModel, exact
from .heads import Head, head_named

__all__ = ["Autoregressive"]


class Autoregressive(GenerativeModel):
    """p(x) = Πᵢ p(xᵢ | x_<i, condition), i along `order`.

    head: what an element is: "bernoulli", "gaussian", "mixture" (of Gaussians), … or a `Head`
    classes: number of classes for models of p(x | class); log_prob and sample then take `condition`, (B,) of whole numbers
    """

    def __init__(self, event_shape: tuple[int, ...], head: str | Head, classes: int = 0) -> None:
        super().__init__()
        self.event_shape, self.head, self.classes = event_shape, head_named(head), classes
        self.continuous = self.head.continuous

    @abstractmethod
    def conditionals(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """Parameters of p(xᵢ | x_<i) for every i: (B, *event) → (B, *event, K)"""

    @property
    def order(self) -> list[int]:
        """Places of the flattened event in the order in which they are generated."""
        return list(range(self.elements))

    @property
    def elements(self) -> int:
        """How many numbers an x has."""
        return weft.Size(self.event_shape).numel()

    @exact
    def log_prob(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """Σᵢ log p(xᵢ | x_<i): (B, *event) → (B,)"""
        self._check(x, condition)
        return self.head.log_prob(self.conditionals(x, condition), x).flatten(1).sum(1)

    @exact(where=lambda model: not model.classes)
    def energy(self, x: Tensor) -> Tensor:
        """−log p(x), with Z = 1; its slope is the score of models of real numbers: (B, *event) → (B,)"""
        return -self.log_prob(x)

    @exact
    @in_one_plan
    @weft.no_grad()
    def sample(self, n: int, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        """n draws, by the quickest way this model has, as one native plan: (n, *event)"""
        return self.drawn(self.noise(n, generator), self._given(n, condition))

    @weft.no_grad()
    def naive_sample(self, n: int, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        """The same n draws with a whole pass through the model for each element; what `sample` is checked against."""
        return self.naively_drawn(self.noise(n, generator), self._given(n, condition))

    def noise(self, n: int, generator: Any = None) -> Tensor:
        """All random numbers that n draws need: (n, *event, N)"""
        kind = next(self.parameters()).dtype
        return self.head.noise((n, *self.event_shape), kind, generator)

    def drawn(self, noise: Tensor, condition: Tensor | None = None) -> Tensor:
        """x from its random numbers: (n, *event, N) → (n, *event)"""
        return self.naively_drawn(noise, condition)

    def naively_drawn(self, noise: Tensor, condition: Tensor | None = None) -> Tensor:
        """The same with D whole passes."""
        return self._one_by_one(lambda x: self.conditionals(x, condition), noise, self.order)

    def _one_by_one(self, conditionals: Callable[[Tensor], Tensor], noise: Tensor, order: list[int]) -> Tensor:
        places = weft.arange(self.elements)

        def fill(x: Tensor, place: Tensor) -> tuple[Tensor, None]:
            drawn = self.head.draw(conditionals(x), noise)
            return weft.where((places == place).reshape(self.event_shape), drawn, x), None

        start = weft.zeros(noise.shape[:-1], dtype=noise.dtype)
        return weft.scan(fill, start, weft.tensor(order))[0]

    # ------------------------------------------------------------------------------------- checks
    def _check(self, x: Tensor, condition: Tensor | None) -> None:
        if tuple(x.shape[1:]) != self.event_shape:
            sizes = ", ".join(map(str, self.event_shape))
            raise ShapeError(f"{type(self).__name__}: expected x of shape (B, {sizes}), got {tuple(x.shape)}")
        self._given(len(x), condition)

    def _given(self, n: int, condition: Any) -> Tensor | None:
        """The condition as a tensor (n,); one number stands for all."""
        if not self.classes:
            self._unconditional(condition)
            return None
        if condition is None:
            raise ArgumentError(f"{type(self).__name__}: this model needs a condition, classes 0 … {self.classes - 1}")
        condition = weft.as_tensor(condition, dtype=weft.int64)
        condition = condition.expand(n) if condition.ndim == 0 else condition
        if tuple(condition.shape) != (n,):
            raise ShapeError(f"{type(self).__name__}: expected {n} classes, got shape {tuple(condition.shape)}")
        return condition

    def _class_bias(self, width: int) -> nn.Embedding | None:
        """What a class adds to `width` units; starts at 0. None for models without classes."""
        if not self.classes:
            return None
        table = nn.Embedding(self.classes, width)
        nn.init.zeros_(table.weight)
        return table

    def extra_repr(self) -> str:
        given = f", classes={self.classes}" if self.classes else ""
        return f"event_shape={self.event_shape}, head={self.head}{given}"
