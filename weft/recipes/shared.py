"""What several recipes share: loaders over tensors in memory, and classifiers of images."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import weft

from .. import nn, optim
from ..data import DataLoader, TensorDataset, load_digits
from ..tensor import Tensor
from ..train import Classification
from ..train.supervised import accuracy
from .base import Splits
from .inputs import as_images
from .photos import LEAST_CONTRAST, contrast
from .settings import TrainSettings, option

__all__ = [
    "ImageSettings",
    "Pair",
    "Standardize",
    "classifier",
    "classify_digits",
    "classify_images",
    "conv_block",
    "image_splits",
    "in_order",
    "loaders",
    "one_cycle",
]

Pair = tuple[Tensor, Tensor]  # inputs and targets, as many rows each
AT_ONCE = 500  # examples in one step of a test, where no gradients take memory


def loaders(
    settings: TrainSettings,
    train: Pair,
    validation: Pair | None,
    test: Pair,
    *,
    batch_transform: Any = None,
    at_once: int = AT_ONCE,
) -> Splits:
    """Loaders that shuffle the training part; there the rows left over after the last full batch sit out an epoch.

    So every training step has the same sizes, and one compiled plan serves all of them.
    """
    shuffled = DataLoader(
        TensorDataset(*train),
        batch_size=min(settings.batch_size, len(train[1])),
        shuffle=True,
        drop_last=True,
        seed=settings.seed,
        batch_transform=batch_transform,
    )
    return Splits(shuffled, in_order(validation, at_once) if validation else None, in_order(test, at_once))


def in_order(pair: Pair, at_once: int = AT_ONCE) -> DataLoader:
    """A loader for testing."""
    return DataLoader(TensorDataset(*pair), batch_size=min(at_once, len(pair[1])))


def one_cycle(
    settings: TrainSettings, splits: Splits | None, warm_up: float = 0.25
) -> Callable[[optim.Optimizer], dict[str, Any]]:
    """A schedule for `weft.train`: `settings.lr` times `cycle`, over the steps of all epochs.

    A run that is resumed with more epochs goes on along the longer cycle.
    """
    steps = settings.epochs * len(splits.train) if splits else 1

    def make(optimizer: optim.Optimizer) -> dict[str, Any]:
        rate = optim.lr_scheduler.LambdaLR(optimizer, lambda step: cycle(step / max(steps, 1), warm_up))
        return {"scheduler": rate, "interval": "step"}

    return make


def cycle(done: float, warm_up: float = 0.25) -> float:
    """From 0.04 up to 1 in the first part of the training, then down to 0, along cosines (Smith and Topin, 2018)."""
    if done < warm_up:
        return 1 - 0.96 * (0.5 + 0.5 * math.cos(math.pi * done / warm_up))
    return 0.5 + 0.5 * math.cos(math.pi * min((done - warm_up) / (1 - warm_up), 1.0))


class Standardize(nn.Module):
    """(x − mean) / std of each column, with the figures of the training data: (B, D) → (B, D)."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.register_buffer("mean", weft.zeros(columns))
        self.register_buffer("std", weft.ones(columns))

    def fit(self, x: Tensor) -> None:
        """Take the figures of these rows; missing values (NaN) do not count."""
        self.mean.copy_(x.nanmean(0))
        self.std.copy_(((x - self.mean) ** 2).nanmean(0).sqrt().clamp(min=1e-6))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.std


# ------------------------------------------------------------------------------------------- images


@dataclass(kw_only=True)
class ImageSettings(TrainSettings):
    """Settings of classifiers of images."""

    batch_size: int = 128
    weight_decay: float = option(0.01, "decay of the weights (AdamW)", at_least=0)
    holdout: int = option(5000, "training images kept apart for validation; 0 keeps none", at_least=0)
    limit: int | None = option(None, "use only so many training and test images", at_least=1)


def image_splits(settings: ImageSettings, source: Callable[..., Any], root: Any, batch_transform: Any = None) -> Splits:
    """Loaders of a source of images, in [0, 1]; the first `holdout` training images are for validation."""
    train, test = (
        _images(source(root=root, train=part, download=root is None), settings.limit) for part in (True, False)
    )
    held = min(settings.holdout, len(train[1]) // 5)
    kept, apart = tuple(part[held:] for part in train), tuple(part[:held] for part in train)
    return loaders(settings, kept, apart if held else None, test, batch_transform=batch_transform)


def _images(source: Any, limit: int | None) -> Pair:
    """The tensors of a source: images (N, C, H, W) float32, labels (N,) int64."""
    return tuple(part[:limit] for part in source.as_tensors(normalize=False).tensors)


def classifier(model: nn.Module, settings: ImageSettings, splits: Splits | None) -> Classification:
    """Cross entropy and accuracy, AdamW on a one-cycle schedule."""
    return Classification(
        model,
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        metrics={"accuracy": accuracy},
        scheduler=one_cycle(settings, splits),
    )


def conv_block(inputs: int, outputs: int) -> nn.Sequential:
    """3×3 convolution, batch normalisation, ReLU: (B, inputs, H, W) → (B, outputs, H, W)."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),  # the normalisation has a bias of its own
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


def classify_images(
    task: nn.Module,
    input: Any,
    shape: tuple[int, int, int],
    classes: list[str],
    white: float = 255,
    ink: bool = False,
    known: Callable[[Tensor], list[str | None]] | None = None,
) -> list[dict[str, Any]]:
    """Label and probabilities of one image or several: see `inputs.as_images` for what counts as an image.

    Each also has `done`, what was done to the image, and `refused` with the reason (and no label) where it is blank or
    `known` objects to it. known: images → a reason to refuse each, or None.
    """
    images, done = as_images(input, shape, white, ink)  # (B, C, H, W)
    reasons = [_blank(image) for image in images.numpy()] if ink else [None] * len(images)
    if known is not None:
        reasons = [first or second for first, second in zip(reasons, known(images), strict=True)]
    task.eval()
    with weft.no_grad():
        chances = task(images).softmax(1)  # (B, classes)
    return [_said(row.tolist(), classes, *about) for row, *about in zip(chances, done, reasons, strict=True)]


def _said(chances: list[float], classes: list[str], done: list[str], reason: str | None) -> dict[str, Any]:
    probabilities = {name: round(chance, 4) for name, chance in zip(classes, chances, strict=True)}
    label = None if reason else max(probabilities, key=probabilities.get)
    said = {"label": label, "probability": None if reason else probabilities[label], "probabilities": probabilities}
    return said | ({"done": done} if done else {}) | ({"refused": reason} if reason else {})


def _blank(image: Any) -> str | None:
    found = contrast(image)
    if found >= LEAST_CONTRAST:
        return None
    return f"the picture is blank: its brightness spans {found:.2f} of black to white, {LEAST_CONTRAST} is the least"


# ------------------------------------------------------------------------------------------- digits

DIGITS = [str(digit) for digit in range(10)]
LIKENESS = 0.7  # of the 1,797 digits all but one in a thousand are this like another one


def classify_digits(task: nn.Module, input: Any, side: int, white: float = 255) -> list[dict[str, Any]]:
    """Which digit an image, or each of several, shows; those of 8×8 pixels must resemble a digit that comes with Weft."""
    return classify_images(task, input, (1, side, side), DIGITS, white, ink=True, known=_unlike if side == 8 else None)


def _unlike(images: Tensor) -> list[str | None]:
    """Why images (B, 1, 8, 8) are no digits: the largest correlation with any of those that come with Weft is too low."""
    digits, _ = load_digits()
    likeness = (_units(images.numpy()) @ _units(digits).T).max(1)  # (B, 64) @ (64, 1797) → (B,)
    return [
        None
        if like >= LIKENESS
        else f"it looks like no digit: its correlation with the nearest of {len(digits):,} known digits is {like:.2f}, "
        f"{LIKENESS} is the least"
        for like in likeness
    ]


def _units(images: Any) -> Any:
    """Rows of pixels with mean 0 and length 1: (B, …) → (B, D)."""
    rows = images.reshape(len(images), -1).astype("float64")
    rows = rows - rows.mean(1, keepdims=True)
    return rows / (rows**2).sum(1, keepdims=True).clip(min=1e-12) ** 0.5
