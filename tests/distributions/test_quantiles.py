"""Quantiles of discrete distributions, of mixtures and of angles, against SciPy and their definition."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats as stats

import weft
from weft import distributions as D

from .cases import of_weft as t

P = np.concatenate([[1e-12, 1e-4], np.linspace(0.01, 0.99, 25), [1 - 1e-4, 1 - 1e-9]])

DISCRETE = {
    "Bernoulli": (D.Bernoulli(t(0.3)), stats.bernoulli(0.3)),
    "Binomial": (D.Binomial(40, t(0.35)), stats.binom(40, 0.35)),
    "Binomial many": (D.Binomial(100_000, t(0.01)), stats.binom(100_000, 0.01)),
    "Categorical": (D.Categorical(t([0.2, 0.0, 0.5, 0.3])), stats.rv_discrete(values=(range(4), [0.2, 0, 0.5, 0.3]))),
    "Geometric": (D.Geometric(t(0.1)), stats.geom(0.1, loc=-1)),
    "Geometric rare": (D.Geometric(t(1e-7)), stats.geom(1e-7, loc=-1)),
    "NegativeBinomial": (D.NegativeBinomial(t(3.5), t(0.6)), stats.nbinom(3.5, 0.4)),
    "Poisson": (D.Poisson(t(3.7)), stats.poisson(3.7)),
    "Poisson large": (D.Poisson(t(1e6)), stats.poisson(1e6)),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_quantiles_are_scipys(name):
    ours, theirs = DISCRETE[name]
    found = ours.icdf(t(P))
    assert found.dtype is (weft.int64 if name == "Categorical" else weft.float64)
    np.testing.assert_array_equal(found.numpy(), theirs.ppf(P))


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
@pytest.mark.parametrize(
    "make",
    [
        lambda x: D.Bernoulli(x([0.3, 1.0, 0.0])),
        lambda x: D.Binomial(12, x([0.3, 0.01, 0.9])),
        lambda x: D.Categorical(x([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]])),
        lambda x: D.Geometric(x([0.3, 0.01, 1.0])),
        lambda x: D.NegativeBinomial(x([2.0, 0.5, 20.0]), x([0.3, 0.9, 0.5])),
        lambda x: D.Poisson(x([0.0, 2.5, 300.0])),
        lambda x: D.DiscretizedLogistic(x([0.0, 0.9, -2.0]), x([0.3, 0.01, 1.0]), levels=9),
    ],
)
def test_the_least_value_that_is_probable_enough(make, dtype):
    """F(x) ≥ p, and F is below p one step earlier; the quantile of F(k) is k itself, in every precision."""
    ours = make(lambda data: weft.tensor(data, dtype=dtype))
    first, step = ours._lattice
    p = weft.tensor(P[:-1], dtype=dtype).reshape(-1, *(1,) * len(ours.batch_shape))
    x = ours.icdf(p)
    assert bool((ours._cumulative(x) >= p).all())
    previous = ours._cumulative((x - step).clamp(min=first))
    assert bool(((previous < p) | (x <= first)).all())
    again = ours.icdf(ours._cumulative(x).clamp(max=1))
    assert bool(((again == x) | (ours._cumulative(x) == 1)).all())


def test_ends_and_what_is_no_probability():
    ends, bad = t([0.0, 1.0]), t([math.nan, -0.1, 1.1])
    for ours, wanted in (
        (D.Poisson(t(2.0)), [0.0, math.inf]),
        (D.Poisson(t(0.0)), [0.0, 0.0]),
        (D.Geometric(t(0.5)), [0.0, math.inf]),
        (D.Geometric(t(1.0)), [0.0, 0.0]),
        (D.NegativeBinomial(t(2.0), t(0.5)), [0.0, math.inf]),
        (D.Binomial(7, t(0.4)), [0.0, 7.0]),
        (D.Binomial(7, t(0.0)), [0.0, 0.0]),
        (D.Bernoulli(t(0.4)), [0.0, 1.0]),
        (D.VonMises(t(0.5), t(2.0)), [0.5 - math.pi, 0.5 + math.pi]),
    ):
        assert ours.icdf(ends).tolist() == wanted, ours
        assert bool(ours.icdf(bad).isnan().all()), ours
    assert D.Categorical(t([0.25, 0.75, 0.0])).icdf(ends).tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        D.Categorical(t([0.25, 0.75])).icdf(t([0.5, 1.5]))


def test_shapes_broadcast():
    assert D.Poisson(t([1.0, 2.0])).icdf(t([[0.1], [0.5], [0.9]])).shape == (3, 2)
    assert D.Categorical(weft.ones(5, 3)).icdf(weft.rand(2, 5)).shape == (2, 5)
    assert D.Binomial(3, t(0.5)).icdf(weft.zeros(0, dtype=weft.float64)).shape == (0,)
    assert D.Poisson(t([1.0, 2.0])).icdf(t(0.5)).tolist() == [1.0, 2.0]


# ------------------------------------------------------------------------------------------------ mixtures


def mixture(components, weights=(0.2, 0.5, 0.3)):
    return D.MixtureSameFamily(D.Categorical(t(list(weights))), components)


@pytest.mark.parametrize(
    ("components", "laws"),
    [
        (D.Normal(t([-3.0, 0.0, 8.0]), t([1.0, 0.1, 4.0])), [stats.norm(-3), stats.norm(0, 0.1), stats.norm(8, 4)]),
        (D.Cauchy(t([0.0, 5.0, 5.0]), t([1.0, 2.0, 0.1])), [stats.cauchy(), stats.cauchy(5, 2), stats.cauchy(5, 0.1)]),
        (D.Exponential(t([0.1, 1.0, 20.0])), [stats.expon(scale=10), stats.expon(), stats.expon(scale=0.05)]),
    ],
)
def test_quantiles_of_mixtures_solve_their_equation(components, laws):
    weights = (0.2, 0.5, 0.3)
    found = mixture(components).icdf(t(P[1:-1])).numpy()
    for p, x in zip(P[1:-1], found, strict=True):
        behind = lambda x, p=p: sum(w * law.cdf(x) for w, law in zip(weights, laws, strict=True)) - p
        ends = [law.ppf(p) for law in laws]
        assert x == pytest.approx(scipy.optimize.brentq(behind, min(ends), max(ends), xtol=1e-15, rtol=1e-14), rel=1e-9)


def test_quantiles_of_mixtures_have_the_gradients_of_differences():
    def quantile(p, loc, scale, logits):
        return D.MixtureSameFamily(D.Categorical(logits=logits), D.Normal(loc, scale)).icdf(p)

    inputs = [t([0.1, 0.5, 0.93]), t([-1.0, 0.5, 3.0]), t([0.7, 1.0, 0.4]), t([0.3, 0.0, -0.5])]
    assert weft.autograd.gradcheck(quantile, [x.requires_grad_() for x in inputs])


def test_quantiles_of_discrete_mixtures():
    ours = mixture(D.Poisson(t([1.0, 4.0, 30.0])))
    counts = np.arange(200)
    cumulative = sum(w * stats.poisson(r).cdf(counts) for w, r in zip((0.2, 0.5, 0.3), (1, 4, 30), strict=True))
    np.testing.assert_array_equal(ours.icdf(t(P)).numpy(), [np.argmax(cumulative >= p) for p in P])
    assert ours.icdf(t(1.0)).item() == math.inf
    bits = mixture(D.Binomial(t([2.0, 5.0, 9.0]), t([0.5, 0.5, 0.5])))
    assert bits.icdf(t([0.0, 1.0])).tolist() == [0.0, 9.0]
    pixels = D.DiscretizedLogisticMixture(t([0.0, 1.0]), t([-0.5, 0.5]), t([0.1, 0.05]), levels=11)
    x = pixels.icdf(t(P))
    assert bool((pixels.cdf(x) >= t(P)).all()) and bool((pixels.cdf((x - 0.2).clamp(min=-1)) < t(P))[x > -1].all())


def test_ends_of_mixtures():
    assert mixture(D.Normal(t([0.0, 1.0, 2.0]), t(1.0))).icdf(t([0.0, 1.0])).tolist() == [-math.inf, math.inf]
    assert mixture(D.Uniform(t([0.0, 1.0, 5.0]), t([1.0, 2.0, 6.0]))).icdf(t([0.0, 1.0])).tolist() == [0.0, 6.0]
    unused = mixture(D.Uniform(t([0.0, 1.0, 5.0]), t([1.0, 2.0, 6.0])), (0.5, 0.5, 0.0))
    assert unused.icdf(t([0.0, 1.0])).tolist() == [0.0, 2.0]
    assert bool(unused.icdf(t([math.nan, 2.0])).isnan().all())
    several = D.MixtureSameFamily(D.Categorical(weft.ones(2)), D.MultivariateNormal(weft.zeros(2, 3), weft.eye(3)))
    with pytest.raises(NotImplementedError, match="quantiles"):
        several.icdf(weft.tensor(0.5))


# ------------------------------------------------------------------------------------------------- angles


@pytest.mark.parametrize("kappa", [1e-3, 0.5, 3.0, 20.0, 49.0])
def test_von_mises_is_scipys(kappa):
    ours, theirs = D.VonMises(t(0.4), t(kappa)), stats.vonmises(kappa, loc=0.4)
    x = np.linspace(0.4 - math.pi, 0.4 + math.pi, 41)
    np.testing.assert_allclose(ours.cdf(t(x)).numpy(), theirs.cdf(x), atol=2e-13)
    inner = P[1:-1]  # farther out SciPy's sums cancel
    np.testing.assert_allclose(ours.icdf(t(inner)).numpy(), theirs.ppf(inner), atol=1e-8)


def test_von_mises_of_a_sharp_peak_is_integrated_well():
    """SciPy takes a normal approximation from κ = 50 on; the integral itself is the truth."""
    for kappa in (60.0, 1e6):
        ours, width = D.VonMises(t(0.0), t(kappa)), 1 / math.sqrt(kappa)
        for x in (-7.5 * width, 1.5 * width):
            density = lambda u, k=kappa: math.exp(-2 * k * math.sin(u / 2) ** 2)
            whole = scipy.integrate.quad(density, -12 * width, 12 * width, epsabs=0, epsrel=1e-13, limit=200)[0]
            part = scipy.integrate.quad(density, -12 * width, x, epsabs=0, epsrel=1e-13, limit=200)[0]
            assert float(ours.cdf(t(x))) == pytest.approx(part / whole, rel=1e-11)
            assert float(ours.icdf(t(part / whole))) == pytest.approx(x, rel=1e-9)


def test_von_mises_gradients():
    f = lambda p, loc, kappa: D.VonMises(loc, kappa).icdf(p)
    assert weft.autograd.gradcheck(f, [x.requires_grad_() for x in (t(0.2), t(1.0), t(2.0))])


def test_relaxed_coins():
    ours = D.RelaxedBernoulli(t(0.7), t([0.2, 0.9]))
    p = t(P[:, None])
    np.testing.assert_allclose(ours.cdf(ours.icdf(p)).numpy(), np.broadcast_to(P[:, None], (len(P), 2)), rtol=1e-8)
    draws = D.RelaxedBernoulli(t(0.7), t(0.2)).sample((20_000,))
    assert stats.kstest(D.RelaxedBernoulli(t(0.7), t(0.2)).cdf(draws).numpy(), "uniform").pvalue > 1e-3


def test_every_distribution_of_numbers_has_quantiles():
    """What has a distribution function has its inverse; only distributions of vectors and matrices have neither."""
    classes = [c for c in vars(D).values() if inspect.isclass(c) and issubclass(c, D.Distribution)]
    without = {c.__name__ for c in classes if c.icdf is D.Distribution.icdf}
    assert {c.__name__ for c in classes if c.cdf is D.Distribution.cdf} == without
    assert without == {
        *("Distribution", "ExponentialFamily", "Dirichlet", "Independent", "LKJCholesky", "LowRankMultivariateNormal"),
        *("Multinomial", "MultivariateNormal", "OneHotCategorical", "OneHotCategoricalStraightThrough", "Wishart"),
    }
