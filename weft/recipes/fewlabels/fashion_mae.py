"""fashion-mae: a masked autoencoder fills in clothes of which it sees a part; a hundred labels name them.

Protocol and what stands beside the figure: `unlabelled.py`. Pictures show what it makes of hidden patches.
Seen (seed 101, ten epochs, 130 seconds of one core of an AMD EPYC (Zen 5) with AVX-512): 0.681 ± 0.009 over draws, the same network
with its first weights 0.523, taught by the hundred labels 0.624, pixels 0.675.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import weft

from ... import nn
from ...data.augment import RandomHorizontalFlip, on_views
from ...inspect.drawing import blank
from ...models.fewlabels.masked_images import MaskedAutoencoder
from ...models.fewlabels.training import ViewTraining
from ...tensor import Tensor
from ..base import Goal, Run
from ..settings import option
from .unlabelled import RANDOM, Unlabelled, UnlabelledSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FashionMAE", "MAESettings", "recipe"]


@dataclass(kw_only=True)
class MAESettings(UnlabelledSettings):
    """Settings of fashion-mae."""

    batch_size: int = 128
    weight_decay: float = 0.05
    patch: int = option(4, "pixels along the side of a patch; divides 28", at_least=1, at_most=14)
    layers: int = option(3, "blocks of the encoder", at_least=1)
    heads: int = option(4, "heads of attention in a block", at_least=1)
    width: int = option(64, "features of a patch; a multiple of the heads", at_least=2)
    mask_ratio: float = option(0.6, "share of the patches that is hidden", above=0, at_most=0.95)


class FashionMAE(Unlabelled):
    """A small vision transformer over the patches that are left, and a decoder of one block."""

    title = "Fashion-MNIST, a masked autoencoder, a linear probe with 100 labels"
    Settings = MAESettings
    goal = Goal(
        "test_accuracy",
        at_least=0.60,
        data="Fashion-MNIST's 10,000 test images, mean over draws of 100 labels",
        baseline=RANDOM,
        margin=0.05,
    )

    def model(self, settings: MAESettings) -> tuple[MaskedAutoencoder, int]:
        model = MaskedAutoencoder(
            28,
            settings.patch,
            num_layers=settings.layers,
            num_heads=settings.heads,
            hidden_dim=settings.width,
            mlp_dim=2 * settings.width,
            decoder_dim=settings.width // 2,
            mask_ratio=settings.mask_ratio,
        )
        return model, settings.width

    def views(self, settings: MAESettings) -> on_views:
        return on_views(RandomHorizontalFlip(), 1)

    def draw(self, run: Run, task: ViewTraining, images: Tensor) -> None:
        run.draw(lambda: _filled(task.model, images[:8]), "reconstructions")


def _filled(model: nn.Module, images: Tensor) -> Figure:
    """What was seen, what was made of it, what it was."""
    generator = weft.Generator().manual_seed(0)
    noise = weft.rand(len(images), model.encoder.seq_length, generator=generator)
    with weft.no_grad():
        found = model.eval().reconstruct(images, noise)
    size = model.encoder.patch_size
    veil = (
        found.mask.unflatten(1, (28 // size, 28 // size)).repeat_interleave(size, 1).repeat_interleave(size, 2).numpy()
    )
    rows: list[Any] = [images[:, 0].numpy() * (1 - veil) + 0.5 * veil, found.filled[:, 0].numpy(), images[:, 0].numpy()]
    figure, axes = blank(3, len(images), 1.0, 1.0)
    for line, shown in zip(axes, rows, strict=True):
        for axis, image in zip(line, shown, strict=True):
            axis.imshow(image, cmap="gray", vmin=0, vmax=1)
            axis.axis("off")
    return figure


recipe = FashionMAE()
