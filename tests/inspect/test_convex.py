"""Convexity: what must be refuted is, what is certified is true, and Jensen's inequality."""

import numpy as np
import pytest

import weft
from weft import inspect
from weft.errors import ShapeError

POINTS = np.random.default_rng(0).normal(size=(60, 3))
A = np.random.default_rng(1).normal(size=(3, 3))

CONVEX = {
    "squares": lambda x: x.square().sum(-1),
    "norm": lambda x: x.norm(dim=-1),
    "log-sum-exp": lambda x: x.logsumexp(-1),
    "largest": lambda x: x.amax(-1),
    "hinge": lambda x: (1 - x[:, 0]).relu(),
    "softplus": lambda x: weft.nn.functional.softplus(x).sum(-1),
    "affine": lambda x: x @ weft.tensor([1.0, -2.0, 3.0], dtype=weft.float64) + 1,
    "exponentials": lambda x: x.exp().sum(-1),
}
NOT_CONVEX = {
    "saddle": lambda x: x[:, 0] * x[:, 1],
    "sine": lambda x: x.sin().sum(-1),
    "square root": lambda x: x.abs().sqrt().sum(-1),
    "a bump in a bowl": lambda x: x.square().sum(-1) + 3 * (-x.square().sum(-1)).exp(),
    "0-1 loss": lambda x: (x[:, 0] > 0).double(),
    "factorised": lambda x: (1 - x[:, 0] * x[:, 1]) ** 2,  # ‖X − UV‖² is convex in U and in V, not in both (N1 §7)
    "concave": lambda x: -x.square().sum(-1),
}


@pytest.mark.parametrize("name", CONVEX)
def test_convex_functions_are_not_refuted(name):
    assert inspect.convex_counterexample(CONVEX[name], POINTS) is None


@pytest.mark.parametrize("name", NOT_CONVEX)
def test_counterexamples_can_be_checked(name):
    f = NOT_CONVEX[name]
    found = inspect.convex_counterexample(f, POINTS)
    at = lambda x: float(f(weft.tensor(x[None]))[0])
    middle = at(found.weight * found.a + (1 - found.weight) * found.b)
    excess = middle - found.weight * at(found.a) - (1 - found.weight) * at(found.b)
    assert excess == pytest.approx(found.excess, rel=1e-9) and excess > 0 and 0 <= found.weight <= 1


def test_verdicts():
    quadratic = lambda matrix: lambda x: ((x @ weft.tensor(matrix)) * x).sum(-1) / 2
    verdict = lambda f: inspect.convexity(f, POINTS[:8])
    definite = verdict(quadratic(A @ A.T))
    assert definite.verdict == "convex" and definite.quadratic
    assert definite.curvature == pytest.approx(np.linalg.eigvalsh(A @ A.T).min(), rel=1e-6)
    half = verdict(quadratic(np.diag([1.0, 0.0, 2.0])))
    assert half.verdict == "convex" and half.curvature == 0
    for lowest in (-2.0, -1e-3):  # also where no pair of the points tells
        indefinite = verdict(quadratic(np.diag([3.0, lowest, 2.0])))
        assert indefinite.verdict == "not convex" and indefinite.counterexample.excess > 0
        assert indefinite.curvature == pytest.approx(lowest, rel=1e-6)
    exponential = verdict(CONVEX["log-sum-exp"])
    assert exponential.verdict == "not refuted" and not exponential.quadratic and exponential.curvature >= 0


def test_jensen():
    """The gap of the square is the variance, of the exponential the log of the mean against the mean of the log."""
    x, alpha = POINTS[:, :1], np.random.default_rng(2).dirichlet(np.ones(60))
    gap = lambda f: float(inspect.jensen_gap(f, weft.tensor(x), weft.tensor(alpha)))
    mean = alpha @ x[:, 0]
    assert gap(CONVEX["squares"]) == pytest.approx(alpha @ (x[:, 0] - mean) ** 2)
    assert gap(lambda x: x.exp().sum(-1)) == pytest.approx(alpha @ np.exp(x[:, 0]) - np.exp(mean))
    assert gap(lambda x: 3 * x[:, 0]) == pytest.approx(0, abs=1e-12)
    for f in CONVEX.values():
        assert float(inspect.jensen_gap(f, weft.tensor(POINTS))) >= -1e-12
    assert float(inspect.jensen_gap(NOT_CONVEX["concave"], weft.tensor(POINTS))) < 0
    likelihoods = np.array([[0.2], [0.6]])  # p(x | y) for two equally likely y: E[−log p(x|Y)] ≥ −log p(x)
    found = float(inspect.jensen_gap(lambda p: -p.log().sum(-1), weft.tensor(likelihoods)))
    assert found == pytest.approx(-np.log(likelihoods).mean() + np.log(0.4))
    for bad in ([0.5, 0.6], [1.5, -0.5], [1.0]):
        with pytest.raises(ShapeError):
            inspect.jensen_gap(lambda p: p.sum(-1), weft.ones(2, 1), weft.tensor(bad))


SETS = {
    "ball": (lambda x: np.linalg.norm(x, axis=1) <= 1.5, True),
    "half spaces": (lambda x: (x @ A <= 1).all(1), True),
    "simplex-like": (lambda x: (x >= -1).all(1) & (x.sum(1) <= 2), True),
    "ring": (lambda x: np.linalg.norm(x, axis=1) >= 1, False),
    "union": (lambda x: (np.abs(x - 1).max(1) < 0.8) | (np.abs(x + 1).max(1) < 0.8), False),
    "empty": (lambda x: np.zeros(len(x), bool), True),
}


@pytest.mark.parametrize("name", SETS)
def test_sets(name):
    contains, convex = SETS[name]
    found = inspect.set_counterexample(contains, POINTS)
    assert (found is None) == convex
    if found is not None:
        middle = found.weight * found.a + (1 - found.weight) * found.b
        assert contains(np.stack([found.a, found.b, middle])).tolist() == [True, True, False]


def test_hulls_are_certified_both_ways():
    rng = np.random.default_rng(3)
    for _ in range(20):
        points = rng.normal(size=(8, 3))
        inner = rng.dirichlet(np.ones(8)) @ points
        found = inspect.hull_certificate(points, inner)
        assert found.inside and (found.weights >= 0).all() and found.weights.sum() == pytest.approx(1)
        np.testing.assert_allclose(found.weights @ points, inner, atol=1e-6)
        x = rng.normal(size=3) * 3
        found = inspect.hull_certificate(points, x)
        if not found.inside:
            assert (points @ found.normal).max() < x @ found.normal
        else:
            np.testing.assert_allclose(found.weights @ points, x, atol=1e-6)
    assert not inspect.hull_certificate([[0.0, 0.0], [1.0, 0.0]], [2.0, 0.0]).inside
    assert inspect.hull_certificate([[0.0, 0.0]], [0.0, 0.0]).inside


def test_bad_points():
    for call in (
        lambda: inspect.convex_counterexample(CONVEX["squares"], np.zeros(3)),
        lambda: inspect.convexity(CONVEX["squares"], np.zeros((0, 3))),
        lambda: inspect.hull_certificate(np.zeros((2, 3)), np.zeros(2)),
    ):
        with pytest.raises(ShapeError):
            call()
