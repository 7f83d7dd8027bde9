"""What learning-rate schedules share: counting epochs, setting the rates, saving their state."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from typing import Any

from ...errors import ArgumentError, EntryError, InvalidValueError, UnsupportedError
from ...refusal import guard_methods
from ...tensor import Tensor
from ..optimizer import Optimizer

__all__ = ["LRScheduler"]


class LRScheduler:
    """The base of all schedules: a subclass says in `get_lr` what the learning rates are at `last_epoch`.

    Making a schedule sets the rates of epoch 0; every `step()` goes one epoch on. `base_lrs` are the rates the optimiser
    was made with, kept as 'initial_lr' in its groups. In the formulas ε₀ is such a rate and t the epoch.

    optimizer: whose learning rates are set
    last_epoch: the epoch before the first: −1 to begin, or to resume the last one that was done

    >>> class Halved(lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [rate / 2**self.last_epoch for rate in self.base_lrs]
    >>> optimizer = optim.SGD([weft.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = Halved(optimizer)
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        guard_methods(cls, "__init__", "step")

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied_rate(group["lr"]))
            elif "initial_lr" not in group:
                raise EntryError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming scheduler with "
                    "last_epoch >= 0; load the optimizer's state first, or leave last_epoch at -1 for a new run"
                )
        self.base_lrs = [copied_rate(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the first rates."""
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def get_lr(self) -> list[Any]:
        """The learning rates of all groups at `last_epoch`, given those they have now."""
        raise UnsupportedError(f"{type(self).__name__} must define get_lr")

    def get_last_lr(self) -> list[Any]:
        """The learning rates that were set last."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch (or to `epoch`, by the closed form where there is one) and set the rates."""
        self._check_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(
                "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. "
                "Please use `scheduler.step()` to step the scheduler.",
                UserWarning,
                stacklevel=2,
            )
        self._go_to(epoch)

    def _check_order(self) -> None:
        if self._step_count == 1 and not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in the opposite order: "
                "otherwise the first value of the learning rate schedule is skipped.",
                UserWarning,
                stacklevel=3,
            )

    def _go_to(self, epoch: int | None) -> None:
        if epoch is None:
            self.last_epoch += 1
            rates = self.get_lr()
        else:
            self.last_epoch = epoch
            rates = getattr(self, "_get_closed_form_lr", self.get_lr)()
        self._set_rates(rates)

    def _set_rates(self, rates: list[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_rate(group, rate)
        self._last_lr = rates_of(self.optimizer)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""
        self.__dict__.update(state_dict)


guard_methods(LRScheduler, "__init__", "step")


def check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise ArgumentError(f"{type(optimizer).__name__} is not an Optimizer")


def copied_rate(rate: Any) -> Any:
    return rate.clone() if isinstance(rate, Tensor) else rate


def rates_of(optimizer: Optimizer) -> list[Any]:
    return [copied_rate(group["lr"]) for group in optimizer.param_groups]


def set_rate(group: dict[str, Any], rate: Any) -> None:
    """Set the learning rate of a group, within its memory if it is a tensor."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def power(base: Any, exponent: Any) -> Any:
    """base^exponent as a float where both are whole numbers, whose power could have billions of digits."""
    return (float(base) if isinstance(base, int) else base) ** exponent


def for_each_group(value: Any, optimizer: Optimizer, name: str) -> list[Any]:
    """A list with one value for each group, from such a list or a single value."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise InvalidValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
            f"param_groups has {count}."
        )
    return list(value)


def saved_functions(functions: list[Callable]) -> list[dict[str, Any] | None]:
    """What can be saved of functions: the attributes of callable objects, nothing of plain functions."""
    return [None if isinstance(f, types.FunctionType) else dict(f.__dict__) for f in functions]


def restore_functions(functions: list[Callable], saved: list[dict[str, Any] | None]) -> None:
    for function, attributes in zip(functions, saved, strict=True):
        if attributes is not None:
            function.__dict__.update(attributes)
