"""What a conditional model is told: classes as one-hot rows, or rows of numbers as they are."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import weft

from ... import nn
from ...errors import ArgumentError, IndexRangeError, OptionError, ShapeError
from ...tape.modes import mode
from ...tensor import Tensor

__all__ = ["ClassCondition", "Conditions", "Joined", "VectorCondition"]

F = nn.functional


class Conditions(nn.Module):
    """Makes of a condition the features that networks are given: (condition, n) → (n, C). size: C"""

    size: int

    @abstractmethod
    def forward(self, condition: Any, n: int) -> Tensor:
        """What n examples are told."""


class ClassCondition(Conditions):
    """A whole number 0 … classes − 1 for each example, or one for all, as a one-hot row."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        if classes < 2:
            raise OptionError(f"ClassCondition: expected at least 2 classes, got {classes}")
        self.size = classes

    def forward(self, condition: Any, n: int) -> Tensor:
        if condition is None:
            raise ArgumentError(f"this model needs a condition, classes 0 … {self.size - 1}")
        given = weft.as_tensor(condition, dtype=weft.int64)
        given = given.expand(n) if given.ndim == 0 else given
        if tuple(given.shape) != (n,):
            raise ShapeError(f"condition: expected {n} classes, got shape {tuple(given.shape)}")
        if mode.interpreter is None and n and not ((given >= 0) & (given < self.size)).all().item():
            raise IndexRangeError(f"condition: expected classes 0 … {self.size - 1}, got {given.min()} … {given.max()}")
        return (given.unsqueeze(1) == weft.arange(self.size)).to(weft.get_default_dtype())


class VectorCondition(Conditions):
    """A row of `size` numbers for each example, or one for all."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, condition: Any, n: int) -> Tensor:
        if condition is None:
            raise ArgumentError(f"this model needs a condition, rows of {self.size} numbers")
        given = condition.expand(n, -1) if condition.ndim == 1 else condition
        if tuple(given.shape) != (n, self.size):
            raise ShapeError(f"condition: expected shape ({n}, {self.size}), got {tuple(condition.shape)}")
        return given


class Joined(nn.Module):
    """A network of rows that is given x and the condition side by side: (N, D), (N, C) → network((N, D + C))"""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        return self.network(weft.cat([x, condition], -1))
