"""Labelled images held in memory: what MNIST, CIFAR and their kin have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...tensor import Tensor, wrap
from ..collate import default_collate
from ..dataset import Dataset, Rows, TensorDataset

__all__ = ["ImageSet"]

Transform = Callable[[Any], Any] | None


class ImageSet(Dataset[tuple[Any, Any]]):
    """Images (N, C, H, W) of uint8 with a class each; sample i is (image, class).

    A transform gets the image as a uint8 tensor (C, H, W). Without one it becomes float32 in [0, 1], as
    torchvision's `ToTensor` makes it, and whole batches are converted at once.

    data, targets: uint8 and int64 tensors; classes: the names of the classes
    mean, std: of each channel of the training images in [0, 1], for `as_tensors(normalize=True)`
    """

    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def __init__(
        self, data: np.ndarray, targets: np.ndarray, transform: Transform, target_transform: Transform
    ) -> None:
        if len(data) != len(targets):
            raise ShapeError(f"{type(self).__name__}: {len(data)} images and {len(targets)} labels")
        self.data, self.targets = wrap(data), wrap(targets.astype(np.int64))
        self.transform, self.target_transform = transform, target_transform

    @property
    def images(self) -> Tensor:
        """The images as (N, C, H, W), also where `data` has no axis for the one channel."""
        return self.data if self.data.ndim == 4 else self.data.unsqueeze(1)

    @property
    def class_to_idx(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.classes)}

    def __len__(self) -> int:
        return self.data.shape[0]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image, target = self.images[index], int(self.targets[index])
        image = wrap(_unit(image.array)) if self.transform is None else self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)

    def gather(self, rows: Rows) -> Any:
        """The batch of these rows: (B, C, H, W) float32 and (B,) int64 without transforms."""
        if self.transform is not None or self.target_transform is not None:
            return default_collate([self[int(row)] for row in rows])
        rows = np.asarray(rows, np.int64)
        return wrap(_unit(self.images.array.take(rows, 0))), wrap(self.targets.array.take(rows, 0))

    def as_tensors(self, normalize: bool = True) -> TensorDataset:
        """All images as float32 (N, C, H, W) with int64 labels (N,), ready for training; transforms are left out.

        normalize: subtract the mean and divide by the standard deviation of each channel; otherwise in [0, 1]
        """
        images = _unit(self.images.array)
        if normalize:
            images -= np.reshape(np.array(self.mean, np.float32), (-1, 1, 1))  # (C, 1, 1)
            images /= np.reshape(np.array(self.std, np.float32), (-1, 1, 1))
        return TensorDataset(wrap(images), self.targets)

    def __repr__(self) -> str:
        shape = tuple(self.images.shape[1:])
        return f"{type(self).__name__}({len(self)} images of {shape}, {len(self.classes)} classes)"


def _unit(images: np.ndarray) -> np.ndarray:
    """Bytes as fractions of 255, in float32."""
    return np.divide(images, np.float32(255), dtype=np.float32, order="C")
