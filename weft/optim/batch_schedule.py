"""A schedule for the batch size: growing batches in place of shrinking learning rates (N2 §3.4.3)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from ..errors import InvalidValueError
from .lr_scheduler.schedule import copied_rate, set_rate
from .optimizer import Optimizer

__all__ = ["BatchSizeSchedule"]


class BatchSizeSchedule:
    """The batch size grows by a factor at each milestone (N2 §3.4.3; Smith et al., 2018).

    |B|_t = |B|₀ · growth^(number of milestones ≤ t), at most `max_batch_size`

    The variance of the mean gradient falls as 1 / |B|, so a larger batch quiets training as a smaller learning rate
    ε does (both act through ε / |B|), with fewer updates. `batch_size` of the schedule itself is always the current size.

    target: anything with an attribute `batch_size` that is read at the start of an epoch: a batch sampler, settings
    milestones: the epochs t at which the batch grows
    growth: the factor
    max_batch_size: the most it grows to
    optimizer: whose rates are divided by what is missing once the batch can grow no more, so that ε / |B| goes on as planned
    last_epoch: the epoch before the first, to resume

    >>> import types
    >>> settings = types.SimpleNamespace(batch_size=32)
    >>> schedule = BatchSizeSchedule(settings, milestones=[10, 20], growth=4, max_batch_size=256)
    >>> for _ in range(10):
    ...     schedule.step()
    >>> settings.batch_size
    128
    """

    def __init__(
        self,
        target: Any,
        milestones: Iterable[int],
        growth: float = 2.0,
        max_batch_size: int | None = None,
        optimizer: Optimizer | None = None,
        last_epoch: int = -1,
    ) -> None:
        if not growth > 0:
            raise InvalidValueError(f"growth must be positive, got {growth}")
        if max_batch_size is not None and max_batch_size < target.batch_size:
            raise InvalidValueError(
                f"max_batch_size={max_batch_size} is below the first batch size {target.batch_size}"
            )
        self.target, self.optimizer = target, optimizer
        self.milestones, self.growth, self.max_batch_size = sorted(milestones), growth, max_batch_size
        self.base_batch_size, self.last_epoch = target.batch_size, last_epoch
        self._divisor = 1.0
        self.step()

    def step(self) -> None:
        """Go on to the next epoch."""
        self.last_epoch += 1
        wanted = self.base_batch_size * self.growth ** bisect_right(self.milestones, self.last_epoch)
        self.batch_size = max(1, round(wanted))
        if self.max_batch_size is not None:
            self.batch_size = min(self.batch_size, self.max_batch_size)
        self.target.batch_size = self.batch_size
        self._divide_rates(max(1.0, wanted / self.max_batch_size) if self.max_batch_size else 1.0)

    def _divide_rates(self, divisor: float) -> None:
        for group in self.optimizer.param_groups if self.optimizer is not None else ():
            set_rate(group, copied_rate(group["lr"]) * (self._divisor / divisor))
        self._divisor = divisor

    def state_dict(self) -> dict[str, Any]:
        """Everything but the target and the optimiser."""
        return {name: value for name, value in self.__dict__.items() if name not in ("target", "optimizer")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what `state_dict` gave, and set the batch size of the target."""
        self.__dict__.update(state_dict)
        self.target.batch_size = self.batch_size
