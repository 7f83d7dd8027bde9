"""Steps as the trainer runs them: compiled where that is possible, eager after one honest warning where it is not."""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ...compiler.compiled import Compiled
from ...compiler.plan.plan import told_host_work
from ...compiler.policy import Policy
from ...errors import OptionError
from ...optim import Optimizer
from ...tape.modes import no_grad
from ...tensor import Tensor
from ..task import Task, clip
from .ranks import Share
from .record import Fed, Logged, live_number

__all__ = ["EvalStep", "Steps", "TrainStep", "loss_of"]

PLANS_AT_MOST = 12  # more than these, most of them used once: sizes change from batch to batch


class Steps(Policy):
    """A function of a batch that is compiled unless that turns out to be impossible.

    compile: True falls back to eager code with one warning that names the reason; 'error' raises it; False never
    compiles. The trace comes before anything is computed, so after a failure nothing has changed.
    """

    def __init__(self, function: Callable, name: str, compile_option: bool | str, threads: int | None = None) -> None:
        if compile_option not in (True, False, "error"):
            raise OptionError(f"compile must be True, False or 'error', got {compile_option!r}")
        self.function, self.name, self.option = function, name, compile_option
        self.takes = () if compile_option == "error" else Exception
        self.compiled: Compiled | None = Compiled(function, self, threads) if compile_option else None
        self.calls = self.traces = 0
        self.said: set[str] = set()  # lines at which it is cut
        self.named: set[str] = set()  # operations that Python computes at each step
        self.reason: str | None = None  # why it runs eagerly, if it does against the wish

    def __call__(self, *args: Any) -> Any:
        if self.compiled is None:
            return self.function(*args)
        self.calls += 1
        return self.compiled(*args)

    def stops(self, compiled: Compiled) -> str | None:
        """Most plans used once are not worth their making."""
        if self.option != "error" and self.traces >= PLANS_AT_MOST and self.calls < 2 * self.traces:
            return f"{self.traces} of {self.calls} batches each had sizes of their own"
        return None

    def made(self, compiled: Compiled) -> None:
        """Say once where the function is cut: Python between two plans costs time."""
        self.traces = sum(compiled.branches.values())
        lines = compiled.decisions() - self.said
        if lines:
            warnings.warn(
                f"{self.name} is compiled in parts, which is slower than one plan: Python decides by the values of tensors "
                f"at {', '.join(sorted(lines))}; weft.where keeps it whole",
                stacklevel=5,
            )
            self.said |= lines
        work = compiled.host_work()
        if not work.keys() <= self.named:
            warnings.warn(
                f"{self.name} has operations without native code, which NumPy computes between its kernels at every call: "
                f"{told_host_work(work)}",
                stacklevel=5,
            )
            self.named |= work.keys()

    def uncompiled(self, compiled: Compiled, key: Any, reason: Exception | str, run: Callable[[], Any]) -> Any:
        """Run eagerly from now on. If the eager run fails as well, its error is the one to see."""
        result = run()
        self.reason = reason if isinstance(reason, str) else f"{type(reason).__name__}: {reason}"
        self.compiled = None
        warnings.warn(f"{self.name} is not compiled and runs eagerly, which is slower. {self.reason}", stacklevel=5)
        return result


class TrainStep:
    """Forward, backward, clipping and update of one batch: `(batch, update, watch)` → (loss, logged, fed).

    update: whether this batch ends an accumulation; watch: whether monitors look at the gradients of this step. Both
    are Python values, so each combination is a plan of its own.
    """

    def __init__(
        self,
        task: Task,
        optimizers: Sequence[Optimizer],
        *,
        batch_idx: Callable[[], int],
        accumulate: int = 1,
        clip_value: float | None = None,
        clip_algorithm: str = "norm",
        inside: Sequence[Any] = (),
        monitors: Sequence[Any] = (),
        precision: Any = None,
        compile_option: bool | str = True,
        threads: int | None = None,
        ranks: Any = None,
    ) -> None:
        self.task, self.optimizers, self.batch_idx = task, list(optimizers), batch_idx
        self.ranks = ranks if ranks is not None and ranks.size > 1 else None
        self.accumulate, self.clip_value, self.clip_algorithm = accumulate, clip_value, clip_algorithm
        self.inside, self.monitors = list(inside), list(monitors)
        self.precision = precision
        self.scaler = None if precision is None or not task.automatic_optimization else precision.scaler
        self.parameters = [[p for group in o.param_groups for p in group["params"]] for o in self.optimizers]
        self.run = Steps(self.step, "the training step", compile_option, threads)
        self.finish = self.flush if self.scaler else Steps(self.flush, "the update", compile_option, threads)

    def __call__(self, batch: Any, update: bool, watch: bool, share: Share | None = None) -> tuple[Any, Logged, Fed]:
        more = () if share is None or share.weight == 1.0 else (share.weight,)
        with contextlib.nullcontext() if self.ranks is None or share is None else self.ranks.drawing(share):
            return self._called(batch, update, watch, more)

    def _called(self, batch: Any, update: bool, watch: bool, more: tuple[float, ...]) -> tuple[Any, Logged, Fed]:
        if self.scaler is None:
            return self.run(batch, update, watch, *more)
        loss, values, fed = self.run(batch, False, False, *more)
        return loss, (values | self.flush(watch) if update else values), fed  # whether to step shows in the gradients

    def step(self, batch: Any, update: bool, watch: bool, weight: float = 1.0) -> tuple[Any, Logged, Fed]:
        """What is compiled. weight: of this rank's loss in the mean over ranks, where their parts of a batch differ."""
        recorder = self.task.recorder
        recorder.begin()
        index = live_number(self.batch_idx, "batch_idx")
        with self._casting():
            if self.task.automatic_optimization:
                loss = self._automatic(batch, index, update, watch, weight)
            else:
                loss = self._manual(batch, index)
        return loss, recorder.values, recorder.fed

    def flush(self, watch: bool) -> Logged:
        """The update alone: at the end of an epoch whose last accumulation is not full, or after scaled gradients."""
        self.task.recorder.begin()
        for number in range(len(self.optimizers)):
            self._update(number, watch)
        if self.scaler is not None:
            self.task.recorder.log("loss_scale", self.scaler.get_scale(), False, 0)
            self.scaler.update()
        return self.task.recorder.values

    def _casting(self) -> Any:
        return contextlib.nullcontext() if self.precision is None else self.precision.casting(self.task)

    def _automatic(self, batch: Any, index: Any, update: bool, watch: bool, weight: float) -> Any:
        losses = []
        for number, optimizer in enumerate(self.optimizers):
            if needs_closure(type(optimizer)):
                losses.append(self._closure_step(batch, index, number, weight))
                continue
            loss = self._loss(batch, index, number)
            if loss is None:
                continue
            self._backward(loss, number, weight)
            if update:
                self._update(number, watch)
            losses.append(loss.detach())
        return sum(losses[1:], losses[0]) if losses else None

    def _loss(self, batch: Any, index: Any, number: int) -> Tensor | None:
        several = len(self.optimizers) > 1
        return loss_of(self.task.call("training_step", batch, index, number if several else None), "training_step")

    def _backward(self, loss: Tensor, number: int, weight: float) -> None:
        scaled = loss if weight == 1.0 else loss * weight
        scaled = scaled if self.accumulate == 1 else scaled / self.accumulate
        scaled = scaled if self.scaler is None else self.scaler.scale(scaled)
        scaled.backward(inputs=self.parameters[number])

    def _update(self, number: int, watch: bool) -> None:
        """Clip, step and forget the gradients of one optimiser; monitors look before and after."""
        optimizer, task = self.optimizers[number], self.task
        looking = [*self.inside, *(self.monitors if watch else ())]
        if self.ranks is not None:
            self.ranks.average(self.parameters[number])
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)
        if self.clip_value is not None:
            norm = clip(self.parameters[number], self.clip_value, self.clip_algorithm)
            if norm is not None:
                name = "grad_norm" if len(self.optimizers) == 1 else f"grad_norm_{number}"
                task.recorder.log(name, norm, False, 1)
        kept = [monitor.before_update(task, optimizer) for monitor in looking]
        optimizer.step() if self.scaler is None else self.scaler.step(optimizer)
        with no_grad():
            for monitor, before in zip(looking, kept, strict=True):
                for name, value in (monitor.after_update(task, optimizer, before) or {}).items():
                    task.recorder.log(name, value, False, 0)  # no mean over the epoch
        optimizer.zero_grad()

    def _closure_step(self, batch: Any, index: Any, number: int, weight: float) -> Any:
        """An optimiser that evaluates the loss several times in a step."""
        first: list[Tensor] = []

        def closure() -> Tensor:
            self.optimizers[number].zero_grad()
            loss = self._loss(batch, index, number)
            loss = loss if weight == 1.0 else loss * weight
            loss.backward(inputs=self.parameters[number])
            if self.ranks is not None:
                self.ranks.average(self.parameters[number])
                loss = self.ranks.mean(loss)
            if self.clip_value is not None:
                clip(self.parameters[number], self.clip_value, self.clip_algorithm)
            if not first:
                first.append(loss.detach())
            return loss

        self.optimizers[number].step(closure)
        self.optimizers[number].zero_grad()
        return first[0]

    def _manual(self, batch: Any, index: Any) -> Any:
        """The task steps its optimisers itself; to what stands around an update, averages say, that is one of each."""
        task = self.task
        around = [(callback, optimizer) for optimizer in self.optimizers for callback in self.inside]
        kept = [callback.before_update(task, optimizer) for callback, optimizer in around]
        loss = loss_of(task.call("training_step", batch, index), "training_step", needed=False)
        with no_grad():
            for (callback, optimizer), before in zip(around, kept, strict=True):
                callback.after_update(task, optimizer, before)
        return None if loss is None else loss.detach()


class EvalStep:
    """A validation, test or prediction step: `batch` → (output, logged, fed), without gradients."""

    def __init__(
        self,
        task: Task,
        step: str,
        *,
        precision: Any = None,
        compile_option: bool | str = True,
        threads: int | None = None,
    ) -> None:
        self.task, self.step, self.precision = task, step, precision
        self.number = 0  # of the batch
        names = {"validation_step": "the validation step", "test_step": "the test step"}
        self.run = Steps(self._step, names.get(step, "the prediction"), compile_option, threads)

    def __call__(self, batch: Any) -> tuple[Any, Logged, Fed]:
        with no_grad():
            return self.run(batch)

    def _step(self, batch: Any) -> tuple[Any, Logged, Fed]:
        recorder = self.task.recorder
        recorder.begin()
        index = live_number(lambda: self.number, "batch_idx")
        with contextlib.nullcontext() if self.precision is None else self.precision.casting(self.task):
            output = self.task.call(self.step, batch, index)
        if self.step == "predict_step":
            return output, recorder.values, recorder.fed
        return loss_of(output, self.step, needed=False), recorder.values, recorder.fed


@functools.cache
def needs_closure(kind: type[Optimizer]) -> bool:
    """Whether `step` of such optimisers computes the loss itself, perhaps several times (LBFGS)."""
    parameter = inspect.signature(kind.step).parameters.get("closure")
    return parameter is not None and parameter.default is parameter.empty


def loss_of(output: Any, step: str, needed: bool = True) -> Tensor | None:
    """The loss that a step returned: a scalar, or the entry 'loss' of a dict. None: there is none."""
    if isinstance(output, dict):
        if "loss" not in output and needed:
            raise OptionError(f"{step}: the returned dict needs an entry 'loss', it has {sorted(map(str, output))}")
        output = output.get("loss")
    if output is None:
        return None
    if not isinstance(output, Tensor) or output.numel() != 1:
        if not needed:
            return None
        shape = f"a tensor of shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise OptionError(f"{step}: expected a scalar loss (or a dict with 'loss', or None), got {shape}")
    return output.reshape(())  # (1,) or () → ()
