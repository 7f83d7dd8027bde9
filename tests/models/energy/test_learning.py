"""Machines learn the digits that come with the install, in seconds, and are judged by their exact likelihood of others.

Bits by Bernoulli machines are in test_contrastive.py, deep ones in test_deep.py, planted ratings in test_ratings.py.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft
from weft import nn
from weft.data import load_digits
from weft.models.energy import (
    BoltzmannMachine,
    DeepEnergy,
    GaussianMRF,
    GaussianRBM,
    PairwiseMRF,
    PersistentContrastiveDivergence,
    ReplayBuffer,
    SoftmaxRBM,
)
from weft.models.generative import grid

F = nn.functional


def seeded(seed: int = 0) -> weft.Generator:
    return weft.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def digits():
    """Brightness 0 to 16 of 64 pixels, training and test."""
    rows = weft.tensor(load_digits()[0].reshape(-1, 64).astype(np.float32))
    rows = rows[weft.randperm(len(rows), generator=seeded())]
    return rows[:1400], rows[1400:]


def learn(loss, parameters, train, steps, lr, rows=100):
    optimizer = weft.optim.Adam(parameters, lr=lr)
    generator = seeded(1)

    @weft.compile
    def step(x):
        optimizer.zero_grad()
        loss(x).backward()
        optimizer.step()

    for _ in range(steps):
        step(train[weft.randint(len(train), (rows,), generator=generator)])


def mean_log_prob(model, x):
    with weft.no_grad():
        return model.log_prob(x).mean().item()


def persistent(rbm, train, steps, lr):
    generator = seeded(2)
    learning = PersistentContrastiveDivergence(rbm, 100, centred=True, generator=generator)
    learning.centre(train)
    learn(lambda v: learning(v, generator), rbm.parameters(), train, steps, lr)


def test_a_gaussian_machine_learns_grey_digits(digits):
    shown = [3, 4, 10, 13, 20, 26, 27, 28, 34, 36, 37, 42, 44, 50, 53, 60]  # pixels that have ink in many digits
    train, test = ((part[:, shown] - digits[0][:, shown].mean(0)) / digits[0][:, shown].std(0) for part in digits)
    weft.manual_seed(0)
    rbm = GaussianRBM(16, 8, scale=0.8)
    persistent(rbm, train, 300, 5e-3)
    independent = weft.distributions.Normal(0.0, 1.0).log_prob(test).sum(1).mean().item()
    assert mean_log_prob(rbm, test) > independent + 1


def test_a_softmax_machine_learns_three_greys(digits):
    train, test = (F.one_hot((part / 6).floor().long().clamp(0, 2), 3).float() for part in digits)  # (N, 64, 3)
    shares = (train.sum(0) + 1) / (len(train) + 3)
    rbm = SoftmaxRBM(64, 3, 10)
    with weft.no_grad():
        rbm.visible_bias.copy_(shares.log().flatten())
    persistent(rbm, train, 400, 0.005)
    assert mean_log_prob(rbm, test) > (test * shares.log()).sum((1, 2)).mean().item() + 4


def crop(digits):
    """Bits of twelve pixels in the middle of digits; nats of theirs if they were independent."""
    train, test = ((part.reshape(-1, 8, 8)[:, 2:6, 2:5].flatten(1) > 7).float() for part in digits)
    rates = (train.sum(0) + 1) / (len(train) + 2)
    return train, test, weft.distributions.Bernoulli(rates).log_prob(test).sum(1).mean().item()


def test_a_pairwise_field_learns_bits_by_their_pseudo_likelihood(digits):
    train, test, independent = crop(digits)
    field = PairwiseMRF(12)
    learn(lambda x: -field.pseudo_log_likelihood(x).mean(), field.parameters(), train, 150, 0.05)
    assert mean_log_prob(field, test) > independent + 1


def test_a_boltzmann_machine_learns_bits(digits):
    train, test, independent = crop(digits)
    weft.manual_seed(0)
    machine = BoltzmannMachine(12, 3)
    with weft.no_grad():
        machine.joint.coupling.copy_(0.1 * weft.randn(15, 15))
    generator = seeded(2)
    optimizer = weft.optim.Adam(machine.parameters(), lr=0.03)
    chains = machine.joint.sample(100, generator=generator, sweeps=20)

    @weft.compile
    def step(v, chains):
        optimizer.zero_grad()
        loss, chains = machine.phases(v, chains, 2, generator)
        loss.backward()
        optimizer.step()
        return chains

    for _ in range(200):
        chains = step(train[weft.randint(len(train), (100,), generator=generator)], chains)
    assert mean_log_prob(machine, test) > independent + 1


def test_a_gaussian_field_learns_the_inverse_covariance(digits):
    """Its likelihood has one optimum, Σ⁻¹ and Σ⁻¹ μ: five neighbouring pixels of digits."""
    x = digits[0][:, 26:31].double() / 16
    field = GaussianMRF(weft.eye(5).double(), weft.zeros(5).double())
    optimizer = weft.optim.LBFGS(field.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = -field.log_prob(x).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(field.covariance.detach(), np.cov(x.numpy().T, ddof=0), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(field.mean.detach(), x.mean(0), atol=1e-4)


def test_a_deep_energy_learns_the_plane_of_digits(digits):
    """Zeros, ones and twos in the plane of their two principal components; Z on a grid; against the best normal distribution."""
    images, labels = load_digits()
    chosen = images.reshape(-1, 64)[labels < 3].astype(np.float32)
    chosen = chosen - chosen.mean(0)
    plane = chosen @ np.linalg.svd(chosen, full_matrices=False)[2][:2].T
    x = weft.tensor((plane / plane.std(0)).astype(np.float32))
    x = x[weft.randperm(len(x), generator=seeded())]
    train, test = x[:400], x[400:]
    weft.manual_seed(0)
    bowl = lambda x: (x**2).sum(1) / 4
    net = nn.Sequential(nn.Linear(2, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1))
    model = DeepEnergy(Over(net, bowl), (2,), step=0.02, steps=20)
    generator = seeded(1)
    buffer = ReplayBuffer(model, 500, generator=generator)
    learn(lambda x: buffer(x, generator), model.parameters(), train, 250, 5e-3)
    points, cell = grid([(-4, 4), (-4, 4)], 80, weft.float32)
    with weft.no_grad():
        log_partition = (-model.energy(points)).logsumexp(0).item() + math.log(cell)
        found = -model.energy(test).mean().item() - log_partition
    normal = weft.distributions.MultivariateNormal(train.mean(0), train.mT.cov()).log_prob(test).mean().item()
    assert found > normal + 0.2, (found, normal)


class Over(nn.Module):
    """A network over a bowl, so that there is a Z from the first step on."""

    def __init__(self, net, bowl):
        super().__init__()
        self.net, self.bowl = net, bowl

    def forward(self, x):
        return self.net(x)[:, 0] + self.bowl(x)
