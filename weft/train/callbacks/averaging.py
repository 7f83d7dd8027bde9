"""Averages of the weights along training, in the place of the weights when it counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import OptionError
from ...nn.module import Module
from ...optim.swa_utils import SWALR, AveragedModel, get_ema_avg_fn, update_bn
from ...tape.modes import no_grad
from ..checkpoint import save_checkpoint
from .base import Callback

if TYPE_CHECKING:
    from ...optim import Optimizer
    from ..task import Task
    from ..trainer import Trainer

__all__ = ["EMA", "SWA"]


class Swap:
    """The weights of a task exchanged for averages, and back."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] | None = None

    def to(self, task: Module, average: AveragedModel) -> None:
        if self.kept is None:
            self.kept = {name: x.clone() for name, x in task.state_dict().items()}
            task.load_state_dict(average.module.state_dict())

    def back(self, task: Module) -> None:
        if self.kept is not None:
            task.load_state_dict(self.kept)
            self.kept = None


class EMA(Callback):
    """An exponential moving average of the weights: ā ← decay · ā + (1 − decay) · θ after every update.

    It is updated inside the compiled step. Validations see the average, and the task is left with it at the end
    (`use_at_end`); checkpoints hold both, and `load_weights` takes the average.
    """

    def __init__(self, decay: float = 0.999, validate: bool = True, use_at_end: bool = True) -> None:
        self.decay, self.validate, self.use_at_end = decay, validate, use_at_end
        self.function = get_ema_avg_fn(decay)
        self.average: AveragedModel | None = None
        self.swap = Swap()

    def prepare(self, task: Task) -> None:
        """The average starts as the weights are."""
        self.average = AveragedModel(task, avg_fn=self.function)
        self.average.requires_grad_(False)

    def before_update(self, task: Task, optimizer: Optimizer) -> None:
        return None

    def after_update(self, task: Task, optimizer: Optimizer, before: None) -> None:
        if optimizer is task.trainer.optimizers[-1]:
            self.average.update_parameters(task)

    def on_validation_start(self, trainer: Trainer, task: Task) -> None:
        if self.validate:
            self.swap.to(task, self.average)

    def on_validation_end(self, trainer: Trainer, task: Task) -> None:
        self.swap.back(task)

    def on_exception(self, trainer: Trainer, task: Task, exception: BaseException) -> None:
        self.swap.back(task)

    def on_fit_end(self, trainer: Trainer, task: Task) -> None:
        if self.use_at_end:
            task.load_state_dict(self.average.module.state_dict())

    def averaged_weights(self, task: Task) -> dict[str, Any] | None:
        return dict(self.average.module.state_dict()) if self.validate and self.average is not None else None

    def state_dict(self) -> dict[str, Any]:
        return {"average": dict(self.average.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.average.load_state_dict(state["average"])


class SWA(Callback):
    """The mean of the weights at the ends of the last epochs (stochastic weight averaging; Izmailov et al., 2018).

    swa_epoch_start: the first epoch that counts, as a number or a share of max_epochs. swa_lrs: the learning rate to
    anneal to, within `annealing_epochs`. At the end the task gets the mean, and its batch normalisation the statistics
    of the training data under it; they are saved as `swa.weft`.
    """

    def __init__(
        self,
        swa_lrs: float | list[float] | None = None,
        swa_epoch_start: int | float = 0.8,
        annealing_epochs: int = 10,
        annealing_strategy: str = "cos",
    ) -> None:
        self.swa_lrs, self.swa_epoch_start = swa_lrs, swa_epoch_start
        self.annealing_epochs, self.annealing_strategy = annealing_epochs, annealing_strategy
        self.average: AveragedModel | None = None
        self.schedule: SWALR | None = None
        self.loaded: dict[str, Any] | None = None  # the state of a schedule that cannot be made yet

    def prepare(self, task: Task) -> None:
        self.average, self.schedule = AveragedModel(task), None
        self.average.requires_grad_(False)

    def _first(self, trainer: Trainer) -> int:
        if isinstance(self.swa_epoch_start, int):
            return self.swa_epoch_start
        if trainer.max_epochs is None:
            raise OptionError(
                "SWA: a share as swa_epoch_start needs Trainer(max_epochs=…); give the number of an epoch"
            )
        return int(self.swa_epoch_start * trainer.max_epochs)

    def on_fit_start(self, trainer: Trainer, task: Task) -> None:
        if self.loaded is not None:
            rates = [group["lr"] for group in trainer.optimizers[0].param_groups]
            self._take_over(trainer)
            self.schedule.load_state_dict(self.loaded)
            for group, rate in zip(trainer.optimizers[0].param_groups, rates, strict=True):
                group["lr"] = rate
            self.loaded = None

    def _take_over(self, trainer: Trainer) -> None:
        """From here on the learning rate is ours."""
        self.schedule = SWALR(
            trainer.optimizers[0], self.swa_lrs, self.annealing_epochs, anneal_strategy=self.annealing_strategy
        )
        trainer.schedules = []

    def on_train_epoch_start(self, trainer: Trainer, task: Task) -> None:
        if self.swa_lrs is not None and self.schedule is None and trainer.current_epoch >= self._first(trainer):
            self._take_over(trainer)

    def on_train_epoch_end(self, trainer: Trainer, task: Task) -> None:
        if trainer.current_epoch >= self._first(trainer):
            self.average.update_parameters(task)
            if self.schedule is not None:
                self.schedule.step()

    def on_fit_end(self, trainer: Trainer, task: Task) -> None:
        if int(self.average.n_averaged) == 0:
            return
        task.load_state_dict(self.average.module.state_dict())
        with no_grad():
            update_bn(trainer.loop.train, task)
        if trainer.run is not None:
            save_checkpoint({"model": dict(task.state_dict()), "averaged": None}, trainer.run.checkpoint("swa"))

    def state_dict(self) -> dict[str, Any]:
        schedule = None if self.schedule is None else self.schedule.state_dict()
        return {"average": dict(self.average.state_dict()), "schedule": schedule}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.average.load_state_dict(state["average"])
        self.loaded = state["schedule"]
