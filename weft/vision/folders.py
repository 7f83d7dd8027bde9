"""More of torchvision's data sets, by their canonical files: pictures in folders with a list, boxes, masks or captions.

`root` holds what torchvision would have there after `download=True`; nothing is downloaded, a file that lacks is named.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

import numpy as np

import weft

from ..data.augment.base import pil_image
from ..data.dataset import Dataset
from ..data.sources.image_folder import read_image
from ..errors import MissingFileError, OptionError
from ..io.errors import LayoutError, TruncatedError
from ..runtime.extras import extra

__all__ = [
    "STL10",
    "SVHN",
    "USPS",
    "CelebA",
    "CocoCaptions",
    "CocoDetection",
    "Flowers102",
    "Food101",
    "Omniglot",
    "OxfordIIITPet",
    "VOCDetection",
    "VOCSegmentation",
]

MANY_ENTITIES = ("<!ENTITY", "<!DOCTYPE")  # annotations have neither; they could grow without end


def there(path: Path, name: str) -> Path:
    """The path, if it is there."""
    if not path.exists():
        raise MissingFileError(
            f"{name}: {path} is not there; nothing is downloaded, put torchvision's files under root"
        )
    return path


def among(name: str, value: Any, values: tuple[Any, ...]) -> Any:
    """The value, if it is one of those."""
    if value not in values:
        raise OptionError(f"{name}: expected one of {', '.join(map(repr, values))}, got {value!r}")
    return value


class Listed(Dataset[tuple[Any, Any]]):
    """Samples (picture, target) made one at a time; abstract.

    transform, target_transform: of the picture, of the target; transforms: of both.
    """

    def __init__(
        self,
        root: Any,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        transforms: Callable[[Any, Any], Any] | None = None,
        download: bool = False,
    ) -> None:
        self.root, self.transform, self.target_transform, self.transforms = (
            Path(root),
            transform,
            target_transform,
            transforms,
        )

    def sample(self, index: int) -> tuple[Any, Any]:
        """The picture and the target as they are."""
        raise NotImplementedError

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image, target = self.sample(int(index))
        if self.transforms is not None:
            return self.transforms(image, target)
        image = image if self.transform is None else self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)


class Arrays(Listed):
    """Pictures `data` (N, C, H, W) of bytes in memory with numbers `labels`; abstract."""

    data: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.data)

    def sample(self, index: int) -> tuple[Any, Any]:
        return pil_image(self.data[index]), int(self.labels[index])


class SVHN(Arrays):
    """House numbers of 32 × 32 from {train, test, extra}_32x32.mat; the digit 0 has the label 0."""

    def __init__(
        self,
        root: Any,
        split: str = "train",
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform, target_transform)
        self.split = among("split", split, ("train", "test", "extra"))
        found = extra("scipy.io", "SVHN's files need").loadmat(there(self.root / f"{split}_32x32.mat", "SVHN"))
        self.data = np.ascontiguousarray(found["X"].transpose(3, 2, 0, 1))  # (H, W, C, N) → (N, C, H, W)
        self.labels = found["y"].astype(np.int64).squeeze(1) % 10


class STL10(Arrays):
    """Coloured pictures of 96 × 96 in ten classes from stl10_binary/; those without a class have −1."""

    def __init__(
        self,
        root: Any,
        split: str = "train",
        folds: int | None = None,
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform, target_transform)
        self.split = among("split", split, ("train", "test", "unlabeled", "train+unlabeled"))
        folder = there(self.root / "stl10_binary", "STL10")
        parts = [self._part(folder, word) for word in split.split("+")]
        self.data, self.labels = (np.concatenate(column) for column in zip(*parts, strict=True))
        self.classes = there(folder / "class_names.txt", "STL10").read_text().split()
        if folds is not None:
            lines = there(folder / "fold_indices.txt", "STL10").read_text().splitlines()
            rows = np.array(lines[folds].split(), np.int64)
            self.data, self.labels = self.data[rows], self.labels[rows]

    @staticmethod
    def _part(folder: Path, word: str) -> tuple[np.ndarray, np.ndarray]:
        raw = np.fromfile(there(folder / f"{word}_X.bin", "STL10"), np.uint8)
        if raw.size % (3 * 96 * 96):
            raise TruncatedError(f"{folder / word}_X.bin: {raw.size} bytes are no whole number of pictures")
        data = np.ascontiguousarray(raw.reshape(-1, 3, 96, 96).swapaxes(2, 3))  # columns first in the file
        if word == "unlabeled":
            return data, np.full(len(data), -1, np.int64)
        return data, np.fromfile(there(folder / f"{word}_y.bin", "STL10"), np.uint8).astype(np.int64) - 1


class USPS(Arrays):
    """Digits of 16 × 16 from usps.bz2 and usps.t.bz2."""

    def __init__(
        self, root: Any, train: bool = True, transform: Any = None, target_transform: Any = None, download: bool = False
    ) -> None:
        super().__init__(root, transform, target_transform)
        import bz2

        with bz2.open(there(self.root / ("usps.bz2" if train else "usps.t.bz2"), "USPS"), "rt") as file:
            rows = [line.split() for line in file]
        values = np.array([[word.split(":")[-1] for word in row[1:]] for row in rows], np.float32).reshape(
            -1, 1, 16, 16
        )
        self.data = ((values + 1) / 2 * 255).astype(np.uint8)
        self.labels = np.array([int(row[0]) - 1 for row in rows])


class Files(Listed):
    """Pictures in files `images` with what `targets` has for each; abstract."""

    images: list[Path]
    targets: list[Any]

    def __len__(self) -> int:
        return len(self.images)

    def sample(self, index: int) -> tuple[Any, Any]:
        return read_image(self.images[index]), self.targets[index]


class Food101(Files):
    """101 dishes: food-101/images/<class>/<number>.jpg by food-101/meta/{train, test}.json."""

    def __init__(
        self,
        root: Any,
        split: str = "train",
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform, target_transform)
        folder, split = self.root / "food-101", among("split", split, ("train", "test"))
        listed = json.loads(there(folder / "meta" / f"{split}.json", "Food101").read_text())
        self.classes = sorted(listed)
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        rows = [(name, place) for name in self.classes for place in listed[name]]
        self.images = [folder / "images" / f"{place}.jpg" for _, place in rows]
        self.targets = [self.class_to_idx[name] for name, _ in rows]


class Flowers102(Files):
    """102 flowers: flowers-102/jpg/, imagelabels.mat, setid.mat."""

    SPLITS: ClassVar[dict[str, str]] = {"train": "trnid", "val": "valid", "test": "tstid"}

    def __init__(
        self,
        root: Any,
        split: str = "train",
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform, target_transform)
        folder, read = self.root / "flowers-102", extra("scipy.io", "Flowers102's files need").loadmat
        key = self.SPLITS[among("split", split, tuple(self.SPLITS))]
        numbers = read(there(folder / "setid.mat", "Flowers102"), squeeze_me=True)[key].tolist()
        labels = read(there(folder / "imagelabels.mat", "Flowers102"), squeeze_me=True)["labels"]
        self.images = [folder / "jpg" / f"image_{number:05d}.jpg" for number in numbers]
        self.targets = [int(labels[number - 1]) - 1 for number in numbers]


class OxfordIIITPet(Files):
    """Cats and dogs of 37 breeds: oxford-iiit-pet/images, annotations/{trainval, test}.txt, annotations/trimaps.

    target_types: "category", "binary-category", "segmentation" (a PIL image), or several of them as a tuple.
    """

    def __init__(
        self,
        root: Any,
        split: str = "trainval",
        target_types: Any = "category",
        transforms: Any = None,
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform, target_transform, transforms)
        folder = self.root / "oxford-iiit-pet"
        self.kinds = [target_types] if isinstance(target_types, str) else list(target_types)
        for kind in self.kinds:
            among("target_types", kind, ("category", "binary-category", "segmentation"))
        listed = there(folder / "annotations" / f"{among('split', split, ('trainval', 'test'))}.txt", "OxfordIIITPet")
        rows = [line.split() for line in listed.read_text().splitlines() if line.strip()]
        self.images = [folder / "images" / f"{row[0]}.jpg" for row in rows]
        self.masks = [folder / "annotations" / "trimaps" / f"{row[0]}.png" for row in rows]
        self.breeds, self.species = [int(row[1]) - 1 for row in rows], [int(row[2]) - 1 for row in rows]
        names = {label: row[0].rsplit("_", 1)[0] for row, label in zip(rows, self.breeds, strict=True)}
        self.classes = [" ".join(word.title() for word in names[i].split("_")) for i in sorted(names)]

    def sample(self, index: int) -> tuple[Any, Any]:
        of = {"category": lambda: self.breeds[index], "binary-category": lambda: self.species[index]}
        found = [_opened(self.masks[index]) if kind == "segmentation" else of[kind]() for kind in self.kinds]
        target = None if not found else found[0] if len(found) == 1 else tuple(found)
        return read_image(self.images[index]), target


class CelebA(Files):
    """Faces with 40 attributes: celeba/img_align_celeba, list_attr_celeba.txt, list_eval_partition.txt, identity_CelebA.txt.

    target_type: "attr", "identity", "bbox", "landmarks", or a list of them.
    """

    LISTS: ClassVar[dict[str, str]] = {
        "attr": "list_attr_celeba.txt",
        "identity": "identity_CelebA.txt",
        "bbox": "list_bbox_celeba.txt",
        "landmarks": "list_landmarks_align_celeba.txt",
    }

    def __init__(
        self,
        root: Any,
        split: str = "train",
        target_type: Any = "attr",
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform, target_transform)
        folder = self.root / "celeba"
        self.kinds = target_type if isinstance(target_type, list) else [target_type]
        wanted = among("split", split, ("train", "valid", "test", "all"))
        parts = dict(
            line.split() for line in there(folder / "list_eval_partition.txt", "CelebA").read_text().splitlines()
        )
        number = {"train": "0", "valid": "1", "test": "2"}.get(wanted)
        names = [name for name, part in parts.items() if number is None or part == number]
        self.images = [folder / "img_align_celeba" / name for name in names]
        columns = []
        for kind in self.kinds:
            rows, self.attr_names = self._read(folder / self.LISTS[among("target_type", kind, tuple(self.LISTS))], kind)
            values = np.array([rows[name] for name in names], np.int64)
            columns.append(
                weft.tensor(
                    (values + 1) // 2 if kind == "attr" else values.squeeze(1) if kind == "identity" else values
                )
            )
        self.targets = [row[0] if len(row) == 1 else row for row in zip(*columns, strict=True)]

    @staticmethod
    def _read(path: Path, kind: str) -> tuple[dict[str, list[str]], list[str]]:
        lines, heads = there(path, "CelebA").read_text().splitlines(), []
        if kind != "identity":
            heads, lines = lines[1].split(), lines[2:]
        return {words[0]: words[1:] for words in (line.split() for line in lines) if words}, heads


class Omniglot(Files):
    """Characters of 50 alphabets: omniglot-py/images_background or images_evaluation, <alphabet>/<character>/."""

    def __init__(
        self,
        root: Any,
        background: bool = True,
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform, target_transform)
        folder = there(
            self.root / "omniglot-py" / ("images_background" if background else "images_evaluation"), "Omniglot"
        )
        characters = sorted(path for path in folder.glob("*/*") if path.is_dir())
        pairs = [(file, i) for i, place in enumerate(characters) for file in sorted(place.glob("*.png"))]
        self.images, self.targets = [file for file, _ in pairs], [i for _, i in pairs]

    def sample(self, index: int) -> tuple[Any, Any]:
        return _opened(self.images[index]).convert("L"), self.targets[index]


# ------------------------------------------------------------------------------------------------ boxes, masks, words


class VOC(Files):
    """Pictures of Pascal VOC: VOCdevkit/VOC<year>/JPEGImages by ImageSets/<kind>/<image_set>.txt; abstract."""

    kind, place, ending = "", "", ""

    def __init__(
        self,
        root: Any,
        year: str = "2012",
        image_set: str = "train",
        download: bool = False,
        transform: Any = None,
        target_transform: Any = None,
        transforms: Any = None,
    ) -> None:
        super().__init__(root, transform, target_transform, transforms)
        year = "2007" if year == "2007-test" else among("year", year, tuple(str(y) for y in range(2007, 2013)))
        base = Path("TrainVal", "VOCdevkit") if year == "2011" else Path("VOCdevkit")
        folder = there(self.root / base / f"VOC{year}", type(self).__name__)
        names = there(folder / "ImageSets" / self.kind / f"{image_set}.txt", type(self).__name__).read_text().split()
        self.images = [folder / "JPEGImages" / f"{name}.jpg" for name in names]
        self.targets = [folder / self.place / f"{name}{self.ending}" for name in names]


class VOCSegmentation(VOC):
    """Pictures with a mask of classes, a PIL image with a palette."""

    kind, place, ending = "Segmentation", "SegmentationClass", ".png"

    def sample(self, index: int) -> tuple[Any, Any]:
        return read_image(self.images[index]), _opened(self.targets[index])


class VOCDetection(VOC):
    """Pictures with the tree of their annotation as dictionaries."""

    kind, place, ending = "Main", "Annotations", ".xml"

    def sample(self, index: int) -> tuple[Any, Any]:
        text = self.targets[index].read_text()
        if any(word in text for word in MANY_ENTITIES):
            raise LayoutError(f"{self.targets[index]}: annotations declare no entities")
        return read_image(self.images[index]), _as_tree(ElementTree.fromstring(text))


def _as_tree(node: ElementTree.Element) -> dict[str, Any]:
    """{tag: text or children}; the children of one tag are a list if there are several, and objects always."""
    if not len(node):
        return {node.tag: (node.text or "").strip()}
    found: dict[str, list[Any]] = defaultdict(list)
    for child in node:
        for tag, value in _as_tree(child).items():
            found[tag].append(value)
    plain = {
        tag: values if (tag == "object" and node.tag == "annotation") or len(values) > 1 else values[0]
        for tag, values in found.items()
    }
    return {node.tag: plain}


class CocoDetection(Files):
    """Pictures of root with all annotations of each, as annFile in COCO's form has them: a list of dictionaries."""

    def __init__(
        self, root: Any, annFile: Any, transform: Any = None, target_transform: Any = None, transforms: Any = None
    ) -> None:
        super().__init__(root, transform, target_transform, transforms)
        self.coco = json.loads(there(Path(annFile), type(self).__name__).read_text())
        if not isinstance(self.coco, dict) or "images" not in self.coco:
            raise LayoutError(f"{annFile}: expected COCO's form, a dictionary with images and annotations")
        notes: dict[int, list[Any]] = defaultdict(list)
        for note in self.coco.get("annotations", []):
            notes[note["image_id"]].append(note)
        listed = sorted(self.coco["images"], key=lambda image: image["id"])
        self.ids = [image["id"] for image in listed]
        self.images = [self.root / image["file_name"] for image in listed]
        self.targets = [notes[i] for i in self.ids]


class CocoCaptions(CocoDetection):
    """Pictures with their captions."""

    def __init__(
        self, root: Any, annFile: Any, transform: Any = None, target_transform: Any = None, transforms: Any = None
    ) -> None:
        super().__init__(root, annFile, transform, target_transform, transforms)
        self.targets = [[note["caption"] for note in notes] for notes in self.targets]


def _opened(path: Path) -> Any:
    """A picture in its own mode."""
    image = extra("PIL.Image", "reading pictures needs")
    with image.open(path) as opened:
        opened.load()
        return opened
