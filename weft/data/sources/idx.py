"""Sets in the idx format: MNIST and those that took over its files (Fashion-MNIST, Kuzushiji-MNIST).

An idx file is 0, 0, a code for the element type, the number of dimensions, then each size as a big-endian 32-bit
number, then the elements in C order, big-endian.
"""

from __future__ import annotations

import math
import os
import struct

import numpy as np

from ...io.errors import LayoutError, MagicError, TruncatedError
from .fetch import Folder, find
from .files import content
from .images import ImageSet, Transform

__all__ = ["KMNIST", "MNIST", "FashionMNIST", "read_idx"]

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """The array in an idx file, packed by gzip or not, in the machine's byte order.

    Example:
        >>> read_idx("mnist/t10k-labels-idx1-ubyte.gz").shape  # doctest: +SKIP
        (10000,)
    """
    raw = bytearray(content(path))
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in TYPES:
        raise MagicError(f"{path}: an idx file begins with 0, 0 and a type code, this one with {bytes(raw[:4])!r}")
    kind, header = np.dtype(TYPES[raw[2]]), 4 + 4 * raw[3]
    if len(raw) < header:
        raise TruncatedError(f"{path}: the file ends inside its header, after {len(raw)} of {header} bytes")
    shape = struct.unpack_from(f">{raw[3]}I", raw, 4)
    expected = header + math.prod(shape) * kind.itemsize
    if len(raw) != expected:
        fault = TruncatedError if len(raw) < expected else LayoutError
        raise fault(f"{path}: {shape} elements of {kind.name} need {expected} bytes, the file has {len(raw)}")
    return np.frombuffer(raw, kind, offset=header).reshape(shape).astype(kind.newbyteorder("="), copy=False)


class _IdxSet(ImageSet):
    """Four idx files in the folder `folder`: images and labels for training and for testing."""

    folder: str

    def __init__(
        self,
        root: Folder = None,
        train: bool = True,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
    ) -> None:
        part = "train" if train else "t10k"
        images_path = find(f"{self.folder}/{part}-images-idx3-ubyte.gz", root, download)
        labels_path = find(f"{self.folder}/{part}-labels-idx1-ubyte.gz", root, download)
        images, labels = read_idx(images_path), read_idx(labels_path)
        if images.ndim != 3 or images.dtype != np.uint8:
            raise LayoutError(f"{images_path}: expected uint8 images (N, H, W), got {images.dtype} of {images.shape}")
        if labels.shape != images.shape[:1] or labels.dtype != np.uint8:
            raise LayoutError(
                f"{labels_path}: {len(images)} labels of uint8 expected, got {labels.dtype} {labels.shape}"
            )
        if labels.size and labels.max() >= len(self.classes):
            raise LayoutError(f"{labels_path}: a label is {labels.max()}, there are {len(self.classes)} classes")
        super().__init__(images, labels, transform, target_transform)
        self.train = train


class MNIST(_IdxSet):
    """70,000 handwritten digits of 28×28 pixels (LeCun, Cortes, Burges): 60,000 for training, 10,000 for testing.

    Example:
        >>> train = MNIST(download=True).as_tensors()  # doctest: +SKIP
        >>> train.tensors[0].shape  # doctest: +SKIP
        Size([60000, 1, 28, 28])
    """

    folder = "mnist"
    classes = tuple("0123456789")
    mean, std = (0.1307,), (0.3081,)


class FashionMNIST(_IdxSet):
    """70,000 pictures of clothes in MNIST's format (Xiao, Rasul, Vollgraf 2017)."""

    folder = "fashion-mnist"
    classes = (
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    )
    mean, std = (0.2860,), (0.3530,)


class KMNIST(_IdxSet):
    """70,000 handwritten characters of old Japanese in MNIST's format (Clanuwat et al. 2018)."""

    folder = "kmnist"
    classes = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")
    mean, std = (0.1918,), (0.3483,)
