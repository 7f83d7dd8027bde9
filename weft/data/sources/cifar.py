"""CIFAR-10 and CIFAR-100 from any of their published forms: binary, python (pickles), or sheets of pictures.

Binary: records of 1 label byte (CIFAR-100: coarse, fine) and 3072 pixel bytes. Python: pickled dictionaries with
`data` (N, 3072) and `labels` or `fine_labels`; read without running them. Both keep a picture as 3 planes of 32 rows.
Sheets: PNG files in which row i is picture i, its 1024 pixels in a row, and the labels as a JSON list.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...io.errors import FileFormatError, LayoutError, TruncatedError
from ...runtime.extras import extra
from ...tensor import wrap
from .catalogue import FILES
from .errors import SourceError
from .fetch import Folder, cache_folder, compare, find, folders, places
from .files import content, unpack
from .images import ImageSet, Transform
from .pickles import read_pickle
from .trust import note

__all__ = ["CIFAR10", "CIFAR100"]

PIXELS = 3 * 32 * 32
Batch = tuple[np.ndarray, np.ndarray]  # images (N, 3, 32, 32), labels (N, 1) or (N, 2): coarse, fine


# ------------------------------------------------------------------------------------------ the three forms
def _read_binary(path: Path, labels: int) -> Batch:
    raw = np.frombuffer(bytearray(content(path)), np.uint8)
    record = labels + PIXELS
    if not raw.size or raw.size % record:
        raise TruncatedError(f"{path}: {raw.size} bytes are no whole number of records of {record} bytes")
    rows = raw.reshape(-1, record)
    return rows[:, labels:].reshape(-1, 3, 32, 32), rows[:, :labels]


def _read_python(path: Path, labels: int) -> Batch:
    tree = read_pickle(content(path), str(path))
    tree = {_text(key): value for key, value in tree.items()} if isinstance(tree, dict) else {}
    names = ["labels"] if labels == 1 else ["coarse_labels", "fine_labels"]
    missing = [name for name in ("data", *names) if name not in tree]
    if missing:
        raise LayoutError(f"{path}: the pickle lacks {', '.join(missing)}; it has {', '.join(tree) or 'no dictionary'}")
    images, columns = np.asarray(tree["data"]), [np.asarray(tree[name]) for name in names]
    if images.ndim != 2 or images.shape[1] != PIXELS or images.dtype != np.uint8:
        raise LayoutError(f"{path}: expected data of uint8 (N, {PIXELS}), got {images.dtype} of {images.shape}")
    if any(column.shape != images.shape[:1] or column.dtype.kind not in "iu" for column in columns):
        raise LayoutError(f"{path}: {len(images)} images need as many whole numbers as labels")
    return images.reshape(-1, 3, 32, 32), np.stack(columns, 1)


def _read_sheet(path: Path) -> np.ndarray:
    """The pictures of one sheet, (N, 3, 32, 32)."""
    image = extra("PIL.Image", "reading CIFAR from PNG sheets needs")
    compare(path, FILES.get(f"cifar10/{path.name}"))
    try:
        with image.open(path) as opened:
            pixels = np.array(opened.convert("RGB"))  # (N, 1024, 3)
    except (OSError, SyntaxError) as error:
        raise FileFormatError(f"{path}: the picture cannot be read ({error}); fetch it again") from error
    if pixels.shape[1] != 1024:
        raise LayoutError(f"{path}: a row of a sheet has 1024 pixels, here {pixels.shape[1]}")
    return pixels.transpose(0, 2, 1).reshape(-1, 3, 32, 32)


def _text(key: str | bytes) -> str:
    return key.decode() if isinstance(key, bytes) else str(key)


@dataclass(frozen=True)
class Form:
    """One published form: the folder its files are in, their names, the function that reads one of them."""

    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    read: Callable[[Path, int], Batch]

    def load(self, folder: Path, train: bool, labels: int) -> Batch:
        names = self.train if train else self.test
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            raise SourceError(f"{folder}: {', '.join(missing)} should lie beside the other files of CIFAR")
        for name in names:
            note(folder / name)
        batches = [self.read(folder / name, labels) for name in names]
        return np.concatenate([images for images, _ in batches]), np.concatenate([found for _, found in batches])


@dataclass(frozen=True)
class Sheets:
    """Sheets of pictures. Some of them may be missing: the sheets that are there are read in order."""

    folder = ""
    train = ("data_batch_1.png",)
    test = ("test_batch.png", "test_first2000.png")

    def load(self, folder: Path, train: bool, labels: int) -> Batch:
        batches = [f"data_batch_{i}.png" for i in range(1, 6)] if train else list(self.test)
        paths = [folder / name for name in batches if (folder / name).is_file()]
        paths = paths if train else paths[:1]
        if train and [path.name for path in paths] != batches[: len(paths)]:
            raise SourceError(f"{folder}: sheets are missing before {paths[-1].name}; the labels cannot be told apart")
        if not paths:
            raise SourceError(f"{folder}: {batches[0]} should lie beside the other sheets")
        images = np.concatenate([_read_sheet(path) for path in paths])
        found = _sheet_labels(folder, "train" if train else "test")
        if len(found) < len(images):
            raise LayoutError(f"{folder}: {len(found)} labels for {len(images)} pictures")
        return images, found[: len(images), None]


def _sheet_labels(folder: Path, part: str) -> np.ndarray:
    for name in (f"{part}_labels.json", f"{part}_lables.json"):  # the second is how the publisher spells it
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                compare(path, FILES.get(f"cifar10/{name}"))
                return _label_list(path)
    raise SourceError(f"{folder}: {part}_labels.json should lie beside the sheets")


def _label_list(path: Path) -> np.ndarray:
    try:
        found = np.array(json.loads(content(path)))
    except (ValueError, RecursionError) as error:
        raise LayoutError(f"{path}: expected a JSON list of labels ({error})") from error
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise LayoutError(f"{path}: expected a JSON list of whole numbers")
    return found


# ------------------------------------------------------------------------------------------ finding
FORMS = {
    "cifar10": (
        Form(
            "cifar-10-batches-bin", tuple(f"data_batch_{i}.bin" for i in range(1, 6)), ("test_batch.bin",), _read_binary
        ),
        Form("cifar-10-batches-py", tuple(f"data_batch_{i}" for i in range(1, 6)), ("test_batch",), _read_python),
        Sheets(),
    ),
    "cifar100": (
        Form("cifar-100-binary", ("train.bin",), ("test.bin",), _read_binary),
        Form("cifar-100-python", ("train",), ("test",), _read_python),
    ),
}
ARCHIVES = {
    name: [path for path in FILES if path.startswith(f"{name}/") and path.endswith(".tar.gz")] for name in FORMS
}


def _load(name: str, root: Folder, train: bool, download: bool, labels: int) -> Batch:
    """The images and labels of the first form that is found; an archive is unpacked on the way."""
    for folder, form in _candidates(name, folders(root)):
        return form.load(folder, train, labels)
    archive = _archive(name, root, download)
    for folder, form in _candidates(name, [_unpacked(archive)]):
        return form.load(folder, train, labels)
    raise LayoutError(f"{archive}: the archive does not hold the files of {name}")


def _candidates(name: str, searched: list[Path]) -> Iterator[tuple[Path, Form | Sheets]]:
    for base in searched:
        for inside in (name, ""):
            for form in FORMS[name]:
                for folder in dict.fromkeys((base / inside / form.folder, base / inside)):
                    if any((folder / first).is_file() for first in (form.train[0], form.test[0])):
                        yield folder, form


def _archive(name: str, root: Folder, download: bool) -> Path:
    for path in ARCHIVES[name]:
        if any(place.is_file() for place in places(FILES[path], root)):
            return find(path, root)
    return find(ARCHIVES[name][0], root, download)


def _unpacked(archive: Path) -> Path:
    """Unpack beside the archive, or in the cache where that folder cannot be written to."""
    beside = archive.parent
    folder = beside if os.access(beside, os.W_OK) else cache_folder() / "unpacked"
    unpack(archive, folder)
    return folder


class CIFAR10(ImageSet):
    """60,000 colour pictures of 32×32 pixels in 10 classes (Krizhevsky 2009): 50,000 for training, 10,000 for testing.

    `data` is uint8 (N, 3, 32, 32), where torchvision has (N, 32, 32, 3).

    Example:
        >>> CIFAR10(train=False)  # doctest: +SKIP
        CIFAR10(10000 images of (3, 32, 32), 10 classes)
    """

    classes = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)

    def __init__(
        self,
        root: Folder = None,
        train: bool = True,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
    ) -> None:
        images, labels = _load("cifar10", root, train, download, labels=1)
        _check_labels(labels[:, 0], len(self.classes), "CIFAR10")
        super().__init__(images, labels[:, 0], transform, target_transform)
        self.train = train


class CIFAR100(ImageSet):
    """60,000 colour pictures of 32×32 pixels in 100 classes of 20 groups: 500 of each for training, 100 for testing.

    coarse: use the 20 groups as classes; `fine_targets` and `coarse_targets` hold both
    """

    fine_classes = tuple(
        """apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
        castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
        elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster
        man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck
        pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk
        skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger
        tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm""".split()
    )
    coarse_classes = tuple(
        """aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices
        household_furniture insects large_carnivores large_man-made_outdoor_things large_natural_outdoor_scenes
        large_omnivores_and_herbivores medium_mammals non-insect_invertebrates people reptiles small_mammals trees
        vehicles_1 vehicles_2""".split()
    )
    mean, std = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)

    def __init__(
        self,
        root: Folder = None,
        train: bool = True,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        coarse: bool = False,
    ) -> None:
        images, labels = _load("cifar100", root, train, download, labels=2)
        _check_labels(labels[:, 0], len(self.coarse_classes), "CIFAR100 (coarse)")
        _check_labels(labels[:, 1], len(self.fine_classes), "CIFAR100")
        super().__init__(images, labels[:, 0 if coarse else 1], transform, target_transform)
        self.coarse_targets, self.fine_targets = (wrap(labels[:, i].astype(np.int64)) for i in range(2))
        self.classes = self.coarse_classes if coarse else self.fine_classes
        self.train = train


def _check_labels(labels: np.ndarray, classes: int, name: str) -> None:
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        raise LayoutError(
            f"{name}: labels should lie in 0..{classes - 1}, the files hold {labels.min()}..{labels.max()}"
        )
