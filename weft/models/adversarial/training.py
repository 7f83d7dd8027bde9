"""Two players trained in turns, both updates in one compiled step (N1 algorithm 9.1)."""

from __future__ import annotations

from typing import Any

from ... import optim
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ...train import Task
from .base import AdversarialModel

__all__ = ["AdversarialTraining"]


class AdversarialTraining(Task):
    """k steps of the discriminator, each on its own examples and draws, then one of the generator.

    A batch from the loader has k · B examples, which the k steps share out; the last B also tell the generator's step its
    size and condition. All of it is one native plan.

    rates: learning rates of generator and discriminator (two time scales: Heusel et al. 2017)
    betas: of Adam; 0 is usual for the first, since gradients of a moving opponent are better forgotten
    steps: k
    clip: each weight of the discriminator is kept in [−clip, clip] (WGAN); None leaves them
    epochs: how long the training is, so that both rates fall along a line to 0 in its second half; None keeps them

    `EMA(part="model.generator")` among the trainer's callbacks averages the generator, inside of the same plan.
    """

    automatic_optimization = False

    def __init__(
        self,
        model: AdversarialModel,
        rates: tuple[float, float] = (1e-4, 4e-4),
        *,
        betas: tuple[float, float] = (0.0, 0.9),
        steps: int = 1,
        clip: float | None = None,
        epochs: int | None = None,
    ) -> None:
        super().__init__()
        if steps < 1:
            raise OptionError(f"AdversarialTraining: expected steps, k, to be at least 1, got {steps}")
        self.model, self.rates, self.betas = model, rates, betas
        self.steps, self.clip, self.epochs = steps, clip, epochs

    def training_step(self, batch: Any) -> Tensor:
        model, (drawing, telling) = self.model, self.optimizers()
        parts = shared_out(batch, self.steps)
        for part in parts:
            told = model.discriminator_loss(part)
            _stepped(told, telling)
            if self.clip is not None:
                model.clip_weights(self.clip)
        drawn = model.generator_loss(parts[-1])
        _stepped(drawn, drawing)
        self.log("discriminator_loss", told, prog_bar=True)
        self.log("generator_loss", drawn, prog_bar=True)
        return told.detach() + drawn.detach()

    def configure_optimizers(self) -> Any:
        sides = self.model.generator_parameters(), self.model.discriminator_parameters()
        made = [optim.Adam(list(side), lr=rate, betas=self.betas) for side, rate in zip(sides, self.rates, strict=True)]
        if self.epochs is None:
            return made
        return made, [optim.lr_scheduler.LambdaLR(optimizer, self._kept) for optimizer in made]

    def on_train_epoch_end(self) -> None:
        for schedule in self.lr_schedulers() if self.epochs is not None else ():
            schedule.step()

    def _kept(self, epoch: int) -> float:
        """The share of the rates in an epoch."""
        return max(min(1.0, 2 * (1 - epoch / max(self.epochs, 1))), 0.0)


def shared_out(batch: Any, k: int) -> list[Any]:
    """A batch cut into k of equal size: x, or a tuple of tensors with as many rows each."""
    tensors = [batch] if isinstance(batch, Tensor) else list(batch)
    rows = len(tensors[0])
    if rows % k or not rows:
        raise ShapeError(f"AdversarialTraining: a batch of {rows} examples cannot be shared out to {k} equal steps")
    cut = [x.split(rows // k) for x in tensors]
    return list(cut[0]) if isinstance(batch, Tensor) else list(zip(*cut, strict=True))


def _stepped(loss: Tensor, optimizer: optim.Optimizer) -> None:
    """The slopes of one player's parameters alone, its update, and nothing left behind."""
    loss.backward(inputs=[p for group in optimizer.param_groups for p in group["params"]])
    optimizer.step()
    optimizer.zero_grad()
