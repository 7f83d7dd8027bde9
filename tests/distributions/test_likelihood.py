"""Maximum likelihood against SciPy and scikit-learn; the evidence bound against exact sums and integrals."""

import numpy as np
import pytest
import scipy.stats as st

import weft
from weft import distributions as D
from weft.errors import AutogradError, OptionError, ShapeError

rng = np.random.default_rng(0)
t = lambda a: weft.tensor(np.asarray(a, np.float64))
DATA = rng.normal(1.0, 2.0, 40)
POSITIVE = rng.gamma(2.0, 1.5, 40)
COUNTS = rng.poisson(2.5, 40).astype(float)


def parts(found, *names):
    return [float(getattr(found, name)) for name in names]


FITS = {
    "Normal": (DATA, ("loc", "scale"), lambda x: st.norm.fit(x)),
    "LogNormal": (POSITIVE, ("loc", "scale"), lambda x: st.norm.fit(np.log(x))),
    "Laplace": (DATA, ("loc", "scale"), lambda x: st.laplace.fit(x)),
    "Exponential": (POSITIVE, ("rate",), lambda x: [1 / st.expon.fit(x, floc=0)[1]]),
    "Uniform": (DATA, ("low", "high"), lambda x: (lambda a, b: (a, a + b))(*st.uniform.fit(x))),
    "Poisson": (COUNTS, ("rate",), lambda x: [x.mean()]),
    "Bernoulli": ((DATA > 0).astype(float), ("probs",), lambda x: [x.mean()]),
    "Geometric": (COUNTS, ("probs",), lambda x: [1 / (1 + x.mean())]),
    "Gumbel": (DATA, ("loc", "scale"), lambda x: st.gumbel_r.fit(x)),
}


@pytest.mark.parametrize("name", FITS)
def test_closed_forms_equal_scipy_and_cannot_be_improved(name):
    data, names, oracle = FITS[name]
    family = getattr(D, name)
    found = D.maximum_likelihood(family, t(data))
    np.testing.assert_allclose(parts(found, *names), oracle(data), rtol=1e-4 if name == "Gumbel" else 1e-9)
    best = float(found.log_prob(t(data)).sum())
    for k, factor in np.ndindex(len(names), 2):
        changed = dict(zip(names, parts(found, *names), strict=True))
        changed[names[k]] *= (0.98, 1.02)[factor]
        other = family(**{n: t(v) for n, v in changed.items()}, validate_args=False)
        assert float(other.log_prob(t(data)).sum()) < best or name == "Uniform"


def test_gumbel_solves_the_equations_of_the_exercise():
    """N1 exercise 1.1: both derivatives (80), (81) vanish; far from 0, over many scales, and column by column."""
    x = t(rng.gumbel(1.0, 2.0, (50, 3)) * [1.0, 1e-3, 1e4] + [0.0, 7.0, -1e5])
    found = D.maximum_likelihood(D.Gumbel, x)
    mu, beta = found.loc, found.scale
    tail = (-(x - mu) / beta).exp()
    assert (tail.mean(0) - 1).abs().max() < 1e-9
    equation = 1 - (x.mean(0) - mu) / beta + ((x - mu) * tail).mean(0) / beta
    assert equation.abs().max() < 1e-8
    with pytest.raises(OptionError, match="equal"):
        D.maximum_likelihood(D.Gumbel, weft.ones(5))


def test_categories_and_vectors():
    labels = rng.integers(0, 4, 50)
    found = D.maximum_likelihood(D.Categorical, weft.tensor(labels)).probs
    np.testing.assert_allclose(found.numpy(), np.bincount(labels) / 50, rtol=1e-6)
    x = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 3))
    found = D.maximum_likelihood(D.MultivariateNormal, t(x))
    np.testing.assert_allclose(found.mean.numpy(), x.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.covariance_matrix.numpy(), np.cov(x.T, bias=True), rtol=1e-9)


def test_least_squares_is_maximum_likelihood():
    from sklearn.linear_model import LinearRegression

    x = rng.normal(size=(40, 3))
    y = x @ [1.0, -2.0, 0.5] + 3 + rng.normal(size=40)
    w, b, variance = D.linear_gaussian(t(x), t(y))
    oracle = LinearRegression().fit(x, y)
    np.testing.assert_allclose([*w.numpy(), float(b)], [*oracle.coef_, oracle.intercept_], rtol=1e-9)
    assert float(variance) == pytest.approx(((oracle.predict(x) - y) ** 2).mean())
    leaves = [p.clone().requires_grad_() for p in (w, b, variance)]
    loss = -D.Normal(t(x) @ leaves[0] + leaves[1], leaves[2].sqrt()).log_prob(t(y)).sum()
    for g in weft.autograd.grad(loss, leaves):
        assert g.abs().max() < 1e-9  # the likelihood is stationary there


def test_evidence_is_bound_and_divergence():
    """log p(x) = ELBO + KL(q ‖ p(z|x)) for every q; equality of the bound at the posterior alone (N3)."""
    joint = t(rng.dirichlet(np.ones(6))[:5])  # p(x, z) for five z
    posterior = joint / joint.sum()
    for probs in (posterior, t(rng.dirichlet(np.ones(5))), t([1.0, 0, 0, 0, 0])):
        q = D.Categorical(probs=probs)
        found = D.evidence(lambda z: joint.log()[z], q)
        assert float(found.log_evidence) == pytest.approx(np.log(joint.numpy().sum()))
        assert float(found.elbo + found.divergence) == pytest.approx(float(found.log_evidence))
        expected = st.entropy(probs.numpy(), posterior.numpy())
        assert float(found.divergence) == pytest.approx(expected, abs=1e-7) and float(found.divergence) > -1e-7


def test_elbo_of_a_linear_gaussian_model():
    """z ~ N(0, 1), x | z ~ N(2z, 1): log p(x) = log N(x; 0, 5), the posterior is N(2x/5, 1/5)."""
    x = t(1.3)
    likelihood = lambda z: D.Normal(2 * z, t(1.0)).log_prob(x)
    prior, log_evidence = D.Normal(t(0.0), t(1.0)), float(D.Normal(t(0.0), t(5.0).sqrt()).log_prob(x))
    weft.manual_seed(0)
    exact = D.elbo(likelihood, D.Normal(2 * x / 5, t(0.2).sqrt()), prior, 20000)
    assert float(exact) == pytest.approx(log_evidence, abs=0.02)
    for mean, scale in ((0.0, 1.0), (0.5, 0.3), (2.0, 0.5)):
        q = D.Normal(t(mean), t(scale))
        gap = float(D.kl_divergence(q, D.Normal(2 * x / 5, t(0.2).sqrt())))
        found = float(D.elbo(likelihood, q, prior, 40000))
        assert found == pytest.approx(log_evidence - gap, abs=0.1) and found < log_evidence
    location = t(0.0).requires_grad_()
    (slope,) = weft.autograd.grad(D.elbo(likelihood, D.Normal(location, t(0.2).sqrt()), prior, 5000), location)
    assert float(slope) == pytest.approx(5 * 2 * 1.3 / 5, abs=0.05)  # −d KL/dμ = (2x/5 − μ) / (1/5)


def test_divergence_without_a_closed_form_is_sampled():
    weft.manual_seed(0)
    q, prior = D.Normal(t(0.2), t(0.5)), D.StudentT(t(4.0))
    found = float(D.elbo(lambda z: z * 0, q, prior, 40000))
    grid = np.linspace(-6, 6, 20001)
    density = st.norm.pdf(grid, 0.2, 0.5)
    expected = -np.trapezoid(density * (st.norm.logpdf(grid, 0.2, 0.5) - st.t.logpdf(grid, 4)), grid)
    assert found == pytest.approx(expected, abs=0.02)


def test_errors():
    with pytest.raises(OptionError, match="closed form"):
        D.maximum_likelihood(D.Beta, weft.ones(3))
    with pytest.raises(ShapeError):
        D.maximum_likelihood(D.Normal, weft.zeros(0))
    with pytest.raises(ShapeError):
        D.linear_gaussian(weft.zeros(3, 2), weft.zeros(2))
    with pytest.raises(AutogradError, match="evidence"):
        D.elbo(lambda z: z, D.Bernoulli(t(0.5)), D.Bernoulli(t(0.5)))
