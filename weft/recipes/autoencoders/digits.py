"""What the recipes of this folder share: MNIST as rows of pixels, and pictures of what models make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import weft

from ...data.sources import MNIST
from ...tensor import Tensor
from ..base import Root, Splits
from ..settings import TrainSettings
from ..shared import Pair, loaders

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PIXELS", "beside", "digit_rows", "digit_splits", "filters"]

PIXELS = 784


def digit_rows(root: Root, train: bool, limit: int | None = None) -> Pair:
    """Images as rows of brightness in [0, 1], and their labels: (N, 784), (N,)."""
    images, labels = MNIST(root=root, train=train, download=root is None).as_tensors(normalize=False).tensors
    return images[:limit].flatten(1), labels[:limit]


def digit_splits(settings: TrainSettings, root: Root) -> Splits:
    """Loaders of rows and labels; the first `holdout` training images are for validation."""
    train, test = (digit_rows(root, part, settings.limit) for part in (True, False))
    held = min(settings.holdout, len(train[1]) // 5)
    kept, apart = tuple(part[held:] for part in train), tuple(part[:held] for part in train)
    return loaders(settings, kept, apart if held else None, test)


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
