"""Hopfield networks: theorems about their energy, rules of storage, capacity, and attention."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.errors import OptionError, ShapeError, UnsupportedError
from weft.models.energy import Hopfield, ModernHopfield, hebbian, pseudo_inverse, recall_overlap, storkey


@pytest.fixture
def random():
    return weft.Generator().manual_seed(0)


def spins(generator, *shape):
    return 2 * weft.bernoulli(weft.full(shape, 0.5), generator=generator) - 1


def test_energy_never_rises_asynchronously(random):
    """Every single update, on couplings that store far too much."""
    network = Hopfield(spins(random, 30, 24))
    state = spins(random, 16, 24)
    before = network.energy(state)
    for unit in range(24):
        field = state @ network.weight[unit]
        state = weft.where(
            weft.arange(24) == unit, weft.where(field.abs() < 1e-5, state[:, unit], field.sign())[:, None], state
        )
        after = network.energy(state)
        assert (after <= before + 1e-5).all()
        before = after
    assert weft.equal(network.recall(state, sweeps=0), state)


def test_one_sweep_is_the_updates_one_by_one(random):
    network, state = Hopfield(spins(random, 3, 10)), spins(random, 5, 10)
    weight, expected = network.weight.numpy(), state.numpy().copy()
    for row in expected:
        for unit in range(10):
            field = row @ weight[unit]
            row[unit] = row[unit] if abs(field) < 1e-5 else np.sign(field)
    assert (network.recall(state, sweeps=1).numpy() == expected).all()


def test_recall_ends_in_a_valley(random):
    network = Hopfield(spins(random, 20, 40))
    for order in (None, random):
        assert network.is_stable(network.recall(spins(random, 20, 40), 40, order)).all()


def test_synchronous_recall_ends_in_a_cycle_of_two():
    network = Hopfield(weft.tensor([[1.0, 1.0]]))  # two units that copy each other
    state = weft.tensor([[1.0, -1.0]])
    assert network.recall_synchronous(state, 1).tolist() == [[-1.0, 1.0]]
    assert network.recall_synchronous(state, 2).tolist() == state.tolist()
    generator = weft.Generator().manual_seed(3)
    large = Hopfield(spins(generator, 30, 40))
    late = large.recall_synchronous(spins(generator, 50, 40), 200)
    assert weft.equal(large.recall_synchronous(late, 2), late)  # Goles: a fixed point or a 2-cycle, nothing else


def test_rules_against_their_formulas(random):
    patterns = spins(random, 4, 9)
    x = patterns.numpy()
    hebb = np.einsum("pi,pj->ij", x, x) / 9
    np.testing.assert_allclose(hebbian(patterns).numpy(), hebb - np.diag(np.diag(hebb)), atol=1e-6)
    projection = x.T @ np.linalg.solve(x @ x.T, x)
    np.testing.assert_allclose(pseudo_inverse(patterns).numpy(), projection - np.diag(np.diag(projection)), atol=1e-5)
    weight = np.zeros((9, 9))
    for p in x:
        local = np.array(
            [[sum(weight[i, k] * p[k] for k in range(9) if k not in (i, j)) for j in range(9)] for i in range(9)]
        )
        weight = weight + (np.outer(p, p) - p[:, None] * local.T - local * p[None, :]) / 9
        np.fill_diagonal(weight, 0)
    np.testing.assert_allclose(storkey(patterns).numpy(), weight, atol=1e-6)


def test_pseudo_inverse_holds_dependent_looking_patterns_that_hebb_loses(random):
    base = spins(random, 1, 40)
    flips = weft.where(weft.rand(12, 40, generator=random) < 0.2, -1.0, 1.0)
    patterns = base * flips  # twelve variations of one
    assert Hopfield(patterns, "pseudo-inverse").is_stable(patterns).all()
    assert not Hopfield(patterns).is_stable(patterns).all()


def test_capacity_breaks_down_between_012_and_016():
    """Amit, Gutfreund and Sompolinsky: near α = 0.138, where the overlap jumps away from almost one."""
    overlap = recall_overlap(2000, [0.12, 0.16], probes=30, generator=weft.Generator().manual_seed(5)).mean(1)
    assert overlap[0] > 0.95 and overlap[1] < 0.8


def test_storkey_holds_more_than_hebb():
    at = lambda rule: recall_overlap(150, [0.2], rule=rule, generator=weft.Generator().manual_seed(2)).mean().item()
    assert at("storkey") > 0.97 and at("hebbian") < 0.85


def test_modern_step_is_attention(random):
    patterns, state = weft.randn(7, 16, generator=random), weft.randn(5, 16, generator=random)
    network = ModernHopfield(patterns, beta=0.25)
    attention = weft.nn.functional.scaled_dot_product_attention(state, patterns, patterns, scale=0.25)
    np.testing.assert_allclose(network.recall(state).numpy(), attention.numpy(), atol=1e-6)


def test_modern_energy_falls_and_its_slope_is_the_step(random):
    patterns, state = weft.randn(9, 12, generator=random).double(), weft.randn(6, 12, generator=random).double()
    network = ModernHopfield(patterns, beta=1.3)
    np.testing.assert_allclose(network.score(state).numpy(), (network.recall(state) - state).numpy(), atol=1e-10)
    energies = weft.stack([network.energy(network.recall(state, steps)) for steps in range(6)])
    assert (energies.diff(dim=0) <= 1e-12).all() and (energies >= 0).all()


def test_modern_network_completes_half_a_pattern(random):
    patterns = spins(random, 200, 64)
    half = patterns.clone()
    half[:, 32:] = 0
    assert (ModernHopfield(patterns, beta=1.0).recall(half) - patterns).abs().max() < 0.02


def test_compiled_recall_is_the_same(random):
    network, state = Hopfield(spins(random, 3, 20)), spins(random, 6, 20)
    seeded = lambda: weft.Generator().manual_seed(7)
    compiled = weft.compile(lambda x, g: network.recall(x, 5, g))
    assert weft.equal(compiled(state, seeded()), network.recall(state, 5, seeded()))


def test_what_is_wrong_is_said(random):
    with pytest.raises(OptionError, match="rule must be one of hebbian, pseudo-inverse, storkey"):
        Hopfield(spins(random, 2, 4), "oja")
    with pytest.raises(ShapeError, match="patterns \\(P, N\\) of −1 and 1"):
        Hopfield(weft.zeros(2, 4))
    with pytest.raises(UnsupportedError, match="Hopfield has no log_prob"):
        Hopfield(spins(random, 2, 4)).log_prob(weft.ones(1, 4))
