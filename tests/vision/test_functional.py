"""weft.vision.transforms.functional beside torchvision 0.28: the same functions of the same images, from one table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.vision.transforms import functional as F
from weft.vision.transforms import v2

from .torchvision_oracle import torchvision

RANDOM = np.random.default_rng(0)
SMOOTH = np.kron(RANDOM.integers(0, 256, (3, 6, 8)), np.ones((1, 4, 4))).astype(np.uint8)  # (3, 24, 32)
NOISY = RANDOM.integers(0, 256, (3, 24, 32)).astype(np.uint8)

# name, arguments, how many levels of 255 a byte may be away (torchvision cuts where Weft rounds), where PIL is compared
CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "resize smaller": ("resize", {"size": [10, 14]}, 1),
    "resize larger": ("resize", {"size": [40, 50]}, 1),
    "resize the shorter side": ("resize", {"size": [12]}, 1),
    "resize with a largest side": ("resize", {"size": [20], "max_size": 22}, 1),
    "resize cubic": ("resize", {"size": [10, 50], "interpolation": "bicubic"}, 1),
    "resize nearest": ("resize", {"size": [11, 15], "interpolation": "nearest"}, 0),
    "crop": ("crop", {"top": 3, "left": 4, "height": 10, "width": 12}, 0),
    "crop beyond the edge": ("crop", {"top": -3, "left": 20, "height": 10, "width": 20}, 0),
    "center crop": ("center_crop", {"output_size": [11, 13]}, 0),
    "center crop of more than there is": ("center_crop", {"output_size": [30, 20]}, 0),
    "resized crop": ("resized_crop", {"top": 2, "left": 3, "height": 15, "width": 20, "size": [8, 8]}, 1),
    "pad": ("pad", {"padding": [1, 2, 3, 4], "fill": 7}, 0),
    "pad two": ("pad", {"padding": [2, 3], "padding_mode": "reflect"}, 0),
    "pad edge": ("pad", {"padding": 3, "padding_mode": "edge"}, 0),
    "pad symmetric": ("pad", {"padding": [3], "padding_mode": "symmetric"}, 0),
    "hflip": ("hflip", {}, 0),
    "vflip": ("vflip", {}, 0),
    "brightness": ("adjust_brightness", {"brightness_factor": 1.4}, 1),
    "contrast": ("adjust_contrast", {"contrast_factor": 0.6}, 1),
    "saturation": ("adjust_saturation", {"saturation_factor": 1.7}, 1),
    "hue": ("adjust_hue", {"hue_factor": 0.2}, 2),
    "gamma": ("adjust_gamma", {"gamma": 0.7, "gain": 1.1}, 1),
    "sharpness": ("adjust_sharpness", {"sharpness_factor": 2.5}, 1),
    "grey": ("rgb_to_grayscale", {"num_output_channels": 3}, 1),
    "blur": ("gaussian_blur", {"kernel_size": [5, 3], "sigma": [1.2, 0.7]}, 1),
    "blur with its own width": ("gaussian_blur", {"kernel_size": [7, 7]}, 1),
    "invert": ("invert", {}, 0),
    "posterize": ("posterize", {"bits": 3}, 0),
    "autocontrast": ("autocontrast", {}, 1),
    "equalize": ("equalize", {}, 0),
}
FLOATS = [name for name in CASES if name not in ("equalize", "posterize")]  # torchvision takes bytes alone
TENSORS_ONLY = ("pad symmetric",)


def beside(function: str, options: dict[str, Any], image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    import torch

    theirs = getattr(torchvision().transforms.functional, function)
    modes = torchvision().transforms.InterpolationMode
    others = {key: modes(value) if key == "interpolation" else value for key, value in options.items()}
    return getattr(F, function)(weft.tensor(image), **options).numpy(), theirs(torch.tensor(image), **others).numpy()


@pytest.mark.parametrize("name", CASES)
def test_bytes_are_those_of_torchvision(name: str) -> None:
    function, options, away = CASES[name]
    for image in (NOISY, np.stack([NOISY, SMOOTH])):
        found, expected = beside(function, options, image)
        assert found.shape == expected.shape and found.dtype == np.uint8
        assert np.abs(found.astype(int) - expected.astype(int)).max() <= away


@pytest.mark.parametrize("name", FLOATS)
def test_floating_values_are_those_of_torchvision(name: str) -> None:
    function, options, _ = CASES[name]
    if options.get("fill"):
        options = {**options, "fill": 0.25}
    found, expected = beside(function, options, (NOISY / 255).astype(np.float32))
    grey = name in ("contrast", "saturation", "grey")  # theirs weighs red by 0.2989, ours by 0.299 as the standard does
    np.testing.assert_allclose(found, expected, atol=1.1e-4 if grey else 2e-5)


@pytest.mark.parametrize("name", [name for name in CASES if name not in TENSORS_ONLY])
def test_pil_images_are_those_of_torchvision(name: str) -> None:
    from PIL import Image

    function, options, away = CASES[name]
    picture = Image.fromarray(np.ascontiguousarray(SMOOTH.transpose(1, 2, 0)))
    modes = torchvision().transforms.InterpolationMode
    others = {key: modes(value) if key == "interpolation" else value for key, value in options.items()}
    expected = getattr(torchvision().transforms.functional, function)(picture, **others)
    found = getattr(F, function)(picture, **options)
    assert isinstance(found, Image.Image) and found.size == expected.size and found.mode == expected.mode
    difference = np.abs(np.asarray(found).astype(int) - np.asarray(expected).astype(int))
    # PIL turns hues in 256 steps, rounds between rows and columns, and takes the other pixel at half a step
    assert difference.max() <= {"hue": 12, "resize nearest": 255, "resize cubic": 4}.get(name, away + 1)


TURNS: dict[str, tuple[str, dict[str, Any]]] = {
    "rotate": ("rotate", {"angle": 33.0}),
    "rotate about a point": ("rotate", {"angle": -20.0, "center": [5, 9]}),
    "rotate and show all": ("rotate", {"angle": 33.0, "expand": True}),
    "rotate by 90 and show all": ("rotate", {"angle": 90.0, "expand": True}),
    "affine": ("affine", {"angle": 12.0, "translate": [3, -2], "scale": 1.2, "shear": [5.0, -8.0]}),
    "affine, one shear": ("affine", {"angle": 0.0, "translate": [0, 0], "scale": 0.7, "shear": [15.0]}),
    "perspective": (
        "perspective",
        {"startpoints": [[0, 0], [31, 0], [31, 23], [0, 23]], "endpoints": [[2, 3], [28, 1], [30, 20], [4, 22]]},
    ),
}


@pytest.mark.parametrize("name", TURNS)
def test_moved_images_are_those_of_torchvision(name: str) -> None:
    function, options = TURNS[name]
    found, expected = beside(function, {**options, "interpolation": "bilinear"}, (SMOOTH / 255).astype(np.float32))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=2e-3)  # theirs goes through coordinates of single precision
    near, there = beside(function, {**options, "interpolation": "nearest"}, SMOOTH)
    assert (near != there).mean() < 0.02  # pixels that lie half-way


def test_without_antialiasing() -> None:
    for mode in ("bilinear", "bicubic"):
        options = {"size": [7, 9], "antialias": False, "interpolation": mode}
        found, expected = beside("resize", options, (NOISY / 255).astype(np.float32))
        np.testing.assert_allclose(found, expected, atol=2e-5)


def test_solarize_five_crop_ten_crop_erase_normalize() -> None:
    import torch

    theirs = torchvision().transforms.functional
    np.testing.assert_array_equal(
        F.solarize(weft.tensor(NOISY), 100).numpy(), theirs.solarize(torch.tensor(NOISY), 100)
    )
    for ours, other in (
        (F.five_crop(weft.tensor(NOISY), [9, 8]), theirs.five_crop(torch.tensor(NOISY), [9, 8])),
        (F.ten_crop(weft.tensor(NOISY), 7, True), theirs.ten_crop(torch.tensor(NOISY), 7, True)),
    ):
        assert len(ours) == len(other)
        for a, b in zip(ours, other, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    values = (NOISY / 255).astype(np.float32)
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    expected = theirs.normalize(torch.tensor(values), mean, std).numpy()
    np.testing.assert_allclose(F.normalize(weft.tensor(values), mean, std).numpy(), expected, atol=1e-6)
    own = weft.tensor(values)
    assert F.normalize(own, mean, std, inplace=True) is own
    np.testing.assert_allclose(own.numpy(), expected, atol=1e-6)
    erased = F.erase(weft.tensor(values), 2, 3, 5, 6, weft.tensor(0.5)).numpy()
    np.testing.assert_array_equal(erased, theirs.erase(torch.tensor(values), 2, 3, 5, 6, torch.tensor(0.5)))


@pytest.mark.parametrize(
    ("first", "second"),
    [("uint8", "float32"), ("float32", "uint8"), ("float64", "int32"), ("uint8", "int16"), ("int32", "uint8")],
)
def test_other_types_are_those_of_torchvision(first: str, second: str) -> None:
    import torch

    values = (NOISY / 255) if first.startswith("float") else NOISY.astype(np.int64) << (16 if first == "int32" else 0)
    values = values.astype(first)
    expected = torchvision().transforms.functional.convert_image_dtype(torch.tensor(values), getattr(torch, second))
    found = F.convert_image_dtype(weft.tensor(values), getattr(weft, second))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
    with pytest.raises(weft.errors.DtypeError, match="too few digits"):
        F.convert_image_dtype(weft.zeros(1, 2, 2), weft.int32)


def test_kinds_of_images_go_into_one_another() -> None:
    import torch
    from PIL import Image

    theirs = torchvision().transforms.functional
    pixels = np.ascontiguousarray(NOISY.transpose(1, 2, 0))
    picture = Image.fromarray(pixels)
    for given in (picture, pixels, pixels[:, :, 0], picture.convert("L")):
        np.testing.assert_array_equal(F.to_tensor(given).numpy(), theirs.to_tensor(given).numpy())
    np.testing.assert_array_equal(F.pil_to_tensor(picture).numpy(), theirs.pil_to_tensor(picture).numpy())
    np.testing.assert_array_equal(np.asarray(F.to_pil_image(pixels)), pixels)
    values = torch.tensor((NOISY / 255).astype(np.float32))
    again = np.asarray(F.to_pil_image(weft.tensor(values.numpy()))).astype(int)
    assert np.abs(again - np.asarray(theirs.to_pil_image(values)).astype(int)).max() <= 1
    assert F.get_dimensions(picture) == theirs.get_dimensions(picture) == F.get_dimensions(weft.tensor(NOISY))
    assert F.get_image_size(weft.tensor(NOISY)) == [32, 24] and v2.functional.get_size(picture) == [24, 32]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: F.resize(x, 4, interpolation="lanczos"), "interpolation"),
        (lambda x: F.rotate(x, 4, interpolation="bicubic"), "interpolation"),
        (lambda x: F.gaussian_blur(x, 4), "odd"),
        (lambda x: F.adjust_hue(x, 0.7), "hue_factor"),
        (lambda x: F.five_crop(x, 40), "at most"),
        (lambda x: F.affine(x, 0, [0, 0], 0, 0), "scale"),
        (lambda x: F.pil_to_tensor(x), "PIL"),
        (lambda x: F.posterize(x, 9), "bits"),
        (lambda x: F.perspective(x, [[0, 0]], [[0, 0]]), "four points"),
    ],
)
def test_what_cannot_be_says_why(call: Any, words: str) -> None:
    with pytest.raises(weft.errors.WeftError, match=words):
        call(weft.tensor(NOISY))
