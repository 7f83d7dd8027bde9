"""Heads that predict distributions, and maximum likelihood as minimisation of −log p (P3, P4)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats as st
import torch

import weft
import weft.distributions as D
from weft.distributions import heads

from .cases import array
from .cases import of_weft as t

FEATURES = weft.randn(6, 3, generator=weft.Generator().manual_seed(0))
HEADS = {
    "HomoscedasticNormal": (lambda: heads.HomoscedasticNormal(3, 2), (6, 2)),
    "HeteroscedasticNormal": (lambda: heads.HeteroscedasticNormal(3, 2), (6, 2)),
    "Bernoulli": (lambda: heads.Bernoulli(3, 2), (6, 2)),
    "Categorical": (lambda: heads.Categorical(3, 4), (6,)),
    "MixtureDensity": (lambda: heads.MixtureDensity(3, 2, components=4), (6, 2)),
}


@pytest.mark.parametrize("name", HEADS)
def test_every_head_predicts_and_learns(name):
    make, shape = HEADS[name]
    weft.manual_seed(1)
    head = make()
    drawn = head.predict(FEATURES, "sample")
    assert drawn.shape == head.predict(FEATURES, "mode").shape == shape
    assert head(FEATURES).log_prob(drawn).shape == (6,)
    loss = head.nll(FEATURES, drawn, reduction="none")
    assert loss.shape == (6,)
    np.testing.assert_allclose(array(head.nll(FEATURES, drawn)), array(loss).mean(), rtol=1e-6)
    np.testing.assert_allclose(array(head.nll(FEATURES, drawn, "sum")), array(loss).sum(), rtol=1e-6)
    head.nll(FEATURES, drawn).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in head.parameters())
    for call in (lambda: head.predict(FEATURES, "median"), lambda: head.nll(FEATURES, drawn, "max")):
        with pytest.raises(ValueError, match="must be"):
            call()


def test_losses_are_the_known_ones():
    """Normal heads: PyTorch's Gaussian loss; Bernoulli: binary cross-entropy; Categorical: cross-entropy."""
    x, y = FEATURES, weft.randn(6, 2, generator=weft.Generator().manual_seed(2))
    head = heads.HeteroscedasticNormal(3, 2)
    inner = head(x).base_dist
    expected = torch.nn.functional.gaussian_nll_loss(
        torch.tensor(array(inner.loc)), torch.tensor(array(y)), torch.tensor(array(inner.variance)), full=True
    )
    np.testing.assert_allclose(head.nll(x, y).item(), 2 * expected.item(), rtol=1e-5)
    head, labels = heads.Bernoulli(3, 2), (y > 0).float()
    expected = torch.nn.functional.binary_cross_entropy_with_logits(
        torch.tensor(array(head.logits(x))), torch.tensor(array(labels))
    )
    np.testing.assert_allclose(head.nll(x, labels).item(), 2 * expected.item(), rtol=1e-5)
    head, classes = heads.Categorical(3, 4), weft.tensor([0, 3, 1, 2, 2, 0])
    scores = torch.tensor(array(head.logits(x)))
    expected = torch.nn.functional.cross_entropy(scores, torch.tensor(array(classes)))
    np.testing.assert_allclose(head.nll(x, classes).item(), expected.item(), rtol=1e-5)
    np.testing.assert_array_equal(array(head.predict(x)), scores.argmax(-1).numpy())
    np.testing.assert_allclose(array(head.predict(x, "mean")), scores.softmax(-1).numpy(), rtol=1e-5)


def test_mixture_mode_is_the_highest_peak():
    """Two components close together make one peak between them; a lone third one is lower."""
    head = heads.MixtureDensity(1, 1, components=3).double()
    with weft.no_grad():
        for parameter in head.parameters():
            parameter.zero_()
        head.weights.bias.copy_(t([0.35, 0.35, 0.3]).log())
        head.parameters_of.bias.copy_(t([0.0, 0.8, 5.0, *[math.log(math.expm1(0.6))] * 3]))
    grid = np.linspace(-3, 8, 110001)
    density = sum(w * st.norm(m, 0.6001).pdf(grid) for w, m in zip([0.35, 0.35, 0.3], [0, 0.8, 5], strict=True))
    assert head.predict(t([[1.0]])).item() == pytest.approx(grid[density.argmax()], abs=1e-3)
    assert head.predict(t([[1.0]]), "mean").item() == pytest.approx(0.35 * 0.8 + 0.3 * 5, rel=1e-9)


def test_draws_of_a_head_follow_its_distribution():
    head = heads.Bernoulli(3, 1)
    weft.manual_seed(3)
    drawn = head.predict(FEATURES[:1].expand(4000, 3), "sample").mean().item()
    expected = head.predict(FEATURES[:1], "mean").item()
    assert abs(drawn - expected) < 4.5 * math.sqrt(expected * (1 - expected) / 4000)


# ------------------------------------------------------------------------------ maximum likelihood


def minimise(loss, *start):
    """The parameters that minimise a differentiable loss, by SciPy's BFGS on Weft's gradients."""

    def value_and_gradient(flat):
        leaves = t(flat).requires_grad_()
        value = loss(leaves)
        value.backward()
        return value.item(), array(leaves.grad)

    return scipy.optimize.minimize(
        value_and_gradient, np.array(start, float), jac=True, method="BFGS", options={"gtol": 1e-9}
    ).x


def test_linear_gaussian_likelihood_is_least_squares():
    rng = np.random.default_rng(4)
    design = np.column_stack([rng.normal(size=(50, 2)), np.ones(50)])
    target = design @ [1.5, -2.0, 0.7] + 0.3 * rng.normal(size=50)

    def nll(parameters):
        return -D.Normal(t(design) @ parameters[:3], parameters[3].exp()).log_prob(t(target)).sum()

    found = minimise(nll, 0, 0, 0, 0)
    expected, residual, *_ = np.linalg.lstsq(design, target, rcond=None)
    np.testing.assert_allclose(found[:3], expected, rtol=1e-6)
    np.testing.assert_allclose(np.exp(found[3]), np.sqrt(residual[0] / 50), rtol=1e-6)  # σ̂² = mean squared residual


GUMBEL_DATA = np.array([1.2, 3.4, -0.5, 2.2, 0.9, 5.1, 1.7])


def test_gumbel_likelihood_of_the_exercise():
    """N1 exercise 1.1: the loss (79) and its derivatives (80), (81), and the estimates where both vanish."""
    mu, beta = t(0.8).requires_grad_(), t(1.3).requires_grad_()
    loss = -D.Gumbel(mu, beta).log_prob(t(GUMBEL_DATA)).sum()
    by_mu, by_beta = weft.autograd.grad(loss, [mu, beta])
    n, total, tail = len(GUMBEL_DATA), GUMBEL_DATA.sum(), np.exp(-(GUMBEL_DATA - 0.8) / 1.3)
    assert loss.item() == pytest.approx(n * math.log(1.3) + (total - n * 0.8) / 1.3 + tail.sum(), rel=1e-12)  # (79)
    assert by_mu.item() == pytest.approx((tail.sum() - n) / 1.3, rel=1e-12)  # (80)
    weighted = ((GUMBEL_DATA - 0.8) * tail).sum()
    assert by_beta.item() == pytest.approx(n / 1.3 - (total - n * 0.8) / 1.69 + weighted / 1.69, rel=1e-12)  # (81)
    found = minimise(lambda p: -D.Gumbel(p[0], p[1].exp()).log_prob(t(GUMBEL_DATA)).sum(), 0, 0)
    np.testing.assert_allclose([found[0], np.exp(found[1])], st.gumbel_r.fit(GUMBEL_DATA), rtol=1e-4)


@pytest.mark.parametrize("classes", [2, 3])
def test_logistic_and_softmax_regression(classes):
    """At the maximum of the likelihood predicted and observed class totals of every feature agree (score equations)."""
    rng = np.random.default_rng(5)
    design, labels = np.column_stack([rng.normal(size=(60, 2)), np.ones(60)]), rng.integers(0, classes, 60)

    def scores(parameters):
        weight = weft.cat([parameters.reshape(3, classes - 1), weft.zeros(3, 1, dtype=weft.float64)], 1)
        return t(design) @ weight

    found = minimise(
        lambda p: -D.Categorical(logits=scores(p)).log_prob(weft.tensor(labels)).sum(), *[0] * 3 * (classes - 1)
    )
    probs = array(D.Categorical(logits=scores(t(found))).probs)
    np.testing.assert_allclose(design.T @ probs, design.T @ np.eye(classes)[labels], atol=1e-5)


def test_jensens_inequality():
    """E f(X) ≥ f(E X) for convex f, with the exact gaps (N4, Jensen's inequality)."""
    gamma = D.Gamma(t(3.0), t(2.0))
    expected_log = (t(3.0).digamma() - t(2.0).log()).item()
    assert -expected_log > -gamma.mean.log().item()
    weft.manual_seed(6)
    for convex in (lambda x: x.exp(), lambda x: x.square(), lambda x: -x.log(), lambda x: x.reciprocal()):
        x = D.Gamma(t(8.0), t(8.0)).sample((2000,))
        assert convex(x).mean().item() > convex(x.mean()).item()
    normal = D.LogNormal(t(0.2), t(0.6))
    assert normal.mean.log().item() - 0.2 == pytest.approx(0.18)  # log E eᴺ − E N = σ²/2


def test_elbo_is_a_lower_bound_and_tight_at_the_posterior():
    """z ~ N(0, 1), x | z ~ N(z, s²): log p(x) = ELBO(q) + KL(q‖p(z|x)) for every normal q (N1 eqs. 234–235)."""
    s, x = 0.7, t(1.3)
    evidence = D.Normal(t(0.0), t(math.sqrt(1 + s * s))).log_prob(x)
    posterior = D.Normal(x / (1 + s * s), t(math.sqrt(s * s / (1 + s * s))))

    def elbo(q):
        square = q.variance + (x - q.mean).square()
        likelihood = -0.5 * math.log(2 * math.pi * s * s) - square / (2 * s * s)
        return likelihood - D.kl_divergence(q, D.Normal(t(0.0), t(1.0)))

    q = D.Normal(t([0.0, 0.5, 0.87, -1.0]), t([1.0, 0.3, 0.6, 2.0]))
    assert (elbo(q) < evidence).all()
    np.testing.assert_allclose(array(evidence - elbo(q)), array(D.kl_divergence(q, posterior)), rtol=1e-9)
    assert elbo(posterior).item() == pytest.approx(evidence.item(), rel=1e-12)
    best = minimise(lambda p: -elbo(D.Normal(p[0], p[1].exp())), 0, 0)
    np.testing.assert_allclose(
        [best[0], math.exp(best[1])], [posterior.mean.item(), posterior.stddev.item()], rtol=1e-6
    )
