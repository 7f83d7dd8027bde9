"""Kinds of images, pipelines, batches of loaders, and what the transforms of values refuse."""

import math
import pickle
import sys

import numpy as np
import pytest
from PIL import Image, ImageOps
from scipy import stats

import weft
from weft.data import augment as A
from weft.errors import DtypeError, OptionError, ShapeError

RNG = np.random.default_rng(4)
BYTES = RNG.integers(0, 256, (4, 3, 12, 10), np.uint8)


def generator(seed=0):
    return weft.Generator().manual_seed(seed)


def picture(pixels):
    return Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_pil_images(mode):
    image = picture(BYTES[0]).convert(mode)
    turned = A.RandomHorizontalFlip(1.0)(image)
    assert turned.mode == mode and turned.tobytes() == ImageOps.mirror(image).tobytes()
    assert A.Resize(6)(image).size == (6, 7)
    back = A.ToPILImage()(A.ToTensor()(image))
    assert back.mode == mode and back.tobytes() == image.tobytes()


def test_resize_of_pil_images_is_pillows():
    image = picture(BYTES[0])
    expected = np.asarray(image.resize((5, 7), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(np.asarray(A.Resize((7, 5))(image)).astype(int) - expected).max() <= 1


def test_to_tensor():
    image = picture(BYTES[0])
    expected = BYTES[0].astype(np.float32) / np.float32(255)
    for source in (image, BYTES[0].transpose(1, 2, 0), weft.tensor(BYTES[0])):
        tensor = A.ToTensor()(source)
        assert tensor.dtype == weft.float32 and tensor.shape == (3, 12, 10)
        np.testing.assert_array_equal(tensor.numpy(), expected)
    assert A.ToTensor()(BYTES[0, 0]).shape == (1, 12, 10)
    np.testing.assert_array_equal(A.ToTensor()(np.full((2, 2, 1), 7.5)).numpy(), 7.5)


def test_normalize():
    x, mean, std = RNG.random((2, 3, 4, 4)).astype(np.float32), [0.1, 0.2, 0.3], [1.0, 2.0, 4.0]
    expected = (x - np.array(mean, np.float32)[:, None, None]) / np.array(std, np.float32)[:, None, None]
    np.testing.assert_allclose(A.Normalize(mean, std)(x), expected, rtol=1e-6)
    np.testing.assert_allclose(A.Normalize(0.5, 2.0)(x), (x - 0.5) / 2, rtol=1e-6)


@pytest.mark.parametrize("dtype", [weft.float16, weft.bfloat16])
def test_narrow_dtypes(dtype):
    x = weft.tensor(BYTES / 255).to(dtype)
    for transform in (
        A.ColorJitter(0.2, 0.2, 0.2, 0.1),
        A.GaussianBlur(3),
        A.RandomRotation(20, "bilinear"),
        A.Resize(5),
    ):
        ours = transform(x, generator())
        assert ours.dtype == dtype
        np.testing.assert_allclose(ours.float().numpy(), transform(x.float(), generator()).numpy(), atol=0.01)


def test_compose_gives_each_its_own_stream():
    x = np.broadcast_to(np.arange(4.0).reshape(1, 1, 2, 2), (64, 1, 2, 2))
    pipeline = A.Compose([A.RandomHorizontalFlip(), A.RandomHorizontalFlip(), lambda image: image + 1])
    ours = pipeline(x, generator())
    np.testing.assert_array_equal(ours, pipeline(x, generator()))
    assert 10 < (ours != x + 1).any((1, 2, 3)).sum() < 54  # two equal draws would cancel
    np.testing.assert_array_equal(pipeline(x[:9], generator()), ours[:9])
    apart = [pipeline(x[i : i + 1], A.sample_generators(generator(), [i])) for i in range(64)]
    np.testing.assert_array_equal(np.concatenate(apart), pipeline(x, A.sample_generators(generator(), range(64))))


def test_apply_and_choice():
    x = np.zeros((6000, 1, 1, 1))
    add = A.Normalize(-1.0, 1.0)  # x + 1
    share = A.RandomApply([add, add], 0.25)(x, generator())
    assert set(np.unique(share)) == {0.0, 2.0} and stats.binomtest(int((share > 0).sum()), 6000, 0.25).pvalue > 1e-3
    choice = A.RandomChoice([add, A.Normalize(-2.0, 1.0), A.Normalize(-3.0, 1.0)], [1, 0, 3])(x, generator())
    assert set(np.unique(choice)) == {1.0, 3.0} and stats.binomtest(int((choice == 3).sum()), 6000, 0.75).pvalue > 1e-3
    np.testing.assert_array_equal(A.RandomChoice([add])(x), 1)
    jitter = A.RandomApply([A.GaussianNoise()], 0.5)
    some = RNG.random((8, 1, 3, 3))
    whole = jitter(some, A.sample_generators(generator(), range(8)))
    np.testing.assert_array_equal(jitter(some[3:5], A.sample_generators(generator(), [3, 4])), whole[3:5])


def test_batches_of_a_loader():
    batch = (weft.tensor(BYTES), weft.tensor([0, 1, 2, 3]))
    flip = A.on_images(A.RandomHorizontalFlip(1.0))
    x, y = flip(batch, generator())
    assert y is batch[1] and np.array_equal(x.numpy(), BYTES[..., ::-1])
    assert isinstance(flip(list(batch)), list) and np.array_equal(flip(batch[0]).numpy(), BYTES[..., ::-1])
    pipeline = A.Compose([A.on_images(A.ToTensor()), A.MixUp(num_classes=4)])
    again = pickle.loads(pickle.dumps(pipeline))  # for the processes of a loader
    for ours, theirs in zip(pipeline(batch, generator(2)), again(batch, generator(2)), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


EVERY = [
    *(A.ColorJitter(0.4, 0.4, 0.4, 0.1), A.Grayscale(3), A.RandomGrayscale(0.5), A.GaussianBlur(3), A.GaussianNoise()),
    *(A.RandomErasing(), A.RandAugment()),
    A.RandomApply([A.GaussianBlur(3)]),
]


@pytest.mark.parametrize("transform", EVERY, ids=lambda t: type(t).__name__)
def test_one_image_empty_batches_prefixes_and_inputs(transform):
    before = BYTES.copy()
    whole = transform(BYTES, generator(1))
    assert whole.dtype == np.uint8 and np.array_equal(whole, transform(BYTES, generator(1)))
    np.testing.assert_array_equal(transform(BYTES[:2], generator(1)), whole[:2])
    np.testing.assert_array_equal(transform(BYTES[0], generator(1)), whole[0])
    assert transform(BYTES[:0], generator(1)).shape == (0, 3, 12, 10)
    assert transform(BYTES[:, :, :1, :1], generator(1)).shape == (4, 3, 1, 1)
    np.testing.assert_array_equal(BYTES, before)
    assert type(transform).__name__ in repr(transform)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: A.ColorJitter(hue=0.7), OptionError, "hue"),
        (lambda: A.ColorJitter(brightness=(-1, 1)), OptionError, "≥ 0"),
        (lambda: A.ColorJitter(0.5)(np.zeros((1, 3, 2, 2), np.int64)), DtypeError, "uint8"),
        (lambda: A.ColorJitter(saturation=0.5)(np.zeros((1, 2, 2, 2))), ShapeError, "3 channels"),
        (lambda: A.Grayscale(2), OptionError, "1 or 3"),
        (lambda: A.GaussianBlur(4), OptionError, "odd"),
        (lambda: A.GaussianBlur(3, 0.0), OptionError, "above 0"),
        (lambda: A.GaussianNoise(sigma=-1), OptionError, "sigma"),
        (lambda: A.Normalize(0.5, 0.0), OptionError, "other than 0"),
        (lambda: A.Normalize(0.5, 1.0)(BYTES), DtypeError, "ToTensor"),
        (lambda: A.Normalize([0.5, 0.5], 1.0)(BYTES / 255), ShapeError, "2 means"),
        (lambda: A.Normalize(0.5, 1.0)(picture(BYTES[0])), DtypeError, "ToTensor"),
        (lambda: A.RandomErasing(value="noise"), OptionError, "random"),
        (lambda: A.RandomHorizontalFlip()(picture(BYTES[0]).convert("CMYK")), OptionError, "convert"),
        (lambda: A.RandAugment(magnitude=31), OptionError, "magnitude"),
        (lambda: A.RandomChoice([]), OptionError, "0 transforms"),
        (lambda: A.RandomChoice([A.GaussianNoise()], [1, 2]), OptionError, "1 transforms"),
        (lambda: A.RandomApply([A.Resize(3)], 1.0)(BYTES), ShapeError, "one shape"),
        (lambda: A.MixUp(0.0), OptionError, "alpha"),
        (lambda: A.MixUp()((BYTES, np.arange(4))), OptionError, "num_classes"),
        (lambda: A.MixUp(num_classes=3)((BYTES, np.arange(4))), OptionError, "got 3"),
        (lambda: A.MixUp(num_classes=4)((BYTES, np.arange(3))), ShapeError, "4 images and 3"),
        (lambda: A.ToPILImage()(BYTES), ShapeError, "one image"),
        (lambda: A.ToTensor()(np.zeros(3)), ShapeError, r"\(H, W\)"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_pillow_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match="pip install pillow"):
        A.ToPILImage()(BYTES[0])


def test_nan_stays_where_it_is():
    x = np.full((1, 1, 3, 3), 0.5)
    x[0, 0, 1, 1] = math.nan
    assert np.isnan(A.RandomHorizontalFlip(1.0)(x)).sum() == 1
    assert np.isnan(A.Normalize(0.0, 1.0)(x)).sum() == 1
