"""What every game of a generator and a discriminator is, so that one training task serves them all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..generative.protocol import GenerativeModel

__all__ = ["AdversarialModel"]


class AdversarialModel(GenerativeModel):
    """Two players with a loss each; `AdversarialTraining` lets them take turns.

    A batch is what the losses take: x of shape (B, *event), or (x, condition).
    A generator may have no likelihood: of the protocol there is `sample`, and what a subclass adds.
    """

    @abstractmethod
    def discriminator_loss(self, batch: Any, generator: Any = None) -> Tensor:
        """What the discriminator minimises; draws come without slopes in the generator."""

    @abstractmethod
    def generator_loss(self, batch: Any, generator: Any = None) -> Tensor:
        """What the generator minimises, for as many draws as the batch has examples."""

    @abstractmethod
    def players(self) -> tuple[list[nn.Module], list[nn.Module]]:
        """The networks of the generator's side and of the discriminator's."""

    def generator_parameters(self) -> Iterator[nn.Parameter]:
        """Those that `generator_loss` is for."""
        for part in self.players()[0]:
            yield from part.parameters()

    def discriminator_parameters(self) -> Iterator[nn.Parameter]:
        """Those that `discriminator_loss` is for."""
        for part in self.players()[1]:
            yield from part.parameters()

    def clip_weights(self, limit: float) -> None:
        """Each weight of the discriminator into [−limit, limit]: the first way to a Lipschitz critic."""
        if not limit > 0:
            raise OptionError(f"clip_weights: expected a limit above 0, got {limit}")
        with weft.no_grad():
            for weight in self.discriminator_parameters():
                weight.clamp_(-limit, limit)


def parted(batch: Any) -> tuple[Tensor, Any]:
    """x and the condition (None without one) of a batch."""
    if isinstance(batch, Tensor):
        x, condition = batch, None
    elif isinstance(batch, (tuple, list)) and len(batch) in (1, 2):
        x, condition = batch[0], batch[1] if len(batch) == 2 else None
    else:
        raise OptionError(f"batch: expected x or (x, condition), got {type(batch).__name__}")
    if x.dim() < 2 or not len(x):
        raise ShapeError(f"batch: expected examples (B, *event) with B ≥ 1, got shape {tuple(x.shape)}")
    if not x.is_floating_point():
        raise OptionError(f"batch: expected real numbers, got {x.dtype}; x.float() makes them")
    return x, condition


def counted(n: int) -> int:
    """A number of draws."""
    if n < 0:
        raise OptionError(f"sample: expected a number of draws, 0 or more, got {n}")
    return n
