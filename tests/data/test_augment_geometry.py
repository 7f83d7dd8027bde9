"""Moved images against exact maps of pixels, PyTorch's grid sampling and interpolation, and NumPy's padding."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional as F

import weft
from weft.data import augment as A
from weft.data.augment.base import Source
from weft.data.augment.resize import resized_crop
from weft.data.augment.warp import affine_places, homography, inverse_affine, projective_places, warp
from weft.errors import OptionError, ShapeError

RNG = np.random.default_rng(0)


def images(n=4, c=3, h=6, w=6, dtype=np.float64):
    x = RNG.random((n, c, h, w))
    return (x * 255).astype(np.uint8) if dtype == np.uint8 else x.astype(dtype)


def generator(seed=0):
    return weft.Generator().manual_seed(seed)


def exact(rotation, x):
    np.testing.assert_array_equal(rotation(x, generator()), x)


DTYPES = [np.uint8, np.float32, np.float64, np.float16, np.int64, np.bool_]

# ---- exact maps --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("flip", "axis"), [(A.RandomHorizontalFlip(1), 3), (A.RandomVerticalFlip(1), 2)])
def test_flips(flip, axis, dtype):
    x = images(h=5, w=7).astype(dtype)
    once = flip(x)
    np.testing.assert_array_equal(once, np.flip(x, axis))
    np.testing.assert_array_equal(flip(once), x)
    assert once.dtype == dtype


@pytest.mark.parametrize("flip", [A.RandomHorizontalFlip, A.RandomVerticalFlip])
def test_flips_are_drawn_for_each_image(flip):
    x = np.broadcast_to(np.arange(4.0).reshape(1, 1, 2, 2), (10_000, 1, 2, 2))
    turned = (flip(0.3)(x, generator()) != x).any((1, 2, 3))
    assert stats.binomtest(int(turned.sum()), 10_000, 0.3).pvalue > 1e-3
    exact(flip(0), images())


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("size", [(6, 6), (5, 5), (1, 1)])
@pytest.mark.parametrize("quarters", [0, 1, 2, 3, 4])
def test_quarter_turns(quarters, size, interpolation, dtype):
    x = images(3, 2, *size, dtype=dtype)
    ours = A.RandomRotation((90 * quarters,) * 2, interpolation)(x)
    tolerance = 0 if interpolation == "nearest" or dtype == np.uint8 else 1e-6
    np.testing.assert_allclose(ours, np.rot90(x, quarters, (2, 3)), atol=tolerance)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize(("dx", "dy"), [(0, 0), (2, 0), (0, -3), (1, 1), (-6, 0), (9, 9)])
def test_whole_translations_are_rolls_with_fill(dx, dy, interpolation):
    x = images(2, 3, 5, 6)
    shift = np.tile([[dx, dy]], (2, 1)).astype(float)
    inverse = inverse_affine(np.zeros(2), shift, np.ones(2), np.zeros((2, 2)))
    ours = warp(x, affine_places(inverse, 5, 6), interpolation, (0.25, 0.5, 1.0))
    expected = np.empty_like(x)
    for channel, value in enumerate((0.25, 0.5, 1.0)):
        wide = np.pad(x[:, channel], [(0, 0), (20, 20), (20, 20)], constant_values=value)
        expected[:, channel] = np.roll(wide, (dy, dx), (1, 2))[:, 20:25, 20:26]
    np.testing.assert_allclose(ours, expected, atol=1e-15)


IDENTITIES = {
    "rotation": A.RandomRotation(0, "bilinear"),
    "affine": A.RandomAffine(0, interpolation="bilinear"),
    "translate": A.RandomTranslate(0.0),
    "perspective": A.RandomPerspective(0.0, 1.0, "nearest"),
    "lens": A.LensDistortion(0, 0),
    "crop": A.RandomCrop((6, 7)),
    "center": A.CenterCrop((6, 7)),
    "pad": A.Pad(0),
    "resize": A.Resize((6, 7)),
    "resized-crop": A.RandomResizedCrop((6, 7), (1, 1), (7 / 6, 7 / 6)),
}


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("name", IDENTITIES)
def test_identity_parameters_change_nothing(name, dtype):
    exact(IDENTITIES[name], images(3, 3, 6, 7, dtype))


EVERY = {
    **IDENTITIES,
    "hflip": A.RandomHorizontalFlip(),
    "vflip": A.RandomVerticalFlip(),
    "rotation-30": A.RandomRotation(30),
    "affine-all": A.RandomAffine(20, (0.2, 0.1), (0.8, 1.2), (-5, 5, -9, 9), "bilinear", stretch=(0.9, 1.1)),
    "perspective-half": A.RandomPerspective(0.5, 0.7),
    "lens-random": A.LensDistortion(0.3, 0.1),
    "crop-4": A.RandomCrop((6, 7), padding=4),
    "resized": A.RandomResizedCrop((6, 7)),
}


@pytest.mark.parametrize("name", EVERY)
def test_one_image_empty_batches_and_size_one(name):
    transform, x = EVERY[name], images(3, 3, 6, 7, np.float32)
    np.testing.assert_array_equal(transform(x[0], generator()), transform(x[:1], generator())[0])
    np.testing.assert_array_equal(transform(weft.tensor(x), generator()).numpy(), transform(x, generator()))
    assert transform(x[:0], generator()).shape == (0, 3, 6, 7)
    if name not in ("crop", "crop-4"):
        assert np.isfinite(transform(x[:, :, :1, :1], generator())).all()


@pytest.mark.parametrize("name", EVERY)
def test_seeds_prefixes_and_sample_generators(name):
    transform, x = EVERY[name], images(8, 3, 6, 7, np.float32)
    before, whole = x.copy(), transform(x, generator(5))
    np.testing.assert_array_equal(whole, transform(x, generator(5)))
    np.testing.assert_array_equal(transform(x[:3], generator(5)), whole[:3])  # what follows does not matter
    each = A.sample_generators(generator(7), range(8))
    together = transform(x, each)
    apart = [transform(x[i : i + 2], A.sample_generators(generator(7), range(i, i + 2))) for i in (4, 0, 2, 6)]
    np.testing.assert_array_equal(np.concatenate([apart[1], apart[2], apart[0], apart[3]]), together)
    np.testing.assert_array_equal(x, before)  # the input is never written to


def test_calls_differ_and_strided_images_are_like_others():
    transform, x = A.RandomAffine(30, interpolation="bilinear"), images(4, 3, 8, 8)
    g = generator()
    assert not np.array_equal(transform(x, g), transform(x, g))
    strided = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)[:, :, ::-1]
    np.testing.assert_array_equal(transform(strided, generator(1)), transform(strided.copy(), generator(1)))
    weft.manual_seed(3)
    first = transform(x)
    weft.manual_seed(3)
    np.testing.assert_array_equal(transform(x), first)


# ---- PyTorch as oracle -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize(("h", "w"), [(7, 9), (8, 8), (1, 5)])
def test_affine_against_grid_sample(h, w, mode):
    x = images(5, 3, h, w)
    angle, scale, shear = RNG.uniform(-60, 60, 5), RNG.uniform(0.7, 1.4, 5), RNG.uniform(-20, 20, (5, 2))
    translate, stretch = RNG.uniform(-2, 2, (5, 2)), RNG.uniform(0.8, 1.2, (5, 2))
    inverse = inverse_affine(angle, translate, scale, shear, stretch)
    ours = warp(x, affine_places(inverse, h, w), mode)
    half = np.array([w, h]) / 2  # PyTorch's coordinates run from −1 to 1 between the outer edges
    theta = inverse / half[:, None]
    theta[:, :, :2] *= half
    grid = F.affine_grid(torch.tensor(theta), (5, 3, h, w), align_corners=False)
    theirs = F.grid_sample(torch.tensor(x), grid, mode, "zeros", align_corners=False).numpy()
    if mode == "bilinear":
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    else:  # a coordinate that is ½ up to rounding may go either way
        assert (ours == theirs).mean() > 0.98


def test_inverse_affine_composes_as_documented():
    angle, scale, shear, stretch, shift = 25.0, 1.3, (10.0, -7.0), (0.9, 1.2), (3.0, -2.0)
    t, sx, sy = math.radians(angle), math.tan(math.radians(10)), math.tan(math.radians(-7))
    rotation = np.array([[math.cos(t), -math.sin(t)], [math.sin(t), math.cos(t)]])
    forward = scale * rotation @ [[1, 0], [-sy, 1]] @ [[1, -sx], [0, 1]] @ np.diag(stretch)
    arguments = [np.array([v]) for v in (angle, shift, scale, shear, stretch)]
    inverse = inverse_affine(*arguments)[0]
    point = np.array([2.0, 5.0])
    np.testing.assert_allclose(inverse[:, :2] @ (forward @ point + shift) + inverse[:, 2], point, atol=1e-12)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_perspective_against_grid_sample(mode):
    x = images(4, 2, 9, 12)
    _, end = A.RandomPerspective(0.6, 1.0).draw(Source.of(generator(), 4), 9, 12)
    corners = np.broadcast_to(np.array([[0, 0], [12, 0], [12, 9], [0, 9]]) - 0.5, end.shape)
    matrices = homography(end, corners)
    mapped = matrices @ np.concatenate([end, np.ones((4, 4, 1))], 2).swapaxes(1, 2)
    np.testing.assert_allclose((mapped[:, :2] / mapped[:, 2:]).swapaxes(1, 2), corners, atol=1e-9)
    places = projective_places(matrices, 9, 12)
    grid = np.moveaxis((places + 0.5) / np.array([12, 9])[:, None, None] * 2 - 1, 1, -1)
    theirs = F.grid_sample(torch.tensor(x), torch.tensor(grid), mode, "zeros", align_corners=False).numpy()
    ours = A.RandomPerspective(0.6, 1.0, mode)(x, generator())
    assert np.abs(ours - theirs).max() < 1e-11 if mode == "bilinear" else (ours == theirs).mean() > 0.98


def test_rotation_about_a_center_keeps_it():
    x = np.zeros((1, 1, 9, 9))
    x[0, 0, 2, 6] = 1  # pixel (6, 2) has its center at (6.5, 2.5)
    for angle in (17.0, 90.0, 133.0):
        turned = A.RandomRotation((angle, angle), "bilinear", center=(6.5, 2.5))(x)
        assert turned[0, 0, 2, 6] == pytest.approx(1, abs=1e-12)


def test_lens_distortion_is_radial():
    y, x = np.mgrid[:9, :9] - 4.0
    ramp = (x + 20)[None, None]  # bilinear interpolation is exact on a plane
    ours = A.LensDistortion((0.1, 0.1), (-0.05, -0.05))(ramp)
    square = (x**2 + y**2) / (81 / 2)
    stretch = 1 + 0.1 * square - 0.05 * square**2
    expected = x * stretch + 20
    inside = np.maximum(np.abs(x), np.abs(y)) * stretch < 4
    np.testing.assert_allclose(ours[0, 0][inside], expected[inside], atol=1e-12)
    assert inside.sum() == 49


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(4, 5), (13, 20), (7, 3), (1, 1)])
def test_resize_against_interpolate(size, mode):
    x = images(2, 3, 9, 11)
    theirs = F.interpolate(torch.tensor(x), size, mode=mode, antialias=True, align_corners=False).numpy()
    np.testing.assert_allclose(A.Resize(size, mode)(x), theirs, atol=1e-6)


@pytest.mark.parametrize("size", [(4, 5), (13, 20), (1, 1)])
def test_nearest_resize_against_interpolate(size):
    x = images(2, 3, 9, 11, np.uint8)
    theirs = F.interpolate(torch.tensor(x), size, mode="nearest").numpy()
    np.testing.assert_array_equal(A.Resize(size, "nearest")(x), theirs)


@pytest.mark.parametrize(
    ("size", "max_size", "expected"),
    [(4, None, (4, 8)), ([4], None, (4, 8)), (4, 6, (3, 6)), ((3, 5), None, (3, 5)), (10, None, (10, 20))],
)
def test_resize_of_the_shorter_side(size, max_size, expected):
    assert A.Resize(size, max_size=max_size)(images(1, 1, 5, 10)).shape[2:] == expected
    if isinstance(size, int):
        assert A.Resize(size, max_size=max_size)(images(1, 1, 10, 5)).shape[2:] == expected[::-1]


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
def test_windows_are_resized_by_themselves(mode):
    x = images(4, 3, 16, 20)
    boxes = A.RandomResizedCrop(8).draw(Source.of(generator(), 4), 16, 20)
    ours = resized_crop(x, boxes, (8, 8), mode)
    options = {} if mode == "nearest" else {"antialias": True, "align_corners": False}
    for image, result, (top, left, h, w) in zip(x, ours, boxes, strict=True):
        window = torch.tensor(image[None, :, top : top + h, left : left + w])
        np.testing.assert_allclose(result, F.interpolate(window, (8, 8), mode=mode, **options)[0].numpy(), atol=1e-6)


# ---- padding and crops -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_pad_against_numpy(mode):
    x = images(2, 3, 5, 6)
    np.testing.assert_array_equal(A.Pad(2, padding_mode=mode)(x), np.pad(x, [(0, 0), (0, 0), (2, 2), (2, 2)], mode))
    sides = np.pad(x, [(0, 0), (0, 0), (2, 4), (1, 3)], mode)
    np.testing.assert_array_equal(A.Pad((1, 2, 3, 4), padding_mode=mode)(x), sides)
    across = np.pad(x, [(0, 0), (0, 0), (2, 2), (1, 1)], mode)
    np.testing.assert_array_equal(A.Pad((1, 2), padding_mode=mode)(x), across)
    np.testing.assert_array_equal(A.Pad((-1, 0, 0, -2))(x), x[:, :, :3, 1:])


def test_pad_with_a_value_for_each_channel():
    ours = A.Pad(1, fill=(10, 20, 300))(images(1, 3, 2, 2, np.uint8))
    assert ours[0, :, 0, 0].tolist() == [10, 20, 255]


def test_center_crop():
    x = images(1, 1, 7, 8)
    np.testing.assert_array_equal(A.CenterCrop((3, 4))(x), x[:, :, 2:5, 2:6])
    padded = A.CenterCrop(10)(x)
    np.testing.assert_array_equal(padded, np.pad(x, [(0, 0), (0, 0), (1, 2), (1, 1)]))


@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_random_crop_is_a_window(mode):
    x = images(50, 2, 5, 6)
    transform = A.RandomCrop((4, 5), padding=2, padding_mode=mode)
    top, left = transform.draw(Source.of(generator(4), 50), (9, 10))
    wide = np.pad(x, [(0, 0), (0, 0), (2, 2), (2, 2)], mode)
    ours = transform(x, generator(4))
    for i in range(50):
        np.testing.assert_array_equal(ours[i], wide[i, :, top[i] : top[i] + 4, left[i] : left[i] + 5])


def test_random_crop_reaches_every_place_alike():
    top, left = A.RandomCrop(3).draw(Source.of(generator(1), 60_000), (5, 6))
    counts = np.bincount(top * 4 + left, minlength=12)
    assert len(counts) == 12 and stats.chisquare(counts).pvalue > 1e-3


def test_random_crop_pads_if_needed():
    assert A.RandomCrop(8, pad_if_needed=True)(images(2, 3, 5, 9)).shape == (2, 3, 8, 8)
    with pytest.raises(ShapeError, match="pad_if_needed"):
        A.RandomCrop(8)(images(2, 3, 5, 9))


# ---- distributions -----------------------------------------------------------------------------------------


def uniform(values, low, high):
    return stats.kstest(values, stats.uniform(low, high - low).cdf).pvalue


def test_parameters_are_uniform():
    source = Source.of(generator(2), 4000)
    assert uniform(A.RandomRotation((-10, 50)).draw(source), -10, 50) > 1e-3
    drawn = A.RandomAffine((-5, 5), (0.5, 0.25), (0.5, 2), (-3, 3, 1, 2), stretch=(0.9, 1.3)).draw(source, 400, 1000)
    assert uniform(drawn["angle"], -5, 5) > 1e-3 and uniform(drawn["scale"], 0.5, 2) > 1e-3
    assert uniform(drawn["shear"][:, 0], -3, 3) > 1e-3 and uniform(drawn["shear"][:, 1], 1, 2) > 1e-3
    assert uniform(drawn["stretch"][:, 0], 0.9, 1.3) > 1e-3 and uniform(drawn["stretch"][:, 1], 0.9, 1.3) > 1e-3
    assert uniform(drawn["translate"][:, 0] + RNG.uniform(-0.5, 0.5, 4000), -500, 500) > 1e-3
    assert uniform(drawn["translate"][:, 1] + RNG.uniform(-0.5, 0.5, 4000), -100, 100) > 1e-3
    each = np.stack([drawn["angle"], drawn["scale"], drawn["shear"][:, 0], drawn["stretch"][:, 0]])
    assert np.abs(np.corrcoef(each) - np.eye(4)).max() < 0.07


def test_areas_and_ratios_of_windows():
    boxes = A.RandomResizedCrop(8, (0.1, 0.4), (0.5, 2.0)).draw(Source.of(generator(3), 4000), 2000, 2000)
    area, ratio = boxes[:, 2] * boxes[:, 3] / 2000**2, boxes[:, 3] / boxes[:, 2]
    assert uniform(area, 0.1, 0.4) > 1e-3 and uniform(np.log(ratio), -math.log(2), math.log(2)) > 1e-3
    assert (boxes[:, :2] + boxes[:, 2:] <= 2000).all() and (boxes >= 0).all()


def test_windows_that_never_fit_are_the_middle():
    boxes = A.RandomResizedCrop(8, (1, 1), (0.5, 0.5)).draw(Source.of(generator(), 3), 10, 10)
    assert boxes.tolist() == [[0, 2, 10, 5]] * 3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: A.RandomHorizontalFlip(1.5), OptionError, r"\[0, 1\]"),
        (lambda: A.RandomRotation(-5), OptionError, "negative"),
        (lambda: A.RandomRotation((5, -5)), OptionError, "in order"),
        (lambda: A.RandomRotation(5, "cubic")(images()), OptionError, "bilinear"),
        (lambda: A.RandomAffine(translate=(2, 0)), OptionError, "shares"),
        (lambda: A.RandomAffine(scale=(0, 1)), OptionError, "above 0"),
        (lambda: A.Pad((1, 2, 3)), OptionError, "four"),
        (lambda: A.Pad(1, padding_mode="wrap"), OptionError, "symmetric"),
        (lambda: A.Pad(1, fill=(1, 2))(images()), OptionError, "each channel"),
        (lambda: A.Resize(3, "area"), OptionError, "bicubic"),
        (lambda: A.RandomHorizontalFlip()(np.zeros(3)), ShapeError, r"\(C, H, W\)"),
        (lambda: A.RandomHorizontalFlip()([[1]]), TypeError, "list"),
        (lambda: A.RandomHorizontalFlip()(images(4), [generator()]), OptionError, "each of 4"),
        (lambda: A.RandomHorizontalFlip()(images(4), 3), TypeError, "Generator"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
