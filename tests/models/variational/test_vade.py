"""A mixture as prior: its density against PyTorch, its parts by Bayes, and clusters that were planted."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft
from weft.errors import OptionError, ShapeError, UnsupportedError
from weft.metrics import clustering_accuracy
from weft.models.variational import MixturePrior, VaDE, check_elbo

from .common import DOUBLE, seeded

torch = pytest.importorskip("torch")


def mixture():
    prior = MixturePrior(3, 2, **DOUBLE)
    with weft.no_grad():
        for number, parameter in enumerate(prior.parameters()):
            parameter.copy_(0.6 * weft.randn(parameter.shape, generator=seeded(number), **DOUBLE))
    return prior


def theirs(prior):
    parts = [torch.tensor(p.detach().numpy()) for p in (prior.logits, prior.mean, prior.log_scale)]
    normal = torch.distributions.Independent(torch.distributions.Normal(parts[1], parts[2].exp()), 1)
    return torch.distributions.MixtureSameFamily(torch.distributions.Categorical(logits=parts[0]), normal)


def test_the_density_is_pytorchs_and_its_parts_are_bayes_rule():
    prior = mixture()
    z = weft.randn(4, 5, 2, generator=seeded(7), **DOUBLE)
    true = theirs(prior)
    np.testing.assert_allclose(prior.log_prob(z).detach(), true.log_prob(torch.tensor(z.numpy())), rtol=1e-10)
    joint = true.component_distribution.log_prob(torch.tensor(z.numpy()).unsqueeze(-2)).exp()
    joint = joint * true.mixture_distribution.probs
    shares = joint / joint.sum(-1, keepdim=True)
    np.testing.assert_allclose(prior.responsibilities(z).detach(), shares, rtol=1e-9)


def test_draws_have_the_moments_of_the_mixture():
    prior, n = mixture(), 40_000
    with weft.no_grad():
        drawn = prior.draw(n, 2, weft.float64, generator=seeded(3)).numpy()
    true = theirs(prior)
    error = np.sqrt(true.variance.numpy() / n)
    assert (np.abs(drawn.mean(0) - true.mean.numpy()) < 4.5 * error).all()
    np.testing.assert_allclose(drawn.var(0), true.variance.numpy(), rtol=0.06)


def test_any_choice_of_clusters_bounds_log_p_from_below():
    """log p(z) − Σ q(c) (log π_c p(z | c) − log q(c)) = KL(q(c) ‖ p(c | z)), 0 for Bayes' choice: the paper's bound."""
    prior, z = mixture(), weft.randn(6, 2, generator=seeded(5), **DOUBLE)
    for share in (weft.full((6, 3), 1 / 3, **DOUBLE), prior.responsibilities(z)):
        bound = (share * (prior.joint(z) - share.log())).sum(1)
        gap = (share * (share.log() - prior.responsibilities(z).log())).sum(1)
        np.testing.assert_allclose((prior.log_prob(z) - bound).detach(), gap.detach(), atol=1e-12)
        assert (gap >= -1e-12).all()


def planted(n=300):
    """Three sequences of 20 bits, of which a tenth are wrong."""
    weft.manual_seed(0)
    kinds = weft.arange(n) % 3
    centres = weft.bernoulli(weft.full((3, 20), 0.5), generator=seeded(1))
    wrong = weft.bernoulli(weft.full((n, 20), 0.1))
    return (centres[kinds] - wrong).abs(), kinds


def test_planted_clusters_are_found_in_three_steps():
    x, kinds = planted()
    model = VaDE(20, (32,), 2, clusters=3)
    optimizer = weft.optim.Adam(model.parameters(), lr=5e-3)

    def trained(loss, steps):
        @weft.compile
        def step():
            optimizer.zero_grad()
            value = loss(x)
            value.backward()
            optimizer.step()
            return value

        return [step().item() for _ in range(steps)]

    before = trained(model.reconstruction_loss, 100)
    model.start(x, generator=seeded())
    losses = trained(model.loss, 150)
    assert before[-1] < before[0] - 3 and losses[-1] < losses[0]
    found = model.predict(x)
    assert clustering_accuracy(found.numpy(), kinds.numpy()) > 0.97
    shares = model.assign(x, samples=8, generator=seeded())
    np.testing.assert_allclose(shares.sum(1), 1.0, rtol=1e-5)
    assert clustering_accuracy(shares.argmax(1).numpy(), kinds.numpy()) > 0.97
    assert check_elbo(model, x[:60]).mutual_information > math.log(3) - 0.3
    drawn = model.sample(300, generator=seeded())  # each near one of the sequences
    nearest = (drawn.unsqueeze(1) - weft.bernoulli(weft.full((3, 20), 0.5), generator=seeded(1))).abs().sum(2).amin(1)
    assert nearest.mean().item() < 4


def test_what_is_refused():
    with pytest.raises(OptionError, match="at least one cluster"):
        MixturePrior(0, 2)
    with pytest.raises(ShapeError, match=r"codes \(N, 2\)"):
        MixturePrior(2, 2).start(weft.zeros(5, 3))
    with pytest.raises(UnsupportedError, match="found, not given"):
        MixturePrior(2, 2).log_prob(weft.zeros(1, 3, 2), weft.zeros(3, 1))
