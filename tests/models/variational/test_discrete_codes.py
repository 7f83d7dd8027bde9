"""The Gumbel-softmax VAE: choices, divergence and bound against sums over all codes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

import weft
from weft import nn
from weft.errors import OptionError, ShapeError
from weft.models.generative import binary_states
from weft.models.variational import DenseGumbelVAE, GumbelVAE, RelaxedELBO, gumbel_noise


@pytest.fixture(autouse=True)
def seeded():
    weft.manual_seed(0)


def small(**options):
    return GumbelVAE(nn.Linear(5, 6), nn.Linear(6, 5), variables=2, classes=3, **options)


def every_code(model):
    """All K^N codes, one-hot: (9, 6)"""
    rows = weft.tensor(list(itertools.product(range(model.classes), repeat=model.variables)))
    return nn.functional.one_hot(rows, model.classes).flatten(1).float()


def test_the_largest_of_gumbel_noise_is_a_categorical_draw():
    p = weft.tensor([0.1, 0.2, 0.3, 0.4])
    chosen = (p.log() + gumbel_noise((200_000, 4), weft.float32)).argmax(1)
    share = (chosen.unsqueeze(1) == weft.arange(4)).float().mean(0)
    np.testing.assert_allclose(share.numpy(), p.numpy(), atol=5 * math.sqrt(0.25 / 200_000))


def test_the_divergence_is_the_exact_categorical_one():
    """Against PyTorch's KL of categoricals to the uniform one."""
    model, x = small(), weft.bernoulli(weft.full((4, 5), 0.5))
    logits = model.logits(x)
    ours = torch.distributions.Categorical(logits=torch.tensor(logits.detach().numpy()))
    uniform = torch.distributions.Categorical(logits=torch.zeros(4, 2, 3))
    expected = torch.distributions.kl_divergence(ours, uniform).sum(1)
    np.testing.assert_allclose(model.divergence(logits).detach().numpy(), expected.numpy(), rtol=1e-5)


def test_the_bound_is_below_the_sum_over_all_codes_and_rises_to_it():
    model, x = small().eval(), binary_states(5)
    codes = every_code(model)
    with weft.no_grad():
        each = model.likelihood.log_prob(model.said(codes).repeat_interleave(len(x), 0), x)  # (9, 32)
        true = each.logsumexp(0) - math.log(9)
        assert true.exp().sum().item() == pytest.approx(1, abs=1e-5)
        posterior = (codes.reshape(9, 1, 2, 3) * model.logits(x)).sum((-2, -1))  # log q(code | x): (9, 32)
        exact = (posterior.exp() * (each - math.log(9) - posterior)).sum(0)
        drawn = model.elbo(x, samples=20_000)
    np.testing.assert_allclose(drawn.numpy(), exact.numpy(), atol=0.05)
    assert (exact <= true).all()
    many = model.log_prob_bound(x, samples=5000)
    np.testing.assert_allclose(many.value.numpy(), true.numpy(), atol=0.05)


def test_soft_choices_become_hard_ones_as_the_temperature_falls():
    model, x = small(temperature=1e-3, least=1e-3), weft.bernoulli(weft.full((50, 5), 0.5))
    y = model.relaxed(model.logits(x))
    assert (y.amax(-1) > 0.999).float().mean().item() > 0.95
    assert weft.allclose(y.sum(-1), weft.ones(50, 2))


def test_the_gradient_of_soft_choices_nears_the_exact_one():
    """Of E over codes of f = Σ w z with two classes: the bias at τ = 0.1 is small, at τ = 2 it is plain."""
    logits, w = weft.tensor([[[0.4, -0.3]]], requires_grad=True), weft.tensor([1.0, -2.0])
    (exact,) = weft.autograd.grad((logits.softmax(-1) * w).sum() ** 1, logits)
    away = {}
    for tau in (0.1, 2.0):
        model = GumbelVAE(nn.Linear(1, 2), nn.Linear(2, 1), 1, 2, temperature=tau, least=tau)
        y = model.relaxed(logits.expand(40_000, 1, 2))
        (found,) = weft.autograd.grad((y * w).sum() / 40_000, logits)
        away[tau] = (found - exact).abs().max().item()
    assert away[0.1] < 0.03 < 0.05 < away[2.0]


def test_straight_through_choices():
    """The value is that of hard choices, the gradient of the soft ones."""
    model, x = small(objective=RelaxedELBO(straight=True)), weft.bernoulli(weft.full((6, 5), 0.5))
    generator = lambda: weft.Generator().manual_seed(3)
    logits = model.logits(x)
    hard = model.hard(model.relaxed(logits, generator()))
    expected = model.likelihood.log_prob(model.said(hard.flatten(1)), x)[0] - model.divergence(logits)
    weft.testing.assert_close(model.objective(model, x, None, generator()), expected)
    model.loss(x, generator=generator()).backward()
    assert model.encoder.weight.grad.abs().sum() > 0


def test_the_temperature_follows_its_schedule_in_training_alone():
    model, x = small(temperature=2.0, least=0.5, rate=0.3), weft.bernoulli(weft.full((4, 5), 0.5))
    seen = [model.temperature.item()]
    step = weft.compile(model.loss)
    for _ in range(6):
        step(x)
        seen.append(model.temperature.item())
    np.testing.assert_allclose(seen, [max(0.5, 2 * math.exp(-0.3 * n)) for n in range(7)], rtol=1e-5)
    model.eval()
    model.loss(x)
    assert model.temperature.item() == seen[-1] and "steps" in model.state_dict()


def test_a_short_training_learns_four_patterns():
    """Four bit patterns with noise, two variables of two classes: the bound nears the entropy of the data."""
    centres = weft.bernoulli(weft.full((4, 16), 0.5))
    x = weft.bernoulli(centres[weft.randint(0, 4, (512,))] * 0.9 + 0.05)
    model = DenseGumbelVAE(16, (32,), 2, 2, least=0.3, rate=0.01)
    optimizer = weft.optim.Adam(model.parameters(), lr=0.01)

    @weft.compile
    def step(x):
        loss = model.loss(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(200):
        step(x)
    entropy = math.log(4) - 16 * (0.95 * math.log(0.95) + 0.05 * math.log(0.05))
    found = -model.eval().log_prob_bound(x, samples=50).value.mean().item()
    independent = -(x.mean(0) * x.mean(0).log() + (1 - x.mean(0)) * (1 - x.mean(0)).log()).nansum().item()
    assert entropy - 0.3 < found < entropy + 0.6 < independent


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: GumbelVAE(nn.Linear(5, 6), nn.Linear(6, 5), 0, 3), OptionError, "variables ≥ 1"),
        (lambda: small(temperature=0.1), OptionError, "least ≤ temperature"),
        (lambda: GumbelVAE(nn.Linear(5, 6), nn.Linear(6, 5), 2, 4).elbo(weft.ones(2, 5)), ShapeError, r"\(2, 8\)"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
