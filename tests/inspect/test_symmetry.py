"""N1 theorem 1.2: N! 2^N sets of weights, one function."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import weft
from weft import nn
from weft.errors import OptionError, ShapeError
from weft.inspect import canonical, flip_signs, permute_units, symmetries, symmetry_count
from weft.models.supervised import MLP

X = weft.linspace(-3, 3, 60, dtype=weft.float64).reshape(20, 3)


def network(*widths, activation="tanh"):
    weft.manual_seed(0)
    return MLP(widths[0], widths[1:-1], widths[-1], activation=activation).double()


def weights(model):
    return np.concatenate([p.detach().array.ravel() for p in model.parameters()])


@pytest.mark.parametrize("units", [[0], [1, 3], [0, 1, 2, 3, 4], []])
def test_flipped_signs_leave_the_function(units):
    model = network(3, 5, 2)
    before, y = weights(model), model(X).detach()
    flip_signs(model.hidden[0].linear, model.output, units)
    np.testing.assert_allclose(model(X).detach().array, y.array, atol=1e-15)
    assert (weights(model) != before).sum() == len(units) * (3 + 1 + 2)


def test_permuted_units_leave_the_function():
    model = network(3, 4, 2)
    y, seen = model(X).detach(), set()
    for order in itertools.permutations(range(4)):
        permute_units(model.hidden[0].linear, model.output, order)
        np.testing.assert_allclose(model(X).detach().array, y.array, atol=1e-15)
        seen.add(weights(model).tobytes())
    assert len(seen) > 12  # products of the permutations wander through the group


def test_group_has_the_order_of_the_theorem():
    """All N! 2^N weight vectors of 3 units differ, and all give one function."""
    y, seen = network(3, 3, 1)(X).detach(), set()
    for order in itertools.permutations(range(3)):
        for signs in itertools.product((False, True), repeat=3):
            model = network(3, 3, 1)
            flip_signs(model.hidden[0].linear, model.output, np.flatnonzero(signs))
            permute_units(model.hidden[0].linear, model.output, order)
            np.testing.assert_allclose(model(X).detach().array, y.array, atol=1e-15)
            seen.add(weights(model).tobytes())
    assert len(seen) == symmetry_count([3]) == math.factorial(3) * 2**3 == 48


@pytest.mark.parametrize("widths", [(3, 6, 1), (3, 6, 5, 2), (3, 1, 1)])
@pytest.mark.parametrize("activation", ["tanh", "arctan", "identity"])
def test_random_equivalent_network_and_canonical_form(widths, activation):
    model = network(*widths, activation=activation)
    found = symmetries(model, X, weft.Generator().manual_seed(3))
    assert found.difference < 1e-13 and found.count == symmetry_count(widths[1:-1])
    assert found.widths == widths[1:-1]
    a, b = canonical(model, X), canonical(found.other, X)
    np.testing.assert_array_equal(weights(a), weights(b))
    np.testing.assert_allclose(a(X).detach().array, model(X).detach().array, atol=1e-13)


def test_rectifier_is_not_odd():
    with pytest.raises(OptionError, match="got ReLU"):
        symmetries(network(3, 4, 1, activation="relu"), X)


def test_layers_without_bias():
    model = nn.Sequential(nn.Linear(3, 4, bias=False), nn.Tanh(), nn.Linear(4, 1, bias=False)).double()
    assert symmetries(model, X).difference < 1e-14


def test_refused():
    with pytest.raises(OptionError, match="each of 0 … 3 once"):
        permute_units(nn.Linear(2, 4), nn.Linear(4, 1), [0, 1, 1, 3])
    with pytest.raises(ShapeError, match="4 units leave"):
        flip_signs(nn.Linear(2, 4), nn.Linear(5, 1), [0])
