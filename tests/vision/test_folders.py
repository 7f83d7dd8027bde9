"""Pyramids, extraction, weights by name beside torchvision; data sets by their canonical files, made here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.errors import MissingFileError, OptionError
from weft.io.errors import LayoutError
from weft.vision import datasets, extraction, models
from weft.vision.ops import DropBlock2d, FeaturePyramidNetwork, MultiScaleRoIAlign, drop_block2d, roi_align
from weft.vision.ops.pyramid import LastLevelMaxPool, LastLevelP6P7

from .torchvision_oracle import torchvision


def test_pyramids_are_those_of_torchvision():
    theirs = torchvision().ops.feature_pyramid_network
    import torch

    random = np.random.default_rng(0)
    given = {"a": random.normal(size=(2, 4, 12, 10)), "b": random.normal(size=(2, 8, 6, 5))}
    given = {name: value.astype("f4") for name, value in given.items()}
    for extra, name in ((LastLevelMaxPool(), "LastLevelMaxPool"), (LastLevelP6P7(8, 6), "LastLevelP6P7")):
        ours = FeaturePyramidNetwork([4, 8], 6, extra)
        blocks = getattr(theirs, name)(*((8, 6) if name == "LastLevelP6P7" else ()))
        their = theirs.FeaturePyramidNetwork([4, 8], 6, blocks)
        assert list(their.state_dict()) == list(ours.state_dict())
        their.load_state_dict({key: torch.from_numpy(value.numpy()) for key, value in ours.state_dict().items()})
        found = ours({name: weft.from_numpy(value) for name, value in given.items()})
        expected = their({name: torch.from_numpy(value) for name, value in given.items()})
        assert list(found) == list(expected)
        for key, value in expected.items():
            np.testing.assert_allclose(found[key].detach().numpy(), value.detach().numpy(), atol=1e-5)


def test_windows_come_from_the_level_of_their_size():
    levels = {str(i): weft.randn(2, 3, 64 >> i, 64 >> i) for i in range(3)}  # of images of 256²: scales ¼, ⅛, 1/16
    boxes = [weft.tensor([[0.0, 0, 90, 80], [10, 20, 250, 230]]), weft.tensor([[5.0, 5, 140, 150]])]
    found = MultiScaleRoIAlign(["0", "1", "2"], 4, 2)(levels, boxes, [(256, 256), (256, 256)])
    for row, (image, box, level) in enumerate(((0, boxes[0][0], 0), (0, boxes[0][1], 2), (1, boxes[1][0], 1))):
        assert int(np.floor(4 + np.log2(np.sqrt(float((box[2] - box[0]) * (box[3] - box[1]))) / 224))) == level + 2
        one = roi_align(levels[str(level)][image : image + 1], [box.unsqueeze(0)], 4, 0.25 / 2**level, 2)
        np.testing.assert_allclose(found[row].numpy(), one[0].numpy(), atol=1e-6)


def test_dropped_blocks_are_squares_of_the_wanted_share():
    weft.manual_seed(0)
    x = weft.ones(4, 8, 32, 32)
    kept = drop_block2d(x, 0.2, 5)
    zeros = (kept == 0).numpy()
    assert abs(zeros.mean() - 0.2) < 0.06 and abs(kept.mean().item() - 1) < 1e-4
    row, column = np.argwhere(zeros[0, 0])[0]
    assert zeros[0, 0, row : row + 5, column : column + 5].all() or zeros[0, 0].sum() >= 25
    assert drop_block2d(x, 0.2, 5, training=False) is x and DropBlock2d(0.2, 5).eval()(x) is x


def test_outputs_from_inside_of_a_model():
    weft.manual_seed(0)
    model, x = models.resnet18(num_classes=3).eval(), weft.randn(1, 3, 32, 32)
    middle = model.maxpool(model.relu(model.bn1(model.conv1(x))))
    first = model.layer1(middle)
    third = model.layer3(model.layer2(first))
    found = extraction.create_feature_extractor(model, {"layer1": "a", "layer3": "b"})(x)
    got = extraction.IntermediateLayerGetter(model, {"layer1": "a", "layer3": "b"})
    for result in (found, got(x)):
        assert list(result) == ["a", "b"]
        np.testing.assert_allclose(result["a"].detach(), first.detach(), atol=1e-5)
        np.testing.assert_allclose(result["b"].detach(), third.detach(), atol=1e-5)
    assert "layer4" not in got and type(model).__name__ == "ResNet" and not model.layer1._forward_hooks
    assert list(extraction.create_feature_extractor(model, ["fc"]).state_dict()) == list(model.state_dict())
    with pytest.raises(OptionError, match="layer9"):
        extraction.create_feature_extractor(model, ["layer9"])


def test_weights_by_name_are_files_that_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import torch

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    weights = models.ResNet18_Weights
    assert weights is models.get_model_weights("resnet18") and weights.DEFAULT is weights.IMAGENET1K_V1
    assert models.get_weight("ResNet18_Weights.IMAGENET1K_V1") is weights.DEFAULT
    with pytest.raises(MissingFileError, match=r"checkpoints has no resnet18-….pth"):
        models.resnet18(weights=weights.DEFAULT)
    model = models.resnet18(num_classes=7)
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    torch.save(
        {k: torch.from_numpy(v.numpy()) for k, v in model.state_dict().items()}, folder / "resnet18-01234567.pth"
    )
    for options in ({"weights": weights.DEFAULT}, {"weights": "DEFAULT"}, {"pretrained": True}):
        again = models.resnet18(**options)
        np.testing.assert_array_equal(again.fc.weight.detach().numpy(), model.fc.weight.detach().numpy())
    assert weights.DEFAULT.transforms()(weft.zeros(3, 300, 400, dtype=weft.uint8)).shape == (3, 224, 224)
    with pytest.raises(weft.errors.EntryError, match="categories"):
        weights.DEFAULT.meta["categories"]
    with pytest.raises(AttributeError):
        models.Nonsense_Weights  # noqa: B018


# ------------------------------------------------------------------------------------------------------- data sets


def picture(path: Path, shade: int, mode: str = "RGB") -> None:
    image = pytest.importorskip("PIL.Image")
    path.parent.mkdir(parents=True, exist_ok=True)
    image.new(mode, (6, 5), shade if mode != "RGB" else (shade, 0, 0)).save(path)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_sets_in_arrays(tmp_path: Path):
    scipy_io = pytest.importorskip("scipy.io")
    random = np.random.default_rng(0)
    pictures = random.integers(0, 256, (32, 32, 3, 4), np.uint8)
    scipy_io.savemat(tmp_path / "test_32x32.mat", {"X": pictures, "y": np.array([[1], [10], [9], [2]], np.uint8)})
    found = datasets.SVHN(tmp_path, "test", transform=np.asarray)
    np.testing.assert_array_equal(found[2][0], pictures[..., 2])
    assert [found[i][1] for i in range(4)] == [1, 0, 9, 2]
    folder = tmp_path / "stl10_binary"
    folder.mkdir()
    raw = random.integers(0, 256, (2, 3, 96, 96), np.uint8)
    raw.tofile(folder / "train_X.bin")
    np.array([3, 10], np.uint8).tofile(folder / "train_y.bin")
    write(folder / "class_names.txt", "airplane\nbird\n")
    write(folder / "fold_indices.txt", "1 \n0 1 \n")
    small = datasets.STL10(tmp_path, "train", folds=0, transform=np.asarray)
    assert len(small) == 1 and small[0][1] == 9
    np.testing.assert_array_equal(small[0][0], raw[1].transpose(2, 1, 0))
    with pytest.raises(MissingFileError, match=r"unlabeled_X\.bin"):
        datasets.STL10(tmp_path, "unlabeled")


def test_sets_in_folders(tmp_path: Path):
    write(tmp_path / "food-101/meta/train.json", json.dumps({"soup": ["soup/1"], "cake": ["cake/7", "cake/8"]}))
    for name in ("soup/1", "cake/7", "cake/8"):
        picture(tmp_path / f"food-101/images/{name}.jpg", 9)
    food = datasets.Food101(tmp_path)
    assert (
        food.classes == ["cake", "soup"] and [food[i][1] for i in range(3)] == [0, 0, 1] and food[0][0].size == (6, 5)
    )

    pets = tmp_path / "oxford-iiit-pet"
    write(pets / "annotations/test.txt", "Great_Dane_3 2 2 1\nBirman_1 1 1 1\n")
    for name in ("Great_Dane_3", "Birman_1"):
        picture(pets / f"images/{name}.jpg", 9)
        picture(pets / f"annotations/trimaps/{name}.png", 2, "L")
    both = datasets.OxfordIIITPet(tmp_path, "test", ("category", "segmentation"))
    assert both.classes == ["Birman", "Great Dane"] and both[0][1][0] == 1 and np.asarray(both[0][1][1])[0, 0] == 2

    faces = tmp_path / "celeba"
    write(faces / "list_eval_partition.txt", "1.jpg 0\n2.jpg 2\n")
    write(faces / "list_attr_celeba.txt", "2\nBald Young\n1.jpg -1 1\n2.jpg 1 1\n")
    write(faces / "identity_CelebA.txt", "1.jpg 77\n2.jpg 5\n")
    picture(faces / "img_align_celeba/2.jpg", 9)
    attributes, identity = datasets.CelebA(tmp_path, "test", ["attr", "identity"])[0][1]
    assert attributes.tolist() == [1, 1] and identity.item() == 5

    for name in ("Latin/character01/1.png", "Latin/character02/1.png", "Greek/character01/1.png"):
        picture(tmp_path / "omniglot-py/images_background" / name, 255, "L")
    assert [datasets.Omniglot(tmp_path)[i][1] for i in range(3)] == [0, 1, 2]
    with pytest.raises(MissingFileError, match="images_evaluation"):
        datasets.Omniglot(tmp_path, background=False)


def test_boxes_masks_and_captions(tmp_path: Path):
    voc = tmp_path / "VOCdevkit/VOC2012"
    picture(voc / "JPEGImages/x.jpg", 3)
    picture(voc / "SegmentationClass/x.png", 4, "L")
    for kind in ("Main", "Segmentation"):
        write(voc / f"ImageSets/{kind}/train.txt", "x\n")
    note = "<annotation><size><width>6</width></size><object><name>cat</name></object></annotation>"
    write(voc / "Annotations/x.xml", note)
    assert datasets.VOCDetection(tmp_path)[0][1] == {
        "annotation": {"size": {"width": "6"}, "object": [{"name": "cat"}]}
    }
    assert np.asarray(datasets.VOCSegmentation(tmp_path)[0][1])[0, 0] == 4
    write(voc / "Annotations/x.xml", '<!DOCTYPE x [<!ENTITY a "b">]>' + note)
    with pytest.raises(LayoutError, match="no entities"):
        datasets.VOCDetection(tmp_path)[0]

    picture(tmp_path / "coco/b.jpg", 3)
    picture(tmp_path / "coco/a.jpg", 3)
    content = {
        "images": [{"id": 4, "file_name": "b.jpg"}, {"id": 2, "file_name": "a.jpg"}],
        "annotations": [{"image_id": 4, "caption": "one"}, {"image_id": 4, "caption": "two"}],
    }
    write(tmp_path / "coco.json", json.dumps(content))
    words = datasets.CocoCaptions(tmp_path / "coco", tmp_path / "coco.json")
    assert words.ids == [2, 4] and [words[i][1] for i in range(2)] == [[], ["one", "two"]]
    boxes = datasets.CocoDetection(
        tmp_path / "coco", tmp_path / "coco.json", transforms=lambda image, target: (image.size, len(target))
    )
    assert boxes[1] == ((6, 5), 2)


def test_transforms_stand_among_modules():
    from weft.vision import transforms as t

    steps = weft.nn.Sequential(
        t.CenterCrop(4), t.RandomHorizontalFlip(0.0), t.Normalize((0.5,), (0.5,)), weft.nn.Flatten()
    )
    x = weft.rand(2, 1, 6, 6)
    np.testing.assert_allclose(steps(x).numpy(), ((x[..., 1:5, 1:5] - 0.5) / 0.5).flatten(1).numpy(), atol=1e-6)
    assert list(steps.parameters()) == [] and "CenterCrop" in repr(steps)
    assert len(weft.nn.ModuleList([t.Resize(3)])) == 1
    with pytest.raises(weft.errors.ArgumentError, match="not a Module"):
        weft.nn.Sequential(len)
