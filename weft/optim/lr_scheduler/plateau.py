"""A schedule that looks at a measured quantity."""

from __future__ import annotations

import math
import operator
from typing import Any

from ...errors import InvalidValueError
from ..optimizer import Optimizer
from .schedule import LRScheduler, check_optimizer, rates_of, set_rate

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """ε ← factor · ε when a metric has not become better for more than `patience` epochs.

    `step(metric)` is called after each validation.

    mode: 'min' or 'max': whether lower or higher is better
    factor: by which rates fall
    patience: how many epochs without anything better are borne
    threshold: how much better counts
    threshold_mode: 'rel': below best · (1 − threshold); 'abs': below best − threshold; the mirror image for 'max'
    cooldown: how many epochs after a reduction do not count
    min_lr: where rates stop, a number or one for each group
    eps: changes up to this are not made

    >>> optimizer = optim.SGD([weft.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     schedule.step(loss)
    >>> schedule.get_last_lr()
    [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise InvalidValueError("Factor should be < 1.0.")
        check_optimizer(optimizer)
        if mode not in ("min", "max"):
            raise InvalidValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise InvalidValueError(f"threshold mode {threshold_mode} is unknown!")
        self.optimizer, self.factor = optimizer, factor
        self.default_min_lr, self.min_lrs = _lowest_rates(min_lr, len(optimizer.param_groups))
        self.patience, self.cooldown, self.eps, self.last_epoch = patience, cooldown, eps, 0
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self._last_lr = rates_of(optimizer)
        self._reset()

    def _reset(self) -> None:
        """Forget the best value and all counts."""
        self.best, self.cooldown_counter, self.num_bad_epochs = self.mode_worse, 0, 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:
        """Take the metric of an epoch into account."""
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = rates_of(self.optimizer)

    @property
    def in_cooldown(self) -> bool:
        return self.cooldown_counter > 0

    def is_better(self, value: float, best: float) -> bool:
        """Whether a value is better than the best so far by more than the threshold."""
        better, sign = (operator.lt, -1) if self.mode == "min" else (operator.gt, 1)
        if self.threshold_mode == "rel":
            return better(value, best * (1.0 + sign * self.threshold))
        return better(value, best + sign * self.threshold)

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        self.min_lrs += [self.default_min_lr] * (len(groups) - len(self.min_lrs))  # groups that came later
        for group, lowest in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, lowest)
            if old - new > self.eps:
                set_rate(group, new)


def _lowest_rates(min_lr: list[float] | float, count: int) -> tuple[float | None, list[float]]:
    """The lowest rate for groups to come, and those of the groups that are there."""
    if not isinstance(min_lr, (list, tuple)):
        return min_lr, [min_lr] * count
    if len(min_lr) != count:
        raise InvalidValueError(f"expected {count} min_lrs, got {len(min_lr)}")
    return 0, list(min_lr)
