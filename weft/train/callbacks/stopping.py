"""Ends of training: no more progress, no more time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import OptionError
from ..running.limits import seconds_of
from .base import Callback, Watched, figure, mode_for

if TYPE_CHECKING:
    from ..task import Task
    from ..trainer import Trainer

__all__ = ["EarlyStopping", "Timer"]


class EarlyStopping(Callback):
    """Stop when a figure has not become better for `patience` validations, and go back to the best weights.

    Better: lower (mode 'min') or higher ('max') by more than `min_delta`. Without validation the figure is looked at
    after every epoch. `stopping_threshold`: stop as soon as the figure is this good.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0.0,
        patience: int = 3,
        mode: str | None = None,
        restore_best: bool = True,
        stopping_threshold: float | None = None,
    ) -> None:
        self.monitor, self.patience, self.restore_best = monitor, patience, restore_best
        self.watched = Watched(mode_for(monitor, mode), min_delta)
        self.stopping_threshold = stopping_threshold
        self.wait_count, self.stopped_epoch = 0, 0
        self.best_weights: dict[str, Any] | None = None

    def on_validation_end(self, trainer: Trainer, task: Task) -> None:
        self._look(trainer, task)

    def on_train_epoch_end(self, trainer: Trainer, task: Task) -> None:
        if not trainer.validates:
            self._look(trainer, task)

    def _look(self, trainer: Trainer, task: Task) -> None:
        value = figure(trainer, self.monitor, "EarlyStopping")
        if self.watched.take(value):
            self.wait_count = 0
            if self.restore_best:
                self.best_weights = {name: x.detach().clone() for name, x in task.state_dict().items()}
        else:
            self.wait_count += 1
        if self.stopping_threshold is not None:
            reached = self.watched.sign * (value - self.stopping_threshold) <= 0
            if reached:
                self._stop(trainer, f"{self.monitor} reached {value:.6g}")
        if self.wait_count >= self.patience:
            self._stop(
                trainer,
                f"{self.monitor} has not become better than {self.watched.best:.6g} for {self.wait_count} validations",
            )

    def _stop(self, trainer: Trainer, reason: str) -> None:
        self.stopped_epoch = trainer.current_epoch
        trainer.stop(reason)

    def on_fit_end(self, trainer: Trainer, task: Task) -> None:
        if self.restore_best and self.best_weights is not None:
            task.load_state_dict(self.best_weights)

    def state_dict(self) -> dict[str, Any]:
        return {
            "best": self.watched.best,
            "wait_count": self.wait_count,
            "stopped_epoch": self.stopped_epoch,
            "best_weights": self.best_weights,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.watched.best, self.wait_count = state["best"], state["wait_count"]
        self.stopped_epoch = state["stopped_epoch"]
        best = state["best_weights"]
        self.best_weights = None if best is None else {name: x.clone() for name, x in best.items()}


class Timer(Callback):
    """Stop after a duration (seconds, or "HH:MM:SS", "DD:HH:MM:SS"), counted over all sessions of a run.

    interval 'step' stops after the step, 'epoch' after the epoch. `time_elapsed` and `time_remaining` are in seconds.
    """

    def __init__(self, duration: float | str | None = None, interval: str = "step") -> None:
        if interval not in ("step", "epoch"):
            raise OptionError(f"Timer: interval must be 'step' or 'epoch', got {interval!r}")
        self.duration, self.interval = seconds_of(duration), interval
        self.time_elapsed = 0.0

    @property
    def time_remaining(self) -> float | None:
        return None if self.duration is None else self.duration - self.time_elapsed

    def on_train_batch_end(self, trainer: Trainer, task: Task, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.time_elapsed = trainer.loop.elapsed()
        if self.interval == "step":
            self._look(trainer)

    def on_train_epoch_end(self, trainer: Trainer, task: Task) -> None:
        self.time_elapsed = trainer.loop.elapsed()
        self._look(trainer)

    def _look(self, trainer: Trainer) -> None:
        if self.duration is not None and self.time_elapsed >= self.duration:
            trainer.stop(f"Timer: {self.time_elapsed:.1f} s")
