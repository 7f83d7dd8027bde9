"""Pictures in one folder per class, and ImageNet's arrangement of them. Pictures are read when they are asked for."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import OptionError
from ...io.errors import FileFormatError, LayoutError
from ...runtime.extras import extra
from ...tensor import Tensor, wrap
from ..dataset import Dataset
from .errors import SourceError
from .fetch import Folder, folders
from .files import text
from .images import Transform

__all__ = ["ImageFolder", "ImageNet", "read_image"]

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".gif")
Samples = list[tuple[str, int]]


def read_image(path: str | os.PathLike[str]) -> Any:
    """A picture as a PIL image in RGB."""
    image = extra("PIL.Image", "reading pictures needs")
    try:
        with image.open(path) as opened:
            return opened.convert("RGB")
    except (OSError, SyntaxError, ValueError) as error:
        raise FileFormatError(f"{path}: the picture cannot be read ({error})") from error


def as_bytes(picture: Any) -> Tensor:
    """A PIL image as a uint8 tensor (C, H, W)."""
    pixels = np.array(picture)  # (H, W, C) or (H, W)
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    return wrap(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


class PictureFiles(Dataset[tuple[Any, Any]]):
    """Files of pictures with a class each; sample i is (transform(picture), class).

    A transform gets what the loader gives, by default a PIL image; without one, samples are uint8 tensors (C, H, W).
    """

    def __init__(
        self,
        samples: Samples,
        classes: tuple[str, ...],
        transform: Transform,
        target_transform: Transform,
        loader: Callable[[str], Any],
    ) -> None:
        self.samples, self.classes, self.loader = samples, classes, loader
        self.transform, self.target_transform = transform, target_transform
        self.targets = wrap(np.array([label for _, label in samples], np.int64))

    @property
    def imgs(self) -> Samples:
        return self.samples

    @property
    def class_to_idx(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.classes)}

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, label = self.samples[index]
        picture = self.loader(path)
        if self.transform is not None:
            picture = self.transform(picture)
        elif not isinstance(picture, Tensor):
            picture = as_bytes(picture)
        return picture, label if self.target_transform is None else self.target_transform(label)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} pictures, {len(self.classes)} classes)"


class ImageFolder(PictureFiles):
    """Pictures arranged as root/class/picture.png, with folders inside the classes as deep as you like.

    Classes are the folder names in alphabetical order. A class without pictures is an error unless `allow_empty`.

    Example:
        >>> pets = ImageFolder("pets")  # doctest: +SKIP
        >>> pets.classes, pets[0][0].shape  # doctest: +SKIP
        (('cat', 'dog'), Size([3, 224, 224]))
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Transform = None,
        target_transform: Transform = None,
        loader: Callable[[str], Any] = read_image,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        self.root = Path(root).expanduser()
        classes = _class_folders(self.root)
        samples = _listed(self.root, classes, is_valid_file or _is_picture)
        filled = {label for _, label in samples}
        empty = [name for i, name in enumerate(classes) if i not in filled]
        if empty and not allow_empty:
            kinds = "" if is_valid_file else f" with one of the endings {', '.join(EXTENSIONS)}"
            raise SourceError(
                f"{self.root}: no pictures{kinds} in {', '.join(empty)}; pass allow_empty=True if so meant"
            )
        super().__init__(samples, classes, transform, target_transform, loader)


def _class_folders(root: Path) -> tuple[str, ...]:
    if not root.is_dir():
        raise SourceError(f"{root}: there is no such folder; expected one with a folder for each class")
    found = tuple(sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith(".")))
    if not found:
        raise SourceError(f"{root}: no folders inside; expected root/class/picture.png")
    return found


def _is_picture(path: str) -> bool:
    return path.lower().endswith(EXTENSIONS)


def _listed(root: Path, classes: tuple[str, ...], wanted: Callable[[str], bool]) -> Samples:
    return [(path, i) for i, name in enumerate(classes) for path in _files(root / name) if wanted(path)]


def _files(folder: Path) -> Iterator[str]:
    """The files in and below a folder, in alphabetical order."""
    for place, inner, names in os.walk(folder, followlinks=True):
        inner.sort()
        yield from (os.path.join(place, name) for name in sorted(names))


class ImageNet(PictureFiles):
    """ILSVRC 2012 as root/train/n01440764/*.JPEG and root/val/, or root/ILSVRC/Data/CLS-LOC/train as Kaggle packs it.

    Classes are numbered by synset id (wnid) in alphabetical order, the order of every published model. The pictures
    of val lie in folders by synset, or side by side with `LOC_val_solution.csv` in the root. `classes` are the words
    of `LOC_synset_mapping.txt` (or `synset_words.txt`) if it is in the root, else the ids; `wnids` the ids.

    The files may not be published elsewhere: get them from image-net.org after agreeing to its terms.
    """

    def __init__(
        self,
        root: Folder = None,
        split: str = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        loader: Callable[[str], Any] = read_image,
    ) -> None:
        if split not in ("train", "val"):
            raise OptionError(f"ImageNet: split must be 'train' or 'val', got {split!r}")
        self.root, pictures = _imagenet_folder(root, split)
        names = _synset_names(self.root)
        if any(entry.is_dir() for entry in os.scandir(pictures)):
            found = _class_folders(pictures)
            self.wnids = tuple(sorted(names)) if set(found) <= set(names) else found
            samples = _listed(pictures, self.wnids, _is_picture)
        else:
            self.wnids, samples = _flat_samples(self.root, pictures, tuple(sorted(names)))
        self.split = split
        classes = tuple(names.get(wnid, wnid) for wnid in self.wnids)
        super().__init__(samples, classes, transform, target_transform, loader)

    @property
    def wnid_to_idx(self) -> dict[str, int]:
        return {wnid: i for i, wnid in enumerate(self.wnids)}


def _imagenet_folder(root: Folder, split: str) -> tuple[Path, Path]:
    searched = [base / inside for base in folders(root) for inside in ("", "imagenet", "ImageNet")]
    for base in searched:
        for pictures in (base / split, base / "ILSVRC" / "Data" / "CLS-LOC" / split):
            if pictures.is_dir():
                return base, pictures
    raise SourceError(
        f"ImageNet: no folder {split!r} in {', '.join(map(str, searched[::3]))}; unpack ILSVRC2012 from image-net.org "
        f"there, so that pictures lie in {split}/n01440764/"
    )


def _synset_names(root: Path) -> dict[str, str]:
    """Lines such as `n01440764 tench, Tinca tinca`."""
    for name in ("LOC_synset_mapping.txt", "synset_words.txt"):
        if (root / name).is_file():
            rows = (line.split(" ", 1) for line in text(root / name).splitlines() if line.strip())
            return {row[0]: row[-1].strip() for row in rows}
    return {}


def _flat_samples(root: Path, pictures: Path, wnids: tuple[str, ...]) -> tuple[tuple[str, ...], Samples]:
    """The pictures of val side by side: `ILSVRC2012_val_00000001,n01751748 111 108 428 367` says which is which."""
    path = root / "LOC_val_solution.csv"
    if not path.is_file():
        raise SourceError(f"{pictures}: the pictures are in no folders by class, and {path} is missing")
    rows = [row for row in csv.reader(text(path).splitlines()[1:]) if row]
    if any(len(row) < 2 or not row[1].split() for row in rows):
        raise LayoutError(f"{path}: expected lines of a picture's name and its class")
    labels = {name: boxes.split()[0] for name, boxes, *_ in rows}
    wnids = wnids or tuple(sorted(set(labels.values())))
    order = {wnid: i for i, wnid in enumerate(wnids)}
    files = [file for file in _files(pictures) if _is_picture(file)]
    unknown = [file for file in files if labels.get(Path(file).stem) not in order]
    if unknown:
        raise LayoutError(f"{path}: it says nothing of {Path(unknown[0]).name} ({len(unknown)} pictures in all)")
    return wnids, [(file, order[labels[Path(file).stem]]) for file in files]
