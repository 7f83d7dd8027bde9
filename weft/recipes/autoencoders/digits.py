"""What the recipes of this folder share: MNIST as rows of pixels, and pictures of what models make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import weft

from ... import optim
from ...data.sources import MNIST
from ...models.autoencoders.autoencoder import Autoencoder
from ...tensor import Tensor
from ..base import Root, Splits
from ..shared import Pair, cycle, loaders

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PIXELS", "beside", "digit_rows", "digit_splits", "filters", "trained"]

PIXELS = 784


def digit_rows(root: Root, train: bool, limit: int | None = None) -> Pair:
    """Images as rows of brightness in [0, 1], and their labels: (N, 784), (N,)."""
    images, labels = MNIST(root=root, train=train, download=root is None).as_tensors(normalize=False).tensors
    return images[:limit].flatten(1), labels[:limit]


def digit_splits(settings: Any, root: Root) -> Splits:
    """Loaders of rows and labels; the first `holdout` training images are for validation."""
    train, test = (digit_rows(root, part, settings.limit) for part in (True, False))
    held = min(settings.holdout, len(train[1]) // 5)
    kept, apart = tuple(part[held:] for part in train), tuple(part[:held] for part in train)
    return loaders(settings, kept, apart if held else None, test)


def trained(model: Autoencoder, settings: Any, splits: Splits, log: Callable | None = None) -> Autoencoder:
    """A model after `epochs` of Adam along one cycle, whose noise has a generator of its own; the loss of each is logged."""
    generator = weft.Generator().manual_seed(settings.seed)
    optimizer = optim.Adam(model.parameters(), lr=settings.lr)

    @weft.compile
    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model.loss(x, generator)
        loss.backward()
        optimizer.step()
        return loss.detach()

    count = len(splits.train)
    for epoch in range(settings.epochs):
        total = 0.0
        for number, (x, _) in enumerate(splits.train):
            optimizer.param_groups[0]["lr"] = settings.lr * cycle((epoch + number / count) / settings.epochs, 0.1)
            total += step(x).item()
        if log:
            log({"kind": "epoch", "epoch": epoch, "step": (epoch + 1) * count, "train_loss": total / count})
    return model


def beside(x: Tensor, *models: Any) -> Figure:
    """Images and, below, what each model makes of them: (8, 784)."""
    from ...inspect.drawing import tiles

    with weft.no_grad():
        rows = weft.cat([x, *(model.reconstruct(x) for model in models)])
    return tiles(rows.clamp(0, 1).reshape(-1, 28, 28).numpy())


def filters(weight: Tensor, side: int = 28) -> Figure:
    """What single units look for: rows of a weight as images, zero in the middle of the colours. (units, side²)"""
    from ...inspect.drawing import tiles

    return tiles(weight.detach().reshape(-1, side, side).numpy(), cmap="RdBu", symmetric=True)
