"""Schedules that rise and fall: warm restarts, cycles, one cycle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...errors import InvalidValueError
from ..optimizer import Optimizer
from .schedule import LRScheduler, for_each_group, power, restore_functions, saved_functions, set_rate

__all__ = ["CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosines of lengths T₀, T₀ T_mult, T₀ T_mult², …, each from ε₀ down to ε_min (Loshchilov and Hutter, 2017).

    ε = ε_min + (ε₀ − ε_min) (1 + cos(π T_cur / T_i)) / 2.   `step(epoch)` takes fractions of epochs too.
    Started with a `last_epoch` beyond the first restarts it finds its place in the cycles; PyTorch does so for T_mult = 1.

    T_0: T₀, the epochs of the first cosine
    T_mult: the factor from one to the next
    eta_min: ε_min

    >>> optimizer = optim.SGD([weft.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 1.0, 0.5, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise InvalidValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise InvalidValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise InvalidValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on by one epoch, or to `epoch`, which may be a fraction."""
        if epoch is not None and not 0 <= epoch < math.inf:
            raise InvalidValueError(f"Expected non-negative epoch, but got {epoch}")
        if epoch is None and self.last_epoch >= 0 and not self._is_initial:
            self._advance()
            epoch = self.last_epoch + 1
        else:
            epoch = max(self.last_epoch + 1, 0) if epoch is None else epoch
            self._find_cycle(epoch)
        self.last_epoch = math.floor(epoch)
        self._set_rates(self.get_lr())

    def _advance(self) -> None:
        self.T_cur += 1
        if self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult

    def _find_cycle(self, epoch: float) -> None:
        """T_i and T_cur of an epoch: how long its cycle is, and how far into it we are."""
        start, self.T_i = 0, self.T_0
        if self.T_mult == 1:
            start = epoch // self.T_0 * self.T_0
        while self.T_mult > 1 and epoch >= start + self.T_i:
            start += self.T_i
            self.T_i *= self.T_mult
        self.T_cur = epoch - start


class _MomentumSchedule(LRScheduler):
    """A schedule that moves momentum (or Adam's β₁) against the learning rate.

    cycle_momentum: whether it does so
    base_momentum, max_momentum: the bounds of momentum, a number or one for each group
    """

    def _prepare_momentum(self, optimizer: Optimizer, low: Any, high: Any, fresh: bool) -> None:
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise InvalidValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in optimizer.defaults
        lows, highs = (for_each_group(v, optimizer, n) for v, n in ((low, "base_momentum"), (high, "max_momentum")))
        if fresh:
            for group, lowest, highest in zip(optimizer.param_groups, lows, highs, strict=True):
                self._set_momentum(group, highest)
                group["max_momentum"], group["base_momentum"] = highest, lowest

    def _set_momentum(self, group: dict[str, Any], momentum: float) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(_MomentumSchedule):
    """The rate goes up and down between two bounds in straight lines (Smith, 2017).

    ε = base + (max − base) · h · s: h is the height within the cycle, from 0 up to 1 and back, s the scale: 1
    ('triangular'), 2^(1−cycle) ('triangular2'), γᵗ ('exp_range') or `scale_fn` of the cycle or of t. Call `step` after
    every batch.

    base_lr, max_lr: the bounds, a number or one for each group
    step_size_up, step_size_down: steps of the way up and of the way down; None: as many down as up
    mode: the name of the scale
    gamma: γ
    scale_fn: another scale, with the argument that `scale_mode` names
    scale_mode: 'cycle' (the number of the cycle, from 1) or 'iterations' (t)

    >>> optimizer = optim.SGD([weft.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = lr_scheduler.CyclicLR(optimizer, 0.0, 1.0, step_size_up=2)
    >>> rates = []
    >>> for _ in range(6):
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.0, 0.5, 1.0, 0.5, 0.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise InvalidValueError("mode is invalid and scale_fn is None")
        base_lrs = for_each_group(base_lr, optimizer, "base_lr")
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, base_lrs, strict=True):
                set_rate(group, rate)
        self.max_lrs = for_each_group(max_lr, optimizer, "max_lr")
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = "iterations" if scale_fn is None and mode == "exp_range" else scale_mode
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._prepare_momentum(optimizer, base_momentum, max_momentum, last_epoch == -1)
            self.base_momentums = for_each_group(base_momentum, optimizer, "base_momentum")
            self.max_momentums = for_each_group(max_momentum, optimizer, "max_momentum")
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The scale s of a cycle or an iteration."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / 2.0 ** (x - 1) if self.mode == "triangular2" else power(self.gamma, x)

    def get_lr(self) -> list[Any]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            momenta = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in momenta:
                self._set_momentum(group, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser and a plain `scale_fn`."""
        custom = self._scale_fn_custom
        saved = saved_functions([custom])[0] if custom is not None else None
        return super().state_dict() | {"_scale_fn_custom": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""
        restore_functions([self._scale_fn_custom], [state_dict["_scale_fn_custom"]])
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})


class OneCycleLR(_MomentumSchedule):
    """Up to max_lr, then far below the start, within one training (Smith and Topin, 2018). Call `step` after every batch.

    From max_lr / div_factor up, then down to 1 / final_div_factor of the start. Momentum does the opposite.

    max_lr: the highest rate, a number or one for each group
    total_steps: how many steps of the optimiser there will be
    epochs, steps_per_epoch: or their two factors
    pct_start: the share of the steps that goes up
    anneal_strategy: along a 'cos' or in a 'linear' way
    div_factor: by which the rate starts below max_lr
    final_div_factor: by which it ends below the start
    three_phase: go down as steeply as up, and lower in a third phase

    >>> optimizer = optim.SGD([weft.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=5, pct_start=0.4)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.04, 1.0, 0.75, 0.25, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise InvalidValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise InvalidValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._schedule_phases = _phases(pct_start, self.total_steps, three_phase)
        self._anneal_func_type = anneal_strategy
        max_lrs = for_each_group(max_lr, optimizer, "max_lr")
        if last_epoch == -1:
            for group, highest in zip(optimizer.param_groups, max_lrs, strict=True):
                first = highest / div_factor
                group["initial_lr"], group["max_lr"], group["min_lr"] = first, highest, first / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._prepare_momentum(optimizer, base_momentum, max_momentum, last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        if self.last_epoch > self.total_steps:
            raise InvalidValueError(
                f"Tried to step {self.last_epoch} times. The specified number of total steps is {self.total_steps}"
            )
        phase, part = self._place()
        for group in self.optimizer.param_groups if self.cycle_momentum else ():
            start, end = group[phase["start_momentum"]], group[phase["end_momentum"]]
            self._set_momentum(group, anneal(self._anneal_func_type, start, end, part))
        return [
            anneal(self._anneal_func_type, group[phase["start_lr"]], group[phase["end_lr"]], part)
            for group in self.optimizer.param_groups
        ]

    def _place(self) -> tuple[dict[str, Any], float]:
        """The phase we are in, and what part of it has passed."""
        start = 0.0
        for phase in self._schedule_phases:
            if self.last_epoch <= phase["end_step"]:
                break
            start = phase["end_step"] if phase is not self._schedule_phases[-1] else start
        return phase, (self.last_epoch - start) / (phase["end_step"] - start)


def _total_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is None and (epochs is None or steps_per_epoch is None):
        raise InvalidValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    given: dict[str, Any] = {"total_steps": total_steps}
    if total_steps is None:
        given = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    for name, value in given.items():
        if value <= 0 or not isinstance(value, int):
            raise InvalidValueError(f"Expected positive integer {name}, but got {value}")
    return math.prod(given.values())


def _phases(pct_start: float, total_steps: int, three_phase: bool) -> list[dict[str, Any]]:
    """The phases: where each ends, and between which of a group's values it leads."""
    rates, momenta = ["initial_lr", "max_lr", "min_lr"], ["max_momentum", "base_momentum", "max_momentum"]
    ends = [float(pct_start * total_steps) - 1, total_steps - 1]
    if three_phase:
        rates.insert(2, "initial_lr")
        momenta.append("max_momentum")
        ends.insert(1, float(2 * pct_start * total_steps) - 2)
    names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
    rows = zip(ends, rates, rates[1:], momenta, momenta[1:], strict=False)
    return [dict(zip(names, row, strict=True)) for row in rows]


def anneal(strategy: str, start: float, end: float, part: float) -> float:
    """Between start (part = 0) and end (part = 1), along a half-wave of a cosine or a straight line."""
    if strategy == "linear":
        return (end - start) * part + start
    return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)
