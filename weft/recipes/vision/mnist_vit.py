"""mnist-vit: a small vision transformer reads MNIST in patches of 4×4 pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import nn
from ...data.augment import RandomAffine, on_images
from ...data.sources import MNIST
from ...errors import OptionError
from ...models.supervised import VisionTransformer
from ..base import Goal, Root, Splits, Trained
from ..baselines import FEATURES_BASELINE, features_accuracy
from ..settings import option
from ..shared import ImageSettings, classifier, classify_digits, image_splits


@dataclass(kw_only=True)
class MnistViTSettings(ImageSettings):
    """Settings of mnist-vit."""

    epochs: int = 6
    lr: float = 2e-3
    weight_decay: float = 0.05
    patch: int = option(4, "pixels along the side of a patch; divides 28", at_least=1, at_most=28)
    layers: int = option(4, "transformer blocks", at_least=1)
    heads: int = option(4, "heads of attention in a block", at_least=1)
    width: int = option(64, "features of a patch; a multiple of the heads", at_least=1)


class MnistViT(Trained):
    """Four blocks of width 64 over 49 patches and a class token; images are turned and shifted a little."""

    title = "MNIST, a small vision transformer"
    Settings = MnistViTSettings
    goal = Goal(
        "test_accuracy",
        at_least=0.975,
        data="MNIST's 10,000 test images",
        baseline=FEATURES_BASELINE,
        margin=0.02,
    )
    example = "a picture of one digit, or an array (28, 28), light ink on a dark ground"

    def data(self, settings: MnistViTSettings, root: Root = None) -> Splits:
        moved = RandomAffine(degrees=10, translate=(0.07, 0.07))
        return image_splits(settings, MNIST, root, on_images(moved))

    def task(self, settings: MnistViTSettings, splits: Splits | None = None) -> nn.Module:
        if 28 % settings.patch or settings.width % settings.heads:
            raise OptionError(
                f"settings: patch must divide 28 and heads must divide width, got patch {settings.patch}, "
                f"heads {settings.heads}, width {settings.width}"
            )
        model = VisionTransformer(
            28,
            settings.patch,
            settings.layers,
            settings.heads,
            settings.width,
            4 * settings.width,
            num_classes=10,
            in_channels=1,
        )
        return classifier(model, settings, splits)

    def baseline(self, settings: MnistViTSettings, splits: Splits) -> float:
        return features_accuracy(splits, settings.seed)

    def predict(self, task: nn.Module, input: Any) -> Any:
        return classify_digits(task, input, 28)


recipe = MnistViT()
