"""cifar10-resnet20: the smallest residual network of He et al. (2015) on 10,000 images of CIFAR-10."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import nn
from ...data.augment import Compose, RandomCrop, RandomErasing, RandomHorizontalFlip, on_images
from ...data.sources import CIFAR10
from ...models.supervised import resnet20
from ..base import Goal, Root, Splits, Trained
from ..baselines import FEATURES_BASELINE, features_accuracy
from ..shared import ImageSettings, classifier, classify_images, image_splits


@dataclass(kw_only=True)
class Cifar10ResNetSettings(ImageSettings):
    """Settings of cifar10-resnet20."""

    epochs: int = 30
    batch_size: int = 64
    lr: float = 0.01
    weight_decay: float = 0.05
    holdout: int = 500
    limit: int | None = 10_000


class Cifar10ResNet(Trained):
    """Twenty layers, 0.27 million parameters; images are shifted, mirrored and partly covered."""

    title = "CIFAR-10, the subset of 10,000 images, ResNet-20"
    Settings = Cifar10ResNetSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.68,
        data="CIFAR-10's test images (the first 2,000 in the subset)",
        baseline=FEATURES_BASELINE,
        margin=0.2,
    )
    example = "a picture, or an array (3, 32, 32)"

    def data(self, settings: Cifar10ResNetSettings, root: Root = None) -> Splits:
        moved = Compose([RandomCrop(32, padding=4), RandomHorizontalFlip(), RandomErasing(0.25)])
        return image_splits(settings, CIFAR10, root, on_images(moved))

    def task(self, settings: Cifar10ResNetSettings, splits: Splits | None = None) -> nn.Module:
        return classifier(resnet20(num_classes=10), settings, splits)

    def baseline(self, settings: Cifar10ResNetSettings, splits: Splits) -> float:
        return features_accuracy(splits, settings.seed)

    def predict(self, task: nn.Module, input: Any) -> Any:
        return classify_images(task, input, (3, 32, 32), list(CIFAR10.classes))


recipe = Cifar10ResNet()
