"""torchvision's data sets: those of `weft.data.sources` with samples as torchvision gives them, PIL images and numbers.

A transform gets a PIL image. `root` holds the canonical files; without Pillow samples are uint8 tensors (C, H, W), which all
transforms take.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

import weft

from ..data import sources
from ..data.augment.base import pil_image
from ..data.collate import default_collate
from ..data.dataset import Dataset
from ..data.sources.image_folder import ImageFolder, ImageNet, read_image
from ..data.sources.images import ImageSet
from ..errors import IndexRangeError
from .folders import (
    STL10,
    SVHN,
    USPS,
    CelebA,
    CocoCaptions,
    CocoDetection,
    Flowers102,
    Food101,
    Omniglot,
    OxfordIIITPet,
    VOCDetection,
    VOCSegmentation,
)

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "KMNIST",
    "MNIST",
    "STL10",
    "SVHN",
    "USPS",
    "CelebA",
    "CocoCaptions",
    "CocoDetection",
    "DatasetFolder",
    "FakeData",
    "FashionMNIST",
    "Flowers102",
    "Food101",
    "ImageFolder",
    "ImageNet",
    "Omniglot",
    "OxfordIIITPet",
    "VOCDetection",
    "VOCSegmentation",
    "VisionDataset",
    "default_loader",
]

default_loader = read_image
VisionDataset = Dataset


class Pictures(ImageSet):
    """Samples (picture, class) of a set of images; abstract."""

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        pixels = self.images.array[index]
        image: Any = pil_image(pixels) if importlib.util.find_spec("PIL") else weft.from_numpy(pixels)
        target: Any = int(self.targets[index])
        image = image if self.transform is None else self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)

    def gather(self, rows: Any) -> Any:
        """The batch of these rows."""
        return default_collate([self[int(row)] for row in rows])


class MNIST(Pictures, sources.MNIST):
    """70,000 handwritten digits of 28 × 28."""


class FashionMNIST(Pictures, sources.FashionMNIST):
    """70,000 pictures of clothes of 28 × 28."""


class KMNIST(Pictures, sources.KMNIST):
    """70,000 Japanese characters of 28 × 28."""


class CIFAR10(Pictures, sources.CIFAR10):
    """60,000 coloured pictures of 32 × 32 in ten classes."""


class CIFAR100(Pictures, sources.CIFAR100):
    """60,000 coloured pictures of 32 × 32 in a hundred classes."""


class DatasetFolder(ImageFolder):
    """Files arranged as root/class/file, read by `loader`; extensions: their endings."""

    def __init__(
        self,
        root: Any,
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        valid = is_valid_file
        if valid is None and extensions is not None:
            endings = tuple(ending.lower() for ending in extensions)

            def valid(path: str) -> bool:
                return path.lower().endswith(endings)

        super().__init__(root, transform, target_transform, loader, valid, allow_empty)


class FakeData(Dataset[tuple[Any, Any]]):
    """Noise with random classes, the same at every start: to try a program out."""

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        random_offset: int = 0,
    ) -> None:
        self.size, self.image_size, self.num_classes = size, image_size, num_classes
        self.transform, self.target_transform, self.random_offset = transform, target_transform, random_offset

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if not -self.size <= index < self.size:
            raise IndexRangeError(f"FakeData: expected an index below {self.size}, got {index}")
        random = np.random.default_rng(index % self.size + self.random_offset)
        pixels, target = random.integers(0, 256, self.image_size, np.uint8), int(random.integers(self.num_classes))
        image: Any = pil_image(pixels) if importlib.util.find_spec("PIL") else weft.from_numpy(pixels)
        image = image if self.transform is None else self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)
