"""Colours against Pillow, colorsys and closed forms; blur against PyTorch; mixing, erasing, RandAugment."""

import colorsys

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from scipy import stats

import weft
from weft.data import augment as A
from weft.data.augment import colour
from weft.data.augment.base import Source
from weft.data.augment.policy import OPERATIONS

RNG = np.random.default_rng(1)
BYTES = RNG.integers(0, 256, (4, 3, 12, 10), np.uint8)
SMOOTH = np.clip(np.cumsum(RNG.normal(0, 12, (2, 3, 16, 14)), 3) + RNG.uniform(40, 200, (2, 3, 16, 1)), 0, 255).astype(
    np.uint8
)


def generator(seed=0):
    return weft.Generator().manual_seed(seed)


def picture(pixels):
    return Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))


def treated(function, pixels, *factors):
    """A colour function of one image of bytes."""
    x = colour.as_unit(pixels[None], "test")
    return colour.from_unit(function(x, *(np.array([f]) for f in factors)), np.dtype(np.uint8))[0]


# ---- formulas ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [0.0, 0.3, 1.0, 1.7])
@pytest.mark.parametrize(
    ("function", "theirs"),
    [
        (colour.brightness, ImageEnhance.Brightness),
        (colour.contrast, ImageEnhance.Contrast),
        (colour.saturation, ImageEnhance.Color),
        (colour.sharpness, ImageEnhance.Sharpness),
    ],
)
def test_enhancements_against_pillow(function, theirs, factor):
    for pixels in (*BYTES, *SMOOTH):
        expected = np.asarray(theirs(picture(pixels)).enhance(factor)).transpose(2, 0, 1)
        difference = np.abs(treated(function, pixels, factor).astype(int) - expected)
        assert difference.max() <= (0 if factor == 1 else 2)  # Pillow rounds in between
        assert difference.mean() < 0.8


@pytest.mark.parametrize("bits", [1, 4, 8])
def test_posterize_against_pillow(bits):
    for pixels in BYTES:
        expected = np.asarray(ImageOps.posterize(picture(pixels), bits)).transpose(2, 0, 1)
        np.testing.assert_array_equal(treated(colour.posterize, pixels, bits), expected)


@pytest.mark.parametrize("threshold", [0, 100, 255])
def test_solarize_against_pillow(threshold):
    for pixels in BYTES:
        expected = np.asarray(ImageOps.solarize(picture(pixels), threshold)).transpose(2, 0, 1)
        np.testing.assert_array_equal(treated(colour.solarize, pixels, threshold / 255), expected)


def test_equalize_against_pillow():
    flat = np.full((3, 5, 5), 77, np.uint8)
    big = np.clip(RNG.normal(120, 30, (3, 64, 64)), 0, 255).astype(np.uint8)
    for pixels in (*BYTES, *SMOOTH, flat, big):
        expected = np.asarray(ImageOps.equalize(picture(pixels))).transpose(2, 0, 1)
        np.testing.assert_array_equal(treated(colour.equalize, pixels), expected)


def test_autocontrast_against_pillow():
    for pixels in (*SMOOTH, np.full((3, 4, 4), 9, np.uint8)):
        expected = np.asarray(ImageOps.autocontrast(picture(pixels))).transpose(2, 0, 1)
        assert np.abs(treated(colour.autocontrast, pixels).astype(int) - expected).max() <= 1


def test_hsv_against_colorsys():
    pixels = np.concatenate([RNG.random((200, 3)), np.eye(3), 1 - np.eye(3), np.full((2, 3), 0.4), np.zeros((1, 3))])
    batch = pixels.T[None, :, :, None]  # (1, 3, M, 1)
    hsv = colour.to_hsv(batch)
    expected = np.array([colorsys.rgb_to_hsv(*p) for p in pixels])
    np.testing.assert_allclose(hsv[0, :, :, 0].T, expected, atol=1e-14)
    np.testing.assert_allclose(colour.to_rgb(hsv), batch, atol=1e-14)
    for shift in (-0.5, -0.1, 0.25, 0.5):
        turned = colour.hue(batch, np.array([shift]))[0, :, :, 0].T
        expected = [colorsys.hsv_to_rgb((h + shift) % 1, s, v) for h, s, v in expected_hsv(pixels)]
        np.testing.assert_allclose(turned, expected, atol=1e-13)


def expected_hsv(pixels):
    return [colorsys.rgb_to_hsv(*p) for p in pixels]


def test_grey():
    for pixels in BYTES:
        expected = np.asarray(picture(pixels).convert("L"))
        ours = A.Grayscale()(pixels)
        assert ours.shape == (1, 12, 10) and np.abs(ours[0].astype(int) - expected).max() <= 1
        np.testing.assert_array_equal(A.Grayscale(3)(pixels), np.repeat(ours, 3, 0))
    np.testing.assert_array_equal(A.Grayscale()(BYTES[:, :1]), BYTES[:, :1])
    turned = (A.RandomGrayscale(0.3)(np.repeat(BYTES, 500, 0), generator()) != np.repeat(BYTES, 500, 0)).any((1, 2, 3))
    assert stats.binomtest(int(turned.sum()), 2000, 0.3).pvalue > 1e-3


# ---- jitter, blur, noise -----------------------------------------------------------------------------------


def test_jitter_follows_its_draws():
    x = RNG.random((6, 3, 4, 4))
    jitter = A.ColorJitter(0.4, 0.3, (0.5, 2.0), 0.2)
    factors, order = jitter.draw(Source.of(generator(3), 6))
    steps = (colour.brightness, colour.contrast, colour.saturation, colour.hue)
    expected = x.copy()
    for i in range(6):
        for number in order[i]:
            expected[i : i + 1] = steps[number](expected[i : i + 1], factors[i : i + 1, number])
    np.testing.assert_allclose(jitter(x, generator(3)), expected, atol=1e-13)


def test_jitter_distributions():
    factors, order = A.ColorJitter(0.4, 1.5, (0.5, 2.0), 0.2).draw(Source.of(generator(3), 4000))
    for column, (low, high) in zip(factors.T, [(0.6, 1.4), (0, 2.5), (0.5, 2.0), (-0.2, 0.2)], strict=True):
        assert stats.kstest(column, stats.uniform(low, high - low).cdf).pvalue > 1e-3
    counts = np.unique(order @ [64, 16, 4, 1], return_counts=True)[1]
    assert len(counts) == 24 and stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize(("kernel", "size"), [(3, (8, 9)), ((5, 3), (8, 9)), ((1, 1), (4, 4)), ((7, 9), (11, 12))])
def test_blur_against_convolution(kernel, size):
    x, sigma = RNG.random((3, 2, *size)), 0.8
    width, height = (kernel, kernel) if isinstance(kernel, int) else kernel
    taps = [torch.tensor(np.exp(-0.5 * ((np.arange(k) - k // 2) / sigma) ** 2)) for k in (height, width)]
    weights = torch.outer(*(t / t.sum() for t in taps)).expand(2, 1, height, width)
    wide = torch.nn.functional.pad(torch.tensor(x), (width // 2,) * 2 + (height // 2,) * 2, "reflect")
    expected = torch.nn.functional.conv2d(wide, weights, groups=2).numpy()
    np.testing.assert_allclose(A.GaussianBlur(kernel, sigma)(x), expected, atol=1e-13)


def test_blur_is_drawn_for_each_image_and_keeps_constants():
    x = np.broadcast_to(RNG.random((1, 1, 8, 8)), (3, 1, 8, 8))
    ours = A.GaussianBlur(5)(x, generator())
    assert not np.allclose(ours[0], ours[1])
    np.testing.assert_allclose(A.GaussianBlur(5)(np.full((2, 1, 1, 1), 0.3)), 0.3)
    np.testing.assert_array_equal(A.GaussianBlur(5)(np.full((1, 1, 3, 2), 200, np.uint8)), 200)


def test_noise():
    grey = np.full((20, 1, 50, 50), 0.5, np.float32)
    noise = A.GaussianNoise(0.1, 0.05)(grey, generator()) - 0.5
    assert stats.kstest(noise.reshape(-1), stats.norm(0.1, 0.05).cdf).pvalue > 1e-3
    assert A.GaussianNoise(sigma=1.0)(grey).min() == 0 and A.GaussianNoise(sigma=1.0, clip=False)(grey).min() < -1
    assert A.GaussianNoise(sigma=1.0)(BYTES).dtype == np.uint8


# ---- erasing and mixing ------------------------------------------------------------------------------------


def test_erasing_fills_its_rectangles():
    x = RNG.random((300, 3, 20, 30)) + 1
    transform = A.RandomErasing(0.6, value=(0.0, 0.25, 0.5))
    chosen, boxes = transform.draw(Source.of(generator(2), 300), 20, 30)
    expected = x.copy()
    for i in np.flatnonzero(chosen):
        top, left, h, w = boxes[i]
        expected[i, :, top : top + h, left : left + w] = np.array([0.0, 0.25, 0.5])[:, None, None]
    np.testing.assert_array_equal(transform(x, generator(2)), expected)
    assert stats.binomtest(int(chosen.sum()), 300, 0.6).pvalue > 1e-3
    noise = A.RandomErasing(1.0, value="random")(x, generator(2)) - x
    assert 0.02 < (noise != 0).mean() < 0.33


def test_erasing_leaves_tiny_images():
    x = RNG.random((5, 1, 1, 1))
    np.testing.assert_array_equal(A.RandomErasing(1.0)(x), x)


def test_mixup():
    x, y = RNG.random((6, 1, 2, 2)).astype(np.float32), np.array([0, 1, 2, 0, 1, 2])
    mixed, labels = A.MixUp(0.4, num_classes=3)((weft.tensor(x), weft.tensor(y)), generator(1))
    share = A.MixUp(0.4).draw(Source.of(generator(1), 6)).astype(np.float32)
    neighbour = np.roll(np.arange(6), 1)
    expected = share[:, None, None, None] * x + (1 - share)[:, None, None, None] * x[neighbour]
    np.testing.assert_allclose(mixed.numpy(), expected, atol=1e-7)
    onehot = np.eye(3)[y]
    np.testing.assert_allclose(
        labels.numpy(), share[:, None] * onehot + (1 - share)[:, None] * onehot[neighbour], atol=1e-7
    )
    np.testing.assert_allclose(labels.sum(1).numpy(), 1, atol=1e-6)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_shares_are_beta(alpha):
    shares = A.MixUp(alpha).draw(Source.of(generator(4), 3000))
    assert stats.kstest(shares, stats.beta(alpha, alpha).cdf).pvalue > 1e-3


def test_cutmix_labels_are_areas():
    x = np.broadcast_to(np.arange(8, dtype=np.uint8)[:, None, None, None], (8, 1, 16, 12))
    mixed, labels = A.CutMix(num_classes=8)((x, np.arange(8)), generator(1))
    for i in range(8):
        assert labels[i, i].item() == pytest.approx((mixed[i] == i).mean(), abs=1e-6)
        assert labels[i, (i - 1) % 8].item() == pytest.approx((mixed[i] == (i - 1) % 8).mean(), abs=1e-6)
    soft = A.CutMix()((x, np.eye(8)), generator(1))[1]
    np.testing.assert_array_equal(soft.numpy(), labels.numpy())


# ---- RandAugment -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_randaugment(dtype):
    x = BYTES if dtype == np.uint8 else (BYTES / 255).astype(dtype)
    transform = A.RandAugment(3, 12)
    ours = transform(x, generator(6))
    np.testing.assert_array_equal(ours, transform(x, generator(6)))
    assert (
        ours.dtype == dtype
        and ours.shape == x.shape
        and ours.min() >= 0
        and ours.max() <= (255 if dtype == np.uint8 else 1)
    )
    np.testing.assert_array_equal(A.RandAugment(0)(x), x)


def test_randaugment_draws_every_operation():
    operations, signs = A.RandAugment(2).draw(Source.of(generator(), 10_000))
    assert stats.chisquare(np.bincount(operations.reshape(-1), minlength=14)).pvalue > 1e-3
    assert stats.binomtest(int((signs > 0).sum()), 20_000).pvalue > 1e-3


@pytest.mark.parametrize("name", OPERATIONS)
def test_randaugment_operations(name):
    transform = A.RandAugment(magnitude=15)  # half strength
    number = np.full(2, OPERATIONS.index(name))
    ours = transform.round(SMOOTH, number, np.array([1.0, -1.0]))
    image = picture(SMOOTH[0])
    expected = {
        "Identity": lambda: image,
        "Brightness": lambda: ImageEnhance.Brightness(image).enhance(1.45),
        "Color": lambda: ImageEnhance.Color(image).enhance(1.45),
        "Contrast": lambda: ImageEnhance.Contrast(image).enhance(1.45),
        "Sharpness": lambda: ImageEnhance.Sharpness(image).enhance(1.45),
        "Posterize": lambda: ImageOps.posterize(image, 6),
        "Solarize": lambda: ImageOps.solarize(image, 128),
        "AutoContrast": lambda: ImageOps.autocontrast(image),
        "Equalize": lambda: ImageOps.equalize(image),
        "Rotate": lambda: image.rotate(15, Image.Resampling.NEAREST),
        "ShearX": lambda: image.transform(image.size, Image.Transform.AFFINE, (1, 0.15, -0.15 * 8, 0, 1, 0)),
        "ShearY": lambda: image.transform(image.size, Image.Transform.AFFINE, (1, 0, 0, 0.15, 1, -0.15 * 7)),
        "TranslateX": lambda: image.transform(image.size, Image.Transform.AFFINE, (1, 0, -3, 0, 1, 0)),
        "TranslateY": lambda: image.transform(image.size, Image.Transform.AFFINE, (1, 0, 0, 0, 1, -3)),
    }[name]
    difference = np.abs(ours[0].astype(int) - np.asarray(expected()).transpose(2, 0, 1))
    assert np.mean(difference > 2) < 0.05, name
