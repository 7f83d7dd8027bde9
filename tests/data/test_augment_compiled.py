"""Augmentation inside of compiled steps: operations against Pillow, PyTorch and closed forms, the same eagerly and compiled."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from scipy import stats

import weft
from weft.data import augment as host
from weft.data.augment import compiled as A
from weft.data.augment import policy as host_policy
from weft.data.augment.compiled import colour, geometry, policy
from weft.errors import ArgumentError, DtypeError, OptionError, ShapeError

RNG = np.random.default_rng(7)
BYTES = RNG.integers(0, 256, (4, 3, 14, 12), np.uint8)
SMOOTH = np.clip(np.cumsum(RNG.normal(0, 12, (4, 3, 14, 12)), 3) + 120, 0, 255).astype(np.uint8)
UNIT = weft.tensor(SMOOTH.astype(np.float32) / 255)


def seeded(seed=0):
    return weft.Generator().manual_seed(seed)


def pictures(pixels):
    return [Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))) for image in pixels]


def levels(x):
    return np.rint(x.numpy() * 255).astype(int)


def full(value, n=4):
    return weft.full((n,), float(value))


PILLOW = {
    "brightness 0.3": (colour.brightness, 0.3, lambda image: ImageEnhance.Brightness(image).enhance(0.3), 2),
    "brightness 1.8": (colour.brightness, 1.8, lambda image: ImageEnhance.Brightness(image).enhance(1.8), 2),
    "contrast": (colour.contrast, 1.6, lambda image: ImageEnhance.Contrast(image).enhance(1.6), 2),
    "colour": (colour.saturation, 0.2, lambda image: ImageEnhance.Color(image).enhance(0.2), 2),
    "sharper": (colour.sharpness, 1.7, lambda image: ImageEnhance.Sharpness(image).enhance(1.7), 2),
    "smoother": (colour.sharpness, 0.0, lambda image: ImageEnhance.Sharpness(image).enhance(0.0), 1),
    "posterize": (colour.posterize, 3, lambda image: ImageOps.posterize(image, 3), 0),
    "solarize": (colour.solarize, 100 / 255, lambda image: ImageOps.solarize(image, 100), 0),
    "invert": (colour.invert, 1, ImageOps.invert, 0),
    "autocontrast": (colour.autocontrast, 1, ImageOps.autocontrast, 1),
    "equalize": (colour.equalize, 1, ImageOps.equalize, 0),
}


@pytest.mark.parametrize("case", PILLOW)
def test_colours_against_pillow(case):
    function, number, theirs, off = PILLOW[case]
    for pixels in (BYTES, SMOOTH):
        ours = levels(function(weft.tensor(pixels.astype(np.float32) / 255), full(number)))
        expected = np.stack([np.asarray(theirs(image)).transpose(2, 0, 1) for image in pictures(pixels)])
        assert np.abs(ours - expected).max() <= off  # Pillow rounds in between


def test_equalize_of_large_and_of_constant_images():
    large = np.clip(RNG.normal(120, 30, (1, 3, 64, 64)), 0, 255).astype(np.uint8)
    for pixels in (large, np.full((1, 3, 5, 5), 77, np.uint8)):
        expected = np.asarray(ImageOps.equalize(pictures(pixels)[0])).transpose(2, 0, 1)
        assert (levels(colour.equalize(weft.tensor(pixels.astype(np.float32) / 255), full(1, 1))) == expected).all()


def test_a_number_of_each_operation_changes_nothing():
    """To the last bit: in a round, images that drew another operation go through this one."""
    x = weft.rand(3, 3, 9, 8, generator=seeded())
    for name in policy.RANGES:
        number = policy.NEUTRAL.get(name, 0.0)
        assert weft.equal(policy.perform(x, full(0, 3), (name,), lambda name, number=number: number), x), name
    assert weft.equal(colour.hue(x, full(0, 3)), x)


@pytest.mark.parametrize("name", [*policy.SIGNED, "Posterize", "Solarize", "AutoContrast", "Equalize"])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_rounds_are_those_of_the_host(name, sign):
    """What the host's RandAugment does, which other tests hold against Pillow."""
    number = host_policy.OPERATIONS.index(name)
    theirs = host.RandAugment(1, 17).round(UNIT.numpy(), np.full(4, number), np.full(4, sign))
    ours = A.RandAugment(operations=(name,)).round(UNIT, full(0), full(sign), full(17 / 30))
    differ = np.abs(ours.numpy() - theirs) > 1e-5
    assert differ.mean() < 0.01  # places half way between two pixels may round either way


def test_all_operations_in_one_batch():
    names = policy.OPERATIONS
    x = weft.rand(len(names), 3, 10, 10, generator=seeded(1))
    ones = weft.ones(len(names))
    together = A.RandAugment().round(x, weft.arange(len(names)).float(), ones, 0.5 * ones)
    for k, name in enumerate(names):
        alone = A.RandAugment(operations=(name,)).round(x[k : k + 1], ones[:1] * 0, ones[:1], 0.5 * ones[:1])
        np.testing.assert_allclose(together[k : k + 1], alone, atol=1e-6, err_msg=name)


# ---- places ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_affine_against_the_matrix_written_out(interpolation):
    x = weft.rand(3, 2, 9, 11, dtype=weft.float64, generator=seeded(2))
    h, w = x.shape[2:]
    angle, across, down, scale, lean = (np.array(v) for v in ([20, -35, 7], [0.1, 0, -0.2], [0, 0.2, 0.1], 1.2, 0.3))
    turn = np.deg2rad(-angle)
    expected = []
    for i in range(3):
        c, s = np.cos(turn[i]), np.sin(turn[i])
        forward = scale * np.array([[c, -s], [s, c]]) @ [[1, 0], [-0.1, 1]] @ [[1, -lean], [0, 1]]
        half = np.diag([w / 2, h / 2])
        back = np.linalg.inv(forward)
        theta = np.linalg.inv(half) @ np.hstack([back @ half, (-back @ [across[i] * w, down[i] * h])[:, None]])
        grid = torch.nn.functional.affine_grid(torch.tensor(theta)[None], (1, 2, h, w), align_corners=False)
        image = torch.tensor(x[i : i + 1].numpy())
        expected.append(torch.nn.functional.grid_sample(image, grid, interpolation, align_corners=False).numpy())
    numbers = (weft.tensor(v, dtype=weft.float64) for v in (angle, across, down))
    degrees, right, below = numbers
    leans = weft.full((3,), 0.3, dtype=weft.float64), weft.full((3,), 0.1, dtype=weft.float64)
    ours = geometry.affine(x, degrees, (right, below), float(scale), leans, interpolation)
    np.testing.assert_allclose(ours, np.concatenate(expected), atol=1e-12)


@pytest.mark.parametrize(("mode", "numpy"), [("constant", "constant"), ("reflect", "reflect"), ("edge", "edge")])
def test_crops_are_windows_of_the_padded_image(mode, numpy):
    x = weft.rand(40, 2, 6, 5, generator=seeded(3))
    crops = A.RandomCrop((6, 5), 2, mode)(x, seeded())
    places = []
    for image, crop in zip(x.numpy(), crops.numpy(), strict=True):
        wide = np.pad(image, ((0, 0), (2, 2), (2, 2)), numpy)
        found = [(i, j) for i in range(5) for j in range(5) if np.array_equal(wide[:, i : i + 6, j : j + 5], crop)]
        assert len(found) == 1
        places += found
    assert len(set(places)) > 12


def test_resized_crops_are_pillows():
    x = weft.rand(20, 1, 17, 23, generator=seeded(4))
    change = A.RandomResizedCrop((8, 30), (0.2, 0.9))
    boxes = change.boxes(x, seeded(5)).numpy()
    for image, crop, (top, left, height, width) in zip(x.numpy(), change(x, seeded(5)).numpy(), boxes, strict=True):
        part = Image.fromarray(image[0]).crop((int(left), int(top), int(left + width), int(top + height)))
        expected = np.asarray(part.resize((30, 8), Image.Resampling.BILINEAR))
        np.testing.assert_allclose(crop[0], expected, atol=2e-6)
    assert (boxes[:, 0] + boxes[:, 2] <= 17).all() and (boxes[:, 1] + boxes[:, 3] <= 23).all()
    share, ratio = boxes[:, 2] * boxes[:, 3] / (17 * 23), boxes[:, 3] / boxes[:, 2]
    assert share.min() > 0.15 and share.max() < 0.98 and ratio.min() > 0.65 and ratio.max() < 1.5
    assert A.RandomResizedCrop(4, (1, 1), (9, 9)).boxes(x, seeded())[0].tolist() == [0, 0, 17, 23]  # nothing fits


def test_flips_and_holes():
    x = weft.rand(400, 1, 8, 8, generator=seeded(6)) + 0.1
    for change, dim in ((A.RandomHorizontalFlip(0.3), 3), (A.RandomVerticalFlip(0.3), 2)):
        after = change(x, seeded())
        turned = (after == x.flip(dim)).flatten(1).all(1)
        assert weft.equal(after[~turned], x[~turned])
        assert stats.binomtest(int(turned.sum()), 400, 0.3).pvalue > 1e-3
    holes = (A.Cutout(0.5)(x, seeded()) == 0).squeeze(1)
    assert holes.sum((1, 2)).max() == 16 and holes.sum((1, 2)).min() >= 4  # cut off at the borders
    assert (holes.any(2).sum(1) * holes.any(1).sum(1) == holes.sum((1, 2))).all()  # rectangles
    assert holes.any(0).all() and (A.Cutout(0.5, p=0.0)(x) == x).all()


# ---- colour and blur ---------------------------------------------------------------------------------------


def test_jitter_follows_its_draws():
    x, jitter = weft.rand(5, 3, 4, 4, generator=seeded(8)), A.ColorJitter(0.4, 0.3, (0.5, 2.0), 0.2)
    factors = RNG.uniform(0.6, 1.4, (4, 5))
    factors[3] = RNG.uniform(-0.2, 0.2, 5)
    order, chosen = RNG.permuted(np.tile(np.arange(4), (5, 1)), axis=1), np.array([1, 1, 0, 1, 1], bool)
    expected = x.numpy().copy()
    steps = (host.colour.brightness, host.colour.contrast, host.colour.saturation, host.colour.hue)
    for i in np.flatnonzero(chosen):
        for k in order[i]:
            expected[i : i + 1] = steps[k](expected[i : i + 1], factors[k, i : i + 1])
    numbers = [weft.tensor(row, dtype=weft.float32) for row in factors]
    ours = jitter.adjusted(x, numbers, weft.tensor(order), weft.tensor(chosen))
    np.testing.assert_allclose(ours, expected, atol=1e-5)
    assert weft.equal(A.ColorJitter()(x), x) and A.ColorJitter(0.4, hue=0.1)(x[:, :1]).shape == (5, 1, 4, 4)


def test_blur_against_convolution():
    x = weft.rand(3, 2, 8, 9, generator=seeded(9))
    taps = [torch.tensor(np.exp(-0.5 * ((np.arange(k) - k // 2) / 0.8) ** 2)) for k in (3, 5)]
    weights = torch.outer(*(t / t.sum() for t in taps)).float().expand(2, 1, 3, 5)
    wide = torch.nn.functional.pad(torch.tensor(x.numpy()), (2, 2, 1, 1), "reflect")
    expected = torch.nn.functional.conv2d(wide, weights, groups=2).numpy()
    np.testing.assert_allclose(A.GaussianBlur((5, 3), 0.8)(x), expected, atol=1e-6)
    assert weft.equal(A.GaussianBlur(3, p=0.0)(x), x)


# ---- all of them -------------------------------------------------------------------------------------------

EVERY = [
    A.RandomHorizontalFlip(),
    A.RandomVerticalFlip(),
    A.RandomCrop(8, 2, "reflect"),
    A.RandomResizedCrop(6),
    A.RandomAffine(20, (0.1, 0.1), (0.9, 1.1), 10),
    A.Cutout(),
    A.ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
    A.RandomGrayscale(0.4),
    A.GaussianBlur(3, p=0.5),
    A.Normalize((0.4, 0.5, 0.6), 0.2),
    A.RandAugment(),
    A.CTAugment(),
    A.Compose([A.RandomApply(A.RandomCrop(8, 2), 0.5), A.RandAugment(1, 0.3)]),
]


@pytest.mark.parametrize("change", EVERY, ids=lambda change: type(change).__name__)
def test_compiled_as_eagerly(change):
    x, generator = weft.rand(6, 3, 8, 8, generator=seeded(10)), seeded(11)
    step = weft.compile(lambda x: change(x, generator))
    eager = [change(x, generator) for _ in range(2)]
    generator.manual_seed(11)
    for expected in eager:
        np.testing.assert_allclose(step(x), expected, atol=1e-5)
    assert not weft.equal(*eager) or isinstance(change, A.Normalize)
    if not isinstance(change, A.Compose):  # a transform draws once
        np.testing.assert_allclose(change(x, seeded(3))[:2], change(x[:2], seeded(3)), atol=1e-6)
    assert change(x[:0]).shape == change(x)[:0].shape
    strided = x.permute(0, 1, 3, 2)
    np.testing.assert_allclose(change(strided, seeded(3)), change(strided.contiguous(), seeded(3)), atol=1e-6)


# ---- CTAugment ---------------------------------------------------------------------------------------------


def test_weights_move_as_stated():
    learner = A.CTAugment(1, 3, decay=0.9, operations=("Identity", "Invert"))
    choice = A.Choice(weft.tensor([[0.0], [1.0], [1.0], [1.0]]), weft.tensor([[2.0], [0.0], [0.0], [1.0]]))
    learner.update(choice, weft.tensor([0.5, 0.2, 0.6, 1.0]))
    expected = [[1, 1, 0.9 + 0.1 * 0.5], [0.81 + 0.19 * 0.4, 1, 1]]
    np.testing.assert_allclose(learner.rates, expected, rtol=1e-6)
    for _ in range(3):  # equal ω: as many single steps as images
        learner.update(choice, weft.full((4,), 0.2))
    np.testing.assert_allclose(learner.rates[1, 0], 0.2 + 0.9**6 * (0.886 - 0.2), rtol=1e-5)


def test_agreement_is_the_distance_to_the_label():
    chances, labels = weft.rand(5, 4, generator=seeded(1)).softmax(1), weft.tensor([0, 3, 1, 1, 2])
    onehot = weft.nn.functional.one_hot(labels, 4)
    np.testing.assert_allclose(
        A.CTAugment.agreement(chances, labels), 1 - (chances - onehot).abs().sum(1) / 2, atol=1e-6
    )


def test_bins_are_drawn_by_their_weights():
    learner = A.CTAugment(2, 4, threshold=0.5, operations=("Identity", "AutoContrast"))
    learner.rates.copy_(weft.tensor([[1.0, 0.6, 0.8, 0.4], [0.3, 0.4, 0.1, 0.2]]))
    np.testing.assert_allclose(learner.usable(), [[1.0, 0.6, 0.8, 0], [0, 0.4, 0, 0]])
    _, choice = learner._changed(weft.rand(3000, 1, 2, 2), learner.usable(), seeded(2))
    operation, bins = (part.numpy().ravel() for part in choice)
    assert stats.binomtest(int(operation.sum()), 6000, 0.5).pvalue > 1e-3
    counts = np.bincount(bins[operation == 0].astype(int), minlength=4)
    assert counts[3] == 0 and stats.chisquare(counts[:3], counts.sum() * np.array([1, 0.6, 0.8]) / 2.4).pvalue > 1e-3
    assert (bins[operation == 1] == 1).all()
    even = np.bincount(learner.probe(weft.rand(3000, 1, 2, 2), seeded(3))[1].bin.numpy().ravel().astype(int))
    assert stats.chisquare(even).pvalue > 1e-3


def test_strengths_that_hide_the_class_are_given_up():
    """The class is whether the image is bright: turning values around is not borne, brightness 0 neither."""
    learner = A.CTAugment(1, 5, decay=0.8, operations=("Identity", "Invert", "Rotate"))
    x = weft.cat([weft.full((20, 1, 6, 6), 0.9), weft.full((20, 1, 6, 6), 0.1)])
    labels, generator = weft.tensor([1] * 20 + [0] * 20), seeded(4)

    @weft.compile
    def step():
        changed, choice = learner.probe(x, generator)
        bright = ((changed[:, :, 2:4, 2:4].mean((1, 2, 3)) - 0.5) * 20).sigmoid()
        learner.update(choice, learner.agreement(weft.stack([1 - bright, bright], 1), labels))

    for _ in range(30):
        step()
    rates = learner.rates.numpy()
    assert rates[0].min() > 0.95 and rates[2].min() > 0.95 and rates[1, :2].min() > 0.9 and rates[1, 3:].max() < 0.2
    other = A.CTAugment(1, 5, operations=("Identity", "Invert", "Rotate"))
    other.load_state_dict(learner.state_dict())
    assert weft.equal(other.rates, learner.rates)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: A.Cutout()(np.zeros((1, 1, 4, 4))), ArgumentError, "tensor of images"),
        (lambda: A.Cutout()(weft.zeros(1, 4, 4)), ShapeError, "batch of one"),
        (lambda: A.Cutout()(weft.zeros(1, 1, 4, 4, dtype=weft.uint8)), DtypeError, "255"),
        (lambda: A.Cutout()(weft.zeros(0, 1, 0, 4)), ShapeError, "at least one pixel"),
        (lambda: A.Cutout(1.5), OptionError, "share"),
        (lambda: A.RandomCrop(9)(weft.zeros(1, 1, 4, 4)), ShapeError, "no window of 9"),
        (lambda: A.RandomCrop(4, 4, "reflect")(weft.zeros(1, 1, 4, 4)), ShapeError, "reflect"),
        (lambda: A.RandomCrop(4, 1, "wrap"), OptionError, "padding_mode"),
        (lambda: A.RandomAffine(scale=(0, 1)), OptionError, "scale above 0"),
        (lambda: A.RandAugment(strength=2), OptionError, "strength"),
        (lambda: A.RandAugment(operations=("Blur",)), OptionError, "got Blur"),
        (lambda: A.CTAugment(0), OptionError, "depth"),
        (
            lambda: A.CTAugment().update(A.Choice(weft.zeros(2, 2), weft.zeros(2, 2)), weft.ones(3)),
            ShapeError,
            "probed",
        ),
        (lambda: A.RandomApply(A.RandomResizedCrop(3))(weft.zeros(1, 1, 4, 4)), OptionError, "sizes must stay"),
        (lambda: colour.hue(weft.zeros(1, 2, 4, 4), weft.zeros(1)), ShapeError, "3 channels"),
    ],
)
def test_errors(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
