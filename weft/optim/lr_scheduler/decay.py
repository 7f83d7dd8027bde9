"""Schedules that multiply the learning rate by factors of the epoch, and the cosine.

They are chainable: each epoch changes the rate the group has now, so several schedules can act on one optimiser.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ...errors import InvalidValueError
from ..optimizer import Optimizer
from .schedule import LRScheduler, power, restore_functions, saved_functions

__all__ = [
    "ConstantLR",
    "CosineAnnealingLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "PolynomialLR",
    "StepLR",
]


class _FunctionSchedule(LRScheduler):
    """A schedule with a function of the epoch for each group; callable objects are saved, functions are not.

    lr_lambda: λ, a function of the epoch, or a list with one for each group
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        if len(self.lr_lambdas) != count:
            raise InvalidValueError(f"Expected {count} lr_lambdas, but got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser and plain functions."""
        return super().state_dict() | {"lr_lambdas": saved_functions(self.lr_lambdas)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""
        restore_functions(self.lr_lambdas, state_dict["lr_lambdas"])
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})


class LambdaLR(_FunctionSchedule):
    """ε_t = ε₀ · λ(t), with a function λ, or one for each group.

    >>> optimizer = optim.SGD([weft.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = lr_scheduler.LambdaLR(optimizer, lambda t: 1 / (1 + t))
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 0.3333, 0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(_FunctionSchedule):
    """ε_t = ε_{t−1} · λ(t), with a function λ, or one for each group.

    >>> optimizer = optim.SGD([weft.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = lr_scheduler.MultiplicativeLR(optimizer, lambda t: 0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 0.25, 0.125]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if self._is_initial:
            return rates
        return [rate * f(self.last_epoch) for rate, f in zip(rates, self.lr_lambdas, strict=True)]


class _FactorSchedule(LRScheduler):
    """ε_t = ε₀ F(t), reached by ε_t = ε_{t−1} f(t): subclasses give f (`_factor`) and F (`_total_factor`)."""

    def _factor(self) -> float:
        raise NotImplementedError

    def _total_factor(self) -> float:
        raise NotImplementedError

    def get_lr(self) -> list[Any]:
        factor = self._factor()
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self._total_factor()
        return [base * factor for base in self.base_lrs]


class StepLR(_FactorSchedule):
    """ε_t = ε₀ γ^⌊t / step_size⌋.

    step_size: how many epochs a rate is kept
    gamma: γ, the factor after each of them

    >>> optimizer = optim.SGD([weft.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        return self.gamma if self.last_epoch > 0 and self.last_epoch % self.step_size == 0 else 1.0

    def _total_factor(self) -> float:
        return power(self.gamma, self.last_epoch // self.step_size)


class MultiStepLR(_FactorSchedule):
    """ε_t = ε₀ γ^(number of milestones ≤ t).

    milestones: the epochs at which the rate falls
    gamma: γ, the factor at each of them

    >>> optimizer = optim.SGD([weft.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 0.5, 0.25, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        return power(self.gamma, self.milestones[self.last_epoch])

    def _total_factor(self) -> float:
        return power(self.gamma, bisect_right(sorted(self.milestones.elements()), self.last_epoch))


class ConstantLR(_FactorSchedule):
    """ε_t = ε₀ · factor while t < total_iters, then ε₀.

    factor: the factor of the first epochs
    total_iters: how many they are

    >>> optimizer = optim.SGD([weft.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.5, 0.5, 1.0, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1.0:
            raise InvalidValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        if self.last_epoch == 0:
            return self.factor
        return 1.0 / self.factor if self.last_epoch == self.total_iters else 1.0

    def _total_factor(self) -> float:
        return self.factor if self.last_epoch < self.total_iters else 1.0


class LinearLR(_FactorSchedule):
    """ε_t = ε₀ · F, with F linear from start_factor at t = 0 to end_factor at t = total_iters, constant after.

    start_factor, end_factor: the factor F at the beginning and at the end
    total_iters: how many epochs the way takes

    >>> optimizer = optim.SGD([weft.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.5, 0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1.0:
            raise InvalidValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."
            )
        if not 0 <= end_factor <= 1.0:
            raise InvalidValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        if self.last_epoch == 0:
            return self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1.0
        rise = self.end_factor - self.start_factor
        return 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)

    def _total_factor(self) -> float:
        part = min(self.total_iters, self.last_epoch) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * part


class ExponentialLR(_FactorSchedule):
    """ε_t = ε₀ γᵗ.

    gamma: γ, the factor of an epoch

    >>> optimizer = optim.SGD([weft.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 0.25, 0.125]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        return 1.0 if self._is_initial or self.last_epoch == 0 else self.gamma

    def _total_factor(self) -> float:
        return power(self.gamma, self.last_epoch)


class PolynomialLR(_FactorSchedule):
    """ε_t = ε₀ (1 − t / total_iters)^power, and 0 after total_iters.

    total_iters: after how many epochs the rate is 0
    power: 1 is a straight line

    >>> optimizer = optim.SGD([weft.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = lr_scheduler.PolynomialLR(optimizer, total_iters=4)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [1.0, 0.75, 0.5, 0.25, 0.0]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        t, end = self.last_epoch, self.total_iters
        if self._is_initial or t == 0 or t > end:
            return 1.0
        return ((1.0 - t / end) / (1.0 - (t - 1) / end)) ** self.power

    def _total_factor(self) -> float:
        return (1.0 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power


class CosineAnnealingLR(LRScheduler):
    """ε_t = ε_min + (ε₀ − ε_min) (1 + cos(π t / T_max)) / 2   (Loshchilov and Hutter, 2017, without restarts).

    T_max: how many epochs the way down takes
    eta_min: ε_min

    >>> optimizer = optim.SGD([weft.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [1.0, 0.8536, 0.5, 0.1464, 0.0]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        t, low = self.last_epoch, self.eta_min
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if self._is_initial or t == 0:
            return rates
        if (t - 1 - self.T_max) % (2 * self.T_max) == 0:  # the wave leaves its lowest point, where ratios are 0 / 0
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [rate + (base - low) * rise for rate, base in zip(rates, self.base_lrs, strict=True)]
        ratio = (1 + math.cos(math.pi * t / self.T_max)) / (1 + math.cos(math.pi * (t - 1) / self.T_max))
        return [ratio * (rate - low) + low for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]
