"""Fixed-binarised MNIST: the digits as bits drawn once and for all, so that likelihoods of all papers are of one set.

A MATLAB 5 file a part, with one matrix X of 0 and 1, one image a row.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import weft

from ...errors import OptionError
from ...io.errors import FileFormatError, LayoutError
from ...runtime.lazy import LazyModule
from ...tensor import Tensor, wrap
from ..dataset import Dataset, Rows, TensorDataset
from .fetch import Folder, find
from .files import content

__all__ = ["BinarizedMNIST"]

matlab = LazyModule("scipy.io")
PARTS = ("train", "valid", "test")
PIXELS = 784


class BinarizedMNIST(Dataset[Tensor]):
    """MNIST as bits, each pixel drawn once with its brightness as probability (Salakhutdinov and Murray 2008): 50,000
    images for training, 10,000 for validation, 10,000 for testing. Sample i is an image (1, 28, 28) of 0 and 1; there
    are no labels.

    This is one of three sets: `augment.DynamicBinarize` draws the bits anew each time, `augment.ThresholdBinarize` cuts
    at one half, and likelihoods on the three cannot be compared. The test images are sorted by their digits: the first
    980 are zeros. A part of them must be drawn (`drawn`), never cut off at the front.

    split: "train", "valid" or "test"
    data: uint8 (N, 28, 28)

    Example:
        >>> BinarizedMNIST(split="test")  # doctest: +SKIP
        BinarizedMNIST(10000 images of (1, 28, 28), test, fixed binarisation)
    """

    binarisation = "fixed"

    def __init__(
        self,
        root: Folder = None,
        split: str = "train",
        transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ) -> None:
        if split not in PARTS:
            raise OptionError(f"BinarizedMNIST: split is one of {', '.join(PARTS)}, got {split!r}")
        path = find(f"binarized-mnist/binarized_mnist_{split}.mat", root, download)
        self.data = wrap(_bits(path).reshape(-1, 28, 28))
        self.split, self.transform = split, transform

    @property
    def images(self) -> Tensor:
        """(N, 1, 28, 28), uint8"""
        return self.data.unsqueeze(1)

    def __len__(self) -> int:
        return self.data.shape[0]

    def __getitem__(self, index: int) -> Any:
        image = self.images[index].float()
        return image if self.transform is None else self.transform(image)

    def gather(self, rows: Rows) -> Any:
        """The batch of these rows: (B, 1, 28, 28), float32 without a transform."""
        images = wrap(self.images.array.take(np.asarray(rows, np.int64), 0)).float()
        return images if self.transform is None else weft.stack([self.transform(image) for image in images])

    def as_tensors(self, flat: bool = False) -> TensorDataset:
        """All images as float32, (N, 1, 28, 28) or flat (N, 784); the transform is left out."""
        images = self.images.float()
        return TensorDataset(images.flatten(1) if flat else images)

    def drawn(self, count: int, seed: int = 0) -> Tensor:
        """`count` different images at random, always the same for a seed: (count, 1, 28, 28), float32"""
        if not 0 <= count <= len(self):
            raise OptionError(f"BinarizedMNIST.drawn: expected 0 to {len(self)} images, got {count}")
        order = weft.randperm(len(self), generator=weft.Generator().manual_seed(seed))
        return self.images[order[:count]].float()

    def __repr__(self) -> str:
        return f"BinarizedMNIST({len(self)} images of (1, 28, 28), {self.split}, {self.binarisation} binarisation)"


def _bits(path: Path) -> np.ndarray:
    """The rows of a file: uint8 (N, 784) of 0 and 1."""
    found = _matrix(path)
    if found.ndim != 2 or found.shape[1] != PIXELS or found.dtype.kind not in "buif":
        raise LayoutError(f"{path}: expected a matrix (N, {PIXELS}) of bits, got {found.dtype} of {found.shape}")
    if not np.isin(found, (0, 1)).all():
        raise LayoutError(f"{path}: a binarised image holds 0 and 1 alone; these are other numbers")
    return np.ascontiguousarray(found, np.uint8)


def _matrix(path: Path) -> np.ndarray:
    try:
        found = matlab.loadmat(io.BytesIO(content(path)), variable_names=["X"])
    except Exception as error:  # SciPy's readers raise errors of a dozen kinds for damaged files
        raise FileFormatError(f"{path}: the MATLAB file cannot be read ({error}); fetch it again") from error
    if "X" not in found:
        raise LayoutError(f"{path}: the MATLAB file has no matrix X")
    return np.asarray(found["X"])
