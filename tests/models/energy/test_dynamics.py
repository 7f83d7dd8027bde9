"""Langevin dynamics and Hamiltonian Monte Carlo against closed forms, and a deep energy against a density on a grid."""

from __future__ import annotations

import math

import pytest

import weft
from weft import nn
from weft.errors import OptionError, ShapeError, UnsupportedError
from weft.models.energy import DeepEnergy, GaussianMRF, LangevinDynamics, ReplayBuffer, hamiltonian, langevin
from weft.models.generative import grid

NORMAL = lambda x: 0.5 * (x**2).sum(-1)


def seeded(seed: int = 0) -> weft.Generator:
    return weft.Generator().manual_seed(seed)


@pytest.mark.parametrize("step", [0.1, 0.5])
def test_langevin_on_a_normal_has_its_variance_and_its_bias(step):
    """x' = (1 − ε) x + √(2ε) ξ rests at variance 2ε / (1 − (1 − ε)²) = 1 / (1 − ε/2): another noise would rest elsewhere."""
    n = 40000
    start = weft.zeros(n, 1).double()
    drawn = weft.compile(lambda x, g: langevin(NORMAL, x, 120, step, g))(start, seeded(1))
    expected = 1 / (1 - step / 2)
    assert abs((drawn**2).mean().item() - expected) < 4.5 * expected * math.sqrt(2 / n)
    assert abs(drawn.mean().item()) < 4.5 * math.sqrt(expected / n)


def test_one_step_is_its_formula():
    x = weft.randn(5, 3, generator=seeded(), dtype=weft.float64)
    noise = weft.randn(5, 3, generator=seeded(7), dtype=weft.float64)
    assert weft.allclose(langevin(NORMAL, x, 1, 0.2, seeded(7)), x - 0.2 * x + math.sqrt(0.4) * noise)
    held = langevin(lambda x: 100 * NORMAL(x), x, 1, 0.2, seeded(7), clip=0.5)
    assert weft.allclose(held, x - 0.2 * (100 * x).clamp(-0.5, 0.5) + math.sqrt(0.4) * noise)


def test_chains_under_the_names_of_libraries_are_the_same_walk():
    x = weft.randn(5, 3, generator=seeded(), dtype=weft.float64)
    chains = LangevinDynamics(NORMAL, 0.2)
    assert weft.allclose(chains.sample(x, 12, seeded(7)), langevin(NORMAL, x, 12, 0.2, seeded(7)))
    seen = chains.trajectory(x, 12, thin=4, generator=seeded(7))
    assert seen.shape == (3, 5, 3) and weft.allclose(seen[1], langevin(NORMAL, x, 8, 0.2, seeded(7)))
    assert weft.equal(seen[-1], chains.sample(x, 12, seeded(7)))


def test_the_square_of_the_noises_scale_is_a_temperature():
    """exp(−E / T) of a standard normal has variance T, and T / (1 − ε/2) at a step of ε."""
    n, step = 40_000, 0.3
    drawn = LangevinDynamics(NORMAL, step, noise_scale=1.5).sample(weft.zeros(n, 1).double(), 120, seeded(1))
    expected = 1.5**2 / (1 - step / 2)
    assert abs((drawn**2).mean().item() - expected) < 4.5 * expected * math.sqrt(2 / n)
    for wrong in ({"step_size": 0.0}, {"noise_scale": -1.0}):
        with pytest.raises(OptionError, match="above 0"):
            LangevinDynamics(NORMAL, **wrong)
    with pytest.raises(OptionError, match="thin"):
        LangevinDynamics(NORMAL).trajectory(weft.zeros(1, 1), 5, thin=6)


def test_hamiltonian_chains_have_no_bias_where_langevin_has():
    field = GaussianMRF(weft.tensor([[2.0, 0.8], [0.8, 1.0]]).double(), weft.tensor([1.0, 0.0]).double())
    n = 10000
    run = weft.compile(lambda x, g: hamiltonian(field.energy, x, 40, 0.45, g, leaps=3))
    drawn, accepted = run(weft.zeros(n, 2).double(), seeded(2))
    covariance, mean = field.covariance.detach(), field.mean.detach()
    assert ((drawn.mean(0) - mean).abs() < 4.5 * (covariance.diagonal() / n).sqrt()).all()
    spread = ((covariance**2 + covariance.diagonal().outer(covariance.diagonal())) / n).sqrt()
    assert ((drawn.mT.cov() - covariance).abs() < 4.5 * spread).all()
    assert 0.7 < accepted.mean().item() < 0.995


def test_leapfrogs_keep_the_energy_and_tiny_steps_are_accepted():
    _, accepted = hamiltonian(NORMAL, weft.randn(50, 3, generator=seeded()), 3, 1e-3, seeded(1))
    assert accepted.mean().item() == pytest.approx(1)


@pytest.mark.parametrize("walk", [langevin, hamiltonian])
def test_compiled_walks_have_the_stream_of_eager(walk):
    net = nn.Sequential(nn.Linear(2, 8), nn.SiLU(), nn.Linear(8, 1))
    energy = lambda x: net(x)[:, 0] + NORMAL(x)
    x = weft.randn(6, 2, generator=seeded())
    run = lambda x, g: walk(energy, x, 5, 0.1, g)
    found, same = weft.compile(run)(x, seeded(3)), run(x, seeded(3))
    pairs = [(found, same)] if walk is langevin else zip(found, same, strict=True)
    assert all(weft.allclose(a, b, atol=1e-5) for a, b in pairs)
    assert not any(a.requires_grad for a, _ in ([(found, same)] if walk is langevin else zip(found, same, strict=True)))


class Confined(nn.Module):
    """A network over a wide bowl, so that there is a Z from the first step on."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x)[:, 0] + (x**2).sum(1) / 8


def test_a_deep_energy_learns_a_ring():
    """Likelihoods with Z from a grid: points of a noisy ring, against its entropy and the best normal distribution."""
    weft.manual_seed(0)
    generator = seeded(1)
    angle = 2 * math.pi * weft.rand(2000, generator=generator)
    ring = weft.stack([angle.cos(), angle.sin()], 1) * 1.5 + 0.15 * weft.randn(2000, 2, generator=generator)
    model = DeepEnergy(Confined(), (2,), step=0.02, steps=20)
    buffer = ReplayBuffer(model, 500, generator=generator)
    optimizer = weft.optim.Adam(model.parameters(), lr=5e-3)

    @weft.compile
    def step(x):
        optimizer.zero_grad()
        buffer(x, generator).backward()
        optimizer.step()

    for _ in range(400):
        step(ring[:-200][weft.randint(1800, (128,), generator=generator)])
    points, cell = grid([(-4, 4), (-4, 4)], 80, weft.float32)
    with weft.no_grad():
        log_partition = (-model.energy(points)).logsumexp(0).item() + math.log(cell)
        figure = -model.energy(ring[-200:]).mean().item() - log_partition
    normal = weft.distributions.MultivariateNormal(ring[:-200].mean(0), ring[:-200].mT.cov())
    assert normal.log_prob(ring[-200:]).mean().item() < -2.9
    assert (
        figure > -math.log(2 * math.pi * 1.5) - 0.5 * math.log(2 * math.pi * math.e * 0.15**2) - 0.15
    )  # log p of the ring


def test_what_a_deep_energy_has_not():
    model = DeepEnergy(nn.Linear(2, 3), (2,))
    with pytest.raises(UnsupportedError, match=r"DeepEnergy has no log_prob; it has energy \(exact\), score \(exact\)"):
        model.log_prob(weft.zeros(1, 2))
    with pytest.raises(ShapeError, match="one number for each of 4 rows"):
        model.energy(weft.zeros(4, 2))
    with pytest.raises(OptionError, match="a step above 0"):
        langevin(NORMAL, weft.zeros(1, 1), 1, 0.0)


def test_energies_are_held_and_their_slopes_with_them():
    """E = L tanh(f / L): within ±L everywhere, f itself where f is small, and the score is its slope."""
    model = DeepEnergy(nn.Linear(2, 1, dtype=weft.float64), (2,), limit=3.0)
    x = 40 * weft.randn(200, 2, generator=seeded(), dtype=weft.float64)
    found, free = model.energy(x), model.network(x)[:, 0]
    assert found.abs().max() <= 3 and free.abs().max() > 10
    assert weft.allclose(found, 3 * (free / 3).tanh())
    expected = -(1 - (free / 3).tanh() ** 2).unsqueeze(1) * model.network.weight
    assert weft.allclose(model.score(x), expected)


def test_a_deep_energy_walks_by_hamiltonian_steps():
    model = DeepEnergy(nn.Linear(2, 1), (2,), step=0.1, steps=3, leaps=4)
    x = weft.randn(5, 2, generator=seeded())
    assert weft.equal(model.walk(x, generator=seeded(2)), hamiltonian(model.energy, x, 3, 0.1, seeded(2), leaps=4)[0])
    with pytest.raises(OptionError, match="take one of both"):
        DeepEnergy(nn.Linear(2, 1), (2,), clip=1.0, leaps=4)
    with pytest.raises(OptionError, match="limit above 0"):
        DeepEnergy(nn.Linear(2, 1), (2,), limit=0.0)


@pytest.mark.parametrize("factor", [1.0, math.sqrt(2) / 2, 2.0])
def test_only_noise_of_root_two_steps_samples_this_temperature(factor):
    """With noise c √(2ε) a normal's variance becomes c² / (1 − ε/2): the trap of √ε, and of ε, is seen at once."""
    n, step, x = 20000, 0.1, weft.zeros(20000, 1).double()
    generator = seeded(3)
    for _ in range(80):
        noise = weft.randn(n, 1, dtype=weft.float64, generator=generator)
        x = x - step * x + factor * math.sqrt(2 * step) * noise
    ours = weft.compile(lambda x, g: langevin(NORMAL, x, 80, step, g))(weft.zeros(n, 1).double(), seeded(4))
    same = abs((x**2).mean().item() - (ours**2).mean().item()) < 6 * math.sqrt(2 / n) * factor**2
    assert same is (factor == 1.0)
