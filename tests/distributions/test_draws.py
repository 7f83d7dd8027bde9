"""Draws with fixed seeds: Kolmogorov and Smirnov's test, moments, and gradients of reparameterised draws."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special as sp
import scipy.stats as st

import weft
import weft.distributions as D
from weft.ops.math.implicit_gamma import log_gamma_slope, log_standard_gamma, standard_gamma

from .cases import CASES, array
from .cases import of_weft as t
from .test_against_scipy import CONTINUOUS, DISCRETE


@pytest.mark.parametrize("name", CONTINUOUS)
def test_kolmogorov_smirnov(name):
    ours, theirs = CONTINUOUS[name]
    weft.manual_seed(11)
    assert st.kstest(array(ours.sample((4000,))), theirs.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", DISCRETE)
def test_chi_squared(name):
    ours, theirs, values = DISCRETE[name]
    weft.manual_seed(12)
    drawn = array(ours.sample((4000,)))
    counts = np.array([(drawn == k).sum() for k in values])
    expected = 4000 * theirs.pmf(np.array(list(values)))
    assert (((counts - expected) ** 2 / np.maximum(expected, 1)).sum()) < st.chi2(len(counts)).ppf(0.999)


NO_MEAN = {"Cauchy", "HalfCauchy", "FisherSnedecor", "Pareto", "StudentT", "InverseGamma", "Categorical", "VonMises"}


@pytest.mark.parametrize("name", [n for n in CASES if n.split()[0] not in NO_MEAN])
def test_sample_moments(name):
    ours = CASES[name][0](D, t)
    try:
        mean, variance = array(ours.mean), array(ours.variance)
    except NotImplementedError:
        assert name.split()[0] in {
            "LKJCholesky",
            "LogisticNormal",
            "RelaxedBernoulli",
            "RelaxedOneHotCategorical",
            "TransformedDistribution",
        }
        return
    weft.manual_seed(13)
    drawn = array(ours.sample((5000,)))
    np.testing.assert_array_less(np.abs(drawn.mean(0) - mean), 4.5 * np.sqrt(variance / 5000) + 1e-12)
    spread = ((drawn - mean) ** 2).std(0) / np.sqrt(5000)
    np.testing.assert_array_less(np.abs(((drawn - mean) ** 2).mean(0) - variance), 5 * spread + 1e-12)


def test_von_mises_draws():
    weft.manual_seed(14)
    for concentration in (1e-3, 0.5, 8.0, 400.0):
        drawn = array(D.VonMises(t(1.0), t(concentration)).sample((3000,)))
        assert st.kstest(drawn - 1, lambda x, k=concentration: _folded(x, k)).pvalue > 1e-3


def _folded(x, concentration):
    """The distribution function of an angle in [−π − 1, π − 1), cut where the draws are cut."""
    return st.vonmises(concentration).cdf(x) - st.vonmises(concentration).cdf(-np.pi - 1)


def test_lkj_marginals():
    """Each correlation of an LKJ(η) matrix in D dimensions is 2 Beta(β, β) − 1 with β = η + D/2 − 1."""
    weft.manual_seed(15)
    factor = D.LKJCholesky(4, t(1.5)).sample((4000,))
    matrix = array(factor @ factor.mT)
    np.testing.assert_allclose(np.diagonal(matrix, axis1=1, axis2=2), 1, atol=1e-12)
    for i, j in [(1, 0), (2, 0), (3, 1), (3, 2)]:
        assert st.kstest((matrix[:, i, j] + 1) / 2, st.beta(2.5, 2.5).cdf).pvalue > 1e-3


def test_discretized_logistic_draws():
    ours = D.DiscretizedLogistic(t(0.8), t(0.2), levels=8)
    weft.manual_seed(16)
    drawn, grid = array(ours.sample((5000,))), array(ours.enumerate_support())
    counts = np.array([np.isclose(drawn, value).sum() for value in grid])
    expected = 5000 * np.exp(array(ours.log_prob(t(grid))))
    assert counts.sum() == 5000
    assert ((counts - expected) ** 2 / np.maximum(expected, 1)).sum() < st.chi2(8).ppf(0.999)


# -------------------------------------------------------------------- implicit reparameterisation


def quantile_slope(alpha, u):
    """d log quantile / dα by fourth-order differences of SciPy's inverse incomplete gamma functions."""

    def log_quantile(a):
        return np.log(np.where(u < 0.5, sp.gammaincinv(a, u), sp.gammainccinv(a, 1 - u)))

    h = 1e-4 * alpha
    near, far = (
        log_quantile(alpha + h) - log_quantile(alpha - h),
        log_quantile(alpha + 2 * h) - log_quantile(alpha - 2 * h),
    )
    return (8 * near - far) / (12 * h)


def test_gamma_slope_against_differences_of_the_quantile():
    rng = np.random.default_rng(0)
    alpha = np.exp(rng.uniform(np.log(1e-2), np.log(1e3), 20000))
    u = np.concatenate([rng.uniform(0, 1, 18000), 10 ** rng.uniform(-6, 0, 1000), 1 - 10 ** rng.uniform(-6, 0, 1000)])
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = quantile_slope(alpha, u)
        log_z = np.log(np.where(u < 0.5, sp.gammaincinv(alpha, u), sp.gammainccinv(alpha, 1 - u)))
    usable = np.isfinite(expected) & (log_z > -600)  # below, the quantile itself underflows
    assert usable.mean() > 0.98
    error = np.abs(log_gamma_slope(alpha[usable], log_z[usable]) / expected[usable] - 1)
    assert error.max() < 1e-8


def test_gamma_slope_at_known_points():
    """α → 0: log z = (log u + log Γ(α + 1))/α; α large: z ≈ α + √α n, so dz/dα → 1 + n/(2√α)."""
    alpha, u = 1e-3, 0.3
    log_z = (np.log(u) + sp.gammaln(alpha + 1)) / alpha  # about 10⁻⁵²³
    assert log_gamma_slope(alpha, log_z) == pytest.approx((sp.psi(alpha + 1) - log_z) / alpha, rel=1e-12)
    alpha, n = 1e8, 1.3
    z = alpha + np.sqrt(alpha) * n
    assert z * log_gamma_slope(alpha, np.log(z)) == pytest.approx(1 + n / (2 * np.sqrt(alpha)), rel=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_standard_gamma_draws(dtype):
    weft.manual_seed(17)
    for alpha in (0.02, 0.5, 1.0, 3.7, 200.0):
        concentration = weft.full((3000,), alpha, dtype=getattr(weft, dtype))
        assert st.kstest(array(log_standard_gamma(concentration)), st.loggamma(alpha).cdf).pvalue > 1e-3
        assert standard_gamma(concentration).dtype is concentration.dtype
        assert (standard_gamma(concentration) > 0).all()


def pathwise(build, *parameters, function=None, draws=60000):
    """Mean and standard error of the gradient of E f(x) for each parameter, by reparameterised draws."""
    leaves = [t(np.full(draws, p)).requires_grad_() for p in parameters]
    weft.manual_seed(18)
    x = build(*leaves).rsample()
    grads = weft.autograd.grad(function(x).sum(), leaves)
    return [(array(g).mean(), array(g).std() / np.sqrt(draws)) for g in grads]


# name: (build, parameters, f, exact gradients of E f)
PATHWISE = {
    "Gamma mean": (D.Gamma, (1.7, 0.8), lambda x: x, (1 / 0.8, -1.7 / 0.64)),
    "Gamma log": (D.Gamma, (0.3, 0.8), lambda x: x.log(), (sp.polygamma(1, 0.3), -1 / 0.8)),
    "Gamma square": (D.Gamma, (2.5, 2.0), lambda x: x * x, ((2 * 2.5 + 1) / 4, -2 * 2.5 * 3.5 / 8)),
    "Chi2": (D.Chi2, (3.0,), lambda x: x * x, (2 * 3.0 + 2,)),
    "Beta mean": (D.Beta, (1.7, 0.8), lambda x: x, (0.8 / 6.25, -1.7 / 6.25)),
    "Beta log": (
        D.Beta,
        (0.4, 0.9),
        lambda x: x.log(),
        (sp.polygamma(1, 0.4) - sp.polygamma(1, 1.3), -sp.polygamma(1, 1.3)),
    ),
    "InverseGamma": (D.InverseGamma, (4.0, 2.0), lambda x: x.log(), (-sp.polygamma(1, 4.0), 0.5)),
    "StudentT": (
        lambda df, scale: D.StudentT(df, 0.0, scale),
        (9.0, 2.0),
        lambda x: x * x,
        (4 * (1 / 7 - 9 / 49), 4 * 9 / 7),
    ),
    "FisherSnedecor": (
        D.FisherSnedecor,
        (4.0, 9.0),
        lambda x: x.log(),
        (sp.polygamma(1, 2.0) / 2 - 1 / 4, -sp.polygamma(1, 4.5) / 2 + 1 / 9),
    ),
    "Normal": (D.Normal, (0.7, 1.5), lambda x: x * x, (1.4, 3.0)),
    "LogNormal": (D.LogNormal, (0.2, 0.5), lambda x: x, (np.exp(0.325), 0.5 * np.exp(0.325))),
    "Laplace": (D.Laplace, (0.7, 1.5), lambda x: x * x, (1.4, 6.0)),
    "Exponential": (D.Exponential, (1.5,), lambda x: x, (-1 / 2.25,)),
    "Gumbel": (D.Gumbel, (0.7, 1.5), lambda x: x, (1.0, np.euler_gamma)),
    "Logistic": (D.Logistic, (0.7, 1.5), lambda x: x * x, (1.4, 2 * 1.5 * np.pi**2 / 3)),
    "Uniform": (D.Uniform, (0.7, 1.5), lambda x: x * x, ((2 * 0.7 + 1.5) / 3, (0.7 + 3.0) / 3)),
    "Weibull": (D.Weibull, (2.0, 1.5), lambda x: x.log(), (0.5, np.euler_gamma / 2.25)),
    "Pareto": (D.Pareto, (2.0, 1.5), lambda x: x.log(), (0.5, -1 / 2.25)),
    "Kumaraswamy": (D.Kumaraswamy, (2.0, 1.0), lambda x: x.log(), (0.25, (sp.polygamma(1, 2.0)) / -2)),
    "GeneralizedPareto": (lambda s, c: D.GeneralizedPareto(0.0, s, c), (2.0, 0.2), lambda x: x, (1.25, 2 / 0.64)),
}


@pytest.mark.parametrize("name", PATHWISE)
def test_gradients_of_draws(name):
    build, parameters, function, expected = PATHWISE[name]
    for (mean, error), exact in zip(pathwise(build, *parameters, function=function), expected, strict=True):
        assert abs(mean - exact) < 4.5 * error + 1e-9
        assert error < 0.1 * max(1, abs(exact))


def test_gamma_draw_moves_along_its_quantile():
    """One draw's gradient is dz/dα = −(∂F/∂α)/f, not only right in the mean."""
    alpha = t([0.05, 0.7, 5.0, 80.0, 700.0]).requires_grad_()
    weft.manual_seed(19)
    z = D.Gamma(alpha, t(1.0)).rsample()
    (slope,) = weft.autograd.grad(z.sum(), alpha)
    u = sp.gammainc(array(alpha), array(z))
    np.testing.assert_allclose(array(slope), array(z) * quantile_slope(array(alpha), u), rtol=1e-6)


def test_dirichlet_draws_and_gradients():
    weft.manual_seed(20)
    alpha = t([[0.01, 0.02, 0.005], [0.5, 2.0, 3.0]]).expand(40000, 2, 3).clone().requires_grad_()
    x = D.Dirichlet(alpha).rsample()
    np.testing.assert_allclose(array(x.sum(-1)), 1.0)
    total = alpha.detach().sum(-1, True)
    mean = alpha.detach() / total
    np.testing.assert_allclose(array(x.mean(0)), array(mean[0]), atol=0.01)
    (slope,) = weft.autograd.grad(x[..., 0].sum(), alpha)
    expected = (weft.eye(3, dtype=weft.float64)[0] - mean[0, :, :1]) / total[0]
    found, error = array(slope).mean(0), array(slope).std(0) / 200
    np.testing.assert_array_less(np.abs(found - array(expected)), 4.5 * error + 1e-9)


def test_multivariate_draws_carry_gradients():
    """∇ E[xᵀx] = 2μ for the mean and 2L for the Cholesky factor (lower part), 2W and 1 for low rank."""
    weft.manual_seed(21)
    mean, factor = t([0.5, -1.0]).requires_grad_(), t([[1.0, 0.0], [0.7, 0.5]]).requires_grad_()
    x = D.MultivariateNormal(mean, scale_tril=factor).rsample((60000,))
    by_mean, by_factor = weft.autograd.grad(x.square().sum(-1).mean(), [mean, factor])
    np.testing.assert_allclose(array(by_mean), [1.0, -2.0], atol=0.05)
    np.testing.assert_allclose(np.tril(array(by_factor)), 2 * array(factor), atol=0.05)
    low, diagonal = t([[1.0], [0.7]]).requires_grad_(), t([0.5, 0.9]).requires_grad_()
    x = D.LowRankMultivariateNormal(mean.detach(), low, diagonal).rsample((60000,))
    by_low, by_diagonal = weft.autograd.grad(x.square().sum(-1).mean(), [low, diagonal])
    np.testing.assert_allclose(array(by_low), 2 * array(low), atol=0.06)
    np.testing.assert_allclose(array(by_diagonal), 1.0, atol=0.06)


def test_wishart_draws_carry_gradients():
    """E tr X = ν tr V, so the gradient in ν is tr V."""
    weft.manual_seed(22)
    df = t(np.full(20000, 4.5)).requires_grad_()
    x = D.Wishart(df, t([[2.0, 0.3], [0.3, 1.0]])).rsample()
    (slope,) = weft.autograd.grad(x.diagonal(dim1=-2, dim2=-1).sum(), df)
    assert array(slope).mean() == pytest.approx(3.0, abs=4.5 * array(slope).std() / np.sqrt(20000))


def test_straight_through_and_relaxed_draws():
    logits = t([0.2, -1.0, 0.6]).requires_grad_()
    weft.manual_seed(23)
    drawn = D.OneHotCategoricalStraightThrough(logits=logits).rsample((5,))
    assert ((drawn.detach() - drawn.detach().round()).abs() < 1e-12).all()
    weights = t([1.0, 2.0, 3.0])
    (slope,) = weft.autograd.grad((drawn * weights).sum(), logits)
    probs = np.exp(array(logits)) / np.exp(array(logits)).sum()
    np.testing.assert_allclose(array(slope), 5 * probs * (array(weights) - (probs * array(weights)).sum()), rtol=1e-9)
    cold = D.RelaxedOneHotCategorical(t(0.01), logits=logits).rsample((4000,))
    np.testing.assert_allclose(array((cold > 0.5).double().mean(0)), probs, atol=0.03)
    cold = D.RelaxedBernoulli(t(0.01), probs=t(0.3)).rsample((4000,))
    assert abs((cold > 0.5).double().mean().item() - 0.3) < 0.03
    assert D.RelaxedBernoulli(t(0.5), logits=logits).rsample().requires_grad
