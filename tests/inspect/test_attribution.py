"""Saliency, CAM, Grad-CAM, activation maps and filters: theorems, PyTorch, and images with a known answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from weft import nn
from weft.data import load_digits
from weft.errors import OptionError, ShapeError
from weft.inspect import activation_maps, cam, filters, grad_cam, saliency

IMAGES = load_digits()[0][:5, None].astype(np.float32) / 16


def pooled_network(seed=0):
    """Convolutions, global average pooling, a linear head."""
    weft.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 7, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(7, 10),
    )  # fmt: skip


@pytest.mark.parametrize("target", [None, 3, np.array([0, 1, 2, 3, 9])], ids=["predicted", "one", "each"])
@pytest.mark.parametrize("seed", range(3))
def test_grad_cam_of_a_linear_head_over_means_is_cam(target, seed):
    model, x = pooled_network(seed), weft.tensor(IMAGES)
    plain = cam(model, x, "4", "7", target)
    places = plain.maps.shape[1] * plain.maps.shape[2]
    by_gradient = grad_cam(model, x, "4", target, rectified=False)
    np.testing.assert_allclose(by_gradient.maps * places, plain.maps, atol=1e-6)
    np.testing.assert_allclose(grad_cam(model, x, "4", target).maps * places, np.maximum(plain.maps, 0), atol=1e-6)
    np.testing.assert_array_equal(by_gradient.targets, plain.targets)


def test_mean_of_cam_is_the_score():
    model, x = pooled_network(), weft.tensor(IMAGES)
    found = cam(model, x, model[4], model[7], 2)
    expected = found.scores[:, 2] - float(model[7].bias[2])
    np.testing.assert_allclose(found.maps.mean((1, 2)), expected, atol=1e-6)


def test_saliency_is_the_gradient_of_torch():
    model = pooled_network()
    twin = torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(6, 7, 3, padding=1),
        torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(7, 10),
    )  # fmt: skip
    twin.load_state_dict({k: torch.tensor(v.detach().array) for k, v in model.state_dict().items()})
    x = torch.tensor(IMAGES, requires_grad=True)
    y = twin(x)
    y.gather(1, y.argmax(1, keepdim=True)).sum().backward()
    found = saliency(model, weft.tensor(IMAGES))
    np.testing.assert_allclose(found.maps, x.grad.abs().amax(1).numpy(), atol=1e-6)
    np.testing.assert_array_equal(found.targets, y.argmax(1).numpy())


def test_saliency_of_a_linear_score_is_its_weight():
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    found = saliency(model, weft.tensor(IMAGES), 4)
    np.testing.assert_allclose(found.maps, np.tile(np.abs(model[1].weight.detach().array[4].reshape(8, 8)), (5, 1, 1)))


def test_cam_lights_up_where_the_evidence_is():
    """A detector of bright pixels: the map is largest where the bright patch lies."""
    model = nn.Sequential(nn.Conv2d(1, 1, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1, 2))
    with weft.no_grad():
        model[0].weight.fill_(1.0), model[0].bias.zero_()
        model[4].weight.copy_(weft.tensor([[-1.0], [1.0]])), model[4].bias.zero_()
    x = weft.zeros(1, 1, 9, 9)
    x[0, 0, 2:4, 6:8] = 1.0
    for found in (cam(model, x, "1", "4", 1), grad_cam(model, x, "1", 1)):
        assert set(zip(*np.nonzero(found.maps[0]), strict=True)) == {(2, 6), (2, 7), (3, 6), (3, 7)}
        assert found.upsampled().shape == (1, 9, 9)
    assert grad_cam(model, x, "1", 0).maps.max() == 0  # all of it speaks against class 0


def test_grad_cam_of_a_network_with_in_place_rectifiers_and_a_deep_head():
    weft.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(144, 12),
        nn.ReLU(inplace=True),
        nn.Linear(12, 3),
    )
    found = grad_cam(model, weft.tensor(IMAGES), "0")
    assert found.maps.shape == (5, 6, 6) and (found.maps >= 0).all() and found.maps.max() > 0
    assert found.upsampled().shape == (5, 8, 8)
    with pytest.raises(OptionError, match="use grad_cam"):
        cam(model, weft.tensor(IMAGES), "0", "5")


@pytest.mark.parametrize("call, error, message", [
    (lambda m, x: grad_cam(m, x, "nowhere"), OptionError, "its parts: 0, 1"),
    (lambda m, x: grad_cam(m, x, "7"), ShapeError, "gave \\(5, 10\\)"),
    (lambda m, x: grad_cam(m, x, "4", 10), OptionError, "classes 0 … 9"),
    (lambda m, x: cam(m, x, "4", "4"), OptionError, "a linear head"),
    (lambda m, x: saliency(m[:5], x), ShapeError, "scores"),
    (lambda m, x: filters(m[1]), OptionError, "with weights"),
    (lambda m, x: filters(m[7], (8, 8)), ShapeError, "no images"),
    (lambda m, x: activation_maps(m[6:], weft.zeros(2, 7, 1, 1)), OptionError, "no layer gave images"),
    (lambda m, x: activation_maps(m, x).figure("nowhere"), OptionError, "recorded: 0, 1"),
])  # fmt: skip
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(pooled_network(), weft.tensor(IMAGES))


# ------------------------------------------------------------------------------- maps and filters


def test_activation_maps_are_what_the_layers_give():
    model, x = pooled_network().train(), weft.tensor(IMAGES)
    found = activation_maps(model, x)
    assert list(found.maps) == ["0", "1", "2", "3", "4", "5"] and model.training
    y = x
    for name, layer in zip(found.maps, model, strict=False):
        y = layer(y)
        np.testing.assert_allclose(found.maps[name], y.detach().array)
    assert list(activation_maps(model, x, layers=["3", "7"]).maps) == ["3", "7"]


def test_filters_are_the_weights():
    conv, line, wave = nn.Conv2d(3, 5, 3), nn.Linear(12, 4), nn.Conv1d(2, 3, 5)
    np.testing.assert_array_equal(filters(conv).weights, conv.weight.detach().array)
    np.testing.assert_array_equal(filters(line, (3, 4)).weights[2, 0], line.weight.detach().array[2].reshape(3, 4))
    assert filters(line, (3, 2, 2)).weights.shape == (4, 3, 2, 2) and filters(wave).weights.shape == (3, 2, 1, 5)
