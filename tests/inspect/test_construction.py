"""Bumps, towers and polygons within their error bounds, for the functions they were built for."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft
from weft import nn
from weft.errors import OptionError
from weft.inspect import (
    approximate_by_lines,
    approximate_by_towers,
    bump_bound,
    bump_network,
    cells_needed,
    line_regions,
    tower_bound,
    tower_network,
)


def values(network, points):
    with weft.no_grad():
        return network(weft.tensor(points)).array[:, 0]


@pytest.mark.parametrize("k", [10.0, 100.0, 1000.0])
@pytest.mark.parametrize("margin", [0.01, 0.05])
def test_bump_is_the_indicator_within_its_bound(k, margin):
    """N1 example 1.1 with a = 0.4, b = 0.6."""
    x = np.linspace(-1, 2, 4001)[:, None]
    x = x[(np.abs(x - 0.4) >= margin)[:, 0] & (np.abs(x - 0.6) >= margin)[:, 0]]
    inside = ((x > 0.4) & (x < 0.6))[:, 0]
    error = np.abs(values(bump_network(0.4, 0.6, k), x) - inside).max()
    assert error <= bump_bound(k, margin) + 1e-12
    assert bump_bound(k, margin) == pytest.approx(2 / (1 + math.exp(k * margin)))


def test_bump_of_the_formula():
    x = np.linspace(-1, 1, 11)[:, None]
    sigmoid = lambda z: 1 / (1 + np.exp(-z))
    np.testing.assert_allclose(
        values(bump_network(-0.2, 0.5, 7.0), x), (sigmoid(7 * (x + 0.2)) - sigmoid(7 * (x - 0.5)))[:, 0], atol=1e-14
    )


@pytest.mark.parametrize("low, high", [([0.2], [0.7]), ([0.2, 0.3], [0.7, 0.9]), ([0.1, 0.2, 0.3], [0.6, 0.8, 0.9])])
@pytest.mark.parametrize("k1, k2, margin", [(100.0, 40.0, 0.05), (400.0, 20.0, 0.02), (60.0, 100.0, 0.08)])
def test_tower_is_the_indicator_within_its_bound(low, high, k1, k2, margin):
    d = len(low)
    x = np.random.default_rng(0).uniform(0, 1, (20_000, d))
    away = (np.abs(x - low) >= margin) & (np.abs(x - high) >= margin)
    x = x[away.all(1)]
    inside = ((x > low) & (x < high)).all(1)
    assert inside.any() and not inside.all()
    error = np.abs(values(tower_network(low, high, k1, k2), x) - inside).max()
    assert error <= tower_bound(d, k1, k2, margin) < 0.5


FUNCTIONS = [  # function, dimension, Lipschitz constant on the unit cube
    (lambda p: np.sin(6 * p[:, 0]), 1, 6.0),
    (lambda p: np.abs(p[:, 0] - 0.37), 1, 1.0),
    (lambda p: np.sin(3 * p[:, 0]) * np.cos(2 * p[:, 1]), 2, math.sqrt(13)),
    (lambda p: np.linalg.norm(p - 0.5, axis=1), 2, 1.0),
    (lambda p: np.full(len(p), 2.5), 2, 0.0),
    (lambda p: p.sum(1), 3, math.sqrt(3)),
]


@pytest.mark.parametrize("function, d, constant", FUNCTIONS)
@pytest.mark.parametrize("cells", [1, 3, 8])
def test_towers_are_within_their_bound(function, d, constant, cells):
    found = approximate_by_towers(function, [0.0] * d, [1.0] * d, cells if d < 3 else min(cells, 4), constant)
    assert found.error({1: 2000, 2: 120, 3: 25}[d]) <= found.bound + 1e-12
    assert len([m for m in found.network.modules() if isinstance(m, nn.Linear)]) == 3


def test_towers_on_a_box_that_is_no_cube():
    found = approximate_by_towers(lambda p: p[:, 0] * 2 - p[:, 1], [-3.0, 0.0], [1.0, 5.0], 10, math.sqrt(5))
    assert found.error(150) <= found.bound and found.margin == pytest.approx(0.04)


@pytest.mark.parametrize("constant, error", [(1.0, 0.1), (math.sqrt(2), 0.1), (3.0, 0.25), (0.1, 5.0)])
def test_least_number_of_cells(constant, error):
    """N1 theorem 1.1: K = ⌈L / (√2 ε)⌉ on the unit square, and one less is not enough for a cone of slope L."""
    K = cells_needed(constant, error)
    assert K == math.ceil(constant / (math.sqrt(2) * error))
    corner = lambda cells: constant * math.sqrt(2) / (2 * cells)  # of a cell, from the value in its middle
    assert corner(K) <= error * (1 + 1e-12) and (K == 1 or corner(K - 1) > error)


@pytest.mark.parametrize("function, d, constant", [row for row in FUNCTIONS if row[1] == 1])
@pytest.mark.parametrize("pieces", [1, 4, 25])
def test_polygon_is_within_its_bound_everywhere(function, d, constant, pieces):
    found = approximate_by_lines(function, 0.0, 1.0, pieces, constant)
    assert found.margin == 0 and found.error(5001) <= found.bound
    knots = np.linspace(0, 1, pieces + 1)[:, None]
    np.testing.assert_allclose(found.values(knots), function(knots), atol=1e-12)
    assert line_regions(found.network, low=0, high=1).count == pieces


def test_polygon_bound_is_attained():
    """A zigzag of slope L halfway between the knots: the error is L h / 2 exactly."""
    zigzag = lambda p: 0.125 - np.abs((p[:, 0] % 0.25) - 0.125)
    found = approximate_by_lines(zigzag, 0.0, 1.0, 4, 1.0)
    assert found.error(4001) == pytest.approx(found.bound) == 0.125


@pytest.mark.parametrize(
    "run, message",
    [
        (lambda: approximate_by_towers(np.sum, [0.0], [0.0], 3, 1.0), "low < high"),
        (lambda: approximate_by_towers(np.sum, [0.0], [1.0], 0, 1.0), "cells >= 1"),
        (lambda: approximate_by_lines(np.sum, 0, 1, 0, 1.0), "pieces >= 1"),
        (lambda: tower_network([0.0], [1.0], -1.0, 1.0), "k1, k2 > 0"),
        (lambda: cells_needed(1.0, 0.0), "numbers > 0"),
    ],
)
def test_refused(run, message):
    with pytest.raises(OptionError, match=message):
        run()
