"""The loop of a training: epochs of steps, with everything that happens between them in a fixed order."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...data.ranks import RankLoader
from ...errors import OptionError
from ...nn.parallel.shard import cut_of
from .. import parts
from ..checkpoint import Tree, check_same_model, like, loader_state, random_state, restore_random_state
from ..runs import RunFolder
from .evaluate import evaluate
from .ranks import Share
from .record import Means, as_float, batch_size_of
from .step import TrainStep

if TYPE_CHECKING:
    from ..task import Task
    from ..trainer import Trainer

__all__ = ["FitLoop"]


@dataclass
class Position:
    """Where a training is. A checkpoint is taken only between two steps, so these numbers say everything."""

    epoch: int = 0
    batch: int = 0  # batches done in this epoch
    drained: bool = False  # whether these were all
    step: int = 0  # updates made
    checking: bool = False  # whether a validation within the epoch is due
    pending: int = 0  # batches whose gradients wait for an update
    seconds: float = 0.0  # of all sessions of this run
    waiting: float = 0.0  # seconds in which the step waited for data
    training: float = 0.0  # seconds in steps and waiting, without validation


class FitLoop:
    """One call of `Trainer.fit`."""

    def __init__(self, trainer: Trainer, task: Task, train_loader: Any, val_loader: Any) -> None:
        self.trainer, self.task, self.train, self.val = trainer, task, train_loader, val_loader
        self.position, self.means = Position(), Means()
        self.started, self.before = time.perf_counter(), 0.0
        self.measured: set[str] = set()  # metrics that training steps have fed in this epoch
        self.outside: Tree = {}  # random state and validation loader as they were before the validation that runs now
        self.stepped = False  # whether a step has run in this call
        self.skip = 0  # batches to pass over in a loader that cannot be told where to start
        self.clock: float | None = None  # seconds of training as rank 0 counts them
        self.step = self._make_step()

    def _make_step(self) -> TrainStep:
        options = self.trainer
        inside = [c for c in options.callbacks if hasattr(c, "after_update")]
        return TrainStep(
            self.task,
            options.optimizers,
            batch_idx=lambda: self.position.batch,
            accumulate=options.accumulate_grad_batches if self.task.automatic_optimization else 1,
            clip_value=options.gradient_clip_val,
            clip_algorithm=options.gradient_clip_algorithm,
            inside=[c for c in inside if c.every_n_steps is None],
            monitors=[c for c in inside if c.every_n_steps is not None],
            precision=options.precision_plugin,
            compile_option=options.compile,
            threads=options.threads,
            ranks=options.ranks,
        )

    # ------------------------------------------------------------------------------ epochs
    def run(self) -> None:
        """Train until an end is reached."""
        while not self._at_end():
            self._epoch()
        if self.position.batch == 0:
            self.trainer.request_save("last", urgent=True)
            self.trainer.safe_point()

    def _at_end(self) -> bool:
        trainer = self.trainer
        if trainer.should_stop:
            return True
        if trainer.max_epochs is not None and self.position.epoch >= trainer.max_epochs:
            return True
        return self._limit() is not None

    def _limit(self) -> str | None:
        """The limit of steps or time that is reached."""
        trainer = self.trainer
        if 0 <= trainer.max_steps <= self.position.step:
            return f"max_steps={trainer.max_steps}"
        elapsed = self.elapsed() if self.clock is None else self.clock
        if trainer.max_seconds is not None and elapsed >= trainer.max_seconds:
            return f"max_time={trainer.max_time}"
        return None

    def elapsed(self) -> float:
        """Seconds of training, those before a resume included."""
        return self.before + time.perf_counter() - self.started

    def _epoch(self) -> None:
        trainer, position = self.trainer, self.position
        self.task.train()
        if position.batch == 0:
            trainer.hook("on_train_epoch_start")
        if position.checking:
            self._check()
        trainer.display.epoch(position.epoch, _length(self.train, trainer.limit_train_batches), position.batch)
        if not position.drained:
            self._batches()
        ended = position.drained
        if ended and position.pending:
            self._flush()
        trainer.callback_metrics |= self.means.compute() | self.task.recorder.collect(self.measured, reset=ended)
        if not ended:
            self._end_within_epoch()
            return
        if trainer.val_due(position.epoch):
            self.validate()
        more = trainer.further_figures()
        self._schedules("epoch", position.epoch + 1)
        trainer.hook("on_train_epoch_end")
        self._row(more)
        position.epoch, position.batch, position.drained = position.epoch + 1, 0, False
        self.means, self.measured = Means(), set()
        trainer.safe_point()

    def _end_within_epoch(self) -> None:
        """A limit, or a wish to stop: the state is kept as it is here, so that a longer training can continue it."""
        self.trainer.history.stopped_by = self.trainer.history.stopped_by or self._limit()
        self.trainer.request_save("last", urgent=True)
        self.trainer.safe_point()
        self.validate()
        self._row(self.trainer.further_figures())
        self.trainer.saver.write(urgent=True)

    # ------------------------------------------------------------------------------ batches
    def _batches(self) -> None:
        trainer, position = self.trainer, self.position
        limit = _limit_of(trainer.limit_train_batches, self.train)
        batches = self._from_loader()
        while not position.drained:
            asked = time.perf_counter()
            with trainer.signals.released():
                batch = next(batches, self)
            if batch is self:
                position.drained = True
                break
            waited = time.perf_counter() - asked
            self._batch(batch)
            position.drained = position.batch >= limit
            position.waiting += waited
            position.training += time.perf_counter() - asked
            self._after_batch()
            if trainer.should_stop or self._limit() is not None:
                break
        length = _length(self.train, trainer.limit_train_batches)
        position.drained = position.drained or (length is not None and position.batch >= length)
        if position.batch == 0:
            raise OptionError("fit: the training loader gave no batch; is the data set smaller than one full batch?")

    def _from_loader(self) -> Iterator[Any]:
        batches = iter(self.train)
        for _ in range(self.skip):
            next(batches, None)
        self.skip = 0
        return batches

    def _batch(self, batch: Any) -> None:
        trainer, position = self.trainer, self.position
        index = position.batch
        trainer.hook("on_train_batch_start", batch, index)
        update = position.pending + 1 >= self.step.accumulate
        watch = update and self._watching()
        share = trainer.ranks.shares(self.train, index, batch_size_of(batch))
        loss, values, fed = self.step(batch, update, watch, share)
        self.stepped = True
        loss, values, fed, size = self._joined(loss, values, fed, share)
        numbers = self._numbers(loss, values, size)
        self.task.recorder.feed(fed)
        self.measured |= {name for name, _ in fed}
        position.batch += 1
        position.pending = 0 if update else position.pending + 1
        if update:
            self._updated()
        trainer.hook("on_train_batch_end", numbers, batch, index)
        if update and (watch or self._log_due()):
            row = {"kind": "step", "epoch": position.epoch, "step": position.step}
            trainer.logbook.add(row | numbers | trainer.further_figures())
        trainer.display.batch(position.batch, size, self._shown(numbers))

    def _joined(self, loss: Any, values: Any, fed: Any, share: Share) -> tuple[Any, Any, Any, int]:
        """Of several ranks: figures of the joint batch, and what all go by (rank 0's clock, a signal to any of them)."""
        ranks, signals = self.trainer.ranks, self.trainer.signals
        if ranks.size == 1:
            return loss, values, fed, share.size
        fed = ranks.fed(fed, counts=share.size > 0)
        notes = [self.elapsed(), float(signals.caught or 0), float(share.weight != 1.0)]
        loss, values, size, notes = ranks.joint(loss, values, share.size, notes)
        self.clock = float(notes[0, 0])
        signals.agreed = int(notes[:, 1].max()) or None
        if notes[:, 2].any():  # parts of different sizes have moved the streams differently
            ranks.share_random_state()
        return loss, values, fed, size

    def _watching(self) -> bool:
        """Whether the update that comes is one that monitors look at."""
        step = self.position.step + 1
        return any(step % m.every_n_steps == 0 or step == 1 for m in self.step.monitors)

    def _numbers(self, loss: Any, values: Any, size: int) -> dict[str, float]:
        """What the step logged as numbers, the loss among them."""
        numbers = self.means.add_all(values, size)
        if loss is not None:
            numbers["loss"] = as_float(loss)
            if "train_loss" not in values:
                self.means.add("train_loss", numbers["loss"], size)
        return numbers

    def _updated(self) -> None:
        self.position.step += 1
        self._schedules("step", self.position.step)

    def _flush(self) -> None:
        self.step.finish(False)
        self.position.pending = 0
        self._updated()

    def _after_batch(self) -> None:
        """What comes between two steps: a validation within the epoch, checkpoints, a wish to stop."""
        trainer, position = self.trainer, self.position
        every = trainer.val_every_batches(_length(self.train, trainer.limit_train_batches))
        if every and position.batch % every == 0 and self.val is not None:
            position.checking = True
            self._check()
        trainer.safe_point()

    def _check(self) -> None:
        """A validation within the epoch."""
        self.trainer.callback_metrics |= self.means.compute() | self.task.recorder.collect(self.measured, reset=False)
        self.validate()
        self._row(self.trainer.further_figures())
        self.task.train()
        self.position.checking = False

    def _schedules(self, interval: str, count: int) -> None:
        if not self.task.automatic_optimization:
            return
        for schedule in self.trainer.schedules:
            if schedule.interval == interval and count % schedule.frequency == 0:
                schedule.step(self.trainer.callback_metrics)

    # ------------------------------------------------------------------------------ figures
    def _shown(self, numbers: dict[str, float]) -> dict[str, float]:
        return {"loss": numbers.get("loss", math.nan)} | {
            name: numbers[name] for name in self.task.recorder.shown if name in numbers and name != "train_loss"
        }

    def _log_due(self) -> bool:
        return self.position.step % self.trainer.log_every_n_steps == 0 or self.position.step == 1

    def silent_step(self, batch: Any) -> None:
        """A step that nobody is told of: the training, repeated."""
        position = self.position
        update = position.pending + 1 >= self.step.accumulate
        self.step(batch, update, False)
        position.batch += 1
        position.pending = 0 if update else position.pending + 1
        if update:
            self._updated()

    def validate(self) -> None:
        """Validate, if there is data and a step for it."""
        if self.val is None or not self.task.defines("validation_step"):
            return
        self.outside = self._surroundings()
        self.trainer.hook("on_validation_start")
        figures = evaluate(self.trainer, self.task, self.val, "validation_step")
        self.outside = {}
        self.trainer.callback_metrics |= figures
        self.trainer.hook("on_validation_end")

    def _row(self, more: dict[str, float]) -> None:
        """The row of an epoch (so far): means of training, figures of validation, and what callbacks add."""
        trainer, position = self.trainer, self.position
        row = {"kind": "epoch", "epoch": position.epoch, "step": position.step}
        row |= trainer.callback_metrics | more | {"seconds": round(self.elapsed(), 3)}
        trainer.history.rows.append(row)
        trainer.logbook.add(row)
        trainer.display.row(row, self.task.recorder.shown)

    # ------------------------------------------------------------------------------ state
    def state(self, whole: bool = True) -> Tree:
        """Everything that the rest of the training depends on.

        whole: with the figures of all epochs, which otherwise stand in the run folder: a checkpoint must not grow.
        """
        trainer, position = self.trainer, self.position
        position.seconds = self.elapsed()
        return {
            "position": asdict(position),
            "model": parts.of_model(self.task),
            "gradients": parts.of_gradients(self.task, trainer.ranks) if position.pending else {},
            "optimizers": [parts.of_optimizer(optimizer) for optimizer in trainer.optimizers],
            "schedules": [schedule.scheduler.state_dict() for schedule in trainer.schedules],
            "loader": loader_state(self.train, 0 if position.drained else position.batch),
            "measured": sorted(self.measured),
            "scaler": self.step.scaler.state_dict() if self.step.scaler else None,
            "callbacks": trainer.callback_states(),
            "averaged": trainer.averaged_weights(),
            "means": self.means.state_dict(),
            "metrics": self.task.recorder.state_dict(),
            "figures": dict(trainer.callback_metrics),
            "rows": trainer.logbook.count,
            "epochs": len(trainer.history.rows),
            **({"history": trainer.history.rows} if whole or trainer.logbook.waiting else {}),
            **(self.outside or self._surroundings()),
        }

    def _surroundings(self) -> Tree:
        """What a validation moves: the random streams and its loader."""
        loader = self.val.state_dict() if hasattr(self.val, "state_dict") else None
        return {"random": random_state(self.task), "val_loader": loader}

    def restore(self, tree: Tree, source: Any) -> None:
        """Continue where the checkpoint was taken."""
        trainer = self.trainer
        check_same_model(self.task, tree, source)
        self.position = Position(**tree["position"])
        self.before, self.started = self.position.seconds, time.perf_counter()
        parts.load_model(self.task, tree["model"])
        for name, parameter in self.task.named_parameters():
            found = tree["gradients"].get(name)
            parameter.grad = None if found is None else parts.own(found, cut_of(parameter)).clone()
        for optimizer, state in zip(trainer.optimizers, tree["optimizers"], strict=True):
            optimizer.load_state_dict(parts.own_state(optimizer, state))
        for schedule, state in zip(trainer.schedules, tree["schedules"], strict=True):
            schedule.scheduler.load_state_dict(like(schedule.scheduler.state_dict(), state))
        if self.step.scaler and tree.get("scaler"):
            self.step.scaler.load_state_dict(tree["scaler"])
        self._restore_loaders(tree)
        self.measured = set(tree["measured"])
        self.means.load_state_dict(tree["means"])
        self.task.recorder.load_state_dict(tree["metrics"])
        trainer.callback_metrics = dict(tree["figures"])
        trainer.history.rows = self._history(tree, source)
        trainer.load_callback_states(tree["callbacks"])
        restore_random_state(self.task, tree["random"])

    def _history(self, tree: Tree, source: Any) -> list[dict[str, Any]]:
        """The rows of the epochs before a checkpoint: its own, or those in the folder of its run."""
        if "history" in tree:
            return list(tree["history"])
        if not isinstance(source, Path):  # a state that was in memory all the time
            return self.trainer.history.rows[: tree["epochs"]]
        rows = [row for row in RunFolder(source.parent.parent).rows()[: tree["rows"]] if row.get("kind") == "epoch"]
        if len(rows) != tree["epochs"]:
            warnings.warn(
                f"{source}: the figures of {tree['epochs']} epochs should lie in ../metrics.jsonl, {len(rows)} do; the "
                "training continues, its history begins with these",
                stacklevel=5,
            )
        return rows

    def _restore_loaders(self, tree: Tree) -> None:
        if tree["loader"] is not None and hasattr(self.train, "load_state_dict"):
            self.train.load_state_dict(tree["loader"])
            if isinstance(self.train, RankLoader):  # which begins where the last example was
                self.position.batch = 0
        else:
            self.skip = 0 if self.position.drained else self.position.batch
        if tree["val_loader"] is not None and hasattr(self.val, "load_state_dict"):
            self.val.load_state_dict(tree["val_loader"])


def _length(loader: Any, limit: int | float | None = None) -> int | None:
    """How many batches an epoch has, if that is known."""
    try:
        length = len(loader)
    except TypeError:
        return limit if isinstance(limit, int) else None
    return int(min(length, _limit_of(limit, loader)))


def _limit_of(limit: int | float | None, loader: Any) -> float:
    """How many batches may be taken: a number, a share of the loader, or all."""
    if limit is None:
        return math.inf
    return limit if isinstance(limit, int) else max(1, int(limit * len(loader)))
