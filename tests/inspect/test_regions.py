"""Linear regions against theorems (N0 §1.6–1.7, N2 §2.4.10), brute force by linear programs, and the network itself."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog

import weft
from weft import nn
from weft.data import load_digits
from weft.errors import OptionError, ShapeError
from weft.inspect import (
    cells_of_arrangement,
    line_regions,
    plane_regions,
    plane_through,
    region_bounds,
    zigzag_network,
)
from weft.models.supervised import MLP, rectifier_network


def network(*widths, seed=0, spread=1.0):
    """An MLP with normal biases, so that zeros of units lie apart."""
    weft.manual_seed(seed)
    model = MLP(widths[0], widths[1:-1], widths[-1], init="he").double()
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.bias, std=spread)
    return model


# ------------------------------------------------------------------------------- one dimension


@pytest.mark.parametrize("units", [1, 2, 3, 8, 40, 200])
def test_one_layer_of_distinct_joints_has_one_region_more_than_units(units):
    model = network(1, units, 1, seed=units)
    found = line_regions(model)
    assert found.count == found.linear_count == units + 1 == found.bounds.at_most
    w, b = model.hidden[0].linear.weight.array[:, 0], model.hidden[0].linear.bias.array
    np.testing.assert_allclose(found.edges[1:-1], np.sort(-b / w), rtol=1e-12)


@pytest.mark.parametrize("width, depth", [(3, 1), (3, 2), (3, 5), (4, 3), (5, 2), (8, 2)])
def test_zigzag_reaches_the_bound_of_the_notes(width, depth):
    """(D + 1)^K for D > 2, every piece folded onto [0, 1]."""
    found = line_regions(zigzag_network(width, depth), low=0, high=1)
    assert found.count == found.linear_count == (width + 1) ** depth == region_bounds(1, [width] * depth).at_most
    ends = found.slopes[:, 0] * found.edges[:-1] + found.offsets[:, 0]
    np.testing.assert_allclose(ends, np.arange(found.count) % 2, atol=1e-8)


@pytest.mark.parametrize("widths", [(1, 5, 1), (1, 6, 6, 1), (1, 4, 4, 4, 2), (1, 1, 1, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_line_pieces_are_the_network(widths, seed):
    model = network(*widths, seed=seed)
    found = line_regions(model, low=-4, high=4)
    assert found.count <= found.bounds.at_most <= found.bounds.patterns
    assert len(np.unique(found.patterns, axis=0)) == found.count
    t = np.random.default_rng(seed).uniform(-4, 4, 500)
    piece = np.searchsorted(found.edges, t) - 1
    expected = model(weft.tensor(t[:, None])).detach().array
    np.testing.assert_allclose(found.slopes[piece] * t[:, None] + found.offsets[piece], expected, atol=1e-10)


def test_outputs_share_their_joints():
    """N0 §1.7: several outputs have their joints in the same places."""
    assert line_regions(network(1, 9, 5)).count == line_regions(network(1, 9, 1)).count == 10


def test_unit_that_nothing_listens_to_cuts_a_pattern_but_no_line():
    model = network(1, 4, 1)
    with weft.no_grad():
        model.output.weight[0, 2] = 0
    found = line_regions(model)
    assert (found.count, found.linear_count) == (5, 4)


def test_equal_joints_count_once():
    model = network(1, 3, 1)
    with weft.no_grad():
        model.hidden[0].linear.weight.copy_(weft.tensor([[1.0], [2.0], [-1.0]]))
        model.hidden[0].linear.bias.copy_(weft.tensor([-0.5, -1.0, 0.5]))
    assert line_regions(model).count == 2


def test_line_through_a_convolutional_network():
    weft.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.LeakyReLU(0.1), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(48, 6), nn.PReLU(), nn.Dropout(0.5), nn.Linear(6, 2),
    )  # fmt: skip
    model[1].running_mean.normal_()
    images = load_digits()[0][:2, None] / 16.0
    found = line_regions(model, images[0], images[1] - images[0], 0, 1)
    t = np.linspace(0, 1, 101)
    piece = np.clip(np.searchsorted(found.edges, t) - 1, 0, found.count - 1)
    x = images[0] + t[:, None, None, None] * (images[1] - images[0])
    expected = model.double().eval()(weft.tensor(x)).detach().array
    np.testing.assert_allclose(found.slopes[piece] * t[:, None] + found.offsets[piece], expected, atol=1e-9)
    assert found.count > 20 and found.patterns.shape[1] == 3 * 64 + 6


# ------------------------------------------------------------------------------- two dimensions


@pytest.mark.parametrize("units", [1, 2, 3, 6, 12])
def test_shallow_network_cuts_the_plane_as_lines_do(units):
    """Zaslavsky: 1 + D + C(D, 2), between 2^{D_in} (N0 §1.7, D ≥ D_in) and 2^D."""
    found = plane_regions(network(2, units, 1, seed=units), (-1e4, 1e4, -1e4, 1e4))
    assert found.count == 1 + units + math.comb(units, 2) == found.bounds.at_most
    assert found.count <= 2**units and (units < 2 or found.count >= 2**2)


def feasible_patterns(model, extent):
    """Brute force: patterns for which a linear program finds a point well inside all half spaces and the box."""
    layers = [m for m in model.modules() if isinstance(m, nn.Linear)][:-1]
    weights = [(m.weight.detach().array, m.bias.detach().array) for m in layers]
    sizes = [len(b) for _, b in weights]
    found = set()
    for pattern in itertools.product((False, True), repeat=sum(sizes)):
        a, c, rows, limits, at = np.eye(2), np.zeros(2), [], [], 0
        for (w, b), n in zip(weights, sizes, strict=True):
            on = np.array(pattern[at : at + n])
            a, c, at = w @ a, w @ c + b, at + n
            sign = np.where(on, -1.0, 1.0)
            rows.append(np.column_stack([sign[:, None] * a, np.linalg.norm(a, axis=1)]))
            limits.append(-sign * c)
            a, c = a * on[:, None], c * on
        left, right, low, high = extent
        box = [(left, right), (low, high), (0, None)]
        best = linprog([0, 0, -1], np.concatenate(rows), np.concatenate(limits), bounds=box)
        if best.status == 0 and best.x[2] > 1e-7:
            found.add(pattern)
    return found


@pytest.mark.parametrize("widths, seed", [((2, 3, 3, 1), 0), ((2, 4, 3, 1), 1), ((2, 2, 2, 2, 1), 2)])
def test_polygons_are_the_patterns_that_linear_programs_find(widths, seed):
    model, extent = network(*widths, seed=seed), (-3, 3, -3, 3)
    found = plane_regions(model, extent)
    assert {tuple(row) for row in found.patterns.tolist()} == feasible_patterns(model, extent)


@pytest.mark.parametrize("widths, seed", [((2, 16, 1), 0), ((2, 8, 8, 1), 1), ((2, 8, 8, 8, 3), 2)])
def test_polygons_tile_the_plane_and_are_the_network(widths, seed):
    model = network(*widths, seed=seed)
    found = plane_regions(model, (-2, 3, -1, 2))
    assert found.areas.sum() == pytest.approx(15, rel=1e-12) and found.areas.min() > 0
    assert found.count <= found.bounds.at_most <= found.bounds.patterns
    assert len(np.unique(found.patterns, axis=0)) == found.count
    middles = np.array([polygon.mean(0) for polygon in found.polygons])
    expected = model(weft.tensor(middles)).detach().array
    np.testing.assert_allclose(np.einsum("rmd,rd->rm", found.slopes, middles) + found.offsets, expected, atol=1e-10)


def test_line_crosses_the_polygons_of_a_plane_that_holds_it():
    model = network(2, 8, 8, 1, seed=4)
    line = line_regions(model, np.array([-2.0, 0.3]), np.array([4.0, 0.0]), 0, 1)
    plane = {tuple(p) for p in plane_regions(model, (-2, 2, -2, 2)).patterns.tolist()}
    assert {tuple(p) for p in line.patterns.tolist()} <= plane


def test_slice_through_three_images():
    weft.manual_seed(1)
    images = load_digits()[0][:3].reshape(3, 64) / 16.0
    model = MLP(64, [12], 10)
    origin, directions = plane_through(*images)
    found = plane_regions(model, (-0.5, 1.5, -0.5, 1.5), origin, directions)
    assert found.count <= region_bounds(2, [12]).at_most == 79
    corner = next(i for i, p in enumerate(found.polygons) if _holds(p, np.array([1.0, 0.0])))
    expected = model.double()(weft.tensor(images[1])).detach().array
    np.testing.assert_allclose(found.slopes[corner] @ [1, 0] + found.offsets[corner], expected, atol=1e-9)


def _holds(polygon, point):
    edges = np.roll(polygon, -1, 0) - polygon
    turn = edges[:, 0] * (point - polygon)[:, 1] - edges[:, 1] * (point - polygon)[:, 0]
    return (turn >= -1e-12).all() or (turn <= 1e-12).all()


# ------------------------------------------------------------------------------- bounds


def test_bounds_in_closed_form():
    assert [cells_of_arrangement(n, 2) for n in range(5)] == [1, 2, 4, 7, 11]
    assert cells_of_arrangement(5, 5) == 2**5 and cells_of_arrangement(5, 9) == 2**5
    for width, depth in itertools.product((3, 6), (1, 3)):
        assert region_bounds(1, [width] * depth).at_most == (width + 1) ** depth
        assert region_bounds(1, [width] * depth).patterns == 2 ** (width * depth)
    bounds = region_bounds(2, [4, 4, 4])
    assert bounds.attainable == 2**2 * 2**2 * 11 <= bounds.at_most == 11**3
    assert math.comb(4, 2) ** 4 * 4**2 > bounds.at_most  # the binomial printed in N2 §2.4.10 cannot be meant
    assert region_bounds(3, []).at_most == 1


@pytest.mark.parametrize(
    "run, error, message",
    [
        (lambda: line_regions(MLP(1, [3], 1, activation="tanh")), OptionError, "got Tanh"),
        (lambda: line_regions(nn.Sequential(nn.Conv2d(1, 1, 3), nn.MaxPool2d(2)), np.zeros((1, 8, 8))), OptionError, "MaxPool2d"),
        (lambda: line_regions(MLP(1, [3], 1), low=1, high=1), OptionError, "low < high"),
        (lambda: line_regions(MLP(2, [3], 1), np.zeros(2), np.ones(3)), ShapeError, "do not fit"),
        (lambda: plane_regions(MLP(2, [3], 1), (0, 1, 0, np.inf)), OptionError, "finite extent"),
        (lambda: plane_regions(MLP(2, [3], 1), directions=np.ones((3, 2))), ShapeError, "do not fit"),
        (lambda: zigzag_network(2, 2), OptionError, "width > 2"),
        (lambda: region_bounds(0, [3]), OptionError, "sizes >= 1"),
    ],
)  # fmt: skip
def test_refused(run, error, message):
    with pytest.raises(error, match=message):
        run()


class Skip(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.b(x + self.a(x))


def test_network_that_is_no_chain_is_refused():
    with pytest.raises(OptionError, match="between a and b"):
        plane_regions(Skip())


def test_rectifier_at_the_output_counts_too():
    """`rectifier_network` ends with a rectifier: its zeros are joints as well."""
    model = rectifier_network(1, [6], 1)
    assert line_regions(model).patterns.shape[1] == 7


def test_weights_and_mode_are_untouched():
    model = network(1, 5, 1).float().train()
    before = [p.clone() for p in model.parameters()]
    line_regions(model)
    assert model.training and all((a == b).all() for a, b in zip(before, model.parameters(), strict=True))
    assert next(model.parameters()).dtype is weft.float32
