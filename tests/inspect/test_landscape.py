"""Loss landscapes of functions that are known, and directions with the norms they must have."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn
from weft.errors import OptionError, ShapeError
from weft.inspect import between, loss_landscape, loss_line, random_direction, trajectory_directions
from weft.models.supervised import MLP


def weights(model):
    return np.concatenate([p.detach().array.ravel() for p in model.parameters()])


def test_parabola_in_closed_form():
    """L(w) = ‖w‖² for a linear layer without bias: |w + a d₁ + b d₂|²."""
    model = nn.Linear(3, 2, bias=False).double()
    w = model.weight.detach().array.copy()
    d1, d2 = (np.random.default_rng(i).normal(size=(2, 3)) for i in (1, 2))
    a, b = np.linspace(-1, 1, 5), np.linspace(-2, 2, 7)
    found = loss_landscape(model, lambda: (model.weight**2).sum(), ([d1], [d2]), (a, b))
    expected = [[((w + s * d1 + t * d2) ** 2).sum() for t in b] for s in a]
    np.testing.assert_allclose(found.losses, expected, rtol=1e-12)
    np.testing.assert_array_equal(model.weight.detach().array, w)
    line = loss_line(model, lambda: (model.weight**2).sum(), [d1], a)
    np.testing.assert_allclose(line.losses, [((w + s * d1) ** 2).sum() for s in a], rtol=1e-12)


def test_random_directions_have_the_norms_of_the_filters():
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 3))
    for d, p in zip(random_direction(model), model.parameters(), strict=True):
        assert d.shape == p.shape
        if p.ndim < 2:
            assert not d.any()
        else:
            rows = lambda x: np.linalg.norm(x.reshape(len(x), -1), axis=1)
            np.testing.assert_allclose(rows(d), rows(p.detach().array), rtol=1e-6)


def test_filter_normalised_landscape_does_not_see_the_scale_of_layers():
    """Li et al. 2018: relu(αW₁) with W₂/α is the same function, and has the same picture."""
    weft.manual_seed(0)
    model = MLP(3, [8], 1).double()
    for module in (model.hidden[0].linear, model.output):
        nn.init.zeros_(module.bias)
    x, y = weft.randn(20, 3).double(), weft.randn(20, 1).double()
    loss = lambda: ((model(x) - y) ** 2).mean()
    picture = lambda: loss_landscape(model, loss, steps=np.linspace(-1, 1, 5)).losses
    before = picture()
    with weft.no_grad():
        model.hidden[0].linear.weight.mul_(10)
        model.output.weight.div_(10)
    np.testing.assert_allclose(picture(), before, rtol=1e-9)


def test_line_between_two_networks_ends_in_their_losses():
    weft.manual_seed(0)
    first, second, x = MLP(2, [5], 1).double(), MLP(2, [5], 1).double(), weft.randn(9, 2).double()
    found = loss_line(first, lambda: (first(x) ** 2).mean(), between(first, second), [0.0, 0.5, 1.0])
    np.testing.assert_allclose(found.losses[[0, 2]], [float((m(x) ** 2).mean()) for m in (first, second)], rtol=1e-10)


def test_trajectory_directions_hold_a_flat_path():
    """A path in a plane of weight space is reproduced by two directions; the last point is the origin."""
    rng = np.random.default_rng(0)
    u, v = np.linalg.qr(rng.normal(size=(8, 2)))[0].T
    places = np.array([[3.0, 0.0], [1.0, 2.0], [0.5, 1.0], [0.0, 0.0]])
    states = [[(p @ [u, v])[:6].reshape(2, 3), (p @ [u, v])[6:]] for p in places]
    d1, d2, path = trajectory_directions(states)
    flat = lambda d: np.concatenate([part.ravel() for part in d])
    np.testing.assert_allclose(path @ [flat(d1), flat(d2)], places @ [u, v], atol=1e-12)
    assert path[-1].tolist() == [0, 0] and [p.shape for p in d1] == [(2, 3), (2,)]


def test_weights_and_modes_come_back_after_an_error():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    before, calls = weights(model), []

    def loss():
        calls.append(model.training)
        if len(calls) == 3:
            raise RuntimeError("on the way")
        return model(weft.ones(1, 2)).sum()

    with pytest.raises(RuntimeError, match="on the way"):
        loss_landscape(model, loss, steps=[-1.0, 1.0])
    np.testing.assert_array_equal(weights(model), before)
    assert model.training and not any(calls)


def test_loss_that_is_not_finite_is_left_out():
    model = nn.Linear(1, 1)
    assert np.isnan(loss_line(model, lambda: float("inf"), random_direction(model), [0.0]).losses).all()


def test_refused():
    model = nn.Linear(2, 3)
    with pytest.raises(OptionError, match="one array for each parameter"):
        loss_line(model, lambda: 0.0, [np.zeros((3, 2))])
    with pytest.raises(ShapeError, match="different shapes"):
        between(model, nn.Linear(3, 2))
    with pytest.raises(ShapeError, match="3 or more times"):
        trajectory_directions([list(model.parameters())] * 2)
