"""What is learned and how: a module with the steps of training, validation and testing (Lightning's names)."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import OptionError, UnsupportedError
from ..nn.module import Module
from ..nn.utils import clip_grad_norm_, clip_grad_value_
from ..optim import Optimizer
from ..tensor import Tensor
from .running.record import Recorder, live_number

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["Task"]


class _Link:
    """What connects a task with its trainer: never copied along with the task."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.trainer: Callable[[], Trainer | None] = lambda: None

    def __deepcopy__(self, memo: dict[int, Any]) -> _Link:
        return _Link()


class Task(Module):
    """A module that says what its training step is; a `Trainer` does the rest.

    A subclass defines `training_step` and `configure_optimizers`, and `validation_step`, `test_step` and `predict_step`
    where it needs them. Steps may take `batch`, `(batch, batch_idx)` or, with several optimisers,
    `(batch, batch_idx, optimizer_idx)`. The whole training step, with the backward pass and the update, is compiled:
    Python in it runs when it is traced, so `log` (whose values come back from the compiled step) is the way to look at
    numbers. `batch_idx`, `global_step` and `current_epoch` are read anew at every step.

    >>> class Line(Task):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = nn.Linear(1, 1)
    ...
    ...     def training_step(self, batch):
    ...         x, y = batch
    ...         return nn.functional.mse_loss(self.layer(x), y)
    ...
    ...     def configure_optimizers(self):
    ...         return weft.optim.SGD(self.parameters(), lr=0.1)
    """

    automatic_optimization = True

    def __init__(self) -> None:
        super().__init__()
        self._link = _Link()

    # ------------------------------------------------------------------------------ what a subclass defines
    def training_step(self, batch: Any) -> Any:
        """The loss of a batch: a scalar tensor, a dict with 'loss', or None to leave the batch out."""
        raise UnsupportedError(f"{type(self).__name__} must define training_step(self, batch) and return the loss")

    def validation_step(self, batch: Any) -> Any:
        """Log the figures of a batch; a returned loss is logged as 'val_loss' unless that is logged already."""
        raise UnsupportedError(f"{type(self).__name__} does not define validation_step(self, batch)")

    def test_step(self, batch: Any) -> Any:
        """As `validation_step`, for the test set."""
        raise UnsupportedError(f"{type(self).__name__} does not define test_step(self, batch)")

    def predict_step(self, batch: Any) -> Any:
        """What `Trainer.predict` collects: the output for a batch, or for its first part if it is a tuple or list."""
        return self(batch[0] if isinstance(batch, (tuple, list)) else batch)

    def configure_optimizers(self) -> Any:
        """An optimiser; a list of them; (optimisers, schedules); or a dict {'optimizer', 'lr_scheduler'}."""
        raise UnsupportedError(
            f"{type(self).__name__} must define configure_optimizers(self), say "
            "return weft.optim.Adam(self.parameters(), lr=1e-3)"
        )

    # ------------------------------------------------------------------------------ moments of training
    def on_fit_start(self) -> None:
        """Before the first step."""

    def on_fit_end(self) -> None:
        """After the last step."""

    def on_train_epoch_start(self) -> None:
        """Before the first batch of an epoch."""

    def on_train_epoch_end(self) -> None:
        """After an epoch and its validation."""

    def on_validation_start(self) -> None:
        """Before a validation."""

    def on_validation_end(self) -> None:
        """After a validation."""

    # ------------------------------------------------------------------------------ for use in steps
    def log(self, name: str, value: Any, prog_bar: bool = False, batch_size: int | None = None) -> None:
        """Note a number: the log gets it every few training steps, and its mean over the epoch.

        value: a scalar tensor or a number. Means are weighted with the batch size.
        """
        self._link.recorder.log(name, value, prog_bar, batch_size)

    def log_dict(self, values: dict[str, Any], prog_bar: bool = False, batch_size: int | None = None) -> None:
        """`log` for every name in a dict."""
        for name, value in values.items():
            self.log(name, value, prog_bar, batch_size)

    def measure(self, name: str, metric: Any, *given: Any, prog_bar: bool = False) -> None:
        """`metric.update(*given)` after this step; `metric.compute()` is logged as `name` at the end of the epoch.

        A metric looks at numbers, which a compiled step does not have while it is traced: this hands them over.
        """
        self._link.recorder.measure(name, metric, given, prog_bar)

    @property
    def trainer(self) -> Trainer:
        """The trainer that runs this task now."""
        found = self._link.trainer()
        if found is None:
            raise OptionError(f"{type(self).__name__}.trainer: this task is not being trained")
        return found

    @property
    def global_step(self) -> int:
        """How many updates were made; in a compiled step a number that is read at every call."""
        return live_number(lambda: self.trainer.global_step, "global_step")

    @property
    def current_epoch(self) -> int:
        """The number of this epoch, from 0; in a compiled step a number that is read at every call."""
        return live_number(lambda: self.trainer.current_epoch, "current_epoch")

    # ------------------------------------------------------------------------------ manual optimisation
    def optimizers(self) -> Any:
        """The optimiser, or the list of them."""
        found = self.trainer.optimizers
        return found[0] if len(found) == 1 else found

    def lr_schedulers(self) -> Any:
        """The learning-rate schedule, or the list of them."""
        found = [row.scheduler for row in self.trainer.schedules]
        return found[0] if len(found) == 1 else found

    def manual_backward(self, loss: Tensor, inputs: Any = None, **options: Any) -> None:
        """`loss.backward()`, scaled where the precision needs it."""
        self.trainer.scaled(loss).backward(inputs=inputs, **options)

    def clip_gradients(
        self, optimizer: Optimizer, gradient_clip_val: float, gradient_clip_algorithm: str = "norm"
    ) -> None:
        """Keep the gradients of an optimiser's parameters within bounds, together ('norm') or each ('value')."""
        clip(_parameters_of(optimizer), gradient_clip_val, gradient_clip_algorithm)

    # ------------------------------------------------------------------------------ calling
    def attach(self, trainer: Trainer) -> None:
        """Tell the task who runs it."""
        self._link.trainer = weakref.ref(trainer)

    @property
    def recorder(self) -> Recorder:
        """What the steps log."""
        return self._link.recorder

    def defines(self, step: str) -> bool:
        """Whether a subclass has such a step."""
        return getattr(type(self), step) is not getattr(Task, step)

    def call(self, step: str, batch: Any, batch_idx: Any, optimizer_idx: int | None = None) -> Any:
        """Run a step with as many of its arguments as it takes."""
        given = (batch, batch_idx) if optimizer_idx is None else (batch, batch_idx, optimizer_idx)
        return getattr(self, step)(*given[: count_arguments(type(self), step)])


@functools.cache
def count_arguments(cls: type, step: str) -> int:
    """How many arguments a step takes after `self`, at most 3."""
    parameters = list(inspect.signature(getattr(cls, step)).parameters.values())[1:]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 3
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def clip(parameters: Sequence[Tensor], limit: float, algorithm: str = "norm") -> Tensor | None:
    """Clip gradients in place; by norm, their norm before that."""
    if algorithm == "norm":
        return clip_grad_norm_(parameters, limit)
    if algorithm == "value":
        clip_grad_value_(parameters, limit)
        return None
    raise OptionError(f"gradient_clip_algorithm must be 'norm' or 'value', got {algorithm!r}")


def _parameters_of(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]
