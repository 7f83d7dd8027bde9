"""Heads against PyTorch's and SciPy's distributions; their draws against their own distribution functions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

import weft
from weft.errors import OptionError
from weft.models.autoregressive import (
    BernoulliHead,
    CategoricalHead,
    GaussianHead,
    GaussianMixtureHead,
    LaplaceMixtureHead,
    LogisticMixtureHead,
)
from weft.models.autoregressive.heads import LEAST_LOG_SCALE, head_named

from .common import seeded

T = torch.distributions


def parameters(head, rows=40, scale=1.0, seed=0):
    return scale * weft.randn(rows, head.parameters, dtype=weft.float64, generator=seeded(seed))


def torch_mixture(head, p, component):
    logits, mean, log_scale = torch.tensor(p.numpy()).unflatten(-1, (3, head.components)).unbind(-2)
    return T.MixtureSameFamily(T.Categorical(logits=logits), component(mean, log_scale.exp()))


def torchs(head, p):
    """The same distribution in PyTorch."""
    values = torch.tensor(p.numpy())
    if isinstance(head, BernoulliHead):
        return T.Bernoulli(logits=values.squeeze(-1))
    if isinstance(head, GaussianHead):
        return T.Normal(values[:, 0], values[:, 1].exp())
    return torch_mixture(head, p, T.Normal if isinstance(head, GaussianMixtureHead) else T.Laplace)


@pytest.mark.parametrize(
    "head", [BernoulliHead(), GaussianHead(), GaussianMixtureHead(3), LaplaceMixtureHead(4)], ids=str
)
def test_log_prob_and_mean_against_pytorch(head):
    p = parameters(head)
    x = weft.randn(40, dtype=weft.float64, generator=seeded(1))
    x = (x > 0).double() if isinstance(head, BernoulliHead) else x
    theirs = torchs(head, p)
    np.testing.assert_allclose(head.log_prob(p, x).numpy(), theirs.log_prob(torch.tensor(x.numpy())), rtol=1e-10)
    np.testing.assert_allclose(head.mean(p).numpy(), theirs.mean, rtol=1e-10)
    np.testing.assert_allclose(head.distribution(p).log_prob(x).numpy(), head.log_prob(p, x).numpy(), rtol=1e-9)


@pytest.mark.parametrize("scale", [0.3, 3.0, 30.0])
@pytest.mark.parametrize(
    "head", [CategoricalHead(16), LogisticMixtureHead(3, 16), LogisticMixtureHead(1, 256)], ids=str
)
def test_bins_sum_to_one(head, scale):
    p = parameters(head, scale=scale).unsqueeze(1).expand(-1, head.levels, -1)
    x = weft.linspace(0, 1, head.levels, dtype=weft.float64).expand(40, -1)
    total = head.log_prob(p, x).exp().sum(1)
    assert (total - 1).abs().max() < 1e-12
    assert head.log_prob(p, x).isfinite().all()


def test_logistic_bins_against_scipy():
    """Differences of SciPy's logistic distribution function, the ends reaching to infinity."""
    head, levels = LogisticMixtureHead(2, 8), 8
    p = parameters(head, rows=5)
    logits, mean, log_scale = p.numpy().reshape(5, 3, 2).transpose(1, 0, 2)
    share = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    for level in range(levels):
        ends = [-np.inf if level == 0 else level - 0.5, np.inf if level == levels - 1 else level + 0.5]
        below, above = (
            stats.logistic(levels / 2 * (1 + mean), levels / 2 * np.exp(log_scale)).cdf(end) for end in ends
        )
        x = weft.full((5,), level / (levels - 1), dtype=weft.float64)
        np.testing.assert_allclose(head.log_prob(p, x).exp().numpy(), (share * (above - below)).sum(1), rtol=1e-9)


def test_logistic_bins_keep_their_digits_far_from_the_curve():
    head = LogisticMixtureHead(1, 256)
    p = weft.tensor([[0.0, -1.0, -6.0]])  # at black, narrow: float32
    slope = weft.func.grad(lambda p: head.log_prob(p, weft.tensor([1.0])).sum())(p)
    value = head.log_prob(p, weft.tensor([1.0])).item()
    assert value == pytest.approx(-254.5 / (128 * np.exp(-6)), rel=1e-3) and slope.isfinite().all()


CONTINUOUS = [GaussianHead(), GaussianMixtureHead(3), LaplaceMixtureHead(2)]


@pytest.mark.parametrize("head", CONTINUOUS, ids=str)
def test_draws_follow_the_density(head):
    p = parameters(head, rows=1, seed=3).expand(4000, -1)
    drawn = head.draw(p, head.noise((4000,), weft.float64, seeded(4)))
    theirs = torchs(head, p[:1])
    cdf = lambda x: theirs.cdf(torch.tensor(x).unsqueeze(-1)).squeeze(-1).numpy()
    assert stats.kstest(drawn.numpy(), cdf).pvalue > 1e-3


@pytest.mark.parametrize("head", [BernoulliHead(), CategoricalHead(6), LogisticMixtureHead(2, 6)], ids=str)
def test_draws_follow_the_probabilities(head):
    levels = getattr(head, "levels", 2)
    p = parameters(head, rows=1, seed=5)
    drawn = head.draw(p.expand(5000, -1), head.noise((5000,), weft.float64, seeded(6))).numpy()
    x = weft.linspace(0, 1, levels, dtype=weft.float64)
    expected = head.log_prob(p.expand(levels, -1), x).exp().numpy() * 5000
    counts = np.bincount(np.rint(drawn * (levels - 1)).astype(int), minlength=levels)
    assert stats.chisquare(counts, expected).pvalue > 1e-3


def test_scales_have_a_floor_and_names_are_known():
    head = GaussianHead()
    p = weft.tensor([[0.0, -100.0]], dtype=weft.float64)
    peak = head.log_prob(p, weft.zeros(1, dtype=weft.float64)).item()
    assert peak == pytest.approx(-LEAST_LOG_SCALE - 0.5 * np.log(2 * np.pi))
    assert isinstance(head_named("mixture"), GaussianMixtureHead) and head_named(head) is head
    with pytest.raises(OptionError, match="bernoulli"):
        head_named("normal")
    with pytest.raises(OptionError, match="at least 2 levels"):
        CategoricalHead(1)
    with pytest.raises(OptionError, match="at least 1 component"):
        GaussianMixtureHead(0)
