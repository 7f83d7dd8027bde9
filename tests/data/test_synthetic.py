"""Synthetic sets against scikit-learn's formulas and closed forms; seeds, sizes and errors of all of them."""

import doctest
import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import datasets

import weft
from weft.data import synthetic
from weft.errors import OptionError, ShapeError

POINTS = ("moons", "circles", "spirals", "checkerboard", "xor", "blobs", "two_gaussians")
CURVES = ("swiss_roll", "polynomial", "sine", "sines")
SEQUENCES = ("copy_task", "reverse_task", "adding_task", "digit_sums")
ALL = (*POINTS, *CURVES, *SEQUENCES, "sbm", "ising")


@pytest.fixture
def double():
    weft.set_default_dtype(weft.float64)
    yield
    weft.set_default_dtype(weft.float32)


def results(name, n, **options):
    """Every array of a set."""
    made = getattr(synthetic, name)(n, **({"sweeps": 5} if name == "ising" else {}), **options)
    if name == "sbm":
        made = (made.x, made.edge_index, made.y)
    return [np.asarray(x) for x in (made if isinstance(made, tuple) else (made,))]


# ---------------------------------------------------------------------------------------- all of them


@pytest.mark.parametrize("name", ALL)
def test_seeds_and_generators(name):
    first, again, other = (results(name, 20, seed=seed) for seed in (1, 1, 2))
    given_stream = results(name, 20, generator=weft.Generator().manual_seed(1))
    weft.manual_seed(1)
    default = results(name, 20)
    for same in (again, given_stream, default):
        assert all(np.array_equal(a, b) for a, b in zip(first, same, strict=True))
    assert any(a.shape != b.shape or not np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("name", ALL)
def test_a_seed_leaves_the_default_stream_alone(name):
    weft.manual_seed(3)
    before = weft.default_generator.offset
    results(name, 5, seed=0)
    assert weft.default_generator.offset == before


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("n", [0, 1, 7])
def test_sizes(name, n):
    made = results(name, n, seed=0)
    nodes = made if name != "sbm" else (made[0], made[2])  # the edges of a graph have their own number
    assert all(len(x) == n for x in nodes)
    assert all(x.dtype in (np.float32, np.int64) for x in made)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": -1}, "expected n to be an integer of at least 0, got -1"),
        ({"n": 2.5}, "expected n to be an integer of at least 0, got 2.5"),
        ({"n": 5, "seed": 0, "generator": weft.Generator()}, "expected seed or generator, got both"),
    ],
)
def test_what_is_refused_by_all(name, options, message):
    with pytest.raises(OptionError, match=message):
        getattr(synthetic, name)(**options)


@pytest.mark.parametrize("name", [*POINTS, *CURVES, "adding_task", "sbm"])
@pytest.mark.parametrize("noise", [-0.1, float("nan"), float("inf")])
def test_impossible_noise(name, noise):
    with pytest.raises(OptionError, match=f"{name if name != 'xor' else 'checkerboard'}: expected noise"):
        getattr(synthetic, name)(5, noise=noise, seed=0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: synthetic.circles(5, factor=1.0), OptionError, r"inner radius, in \[0, 1\), got 1.0"),
        (lambda: synthetic.spirals(5, arms=0), OptionError, "expected arms to be an integer of at least 1"),
        (lambda: synthetic.checkerboard(5, cells=0), OptionError, "cells"),
        (lambda: synthetic.blobs(5, centers=[1.0, 2.0]), ShapeError, r"shape \(K, D\) with K ≥ 1, got \(2,\)"),
        (lambda: synthetic.blobs(5, centers=np.zeros((0, 2))), ShapeError, r"got \(0, 2\)"),
        (lambda: synthetic.polynomial(5, coefficients=()), OptionError, "at least one coefficient"),
        (lambda: synthetic.sine(5, low=1.0, high=0.0), OptionError, "low ≤ high, got 1.0 and 0.0"),
        (lambda: synthetic.sines(5, period=(0.0, 1.0)), OptionError, "periods above 0"),
        (lambda: synthetic.ising(2, 4, 0.0), OptionError, "temperatures above 0, got 0.0"),
        (lambda: synthetic.ising(2, 4, [1.0, 2.0, 3.0]), ShapeError, r"one temperature or 2 of them.*\(3,\)"),
        (lambda: synthetic.ising(2, (4, 0)), OptionError, r"size\[1\]"),
        (lambda: synthetic.ising(2, 4, method="wolff"), OptionError, "'gibbs', 'metropolis', got 'wolff'"),
        (lambda: synthetic.ising_energy(weft.ones(3)), ShapeError, r"\(n, \*size\), got \(3,\)"),
        (lambda: synthetic.stochastic_block_model([2], [[1.5]]), OptionError, r"in \[0, 1\]"),
        (lambda: synthetic.stochastic_block_model([2, 2], [[0.5]]), ShapeError, r"\(2, 2\), got \(1, 1\)"),
        (lambda: synthetic.stochastic_block_model([1, 1], [[0, 1], [0, 0]]), OptionError, "directed=True"),
        (lambda: synthetic.adding_task(5, 1), OptionError, "length to be an integer of at least 2"),
        (lambda: synthetic.digit_sums(5, 18), OptionError, "at most 17 digits"),
        (lambda: synthetic.moons(5, generator=np.random.default_rng(0)), TypeError, "must be a weft.Generator"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("name", ["", ".points", ".curves", ".spins", ".graphs", ".sequences"])
def test_examples_run(name):
    tried = doctest.testmod(importlib.import_module(f"weft.data.synthetic{name}"))
    assert tried.failed == 0 and tried.attempted > 0


# ---------------------------------------------------------------------------------------- points


@pytest.mark.parametrize("n", [1, 2, 9, 100])
@pytest.mark.parametrize(
    ("ours", "theirs", "options"),
    [
        (synthetic.moons, datasets.make_moons, {}),
        (synthetic.circles, datasets.make_circles, {}),
        (synthetic.circles, datasets.make_circles, {"factor": 0.3}),
    ],
)
def test_curves_equal_scikit_learn(double, n, ours, theirs, options):
    points, labels = ours(n, shuffle=False, **options)
    expected, classes = theirs(n, shuffle=False, **options)
    np.testing.assert_allclose(np.asarray(points), expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(np.asarray(labels), classes)


@pytest.mark.parametrize("name", ["moons", "circles", "spirals"])
def test_shuffling_only_changes_the_order(name):
    make = getattr(synthetic, name)
    rows = [np.column_stack([np.asarray(x) for x in make(31, shuffle=s, seed=0)]) for s in (False, True)]
    assert not np.array_equal(*rows)
    np.testing.assert_array_equal(*(np.unique(x, axis=0) for x in rows))


def test_swiss_roll_lies_on_scikit_learns_surface(double):
    points, t = (np.asarray(x) for x in synthetic.swiss_roll(2000, seed=0))
    theirs, along = datasets.make_swiss_roll(2000, random_state=0)
    for p, s in ((points, t), (theirs, along)):
        np.testing.assert_allclose(p[:, [0, 2]], np.stack([s * np.cos(s), s * np.sin(s)], 1), rtol=0, atol=1e-12)
    for a, b in ((t, along), (points[:, 1], theirs[:, 1])):
        assert stats.ks_2samp(a, b).pvalue > 1e-3


def test_spirals_are_archimedean(double):
    points, labels = (np.asarray(x) for x in synthetic.spirals(300, arms=3, turns=1.5, seed=0))
    radius = np.hypot(*points.T)
    assert np.bincount(labels).tolist() == [100, 100, 100] and radius.max() == pytest.approx(1)
    turned = np.exp(2j * np.pi * (1.5 * radius + labels / 3))
    np.testing.assert_allclose(points @ [1, 1j], radius * turned, atol=1e-12)


@pytest.mark.parametrize("cells", [1, 2, 3, 4])
def test_checkerboard_is_even_and_alternates(cells):
    points, labels = (np.asarray(x, np.float64) for x in synthetic.checkerboard(20_000, cells=cells, seed=0))
    cell = np.floor((points + 1) / 2 * cells)
    np.testing.assert_array_equal(labels, cell.sum(1) % 2)
    counts = np.unique(cell, axis=0, return_counts=True)[1]
    assert len(counts) == cells**2 and (cells == 1 or stats.chisquare(counts).pvalue > 1e-3)


def test_xor_is_the_sign_of_the_product():
    points, labels = (np.asarray(x) for x in synthetic.xor(1000, seed=0))
    np.testing.assert_array_equal(labels == 1, points.prod(1) < 0)


def test_blobs_have_their_centres_and_spread():
    centers = [[0.0, 0.0, 0.0], [10.0, -10.0, 5.0]]
    points, labels = (np.asarray(x) for x in synthetic.blobs(20_001, 0.5, centers=centers, seed=0))
    assert np.bincount(labels).tolist() == [10_001, 10_000]
    for k, center in enumerate(centers):
        cloud = points[labels == k]
        np.testing.assert_allclose(cloud.mean(0), center, atol=5 * 0.5 / 100)
        np.testing.assert_allclose(np.cov(cloud.T), 0.25 * np.eye(3), atol=0.02)


def test_drawn_centres_lie_in_their_box():
    points, labels = synthetic.blobs(500, 0.0, centers=500, features=4, low=2.0, high=3.0, seed=0)
    assert points.shape == (500, 4) and len(np.unique(np.asarray(labels))) == 500
    assert 2 <= points.min() < 2.1 and 2.9 < points.max() < 3


@pytest.mark.parametrize(("distance", "noise"), [(2.0, 1.0), (1.0, 0.4), (0.0, 1.0)])
def test_bayes_error_of_two_gaussians(distance, noise):
    n = 40_000
    points, labels = (np.asarray(x) for x in synthetic.two_gaussians(n, noise, distance=distance, seed=1))
    expected = stats.norm.cdf(-distance / (2 * noise))
    wrong = int(((points[:, 0] > 0) != labels).sum())
    assert abs(wrong - n * expected) < 4 * np.sqrt(n * expected * (1 - expected))


@pytest.mark.parametrize("name", ["moons", "circles", "spirals", "two_gaussians", "checkerboard", "xor"])
def test_noise_is_gaussian_of_this_size(name):
    make, order = getattr(synthetic, name), {} if name in ("checkerboard", "xor") else {"shuffle": False}
    clean, noisy = (np.asarray(make(5000, noise, seed=0, **order)[0], np.float64) for noise in (0.0, 0.3))
    assert stats.kstest((noisy - clean).ravel() / 0.3, "norm").pvalue > 1e-3


# ---------------------------------------------------------------------------------------- curves


def test_polynomial_and_its_noise(double):
    coefficients = (0.5, -1.0, 2.0, 3.0)
    x, y = (np.asarray(v) for v in synthetic.polynomial(4000, 0.2, coefficients=coefficients, low=-2, high=3, seed=0))
    assert x.shape == y.shape == (4000, 1) and x.min() >= -2 and x.max() < 3
    residual = (y - np.polyval(coefficients[::-1], x)) / 0.2
    assert stats.kstest(residual.ravel(), "norm").pvalue > 1e-3
    fitted = np.polynomial.polynomial.polyfit(x[:, 0], y[:, 0], 3)
    np.testing.assert_allclose(fitted, coefficients, atol=0.03)


def test_sine(double):
    x, y = synthetic.sine(50, 0.0, frequency=3.0, seed=0)
    np.testing.assert_allclose(np.asarray(y), np.sin(6 * np.pi * np.asarray(x)), atol=1e-15)


def test_sines_satisfy_their_recurrence(double):
    series, parameters = (np.asarray(v) for v in synthetic.sines(20, length=30, seed=0))
    amplitude, period, phase = parameters.T
    assert series.shape == (20, 30, 1) and parameters.shape == (20, 3)
    np.testing.assert_allclose(series[:, 0, 0], amplitude * np.sin(phase), atol=1e-12)
    s, turn = series[:, :, 0], 2 * np.cos(2 * np.pi / period)[:, None]
    np.testing.assert_allclose(s[:, 2:], turn * s[:, 1:-1] - s[:, :-2], atol=1e-12)  # sin(a + b) + sin(a - b)
    assert (10 <= period).all() and (period < 40).all() and (0.5 <= amplitude).all() and (amplitude < 1.5).all()


# ---------------------------------------------------------------------------------------- sequences


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 8), st.integers(1, 5), st.integers(0, 2**32))
def test_copy_task(length, delay, symbols, seed):
    inputs, targets = (np.asarray(x) for x in synthetic.copy_task(4, length, delay=delay, symbols=symbols, seed=seed))
    said, steps = inputs[:, :length], 2 * length + delay
    assert inputs.shape == targets.shape == (4, steps) and said.min() >= 1 and said.max() <= symbols
    np.testing.assert_array_equal(targets[:, length + delay :], said)
    assert not targets[:, : length + delay].any() and (inputs[:, length + delay - 1] == symbols + 1).all()
    assert np.count_nonzero(inputs) == 4 * (length + 1)


def test_reverse_task():
    inputs, targets = (np.asarray(x) for x in synthetic.reverse_task(50, 9, symbols=5, seed=0))
    np.testing.assert_array_equal(targets, np.flip(inputs, 1))
    assert set(np.unique(inputs)) == {1, 2, 3, 4, 5}


def test_adding_task():
    inputs, targets = (np.asarray(x, np.float64) for x in synthetic.adding_task(20_000, 11, seed=0))
    values, marks = inputs[..., 0], inputs[..., 1]
    np.testing.assert_allclose((values * marks).sum(1), targets[:, 0], atol=1e-6)
    assert (marks[:, :5].sum(1) == 1).all() and (marks[:, 5:].sum(1) == 1).all()
    squared = (targets - 1) ** 2  # of the constant answer: the variance of the sum of two uniforms
    assert abs(squared.mean() - 1 / 6) < 4.5 * squared.std() / np.sqrt(20_000)


@pytest.mark.parametrize("digits", [1, 3, 17])
def test_digit_sums(digits):
    questions, answers = synthetic.digit_sums(100, digits, seed=0)
    for question, answer in zip(questions.tolist(), answers.tolist(), strict=True):
        a, b = "".join("0123456789+="[t] for t in question).removesuffix("=").split("+")
        assert len(a) == len(b) == digits and str(int(a) + int(b)).zfill(digits + 1) == "".join(map(str, answer))
