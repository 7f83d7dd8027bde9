"""Schedules made of schedules: one after the other, or all at once."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ...errors import ArgumentError, InvalidValueError
from ..optimizer import Optimizer
from .plateau import ReduceLROnPlateau
from .schedule import LRScheduler, rates_of, set_rate

__all__ = ["ChainedScheduler", "SequentialLR"]


def _check_parts(name: str, schedulers: Sequence[LRScheduler], optimizer: Optimizer) -> None:
    for index, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise ArgumentError(f"{name} at index {index} should have `optimizer` as its attribute.")
        if isinstance(scheduler, ReduceLROnPlateau):
            raise InvalidValueError(
                f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                f"specified when calling `step`, but got one at index {index} in the given schedulers sequence."
            )
        if scheduler.optimizer is not optimizer:
            raise InvalidValueError(
                f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                f"{type(scheduler).__name__} at index {index} has {scheduler.optimizer}, which is different from "
                f"{type(optimizer).__name__}."
            )


class _Compound(LRScheduler):
    """A schedule whose state contains the states of its parts."""

    _schedulers: list[LRScheduler]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser; the parts as their own state dicts."""
        return super().state_dict() | {"_schedulers": [part.state_dict() for part in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""
        for part, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            part.load_state_dict(state)
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})


class SequentialLR(_Compound):
    """One schedule after the other: from milestone i on, schedule i + 1 acts, beginning with its epoch 0.

    schedulers: the schedules, all of the same optimiser
    milestones: the epochs at which the next one takes over, one fewer than there are schedules

    >>> optimizer = optim.SGD([weft.zeros(1, requires_grad=True)], lr=1.0)
    >>> warm_up = lr_scheduler.LinearLR(optimizer, 0.25, total_iters=3)
    >>> decay = lr_scheduler.ExponentialLR(optimizer, 0.5)
    >>> schedule = lr_scheduler.SequentialLR(optimizer, [warm_up, decay], milestones=[3])
    >>> rates = []
    >>> for _ in range(6):
    ...     rates.append(optimizer.param_groups[0]["lr"])
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.25, 0.5, 0.75, 1.0, 0.5, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise InvalidValueError("SequentialLR expects at least one scheduler, but got no scheduler.")
        _check_parts("SequentialLR", schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise InvalidValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self.optimizer, self._schedulers, self._milestones = optimizer, schedulers, milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        _undo_first_step(self)
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def _initial_step(self) -> None:
        self.step()

    def step(self) -> None:
        """Go one epoch on."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        part = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                part.step(0)
        else:
            part.step()
        self._last_lr = part.get_last_lr()


def _undo_first_step(scheduler: LRScheduler) -> None:
    """Take back the step that schedules make when they are made."""
    if isinstance(scheduler, _Compound):
        for part in scheduler._schedulers:
            _undo_first_step(part)
    else:
        scheduler.last_epoch -= 1


class ChainedScheduler(_Compound):
    """Several schedules that act at the same time, each on what the others made of the rate.

    schedulers: the schedules, all of the same optimiser
    optimizer: that optimiser; None: that of the first schedule

    >>> optimizer = optim.SGD([weft.zeros(1, requires_grad=True)], lr=1.0)
    >>> parts = [lr_scheduler.ConstantLR(optimizer, 0.5, total_iters=2), lr_scheduler.ExponentialLR(optimizer, 0.5)]
    >>> schedule = lr_scheduler.ChainedScheduler(parts)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(optimizer.param_groups[0]["lr"])
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.5, 0.25, 0.25, 0.125]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise InvalidValueError(
                "ChainedScheduler expects at least one scheduler to be chained, but got no scheduler."
            )
        self.optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        _check_parts("ChainedScheduler", schedulers, self.optimizer)
        self._schedulers = list(schedulers)
        self._last_lr = rates_of(self.optimizer)

    def _initial_step(self) -> None:
        for part in self._schedulers:
            part._initial_step()

    def step(self) -> None:
        """Let every schedule go one epoch on."""
        for part in self._schedulers:
            part.step()
        self._last_lr = rates_of(self.optimizer)
