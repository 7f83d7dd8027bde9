"""Training on views of unlabelled examples, whatever the model: the step and what it logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import optim
from ...optim import Optimizer
from ...tensor import Tensor
from ...train import Task
from .base import SelfSupervised
from .collapse import std_of_l2_normalized

__all__ = ["ViewTraining"]


class ViewTraining(Task):
    """One step: the target follows, the loss of the views falls. Labels in a batch are not looked at.

    Batches are ((view, view, …), …), as `on_views` makes them, or (examples, …) for models of a single view. Logged are the loss
    and `spread`, the deviation of normalised projections times √P: about 1 where they go all ways, 0 after a collapse.
    optimizer: `fn(parameters)` → Optimizer; Adam(lr=1e-3) if it is None
    scheduler: `fn(optimizer)` → schedule, or → {'scheduler', 'interval': 'step', …}
    """

    def __init__(
        self,
        model: SelfSupervised,
        optimizer: Callable[[Any], Optimizer] | None = None,
        scheduler: Callable[[Optimizer], Any] | None = None,
    ) -> None:
        super().__init__()
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler

    def forward(self, x: Tensor) -> Tensor:
        return self.model.embed(x)

    def training_step(self, batch: Any) -> Tensor:
        given = batch[0] if isinstance(batch, (tuple, list)) else batch
        self.model.follow()
        loss, z = self.model.outputs(*(given if isinstance(given, (tuple, list)) else (given,)))
        self.log("train_loss", loss, prog_bar=True)
        self.log("spread", std_of_l2_normalized(z) * z.shape[1] ** 0.5, prog_bar=True)
        return loss

    def configure_optimizers(self) -> Any:
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        optimizer = optim.Adam(parameters, lr=1e-3) if self.optimizer is None else self.optimizer(parameters)
        if self.scheduler is None:
            return optimizer
        return {"optimizer": optimizer, "lr_scheduler": self.scheduler(optimizer)}
