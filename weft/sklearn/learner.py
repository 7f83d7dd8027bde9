"""Training on arrays in memory: weighted batches of one size, one compiled step, early stopping."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import weft

from .. import nn
from ..nn.module import Module
from ..tensor import Tensor
from .validation import Rows, take

__all__ = ["Learner", "Patience", "Sample", "cross_entropy", "squared_error"]

CHUNK = 4096  # rows of one forward pass when predicting


@dataclass
class Sample:
    """Rows with targets and weights > 0."""

    rows: Rows
    targets: NDArray
    weights: NDArray

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, index: Any) -> Sample:
        return Sample(self.rows[index], self.targets[index], self.weights[index])

    def batches(self, size: int, generator: weft.Generator) -> Iterator[tuple[NDArray, NDArray, NDArray]]:
        """Batches of one size in random order; the last is filled up with rows of weight 0.

        So one plan of the compiled step serves all. A batch of all rows keeps their order.
        """
        if size >= len(self):
            yield take(self.rows, slice(None)), self.targets, self.weights
            return
        order = generator.permutation(len(self))
        for start in range(0, len(order), size):
            index = order[start : start + size]
            filled = np.concatenate([index, order[: size - len(index)]])
            weights = self.weights[filled]
            weights[len(index) :] = 0
            yield take(self.rows, filled), self.targets[filled], weights


class Learner:
    """A module with its optimiser and its training step, Σ wᵢ lossᵢ / Σ wᵢ over a batch.

    loss(prediction, target) gives a loss for each row. Copies and pickles leave the compiled step behind.
    """

    def __init__(self, module: Module, optimizer: weft.optim.Optimizer, loss: Callable, compiled: bool) -> None:
        self.module, self.optimizer, self.loss, self.compiled = module, optimizer, loss, compiled
        self._step: Callable | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_step": None}

    def epoch(self, sample: Sample, size: int, generator: weft.Generator) -> float:
        """One pass over the sample: the weighted mean of its losses while training."""
        self.module.train()
        if self._step is None:
            self._step = weft.compile(self._train, fallback="eager") if self.compiled else self._train
        total = weight = 0.0
        for rows, targets, weights in sample.batches(size, generator):
            loss = self._step(weft.from_numpy(rows), weft.from_numpy(targets), weft.from_numpy(weights))
            total, weight = total + loss.item(), weight + float(weights.sum())
        self.module.eval()
        return total / weight

    def _train(self, rows: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        losses = self.loss(self.module(rows), targets)
        total = (losses.reshape(len(weights), -1).mean(1) * weights).sum()  # (N, *) → (N,) → ()
        self.optimizer.zero_grad()
        (total / weights.sum()).backward()
        self.optimizer.step()
        return total.detach()

    def predict(self, rows: Rows) -> NDArray:
        """Outputs of the module in evaluation mode."""
        self.module.eval()
        with weft.inference_mode():
            starts = range(0, rows.shape[0], CHUNK)
            parts = [self.module(weft.tensor(take(rows, slice(i, i + CHUNK)))).numpy() for i in starts]
        return np.concatenate(parts)


class Patience:
    """Tells when a figure (the larger the better) has not improved by `tol` for `limit` epochs, and keeps the best."""

    def __init__(self, tol: float, limit: int, module: Module | None = None) -> None:
        self.tol, self.limit, self.module = tol, limit, module
        self.best, self.waited, self.state = -np.inf, 0, None

    def exhausted(self, figure: float) -> bool:
        """Note the figure of an epoch; with a module, its state is kept whenever the figure is a record."""
        self.waited = 0 if figure > self.best + self.tol else self.waited + 1
        if figure > self.best:
            self.best = figure
            self.state = deepcopy(self.module.state_dict()) if self.module else None
        return self.waited >= self.limit

    def restore(self) -> None:
        """Bring the best state back."""
        if self.module is not None and self.state is not None:
            self.module.load_state_dict(self.state)


def cross_entropy(prediction: Tensor, target: Tensor) -> Tensor:
    """−log softmax(prediction)_target of each row: (N, C), (N,) → (N,)."""
    return nn.functional.cross_entropy(prediction, target, reduction="none")


def squared_error(prediction: Tensor, target: Tensor) -> Tensor:
    """(prediction − target)²: (N, M) or (N,), (N, M) → (N, M)."""
    return (prediction.reshape(target.shape) - target) ** 2
