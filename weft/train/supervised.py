"""Ready tasks for batches (x, y): a model, a loss, an optimiser and figures to watch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from .. import optim
from ..errors import OptionError
from ..nn import functional as F
from ..nn.module import Module
from ..optim import Optimizer
from ..tensor import Tensor
from ..utils.pytree import tree_map
from .task import Task

__all__ = ["Classification", "Regression", "Supervised"]

Function = Callable[[Any, Any], Any]


class Supervised(Task):
    """A model that learns y from x by a loss(model(x), y).

    optimizer: `fn(parameters)` → Optimizer, or an Optimizer; Adam(lr=1e-3) if it is None.
    scheduler: `fn(optimizer)` → schedule (stepped every epoch), or → {'scheduler', 'interval': 'step', …}.
    metrics: name → Metric (with update, compute and reset: exact over the epoch) or name → function(prediction, y) →
    scalar (the mean over the batches, weighted with their sizes). Logged: train_loss, val_loss, test_loss, and
    train_name, val_name, test_name for every metric.

    >>> task = Supervised(model, nn.functional.mse_loss, lambda p: weft.optim.SGD(p, lr=0.1))
    """

    def __init__(
        self,
        model: Module,
        loss: Function,
        optimizer: Callable[[Any], Optimizer] | Optimizer | None = None,
        metrics: Mapping[str, Any] | None = None,
        scheduler: Callable[[Optimizer], Any] | None = None,
    ) -> None:
        super().__init__()
        self.model, self.loss = model, loss
        self.optimizer, self.scheduler = optimizer, scheduler
        self.metrics = {stage: _checked(metrics or {}) for stage in ("train", "val", "test")}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.model(*args, **kwargs)

    def training_step(self, batch: Any) -> Tensor:
        return self.shared_step(batch, "train")

    def validation_step(self, batch: Any) -> Tensor:
        return self.shared_step(batch, "val")

    def test_step(self, batch: Any) -> Tensor:
        return self.shared_step(batch, "test")

    def shared_step(self, batch: Any, stage: str) -> Tensor:
        """Loss and metrics of a batch (x, y)."""
        x, y = _pair(batch)
        return self.measured(self(x), y, stage)

    def measured(self, prediction: Any, y: Any, stage: str) -> Tensor:
        """The loss of a prediction, with what is logged of it."""
        loss = self.loss(prediction, y)
        self.log(f"{stage}_loss", loss, prog_bar=True)
        for name, metric in self.metrics[stage].items():
            if hasattr(metric, "update"):
                self.measure(f"{stage}_{name}", metric, prediction, y, prog_bar=True)
            else:
                self.log(f"{stage}_{name}", metric(tree_map(_detached, prediction), y), prog_bar=True)
        return loss

    def configure_optimizers(self) -> Any:
        optimizer = self.optimizer
        if not isinstance(optimizer, Optimizer):
            parameters = [p for p in self.parameters() if p.requires_grad]
            optimizer = optim.Adam(parameters, lr=1e-3) if optimizer is None else optimizer(parameters)
        if self.scheduler is None:
            return optimizer
        return {"optimizer": optimizer, "lr_scheduler": self.scheduler(optimizer)}


class Classification(Supervised):
    """A model whose outputs are the scores (logits) of classes: (B, C) or (B, C, …) with int64 labels (B) or (B, …).

    Loss: cross entropy; metrics: 'accuracy', unless others are given.
    """

    def __init__(
        self,
        model: Module,
        num_classes: int | None = None,
        lr: float = 1e-3,
        *,
        optimizer: Callable[[Any], Optimizer] | Optimizer | None = None,
        metrics: Mapping[str, Any] | None = None,
        scheduler: Callable[[Optimizer], Any] | None = None,
        weight: Tensor | None = None,
        label_smoothing: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        chosen = optimizer or _adam(lr, weight_decay)
        super().__init__(
            model, self.cross_entropy, chosen, {"accuracy": accuracy} if metrics is None else metrics, scheduler
        )
        self.num_classes, self.label_smoothing = num_classes, label_smoothing
        self.register_buffer("weight", weight)

    def cross_entropy(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The loss; while training labels are smoothed."""
        if self.num_classes is not None and scores.shape[1] != self.num_classes:
            raise OptionError(
                f"Classification: the model gives {scores.shape[1]} scores, num_classes is {self.num_classes}"
            )
        smoothing = self.label_smoothing if self.training else 0.0
        return F.cross_entropy(scores, labels, weight=self.weight, label_smoothing=smoothing)

    def predict_step(self, batch: Any) -> Tensor:
        """Probabilities of the classes."""
        return super().predict_step(batch).softmax(1)


class Regression(Supervised):
    """A model of numbers, with the mean squared error (or another loss) and the mean absolute error 'mae'."""

    def __init__(
        self,
        model: Module,
        lr: float = 1e-3,
        *,
        loss: Function = F.mse_loss,
        optimizer: Callable[[Any], Optimizer] | Optimizer | None = None,
        metrics: Mapping[str, Any] | None = None,
        scheduler: Callable[[Optimizer], Any] | None = None,
        weight_decay: float = 0.0,
    ) -> None:
        chosen = optimizer or _adam(lr, weight_decay)
        super().__init__(model, loss, chosen, {"mae": F.l1_loss} if metrics is None else metrics, scheduler)


def accuracy(scores: Tensor, labels: Tensor) -> Tensor:
    """The share of labels that have the highest score, in float64: (B, C, …), (B, …) → ()."""
    return (scores.argmax(1) == labels).double().mean()


def _adam(lr: float, weight_decay: float) -> Callable[[Any], Optimizer]:
    if weight_decay:
        return lambda parameters: optim.AdamW(parameters, lr=lr, weight_decay=weight_decay)
    return lambda parameters: optim.Adam(parameters, lr=lr)


def _checked(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics of one stage: those with a state are copies, one for each stage."""
    for name, metric in metrics.items():
        if not (callable(metric) or hasattr(metric, "update")):
            raise OptionError(f"metrics[{name!r}]: expected a Metric or a function, got {type(metric).__name__}")
    return {name: copy.deepcopy(metric) if hasattr(metric, "update") else metric for name, metric in metrics.items()}


def _pair(batch: Any) -> tuple[Any, Any]:
    if isinstance(batch, (tuple, list)) and len(batch) == 2:
        return batch[0], batch[1]
    what = f"{type(batch).__name__} of {len(batch)}" if isinstance(batch, (tuple, list, dict)) else type(batch).__name__
    raise OptionError(f"expected batches (x, y), got a {what}; define training_step in a subclass of Task")


def _detached(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, Tensor) else leaf
