"""Receptive fields: the box of non-zero gradients is the one of the formula."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn
from weft.errors import OptionError, ShapeError
from weft.inspect import receptive_field

C, P, A = nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d
STACKS = [  # layers, field by hand
    ([C(1, 2, 3)], 3),
    ([C(1, 2, 3), C(2, 2, 3)], 5),  # N2 §6.4: two convolutions of width 3
    ([C(1, 2, 3), nn.Tanh(), C(2, 2, 3), nn.Tanh(), C(2, 2, 3)], 7),
    ([C(1, 2, 5, stride=2), C(2, 2, 3)], 9),
    ([C(1, 2, 3, dilation=2), C(2, 2, 3, dilation=4)], 13),
    ([C(1, 2, 3), A(2), C(2, 2, 3)], 8),
    ([C(1, 2, 3), nn.ReLU(), P(2), C(2, 2, 3)], 8),
    ([C(1, 2, 3, stride=2, padding=1), nn.BatchNorm2d(2), C(2, 2, 3, stride=2, padding=1), C(2, 2, 3, padding=1)], 15),
    ([C(1, 2, 1)], 1),
]


@pytest.mark.parametrize("layers, size", STACKS, ids=lambda v: str(v) if isinstance(v, int) else "")
def test_field_by_gradient_is_the_field_by_formula(layers, size):
    weft.manual_seed(0)
    model = nn.Sequential(*layers)
    for module in model.modules():
        if isinstance(module, C):
            nn.init.normal_(module.weight)  # no weight is 0
    found = receptive_field(model, (64, 1, 41, 41))
    assert found.theoretical == found.extent == (size, size)
    assert 0 < found.effective <= size


def test_field_inside_a_model_and_at_another_place():
    model = nn.Sequential(C(1, 2, 3), nn.Tanh(), C(2, 2, 5, stride=2))
    found = receptive_field(model, (4, 1, 21, 21), layer="0", position=(0, 3))
    assert found.extent == found.theoretical == (3, 3)
    assert np.argwhere(found.gradient > 0).min(0).tolist() == [0, 3]
    assert receptive_field(model, (4, 1, 21, 21), layer=model[2]).extent == (7, 7)


def test_fast_convolutions_spread_rounding_and_no_field():
    """Residual blocks of many channels, whose float32 gradients are not exactly 0 outside: 3 + 6 · 2 = 15."""
    from weft.models.supervised import resnet20

    found = receptive_field(resnet20(), (2, 3, 32, 32), layer="layer1")
    assert found.extent == found.theoretical == (15, 15)


def test_sequences_and_rectangles():
    model = nn.Sequential(nn.Conv1d(2, 3, 3, dilation=1), nn.Tanh(), nn.Conv1d(3, 3, 3, dilation=2))
    assert receptive_field(model, (4, 2, 30)).extent == receptive_field(model, (4, 2, 30)).theoretical == (7,)
    found = receptive_field(nn.Sequential(C(1, 1, (3, 5), stride=(1, 2)), C(1, 1, (3, 3))), (2, 1, 20, 30))
    assert found.extent == found.theoretical == (5, 9)


def test_edges_cut_the_field():
    found = receptive_field(nn.Sequential(C(1, 1, 7, padding=3)), (1, 1, 9, 9), position=(0, 0))
    assert found.theoretical == (7, 7) and found.extent == (4, 4)


def test_effective_field_of_a_deep_stack_is_a_small_part_in_the_middle():
    """Luo et al. 2016: with equal weights the gradient is a sum of uniform steps: nearly Gaussian, of spread √(2n/3)."""
    depth = 15
    model = nn.Sequential(*[C(1, 1, 3, bias=False) for _ in range(depth)])
    for module in model:
        nn.init.constant_(module.weight, 1 / 9)
    found = receptive_field(model, (1, 1, 41, 41))
    step = np.ones(3) / 3
    line = np.array([1.0])
    for _ in range(depth):
        line = np.convolve(line, step)
    middle = found.gradient[5:36, 5:36]
    np.testing.assert_allclose(middle, np.outer(line, line), rtol=2e-4, atol=1e-12)
    assert found.extent == (31, 31) and found.effective < 0.5 * 31


@pytest.mark.parametrize("call, error, message", [
    (lambda: receptive_field(C(1, 1, 3), (1, 1, 9, 9), position=(7, 0)), OptionError, "not in a map"),
    (lambda: receptive_field(C(1, 1, 3), (9, 9)), ShapeError, "expected inputs"),
    (lambda: receptive_field(nn.Sequential(C(1, 1, 3), nn.Flatten()), (1, 1, 9, 9)), ShapeError, "feature map"),
    (lambda: receptive_field(C(1, 1, 3), (1, 1, 9, 9), layer="x"), OptionError, "no part"),
])  # fmt: skip
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
