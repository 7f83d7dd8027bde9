"""Whole batches mixed: MixUp and CutMix with torchvision's arguments, called with images and labels."""

from __future__ import annotations

from typing import Any

from ....data import augment
from ....tensor import Tensor

__all__ = ["CutMix", "MixUp"]


class MixUp(augment.MixUp):
    """x = λ x₁ + (1 − λ) x₂ of neighbours in the batch, and so the labels. λ ~ Beta(alpha, alpha), for each image."""

    def __init__(self, *, alpha: float = 1.0, num_classes: int | None = None) -> None:
        super().__init__(alpha, num_classes)

    def __call__(self, *batch: Any) -> tuple[Tensor, Tensor]:
        return super().__call__(batch if len(batch) > 1 else batch[0])


class CutMix(augment.CutMix):
    """A rectangle of the neighbour pasted in, labels in the ratio of areas. λ ~ Beta(alpha, alpha), for each image."""

    def __init__(self, *, alpha: float = 1.0, num_classes: int | None = None) -> None:
        super().__init__(alpha, num_classes)

    def __call__(self, *batch: Any) -> tuple[Tensor, Tensor]:
        return super().__call__(batch if len(batch) > 1 else batch[0])
