"""Transforms of both versions: arguments as torchvision's, chances as told, samples with labels."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import vision
from weft.vision import transforms
from weft.vision.transforms import v2

from .torchvision_oracle import torchvision

IMAGE = weft.tensor(np.random.default_rng(0).integers(0, 256, (3, 16, 20)).astype(np.uint8))
CONSTRUCTORS = [name for name in transforms.__all__ if name not in ("InterpolationMode",)]


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_arguments_come_in_torchvisions_order(name: str) -> None:
    theirs = list(inspect.signature(getattr(torchvision().transforms, name)).parameters)
    ours = list(inspect.signature(getattr(transforms, name)).parameters)
    assert [argument for argument in ours if argument in theirs] == theirs[: len(ours)]
    assert len([argument for argument in theirs if argument not in ours]) == 0


def test_every_mode_has_torchvisions_value() -> None:
    theirs = torchvision().transforms.InterpolationMode
    assert {mode.name: mode.value for mode in transforms.InterpolationMode} == {
        mode.name: mode.value for mode in theirs
    }


SURE = {
    "RandomHorizontalFlip": (lambda m: m.RandomHorizontalFlip(1.0), lambda x: x[..., ::-1]),
    "RandomVerticalFlip": (lambda m: m.RandomVerticalFlip(p=1.0), lambda x: x[..., ::-1, :]),
    "RandomInvert": (lambda m: m.RandomInvert(1.0), lambda x: 255 - x),
    "RandomPosterize": (lambda m: m.RandomPosterize(2, 1.0), lambda x: x & 0xC0),
    "RandomSolarize": (lambda m: m.RandomSolarize(128, 1.0), lambda x: np.where(x >= 128, 255 - x, x)),
    "RandomRotation": (lambda m: m.RandomRotation((90, 90), expand=True), lambda x: np.rot90(x, 1, (-2, -1))),
    "RandomCrop": (lambda m: m.RandomCrop((16, 20)), lambda x: x),
    "RandomApply never": (lambda m: m.RandomApply([m.RandomInvert(1.0)], p=0.0), lambda x: x),
    "RandomApply": (lambda m: m.RandomApply([m.RandomInvert(1.0)], p=1.0), lambda x: 255 - x),
    "RandomOrder": (
        lambda m: m.RandomOrder([m.RandomInvert(1.0), m.RandomHorizontalFlip(1.0)]),
        lambda x: 255 - x[..., ::-1],
    ),
    "RandomChoice": (lambda m: m.RandomChoice([m.RandomInvert(1.0), m.Pad(9)], p=[1, 0]), lambda x: 255 - x),
    "Compose": (lambda m: m.Compose([m.CenterCrop(8), m.RandomInvert(1.0)]), lambda x: 255 - x[..., 4:12, 6:14]),
}


@pytest.mark.parametrize("name", SURE)
@pytest.mark.parametrize("module", [transforms, v2], ids=["v1", "v2"])
def test_what_is_sure_is_done(name: str, module: object) -> None:
    make, expected = SURE[name]
    np.testing.assert_array_equal(make(module)(IMAGE).numpy(), expected(IMAGE.numpy()))


def test_seeds_fix_everything_and_images_of_a_batch_differ() -> None:
    pipeline = transforms.Compose(
        [
            transforms.RandomResizedCrop(8, antialias=True),
            transforms.ColorJitter(0.4, 0.4, 0.4, 0.1),
            transforms.RandomAffine(10, (0.1, 0.1), (0.9, 1.1), 5, interpolation=transforms.InterpolationMode.BILINEAR),
            transforms.RandomPerspective(0.3),
            transforms.RandAugment(),
            transforms.ToTensor(),
            transforms.RandomErasing(1.0),
        ]
    )
    batch = weft.stack([IMAGE] * 4)
    weft.manual_seed(3)
    first = pipeline(batch)
    weft.manual_seed(3)
    np.testing.assert_array_equal(pipeline(batch).numpy(), first.numpy())
    assert first.shape == (4, 3, 8, 8) and not np.array_equal(first[0].numpy(), first[1].numpy())


def test_samples_keep_their_labels() -> None:
    image, label = v2.RandomHorizontalFlip(1.0)(IMAGE, 3)
    np.testing.assert_array_equal(image.numpy(), IMAGE.numpy()[..., ::-1])
    assert label == 3
    sample = v2.Compose([v2.CenterCrop(4), v2.ToDtype(weft.float32, scale=True)])({"x": IMAGE, "y": weft.tensor(7)})
    assert sample["x"].shape == (3, 4, 4) and sample["x"].dtype is weft.float32 and sample["y"].item() == 7
    both = v2.Compose([v2.ToImage(), v2.RandomInvert(1.0)])(np.zeros((4, 5, 3), np.uint8), "name")
    assert both[0].shape == (3, 4, 5) and (both[0] == 255).all() and both[1] == "name"
    with pytest.raises(weft.errors.OptionError, match="no image"):
        v2.CenterCrop(4)("a", 3)


def test_mixing_takes_images_and_labels() -> None:
    images, labels = weft.rand(4, 3, 8, 8), weft.tensor([0, 1, 2, 3])
    for mix in (v2.MixUp(num_classes=4), v2.CutMix(alpha=0.5, num_classes=4)):
        x, y = mix(images, labels)
        assert x.shape == images.shape
        np.testing.assert_allclose(y.sum(1).numpy(), 1, rtol=1e-6)


def test_linear_transformation_and_pil_to_tensor() -> None:
    import torch

    matrix, mean = np.random.default_rng(0).normal(size=(12, 12)).astype(np.float32), np.ones(12, np.float32)
    x = np.random.default_rng(1).normal(size=(3, 2, 2)).astype(np.float32)
    theirs = torchvision().transforms.LinearTransformation(torch.tensor(matrix), torch.tensor(mean))(torch.tensor(x))
    ours = transforms.LinearTransformation(weft.tensor(matrix), weft.tensor(mean))(weft.tensor(x))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-5)


def test_data_sets_give_pictures_and_models_take_torchvisions_arguments(tmp_path, monkeypatch) -> None:
    from PIL import Image

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))

    data = vision.datasets.FakeData(5, (3, 8, 9), 4)
    picture, label = data[0]
    assert isinstance(picture, Image.Image) and picture.size == (9, 8) and 0 <= label < 4
    loader = weft.utils.data.DataLoader(
        vision.datasets.FakeData(5, (3, 8, 9), transform=transforms.ToTensor()), batch_size=5
    )
    images, labels = next(iter(loader))
    assert images.shape == (5, 3, 8, 9) and labels.shape == (5,)
    model = vision.models.resnet18(weights=None, progress=False, num_classes=3)
    assert model.eval()(weft.zeros(1, 3, 32, 32)).shape == (1, 3)
    assert "resnet18" in vision.models.list_models()
    for asked in ({"pretrained": True}, {"weights": "DEFAULT"}):
        with pytest.raises(weft.errors.MissingFileError, match="downloads no weights"):
            vision.models.resnet18(**asked)


@pytest.mark.filterwarnings("ignore::weft.data.sources.SourceWarning")
def test_mnist_of_canonical_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    from ..data.sources.test_images import make_mnist

    monkeypatch.setenv("WEFT_TRUST_DATA", "1")  # made-up files have other digests
    images, labels = make_mnist(tmp_path / "mnist")
    picture, label = vision.datasets.MNIST(tmp_path, train=True)[1]
    assert isinstance(picture, Image.Image) and label == labels[1]
    np.testing.assert_array_equal(np.asarray(picture), images[1])
    data = vision.datasets.MNIST(tmp_path, train=True, transform=transforms.ToTensor())
    batch, _ = next(iter(weft.utils.data.DataLoader(data, batch_size=2)))
    np.testing.assert_array_equal(batch[1, 0].numpy(), images[1].astype(np.float32) / 255)
