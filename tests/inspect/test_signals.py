"""Activations, gradients and updates against values by hand, NumPy and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from weft import nn
from weft.errors import OptionError, ShapeError
from weft.inspect import UpdateWatch, activation_statistics, gradient_flow
from weft.models.supervised import MLP

F = nn.functional


def test_dead_and_saturated_units_by_hand():
    """Unit 0 is always on, 1 on for half the inputs, 2 never: its slope is 0 everywhere."""
    model = nn.Sequential(nn.Linear(1, 3), nn.ReLU())
    with weft.no_grad():
        model[0].weight.copy_(weft.tensor([[0.0], [1.0], [1.0]]))
        model[0].bias.copy_(weft.tensor([2.0, 0.0, -10.0]))
    x = weft.tensor([[-2.0], [-1.0], [1.0], [3.0]])
    (row,) = activation_statistics(model, x).layers
    assert row.units == 3 and row.dead == (2,)
    assert row.zero == row.saturated == pytest.approx(6 / 12)
    y = np.maximum(x.array * [0, 1, 1] + [2, 0, -10], 0)
    assert row.mean == pytest.approx(y.mean()) and row.std == pytest.approx(y.std())
    assert row.histogram[0].sum() == 12


@pytest.mark.parametrize("activation, edge", [(nn.Tanh, np.arctanh(np.sqrt(0.99))), (nn.Sigmoid, 4.585)])
def test_saturation_begins_where_the_slope_is_a_hundredth(activation, edge):
    """N2 §3.6: about 3 for tanh, about 5 for the logistic unit."""
    v = weft.linspace(-10, 10, 2001, dtype=weft.float64)[:, None]
    (row,) = activation_statistics(nn.Sequential(activation()), v).layers
    assert row.saturated == pytest.approx(float((v.abs() > edge).double().mean()), abs=2e-3)
    assert row.dead == ()


@pytest.mark.parametrize("shape, units", [((4, 5), 5), ((4, 7, 5), 5), ((4, 3, 6, 6), 3), ((0, 5), 5), ((1, 1), 1)])
def test_units_of_shapes(shape, units):
    (row,) = activation_statistics(nn.Sequential(nn.ReLU()), weft.ones(*shape)).layers
    assert row.units == units and row.dead == ()


def test_in_place_layers_softmax_and_nan():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(inplace=True), nn.Softmax(-1))
    rows = activation_statistics(model, weft.tensor([[float("nan"), 1.0], [1.0, 2.0]])).layers
    assert [r.kind for r in rows] == ["ReLU", "Softmax"] and np.isfinite(rows[0].mean)


def test_no_activation_is_an_error():
    with pytest.raises(OptionError, match="no activation module"):
        activation_statistics(nn.Linear(2, 2), weft.ones(1, 2))


def test_gradients_are_those_of_torch():
    weft.manual_seed(0)
    model = MLP(4, [6, 5], 3, activation="tanh").double()
    x, y = np.random.default_rng(0).normal(size=(8, 4)), np.arange(8) % 3
    found = gradient_flow(model, lambda z: F.cross_entropy(z, weft.tensor(y)), weft.tensor(x))
    parameters = [torch.tensor(p.detach().array, requires_grad=True) for p in model.parameters()]
    h, hs = torch.tensor(x), []
    for i in range(0, 6, 2):
        h = h @ parameters[i].T + parameters[i + 1]
        h.retain_grad()
        hs.append(h)
        h = torch.tanh(h) if i < 4 else h
    loss = torch.nn.functional.cross_entropy(h, torch.tensor(y))
    loss.backward()
    rms = lambda t: float((t**2).mean().sqrt())
    assert found.loss == pytest.approx(float(loss.detach()))
    assert [r.name for r in found.layers] == [n for n, _ in model.named_parameters()]
    np.testing.assert_allclose([r.gradient for r in found.layers], [rms(p.grad) for p in parameters], rtol=1e-10)
    np.testing.assert_allclose([r.weight for r in found.layers], [rms(p.detach()) for p in parameters], rtol=1e-10)
    np.testing.assert_allclose([r.signal for r in found.layers], np.repeat([rms(h.grad) for h in hs], 2), rtol=1e-10)
    assert all(p.grad is None for p in model.parameters())


def test_gradients_vanish_through_logistic_units_and_not_through_rectifiers():
    """N2 §3.6: σ' ≤ ¼, so that fifteen logistic layers let next to nothing through."""
    decay = {}
    for activation, init in (("sigmoid", "xavier"), ("relu", "he")):
        weft.manual_seed(0)
        model = MLP(16, [32] * 15, 1, activation=activation, init=init)
        weights = [
            r for r in gradient_flow(model, lambda y: (y**2).mean(), weft.randn(64, 16)).layers if "weight" in r.name
        ]
        decay[activation] = weights[0].gradient / weights[-2].gradient
    assert decay["sigmoid"] < 1e-6 and decay["relu"] > 0.05


def test_buffers_and_mode_are_kept():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
    before = [b.clone() for b in model.buffers()]
    found = gradient_flow(model, lambda y: y.mean(), weft.randn(6, 3))
    assert all((a == b).all() for a, b in zip(before, model.buffers(), strict=True)) and model.training
    assert found.decay == found.layers[0].gradient / found.layers[-1].gradient


def test_loss_must_be_one_number():
    with pytest.raises(ShapeError, match="one number"):
        gradient_flow(nn.Linear(2, 2), lambda y: y, weft.ones(1, 2))


def test_update_ratio_of_plain_descent():
    """w ← w − η g: the ratio is η ‖g‖ / ‖w‖."""
    weft.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer, watch = weft.optim.SGD(model.parameters(), lr=0.1), UpdateWatch(model)
    expected = []
    for _ in range(3):
        optimizer.zero_grad()
        model(weft.ones(4, 3)).pow(2).sum().backward()
        expected.append(0.1 * float(model.weight.grad.norm()) / float(model.weight.norm()))
        optimizer.step()
        watch.step()
    assert watch.ratios.keys() == {"weight"}
    np.testing.assert_allclose(watch.ratios["weight"], expected, rtol=1e-5)
    assert watch.step() == {"weight": 0.0}
