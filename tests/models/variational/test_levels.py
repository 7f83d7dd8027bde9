"""Several levels of codes: with linear networks and the true posterior every draw has the weight p(x)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

import weft
from weft.errors import OptionError
from weft.models.variational import HierarchicalVAE, LadderVAE, MarkovVAE, SharedVariance
from weft.models.variational.ladder import combined

from .common import DOUBLE, filled, seeded

W, B, SIGMA = np.array([0.9, -0.4, 0.6]), np.array([0.1, 0.2, -0.3]), 0.5  # x = W z₁ + B + σ ε
A, C, S = 0.7, 0.4, 0.8  # z₁ = A z₂ + C + S ε


def exact(x):
    """log p(x), and the posteriors: of z₁ given x, of z₂ given z₁, and of z₂ given x as (slope, shift, variance)."""
    spread = A**2 + S**2
    mean, covariance = W * C + B, spread * np.outer(W, W) + SIGMA**2 * np.eye(3)
    log_prob = scipy.stats.multivariate_normal(mean, covariance).logpdf(x)
    gain1, gain2 = spread * W @ np.linalg.inv(covariance), A * W @ np.linalg.inv(covariance)
    below = (gain1, C - gain1 @ mean, spread - spread * gain1 @ W)
    upward = (A / spread, -C * A / spread, 1 - A**2 / spread)
    whole = (gain2, -gain2 @ mean, 1 - A * gain2 @ W)
    return log_prob, below, upward, whole


def says(layer, slope, shift, variance):
    """Make a linear network say N(slope · input + shift, variance) of one number."""
    slope = np.atleast_1d(slope)
    layer.weight.zero_()
    layer.weight[0, : len(slope)] = weft.tensor(slope)
    layer.bias.copy_(weft.tensor([shift, 0.5 * math.log(variance)], **DOUBLE))


def generative(model):
    says(model.downward[0].output, A, C, S**2)
    model.decoder.output.weight.zero_()
    model.decoder.output.weight[:, 0] = weft.tensor(W)
    model.decoder.output.bias.copy_(weft.tensor(B))
    model.likelihood.log_scale.fill_(math.log(SIGMA))


@weft.no_grad()
def true_posterior(kind, x):
    """A model of the numbers above whose q is its posterior, by the way its own q goes."""
    model = filled(kind(3, (), (1, 1), SharedVariance()))
    generative(model)
    _, below, upward, whole = exact(x)
    if kind is LadderVAE:
        for climb in model.climb:
            climb.output.weight.copy_(weft.eye(3))
            climb.output.bias.zero_()
        size = W @ W
        says(model.upward[0], W / size, -(W @ B) / size, SIGMA**2 / size)  # what x says of z₁, as a density of z₁
        says(model.upward[1], *whole)
        return model
    says(model.upward[0].output, *below)
    slope = upward[0] if kind is MarkovVAE else np.array([0, 0, 0, upward[0]])
    says(model.upward[1].output, slope, *upward[1:])
    return model


KINDS = pytest.mark.parametrize("kind", [MarkovVAE, HierarchicalVAE, LadderVAE])


@KINDS
def test_every_draw_of_the_true_posterior_weighs_p_of_x(kind):
    x = np.random.default_rng(0).normal(size=(4, 3))
    model = true_posterior(kind, x)
    found = model.draws(weft.tensor(x), 5, generator=seeded(1)).log_weight.detach().numpy()
    np.testing.assert_allclose(found, np.broadcast_to(exact(x)[0], (5, 4)), rtol=1e-10)


@KINDS
def test_a_wrong_posterior_bounds_and_many_samples_hit(kind):
    x = np.random.default_rng(0).normal(size=(3, 3))
    model = true_posterior(kind, x)
    with weft.no_grad():
        for part in model.upward.parameters():
            part.add_(0.1)
        weights = model.draws(weft.tensor(x), 20_000, generator=seeded(1)).log_weight
        value = weights.logsumexp(0) - math.log(20_000)
        error = (weights - value).exp().std(0) / math.sqrt(20_000)
    true = weft.tensor(exact(x)[0])
    assert ((value - true).abs() < 4 * error).all() and (error < 0.02).all()
    assert (weights.mean(0) < true - 0.01).all()


@KINDS
def test_draws_of_the_model_have_its_moments(kind):
    model = true_posterior(kind, np.zeros((1, 3)))
    drawn = model.sample(20_000, generator=seeded(0)).numpy()
    spread = A**2 + S**2
    np.testing.assert_allclose(drawn.mean(0), W * C + B, atol=0.04)
    np.testing.assert_allclose(np.cov(drawn.T), spread * np.outer(W, W) + SIGMA**2 * np.eye(3), atol=0.05)


def test_evidence_and_expectation_are_multiplied():
    """The product of two normal densities, up to a constant, also of very different precisions."""
    first, second = weft.tensor([[0.3, -0.5], [2.0, -9.0]], **DOUBLE), weft.tensor([[-1.0, 0.2], [5.0, 3.0]], **DOUBLE)
    mean, log_scale = combined(first, second).unbind(1)
    p, q = (np.exp(-2 * part[:, 1].numpy()) for part in (first, second))
    np.testing.assert_allclose(log_scale.numpy(), -0.5 * np.log(p + q), rtol=1e-12)
    np.testing.assert_allclose(mean.numpy(), (p * first[:, 0].numpy() + q * second[:, 0].numpy()) / (p + q), rtol=1e-12)


@KINDS
def test_shapes_and_one_level(kind):
    model = kind(5, (4,), (3, 2, 1))
    x = weft.ones(2, 5)
    assert model.elbo(x, samples=3).shape == (2,) and model.encode(x).shape == (2, 6)
    assert model.reconstruct(x).shape == (2, 5) and model.interpolate(x, x, 3).shape == (3, 2, 5)
    assert kind(5, (4,), (3,)).elbo(weft.ones(0, 5)).shape == (0,)
    with pytest.raises(OptionError, match="at least one level"):
        kind(5, (4,), ())
