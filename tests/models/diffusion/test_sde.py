"""Diffusions in continuous time: kernels against their moment equations, walks back, and likelihoods against the truth."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

import weft
from weft import nn
from weft.errors import OptionError
from weft.models.diffusion import EDM, VESDE, VPSDE, ScoreSDE, SubVPSDE, euler_maruyama, karras_sigmas, log_prob_along
from weft.models.diffusion.score_sde import normal_log_prob

from .common import MIXTURE, normal, seeded

SDES = {"vp": VPSDE(), "subvp": SubVPSDE(), "ve": VESDE(0.01, 50.0)}


class Perfect(nn.Module):
    """The noise that a network of a `ScoreSDE` should find in a mixture; it sees x / √(a² + s²)."""

    def __init__(self, sde) -> None:
        super().__init__()
        self.sde = sde

    def forward(self, x, t):
        a, s = (v.unsqueeze(1) for v in self.sde.kernel(t))
        return -s * MIXTURE.score(x * (a**2 + s**2).sqrt(), a, s)


@pytest.mark.parametrize("name", SDES)
@pytest.mark.parametrize("end", [0.2, 1.0])
def test_kernels_solve_their_moment_equations(name, end):
    """da/dt = f a and ds²/dt = 2 f s² + g², by SciPy."""
    sde = SDES[name]

    def slopes(t, y):
        f, g = (v.item() for v in (sde.drift(weft.tensor(t).double()), sde.diffusion(weft.tensor(t).double())))
        return [f * y[0], 2 * f * y[1] + g * g]

    solved = integrate.solve_ivp(slopes, (0, end), [1.0, 0.0], rtol=1e-8, atol=1e-12).y[:, -1]
    a, s = sde.kernel(weft.tensor(end).double())
    assert a.item() == pytest.approx(solved[0], rel=1e-5)
    assert s.item() ** 2 == pytest.approx(solved[1], rel=1e-5)


@pytest.mark.parametrize("name", SDES)
def test_the_flow_has_the_exact_likelihood_of_a_mixture(name):
    """log p by the probability flow within 1e-3 nats of the mixture's, by exact divergences. Exploding variances need a
    higher end than 50: what is taken for N(0, σ²) there is the mixture noised, whose variance is 1 more."""
    sde = VESDE(0.01, 300.0) if name == "ve" else SDES[name]
    model = ScoreSDE(Perfect(sde), (2,), sde, start=1e-5)
    x = MIXTURE.sample(40, seeded(1))
    found = model.log_prob(x, steps=150)
    assert (found - MIXTURE.log_prob(x)).abs().max() < 1e-3


def test_hutchinson_has_the_exact_likelihood_in_the_mean():
    model = ScoreSDE(Perfect(SDES["vp"]), (2,), start=1e-4)
    x = MIXTURE.sample(1, seeded(1)).expand(800, 2)
    drawn = model.log_prob(x, generator=seeded(2), steps=60, trace="hutchinson")
    error = drawn.std().item() / math.sqrt(len(drawn))
    assert error > 0
    assert abs(drawn.mean().item() - MIXTURE.log_prob(x[:1]).item()) < 4.5 * error + 1e-3


def test_a_linear_flow_has_the_density_of_its_image():
    """dx/dt = c x carries N(0, 1) at t = 1 back to N(0, e^−2c) at t = 0."""
    x = normal(5, 3)
    found = log_prob_along(lambda x, t: 0.7 * x, x, 0.0, 1.0, normal_log_prob, steps=20)
    scale = math.exp(-0.7)
    assert np.allclose(found.numpy(), stats.norm(0, scale).logpdf(x.numpy()).sum(1), atol=1e-6)


@pytest.mark.parametrize("sampler", ["em", "pc", "ode"])
def test_walks_back_end_in_the_data(sampler):
    """Moments of the mixture, by all three ways back of the variance preserving equation."""
    model = ScoreSDE(Perfect(SDES["vp"]), (2,))
    n = 4000
    drawn = model.sample(n, generator=seeded(3), sampler=sampler, steps=25 if sampler == "ode" else 150).double()
    truth = MIXTURE.sample(200000, seeded(4))
    assert ((drawn.mean(0) - truth.mean(0)).abs() < 4.5 * truth.std(0) / math.sqrt(n) + 0.01).all()
    bias = 0.06 if sampler == "pc" else 0.03  # the corrector's own, of its step size
    assert weft.allclose(drawn.mT.cov(), truth.mT.cov(), atol=bias + 0.03)


@pytest.mark.parametrize("name", ["subvp", "ve"])
def test_euler_maruyama_of_the_others(name):
    sde = SDES[name]
    score = lambda x, t: MIXTURE.score(x, *(v.unsqueeze(1) for v in sde.kernel(t)))
    start = sde.prior_scale * normal(2500, 2)
    walk = weft.compile(lambda x, g: euler_maruyama(sde, score, x, 400, g))
    drawn, truth = walk(start, seeded(1)), MIXTURE.sample(100000, seeded(4))
    assert weft.allclose(drawn.mT.cov(), truth.mT.cov(), atol=0.09)


class Ideal(nn.Module):
    """F of an `EDM` for N(0, v) data: (D − c_skip x) / c_out with D = v / (v + σ²) x."""

    def __init__(self, variance: float, data_scale: float) -> None:
        super().__init__()
        self.variance, self.scale = variance, data_scale

    def forward(self, x, quarter):
        sigma = (4 * quarter).exp().unsqueeze(1)
        total = sigma**2 + self.scale**2
        x = x * total.sqrt()
        denoised = self.variance / (self.variance + sigma**2) * x
        return (denoised - self.scale**2 / total * x) / (sigma * self.scale / total.sqrt())


def test_edm_scales_everything_to_one():
    """Inputs and targets of F have unit variance where d is the data's deviation (Karras et al. 2022, app. B.6)."""
    model = EDM(nn.Identity(), (1,), data_scale=0.5)
    sigma = weft.tensor([0.01, 0.3, 2.0, 60.0]).double()
    skip, out, into = (v[:, 0] for v in model.coefficients(sigma))
    assert weft.allclose(into**2 * (0.25 + sigma**2), weft.ones(4).double())
    target = ((1 - skip) ** 2 * 0.25 + skip**2 * sigma**2) / out**2
    assert weft.allclose(target, weft.ones(4).double())


def heun(sigmas, variance: float) -> float:
    """Where Karras et al.'s algorithm 1 takes x = σ_max of N(0, v), by hand."""
    slope = lambda x, s: x * s / (variance + s * s)
    x = sigmas[0]
    for here, there in itertools.pairwise([*sigmas, 0.0]):
        first = slope(x, here)
        ahead = x + (there - here) * first
        x = ahead if there == 0 else x + (there - here) * (first + slope(ahead, there)) / 2
    return x


def test_heuns_sampler_is_algorithm_1_and_comes_to_the_data():
    """On N(0, 0.7²) the flow ends at 0.7 of unit noise; Heun's 18 steps at what the algorithm gives by hand, 5 % beside."""
    model = EDM(Ideal(0.49, 0.5), (2,), data_scale=0.5)
    drawn = model.sample(50, generator=seeded(2), steps=18)
    noise = weft.randn(50, 2, generator=seeded(2))
    by_hand = heun(karras_sigmas(18).tolist(), 0.49)
    assert weft.allclose(drawn, by_hand * noise, rtol=1e-4, atol=1e-4)
    assert abs(by_hand / 0.7 - 1) < 0.06 and abs(heun(karras_sigmas(72).tolist(), 0.49) / 0.7 - 1) < 0.003
    x = normal(3, 2)
    assert weft.allclose(model.score(x, 0.6), -x / (0.49 + 0.36))


def test_unknown_ways_are_refused():
    with pytest.raises(OptionError, match="vp, subvp, ve"):
        ScoreSDE(nn.Identity(), (2,), "vx")
    with pytest.raises(OptionError, match="em, pc or ode"):
        ScoreSDE(nn.Identity(), (2,)).sample(2, sampler="heun")
    with pytest.raises(OptionError, match="exact or hutchinson"):
        ScoreSDE(nn.Identity(), (2,)).log_prob(weft.zeros(2, 2), trace="none")
