"""The trainer: a task, data, and everything between the first step and the folder with the results."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .. import random
from ..errors import OptionError
from ..runtime.switches import switch
from ..runtime.threads import get_num_threads, set_num_threads
from ..tensor import Tensor
from .callbacks import Callback, LearningRateMonitor, ModelCheckpoint, StopOnNaN
from .checkpoint import Tree, clear_leftovers, load_checkpoint, save_checkpoint, write_checkpoints
from .curves import draw_run
from .history import History
from .locking import FolderLock
from .logger import Logbook
from .precision import make_precision
from .progress import Display, make_display
from .running.configure import Schedule, read_optimizers
from .running.evaluate import evaluate, predict
from .running.limits import check_options, seconds_of
from .running.loop import FitLoop
from .running.opening import disk_error, find_checkpoint, open_folder
from .running.ranks import Ranks
from .running.record import as_float
from .running.saving import Saver
from .running.signals import Signals, Terminated
from .running.step import EvalStep
from .runs import RunFolder
from .task import Task

__all__ = ["Trainer"]

DESCRIBED = (
    *("max_epochs", "max_steps", "max_time", "precision", "gradient_clip_val", "accumulate_grad_batches"),
    *("val_check_interval", "seed", "threads"),
)


class Trainer:
    """Trains a task: compiled steps, validation, checkpoints, logs, progress.

    max_epochs: 1000 unless a limit of steps or time is given. max_time: seconds or "HH:MM:SS".
    run_folder: a path (a run that is there already is put aside, unless it is resumed); None makes a new folder under
    `runs/` (or $WEFT_RUNS); False writes nothing.
    compile: True with a fall-back to eager code (one warning says why), 'error' to raise instead, False never.
    precision: '32', 'bf16-mixed' or '16-mixed' (see weft.train.precision). gradient_clip_val: a bound for the norm (or, gradient_clip_algorithm='value', for
    each element) of gradients. accumulate_grad_batches: batches whose mean gradient makes one update.
    val_check_interval: a share of an epoch (1.0: at its end) or a number of batches.
    progress: True, False, or None: live in a terminal, one line an epoch elsewhere.
    devices: how many processes train together, as `weft launch -n` started them (None: whatever was started).
    strategy: 'ddp' (each has the whole model), 'zero1' (a part of what optimisers keep), 'zero3' (also a part of parameters and
    gradients). Loaders give each rank `batch_size` examples of a joint batch; rank 0 writes, figures are those of all (docs/cluster.md).

    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    >>> history = Trainer(max_epochs=5).fit(Classification(model, lr=1e-3), train_loader, val_loader)
    """

    def __init__(
        self,
        max_epochs: int | None = None,
        max_steps: int = -1,
        max_time: float | str | None = None,
        *,
        callbacks: Callback | Iterable[Callback] = (),
        run_folder: str | os.PathLike[str] | RunFolder | bool | None = None,
        compile: bool | str = True,
        precision: str = "32",
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str = "norm",
        accumulate_grad_batches: int = 1,
        val_check_interval: float | int = 1.0,
        check_val_every_n_epoch: int = 1,
        limit_train_batches: int | float | None = None,
        limit_val_batches: int | float | None = None,
        log_every_n_steps: int = 50,
        enable_checkpointing: bool = True,
        settings: dict[str, Any] | None = None,
        seed: int | None = None,
        progress: bool | None = None,
        threads: int | None = None,
        devices: int | str | None = None,
        strategy: str | None = None,
    ) -> None:
        self.ranks = Ranks(devices, strategy)
        self.max_epochs = 1000 if max_epochs is None and max_steps < 0 and max_time is None else max_epochs
        self.max_steps, self.max_time, self.max_seconds = max_steps, max_time, seconds_of(max_time)
        self._given = [callbacks] if isinstance(callbacks, Callback) else list(callbacks)
        self.callbacks: list[Callback] = list(self._given)
        self.run_folder, self.compile, self.precision = run_folder, compile, precision
        self.gradient_clip_val, self.gradient_clip_algorithm = gradient_clip_val, gradient_clip_algorithm
        self.accumulate_grad_batches = accumulate_grad_batches
        self.val_check_interval, self.check_val_every_n_epoch = val_check_interval, check_val_every_n_epoch
        self.limit_train_batches, self.limit_val_batches = limit_train_batches, limit_val_batches
        self.log_every_n_steps, self.enable_checkpointing = log_every_n_steps, enable_checkpointing
        self.settings, self.seed, self.progress, self.threads = settings or {}, seed, progress, threads
        check_options(self)
        self.precision_plugin = make_precision(precision)
        self.signals, self.display = Signals(), Display()
        self.history, self.run = History(), None
        self.lock: FolderLock | None = None
        self.logbook = Logbook(None)
        self.callback_metrics: dict[str, float] = {}
        self.should_stop = False
        self.optimizers: list[Any] = []
        self.schedules: list[Schedule] = []
        self.loop: FitLoop | None = None
        self._eval_steps: dict[str, EvalStep] = {}
        self.saver = Saver(None, dict)

    # ------------------------------------------------------------------------------ where it stands
    @property
    def current_epoch(self) -> int:
        return 0 if self.loop is None else self.loop.position.epoch

    @property
    def global_step(self) -> int:
        """Updates made so far."""
        return 0 if self.loop is None else self.loop.position.step

    @property
    def accumulating(self) -> bool:
        """Whether gradients of some batches wait for an update."""
        return self.loop is not None and self.loop.position.pending > 0

    @property
    def validates(self) -> bool:
        """Whether this training has a validation."""
        loop = self.loop
        return loop is not None and loop.val is not None and loop.task.defines("validation_step")

    def val_due(self, epoch: int) -> bool:
        """Whether the end of this epoch is validated."""
        return self.val_check_interval == 1.0 and (epoch + 1) % self.check_val_every_n_epoch == 0

    def val_every_batches(self, length: int | None) -> int:
        """After how many batches there is a validation within the epoch; 0: there is none."""
        interval = self.val_check_interval
        if isinstance(interval, int):
            return interval
        if interval == 1.0:
            return 0
        if length is None:
            raise OptionError(
                "Trainer: a share as val_check_interval needs a loader with a length; give a number of batches"
            )
        return max(1, int(length * interval))

    def stop(self, reason: str) -> None:
        """End the training after this step."""
        self.should_stop = True
        self.history.stopped_by = self.history.stopped_by or reason

    def scaled(self, loss: Tensor) -> Tensor:
        """The loss as `manual_backward` differentiates it: scaling is left to the task."""
        return loss

    # ------------------------------------------------------------------------------ training
    def fit(
        self,
        task: Task,
        train_loader: Iterable[Any],
        val_loader: Iterable[Any] | None = None,
        resume: bool | str | os.PathLike[str] = False,
    ) -> History:
        """Train; the figures of every epoch.

        resume: True continues from the newest whole checkpoint of the run folder (and starts anew if there is none); a
        path names a checkpoint or a run folder. Ctrl-C ends the step, saves, and raises KeyboardInterrupt.
        """
        if not isinstance(task, Task):
            raise OptionError(
                f"fit: expected a weft.train.Task, got {type(task).__name__}; wrap a model as Classification(model)"
            )
        if self.seed is not None:
            random.manual_seed(self.seed)
        self.ranks.start()
        self._prepare(task, train_loader, val_loader)
        threads = get_num_threads()
        try:
            self._open_run(task, resume)
            if self.threads is not None:
                set_num_threads(self.threads)
            self._train(task)
        finally:
            set_num_threads(threads)
            if self.lock is not None:
                self.lock.release()
        return self.history

    def _prepare(self, task: Task, train_loader: Any, val_loader: Any) -> None:
        task.attach(self)
        self.history, self.callback_metrics = History(), {}
        self.should_stop, self.run, self.lock = False, None, None
        task.recorder.metrics.clear()
        self.ranks.share_model(task)
        self.optimizers, self.schedules = read_optimizers(task.configure_optimizers())
        self.optimizers = self.ranks.optimizers(self.optimizers)
        self.signals.together = self.ranks.size > 1
        self.callbacks = [*self._given, *self._usual_callbacks()]
        for callback in self.callbacks:
            callback.prepare(task)
        self.loop = FitLoop(self, task, self.ranks.loader(train_loader), self.ranks.loader(val_loader))

    def _usual_callbacks(self) -> list[Callback]:
        """What every training has unless it brings its own."""
        usual = [LearningRateMonitor, StopOnNaN]
        if self.enable_checkpointing and self.run_folder is not False:
            usual.append(ModelCheckpoint)
        return [kind() for kind in usual if not any(isinstance(c, kind) for c in self._given)]

    def _open_run(self, task: Task, resume: bool | str | os.PathLike[str]) -> None:
        """The folder, the state of a checkpoint, the log; errors of the disk show here, before any work is done."""
        found = self._found(resume)
        if found is not None:
            self.loop.restore(found[1], found[0])
        if self.run_folder is not False and self.ranks.first:
            try:
                self.run = open_folder(self.run_folder, type(task).__name__.lower())
                self.lock = FolderLock(self.run.path)
                self.lock.take()
                self._start_run(found)
            except OSError as error:
                if self.run:
                    self.run.discard()
                raise disk_error(error, self.run.path if self.run else self.run_folder) from error
        state = functools.partial(self.loop.state, whole=False)
        self.saver = Saver(self.run if self.enable_checkpointing else None, state, self.ranks)
        self.logbook = Logbook(self.run)
        self.logbook.start(self.global_step)

    def _found(self, resume: bool | str | os.PathLike[str]) -> tuple[Path, Tree] | None:
        """The checkpoint to go on from: the one that was asked for, or after a restart of all ranks the newest."""
        if not resume and switch("WEFT_RESTARTS") != "0" and self.run_folder not in (None, True, False):
            resume = True
        found = find_checkpoint(resume, self.run_folder) if self.ranks.first else None
        if self.ranks.size == 1:
            return found
        path = self.ranks.told(None if found is None else found[0])
        return found if self.ranks.first or path is None else (path, load_checkpoint(path))

    def _start_run(self, found: tuple[Path, Tree] | None) -> None:
        run = self.run
        clear_leftovers(run.path)
        if found is None and (earlier := run.put_aside()) is not None:
            run.log(f"the run that was here is now in {earlier.name}/")
        run.truncate(0 if found is None else found[1]["rows"])
        if found is None:
            run.begin(self._described() | self.settings)
            if self.enable_checkpointing and not self.ranks.cuts:
                write_checkpoints(self.loop.state(whole=False), run.checkpoints, ["last.weft"])
        else:
            run.update_settings(self._described() | self.settings)
            run.log(f"resumed from {found[0].name} at epoch {self.current_epoch}, step {self.global_step}")

    def _described(self) -> dict[str, Any]:
        return {"task": type(self.loop.task).__name__} | {name: getattr(self, name) for name in DESCRIBED}

    def _train(self, task: Task) -> None:
        self.display = make_display(self.progress if self.ranks.first else False)
        try:
            with self.signals.watching():
                self.display.start(self.max_epochs)
                self.hook("on_fit_start")
                self.loop.run()
                self.hook("on_fit_end")
            self._finish(finished=True)
        except BaseException as error:
            self._broken_off(error)
            raise
        finally:
            self.display.close()
        if self.saver.error is not None:
            raise disk_error(self.saver.error, self.run.path) from self.saver.error

    def _broken_off(self, error: BaseException) -> None:
        """Ctrl-C or an error: save what is whole, and say how to go on. A start that failed leaves no folder."""
        self.hook("on_exception", error)
        if self._never_started(error):
            self.logbook.close()
            self.run.discard()
            return
        kept = self.saver.keeps and self.signals.safe
        if kept:
            self.saver.want("last")
        if self.ranks.size == 1 or kept:  # an error of one rank alone: the others do something else
            self.saver.write(urgent=True)
        self.history.stopped_by = _cause(error)
        self._finish(finished=False)
        if kept and self.run is not None and isinstance(error, KeyboardInterrupt):
            where = f"Interrupted at epoch {self.current_epoch + 1}, step {self.global_step}; saved"
            call = f"Trainer(run_folder={str(self.run.path)!r}).fit(…, resume=True)"
            self.display.say(where + ("." if "recipe" in self.settings else f". To continue: {call}"))

    def _never_started(self, error: BaseException) -> bool:
        """Whether an error came before the first step of a new run: there is nothing to look at or to continue."""
        new = self.run is not None and self.run.made and not self.loop.stepped
        return new and not isinstance(error, KeyboardInterrupt)

    def _finish(self, finished: bool) -> None:
        """Close the run: the result, the curves."""
        position, history = self.loop.position, self.history
        history.finished, history.seconds = finished, self.loop.elapsed()
        history.data_wait = position.waiting / position.training if position.training else 0.0
        history.figures = dict(self.callback_metrics)
        self.logbook.close()
        self.display.close()
        if self.run is None:
            return
        result = {
            "finished": finished,
            "stopped_by": history.stopped_by,
            "figures": history.figures,
            "seconds": history.seconds,
            "data_wait": history.data_wait,
            "epochs": position.epoch,
            "steps": position.step,
            "compiled": self.loop.step.run.compiled is not None,
            "eager_because": self.loop.step.run.reason,
        }
        try:
            self.run.write_result(result)
            self.run.log(
                ("finished" if finished else f"ended: {history.stopped_by}") + f" after {history.seconds:.1f} s"
            )
            self._draw()
        except OSError as error:
            warnings.warn(f"{self.run.path}: the result could not be written: {error}", stacklevel=2)
        self.display.say(
            f"{history.seconds:.1f} s, {history.data_wait:.1%} of the training time waiting for data"
            + ("" if "recipe" in self.settings else f"; run: {self.run.path}")
        )

    def _draw(self) -> None:
        draw_run(self.run, self.display.say)

    # ------------------------------------------------------------------------------ callbacks
    def hook(self, name: str, *given: Any) -> None:
        """Call a moment of the task, whose `log` goes to the figures of the epoch, then of every callback."""
        task = self.loop.task
        if not given and hasattr(task, name):
            task.recorder.begin()
            getattr(task, name)()
            self.callback_metrics |= {k: as_float(value) for k, (value, _) in task.recorder.values.items()}
        for callback in self.callbacks:
            getattr(callback, name)(self, task, *given)

    def further_figures(self) -> dict[str, float]:
        """What callbacks add to a row of the log."""
        return {k: v for c in self.callbacks for k, v in c.figures(self, self.loop.task).items()}

    def callback_states(self) -> list[Tree]:
        return [{"class": type(c).__name__, "state": c.state_dict()} for c in self.callbacks]

    def load_callback_states(self, states: Sequence[Tree]) -> None:
        """Each callback takes the first state of its class that is left."""
        left = list(states)
        for callback in self.callbacks:
            found = next((s for s in left if s["class"] == type(callback).__name__), None)
            if found is not None:
                left.remove(found)
                callback.load_state_dict(found["state"])

    def averaged_weights(self) -> Tree | None:
        """The weights that a callback validates in the place of the trained ones (EMA, SWA)."""
        asked = [getattr(callback, "averaged_weights", None) for callback in self.callbacks]
        found = [weights_of(self.loop.task) for weights_of in asked if weights_of is not None]
        return next((weights for weights in found if weights is not None), None)

    # ------------------------------------------------------------------------------ checkpoints
    def request_save(self, name: str, urgent: bool = False) -> None:
        """Write this checkpoint as soon as the step (or epoch) is complete."""
        self.saver.want(name, urgent)

    def request_removal(self, name: str) -> None:
        """Remove this checkpoint once the next is written."""
        self.saver.drop(name)

    def save_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Write the present state to a file."""
        save_checkpoint(self.loop.state(), path)

    def safe_point(self) -> None:
        """Between two steps: write the checkpoints that were asked for, then let Ctrl-C through."""
        self.saver.write()
        self.signals.check()

    # ------------------------------------------------------------------------------ without training
    def eval_step(self, task: Task, step: str) -> EvalStep:
        """The compiled form of a step without training, kept for the next time."""
        found = self._eval_steps.get(step)
        if found is None or found.task is not task:
            found = self._eval_steps[step] = EvalStep(
                task, step, precision=self.precision_plugin, compile_option=self.compile, threads=self.threads
            )
        return found

    def validate(self, task: Task, loader: Iterable[Any]) -> dict[str, float]:
        """The figures of `validation_step` over a loader."""
        return self._alone(task, lambda: evaluate(self, task, loader, "validation_step"))

    def test(self, task: Task, loader: Iterable[Any]) -> dict[str, float]:
        """The figures of `test_step` over a loader; they are also written to the result of the run, if there is one."""
        figures = self._alone(task, lambda: evaluate(self, task, loader, "test_step"))
        if self.run is not None:
            self.run.update_result({"figures": figures})
        return figures

    def predict(self, task: Task, loader: Iterable[Any]) -> Any:
        """The outputs of `predict_step`, those of all batches joined along the first dimension."""
        return self._alone(task, lambda: predict(self, task, loader))

    def _alone(self, task: Task, work: Any) -> Any:
        task.attach(self)
        threads = get_num_threads()
        try:
            if self.threads is not None:
                set_num_threads(self.threads)
            return work()
        finally:
            set_num_threads(threads)


def _cause(error: BaseException) -> str:
    if isinstance(error, Terminated):
        return "SIGTERM"
    return "Ctrl-C" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
