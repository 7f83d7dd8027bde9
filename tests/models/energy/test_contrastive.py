"""Learning of RBMs: estimated gradients against exact ones, the centred gradient against its definition, real digits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import weft
from weft.data import load_digits
from weft.errors import ConditionError, OptionError
from weft.models.energy import (
    BernoulliRBM,
    ContrastiveDivergence,
    ParallelTempering,
    PersistentContrastiveDivergence,
    base_rates,
)
from weft.models.generative import binary_states, check_gradient_estimator

from .test_rbm import KINDS, bernoulli, gaussian, seeded, softmax, space


def slopes(loss, rbm):
    return weft.autograd.grad(loss, list(rbm.parameters()))


@pytest.mark.parametrize("kind", ["Bernoulli", "softmax"])
def test_enumerated_negatives_give_the_exact_gradient(kind):
    rbm = KINDS[kind]()
    states = space(rbm)
    v = states[[1, 5, 7]]
    loss = ContrastiveDivergence(rbm).loss(v, states, rbm.log_prob(states).exp().detach())
    for found, exact in zip(slopes(loss, rbm), slopes(-rbm.log_prob(v).mean(), rbm), strict=True):
        np.testing.assert_allclose(found, exact, atol=1e-10)


@pytest.mark.parametrize("make", [bernoulli, gaussian, softmax])
def test_exact_negatives_make_an_unbiased_estimate(make):
    rbm = make()
    v = rbm.exact_sample(5, seeded(1)) + (0 if make is not gaussian else 0.5)
    exact, learning, generator = slopes(-rbm.log_prob(v).mean(), rbm), ContrastiveDivergence(rbm), seeded(2)
    estimate = lambda: slopes(learning.loss(v, rbm.exact_sample(100, generator)), rbm)
    check_gradient_estimator(estimate, exact, draws=150)


def expected_cd(rbm, v, steps):
    """The expected CD-k gradient, from the matrix of transitions between all states; its loss with exact weights."""
    states, hidden = space(rbm), binary_states(rbm.hidden, weft.float64)
    up = rbm.encode(states).detach()
    down = rbm.decode(hidden).detach()
    table = lambda mean, bits: (
        (bits * mean.unsqueeze(1).log() + (1 - bits) * (1 - mean.unsqueeze(1)).log()).sum(-1).exp()
    )
    transition = table(up, hidden) @ table(down, states)  # (S, 2ᴴ) @ (2ᴴ, S)
    start = (states.unsqueeze(0) == v.unsqueeze(1)).all(-1).double().mean(0)  # (S,)
    weights = start @ weft.linalg.matrix_power(transition, steps)
    return slopes(ContrastiveDivergence(rbm).loss(v, states, weights), rbm)


def test_the_bias_of_cd_falls_to_nothing():
    rbm = bernoulli(4, 3, scale=2.0)
    v = space(rbm)[[3, 3, 8, 14]]
    exact = weft.cat([slope.flatten() for slope in slopes(-rbm.log_prob(v).mean(), rbm)])
    bias = [
        (weft.cat([slope.flatten() for slope in expected_cd(rbm, v, steps)]) - exact).norm().item()
        for steps in (1, 2, 4, 8, 16, 200)
    ]
    assert all(after < before for before, after in itertools.pairwise(bias))
    assert bias[0] > 0.05 and bias[-1] < 1e-6, bias


@pytest.mark.parametrize("steps", [1, 2])
def test_cd_is_that_of_its_transitions_and_not_the_exact_one(steps):
    rbm = bernoulli(4, 3, scale=2.0)
    v = space(rbm)[[3, 3, 8, 14]]
    learning, generator = ContrastiveDivergence(rbm, steps), seeded(4)
    many = v.repeat(25, 1)
    step = weft.compile(lambda v, g: slopes(learning(v, g), rbm))
    estimate = lambda: step(many, generator)
    check_gradient_estimator(estimate, expected_cd(rbm, v, steps), draws=200)
    with pytest.raises(ConditionError, match="biased"):
        check_gradient_estimator(estimate, slopes(-rbm.log_prob(v).mean(), rbm), draws=200)


# ------------------------------------------------------------------------------------ chains that go on


def two_modes():
    """All bits up or all down, with a wall between that Gibbs steps do not climb."""
    rbm = BernoulliRBM(6, 2, dtype=weft.float64)
    with weft.no_grad():
        rbm.weight.copy_(weft.full((6, 2), 6.0))
        rbm.visible_bias.fill_(-6.0)
        rbm.hidden_bias.fill_(-18.0)
    return rbm


def test_tempered_chains_cross_walls_and_keep_the_distribution():
    rbm = two_modes()
    states = binary_states(6, weft.float64)
    p = rbm.log_prob(states).exp().detach()
    assert p[[0, 63]].sum() > 0.9 and min(p[0].item(), p[63].item()) > 0.1
    down, base = weft.zeros(1, 6).double(), weft.zeros(6).double()
    learning = ParallelTempering(rbm, 400, 8, steps=60, base=base, generator=seeded(1))
    learning.chains.zero_()
    with weft.no_grad():
        found = weft.compile(learning.negatives)(down, seeded(2))
        stuck = rbm.gibbs(down.expand(400, 6), 60, seeded(3))
    share = lambda v: (v.sum(1) == 6).double().mean().item()
    error = math.sqrt(p[63].item() * (1 - p[63].item()) / 400)
    assert abs(share(found) - p[63].item()) < 4.5 * error
    assert share(stuck) < 0.05


def test_every_temperature_keeps_its_own_distribution():
    rbm = bernoulli(3, 2, scale=1.5)
    base = weft.tensor([0.5, -0.5, 0.0]).double()
    learning = ParallelTempering(rbm, 8000, 3, steps=15, base=base, generator=seeded(5))
    weft.compile(learning.negatives)(weft.zeros(1, 3).double(), seeded(6))
    states = binary_states(3, weft.float64)
    for beta, drawn in zip((0.0, 0.5, 1.0), learning.chains, strict=True):
        p = (-rbm.free_energy(states, beta, base)).softmax(0).detach()
        share = weft.bincount((drawn @ weft.tensor([1.0, 2, 4]).double()).long(), minlength=8) / 8000
        assert ((share - p).abs() < 4.5 * (p * (1 - p) / 8000).sqrt()).all(), beta


def test_persistent_chains_go_on_and_are_saved():
    rbm = bernoulli()
    learning = PersistentContrastiveDivergence(rbm, 7, steps=3, generator=seeded(1))
    before = learning.chains.clone()
    learning(space(rbm)[:5], seeded(2))
    assert weft.equal(learning.chains, rbm.gibbs(before, 3, seeded(2)))
    assert {"chains", "visible_offset", "hidden_offset", "rbm.weight"} <= set(learning.state_dict())


# ------------------------------------------------------------------------------------ centred gradient


def test_centred_step_is_a_plain_step_of_the_centred_machine():
    """E = −(v − μ)ᵀW(h − λ) − bᵀ(v − μ) − cᵀ(h − λ) by autograd, one step of ascent, compared as distributions."""
    rbm, rate = bernoulli(4, 3), 0.3
    states = space(rbm)
    v = states[[2, 5, 5, 11]]
    learning = ContrastiveDivergence(rbm, centred=True, rate=1.0)  # offsets are the means of this batch
    data = [part.detach() for part in rbm.statistics(v)]
    mu, lam = data[1], data[2]
    weight = rbm.weight.detach().clone()
    centred = [weight, (rbm.visible_bias + weight @ lam).detach(), (rbm.hidden_bias + mu @ weight).detach()]

    def log_prob(weight, b, c):
        energy = lambda v: -(v - mu) @ b - weft.nn.functional.softplus((v - mu) @ weight + c).sum(-1)
        shifted = lambda v: -energy(v) - ((v - mu) @ weight @ lam)  # from (h − λ): the part with λ does not sum over h
        return shifted(v) - shifted(states).logsumexp(0)

    ours = rbm.log_prob(v).detach()
    np.testing.assert_allclose(log_prob(*centred), ours, atol=1e-9)  # the same machine in other words
    steps = weft.func.grad(lambda p: log_prob(*p).mean())(tuple(centred))
    expected = log_prob(*(p + rate * g for p, g in zip(centred, steps, strict=True)))
    learning.loss(v, states, rbm.log_prob(states).exp().detach()).backward()
    weft.optim.SGD(rbm.parameters(), lr=rate).step()
    np.testing.assert_allclose(rbm.log_prob(v).detach(), expected, atol=1e-9)


@pytest.mark.parametrize("centred", [True, False])
def test_only_the_centred_gradient_does_not_care_what_is_called_ink(centred):
    """The machine of 1 − v has W → −W, b → −b, c → c + Σ W; steps on both ends keep them mirrors, or do not."""
    rbm, mirror = bernoulli(4, 3), bernoulli(4, 3)
    with weft.no_grad():
        mirror.hidden_bias.add_(rbm.weight.sum(0))
        mirror.weight.neg_()
        mirror.visible_bias.neg_()
    states = space(rbm)
    v = states[[2, 5, 5, 11]]
    np.testing.assert_allclose(rbm.log_prob(v).detach(), mirror.log_prob(1 - v).detach(), atol=1e-9)
    for machine, data in ((rbm, v), (mirror, 1 - v)):
        learning = ContrastiveDivergence(machine, centred=centred)
        if centred:
            learning.centre(data)
        optimizer = weft.optim.SGD(machine.parameters(), lr=0.2)
        for _ in range(5):
            optimizer.zero_grad()
            learning.loss(data, states, machine.log_prob(states).exp().detach()).backward()
            optimizer.step()
    gap = (rbm.log_prob(v) - mirror.log_prob(1 - v)).abs().max().item()
    assert gap < 1e-9 if centred else gap > 1e-2


def test_the_centred_gradient_is_still_that_of_the_likelihood_for_numbers():
    """A centred step is a linear map of the plain gradient, positive definite: along it log p rises."""
    rbm = gaussian()
    v = rbm.exact_sample(50, seeded(1)) + 0.5
    exact = slopes(rbm.log_prob(v).mean(), rbm)
    learning = ContrastiveDivergence(rbm, centred=True)
    learning.centre(v)
    plain = [exact[0], exact[1] * rbm.scale, exact[2]]
    centred = learning._slopes(*plain)
    assert sum((a * b).sum().item() for a, b in zip(centred, exact, strict=True)) > 0
    assert centred[1].shape == rbm.visible_bias.shape


# ------------------------------------------------------------------------------------ real data


def digits():
    images, _ = load_digits()
    bits = weft.tensor((images.reshape(len(images), -1) > 7).astype(np.float32))
    return bits[:1400], bits[1400:]


def trained(compiled: bool, epochs: int):
    weft.manual_seed(0)
    train, _ = digits()
    rbm = BernoulliRBM(64, 10)
    with weft.no_grad():
        rbm.visible_bias.copy_(base_rates(train, 1e-3))
    learning = PersistentContrastiveDivergence(rbm, 100, centred=True, generator=seeded(1))
    learning.centre(train)
    optimizer = weft.optim.SGD(rbm.parameters(), lr=0.3)
    generator = seeded(2)

    def step(v):
        optimizer.zero_grad()
        loss = learning(v, generator)
        loss.backward()
        optimizer.step()
        return loss

    run = weft.compile(step) if compiled else step
    for _ in range(epochs):
        for v in train[weft.randperm(len(train), generator=generator)].split(100):
            run(v)
    return rbm


def test_training_on_digits_beats_independent_pixels():
    train, test = digits()
    rates = (train.mean(0) * len(train) + 1) / (len(train) + 2)
    baseline = weft.distributions.Bernoulli(rates).log_prob(test).sum(1).mean().item()
    figure = trained(True, 40).log_prob(test).mean().item()
    assert figure > baseline + 4, (figure, baseline)


def test_a_compiled_step_learns_as_an_eager_one():
    for a, b in zip(trained(True, 1).parameters(), trained(False, 1).parameters(), strict=True):
        np.testing.assert_allclose(a.detach(), b.detach(), atol=1e-4)


def test_options_that_cannot_be():
    with pytest.raises(OptionError, match="rate must lie"):
        ContrastiveDivergence(bernoulli(), rate=2.0)
    with pytest.raises(OptionError, match="at least 2 temperatures"):
        ParallelTempering(bernoulli(), temperatures=1)
