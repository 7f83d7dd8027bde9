"""Parts of images taken away or exchanged: random erasing, MixUp and CutMix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import OptionError, ShapeError
from ...tensor import Tensor, wrap
from .base import Augmentation, Generators, Source, Transform, bounds, filling, finished, opened, probability
from .resize import random_boxes

__all__ = ["CutMix", "MixUp", "RandomErasing"]


class RandomErasing(Transform):
    """A rectangle overwritten, with probability p (Zhong et al. 2017): a share `scale` of the area, sides in `ratio`.

    value: one number, one for each channel, or "random" for standard normal noise (for normalised images)
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3),
        value: Any = 0,
    ) -> None:
        self.p, self.value = probability(p, "RandomErasing"), value
        self.scale, self.ratio = bounds(scale, "RandomErasing: scale"), bounds(ratio, "RandomErasing: ratio")
        if isinstance(value, str) and value != "random":
            raise OptionError(f"RandomErasing: expected a value, one for each channel, or 'random'; got {value!r}")

    def apply(self, images: NDArray, source: Source) -> NDArray:
        c, h, w = images.shape[1:]
        chosen, boxes = self.draw(source, h, w)
        new = source.normal(c, h, w) if isinstance(self.value, str) else filling(self.value, c, "RandomErasing")
        inside = chosen[:, None, None, None] & within(boxes, h, w)
        return np.where(inside, finished(np.asarray(new), images.dtype), images)

    def draw(self, source: Source, h: int, w: int) -> tuple[NDArray, NDArray]:
        """Which images, (N,) bool, and the rectangles (top, left, height, width), (N, 4); whole images stay."""
        boxes, fits = random_boxes(source, h, w, self.scale, self.ratio)
        fits &= (boxes[:, 2] < h) & (boxes[:, 3] < w)
        return fits & (source.uniform() < self.p), boxes


class _Mixing(Augmentation):
    """A transform of batches (images, labels): each image with its neighbour in the batch, the last one's being first.

    Labels come out as probabilities (N, num_classes), float32; labels that are already so are mixed as they are.
    λ ~ Beta(alpha, alpha) is drawn for each image.
    """

    def __init__(self, alpha: float = 1.0, num_classes: int | None = None) -> None:
        if alpha <= 0:
            raise OptionError(f"{type(self).__name__}: expected alpha above 0, got {alpha}")
        self.alpha, self.num_classes = alpha, num_classes

    def __call__(self, batch: tuple[Tensor, Tensor], generator: Generators = None) -> tuple[Tensor, Tensor]:
        x, y = batch
        images, restore = opened(x, type(self).__name__)
        labels = self._probabilities(y)
        if len(labels) != len(images):
            raise ShapeError(f"{type(self).__name__}: {len(images)} images and {len(labels)} labels")
        source = Source.of(generator, len(images), type(self).__name__)
        mixed, share = self.mix(images, self.draw(source), source)
        share = share.astype(np.float32)[:, None]
        return restore(mixed), wrap(share * labels + (1 - share) * np.roll(labels, 1, 0))

    def draw(self, source: Source) -> NDArray:
        """λ = a / (a + b), a and b ~ Gamma(alpha). Shape: (N,)"""
        first, second = source.gamma(self.alpha), source.gamma(self.alpha)
        return first / (first + second)

    def mix(self, images: NDArray, share: NDArray, source: Source) -> tuple[NDArray, NDArray]:
        """The mixed images, and the share of each that is its own."""
        raise NotImplementedError

    def _probabilities(self, y: Any) -> NDArray[np.float32]:
        labels = y.array if isinstance(y, Tensor) else np.asarray(y)
        if labels.ndim == 2:
            return labels.astype(np.float32)
        if labels.ndim != 1 or labels.dtype.kind not in "iu" or self.num_classes is None:
            raise OptionError(
                f"{type(self).__name__}: expected integer labels (N,) and num_classes, or probabilities (N, num_classes); "
                f"got {labels.dtype} {labels.shape} and num_classes={self.num_classes}"
            )
        if labels.size and not (labels.min() >= 0 and labels.max() < self.num_classes):
            raise OptionError(f"{type(self).__name__}: expected labels in [0, {self.num_classes}), got {labels.max()}")
        return np.eye(self.num_classes, dtype=np.float32)[labels]


class MixUp(_Mixing):
    """x = λ x₁ + (1 − λ) x₂, and so the labels (Zhang et al. 2018). λ ~ Beta(alpha, alpha)

    >>> loader = DataLoader(data, batch_size=64, shuffle=True, batch_transform=MixUp(0.2, num_classes=10))
    """

    def mix(self, images: NDArray, share: NDArray, source: Source) -> tuple[NDArray, NDArray]:
        own = share[:, None, None, None].astype(np.float32)
        mixed = own * images.astype(np.float32) + (1 - own) * np.roll(images, 1, 0).astype(np.float32)
        return finished(mixed, images.dtype), share


class CutMix(_Mixing):
    """A rectangle of the neighbour pasted in, labels in the ratio of areas (Yun et al. 2019).

    The rectangle has sides √(1 − λ) of the image's and its center anywhere, so part of it may lie outside.
    """

    def mix(self, images: NDArray, share: NDArray, source: Source) -> tuple[NDArray, NDArray]:
        size = np.array(images.shape[2:])  # (h, w)
        half = np.sqrt(1 - share)[:, None] * size / 2
        middle = source.uniform(2) * size
        first, last = np.rint(np.clip(middle - half, 0, size)), np.rint(np.clip(middle + half, 0, size))
        boxes = np.concatenate([first, last - first], 1)  # (N, 4)
        mixed = np.where(within(boxes, *images.shape[2:]), np.roll(images, 1, 0), images)
        return mixed, 1 - (last - first).prod(1) / max(size.prod(), 1)


def within(boxes: NDArray, h: int, w: int) -> NDArray[np.bool_]:
    """Which pixels lie in (top, left, height, width). Shape: (N, 4) → (N, 1, H, W)"""
    top, left, height, width = boxes.T[..., None]  # (N, 1) each
    row, column = np.arange(h), np.arange(w)
    rows, columns = (row >= top) & (row < top + height), (column >= left) & (column < left + width)
    return rows[:, None, :, None] & columns[:, None, None, :]
