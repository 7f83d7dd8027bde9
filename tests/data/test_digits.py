"""The digits in the package against scikit-learn's copy, and what a damaged file says."""

import numpy as np
import pytest
from sklearn import datasets

from weft.data import digits


def test_equal_to_scikit_learn():
    images, labels = digits.load_digits()
    expected = datasets.load_digits()
    assert images.shape == (1797, 8, 8) and images.dtype == np.uint8
    assert labels.shape == (1797,) and labels.dtype == np.uint8
    np.testing.assert_array_equal(images, expected.images)
    np.testing.assert_array_equal(labels, expected.target)


def test_arrays_are_fresh():
    digits.load_digits()[0][:] = 0
    assert digits.load_digits()[0].max() == 16


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """A stand-in package folder; returns the path the loader will read."""
    monkeypatch.setattr(digits.resources, "files", lambda package: tmp_path)
    return tmp_path / "digits.npz"


IMAGES, LABELS = np.zeros((1797, 8, 8), np.uint8), np.zeros(1797, np.uint8)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": IMAGES[:5], "labels": LABELS}, r"images .*\(1797, 8, 8\).*uint8 of shape \(5, 8, 8\)"),
        ({"images": IMAGES, "labels": LABELS[:, None]}, r"labels .*\(1797,\).*\(1797, 1\)"),
        ({"images": IMAGES.astype(float), "labels": LABELS}, "images should be uint8.*float64"),
        ({"images": IMAGES + np.uint8(200), "labels": LABELS}, r"images should lie in 0\.\.16.*200"),
        ({"images": IMAGES, "labels": LABELS + np.uint8(10)}, r"labels should lie in 0\.\.9.*10"),
        ({"images": IMAGES}, "cannot be read.*labels"),
        ({"images": np.array([{}]), "labels": LABELS}, "cannot be read"),
    ],
)
def test_wrong_contents_are_named(damaged, arrays, message):
    np.savez_compressed(damaged, **arrays)
    with pytest.raises(ValueError, match=message) as caught:
        digits.load_digits()
    assert "reinstall weft" in str(caught.value)


@pytest.mark.parametrize("kept", [0, 1, 10, 1000, 20_000, 45_000])
def test_truncated_file(damaged, kept):
    whole = np.random.default_rng(0).integers(0, 17, (1797, 8, 8)).astype(np.uint8)
    np.savez_compressed(damaged, images=whole, labels=LABELS)
    damaged.write_bytes(damaged.read_bytes()[:kept])
    with pytest.raises(ValueError, match="cannot be read"):
        digits.load_digits()


@pytest.mark.parametrize("position", range(0, 1500, 25))
def test_flipped_byte(damaged, position):
    """Either the damage lies where it changes nothing, or the error says what to do."""
    np.savez_compressed(damaged, images=IMAGES, labels=LABELS)
    content = bytearray(damaged.read_bytes())
    content[position % len(content)] ^= 0xFF
    damaged.write_bytes(content)
    try:
        images, labels = digits.load_digits()
    except ValueError as error:
        assert "digits.npz" in str(error) and "reinstall weft" in str(error)
    else:
        np.testing.assert_array_equal(images, IMAGES)
        np.testing.assert_array_equal(labels, LABELS)


def test_not_an_archive_and_missing(damaged):
    np.save(damaged.with_suffix(".npy"), LABELS)
    damaged.with_suffix(".npy").rename(damaged)
    with pytest.raises(ValueError, match="cannot be read"):
        digits.load_digits()
    damaged.unlink()
    with pytest.raises(FileNotFoundError, match="missing from the package; reinstall weft"):
        digits.load_digits()
