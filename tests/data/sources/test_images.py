"""Sets of images from small files in the genuine formats, and from the real ones where they are there."""

from __future__ import annotations

import gzip
import json
import pickle
import struct
import tarfile

import numpy as np
import pytest
from PIL import Image

import weft
from weft.data import DataLoader, sources
from weft.io.errors import FileFormatError, LayoutError, MagicError, TruncatedError, UnsafePickleError

pytestmark = pytest.mark.filterwarnings("ignore::weft.data.sources.SourceWarning")
RNG = np.random.default_rng(0)


# ------------------------------------------------------------------------------------------ idx
def idx(array, code=None) -> bytes:
    """The format as its inventor describes it: big-endian sizes and elements."""
    codes = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}
    kind = array.dtype.str[1:]
    header = struct.pack(f">4B{array.ndim}I", 0, 0, code or codes[kind], array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.mark.parametrize("kind", ["u1", "i1", "i2", "i4", "f4", "f8"])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3, 4), (3, 0, 2)])
def test_idx_types_and_shapes(tmp_path, kind, shape):
    expected = (RNG.normal(size=shape) * 50).astype(kind)
    for name, pack in (("x", bytes), ("x.gz", gzip.compress)):
        (tmp_path / name).write_bytes(pack(idx(np.asarray(expected))))
        found = sources.read_idx(tmp_path / name)
        assert found.dtype == np.dtype(kind) and found.shape == shape
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (b"", MagicError),
        (b"\0\0", MagicError),
        (b"\x89PNG\r\n", MagicError),
        (b"\0\0\x07\x01\0\0\0\1x", MagicError),
        (b"\0\0\x08\x03\0\0\0\1", TruncatedError),
        (idx(np.arange(10, dtype="u1"))[:-1], TruncatedError),
        (idx(np.arange(10, dtype="u1")) + b"x", LayoutError),
        (b"\0\0\x08\x03" + b"\xff" * 12, TruncatedError),
    ],
)
def test_idx_faults(tmp_path, raw, error):
    (tmp_path / "x").write_bytes(raw)
    with pytest.raises(error, match=str(tmp_path / "x")):
        sources.read_idx(tmp_path / "x")


def make_mnist(folder, count=12, labels=None, part="train"):
    folder.mkdir(parents=True, exist_ok=True)
    images = RNG.integers(0, 256, (count, 28, 28)).astype(np.uint8)
    labels = np.arange(count, dtype=np.uint8) % 10 if labels is None else labels
    (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
    (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
    return images, labels


SETS = {"mnist": sources.MNIST, "fashion-mnist": sources.FashionMNIST, "kmnist": sources.KMNIST}


@pytest.mark.parametrize("name", SETS)
def test_mnist_and_kin(tmp_path, name):
    images, labels = make_mnist(tmp_path / name)
    made = SETS[name](tmp_path)
    assert len(made) == 12 and len(made.classes) == 10
    assert made.data.dtype == weft.uint8 and made.targets.dtype == weft.int64
    np.testing.assert_array_equal(made.data.numpy(), images)
    np.testing.assert_array_equal(made.targets.numpy(), labels)
    image, label = made[3]
    assert image.shape == (1, 28, 28) and image.dtype == weft.float32 and label == 3 and type(label) is int
    np.testing.assert_array_equal(image.numpy()[0], images[3].astype(np.float32) / 255)
    scaled = made.as_tensors(normalize=False).tensors[0].numpy()
    np.testing.assert_array_equal(scaled[:, 0], images.astype(np.float32) / 255)
    normal = made.as_tensors().tensors[0].numpy()
    np.testing.assert_allclose(normal, (scaled - made.mean[0]) / made.std[0], rtol=1e-6, atol=1e-6)
    with pytest.raises(sources.SourceError, match="t10k-images"):
        SETS[name](tmp_path, train=False)


def test_transforms_get_bytes_and_batches_agree(tmp_path):
    images, _ = make_mnist(tmp_path)
    made = sources.MNIST(tmp_path, transform=lambda x: x.float() * 2, target_transform=lambda y: -y)
    assert made[4][1] == -4
    np.testing.assert_array_equal(made[4][0].numpy()[0], images[4] * 2.0)
    batch, targets = next(iter(DataLoader(made, batch_size=5)))
    np.testing.assert_array_equal(batch.numpy()[:, 0], images[:5] * 2.0)
    assert targets.tolist() == [0, -1, -2, -3, -4]
    batch, targets = next(iter(DataLoader(sources.MNIST(tmp_path), batch_size=5)))
    np.testing.assert_array_equal(batch.numpy()[:, 0], images[:5].astype(np.float32) / 255)
    assert targets.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.arange(5, dtype=np.uint8), "12 labels of uint8 expected"),
        (np.full(12, 10, np.uint8), "a label is 10, there are 10 classes"),
        (np.zeros(12, np.float32), "12 labels of uint8"),
    ],
)
def test_mnist_whose_files_do_not_fit(tmp_path, labels, message):
    make_mnist(tmp_path, labels=labels)
    with pytest.raises(LayoutError, match=message):
        sources.MNIST(tmp_path)


def test_mnist_cut_short(tmp_path):
    make_mnist(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(TruncatedError, match="ends too early; fetch it again"):
        sources.MNIST(tmp_path)


@pytest.mark.parametrize(
    ("made", "mean", "std", "first"),
    [(sources.MNIST, 0.1307, 0.3081, [5, 0, 4, 1, 9]), (sources.FashionMNIST, 0.2860, 0.3530, [9, 0, 0, 3, 0])],
)
def test_real_mnist(real, made, mean, std, first):
    train, test = made(real), made(real, train=False)
    assert train.data.shape == (60_000, 28, 28) and test.data.shape == (10_000, 28, 28)
    assert train.targets[:5].tolist() == first
    if made is sources.FashionMNIST:
        assert np.bincount(train.targets.numpy()).tolist() == [6000] * 10
    else:
        histogram = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
        assert np.bincount(train.targets.numpy()).tolist() == histogram
    pixels = train.data.numpy()
    average = int(pixels.sum(dtype=np.int64)) / pixels.size
    spread = (int(np.square(pixels, dtype=np.uint16).sum(dtype=np.int64)) / pixels.size - average**2) ** 0.5
    assert round(average / 255, 4) == mean and round(spread / 255, 4) == std


# ------------------------------------------------------------------------------------------ CIFAR
def cifar(count, labels):
    return RNG.integers(0, 256, (count, 3, 32, 32)).astype(np.uint8), RNG.integers(0, labels, count)


def write_binary(path, images, *labels):
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = np.stack([np.asarray(column, np.uint8) for column in labels], 1)
    path.write_bytes(np.concatenate([columns, images.reshape(len(images), -1)], 1).tobytes())


def python_2(tree) -> bytes:
    """A pickle as Python 2 wrote it: text is bytes (BINSTRING), NumPy's modules have their old names."""
    raw = pickle.dumps(tree, 2)
    return raw.replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def write_python(path, images, **labels):
    path.parent.mkdir(parents=True, exist_ok=True)
    named = {name: [int(v) for v in values] for name, values in labels.items()}
    path.write_bytes(python_2({"data": images.reshape(len(images), -1), "batch_label": "batch", **named}))


def write_sheets(folder, images, labels):
    folder.mkdir(parents=True, exist_ok=True)
    rows = images.reshape(len(images), 3, 1024).transpose(0, 2, 1)
    Image.fromarray(rows).save(folder / "data_batch_1.png")
    (folder / "train_lables.json.gz").write_bytes(gzip.compress(json.dumps([int(v) for v in labels]).encode()))


@pytest.mark.parametrize("inside", ["cifar10/cifar-10-batches-bin", "cifar-10-batches-bin", "."])
def test_cifar10_binary(tmp_path, inside):
    parts = [cifar(4, 10) for _ in range(6)]
    for i, (images, labels) in enumerate(parts):
        name = f"data_batch_{i + 1}.bin" if i < 5 else "test_batch.bin"
        write_binary(tmp_path / inside / name, images, labels)
    train, test = sources.CIFAR10(tmp_path), sources.CIFAR10(tmp_path, train=False)
    np.testing.assert_array_equal(train.data.numpy(), np.concatenate([images for images, _ in parts[:5]]))
    np.testing.assert_array_equal(test.data.numpy(), parts[5][0])
    np.testing.assert_array_equal(test.targets.numpy(), parts[5][1])
    assert train[0][0].shape == (3, 32, 32) and train.classes[0] == "airplane" and train.class_to_idx["truck"] == 9
    normal = test.as_tensors().tensors[0].numpy()
    expected = (parts[5][0] / 255 - np.reshape(test.mean, (3, 1, 1))) / np.reshape(test.std, (3, 1, 1))
    np.testing.assert_allclose(normal, expected, atol=1e-5)


def test_cifar10_python_and_archive(tmp_path):
    parts = [cifar(3, 10) for _ in range(6)]
    folder = tmp_path / "made" / "cifar-10-batches-py"
    for i, (images, labels) in enumerate(parts):
        write_python(folder / (f"data_batch_{i + 1}" if i < 5 else "test_batch"), images, labels=labels)
    train = sources.CIFAR10(tmp_path / "made")
    np.testing.assert_array_equal(train.targets.numpy(), np.concatenate([labels for _, labels in parts[:5]]))
    np.testing.assert_array_equal(train.data.numpy(), np.concatenate([images for images, _ in parts[:5]]))
    (tmp_path / "packed").mkdir()
    with tarfile.open(tmp_path / "packed" / "cifar-10-python.tar.gz", "w:gz") as archive:
        archive.add(folder, "cifar-10-batches-py")
    unpacked = sources.CIFAR10(tmp_path / "packed", train=False)
    np.testing.assert_array_equal(unpacked.data.numpy(), parts[5][0])
    assert (tmp_path / "packed" / "cifar-10-batches-py" / "test_batch").is_file()


def test_cifar100(tmp_path):
    images, fine = cifar(6, 100)
    coarse = fine // 5
    write_binary(tmp_path / "bin" / "cifar-100-binary" / "train.bin", images, coarse, fine)
    write_python(tmp_path / "py" / "cifar-100-python" / "train", images, coarse_labels=coarse, fine_labels=fine)
    for form in ("bin", "py"):
        made, grouped = sources.CIFAR100(tmp_path / form), sources.CIFAR100(tmp_path / form, coarse=True)
        np.testing.assert_array_equal(made.data.numpy(), images)
        assert made.targets.tolist() == fine.tolist() and grouped.targets.tolist() == coarse.tolist()
        assert len(made.classes) == len(set(made.classes)) == 100 and len(set(grouped.classes)) == 20
        assert list(made.classes) == sorted(made.classes) and made.coarse_targets.tolist() == coarse.tolist()


def test_sheets(tmp_path):
    images, labels = cifar(7, 10)
    write_sheets(tmp_path / "cifar10", images, [*labels, 1, 2])
    made = sources.CIFAR10(tmp_path)
    np.testing.assert_array_equal(made.data.numpy(), images)
    assert made.targets.tolist() == labels.tolist()
    with pytest.raises(sources.SourceError, match=r"test_batch\.png"):
        sources.CIFAR10(tmp_path, train=False)
    write_sheets(tmp_path / "cifar10", images, labels[:3])
    with pytest.raises(LayoutError, match="3 labels for 7 pictures"):
        sources.CIFAR10(tmp_path)
    (tmp_path / "cifar10" / "data_batch_1.png").write_bytes(b"\x89PNG\r\n\x1a\n cut")
    with pytest.raises(FileFormatError, match="cannot be read"):
        sources.CIFAR10(tmp_path)


class Trap:
    def __reduce__(self):
        return (print, ("this was run",))


def test_cifar_faults(tmp_path, capsys):
    images, labels = cifar(2, 10)
    folder = tmp_path / "cifar-100-python"
    write_python(folder / "train", images, labels=labels)
    with pytest.raises(LayoutError, match="lacks coarse_labels, fine_labels; it has data, batch_label, labels"):
        sources.CIFAR100(tmp_path)
    (folder / "train").write_bytes(python_2({"data": Trap()}))
    with pytest.raises(UnsafePickleError, match=r"asks for '__builtin__.print'"):
        sources.CIFAR100(tmp_path)
    assert capsys.readouterr().out == ""
    write_python(folder / "train", images, coarse_labels=[0, 20], fine_labels=labels)
    with pytest.raises(LayoutError, match=r"coarse.*0\.\.19.*0\.\.20"):
        sources.CIFAR100(tmp_path)
    for kept in (0, 1, 100, 6000):
        write_python(folder / "train", images, coarse_labels=labels, fine_labels=labels)
        (folder / "train").write_bytes((folder / "train").read_bytes()[:kept])
        with pytest.raises(FileFormatError, match="train"):
            sources.CIFAR100(tmp_path)
    write_binary(tmp_path / "data_batch_1.bin", images, labels)
    with pytest.raises(sources.SourceError, match=r"data_batch_2.bin, data_batch_3.bin"):
        sources.CIFAR10(tmp_path)
    write_binary(tmp_path / "b" / "test_batch.bin", images, labels)
    (tmp_path / "b" / "test_batch.bin").write_bytes((tmp_path / "b" / "test_batch.bin").read_bytes()[:-7])
    with pytest.raises(TruncatedError, match="6139 bytes are no whole number of records of 3073"):
        sources.CIFAR10(tmp_path / "b", train=False)
    with pytest.raises(sources.SourceError, match=r"cifar-10-binary.tar.gz.*MD5 c32a1d4ab5d03f1284b67883e8d87530"):
        sources.CIFAR10(tmp_path / "empty")


def test_real_cifar(real):
    train, test = sources.CIFAR10(real), sources.CIFAR10(real, train=False)
    assert train.data.shape == (10_000, 3, 32, 32) and test.data.shape == (2000, 3, 32, 32)
    assert train.targets[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]  # data_batch_1: frog, truck, truck, deer…
    assert test.targets[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    histogram = [1005, 974, 1032, 1016, 999, 937, 1030, 1001, 1025, 981]  # of data_batch_1, as published
    assert np.bincount(train.targets.numpy()).tolist() == histogram
    first = train.data.numpy()[0]
    assert first[:, 0, 0].tolist() == [59, 62, 63]  # the frog's first pixel in the canonical batch


# ------------------------------------------------------------------------------------------ folders of pictures
def picture(path, colour, size=(5, 4), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)


def test_image_folder(tmp_path):
    for name, colour in {"dog/b.png": (1, 2, 3), "dog/a.PNG": (4, 5, 6), "cat/deep/x.bmp": (7, 8, 9)}.items():
        picture(tmp_path / name, colour)
    picture(tmp_path / "cat" / "grey.png", 9, mode="L")
    (tmp_path / "dog" / "notes.txt").write_text("no picture")
    (tmp_path / ".hidden").mkdir()
    made = sources.ImageFolder(tmp_path)
    assert made.classes == ("cat", "dog") and made.targets.tolist() == [0, 0, 1, 1] and len(made) == 4
    assert [path.rpartition("/")[2] for path, _ in made.imgs] == ["grey.png", "x.bmp", "a.PNG", "b.png"]
    image, label = made[3]
    assert image.shape == (3, 4, 5) and image.dtype == weft.uint8 and label == 1
    assert image[:, 0, 0].tolist() == [1, 2, 3] and made[0][0][:, 0, 0].tolist() == [9, 9, 9]
    seen = sources.ImageFolder(tmp_path, transform=lambda p: p.size, target_transform=lambda y: made.classes[y])
    assert seen[3] == ((5, 4), "dog")
    only = sources.ImageFolder(tmp_path, is_valid_file=lambda p: p.endswith((".bmp", ".png")))
    assert len(only) == 3


def test_image_folder_faults(tmp_path):
    with pytest.raises(sources.SourceError, match="no such folder"):
        sources.ImageFolder(tmp_path / "none")
    with pytest.raises(sources.SourceError, match="no folders inside"):
        sources.ImageFolder(tmp_path)
    picture(tmp_path / "a" / "x.png", (0, 0, 0))
    (tmp_path / "b").mkdir()
    with pytest.raises(sources.SourceError, match=r"no pictures .*\.png.* in b"):
        sources.ImageFolder(tmp_path)
    made = sources.ImageFolder(tmp_path, allow_empty=True)
    assert made.classes == ("a", "b") and len(made) == 1
    (tmp_path / "a" / "x.png").write_bytes((tmp_path / "a" / "x.png").read_bytes()[:40])
    with pytest.raises(FileFormatError, match=r"x\.png: the picture cannot be read"):
        made[0]


def test_imagenet(tmp_path):
    picture(tmp_path / "train" / "n02000000" / "n02000000_1.JPEG", (0, 0, 0))
    picture(tmp_path / "train" / "n01000000" / "n01000000_1.JPEG", (9, 9, 9))
    picture(tmp_path / "val" / "ILSVRC2012_val_00000001.JPEG", (1, 1, 1))
    train = sources.ImageNet(tmp_path)
    assert train.wnids == train.classes == ("n01000000", "n02000000") and train.targets.tolist() == [0, 1]
    with pytest.raises(sources.SourceError, match=r"LOC_val_solution.csv is missing"):
        sources.ImageNet(tmp_path, "val")
    (tmp_path / "LOC_val_solution.csv").write_text(
        "ImageId,PredictionString\nILSVRC2012_val_00000001,n02000000 1 2 3 4\n"
    )
    (tmp_path / "LOC_synset_mapping.txt").write_text("n01000000 fish, of the sea\nn02000000 bird\n")
    val = sources.ImageNet(tmp_path, "val")
    assert val.targets.tolist() == [1] and val.classes == ("fish, of the sea", "bird")
    assert val.wnid_to_idx == sources.ImageNet(tmp_path).wnid_to_idx
    (tmp_path / "val" / "other.JPEG").write_bytes(b"")
    with pytest.raises(LayoutError, match=r"says nothing of other.JPEG"):
        sources.ImageNet(tmp_path, "val")
    with pytest.raises(sources.SourceError, match=r"image-net.org.*train/n01440764"):
        sources.ImageNet(tmp_path / "none")
    with pytest.raises(ValueError, match="'train' or 'val'"):
        sources.ImageNet(tmp_path, "test")
