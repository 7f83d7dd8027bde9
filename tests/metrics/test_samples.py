"""Figures of samples: closed forms, scikit-learn's neighbours, SciPy's square roots, and what must be refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import linalg
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.neighbors import NearestNeighbors

import weft
from weft import metrics, nn
from weft.errors import OptionError, ShapeError

RNG = np.random.default_rng(7)


# ---- Fréchet -----------------------------------------------------------------------------------------------


def test_frechet_distance_of_two_gaussians_is_the_closed_form():
    """|μ₁ − μ₂|² + tr(Σ₁ + Σ₂ − 2 (Σ₁Σ₂)^½), from samples of both, by SciPy's matrix square root."""
    mix, shift = RNG.normal(size=(3, 3)), np.array([1.0, -2.0, 0.5])
    x, y = RNG.normal(size=(40_000, 3)), RNG.normal(size=(40_000, 3)) @ mix.T + shift
    other = mix @ mix.T
    exact = shift @ shift + np.trace(np.eye(3) + other - 2 * linalg.sqrtm(other).real)
    assert metrics.frechet_distance(x, y) == pytest.approx(exact, rel=0.03)
    true = np.cov(x.T), np.cov(y.T)
    fitted = ((x.mean(0) - y.mean(0)) ** 2).sum() + np.trace(sum(true) - 2 * linalg.sqrtm(true[0] @ true[1]).real)
    assert metrics.frechet_distance(x, y) == pytest.approx(fitted, rel=1e-9)


@pytest.mark.parametrize("count", [2, 8])
def test_too_few_samples_for_the_covariance_are_refused(count):
    """The trap: a singular covariance gives a figure, and the figure is wrong."""
    many = RNG.normal(size=(100, 8))
    with pytest.raises(metrics.NoDataError, match="9 samples"):
        metrics.frechet_distance(many[:count], many)
    with pytest.raises(metrics.NoDataError, match="singular"):
        metrics.calculate_metrics(many, many[:count], fid=True)
    assert metrics.frechet_distance(many[:9], many) > 0


# ---- kernel distance ---------------------------------------------------------------------------------------


def test_squared_mmd_against_scikit_learns_kernel():
    x, y = RNG.normal(size=(30, 5)), RNG.normal(size=(20, 5)) + 0.3
    k = lambda a, b: polynomial_kernel(a, b, degree=3, gamma=1 / 5, coef0=1)
    within = lambda a: (k(a, a).sum() - np.trace(k(a, a))) / (len(a) * (len(a) - 1))
    expected = within(x) + within(y) - 2 * k(x, y).mean()
    assert metrics.squared_mmd(x, y) == pytest.approx(expected, rel=1e-10)
    all_of_it = metrics.kernel_distance(x[:20], y, subsets=3, subset_size=20)  # every subset is the whole
    assert all_of_it.mean == pytest.approx(metrics.squared_mmd(x[:20], y), rel=1e-9)
    assert all_of_it.std == pytest.approx(0, abs=1e-12)


def test_kernel_distance_is_unbiased_where_the_plain_mean_is_not():
    """On a law of two points the expectation over all samples of size 2 is an enumeration: it must be the true MMD²."""
    p, q = np.array([0.3, 0.7]), np.array([0.6, 0.4])  # of the values −1 and 2
    values = np.array([[-1.0], [2.0]])
    k = (values @ values.T + 1) ** 3
    true = p @ k @ p + q @ k @ q - 2 * p @ k @ q
    mean = 0.0
    for i, j, m, n in itertools.product(range(2), repeat=4):
        chance = p[i] * p[j] * q[m] * q[n]
        mean += chance * metrics.squared_mmd(values[[i, j]], values[[m, n]])
    assert mean == pytest.approx(true, rel=1e-10)


def test_kernel_distance_is_reproducible_and_refuses_small_sets():
    x, y = RNG.normal(size=(60, 3)), RNG.normal(size=(50, 3))
    first, again = (metrics.kernel_distance(x, y, subsets=5, subset_size=20, seed=3) for _ in range(2))
    assert first == again
    with pytest.raises(metrics.NoDataError, match="1000 samples"):
        metrics.kernel_distance(x, y)


# ---- precision, recall, density, coverage ------------------------------------------------------------------


def by_scikit_learn(x, y, k):
    """The four figures from scikit-learn's neighbours."""
    radius = lambda a: NearestNeighbors(n_neighbors=k + 1).fit(a).kneighbors(a)[0][:, -1]
    apart = np.linalg.norm(x[:, None] - y[None], axis=-1)
    in_real, in_made = apart <= radius(y), apart <= radius(x)[:, None]
    return in_real.any(1).mean(), in_made.any(0).mean(), in_real.sum() / (k * len(x)), in_real.any(0).mean()


@pytest.mark.parametrize(("offset", "k"), [(0.0, 3), (1.5, 5), (1e4, 1)])
def test_neighbours_against_scikit_learn(offset, k, monkeypatch):
    monkeypatch.setattr("weft.metrics.manifold.AT_ONCE", 37)  # several parts, the last one short
    x, y = RNG.normal(size=(120, 6)) + offset + 0.5, RNG.normal(size=(150, 6)) + offset
    precision, recall, density, coverage = by_scikit_learn(x, y, k)
    assert metrics.precision_recall_of_samples(x, y, k) == (precision, recall)
    assert metrics.density_coverage(x, y, k) == pytest.approx((density, coverage))
    expected = NearestNeighbors(n_neighbors=k + 1).fit(x).kneighbors(x)[0][:, -1]
    np.testing.assert_allclose(metrics.neighbour_radii(x, k), expected, rtol=1e-6)


def test_coverage_of_real_by_real_is_the_formula_of_its_docstring():
    m, k = 200, 3
    found = [metrics.density_coverage(RNG.normal(size=(m, 2)), RNG.normal(size=(m, 2)), k) for _ in range(60)]
    expected = 1 - math.prod((m - i) / (2 * m - i) for i in range(1, k + 1))
    density, coverage = np.mean(found, 0)
    assert coverage == pytest.approx(expected, abs=0.01)
    assert density == pytest.approx(1, abs=0.02)


def test_one_outlier_raises_recall_but_not_coverage():
    """Why there are two pairs of figures: a single wild sample stretches a ball over half of what is real."""
    real = RNG.normal(size=(200, 2)) * 3
    made = np.concatenate([RNG.normal(size=(199, 2)) * 0.01, [[40.0, 0.0]]])
    assert metrics.precision_recall_of_samples(made[:-1], real, k=3).recall < 0.05
    assert metrics.precision_recall_of_samples(made, real, k=3).recall > 0.4
    assert metrics.density_coverage(made, real, k=3).coverage < 0.1


def test_equal_points_are_zero_apart():
    same = np.repeat([[1e3, 1e3 + 1e-3]], 6, 0)
    assert metrics.neighbour_radii(same, 3).tolist() == [0.0] * 6
    assert metrics.precision_recall_of_samples(same, same, 3) == (1.0, 1.0)


# ---- modes -------------------------------------------------------------------------------------------------


def test_mode_counts_of_the_mixture_itself():
    angles = np.arange(8) * np.pi / 4
    ring = 2 * np.stack([np.cos(angles), np.sin(angles)], 1)
    samples = ring[RNG.integers(0, 8, 20_000)] + 0.02 * RNG.normal(size=(20_000, 2))
    found = metrics.mode_counts(weft.tensor(samples), weft.tensor(ring), 0.02)
    assert found.modes == 8
    assert found.good == pytest.approx(1 - math.exp(-4.5), abs=0.003)  # P(|z| ≤ 3) in two dimensions
    assert found.kl < 1e-3
    one = metrics.mode_counts(np.repeat(ring[:1], 5, 0), ring, 0.02)
    assert one[:2] == (1, 1.0)
    assert one.kl == pytest.approx(math.log(8))
    assert one.counts.tolist() == [5, 0, 0, 0, 0, 0, 0, 0]
    assert metrics.mode_counts(ring * 5, ring, 0.02)[:3] == (0, 0.0, math.inf)


def test_label_counts_of_a_histogram():
    found = metrics.label_counts([0, 0, 2, 7], 4, weights=[0.5, 0.2, 0.2, 0.1])
    assert found[:2] == (2, 0.75)
    assert found.kl == pytest.approx(2 / 3 * math.log(2 / 3 / 0.5) + 1 / 3 * math.log(1 / 3 / 0.2))


# ---- features with a digest --------------------------------------------------------------------------------


def toy(seed=0):
    weft.manual_seed(seed)
    layers = nn.Conv2d(1, 2, 3, stride=2), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(18, 5), nn.Linear(5, 3)
    return nn.Sequential(*layers)


def test_digest_follows_weights_buffers_and_layers_only():
    net, same = toy(), toy()
    extractor = metrics.FeatureExtractor(net, "one", (1, 8, 8))
    first = extractor.digest
    assert first == metrics.FeatureExtractor(same, "another name").digest
    extractor.train()(weft.randn(4, 1, 8, 8))
    assert extractor.digest == first, "training mode would move the statistics of batch normalisation"
    net[1].running_mean += 1e-3
    assert extractor.digest != first
    assert metrics.FeatureExtractor(nn.Sequential(*same[:-2], nn.Tanh(), *same[-2:])).digest != first


def test_calculate_metrics_in_features_of_a_network():
    extractor = metrics.FeatureExtractor(toy(), "toy", (1, 8, 8))
    x, y = weft.rand(40, 1, 8, 8), weft.rand(30, 1, 8, 8)
    options = dict(fid=True, kid=True, prc=True, dnc=True, kid_subsets=4, kid_subset_size=20)
    found = metrics.calculate_metrics(x, [(y[:16], 0), (y[16:], 0)], features=extractor, **options)
    ready = metrics.calculate_metrics(extractor.extract(x), extractor(y).numpy(), **options)
    assert found.figures == pytest.approx(ready.figures, rel=1e-6)
    assert (found.samples, found.dimensions) == ((40, 30), 5)
    assert extractor.digest in str(found)
    assert found.to_dict()["digest"] == extractor.digest
    assert extractor.labels(x).shape == (40,)
    with pytest.raises(OptionError, match="unknown digest"):
        found.better_than(ready, "frechet_distance")
    near = metrics.calculate_metrics(y[:40], y, features=extractor, fid=True)
    far = metrics.calculate_metrics(y[:30] * 4, y, features=extractor, fid=True)
    assert near.better_than(far, "frechet_distance")
    assert not far.better_than(near, "frechet_distance")


def test_figures_that_cannot_be_compared_are_refused():
    x, y = weft.rand(40, 1, 8, 8), weft.rand(40, 1, 8, 8)
    one, other = (metrics.FeatureExtractor(toy(seed), f"toy {seed}") for seed in (0, 1))
    first = metrics.calculate_metrics(x, y, features=one, fid=True)
    second = metrics.calculate_metrics(x, y, features=other, fid=True)
    with pytest.raises(OptionError, match="different features"):
        first.better_than(second, "frechet_distance")
    with pytest.raises(OptionError, match="bias"):
        first.better_than(metrics.calculate_metrics(x[:20], y, features=one, fid=True), "frechet_distance")
    with pytest.raises(OptionError, match="was not calculated"):
        first.better_than(first, "precision")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: metrics.calculate_metrics(np.zeros((3, 2)), np.zeros((3, 2))), OptionError, "at least one of fid"),
        (lambda: metrics.calculate_metrics(np.zeros((3, 1, 8, 8)), np.zeros((3, 2)), fid=True), ShapeError, "images"),
        (lambda: metrics.frechet_distance([[math.nan], [0], [1]], [[0], [1], [2]]), OptionError, "1 of 3 rows"),
        (lambda: metrics.squared_mmd(np.zeros((3, 2)), np.zeros((3, 1))), ShapeError, "differ"),
        (lambda: metrics.squared_mmd(np.zeros((1, 2)), np.zeros((3, 2))), metrics.NoDataError, "2 samples"),
        (lambda: metrics.kernel_distance([[0]], [[0]], subset_size=1), OptionError, "subset_size ≥ 2"),
        (lambda: metrics.density_coverage(np.zeros((3, 2)), np.zeros((3, 2)), 3), metrics.NoDataError, "4 samples"),
        (lambda: metrics.precision_recall_of_samples(np.zeros((3, 2)), np.zeros((3, 2)), 0), OptionError, "k ≥ 1"),
        (lambda: metrics.mode_counts(np.zeros((0, 2)), np.zeros((3, 2)), 1.0), metrics.NoDataError, "got 0 and 3"),
        (lambda: metrics.mode_counts(np.zeros((1, 2)), np.zeros((3, 2)), 0.0), OptionError, "above 0"),
        (lambda: metrics.label_counts([0.5], 3), OptionError, "whole numbers"),
        (lambda: metrics.label_counts([0], 2, weights=[1.0, 1.0]), OptionError, "sum to 1"),
        (lambda: metrics.FeatureExtractor(nn.Linear(2, 2)), OptionError, "Sequential"),
        (lambda: metrics.FeatureExtractor(toy(), "t", (1, 8, 8)).extract(weft.ones(2, 3, 8, 8)), ShapeError, "1, 8, 8"),
        (lambda: metrics.FeatureExtractor(toy()).extract([]), metrics.NoDataError, "no images"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
