"""Two players trained in turns, both updates in one compiled step (N1 algorithm 9.1)."""

from __future__ import annotations

from typing import Any

from ... import optim
from ...errors import OptionError, ShapeError
from ...optim.swa_utils import AveragedModel, get_ema_avg_fn
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
    average: the decay of a moving average of the generator's side, kept in `averaged` with its buffers as they are now; 0
        keeps none. `averaged_model()` draws with it.
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
        average: float = 0.0,
    ) -> None:
        super().__init__()
        if steps < 1:
            raise OptionError(f"AdversarialTraining: expected steps, k, to be at least 1, got {steps}")
        self.model, self.rates, self.betas, self.steps, self.clip = model, rates, betas, steps, clip
        self.averaged = AveragedModel(model, avg_fn=get_ema_avg_fn(average)) if average else None
        if self.averaged is not None:
            self.averaged.requires_grad_(False)

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
        if self.averaged is not None:
            self.averaged.update_parameters(model)
        self.log("discriminator_loss", told, prog_bar=True)
        self.log("generator_loss", drawn, prog_bar=True)
        return told.detach() + drawn.detach()

    def configure_optimizers(self) -> Any:
        sides = self.model.generator_parameters(), self.model.discriminator_parameters()
        return [optim.Adam(list(side), lr=rate, betas=self.betas) for side, rate in zip(sides, self.rates, strict=True)]

    def averaged_model(self) -> AdversarialModel:
        """The model with averaged weights, or as it is where no average is kept."""
        return self.model if self.averaged is None else self.averaged.module


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
