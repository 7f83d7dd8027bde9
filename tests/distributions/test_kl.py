"""Every entry of the table of divergences: against PyTorch, and against a Monte-Carlo estimate."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch.distributions as TD

import weft
import weft.distributions as WD
from weft.distributions.kl.registry import KL_TABLE

from .cases import BATCH_OF_MATRICES, PAIR, array, of_torch, of_weft

# name of the class: two members of the family
FAMILIES = {
    "Bernoulli": (lambda D, t: D.Bernoulli(t([0.1, 0.6])), lambda D, t: D.Bernoulli(t([0.3, 0.7]))),
    "Beta": (lambda D, t: D.Beta(t([0.7, 2.0]), t([1.5, 3.0])), lambda D, t: D.Beta(t([1.7, 1.0]), t([1.2, 0.6]))),
    "Binomial": (lambda D, t: D.Binomial(6, t([0.1, 0.6])), lambda D, t: D.Binomial(6, t([0.3, 0.7]))),
    "Categorical": (
        lambda D, t: D.Categorical(t([[0.1, 0.4, 0.5], [0.2, 0.2, 0.6]])),
        lambda D, t: D.Categorical(logits=t([[0.1, 0.4, 0.5], [-1.0, 0.2, 0.6]])),
    ),
    "Cauchy": (lambda D, t: D.Cauchy(t([0.0, 1.0]), t(2.0)), lambda D, t: D.Cauchy(t([0.5, -1.0]), t([1.0, 3.0]))),
    "ContinuousBernoulli": (
        lambda D, t: D.ContinuousBernoulli(t([0.1, 0.6])),
        lambda D, t: D.ContinuousBernoulli(t([0.3, 0.8])),
    ),
    "Dirichlet": (
        lambda D, t: D.Dirichlet(t([[0.7, 2.0, 1.0], [1.0, 1.0, 3.0]])),
        lambda D, t: D.Dirichlet(t([1.5, 0.8, 2.0])),
    ),
    "Exponential": (lambda D, t: D.Exponential(t([0.7, 2.0])), lambda D, t: D.Exponential(t([1.0, 1.5]))),
    "Gamma": (lambda D, t: D.Gamma(t([0.7, 2.0]), t([1.5, 3.0])), lambda D, t: D.Gamma(t([1.7, 1.0]), t([1.2, 0.6]))),
    "Geometric": (lambda D, t: D.Geometric(t([0.3, 0.6])), lambda D, t: D.Geometric(t([0.4, 0.5]))),
    "Gumbel": (lambda D, t: D.Gumbel(t([0.0, 1.0]), t(1.0)), lambda D, t: D.Gumbel(t([0.5, 0.0]), t([1.2, 1.5]))),
    "HalfNormal": (lambda D, t: D.HalfNormal(t([0.7, 2.0])), lambda D, t: D.HalfNormal(t([1.0, 1.5]))),
    "Independent": (
        lambda D, t: D.Independent(D.Normal(t([[0.0, 1.0], [2.0, 1.0]]), t(2.0)), 1),
        lambda D, t: D.Independent(D.Normal(t([[0.5, 1.0], [2.0, 0.0]]), t(1.5)), 1),
    ),
    "Laplace": (lambda D, t: D.Laplace(t([0.0, 1.0]), t(1.0)), lambda D, t: D.Laplace(t([0.5, 0.0]), t([1.2, 1.5]))),
    "LowRankMultivariateNormal": (
        lambda D, t: D.LowRankMultivariateNormal(t([[0.5, 1.0], [0.0, 0.0]]), t([[1.0], [0.4]]), t([0.8, 0.5])),
        lambda D, t: D.LowRankMultivariateNormal(t([0.0, 1.5]), t([[0.3], [-0.4]]), t([1.8, 1.5])),
    ),
    "MultivariateNormal": (
        lambda D, t: D.MultivariateNormal(t([0.5, 1.0]), t(BATCH_OF_MATRICES)),
        lambda D, t: D.MultivariateNormal(t([0.0, 1.5]), t(PAIR)),
    ),
    "Normal": (lambda D, t: D.Normal(t([0.0, 1.0]), t(1.0)), lambda D, t: D.Normal(t([0.5, 0.0]), t([1.2, 1.5]))),
    "OneHotCategorical": (
        lambda D, t: D.OneHotCategorical(t([[0.1, 0.4, 0.5], [0.2, 0.2, 0.6]])),
        lambda D, t: D.OneHotCategorical(t([0.3, 0.3, 0.4])),
    ),
    "Pareto": (
        lambda D, t: D.Pareto(t([1.5, 2.0]), t([6.0, 7.0])),
        lambda D, t: D.Pareto(t([1.0, 1.5]), t([2.0, 4.0])),
    ),
    "Poisson": (lambda D, t: D.Poisson(t([0.7, 5.0])), lambda D, t: D.Poisson(t([1.0, 4.0]))),
    "TransformedDistribution": (
        lambda D, t: D.TransformedDistribution(
            D.Normal(t([0.0, 1.0]), t(1.0)), [D.ExpTransform(), D.AffineTransform(1, 2)]
        ),
        lambda D, t: D.TransformedDistribution(
            D.Normal(t([0.3, 0.0]), t(1.5)), [D.ExpTransform(), D.AffineTransform(1, 2)]
        ),
    ),
    "Uniform": (lambda D, t: D.Uniform(t([0.2, 0.4]), t([0.6, 0.9])), lambda D, t: D.Uniform(t(-0.5), t([1.5, 2.0]))),
    "ExponentialFamily": (
        lambda D, t: D.Wishart(t(5.0), t(PAIR)),
        lambda D, t: D.Wishart(t(4.5), t(BATCH_OF_MATRICES[1])),
    ),
}
ENTRIES = sorted((p.__name__, q.__name__) for p, q in TD.kl._KL_REGISTRY)


def test_the_table_is_pytorchs():
    assert sorted((p.__name__, q.__name__) for p, q in KL_TABLE) == ENTRIES
    assert {name for entry in ENTRIES for name in entry} == set(FAMILIES)


@pytest.mark.parametrize("entry", ENTRIES, ids="‖".join)
def test_entry(entry):
    build_p, build_q = FAMILIES[entry[0]][0], FAMILIES[entry[1]][1]
    if entry == ("Uniform", "Pareto"):
        build_p = lambda D, t: D.Uniform(t([1.2, 1.6]), t([2.0, 3.0]))
    p, q = build_p(WD, of_weft), build_q(WD, of_weft)
    found = WD.kl_divergence(p, q)
    expected = TD.kl_divergence(build_p(TD, of_torch), build_q(TD, of_torch))
    assert tuple(found.shape) == tuple(expected.shape)
    np.testing.assert_allclose(array(found), array(expected), rtol=1e-7, atol=1e-9)
    if math.isfinite(found.sum()):
        check_by_draws(p, q, array(found))
    else:
        assert entry[0] != entry[1]


def check_by_draws(p, q, found):
    """E_p[log p − log q] over draws, to 5 standard errors; heavy tails get a margin."""
    weft.manual_seed(31)
    x = p.sample((20000,))
    ratio = array(p.log_prob(x) - q.log_prob(x))
    error = ratio.std(0) / math.sqrt(20000)
    np.testing.assert_array_less(np.abs(ratio.mean(0) - found), 5 * error + 1e-9)
    assert (found >= 0).all()


# Pairs where the answer depends on the parameters: infinite, or zero weight.
EDGES = {
    "Bernoulli": lambda D, t: (D.Bernoulli(t([0.0, 1.0, 0.3, 0.3])), D.Bernoulli(t([0.5, 0.5, 0.0, 1.0]))),
    "Categorical": lambda D, t: (
        D.Categorical(t([[0.0, 1.0], [0.5, 0.5]])),
        D.Categorical(t([[0.5, 0.5], [0.0, 1.0]])),
    ),
    "Binomial": lambda D, t: (D.Binomial(t([4.0, 3.0]), t(0.5)), D.Binomial(t([3.0, 3.0]), t(0.4))),
    "Pareto": lambda D, t: (D.Pareto(t([1.0, 2.0]), t(3.0)), D.Pareto(t(1.5), t(3.0))),
    "Pareto‖Normal": lambda D, t: (D.Pareto(t(1.0), t([0.5, 1.5, 2.5])), D.Normal(t(0.0), t(1.0))),
    "Pareto‖Exponential": lambda D, t: (D.Pareto(t(1.0), t([0.5, 1.5])), D.Exponential(t(1.0))),
    "Pareto‖Gamma": lambda D, t: (D.Pareto(t(1.0), t([0.5, 1.5])), D.Gamma(t(2.0), t(1.0))),
    "Uniform": lambda D, t: (D.Uniform(t([0.0, 1.0]), t(2.0)), D.Uniform(t(0.5), t(3.0))),
    "Uniform‖Beta": lambda D, t: (D.Uniform(t([0.0, -0.5, 0.5]), t([1.0, 0.5, 1.5])), D.Beta(t(2.0), t(3.0))),
    "Uniform‖ContinuousBernoulli": lambda D, t: (
        D.Uniform(t([0.1, -0.5]), t([0.9, 0.5])),
        D.ContinuousBernoulli(t(0.3)),
    ),
    "Uniform‖Exponential": lambda D, t: (D.Uniform(t([0.0, -0.5]), t(1.0)), D.Exponential(t(2.0))),
    "Uniform‖Gamma": lambda D, t: (D.Uniform(t([0.1, -0.5]), t(1.0)), D.Gamma(t(2.0), t(2.0))),
    "Uniform‖Pareto": lambda D, t: (D.Uniform(t([1.0, 2.0]), t(3.0)), D.Pareto(t(1.5), t(3.0))),
    "Beta‖Uniform": lambda D, t: (D.Beta(t(2.0), t(2.0)), D.Uniform(t([0.0, 0.1]), t([1.0, 2.0]))),
    "ContinuousBernoulli‖Uniform": lambda D, t: (
        D.ContinuousBernoulli(t(0.3)),
        D.Uniform(t([-0.1, 0.1]), t([1.1, 2.0])),
    ),
    "Chi2": lambda D, t: (D.Chi2(t([3.0, 4.0])), D.Chi2(t(5.0))),
    "LogNormal": lambda D, t: (D.LogNormal(t([0.0, 1.0]), t(1.0)), D.LogNormal(t(0.5), t(2.0))),
    "straight through": lambda D, t: (
        D.OneHotCategoricalStraightThrough(t([0.5, 0.5])),
        D.OneHotCategorical(t([0.2, 0.8])),
    ),
}


@pytest.mark.parametrize("name", EDGES)
def test_edges(name):
    with np.errstate(all="ignore"):
        expected = TD.kl_divergence(*EDGES[name](TD, of_torch))
        found = WD.kl_divergence(*EDGES[name](WD, of_weft))
    np.testing.assert_allclose(array(found), array(expected), rtol=1e-7, atol=1e-9)


def test_where_supports_just_touch():
    """The uniform and continuous Bernoulli distributions on [0, 1] are finitely far apart (PyTorch says infinitely)."""
    p, q = WD.Uniform(of_weft([0.0]), of_weft([1.0])), WD.ContinuousBernoulli(of_weft([0.3]))
    check_by_draws(p, q, array(WD.kl_divergence(p, q)))
    check_by_draws(q, p, array(WD.kl_divergence(q, p)))


def test_batches_of_wishart_distributions():
    p, q = WD.Wishart(of_weft([4.0, 5.0]), of_weft(PAIR)), WD.Wishart(of_weft(4.5), of_weft(BATCH_OF_MATRICES))
    pairs = [(df, matrix) for df, matrix in zip([4.0, 5.0], BATCH_OF_MATRICES, strict=True)]
    expected = [
        TD.kl_divergence(TD.Wishart(of_torch(df), of_torch(PAIR)), TD.Wishart(of_torch(4.5), of_torch(matrix))).item()
        for df, matrix in pairs
    ]
    np.testing.assert_allclose(array(WD.kl_divergence(p, q)), expected, rtol=1e-9)


def test_gradients_of_divergences():
    mean = of_weft([0.3, -1.0]).requires_grad_()
    scale = of_weft([0.5, 2.0]).requires_grad_()
    WD.kl_divergence(WD.Normal(mean, scale), WD.Normal(0.0, 1.0)).sum().backward()
    np.testing.assert_allclose(array(mean.grad), array(mean), rtol=1e-12)  # N1 eq. (252): ½(μ² + σ² − 1 − log σ²)
    np.testing.assert_allclose(array(scale.grad), array(scale - 1 / scale), rtol=1e-12)
    df = of_weft(4.0).requires_grad_()
    wishart = WD.Wishart(of_weft(5.0), of_weft(PAIR))
    (slope,) = weft.autograd.grad(WD.kl_divergence(WD.Wishart(df, of_weft(PAIR)), wishart), df)
    with weft.no_grad():
        up, down = (WD.kl_divergence(WD.Wishart(of_weft(4 + h), of_weft(PAIR)), wishart) for h in (1e-5, -1e-5))
    assert slope.item() == pytest.approx((up - down).item() / 2e-5, rel=1e-6)


def test_entries_of_ones_own():
    class Mine(WD.Normal):
        pass

    p, q = Mine(0.0, 1.0), WD.Normal(1.0, 1.0)
    assert WD.kl_divergence(p, q).item() == pytest.approx(0.5)

    @WD.register_kl(Mine, WD.Normal)
    def _mine(p, q):
        return weft.tensor(7.0)

    try:
        assert WD.kl_divergence(p, q).item() == 7.0
        assert WD.kl_divergence(q, p).item() == pytest.approx(0.5)
    finally:
        del KL_TABLE[Mine, WD.Normal]
