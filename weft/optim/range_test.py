"""The learning-rate range test: one short run with a growing rate shows which rates train and which diverge."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidValueError
from ..nn.module import Module
from ..tape.modes import no_grad
from ..tensor import Tensor
from .lr_scheduler.schedule import copied_rate, set_rate
from .optimizer import Optimizer

__all__ = ["RangeTest", "lr_range_test"]


@dataclass(frozen=True)
class RangeTest:
    """What the test found.

    lrs: the rates that were tried, rising
    losses: losses[i] was measured before the step with rate lrs[i]
    suggestion: the rate where the loss falls most steeply in log ε, None where it nowhere falls by more than its noise
    """

    lrs: list[float]
    losses: list[float]
    suggestion: float | None


def lr_range_test(
    model: Module,
    optimizer: Optimizer,
    loss: Callable[[Any], Tensor],
    batches: Iterable[Any],
    *,
    start_lr: float = 1e-6,
    end_lr: float = 10.0,
    steps: int = 100,
    smoothing: float = 0.05,
    diverged_at: float = 4.0,
) -> RangeTest:
    """Train for up to `steps` batches while the rate grows from start_lr to end_lr in equal ratios (Smith, 2017).

    ε_i = start_lr · (end_lr / start_lr)^(i / (steps − 1))

    `loss(batch)` computes the loss of `model`; `batches` are gone through again and again. The run ends when the loss
    is not finite or exceeds `diverged_at` times the smallest (smoothed) loss. Model and optimiser are afterwards as
    they were before. `smoothing` is the weight of a new loss in the moving average. N2 §3.4.3 on the choice of ε.

    Losses of small batches differ by chance more than by the rate. So the means of two neighbouring windows are compared,
    each of whole passes through the batches where there are few, up to the lowest such mean; the fall must be four times
    what the scatter of one batch's losses explains.
    """
    if not 0 < start_lr < end_lr or steps < 2:
        raise InvalidValueError(
            f"lr_range_test: expected 0 < start_lr < end_lr and steps >= 2, got {start_lr}, {end_lr}, {steps}"
        )
    lrs: list[float] = []
    losses: list[float] = []
    average, source = _MovingAverage(smoothing), _Cycle(batches)
    with _restored(model, optimizer):
        for i, batch in enumerate(itertools.islice(source, steps)):
            lrs.append(start_lr * (end_lr / start_lr) ** (i / (steps - 1)))
            losses.append(_train_once(optimizer, loss, batch, lrs[-1]))
            average.add(losses[-1])
            if not math.isfinite(losses[-1]) or average.value > diverged_at * abs(average.smallest):
                break
    return RangeTest(lrs, losses, _steepest(lrs, losses, source.length))


def _train_once(optimizer: Optimizer, loss: Callable[[Any], Tensor], batch: Any, lr: float) -> float:
    for group in optimizer.param_groups:
        set_rate(group, lr)
    optimizer.zero_grad()
    value = loss(batch)
    value.backward()
    optimizer.step()
    return float(value)


class _MovingAverage:
    """An exponential moving average, corrected for its start at zero."""

    def __init__(self, weight: float) -> None:
        self.keep, self.total, self.values = 1 - weight, 0.0, []

    def add(self, value: float) -> None:
        self.total = self.keep * self.total + (1 - self.keep) * value
        self.values.append(self.total / (1 - self.keep ** (len(self.values) + 1)))

    @property
    def value(self) -> float:
        return self.values[-1]

    @property
    def smallest(self) -> float:
        return min(self.values)


def _steepest(lrs: list[float], losses: list[float], cycle: int | None) -> float | None:
    """The rate between the two windows with the steepest fall (log ε has equal steps, so differences will do).

    cycle: after how many steps the batches come again, None if they did not.
    """
    values = np.array(list(itertools.takewhile(math.isfinite, losses)))
    window = max(len(values) // 10, 1)
    if cycle is not None and cycle <= len(values) // 4:
        window = -(-window // cycle) * cycle  # whole passes: every batch is in both windows as often
    if len(values) < 2 * window + 1:
        return None
    means = np.convolve(values, np.full(window, 1 / window), "valid")  # means[j] of the values from j on
    falls = means[:-window] - means[window:]
    falls = falls[: max(int(means.argmin()) - window + 1, 0)]  # none beyond the lowest mean: there it diverges
    if not len(falls) or falls.max() <= max(4 * _noise(values, cycle) * math.sqrt(2 / window), 0):
        return None
    return lrs[int(falls.argmax()) + window]


def _noise(values: np.ndarray, cycle: int | None) -> float:
    """The scatter of the losses of one batch (or of all, if none came twice) from step to step, trends left out."""
    lag = cycle if cycle is not None and cycle < len(values) else 1
    return 1.4826 * float(np.median(np.abs(values[lag:] - values[:-lag]))) / math.sqrt(2)


class _Cycle:
    """The batches again and again; length: how many there are, known after the first pass."""

    def __init__(self, batches: Iterable[Any]) -> None:
        self.batches, self.length = batches, None

    def __iter__(self) -> Iterator[Any]:
        while True:
            count = 0
            for batch in self.batches:
                count += 1
                yield batch
            if not count:
                raise InvalidValueError(
                    "lr_range_test: `batches` is empty, or an iterator that ended; give a list or a loader"
                )
            self.length = count


@contextmanager
def _restored(model: Module, optimizer: Optimizer) -> Iterator[None]:
    """Whatever happens inside, model and optimiser are as before afterwards."""
    tensors = [*model.parameters(), *model.buffers()]
    values, gradients = [t.detach().clone() for t in tensors], [t.grad for t in tensors]
    saved, rates = deepcopy(optimizer.state_dict()), [copied_rate(group["lr"]) for group in optimizer.param_groups]
    try:
        yield
    finally:
        with no_grad():
            for tensor, value, gradient in zip(tensors, values, gradients, strict=True):
                tensor.copy_(value)
                tensor.grad = gradient
        optimizer.load_state_dict(saved)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            set_rate(group, rate)
