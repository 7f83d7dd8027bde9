"""A task over a whole loader without training: figures, or predictions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import weft

from ...errors import OptionError
from ...tensor import Tensor
from ...utils.pytree import tree_flatten, tree_unflatten
from .record import Means, batch_size_of

if TYPE_CHECKING:
    from ..task import Task
    from ..trainer import Trainer

__all__ = ["evaluate", "predict"]

LOSSES = {"validation_step": "val_loss", "test_step": "test_loss"}


def evaluate(trainer: Trainer, task: Task, loader: Iterable[Any], step: str) -> dict[str, float]:
    """Means of what the step logs over all batches, weighted with their sizes, and the metrics it feeds."""
    if not task.defines(step):
        raise OptionError(f"{type(task).__name__} does not define {step}")
    means, fed_names = Means(), set()
    recorder, ranks = task.recorder, trainer.ranks
    ranks.start()
    loader = ranks.loader(loader)
    for number, (batch, (loss, values, fed)) in enumerate(_outputs(trainer, task, loader, step)):
        size = ranks.shares(loader, number, batch_size_of(batch)).size
        fed = ranks.fed(fed, counts=size > 0)
        loss, values, size, _ = ranks.joint(loss, values, size)
        means.add_all(values, size)
        if loss is not None and LOSSES[step] not in values:
            means.add(LOSSES[step], float(loss), size)
        new = {name for name, _ in fed} - fed_names
        recorder.forget(new)
        fed_names |= new
        recorder.feed(fed)
    return means.compute() | recorder.collect(fed_names)


def predict(trainer: Trainer, task: Task, loader: Iterable[Any]) -> Any:
    """Outputs of `predict_step`, tensors joined along the first dimension; other outputs come as a list of batches."""
    outputs = [output for _, (output, _, _) in _outputs(trainer, task, loader, "predict_step")]
    if not outputs:
        raise OptionError("predict: the loader gave no batch")
    flat = [tree_flatten(output) for output in outputs]
    leaves, spec = flat[0]
    joinable = all(isinstance(x, Tensor) and x.ndim for x in leaves) and all(s == spec for _, s in flat)
    if not joinable:
        return outputs
    return tree_unflatten([weft.cat(parts) for parts in zip(*(part for part, _ in flat), strict=True)], spec)


def _outputs(trainer: Trainer, task: Task, loader: Iterable[Any], step: str) -> Iterator[tuple[Any, Any]]:
    """Batches with what the step makes of them, in evaluation mode."""
    run = trainer.eval_step(task, step)
    limit = trainer.limit_val_batches if step == "validation_step" else None
    limit = int(limit * len(loader)) if isinstance(limit, float) else limit  # type: ignore[arg-type]
    with _evaluating(task), trainer.signals.released():
        for number, batch in enumerate(loader):
            if limit is not None and number >= limit:
                break
            run.number = number
            yield batch, run(batch)


@contextlib.contextmanager
def _evaluating(task: Task) -> Iterator[None]:
    """Every module in evaluation mode, and afterwards as it was."""
    before = [(module, module.training) for module in task.modules()]
    task.eval()
    try:
        yield
    finally:
        for module, training in before:
            module.training = training
