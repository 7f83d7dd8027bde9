"""Transforms of transforms: in a row, with a probability, one of several; and the adaptor for batches of a loader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import OptionError, ShapeError
from ...ops.create.sample import generator_of
from .base import Augmentation, Generators, Source, Transform, probability

__all__ = ["Compose", "RandomApply", "RandomChoice", "on_images", "on_views"]


class Compose(Augmentation):
    """The transforms one after the other, each with random numbers of its own.

    Plain functions of one argument may stand among them.

    >>> augment = Compose([RandomCrop(32, padding=4), RandomHorizontalFlip(), ColorJitter(0.2, 0.2)])
    >>> loader = DataLoader(data, batch_size=64, shuffle=True, batch_transform=on_images(augment))
    """

    def __init__(self, transforms: Sequence[Callable]) -> None:
        self.transforms = list(transforms)

    def __call__(self, x: Any, generator: Generators = None) -> Any:
        for transform, own in zip(self.transforms, _split(generator, len(self.transforms)), strict=True):
            x = transform(x, own) if isinstance(transform, Augmentation) else transform(x)
        return x

    def __repr__(self) -> str:
        return f"Compose({self.transforms!r})"


class RandomApply(Transform):
    """The transforms in a row, for each image with probability p. They must keep the images' shape and dtype."""

    def __init__(self, transforms: Sequence[Transform], p: float = 0.5) -> None:
        self.transforms, self.p = list(transforms), probability(p, "RandomApply")

    def apply(self, images: NDArray, source: Source) -> NDArray:
        chosen = source.uniform() < self.p
        result = images.copy()
        for number, transform in enumerate(self.transforms):
            result[chosen] = _same(transform, result[chosen], source.take(chosen, number))
        return result


class RandomChoice(Transform):
    """One of the transforms for each image, with probabilities p (equal ones unless given)."""

    def __init__(self, transforms: Sequence[Transform], p: Sequence[float] | None = None) -> None:
        self.transforms, self.p = list(transforms), p
        weights = np.ones(len(self.transforms)) if p is None else np.asarray(p, float)
        if not len(weights) or len(weights) != len(self.transforms) or (weights < 0).any() or not weights.sum():
            raise OptionError(f"RandomChoice: expected weights ≥ 0 of {len(self.transforms)} transforms, got {p!r}")

    def apply(self, images: NDArray, source: Source) -> NDArray:
        weights = np.ones(len(self.transforms)) if self.p is None else np.asarray(self.p, float)
        limits = np.cumsum(weights / weights.sum())[:-1]
        choice = np.searchsorted(limits, source.uniform(), side="right")
        result = images.copy()
        for number, transform in enumerate(self.transforms):
            chosen = choice == number
            if chosen.any():
                result[chosen] = _same(transform, images[chosen], source.take(chosen, number))
        return result


class on_images(Augmentation):
    """A transform of images as a transform of batches (images, labels, …), for `DataLoader(batch_transform=…)`.

    The first entry of a tuple or list is treated, the others stay; a batch that is no tuple or list is images only.
    """

    def __init__(self, transform: Callable) -> None:
        self.transform = transform

    def __call__(self, batch: Any, generator: Generators = None) -> Any:
        if not isinstance(batch, (tuple, list)):
            return self.transform(batch, generator)
        return type(batch)([self.transform(batch[0], generator), *batch[1:]])

    def __repr__(self) -> str:
        return f"on_images({self.transform!r})"


class on_views(Augmentation):
    """Several views of each image, as a transform of batches: (images, labels, …) → ((view, view, …), labels, …).

    Each view has random numbers of its own. A batch that is no tuple or list is images only: images → ((view, view, …),).
    transform: of images, or a list of them, one for each view
    views: how many, for a single transform

    >>> batch = weft.rand(3, 1, 8, 8), weft.tensor([0, 1, 2])
    >>> (first, second), labels = on_views(RandomCrop(6))(batch)
    >>> first.shape, second.shape, labels.shape
    (weft.Size([3, 1, 6, 6]), weft.Size([3, 1, 6, 6]), weft.Size([3]))
    """

    def __init__(self, transform: Callable | Sequence[Callable], views: int = 2) -> None:
        self.transforms = [transform] * views if callable(transform) else list(transform)
        if not self.transforms:
            raise OptionError("on_views: expected one view or more")

    def __call__(self, batch: Any, generator: Generators = None) -> Any:
        images, *rest = batch if isinstance(batch, (tuple, list)) else (batch,)
        owns = _split(generator, len(self.transforms))
        return tuple(t(images, own) for t, own in zip(self.transforms, owns, strict=True)), *rest


def _split(generator: Generators, count: int) -> list[Generators]:
    """Generators for `count` transforms, of the batch or of each of its images."""
    if not isinstance(generator, (list, tuple)):
        return list(generator_of(generator, "Compose").split(count))
    each = [generator_of(g, "Compose").split(count) for g in generator]
    return [[parts[k] for parts in each] for k in range(count)]


def _same(transform: Transform, images: NDArray, source: Source) -> NDArray:
    """The treated images, if they can go back into their batch."""
    result = transform.apply(images, source)
    if result.shape != images.shape or result.dtype != images.dtype:
        raise ShapeError(
            f"{type(transform).__name__} turned {images.shape} {images.dtype} into {result.shape} {result.dtype}; a batch "
            "has one shape, so only transforms that keep it can be applied to some of its images"
        )
    return result
