"""Where everything is linear and normal, log p(x), the posterior and the best weights are known: bounds against them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats

import weft
from weft.distributions import kl_divergence
from weft.errors import OptionError, ShapeError, UnsupportedError
from weft.models.generative import evaluate
from weft.models.variational import IWAE, MIWAE, LinearVAE, ProbabilisticPCA, log_mean_exp

from .common import DOUBLE, seeded


@pytest.fixture(scope="module")
def rows():
    """200 rows with correlations and a mean."""
    return weft.randn(200, 5, generator=seeded(0), **DOUBLE) @ weft.randn(5, 5, generator=seeded(1), **DOUBLE) + 2


@pytest.fixture
def model(rows):
    """Near its best, with a posterior that is off by some tenths and wider than the true one."""
    model = LinearVAE(5, 2, **DOUBLE).solve(rows)
    with weft.no_grad():
        model.encoder.mean.bias.add_(weft.tensor([0.3, -0.2], **DOUBLE))
        model.encoder.log_spread.add_(0.2)
        model.decoder.weight.add_(0.1 * weft.randn(5, 2, generator=seeded(4), **DOUBLE))
    return model


def moments(model):
    """The joint normal of z and x, by blocks, in NumPy."""
    w, mean, variance = (part.detach().numpy() for part in (model.weight, model.mean, model.variance))
    return w, mean, w @ w.T + variance * np.eye(len(w))


def test_ppca_log_prob_is_that_of_the_normal_distribution(rows):
    model = ProbabilisticPCA(5, 2, **DOUBLE).fit(rows)
    _, mean, covariance = moments(model)
    true = scipy.stats.multivariate_normal(mean, covariance).logpdf(rows.numpy())
    np.testing.assert_allclose(model.log_prob(rows).numpy(), true, rtol=1e-10)


def test_ppca_posterior_is_bayes_rule(rows):
    model = ProbabilisticPCA(5, 2, **DOUBLE).fit(rows)
    w, mean, covariance = moments(model)
    gain = w.T @ np.linalg.inv(covariance)
    posterior = model.posterior(rows)
    np.testing.assert_allclose(posterior.mean.numpy(), (rows.numpy() - mean) @ gain.T, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(posterior.covariance_matrix[0].numpy(), np.eye(2) - gain @ w, rtol=1e-9, atol=1e-12)


def test_ppca_fit_is_the_maximum_of_the_likelihood(rows):
    """The value of Tipping and Bishop's formula, and no slope in any weight."""
    values = np.linalg.eigvalsh(np.cov(rows.numpy().T, bias=True))[::-1]
    left = values[2:].mean()
    best = -0.5 * (5 * np.log(2 * np.pi) + np.log(values[:2]).sum() + 3 * np.log(left) + 5)
    model = LinearVAE(5, 2, **DOUBLE).solve(rows)
    mean = model.log_prob(rows).mean()
    assert mean.item() == pytest.approx(best, rel=1e-12)
    mean.backward()
    slopes = [p.grad for p in (*model.decoder.parameters(), model.likelihood.log_scale)]
    assert max(slope.abs().max().item() for slope in slopes) < 1e-12


def test_ppca_score_is_the_slope_of_the_density(rows):
    model = ProbabilisticPCA(5, 2, **DOUBLE).fit(rows)
    _, mean, covariance = moments(model)
    np.testing.assert_allclose(
        model.score(rows[:4]).numpy(), -(rows[:4].numpy() - mean) @ np.linalg.inv(covariance), rtol=1e-9
    )


def test_ppca_draws_have_its_moments(rows):
    model = ProbabilisticPCA(5, 2, **DOUBLE).fit(rows)
    drawn = model.sample(20_000, generator=seeded(3)).numpy()
    _, mean, covariance = moments(model)
    np.testing.assert_allclose(drawn.mean(0), mean, atol=5 * np.sqrt(covariance.diagonal().max() / 20_000))
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.05 * np.abs(covariance).max())


def test_the_elbo_falls_short_by_the_divergence_of_q_from_the_posterior(model, rows):
    gap = model.log_prob(rows) - model.expected_elbo(rows)
    q = model.posterior.distribution(model.inferred(rows))
    full = weft.distributions.MultivariateNormal(q.mean, weft.diag_embed(q.variance))
    divergence = kl_divergence(full, model.marginal().posterior(rows))
    assert (gap > 0).all()
    np.testing.assert_allclose(gap.detach().numpy(), divergence.detach().numpy(), rtol=1e-9)


@pytest.mark.parametrize("closed", [True, False])
def test_drawn_elbos_mean_the_expected_one(model, rows, closed):
    """Also with a divergence from the draws, which is the same in the mean."""
    model.closed_form = closed
    x = rows[:3]
    with weft.no_grad():
        each = model.elbo(x.repeat(400, 1), generator=seeded(0)).reshape(400, 3)
        error = each.std(0) / 20
        assert ((each.mean(0) - model.expected_elbo(x)).abs() < 4 * error).all()


def test_a_linear_vae_at_its_best_has_the_likelihood_of_ppca(rows):
    model = LinearVAE(5, 2, **DOUBLE).solve(rows)
    true = ProbabilisticPCA(5, 2, **DOUBLE).fit(rows).log_prob(rows)
    for found in (model.log_prob(rows), model.expected_elbo(rows)):
        np.testing.assert_allclose(found.detach().numpy(), true.numpy(), rtol=1e-10)


def test_training_comes_to_ppca(rows):
    weft.manual_seed(0)
    model = LinearVAE(5, 2, **DOUBLE)
    optimizer = weft.optim.LBFGS(model.parameters(), max_iter=90, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = -model.expected_elbo(rows).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    best = ProbabilisticPCA(5, 2, **DOUBLE).fit(rows).log_prob(rows).mean().item()
    assert best - 1e-4 < model.expected_elbo(rows).mean().item() <= best + 1e-9


def test_iwae_never_falls_as_k_doubles_and_stays_below_log_p_in_the_mean(model, rows):
    """With the same draws in groups, log of a mean ≥ mean of logs: no chance about it."""
    x = rows[:4]
    with weft.no_grad():
        bounds = [MIWAE(2048 // k, k)(model, x, None, seeded(7)) for k in (1, 2, 4, 8, 16, 32, 2048)]
    for lower, higher in itertools.pairwise(bounds):
        assert (higher >= lower).all()
    assert (bounds[-2] < model.log_prob(x) + 0.05).all() and (bounds[0] < bounds[-1] - 0.02).all()


def test_many_importance_samples_hit_log_p(model, rows):
    x = rows[:4]
    found = model.log_prob_bound(x, samples=20_000, generator=seeded(1), at_once=9_000)  # parts and a rest
    assert found.side == "lower" and (found.error > 0).all()
    assert ((found.value - model.log_prob(x)).abs() < 4 * found.error).all() and (found.error < 0.1).all()


def test_the_error_of_a_bound_is_that_of_repetitions(model, rows):
    x = rows[:1].repeat(300, 1)
    found = model.log_prob_bound(x, samples=200, generator=seeded(1))
    assert found.error.mean().item() == pytest.approx(found.value.std().item(), rel=0.3)


def test_a_perfect_posterior_needs_one_sample(rows):
    """All weights are p(x): any number of samples, in any parts, gives log p(x) without error."""
    model = LinearVAE(5, 2, **DOUBLE).solve(rows)
    weights = model.draws(rows[:3], 7, generator=seeded(0)).log_weight
    np.testing.assert_allclose(
        weights.detach().numpy(), model.log_prob(rows[:3]).expand(7, 3).detach().numpy(), rtol=1e-9
    )
    found = model.log_prob_bound(rows[:3], samples=7, at_once=4, generator=seeded(0))
    np.testing.assert_allclose(found.value.numpy(), model.log_prob(rows[:3]).detach().numpy(), rtol=1e-9)
    assert found.error.max() < 1e-6


def test_evaluate_prints_a_curve_over_samples(model, rows):
    found = evaluate(model, rows, samples=(1, 500), seeds=(0, 1))
    by = {f.method: f for f in found.likelihoods}
    elbo, many, true = (by[name] for name in ("elbo", "log_prob_bound, samples = 500", "log_prob"))
    assert list(by) == ["log_prob", "elbo", "log_prob_bound, samples = 1", "log_prob_bound, samples = 500"]
    assert elbo.nats < many.nats - 0.05 and many.nats == pytest.approx(true.nats, abs=4 * many.drawn_error)
    assert (elbo.side, many.side, true.side) == ("lower", "lower", None)


def test_bad_input_is_refused(rows):
    with pytest.raises(OptionError, match="1 to 4"):
        ProbabilisticPCA(5, 5)
    with pytest.raises(OptionError, match="1 to 4"):
        LinearVAE(5, 0)
    with pytest.raises(ShapeError, match=r"\(N, 5\)"):
        ProbabilisticPCA(5, 2).fit(rows[:, :4])
    with pytest.raises(UnsupportedError, match="no condition"):
        ProbabilisticPCA(5, 2).sample(2, condition=1)


def test_iwae_is_the_log_of_the_mean_weight(model, rows):
    with weft.no_grad():
        weights = model.draws(rows, 5, generator=seeded(2)).log_weight
        np.testing.assert_allclose(
            IWAE(5)(model, rows, None, seeded(2)).numpy(), np.log(np.exp(weights.numpy()).mean(0)), rtol=1e-10
        )
        assert weft.equal(log_mean_exp(weights), IWAE(5)(model, rows, None, seeded(2)))
