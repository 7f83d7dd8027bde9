"""Averages of the weights along training, in the place of the weights when it counts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...errors import OptionError
from ...nn.module import Module
from ...optim.swa_utils import SWALR, AveragedModel, get_ema_avg_fn, update_bn
from ...tape.modes import no_grad
from ...tensor import Tensor
from ..checkpoint import save_checkpoint
from .base import Callback

if TYPE_CHECKING:
    from ...optim import Optimizer
    from ..task import Task
    from ..trainer import Trainer

__all__ = ["EMA", "SWA"]


class Swap:
    """The weights of a module exchanged for averages, and back."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] | None = None

    def to(self, module: Module, average: AveragedModel) -> None:
        if self.kept is None:
            self.kept = {name: x.clone() for name, x in module.state_dict().items()}
            module.load_state_dict(average.module.state_dict())

    def back(self, module: Module) -> None:
        if self.kept is not None:
            module.load_state_dict(self.kept)
            self.kept = None


class EMA(Callback):
    """An exponential moving average of the weights: ā ← decay · ā + (1 − decay) · θ after every update; ā₁ = θ₁.

    It is updated inside the compiled step. Validations see the average, and the task is left with it at the end
    (`use_at_end`); checkpoints hold both, and `load_weights` takes the average. `with ema.applied(task)` puts it into the
    task in between, to draw samples for instance. Buffers, such as the statistics of batch normalisation, are those of
    the newest weights, or averaged as well (average_buffers).

    part: the name of the module to average, "generator" for instance; None averages the whole task. A part is averaged
    whenever an optimiser that holds weights of it has stepped, the whole when the last of the optimisers has
    warm_up: in step n decay is at most (1 + n) / (10 + n), so that an early average is not mostly the first weights
    """

    def __init__(
        self,
        decay: float = 0.999,
        validate: bool = True,
        use_at_end: bool = True,
        *,
        part: str | None = None,
        warm_up: bool = False,
        average_buffers: bool = False,
    ) -> None:
        self.decay, self.validate, self.use_at_end = decay, validate, use_at_end
        self.part, self.average_buffers = part, average_buffers
        self.function = _warming_up(decay) if warm_up else get_ema_avg_fn(decay)
        self.average: AveragedModel | None = None
        self.swap = Swap()

    def prepare(self, task: Task) -> None:
        """The average starts as the weights are."""
        self.average = AveragedModel(self._module(task), avg_fn=self.function, use_buffers=self.average_buffers)
        self.average.requires_grad_(False)

    def _module(self, task: Module) -> Module:
        if self.part is None:
            return task
        parts = dict(task.named_modules())
        if self.part not in parts:
            children = ", ".join(name for name, _ in task.named_children())
            raise OptionError(f"EMA: the task has no part {self.part!r}; it has {children}")
        return parts[self.part]

    def before_update(self, task: Task, optimizer: Optimizer) -> None:
        return None

    def after_update(self, task: Task, optimizer: Optimizer, before: None) -> None:
        if optimizer is self._last(task):
            self.average.update_parameters(self._module(task))

    def _last(self, task: Task) -> Optimizer:
        """The optimiser after whose step there is something new: the last one that holds weights of the module."""
        if self.part is None:
            return task.trainer.optimizers[-1]
        own = {id(p) for p in self._module(task).parameters()}
        held = lambda optimizer: {id(p) for group in optimizer.param_groups for p in group["params"]}
        holding = [optimizer for optimizer in task.trainer.optimizers if own & held(optimizer)]
        if not holding:
            raise OptionError(f"EMA: no optimiser holds weights of {self.part!r}")
        return holding[-1]

    @contextlib.contextmanager
    def applied(self, task: Module) -> Iterator[None]:
        """The task with the average in the place of its weights, for the time of a `with`."""
        if self.average is None:
            raise OptionError("EMA: there is no average yet; it is made by Trainer.fit")
        already = self.swap.kept is not None  # within a validation
        self.swap.to(self._module(task), self.average)
        try:
            yield
        finally:
            if not already:
                self.swap.back(self._module(task))

    def on_validation_start(self, trainer: Trainer, task: Task) -> None:
        if self.validate:
            self.swap.to(self._module(task), self.average)

    def on_validation_end(self, trainer: Trainer, task: Task) -> None:
        self.swap.back(self._module(task))

    def on_exception(self, trainer: Trainer, task: Task, exception: BaseException) -> None:
        self.swap.back(self._module(task))

    def on_fit_end(self, trainer: Trainer, task: Task) -> None:
        if self.use_at_end:
            self._module(task).load_state_dict(self.average.module.state_dict())

    def averaged_weights(self, task: Task) -> dict[str, Any] | None:
        if not self.validate or self.average is None:
            return None
        prefix = f"{self.part}." if self.part else ""
        averages = {prefix + name: value for name, value in self.average.module.state_dict().items()}
        return dict(task.state_dict()) | averages

    def state_dict(self) -> dict[str, Any]:
        return {"average": dict(self.average.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.average.load_state_dict(state["average"])


def _warming_up(decay: float) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """ā ← d ā + (1 − d) θ with d = min(decay, (1 + n) / (10 + n)) after n updates."""
    get_ema_avg_fn(decay)  # refuses what is no decay

    @no_grad()
    def update(averaged: Tensor, current: Tensor, count: Tensor) -> Tensor:
        rate = ((1 + count) / (10 + count)).clamp(max=decay)
        return averaged * rate + current * (1 - rate)

    return update


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
