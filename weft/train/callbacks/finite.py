"""A loss that is not finite ends the training, with the reason."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import WeftError
from ...nn.module import Module
from ...random import get_rng_state, set_rng_state
from ...tape.modes import detect_anomaly
from ...tensor import Tensor
from ...utils.pytree import tree_flatten, tree_map
from ..checkpoint import Tree, savable
from ..running.step import loss_of
from .base import Callback

if TYPE_CHECKING:
    from ..task import Task
    from ..trainer import Trainer

__all__ = ["NotFiniteError", "StopOnNaN"]


class NotFiniteError(WeftError, FloatingPointError):
    """The loss became NaN or infinite; the message says where that began."""


class StopOnNaN(Callback):
    """Stop when the loss is NaN or infinite, find out where it began, and leave the weights as they were before.

    The state at the start of the epoch is kept in memory. When the loss is not finite the epoch is repeated from there
    (it runs the same way again) up to the step that went wrong, which is done eagerly: the diagnosis names the batch,
    the first layer or operation whose result is not finite, and the parameters concerned. Training ends with a
    NotFiniteError; the task, and the checkpoint to resume from, hold the last good weights.
    """

    def __init__(self, diagnose: bool = True) -> None:
        self.diagnose = diagnose
        self.start: Tree | None = None

    def on_fit_start(self, trainer: Trainer, task: Task) -> None:
        self._keep(trainer)

    def on_train_epoch_start(self, trainer: Trainer, task: Task) -> None:
        self._keep(trainer)

    def on_validation_end(self, trainer: Trainer, task: Task) -> None:
        if trainer.loop.position.checking:  # it may have drawn random numbers
            self._keep(trainer)

    def _keep(self, trainer: Trainer) -> None:
        if self.diagnose:
            tree = savable(trainer.loop.state(whole=False))
            self.start = tree_map(lambda x: x.clone() if isinstance(x, Tensor) else x, tree)

    def on_train_batch_end(
        self, trainer: Trainer, task: Task, outputs: dict[str, float], batch: Any, batch_idx: int
    ) -> None:
        if math.isfinite(outputs.get("loss", 0.0)):
            return
        text = f"the loss is {outputs['loss']} at epoch {trainer.current_epoch + 1}, batch {batch_idx + 1}"
        again = not hasattr(trainer.loop.train, "__next__")  # a bare iterator cannot be started anew
        if self.diagnose and self.start is not None and again:
            text += ".\n" + self._explain(trainer, task, batch_idx)
        raise NotFiniteError(text)

    def _explain(self, trainer: Trainer, task: Task, batch_idx: int) -> str:
        """Go back to the last good state, and look at the step after it."""
        loop, start = trainer.loop, self.start
        loop.restore(start, "the start of the epoch")
        number, batch = _replay(trainer, task, batch_idx)
        if number < batch_idx:  # it began earlier: weights went bad without the loss showing it
            loop.restore(start, "the start of the epoch")
            number, batch = _replay(trainer, task, number)
        trainer.signals.safe = True  # the state is that between two steps
        found = list(findings(task, batch, loop.position.batch, len(trainer.optimizers)))
        lines = [
            f"It began with batch {number + 1}, step {loop.position.step + 1}:" if found else "It did not come again."
        ]
        lines += [f"  - {line}" for line in found]
        lines.append(
            "The task holds the weights from before that step. Try a lower learning rate, gradient_clip_val=1.0,"
        )
        lines.append("or a safer form of the operation (log_softmax, softplus, clamp, eps in denominators and roots).")
        return "\n".join(lines)


def _replay(trainer: Trainer, task: Task, until: int) -> tuple[int, Any]:
    """Repeat the steps of this epoch before batch `until`; stop after one that leaves weights that are not finite.

    The number of the batch to look at, and the batch.
    """
    loop = trainer.loop
    task.train()
    for batch in loop._from_loader():
        if loop.position.batch == until:
            return until, batch
        loop.silent_step(batch)
        if not all(_finite(p) for p in task.parameters()):
            return loop.position.batch - 1, batch
    raise NotFiniteError("the loader did not give the same batches again")


def findings(task: Task, batch: Any, batch_idx: int, optimizers: int = 1) -> Iterator[str]:
    """What is not finite in one step done eagerly: inputs, weights, the first layer, the operation, gradients."""
    for number, leaf in enumerate(tree_flatten(batch)[0]):
        if isinstance(leaf, Tensor) and not _finite(leaf):
            bad = np.argwhere(~np.isfinite(leaf.detach().numpy()))
            first = tuple(map(int, bad[0]))
            yield f"input {number} of the batch has {len(bad)} elements that are not finite, the first at {first}"
    bad_weights = [name for name, p in task.named_parameters() if not _finite(p)]
    if bad_weights:
        yield f"parameters that are not finite already: {_some(bad_weights)}"
    layers: list[str] = []
    handles = [m.register_forward_hook(_watcher(name, layers)) for name, m in task.named_modules() if name]
    state = get_rng_state()
    _gradients(task, batch, batch_idx, optimizers)
    for handle in handles:
        handle.remove()
    yield from layers[:1]
    bad_gradients = [name for name, p in task.named_parameters() if p.grad is not None and not _finite(p.grad)]
    try:
        set_rng_state(state)
        with detect_anomaly():
            _gradients(task, batch, batch_idx, optimizers)
    except RuntimeError as error:
        yield str(error)
    if bad_gradients:
        yield f"gradients that are not finite: {_some(bad_gradients)}"
    task.zero_grad()


def _gradients(task: Task, batch: Any, batch_idx: int, optimizers: int) -> None:
    """Losses and gradients without an update; a task that updates by itself cannot be asked for them."""
    task.zero_grad()
    if not task.automatic_optimization:
        return
    for number in range(optimizers):
        out = task.call("training_step", batch, batch_idx, number if optimizers > 1 else None)
        loss = loss_of(out, "training_step", needed=False)
        if loss is not None and loss.requires_grad:
            loss.backward()


def _watcher(name: str, found: list[str]) -> Any:
    """A hook that notes a layer whose output is not finite although its inputs are."""

    def look(module: Module, inputs: Any, output: Any) -> None:
        leaves = [x for x in tree_flatten(output)[0] if isinstance(x, Tensor)]
        if all(map(_finite, leaves)):
            return
        given = [x for x in tree_flatten(inputs)[0] if isinstance(x, Tensor)]
        sizes = ", ".join(f"{float(x.detach().abs().max()):.3g}" for x in given if x.numel() and _finite(x))
        if all(map(_finite, given)):
            found.append(
                f"the first layer whose output is not finite: {name} ({type(module).__name__}); its inputs are finite"
                + (f", up to {sizes}" if sizes else "")
            )

    return look


def _finite(x: Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex()) or bool(np.isfinite(x.detach().numpy()).all())


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
