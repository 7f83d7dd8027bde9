"""What a callback may do, and figures that get better or worse."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...errors import OptionError

if TYPE_CHECKING:
    from ..task import Task
    from ..trainer import Trainer

__all__ = ["Callback", "Watched"]


class Callback:
    """Called at the moments of a training; a subclass defines those it needs.

    `state_dict` is kept in checkpoints. A callback that works inside the step, on gradients or parameters, has
    `before_update(task, optimizer)` → anything and `after_update(task, optimizer, that)` → {name: scalar} or None:
    they are compiled along with the step, every `every_n_steps` updates (None: in each).
    """

    every_n_steps: int | None = None

    def prepare(self, task: Task) -> None:
        """Before anything else, also before a checkpoint is loaded."""

    def on_fit_start(self, trainer: Trainer, task: Task) -> None:
        """Before the first step, after a checkpoint was loaded."""

    def on_fit_end(self, trainer: Trainer, task: Task) -> None:
        """After the last step."""

    def on_train_epoch_start(self, trainer: Trainer, task: Task) -> None:
        """Before the first batch of an epoch."""

    def on_train_epoch_end(self, trainer: Trainer, task: Task) -> None:
        """After an epoch, its validation and the schedules."""

    def on_train_batch_start(self, trainer: Trainer, task: Task, batch: Any, batch_idx: int) -> None:
        """Before a step."""

    def on_train_batch_end(
        self, trainer: Trainer, task: Task, outputs: dict[str, float], batch: Any, batch_idx: int
    ) -> None:
        """After a step; outputs: the numbers it logged, 'loss' among them."""

    def on_validation_start(self, trainer: Trainer, task: Task) -> None:
        """Before a validation."""

    def on_validation_end(self, trainer: Trainer, task: Task) -> None:
        """After a validation; `trainer.callback_metrics` has its figures."""

    def on_exception(self, trainer: Trainer, task: Task, exception: BaseException) -> None:
        """Training ends with an error or by Ctrl-C."""

    def figures(self, trainer: Trainer, task: Task) -> dict[str, float]:
        """Further figures for a row of the log that is about to be written."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """What a resumed training needs of this callback."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` gave."""


class Watched:
    """The best value so far of a figure: `better(value)` tells whether a value is better by more than `min_delta`."""

    def __init__(self, mode: str, min_delta: float = 0.0) -> None:
        if mode not in ("min", "max"):
            raise OptionError(f"mode must be 'min' or 'max', got {mode!r}")
        self.sign = 1.0 if mode == "min" else -1.0
        self.min_delta = abs(min_delta)
        self.best = self.sign * math.inf

    def better(self, value: float) -> bool:
        return self.sign * value < self.sign * self.best - self.min_delta  # False for NaN

    def take(self, value: float) -> bool:
        """Keep the value if it is better."""
        if not self.better(value):
            return False
        self.best = value
        return True


def mode_for(monitor: str, mode: str | None) -> str:
    """'max' for figures whose name says that more is better, unless a mode is given."""
    if mode is not None:
        return mode
    last = monitor.lower().rpartition("/")[2]
    return (
        "max"
        if any(part in last for part in ("acc", "auc", "auroc", "f1", "bleu", "precision", "recall", "r2"))
        else "min"
    )


def figure(trainer: Trainer, monitor: str, who: str) -> float:
    """The last value of a figure, or an error that names those there are."""
    if monitor not in trainer.callback_metrics:
        raise OptionError(
            f"{who}: the figure {monitor!r} was not logged; logged are {sorted(trainer.callback_metrics)}"
        )
    return trainer.callback_metrics[monitor]
