"""What an augmentation of tensors is, and how several are put together.

A transform draws once a call, with images in the first dimension: the first images of a batch are treated alike whatever
follows them. Of several transforms in a row each goes on where the generator was left.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import weft

from ....errors import ArgumentError, DtypeError, OptionError, ShapeError
from ....tensor import Tensor
from ..base import Augmentation, probability

__all__ = ["Compose", "RandomApply", "TensorTransform", "check_images", "each", "uniform"]

Change = Callable[[Tensor, Any], Tensor]  # images, generator


class TensorTransform(Augmentation):
    """A random map of images (N, C, H, W), floating and in [0, 1], made of tensor operations alone."""

    def __call__(self, x: Tensor, generator: Any = None) -> Tensor:
        """The changed images; without a generator, by the default one."""
        check_images(x, type(self).__name__)
        return self.apply(x, generator) if len(x) else self.apply(_one(x), generator)[:0]

    @abstractmethod
    def apply(self, x: Tensor, generator: Any) -> Tensor:
        """The new batch."""


class Compose(TensorTransform):
    """One change after the other.

    changes: transforms of this package, or any functions (images, generator) → images
    """

    def __init__(self, changes: Sequence[Change]) -> None:
        self.changes = list(changes)

    def apply(self, x: Tensor, generator: Any) -> Tensor:
        for change in self.changes:
            x = change(x, generator)
        return x


class RandomApply(TensorTransform):
    """A change for some of the images, each chosen with probability p; it must keep the size.

    change: a transform, computed for the whole batch
    """

    def __init__(self, change: Change, p: float = 0.5) -> None:
        self.change, self.p = change, probability(p, "RandomApply")

    def apply(self, x: Tensor, generator: Any) -> Tensor:
        chosen = each(uniform(x, generator=generator) < self.p)
        changed = self.change(x, generator)
        if changed.shape != x.shape:
            raise OptionError(
                f"RandomApply: {self.change!r} made {tuple(changed.shape)} of {tuple(x.shape)}; sizes must stay"
            )
        return weft.where(chosen, changed, x)


def uniform(x: Tensor, *shape: int, generator: Any = None, low: float = 0.0, high: float = 1.0) -> Tensor:
    """Numbers in [low, high) for each image of x. Shape: (N, *shape)"""
    return weft.rand(len(x), *shape, dtype=x.dtype, generator=generator) * (high - low) + low


def each(values: Tensor) -> Tensor:
    """One value an image, ready to be combined with images: (N,) → (N, 1, 1, 1)"""
    return values.reshape(-1, 1, 1, 1)


def check_images(x: Any, name: str) -> None:
    """Refuse what is no batch of floating images with at least a pixel."""
    if not isinstance(x, Tensor):
        raise ArgumentError(f"{name}: expected a tensor of images (N, C, H, W), got {type(x).__name__}")
    if x.ndim != 4 or 0 in x.shape[1:]:
        raise ShapeError(
            f"{name}: expected images (N, C, H, W) of at least one pixel, got shape {tuple(x.shape)}; "
            "x[None] is a batch of one"
        )
    if not x.is_floating_point():
        raise DtypeError(f"{name}: expected floating images in [0, 1], got {x.dtype}; x / 255 of bytes")


def _one(x: Tensor) -> Tensor:
    """A black image in place of none, so that an empty batch has the sizes of any other's result."""
    return x.new_zeros(1, *x.shape[1:])
