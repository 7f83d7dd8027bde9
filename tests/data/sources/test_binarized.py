"""Fixed-binarised MNIST against what is published about it; the other two ways to make bits of brightness."""

import numpy as np
import pytest
import scipy.io

import weft
from weft.data import augment, sources
from weft.errors import OptionError
from weft.io.errors import FileFormatError, LayoutError

pytestmark = pytest.mark.filterwarnings("ignore::weft.data.sources.SourceWarning")  # made-up files
PARTS = {"train": 50_000, "valid": 10_000, "test": 10_000}


def write(folder, bits, part="train", name="X"):
    scipy.io.savemat(folder / f"binarized_mnist_{part}.mat", {name: bits})


def some_bits(count=5):
    return np.random.default_rng(0).integers(0, 2, (count, 784), np.uint8)


def test_a_file_becomes_images(tmp_path):
    bits = some_bits()
    write(tmp_path, bits)
    data = sources.BinarizedMNIST(tmp_path)
    assert repr(data) == "BinarizedMNIST(5 images of (1, 28, 28), train, fixed binarisation)"
    assert data[3].dtype == weft.float32 and data[3].shape == (1, 28, 28)
    assert (data[3].numpy().ravel() == bits[3]).all()
    assert (data.gather([4, 1]).numpy().reshape(2, -1) == bits[[4, 1]]).all()
    assert (data.as_tensors(flat=True).tensors[0].numpy() == bits).all()
    assert data.as_tensors().tensors[0].shape == (5, 1, 28, 28)
    turned = sources.BinarizedMNIST(tmp_path, transform=lambda image: 1 - image)
    assert (turned.gather([2]).numpy().ravel() == 1 - bits[2]).all() and (
        turned[2].numpy().ravel() == 1 - bits[2]
    ).all()


def test_a_part_is_drawn_from_everywhere(tmp_path):
    bits = np.zeros((200, 784), np.uint8)
    bits[:, 0] = np.arange(200) >= 100  # sorted by "class"
    write(tmp_path, bits, "test")
    data = sources.BinarizedMNIST(tmp_path, split="test")
    part = data.drawn(50, seed=1).flatten(1)
    assert part.shape == (50, 784) and 0.25 < part[:, 0].mean().item() < 0.75
    assert (part == data.drawn(50, seed=1).flatten(1)).all() and (part != data.drawn(50, seed=2).flatten(1)).any()
    with pytest.raises(OptionError, match="expected 0 to 200 images"):
        data.drawn(201)


@pytest.mark.parametrize(
    ("bits", "name", "error", "message"),
    [
        (2 * some_bits(), "X", LayoutError, "0 and 1 alone"),
        (some_bits()[:, :100], "X", LayoutError, r"matrix \(N, 784\)"),
        (some_bits(), "Y", LayoutError, "no matrix X"),
    ],
)
def test_faults(tmp_path, bits, name, error, message):
    write(tmp_path, bits, name=name)
    with pytest.raises(error, match=message):
        sources.BinarizedMNIST(tmp_path)


def test_damaged_files_and_unknown_parts(tmp_path):
    (tmp_path / "binarized_mnist_train.mat").write_bytes(b"MATLAB 5.0 MAT-file" + bytes(200))
    with pytest.raises(FileFormatError, match="fetch it again"):
        sources.BinarizedMNIST(tmp_path)
    with pytest.raises(OptionError, match="train, valid, test"):
        sources.BinarizedMNIST(tmp_path, split="validation")
    with pytest.raises(sources.SourceError, match=r"binarized_mnist_test\.mat"):
        sources.BinarizedMNIST(tmp_path, split="test")


def test_the_real_set(real):
    """Its sizes, its ink; that the test part is sorted by digits, which is why no prefix of it may be judged."""
    parts = {part: sources.BinarizedMNIST(real, split=part).data.numpy() for part in PARTS}
    assert {part: len(bits) for part, bits in parts.items()} == PARTS
    grey = sources.MNIST(real, train=False).data.numpy() / 255.0
    assert abs(parts["test"].mean() - grey.mean()) < 2e-4  # the pixels were drawn with these means
    assert np.abs(parts["test"].mean(0) - grey.mean(0)).max() < 5 * 0.5 / 10_000**0.5
    ink = parts["test"].reshape(10, -1).mean(1)
    assert ink[0] > 0.16 and ink[1] < 0.09  # zeros, then ones


# ---- the other two ways --------------------------------------------------------------------------------------


def test_dynamic_bits_have_the_brightness_as_their_mean():
    image = np.linspace(0, 255, 64).astype(np.uint8).reshape(1, 8, 8)
    many = np.repeat(image[None], 4000, 0)
    transform = augment.DynamicBinarize()
    bits = transform(many, weft.Generator().manual_seed(3))
    assert bits.dtype == np.float32 and set(np.unique(bits)) == {0.0, 1.0}
    brightness = image / 255.0
    error = np.sqrt(brightness * (1 - brightness) / 4000)
    assert (np.abs(bits.mean(0) - brightness) <= 5 * error).all()  # black and white are certain
    again = transform(many, weft.Generator().manual_seed(3))
    assert (bits == again).all() and (bits != transform(many, weft.Generator().manual_seed(4))).any()


def test_threshold_bits():
    image = weft.tensor([[[0.2, 0.5], [0.51, 1.0]]])
    assert augment.ThresholdBinarize()(image).tolist() == [[[0.0, 0.0], [1.0, 1.0]]]
    assert augment.ThresholdBinarize(0.1)(image).tolist() == [[[1.0, 1.0], [1.0, 1.0]]]
    with pytest.raises(OptionError, match="probability"):
        augment.ThresholdBinarize(2.0)
