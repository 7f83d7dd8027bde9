"""Classifiers that see an image as a row of pixels: linear ones and MLPs on MNIST, Fashion-MNIST and CIFAR-10 (N1 §1.7)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from ... import nn
from ...data.augment import RandomHorizontalFlip, on_images
from ...data.sources import MNIST
from ...models.classical.linear_models import SoftmaxRegression
from ...models.classical.mlp import MLP
from ..base import Root, Splits, Trained
from ..baselines import features_accuracy, pixels_accuracy
from ..settings import option
from ..shared import ImageSettings, classifier, classify_digits, classify_images, image_splits

__all__ = ["LinearOnPixels", "MLPOnPixels", "MLPSettings"]


@dataclass(kw_only=True)
class MLPSettings(ImageSettings):
    """Settings of networks with hidden layers."""

    hidden: tuple[int, ...] = option((256, 256), "widths of the hidden layers", at_least=1)
    dropout: float = option(0.2, "share of hidden units left out at each step", at_least=0, at_most=0.9)
    normalized: bool = option(False, "batch normalisation in the hidden layers")


class Pixels(Trained):
    """What these recipes share; each says where its images come from, and how large they are."""

    source: ClassVar[Any]
    shape: ClassVar[tuple[int, int, int]]  # channels, height, width
    mirrored: ClassVar[bool] = False  # training images are mirrored at random

    def data(self, settings: ImageSettings, root: Root = None) -> Splits:
        return image_splits(settings, self.source, root, on_images(RandomHorizontalFlip()) if self.mirrored else None)

    def predict(self, task: nn.Module, input: Any) -> Any:
        if self.source is MNIST:
            return classify_digits(task, input, 28)
        return classify_images(task, input, self.shape, list(self.source.classes))


class LinearOnPixels(Pixels):
    """p(class | x) = softmax(W x + b)."""

    def task(self, settings: ImageSettings, splits: Splits | None = None) -> nn.Module:
        model = nn.Sequential(nn.Flatten(), SoftmaxRegression(math.prod(self.shape), 10))
        return classifier(model, settings, splits)

    def baseline(self, settings: ImageSettings, splits: Splits) -> float:
        return pixels_accuracy(splits)


class MLPOnPixels(Pixels):
    """Pixels → hidden layers with ReLU and dropout → 10 scores."""

    def task(self, settings: MLPSettings, splits: Splits | None = None) -> nn.Module:
        norm = "batch" if settings.normalized else None
        model = MLP(math.prod(self.shape), settings.hidden, 10, dropout=settings.dropout, norm=norm)
        return classifier(nn.Sequential(nn.Flatten(), model), settings, splits)

    def baseline(self, settings: MLPSettings, splits: Splits) -> float:
        return features_accuracy(splits, settings.seed)
