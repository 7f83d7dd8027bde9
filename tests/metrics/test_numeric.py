"""Regression, forecasts and Fréchet distances against scikit-learn, SciPy and closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, linalg, stats
from sklearn import metrics as sk

import weft
from weft import metrics
from weft.errors import DtypeError, OptionError, ShapeError

RNG = np.random.default_rng(3)
Y, P = RNG.normal(size=(40, 3)), RNG.normal(size=(40, 3))


# ---- regression --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (metrics.mean_squared_error, sk.mean_squared_error),
        (metrics.root_mean_squared_error, lambda y, p: math.sqrt(sk.mean_squared_error(y, p))),
        (metrics.mean_absolute_error, sk.mean_absolute_error),
        (metrics.mean_absolute_percentage_error, sk.mean_absolute_percentage_error),
        (metrics.r2, sk.r2_score),
        (metrics.explained_variance, sk.explained_variance_score),
    ],
)
def test_regression(ours, theirs):
    assert ours(P, Y) == pytest.approx(theirs(Y, P), rel=1e-13)
    assert ours(weft.tensor(P[:, 0]), weft.tensor(Y[:, 0])) == pytest.approx(theirs(Y[:, 0], P[:, 0]), rel=1e-13)
    assert ours(P[::2].T, Y[::2].T) == pytest.approx(theirs(Y[::2].T, P[::2].T), rel=1e-13)  # not contiguous


@pytest.mark.parametrize("multioutput", ["uniform_average", "raw_values", "variance_weighted"])
@pytest.mark.parametrize(
    ("ours", "theirs"), [(metrics.r2, sk.r2_score), (metrics.explained_variance, sk.explained_variance_score)]
)
def test_outputs(ours, theirs, multioutput):
    target, pred = Y * [1, 5, 0], P.copy()  # the last column is constant, and badly predicted
    for p in (pred, target):
        expected = theirs(target, p, multioutput=multioutput)
        np.testing.assert_allclose(np.asarray(ours(p, target, multioutput=multioutput)), expected, rtol=1e-12)


def test_r2_far_from_zero():
    target = 1e8 + RNG.normal(size=1000)
    pred = target + RNG.normal(size=1000) * 0.1
    metric = metrics.R2()
    for i in range(0, 1000, 100):
        metric.update(pred[i : i + 100], target[i : i + 100])
    assert metric.compute() == pytest.approx(sk.r2_score(target, pred), rel=1e-9)


def test_r2_of_one_sample_is_nan():
    assert math.isnan(metrics.r2([1.0], [1.0]))
    assert math.isnan(metrics.r2([1.0, math.nan], [1.0, 2.0]))


NUMERIC = {
    "mse": metrics.MeanSquaredError,
    "mae": metrics.MeanAbsoluteError,
    "r2": metrics.R2,
    "r2-raw": lambda: metrics.R2(multioutput="raw_values"),
    "explained": metrics.ExplainedVariance,
    "frechet": metrics.FrechetDistance,
    "crps": lambda: metrics.CRPS(levels=[0.2, 0.5, 0.8]),
    "pinball": lambda: metrics.PinballLoss([0.2, 0.5, 0.8]),
}


@pytest.mark.parametrize("name", NUMERIC)
@settings(max_examples=20, deadline=None)
@given(sizes=st.lists(st.integers(0, 7), min_size=1, max_size=6), seed=st.integers(0, 1000))
def test_batches_combine_to_the_whole(name, sizes, seed):
    rng, sizes = np.random.default_rng(seed), [*sizes, 5]
    width = () if name in ("crps", "pinball") else (3,)
    batches = [(rng.normal(size=(n, 3)), rng.normal(size=(n, *width)) + 5) for n in sizes]
    one, left, right, again = (NUMERIC[name]() for _ in range(4))
    for i, batch in enumerate(batches):
        one.update(*batch)
        (left if i % 2 else right).update(*batch)
    again.load_state_dict(one.state_dict())
    whole = NUMERIC[name]().once(*(np.concatenate(parts) for parts in zip(*batches, strict=True)))
    for result in (one.compute(), left.merge(right).compute(), again.compute()):
        np.testing.assert_allclose(np.asarray(result), np.asarray(whole), rtol=1e-9)


# ---- forecasts ---------------------------------------------------------------------------------------------


def test_coverage_of_an_honest_forecast():
    mean, std = RNG.normal(size=100_000), RNG.random(100_000) + 0.5
    target = mean + std * RNG.normal(size=100_000)
    for level in (0.5, 0.9):
        share = metrics.coverage((mean, std), target, level=level)
        assert stats.binomtest(round(share * 100_000), 100_000, level).pvalue > 1e-4
        low, high = metrics.gaussian_interval(mean, std, level)
        assert metrics.coverage((low, high), target) == share


def test_gaussian_interval():
    low, high = metrics.gaussian_interval([1.0], [2.0], 0.95)
    np.testing.assert_allclose([low.item(), high.item()], stats.norm(1, 2).interval(0.95), rtol=1e-14)


def test_coverage_counts_the_ends():
    assert metrics.coverage(([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]), [0.0, 1.0, math.nan]) == pytest.approx(2 / 3)


@pytest.mark.parametrize(("mean", "std", "y"), [(0.0, 1.0, 0.3), (2.0, 0.5, -1.0), (1.0, 3.0, 1.0)])
def test_crps_gaussian_is_its_integral(mean, std, y):
    cdf = stats.norm(mean, std).cdf
    below = integrate.quad(lambda z: cdf(z) ** 2, -30, y, epsabs=1e-12)[0]
    above = integrate.quad(lambda z: (1 - cdf(z)) ** 2, y, 30, epsabs=1e-12)[0]
    assert metrics.crps((mean, std), y) == pytest.approx(below + above, rel=1e-9)


def test_crps_of_many_quantiles_is_the_integral():
    levels = (np.arange(4000) + 0.5) / 4000
    quantiles = stats.norm(1, 2).ppf(levels)[None]
    expected = metrics.crps_gaussian([1.0], [2.0], [2.5]).item()
    assert metrics.crps(quantiles, [2.5], levels=levels) == pytest.approx(expected, rel=1e-4)
    assert metrics.crps([[3.0]], [5.0], levels=[0.5]) == 2.0  # the median alone: absolute error


def test_crps_ensemble():
    samples, target = RNG.normal(size=(6, 15)), RNG.normal(size=6)
    pairs = np.abs(samples[:, :, None] - samples[:, None, :]).mean((1, 2))
    expected = np.abs(samples - target[:, None]).mean(1) - pairs / 2
    np.testing.assert_allclose(metrics.crps_ensemble(samples, target).numpy(), expected, rtol=1e-12)
    assert metrics.crps_ensemble([[3.0]], [5.0]).item() == 2.0


def test_pinball_against_scikit_learn():
    quantiles, target = RNG.normal(size=(50, 2)), RNG.normal(size=50)
    each = [sk.mean_pinball_loss(target, quantiles[:, i], alpha=a) for i, a in enumerate((0.1, 0.7))]
    assert metrics.pinball_loss(quantiles, target, [0.1, 0.7]) == pytest.approx(np.mean(each), rel=1e-13)


def test_interval_score_is_two_pinball_losses():
    low, high, target = -np.ones(50), np.ones(50), RNG.normal(size=50) * 2
    losses = metrics.pinball_loss(np.stack([low, high], 1), target, [0.1, 0.9]) * 2  # the sum over the two levels
    assert metrics.interval_score((low, high), target, 0.8) == pytest.approx(losses * 2 / 0.2, rel=1e-13)


def test_interval_nll():
    low, high = stats.norm(1, 2).interval(0.8)
    expected = -stats.norm(1, 2).logpdf([0.5, 4.0]).mean()
    assert metrics.interval_nll(([low] * 2, [high] * 2), [0.5, 4.0], 0.8) == pytest.approx(expected, rel=1e-13)


# ---- Fréchet distance --------------------------------------------------------------------------------------


def covariance(d, rank=None, seed=0):
    a = np.random.default_rng(seed).normal(size=(d, rank or d))
    return a @ a.T


def test_gaussians_with_diagonal_covariances():
    a, b = RNG.random(5), RNG.random(5)
    shift = RNG.normal(size=5)
    expected = shift @ shift + ((np.sqrt(a) - np.sqrt(b)) ** 2).sum()
    assert metrics.gaussian_frechet_distance(np.zeros(5), np.diag(a), shift, np.diag(b)) == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize("d", [1, 2, 20])
def test_gaussians_against_a_matrix_square_root(d):
    a, b = covariance(d, seed=1), covariance(d, seed=2)
    root = linalg.sqrtm(a @ b).real
    expected = np.trace(a + b - 2 * root)
    assert metrics.gaussian_frechet_distance(np.zeros(d), a, np.zeros(d), b) == pytest.approx(expected, rel=1e-9)


def test_gaussians_with_singular_covariances():
    a = covariance(10, rank=3)
    assert metrics.gaussian_frechet_distance(np.zeros(10), a, np.zeros(10), a) == pytest.approx(0, abs=1e-10)
    assert metrics.gaussian_frechet_distance(np.zeros(10), a, np.zeros(10), 4 * a) == pytest.approx(
        np.trace(a), rel=1e-9
    )
    zero = np.zeros((10, 10))
    assert metrics.gaussian_frechet_distance(np.zeros(10), zero, np.ones(10), zero) == 10


def test_features_use_unbiased_covariances():
    x, y = RNG.normal(size=(30, 4)), RNG.normal(size=(20, 4)) + 1
    expected = metrics.gaussian_frechet_distance(x.mean(0), np.cov(x.T), y.mean(0), np.cov(y.T))
    assert metrics.frechet_distance(weft.tensor(x), weft.tensor(y)) == pytest.approx(expected, rel=1e-11)
    assert metrics.frechet_distance(x, x + 3) == pytest.approx(4 * 9, rel=1e-11)  # a shift by 3 of 4 features
    assert metrics.frechet_distance(x + 1e6, x + 1e6) == pytest.approx(0, abs=1e-9)


def test_sides_seen_apart():
    x, y = RNG.normal(size=(30, 4)), RNG.normal(size=(20, 4)) + 1
    metric = metrics.FrechetDistance()
    metric.update(target=y)
    with pytest.raises(metrics.NoDataError):
        metric.compute()
    metric.update(x[:10])
    metric.update(pred=x[10:])
    assert metric.compute() == pytest.approx(metrics.frechet_distance(x, y), rel=1e-11)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: metrics.mean_squared_error([], []), metrics.NoDataError, "no samples"),
        (lambda: metrics.mean_squared_error(np.zeros((3, 1)), np.zeros(3)), ShapeError, r"\(3, 1\) and \(3,\)"),
        (lambda: metrics.mean_squared_error([1j], [1j]), DtypeError, "real numbers"),
        (lambda: metrics.r2(1.0, 1.0), ShapeError, "single number"),
        (lambda: metrics.R2(multioutput="mean"), OptionError, "uniform_average"),
        (lambda: metrics.coverage([1.0, 2.0, 3.0], [1.0]), OptionError, "two parts"),
        (lambda: metrics.Coverage(level=90), OptionError, "between 0 and 1"),
        (lambda: metrics.coverage(([1.0], [1.0, 2.0]), [1.0]), ShapeError, "do not fit"),
        (lambda: metrics.PinballLoss([0.0]), OptionError, "between 0 and 1"),
        (lambda: metrics.pinball_loss([[1.0, 2.0]], [1.0], [0.5]), ShapeError, "1 levels"),
        (lambda: metrics.crps(([0.0], [0.0]), [1.0]), OptionError, "above 0"),
        (lambda: metrics.crps_ensemble(np.zeros((2, 0)), np.zeros(2)), ShapeError, "at least one"),
        (lambda: metrics.interval_nll(([0.0], [0.0]), [1.0]), OptionError, "above 0"),
        (lambda: metrics.frechet_distance([[1.0]], [[2.0], [3.0]]), metrics.NoDataError, "2 samples"),
        (lambda: metrics.frechet_distance(np.zeros((3, 2)), np.zeros((3, 4))), ShapeError, "differ"),
        (lambda: metrics.frechet_distance(np.zeros(3), np.zeros(3)), ShapeError, r"\(N, D\)"),
        (lambda: metrics.FrechetDistance().update(), OptionError, "neither"),
        (lambda: metrics.gaussian_frechet_distance([0], [[-1]], [0], [[1]]), OptionError, "eigenvalue"),
        (lambda: metrics.gaussian_frechet_distance([0], [1], [0], [1]), ShapeError, r"\(D, D\)"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
