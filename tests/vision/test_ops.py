"""Boxes, regions, losses and layers beside torchvision; what it compiles is computed here one box at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.vision import ops, utils

from .torchvision_oracle import torchvision

RANDOM = np.random.default_rng(0)


def boxes(count: int, seed: int = 0, side: float = 20.0) -> np.ndarray:
    random = np.random.default_rng(seed)
    first = random.uniform(0, side, (count, 2))
    return np.concatenate([first, first + random.uniform(1, side / 2, (count, 2))], 1).astype(np.float32)


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0) * max(height, 0)
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


def best(places: np.ndarray, scores: np.ndarray, threshold: float) -> list[int]:
    """One box after another, best first: kept if it overlaps no kept one by more than the threshold."""
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        if all(overlap(places[i], places[j]) <= threshold for j in kept):
            kept.append(int(i))
    return kept


def test_nms_keeps_the_best_of_those_that_overlap() -> None:
    for seed in range(5):
        places, scores = boxes(40, seed), np.random.default_rng(seed).random(40).astype(np.float32)
        for threshold in (0.1, 0.4, 0.8):
            found = ops.nms(weft.tensor(places), weft.tensor(scores), threshold)
            assert found.tolist() == best(places, scores, threshold)
    assert ops.nms(weft.zeros(0, 4), weft.zeros(0), 0.5).shape == (0,)
    with pytest.raises(weft.errors.ShapeError, match="scores"):
        ops.nms(weft.zeros(3, 4), weft.zeros(2), 0.5)


def test_classes_do_not_compete() -> None:
    places, scores = boxes(30, 1), RANDOM.random(30).astype(np.float32)
    classes = RANDOM.integers(0, 3, 30)
    expected = sorted(
        (
            i
            for c in range(3)
            for i in np.flatnonzero(classes == c)[best(places[classes == c], scores[classes == c], 0.3)]
        ),
        key=lambda i: -scores[i],
    )
    found = ops.batched_nms(weft.tensor(places), weft.tensor(scores), weft.tensor(classes), 0.3)
    assert found.tolist() == [int(i) for i in expected]


@pytest.mark.parametrize("name", ["box_iou", "generalized_box_iou", "distance_box_iou", "complete_box_iou", "box_area"])
def test_overlaps_are_those_of_torchvision(name: str) -> None:
    import torch

    given = [boxes(6, 2)] if name == "box_area" else [boxes(6, 2), boxes(4, 3)]
    expected = getattr(torchvision().ops, name)(*map(torch.tensor, given)).numpy()
    np.testing.assert_allclose(getattr(ops, name)(*map(weft.tensor, given)).numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("first", ["xyxy", "xywh", "cxcywh"])
@pytest.mark.parametrize("second", ["xyxy", "xywh", "cxcywh"])
def test_formats_are_those_of_torchvision(first: str, second: str) -> None:
    import torch

    given = boxes(5, 4)
    expected = torchvision().ops.box_convert(torch.tensor(given), first, second).numpy()
    np.testing.assert_allclose(ops.box_convert(weft.tensor(given), first, second).numpy(), expected, atol=1e-5)


def test_clipping_small_boxes_and_masks() -> None:
    import torch

    theirs, given = torchvision().ops, boxes(8, 5) - 4
    np.testing.assert_array_equal(
        ops.clip_boxes_to_image(weft.tensor(given), (12, 15)).numpy(),
        theirs.clip_boxes_to_image(torch.tensor(given), (12, 15)),
    )
    assert (
        ops.remove_small_boxes(weft.tensor(given), 5).tolist()
        == theirs.remove_small_boxes(torch.tensor(given), 5).tolist()
    )
    masks = np.zeros((2, 8, 9), bool)
    masks[0, 2:5, 3:4], masks[1, 0, 0] = True, True
    np.testing.assert_array_equal(
        ops.masks_to_boxes(weft.tensor(masks)).numpy(), theirs.masks_to_boxes(torch.tensor(masks))
    )


LOSSES = ("generalized_box_iou_loss", "distance_box_iou_loss", "complete_box_iou_loss")


@pytest.mark.parametrize("name", [*LOSSES, "sigmoid_focal_loss"])
def test_losses_and_their_gradients_are_those_of_torchvision(name: str) -> None:
    import torch

    a, b = (boxes(6, 6), boxes(6, 7)) if name in LOSSES else (boxes(6, 6) - 10, (boxes(6, 8) > 8).astype(np.float32))
    for reduction in ("none", "mean", "sum"):
        theirs, ours = torch.tensor(a, requires_grad=True), weft.tensor(a, requires_grad=True)
        expected = getattr(torchvision().ops, name)(theirs, torch.tensor(b), reduction=reduction)
        found = getattr(ops, name)(ours, weft.tensor(b), reduction=reduction)
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
        expected.sum().backward()
        found.sum().backward()
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("aligned", "ratio"), [(False, -1), (True, 2)])
def test_regions_are_those_of_torchvisions_formula(aligned: bool, ratio: int) -> None:
    """Its plain PyTorch version, which needs no compiled operation; gradients to the images as well."""
    import importlib

    import torch

    torchvision()
    formula = importlib.import_module("torchvision.ops.roi_align")._roi_align
    images = RANDOM.normal(size=(2, 3, 12, 15)).astype(np.float32)
    rows = np.concatenate([np.array([[0], [1], [1], [0]]), boxes(4, 9, 14.0)], 1).astype(np.float32)
    rows[3, 1:] = [-1, -1, 25, 22]  # half a pixel beyond the edges
    theirs, ours = torch.tensor(images, requires_grad=True), weft.tensor(images, requires_grad=True)
    expected = formula(theirs, torch.tensor(rows), 0.5, 3, 4, ratio, aligned)
    found = ops.roi_align(ours, weft.tensor(rows), (3, 4), 0.5, ratio, aligned)
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), atol=1e-4)
    weights = RANDOM.normal(size=found.shape).astype(np.float32)
    (found * weft.tensor(weights)).sum().backward()
    (expected * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), atol=1e-4)
    layer = ops.RoIAlign((3, 4), 0.5, ratio, aligned)
    per_image = [weft.tensor(rows[rows[:, 0] == i, 1:]) for i in range(2)]
    order = np.argsort(rows[:, 0], kind="stable")
    np.testing.assert_allclose(layer(ours, per_image).detach().numpy(), found.detach().numpy()[order], atol=1e-6)


def test_nothing_lies_more_than_a_pixel_beyond_the_edges() -> None:
    """Samples at −1.5, −0.5, 0.5, 1.5 of a row of ones: 0, 1, 1, 1 (torchvision's compiled kernel has this rule)."""
    found = ops.roi_align(weft.ones(1, 1, 4, 4), weft.tensor([[0.0, 0, -2, 4, 2]]), (4, 4), 1.0, 1)
    assert found[0, 0, :, 0].tolist() == [0, 1, 1, 1]


def test_pooled_regions_are_the_largest_values() -> None:
    """A worked region: rows 1 … 4 and columns 0 … 5 in 2 × 3 bins."""
    image = weft.arange(48.0).reshape(1, 1, 6, 8)
    found = ops.roi_pool(image, weft.tensor([[0.0, 0, 1, 5, 4]]), (2, 3))
    rows, columns = [(1, 3), (3, 5)], [(0, 2), (2, 4), (4, 6)]
    expected = [[float(image[0, 0, a:b, c:d].max()) for c, d in columns] for a, b in rows]
    assert found[0, 0].tolist() == expected
    assert ops.roi_pool(image, [weft.zeros(0, 4)], 2).shape == (0, 1, 2, 2)
    outside = ops.roi_pool(image, weft.tensor([[0.0, 20, 20, 25, 25]]), 2)
    assert (outside == 0).all()
    with pytest.raises(weft.errors.OptionError, match="there are 1"):
        ops.roi_align(image, weft.tensor([[3.0, 0, 0, 1, 1]]), 2)


def same_layers(ours: Any, theirs: Any, x: np.ndarray) -> None:
    import torch

    ours.load_state_dict({key: weft.tensor(value.numpy()) for key, value in theirs.state_dict().items()})
    expected = theirs.eval()(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(ours.eval()(weft.tensor(x)).detach().numpy(), expected, atol=1e-5)


def test_layers_are_those_of_torchvision() -> None:
    theirs, x = torchvision().ops, RANDOM.normal(size=(2, 6, 5, 5)).astype(np.float32)
    norm = theirs.FrozenBatchNorm2d(6)
    norm.running_mean += 0.5
    norm.weight *= 3
    same_layers(ops.FrozenBatchNorm2d(6), norm, x)
    same_layers(ops.SqueezeExcitation(6, 2), theirs.SqueezeExcitation(6, 2), x)
    same_layers(ops.MLP(5, [7, 3], dropout=0.1), theirs.MLP(5, [7, 3], dropout=0.1), x)
    same_layers(ops.Conv2dNormActivation(6, 4), theirs.Conv2dNormActivation(6, 4), x)
    assert ops.stochastic_depth(weft.ones(3, 2), 0.5, "row", training=False).sum() == 6


GRIDS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((7, 3, 5, 6), {"nrow": 3, "padding": 1, "pad_value": 0.5}),
    ((2, 1, 4, 4), {"normalize": True}),
    ((5, 3, 4, 4), {"normalize": True, "scale_each": True, "nrow": 2}),
    ((3, 3, 4, 4), {"normalize": True, "value_range": (-1.0, 0.5)}),
    ((3, 4, 5), {}),
    ((4, 5), {}),
]


@pytest.mark.parametrize("case", GRIDS, ids=str)
def test_grids_are_those_of_torchvision(case: Any, tmp_path: Any) -> None:
    import torch
    from PIL import Image

    shape, options = case
    images = RANDOM.normal(size=shape).astype(np.float32)
    expected = torchvision().utils.make_grid(torch.tensor(images), **options).numpy()
    np.testing.assert_allclose(utils.make_grid(weft.tensor(images), **options).numpy(), expected, atol=1e-6)
    if shape == (7, 3, 5, 6):
        torchvision().utils.save_image(torch.tensor(images), tmp_path / "theirs.png", **options)
        utils.save_image(weft.tensor(images), tmp_path / "ours.png", **options)
        pictures = [np.asarray(Image.open(tmp_path / f"{name}.png")) for name in ("ours", "theirs")]
        np.testing.assert_array_equal(*pictures)


def test_boxes_are_drawn_where_torchvision_draws_them() -> None:
    import torch

    image, places = np.zeros((3, 20, 24), np.uint8), np.array([[2, 3, 10, 12], [5, 5, 20, 15]])
    expected = torchvision().utils.draw_bounding_boxes(
        torch.tensor(image), torch.tensor(places), colors="blue", width=2
    )
    found = utils.draw_bounding_boxes(weft.tensor(image), weft.tensor(places), colors="blue", width=2)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
