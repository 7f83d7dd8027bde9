"""Densities, distribution functions, quantiles, entropies and moments against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.stats as st

import weft
import weft.distributions as D

from .cases import array
from .cases import of_weft as t

CONTINUOUS = {
    "Beta": (D.Beta(t(0.7), t(2.5)), st.beta(0.7, 2.5)),
    "Cauchy": (D.Cauchy(t(1.0), t(2.0)), st.cauchy(1, 2)),
    "Chi2": (D.Chi2(t(3.5)), st.chi2(3.5)),
    "Exponential": (D.Exponential(t(2.5)), st.expon(scale=0.4)),
    "FisherSnedecor": (D.FisherSnedecor(t(3.0), t(7.5)), st.f(3, 7.5)),
    "Gamma": (D.Gamma(t(0.8), t(2.5)), st.gamma(0.8, scale=0.4)),
    "GeneralizedPareto": (D.GeneralizedPareto(t(1.0), t(2.0), t(0.2)), st.genpareto(0.2, 1, 2)),
    "GeneralizedPareto bounded": (D.GeneralizedPareto(t(1.0), t(2.0), t(-0.4)), st.genpareto(-0.4, 1, 2)),
    "GeneralizedPareto exponential": (D.GeneralizedPareto(t(1.0), t(2.0), t(0.0)), st.genpareto(0, 1, 2)),
    "Gumbel": (D.Gumbel(t(1.0), t(2.0)), st.gumbel_r(1, 2)),
    "HalfCauchy": (D.HalfCauchy(t(2.0)), st.halfcauchy(scale=2)),
    "HalfNormal": (D.HalfNormal(t(2.0)), st.halfnorm(scale=2)),
    "InverseGamma": (D.InverseGamma(t(3.0), t(2.0)), st.invgamma(3, scale=2)),
    "Laplace": (D.Laplace(t(1.0), t(2.0)), st.laplace(1, 2)),
    "LogNormal": (D.LogNormal(t(0.3), t(0.5)), st.lognorm(0.5, scale=np.exp(0.3))),
    "Logistic": (D.Logistic(t(0.3), t(0.5)), st.logistic(0.3, 0.5)),
    "Normal": (D.Normal(t(1.0), t(2.0)), st.norm(1, 2)),
    "Pareto": (D.Pareto(t(0.5), t(3.0)), st.pareto(3, scale=0.5)),
    "StudentT": (D.StudentT(t(3.5), t(1.0), t(2.0)), st.t(3.5, 1, 2)),
    "Uniform": (D.Uniform(t(1.0), t(3.0)), st.uniform(1, 2)),
    "Weibull": (D.Weibull(t(2.0), t(1.5)), st.weibull_min(1.5, scale=2)),
}
DISCRETE = {
    "Bernoulli": (D.Bernoulli(t(0.3)), st.bernoulli(0.3), range(2)),
    "Binomial": (D.Binomial(7, t(0.3)), st.binom(7, 0.3), range(8)),
    "Categorical": (D.Categorical(t([0.2, 0.3, 0.5])), st.rv_discrete(values=([0, 1, 2], [0.2, 0.3, 0.5])), range(3)),
    "Geometric": (D.Geometric(t(0.3)), st.geom(0.3, loc=-1), range(9)),
    "NegativeBinomial": (D.NegativeBinomial(t(2.5), t(0.3)), st.nbinom(2.5, 0.7), range(9)),
    "Poisson": (D.Poisson(t(3.5)), st.poisson(3.5), range(12)),
}
PROBABILITIES = np.array([1e-6, 0.02, 0.3, 0.49, 0.5, 0.51, 0.8, 0.999])


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name):
    ours, theirs = CONTINUOUS[name]
    x = theirs.ppf(PROBABILITIES)
    np.testing.assert_allclose(array(ours.log_prob(t(x))), theirs.logpdf(x), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(array(ours.cdf(t(x))), PROBABILITIES, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(array(ours.icdf(t(PROBABILITIES))), x, rtol=1e-6, atol=1e-9)
    if name not in ("FisherSnedecor",):  # PyTorch has no entropy of it
        np.testing.assert_allclose(ours.entropy().item(), theirs.entropy(), rtol=1e-6)
    if "Cauchy" not in name:
        np.testing.assert_allclose([ours.mean.item(), ours.variance.item()], theirs.stats("mv"), rtol=1e-7)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_density_is_the_slope_of_the_distribution_function(name):
    ours, theirs = CONTINUOUS[name]
    x = t(theirs.ppf([0.1, 0.45, 0.9])).requires_grad_()
    (slope,) = weft.autograd.grad(ours.cdf(x).sum(), x)
    np.testing.assert_allclose(array(slope), theirs.pdf(array(x)), rtol=1e-7)
    u = t([0.1, 0.45, 0.9]).requires_grad_()
    (slope,) = weft.autograd.grad(ours.icdf(u).sum(), u)
    np.testing.assert_allclose(array(slope), 1 / theirs.pdf(array(x)), rtol=1e-6)


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name):
    ours, theirs, values = DISCRETE[name]
    k = np.array(list(values), float)
    np.testing.assert_allclose(array(ours.log_prob(t(k))), np.log(theirs.pmf(k)), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(array(ours.cdf(t(k))), theirs.cdf(k), rtol=1e-9)
    if name != "Categorical":
        np.testing.assert_allclose([ours.mean.item(), ours.variance.item()], theirs.stats("mv"), rtol=1e-9)
    if name not in ("NegativeBinomial", "Poisson"):
        np.testing.assert_allclose(ours.entropy().item(), theirs.entropy(), rtol=1e-7)


def test_vectors_and_matrices():
    covariance = np.array([[2.0, 0.3], [0.3, 1.0]])
    x = np.array([0.2, 0.8])
    pairs = [
        (D.MultivariateNormal(t([0.5, 1.0]), t(covariance)), st.multivariate_normal([0.5, 1.0], covariance), x),
        (D.Dirichlet(t([0.5, 2.0])), st.dirichlet([0.5, 2.0]), x),
        (D.Wishart(t(4.5), t(covariance)), st.wishart(4.5, covariance), covariance),
    ]
    for ours, theirs, value in pairs:
        np.testing.assert_allclose(ours.log_prob(t(value)).item(), theirs.logpdf(value), rtol=1e-9)
        np.testing.assert_allclose(ours.entropy().item(), theirs.entropy(), rtol=1e-9)
    ours, theirs = D.Multinomial(5, t([0.2, 0.3, 0.5])), st.multinomial(5, [0.2, 0.3, 0.5])
    np.testing.assert_allclose(ours.log_prob(t([1.0, 1, 3])).item(), theirs.logpmf([1, 1, 3]), rtol=1e-9)
    np.testing.assert_allclose(ours.entropy().item(), theirs.entropy(), rtol=1e-9)
    ours = D.VonMises(t(1.0), t([0.3, 3.0, 40.0]))
    np.testing.assert_allclose(array(ours.log_prob(t(0.5))), st.vonmises([0.3, 3, 40], 1).logpdf(0.5), rtol=1e-9)


@pytest.mark.parametrize("theta", [-30.0, -0.6, -0.4, -1e-3, 0.0, 1e-5, 0.02, 0.5, 3.0, 60.0])
def test_continuous_bernoulli_by_quadrature(theta):
    """Moments, entropy, distribution function and quantile from the density e^(θx) θ/(e^θ − 1) itself."""
    ours = D.ContinuousBernoulli(logits=t(theta))

    def expect(f):
        scale = max(theta, 0.0)
        total = scipy.integrate.quad(lambda x: np.exp(theta * x - scale), 0, 1, epsabs=0)[0]
        found = scipy.integrate.quad(lambda x: f(x) * np.exp(theta * x - scale), 0, 1, epsabs=0)[0]
        return found / total, np.log(total) + scale

    mean, log_total = expect(lambda x: x)
    np.testing.assert_allclose(ours.mean.item(), mean, rtol=1e-9)
    np.testing.assert_allclose(ours.variance.item(), expect(lambda x: (x - mean) ** 2)[0], rtol=1e-7)
    np.testing.assert_allclose(ours.log_prob(t(0.3)).item(), theta * 0.3 - log_total, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.entropy().item(), log_total - theta * mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ours.cdf(t(0.3)).item(), expect(lambda x: x < 0.3)[0], rtol=1e-4)
    np.testing.assert_allclose(ours.icdf(ours.cdf(t(0.3))).item(), 0.3, rtol=1e-6)


def test_kumaraswamy_mode_is_where_the_density_peaks():
    ours = D.Kumaraswamy(t([1.5, 2.0, 4.0]), t([2.5, 3.0, 1.5]))
    grid = weft.linspace(0.001, 0.999, 20001, dtype=weft.float64).unsqueeze(-1)
    peak = grid[ours.log_prob(grid).argmax(0)].squeeze(-1)
    np.testing.assert_allclose(array(ours.mode), array(peak), atol=1e-4)


def test_discretized_logistic():
    """Probabilities are differences of SciPy's logistic distribution function, sum to 1, and never underflow."""
    ours = D.DiscretizedLogistic(t([-0.3, 0.9]), t([0.2, 0.01]), levels=16)
    grid, half = np.linspace(-1, 1, 16), 1 / 15
    for column, (loc, scale) in enumerate([(-0.3, 0.2), (0.9, 0.01)]):
        upper = np.where(np.arange(16) == 15, 1.0, st.logistic(loc, scale).cdf(grid + half))
        lower = np.where(np.arange(16) == 0, 0.0, st.logistic(loc, scale).cdf(grid - half))
        found = array(ours.log_prob(ours.enumerate_support()))[:, column]
        np.testing.assert_allclose(np.exp(found), upper - lower, atol=1e-14)
        np.testing.assert_allclose(array(ours.cdf(t(grid)[:, None]))[:, column], upper, atol=1e-14)
        np.testing.assert_allclose(ours.mean[column].item(), ((upper - lower) * grid).sum(), rtol=1e-9)
        assert ours.mode[column].item() == pytest.approx(grid[np.argmax(upper - lower)])
    far = D.DiscretizedLogistic(t(0.9), t(0.001)).log_prob(t(-0.5))
    assert far.item() == pytest.approx(-1400 + 2 / 255 / 2 / 0.001 + np.log1p(-np.exp(-2 / 255 / 0.001)), rel=1e-6)


def test_logistic_mixtures():
    logits, loc, scale = t([[0.1, 1.0]]), t([[-0.5, 0.4]]), t([[0.1, 0.3]])
    weights = np.exp([0.1, 1.0]) / np.exp([0.1, 1.0]).sum()
    expected = weights[0] * st.logistic(-0.5, 0.1).pdf(0.2) + weights[1] * st.logistic(0.4, 0.3).pdf(0.2)
    np.testing.assert_allclose(D.LogisticMixture(logits, loc, scale).log_prob(t([0.2])).item(), np.log(expected))
    mixture = D.DiscretizedLogisticMixture(logits, loc, scale, low=0.0, high=255.0)
    total = mixture.log_prob(weft.arange(256, dtype=weft.float64).unsqueeze(-1)).logsumexp(0)
    np.testing.assert_allclose(array(total), 0.0, atol=1e-12)
