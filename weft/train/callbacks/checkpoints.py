"""Which checkpoints are kept."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ...errors import OptionError
from .base import Callback, Watched, figure, mode_for

if TYPE_CHECKING:
    from ..task import Task
    from ..trainer import Trainer

__all__ = ["ModelCheckpoint"]


class ModelCheckpoint(Callback):
    """Keeps `last.weft` (to resume from) and the best: `best.weft`, and with save_top_k > 1 one file for each.

    monitor: None keeps only the last ones; 'auto' takes val_loss where there is a validation, else train_loss.
    every_n_epochs, every_n_train_steps, train_time_interval (seconds): when the last is written; `keep_all` gives each
    of these a file of its own (epoch=3-step=1200.weft), as save_top_k=-1 does for every validation.
    """

    def __init__(
        self,
        monitor: str | None = "auto",
        mode: str | None = None,
        save_top_k: int = 1,
        save_last: bool = True,
        every_n_epochs: int = 1,
        every_n_train_steps: int | None = None,
        train_time_interval: float | None = 600.0,
        keep_all: bool = False,
    ) -> None:
        if save_top_k < -1:
            raise OptionError(f"ModelCheckpoint: save_top_k must be -1 (all), 0 (none) or more, got {save_top_k}")
        self.monitor, self.mode, self.save_top_k, self.save_last = monitor, mode, save_top_k, save_last
        self.every_n_epochs, self.every_n_train_steps = every_n_epochs, every_n_train_steps
        self.train_time_interval, self.keep_all = train_time_interval, keep_all
        self.kept: dict[str, float] = {}  # name → figure
        self.best_name: str | None = None
        self.best_score: float | None = None
        self.automatic = monitor == "auto"
        self.saved_at = time.monotonic()

    # ------------------------------------------------------------------------------ when
    def on_fit_start(self, trainer: Trainer, task: Task) -> None:
        if self.monitor == "auto":
            self.monitor = "val_loss" if trainer.validates else "train_loss"
        self.saved_at = time.monotonic()

    def on_train_batch_end(self, trainer: Trainer, task: Task, outputs: Any, batch: Any, batch_idx: int) -> None:
        step, every = trainer.global_step, self.every_n_train_steps
        due = every is not None and step and step % every == 0 and not trainer.accumulating
        late = self.train_time_interval is not None and time.monotonic() - self.saved_at > self.train_time_interval
        if due or late:
            self._save_last(trainer)

    def on_validation_end(self, trainer: Trainer, task: Task) -> None:
        self._look(trainer)

    def on_train_epoch_end(self, trainer: Trainer, task: Task) -> None:
        if not trainer.validates:
            self._look(trainer)
        if self.every_n_epochs and (trainer.current_epoch + 1) % self.every_n_epochs == 0:
            self._save_last(trainer)

    # ------------------------------------------------------------------------------ what
    def _save_last(self, trainer: Trainer) -> None:
        self.saved_at = time.monotonic()
        if self.save_last:
            trainer.request_save("last")
        if self.keep_all:
            trainer.request_save(_name(trainer))

    def _look(self, trainer: Trainer) -> None:
        if self.save_top_k == 0 or self.monitor is None:
            return
        if self.automatic and self.monitor not in trainer.callback_metrics:
            return  # a task without losses, and nobody asked for a figure
        value = figure(trainer, self.monitor, "ModelCheckpoint")
        watched = Watched(mode_for(self.monitor, self.mode))
        if self.best_score is not None:
            watched.best = self.best_score
        name = f"{_name(trainer)}-{self.monitor}={value:.6g}"
        if self._belongs(value, watched.sign):
            self.kept[name] = value
            if self.save_top_k != 1:
                trainer.request_save(name)
            self._drop_worst(trainer, watched.sign)
        if watched.take(value):
            self.best_name, self.best_score = name, value
            trainer.request_save("best")

    def _belongs(self, value: float, sign: float) -> bool:
        if value != value:  # NaN is never among the best
            return False
        if self.save_top_k == -1 or len(self.kept) < self.save_top_k:
            return True
        return sign * value < max(sign * v for v in self.kept.values())

    def _drop_worst(self, trainer: Trainer, sign: float) -> None:
        while 0 < self.save_top_k < len(self.kept):
            worst = max(self.kept, key=lambda name: sign * self.kept[name])
            del self.kept[worst]
            if trainer.run is not None and self.save_top_k != 1:
                trainer.request_removal(worst)

    def state_dict(self) -> dict[str, Any]:
        names = ("kept", "best_name", "best_score")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.kept = dict(state["kept"])
        self.best_name, self.best_score = state["best_name"], state["best_score"]


def _name(trainer: Trainer) -> str:
    return f"epoch={trainer.current_epoch}-step={trainer.global_step}"
