"""Markov random fields and Boltzmann machines against enumeration, closed forms and Onsager."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate

import weft
from weft.errors import LinAlgError, ShapeError, UnsupportedError
from weft.models.energy import (
    BoltzmannMachine,
    GaussianMRF,
    IsingLattice,
    PairwiseMRF,
    onsager_energy,
    onsager_magnetisation,
)
from weft.models.energy.ising import CRITICAL
from weft.models.generative import binary_states, check_gradient_estimator, check_normalised, grid


def seeded(seed: int = 0) -> weft.Generator:
    return weft.Generator().manual_seed(seed)


def field(size: int, values=(0.0, 1.0), scale: float = 0.7, seed: int = 0) -> PairwiseMRF:
    made = PairwiseMRF(size, values, dtype=weft.float64)
    with weft.no_grad():
        made.coupling.copy_(scale * weft.randn(size, size, generator=seeded(seed)))
        made.bias.copy_(0.5 * weft.randn(size, generator=seeded(seed + 1)))
    return made


@pytest.mark.parametrize("values", [(0.0, 1.0), (-1.0, 1.0)])
def test_pairwise_field_against_a_plain_sum(values):
    model = field(5, values)
    upper, bias = np.triu(model.coupling.detach().numpy(), 1), model.bias.detach().numpy()
    states = np.array(list(itertools.product(values, repeat=5)))
    weights = np.exp([x @ upper @ x + bias @ x for x in states])
    p = weights / weights.sum()
    np.testing.assert_allclose(model.log_prob(weft.tensor(states)).detach().numpy(), np.log(p), atol=1e-10)
    mean, second = (part.detach().numpy() for part in model.moments())
    np.testing.assert_allclose(mean, p @ states, atol=1e-10)
    np.testing.assert_allclose(second, np.einsum("n,ni,nj->ij", p, states, states), atol=1e-10)
    check_normalised(model.log_prob, weft.tensor(states), tolerance=1e-9)
    # p(x_k | rest) as a ratio of two joint probabilities
    table = {tuple(x): q for x, q in zip(states, p, strict=True)}
    other = lambda x, k: (*x[:k], values[0] + values[1] - x[k], *x[k + 1 :])
    pseudo = [
        sum(np.log(table[tuple(x)] / (table[tuple(x)] + table[other(tuple(x), k)])) for k in range(5)) for x in states
    ]
    np.testing.assert_allclose(model.pseudo_log_likelihood(weft.tensor(states)).detach().numpy(), pseudo, atol=1e-10)


@pytest.mark.parametrize("values", [(0.0, 1.0), (-1.0, 1.0)])
def test_gibbs_marginals_against_enumeration(values):
    model = field(8, values, scale=0.5)
    mean, second = (part.detach() for part in model.moments())
    drawn = weft.compile(lambda g: model.sample(4000, generator=g, sweeps=60))(seeded(3))
    error = ((second.diagonal() - mean**2) / 4000).sqrt()
    assert ((drawn.mean(0) - mean).abs() < 4.5 * error).all()
    pairs = drawn.mT @ drawn / 4000
    assert ((pairs - second).abs() < 4.5 * (drawn.mT**2 @ drawn**2 / 4000 / 4000).sqrt() + 1e-12).all()


def test_gibbs_leaves_the_distribution_as_it_is():
    """One sweep from exact samples is still exact, and units before `first` stay: the test a wrong sweep fails."""
    model = field(4, scale=1.5)
    states = binary_states(4, weft.float64)
    p = model.log_prob(states).exp().detach()
    start = states[weft.multinomial(p, 40000, replacement=True, generator=seeded(5))]
    after = model.gibbs(start, 1, seeded(6))
    counts = weft.bincount((after @ weft.tensor([1.0, 2, 4, 8]).double()).long(), minlength=16) / 40000
    assert ((counts - p).abs() < 4.5 * (p * (1 - p) / 40000).sqrt()).all()
    assert weft.equal(model.gibbs(start, 3, seeded(6), first=2)[:, :2], start[:, :2])


def test_compiled_gibbs_has_the_stream_of_eager():
    model = field(6)
    run = lambda g: model.sample(30, generator=g, sweeps=7)
    assert weft.equal(weft.compile(run)(seeded(1)), run(seeded(1)))
    lattice = IsingLattice(4, 6, 0.4)
    start = weft.ones(5, 4, 6)
    chain = lambda x, g: lattice.chain(x, 9, g)
    (x, seen), (y, same) = weft.compile(chain)(start, seeded(2)), chain(start, seeded(2))
    assert weft.equal(x, y) and weft.allclose(seen["energy"], same["energy"])


def test_exact_likelihood_learns_a_field():
    truth, model = field(5, scale=1.0, seed=4), PairwiseMRF(5, dtype=weft.float64)
    states = binary_states(5, weft.float64)
    p = truth.log_prob(states).exp().detach()
    optimizer = weft.optim.LBFGS(model.parameters(), max_iter=60, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = -(p * model.log_prob(states)).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert (model.weight - truth.weight).abs().max() < 1e-3
    slopes = weft.autograd.grad(-(p * truth.pseudo_log_likelihood(states)).sum(), (truth.coupling, truth.bias))
    assert all(slope.abs().max() < 1e-9 for slope in slopes)  # pseudo-likelihood has its optimum there, too


# ------------------------------------------------------------------------------------------ Ising


def test_a_lattice_is_a_pairwise_field():
    lattice, model = IsingLattice(4, 4, 0.37, 0.1, dtype=weft.float64), PairwiseMRF(16, (-1.0, 1.0), dtype=weft.float64)
    with weft.no_grad():
        for i, j in itertools.product(range(4), repeat=2):
            for other in (4 * i + (j + 1) % 4, 4 * ((i + 1) % 4) + j):
                low, high = sorted((4 * i + j, other))
                model.coupling[low, high] += 0.37
        model.bias += 0.1
    x = 2 * weft.bernoulli(weft.full((9, 16), 0.5).double(), generator=seeded()) - 1
    assert weft.allclose(lattice.energy(x.reshape(9, 4, 4)), model.energy(x))
    assert lattice.log_partition().item() == pytest.approx(model.log_partition().item(), abs=1e-9)


def test_partition_function_of_the_square_against_kaufman():
    """log Z of the m×n torus in closed form (Kaufman 1949): a product over modes, no state is counted."""
    m, n, k = 4, 4, 0.3
    gamma = lambda r: (
        2 * k + math.log(math.tanh(k))
        if r == 0
        else math.acosh(math.cosh(2 * k) / math.tanh(2 * k) - math.cos(math.pi * r / n))
    )
    half, odd, even = m / 2, range(1, 2 * n, 2), range(0, 2 * n, 2)
    terms = [math.prod(2 * f(half * gamma(r)) for r in modes) for modes in (odd, even) for f in (math.cosh, math.sinh)]
    closed = -math.log(2) + m * n / 2 * math.log(2 * math.sinh(2 * k)) + math.log(sum(terms))
    assert IsingLattice(m, n, k, dtype=weft.float64).log_partition().item() == pytest.approx(closed, abs=1e-9)


def test_chain_means_against_enumeration():
    lattice = IsingLattice(4, 4, 0.3)
    expected = lattice.expected()
    start = 2 * weft.bernoulli(weft.full((200, 4, 4), 0.5), generator=seeded(1)) - 1
    _, seen = weft.compile(lambda x, g: lattice.chain(x, 300, g))(start, seeded(2))
    for name, values in seen.items():
        chains = values[50:].mean(0)  # independent chains: their spread is the error
        assert abs(chains.mean().item() - expected[name]) < 4.5 * chains.std().item() / math.sqrt(200), name


def test_onsager_is_the_slope_of_the_free_energy():
    """u = −d(log Z / n)/dK of Onsager's double integral, and its limits."""

    def log_partition(k):
        inside = lambda b, a: math.log(math.cosh(2 * k) ** 2 - math.sinh(2 * k) * (math.cos(a) + math.cos(b)))
        return math.log(2) + integrate.dblquad(inside, 0, math.pi, 0, math.pi, epsabs=1e-9)[0] / (2 * math.pi**2)

    for k in (0.2, 0.35, 0.6):
        slope = (log_partition(k + 1e-3) - log_partition(k - 1e-3)) / 2e-3
        assert -slope == pytest.approx(float(onsager_energy(k)), abs=2e-5)
    assert float(onsager_energy(CRITICAL)) == pytest.approx(-math.sqrt(2), abs=1e-6)
    assert onsager_magnetisation([0.3, CRITICAL, 0.5, 3.0]).round(6).tolist() == [0, 0, 0.911319, 1]


@pytest.mark.slow
@pytest.mark.parametrize("coupling", [0.3, 0.5])
def test_sixty_four_squared_follows_onsager(coupling):
    lattice = IsingLattice(64, 64, coupling)
    _, seen = weft.compile(lambda x, g: lattice.chain(x, 2000, g))(weft.ones(8, 64, 64), seeded(4))
    energy = seen["energy"][500:].mean(0)
    assert abs(energy.mean().item() - float(onsager_energy(coupling))) < 4 * energy.std().item() / math.sqrt(8) + 1e-3
    if coupling > CRITICAL:
        assert seen["magnetisation"][500:].mean().item() == pytest.approx(
            float(onsager_magnetisation(coupling)), abs=5e-3
        )


# --------------------------------------------------------------------------- Gaussian and Boltzmann


def gaussian() -> GaussianMRF:
    root = weft.randn(4, 4, generator=seeded(8), dtype=weft.float64)
    return GaussianMRF(root @ root.mT + weft.eye(4).double(), weft.randn(4, generator=seeded(9), dtype=weft.float64))


def test_gaussian_field_is_the_normal_distribution():
    model = gaussian()
    j, g = model.precision.detach().numpy(), model.potential.detach().numpy()
    np.testing.assert_allclose(model.mean.detach().numpy(), np.linalg.inv(j) @ g, atol=1e-10)
    np.testing.assert_allclose(model.covariance.detach().numpy(), np.linalg.inv(j), atol=1e-10)
    x = weft.randn(6, 4, generator=seeded(), dtype=weft.float64)
    np.testing.assert_allclose(
        model.log_prob(x).detach().numpy(), model.distribution().log_prob(x).detach().numpy(), atol=1e-9
    )
    np.testing.assert_allclose(model.score(x).detach().numpy(), g - x.numpy() @ j, atol=1e-9)
    flat = GaussianMRF(weft.tensor([[1.5, 0.4], [0.4, 0.8]]).double(), weft.tensor([0.3, -0.2]).double())
    check_normalised(flat.log_prob, *grid([(-9, 9), (-9, 9)], 120), tolerance=1e-6)


@pytest.mark.parametrize("how", ["sample", "gibbs"])
def test_draws_of_a_gaussian_field_have_its_moments(how):
    model, n = gaussian(), 20000
    start = weft.zeros(n, 4).double()
    drawn = model.sample(n, generator=seeded(1)) if how == "sample" else weft.compile(model.gibbs)(start, 40, seeded(1))
    covariance = model.covariance.detach()
    error = (covariance.diagonal() / n).sqrt()
    assert ((drawn.mean(0) - model.mean.detach()).abs() < 4.5 * error).all()
    spread = ((covariance**2 + covariance.diagonal().outer(covariance.diagonal())) / n).sqrt()
    assert ((drawn.mT.cov() - covariance).abs() < 4.5 * spread).all()


def test_gaussian_fields_that_are_none():
    with pytest.raises(LinAlgError, match="symmetric"):
        GaussianMRF(weft.tensor([[1.0, 0.2], [0.0, 1.0]]))
    with pytest.raises(LinAlgError):
        GaussianMRF(-weft.eye(2)).log_prob(weft.zeros(1, 2))


def machine() -> BoltzmannMachine:
    made = BoltzmannMachine(4, 3, dtype=weft.float64)
    made.joint.load_state_dict(field(7, scale=0.8, seed=6).state_dict())
    return made


def test_boltzmann_machine_sums_its_hidden_units():
    model = machine()
    states, hidden = binary_states(4, weft.float64), binary_states(3, weft.float64)
    check_normalised(model.log_prob, states, tolerance=1e-9)
    joint = weft.stack([model.joint.log_prob(weft.cat([states, h.expand(16, 3)], 1)) for h in hidden])
    assert weft.allclose(model.log_prob(states), joint.logsumexp(0))


def test_phases_of_a_boltzmann_machine_estimate_the_exact_gradient():
    model = machine()
    v = binary_states(4, weft.float64)[[3, 5, 14]].repeat(40, 1)
    parameters = list(model.parameters())
    exact = weft.autograd.grad(-model.log_prob(v).mean(), parameters)
    generator = seeded(7)
    chains = model.joint.sample(200, generator=generator, sweeps=60)

    @weft.compile
    def step(chains, generator):
        loss, chains = model.phases(v, chains, sweeps=8, generator=generator)
        return weft.autograd.grad(loss, parameters), chains

    def estimate():
        nonlocal chains
        slopes, chains = step(chains, generator)
        return slopes

    check_gradient_estimator(estimate, exact, draws=60)


def test_mean_field_solves_its_equation_and_is_exact_without_hidden_links():
    model = machine()
    v = binary_states(4, weft.float64)
    mean = model.mean_field(v, 200)
    w, b = model.joint.weight[4:].detach(), model.joint.bias[4:].detach()
    assert weft.allclose(mean, weft.sigmoid(v @ w[:, :4].mT + b + mean @ w[:, 4:]))
    with weft.no_grad():
        model.joint.coupling[4:, 4:] = 0
    h = binary_states(3, weft.float64)
    both = weft.cat([v.repeat_interleave(8, 0), h.repeat(16, 1)], 1)
    given = (-model.joint.energy(both)).reshape(16, 8).softmax(1) @ h
    assert weft.allclose(model.mean_field(v, 1), given.detach())


def test_large_models_say_what_they_have():
    with pytest.raises(
        UnsupportedError, match=r"PairwiseMRF has no log_prob; it has energy \(exact\), sample \(estimate\)"
    ):
        PairwiseMRF(30).log_prob(weft.zeros(1, 30))
    with pytest.raises(UnsupportedError, match="BoltzmannMachine has no energy"):
        BoltzmannMachine(5, 20).energy(weft.zeros(1, 5))
    with pytest.raises(UnsupportedError, match="takes no condition"):
        PairwiseMRF(3).sample(2, condition=1)
    with pytest.raises(ShapeError, match=r"expected x of shape \(B, 3\)"):
        PairwiseMRF(3).energy(weft.zeros(2, 4))
    with pytest.raises(ShapeError, match="even sides"):
        IsingLattice(3, 4, 0.1)
