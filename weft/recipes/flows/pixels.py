"""What recipes of flows on grey MNIST share: the data with noise in its bins, the loss, pictures of samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import weft

from ... import optim
from ...data.sources import MNIST
from ...models.flows.dequantise import Squash
from ...tensor import Tensor
from ...train import Task
from ..base import Root, Splits, Trained
from ..settings import TrainSettings, option
from ..shared import loaders, one_cycle

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["GreySettings", "GreyTask", "GreyTrained", "grey", "in_bins"]

HELD_OUT = 10_000  # of the training images, for validation
LEVELS = 256


@dataclass(kw_only=True)
class GreySettings(TrainSettings):
    """Settings of flows of grey MNIST."""

    batch_size: int = 100
    weight_decay: float = option(0.0, "decay of matrices of weights (AdamW)", at_least=0)
    limit: int | None = option(None, "use only so many images of each part", at_least=1)


class GreyTask(Task):
    """Maximum likelihood of levels k + u, u drawn anew at every step, in bits per dimension with all volumes counted."""

    def __init__(self, model: Any, settings: GreySettings, splits: Splits | None) -> None:
        super().__init__()
        self.model, self.settings = model, settings
        self.schedule = one_cycle(settings, splits, warm_up=0.1)

    def bits(self, batch: Any) -> Tensor:
        """Mean bits per dimension of one draw of u."""
        return self.model.bits_per_dim(batch[0]).mean()

    def training_step(self, batch: Any) -> Tensor:
        loss = self.bits(batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: Any) -> None:
        self.log("val_bpd", self.bits(batch), prog_bar=True)

    def test_step(self, batch: Any) -> None:
        self.log("test_bpd", self.bits(batch))

    def configure_optimizers(self) -> Any:
        settings = self.settings
        kinds = ([p for p in self.parameters() if (p.ndim > 1) is matrix] for matrix in (True, False))
        decays = (settings.weight_decay, 0.0)  # log-scales and biases are not small because they are simple
        groups = [{"params": part, "weight_decay": decay} for part, decay in zip(kinds, decays, strict=True) if part]
        optimizer = optim.AdamW(groups, lr=settings.lr)
        return {"optimizer": optimizer, "lr_scheduler": self.schedule(optimizer)}


class GreyTrained(Trained):
    """A flow of grey images in [0, 1]; a recipe states its model."""

    Settings = GreySettings
    shape: tuple[int, ...] = (784,)

    def data(self, settings: Any, root: Root = None) -> Splits:
        parts = (part.reshape(-1, *self.shape) for part in grey(root, settings.limit))
        train, validation, test = ((part, weft.zeros(len(part))) for part in parts)
        return loaders(settings, train, validation, test)

    def baseline(self, settings: Any, splits: Splits) -> float:
        """Every pixel by itself, with the frequencies of its 256 levels, smoothed by one image of each: bits per pixel."""
        train, test = (part.dataset.tensors[0].flatten(1) for part in (splits.train, splits.test))
        bits = 0.0
        for pixel in range(train.shape[1]):
            seen, asked = ((part[:, pixel] * (LEVELS - 1)).round().to(weft.int64) for part in (train, test))
            counts = weft.bincount(seen, minlength=LEVELS).double() + 1 / LEVELS
            bits -= (counts / counts.sum()).log2()[asked].mean().item()
        return bits / train.shape[1]

    def picture(self, task: Any, splits: Splits) -> Figure | None:
        """Samples above, images of the test set below."""
        from ...inspect.drawing import tiles

        drawn = task.model.sample(32, generator=weft.Generator().manual_seed(1)).reshape(32, -1)
        test = splits.test.dataset.tensors[0].flatten(1)
        rows = weft.cat([drawn, test[:: max(len(test) // 16, 1)][:16]])
        side = round(rows.shape[1] ** 0.5)
        return tiles(rows.reshape(-1, side, side).numpy())


def grey(root: Root, limit: int | None) -> list[Tensor]:
    """Images of training, validation and test in [0, 1]: (N, 1, 28, 28) each. Validation is a fixed draw of the training set."""
    download = root is None
    train, test = (
        MNIST(root, train=part, download=download).as_tensors(normalize=False).tensors[0] for part in (True, False)
    )
    order = weft.randperm(len(train), generator=weft.Generator().manual_seed(0))
    held = min(HELD_OUT, len(train) // 5)
    mixed = test[weft.randperm(len(test), generator=weft.Generator().manual_seed(0))]
    return [part[:limit] for part in (train[order[held:]], train[order[:held]], mixed)]


def in_bins(x: Tensor, alpha: float, seed: int) -> Tensor:
    """Logits of (k + u) / 256 kept α away from 0 and 1, u drawn once: like x."""
    u = weft.rand(x.shape, generator=weft.Generator().manual_seed(seed))
    levels = (x * (LEVELS - 1)).round() + u * (1 - 1e-4)
    return Squash(float(LEVELS), alpha).inverse(levels)[0]
