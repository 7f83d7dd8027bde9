"""Schedules and schedulers against their papers' formulas, Bayes' rule and exact solutions of the flow."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft
from weft.errors import ArgumentError, OptionError, ShapeError
from weft.models.diffusion import (
    PREDICTION_TYPES,
    DDIMScheduler,
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    EulerAncestralDiscreteScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    HeunDiscreteScheduler,
    NoiseSchedule,
    PerfectNetwork,
    denoise,
    karras_sigmas,
    min_snr_weights,
    parts_of,
    posterior_mean,
    target_of,
)

from .common import GAUSSIAN, MEAN, VARIANCE, normal, seeded

SHORT = NoiseSchedule("linear", 50)
EVERY = (
    *(DDPMScheduler, DDIMScheduler, DPMSolverMultistepScheduler, EulerDiscreteScheduler, HeunDiscreteScheduler),
    EulerAncestralDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
)


def test_betas_are_those_of_the_papers():
    linear = NoiseSchedule("linear", 1000)
    assert np.allclose(linear.betas.numpy(), np.linspace(1e-4, 0.02, 1000), rtol=1e-12)
    cosine = NoiseSchedule("cosine", 500)
    f = lambda t: math.cos((t / 500 + 0.008) / 1.008 * math.pi / 2) ** 2
    bars = [f(t + 1) / f(0) for t in range(490)]  # before β is held at 0.999
    assert np.allclose(cosine.alphas_cumprod.numpy()[:490], bars, rtol=1e-9)
    assert cosine.betas.max().item() == 0.999


def test_the_posterior_is_bayes_rule():
    """q(x_{t−1} | x_t, x₀) ∝ q(x_t | x_{t−1}) q(x_{t−1} | x₀): precisions add."""
    t = weft.arange(1, 50)
    x0, x = normal(49, 3), normal(49, 3, seed=1)
    beta, before = (table[t].unsqueeze(1) for table in (SHORT.betas, SHORT.alphas_cumprod_prev))
    precision = 1 / (1 - before) + (1 - beta) / beta
    mean = (before.sqrt() * x0 / (1 - before) + (1 - beta).sqrt() * x / beta) / precision
    assert weft.allclose(posterior_mean(SHORT, x0, x, t), mean, rtol=1e-10)
    assert weft.allclose(SHORT.posterior_variance[t].unsqueeze(1), 1 / precision, rtol=1e-10)


def test_noise_is_added_step_by_step_or_at_once():
    """x_t = √α x_{t−1} + √β ε again and again has the mean √ᾱ x₀ and the variance 1 − ᾱ."""
    mean, variance = 1.0, 0.0
    for beta in SHORT.betas.tolist():
        mean, variance = math.sqrt(1 - beta) * mean, (1 - beta) * variance + beta
    x, t = weft.ones(2, 1).double(), weft.tensor([49, 49])
    assert SHORT.add_noise(x, weft.zeros(2, 1), t)[0].item() == pytest.approx(mean)
    assert SHORT.add_noise(0 * x, weft.ones(2, 1), t)[0].item() ** 2 == pytest.approx(variance)


@pytest.mark.parametrize("kind", PREDICTION_TYPES)
def test_predictions_are_parts_of_one_x(kind):
    x0, noise = normal(6, 3), normal(6, 3, seed=1)
    a, s = SHORT.rates(weft.tensor([0, 3, 9, 20, 40, 49]), x0)
    x = a * x0 + s * noise
    found = parts_of(kind, target_of(kind, x0, noise, a, s), x, a, s)
    assert weft.allclose(found.x0, x0) and weft.allclose(found.epsilon, noise)
    clipped = parts_of(kind, target_of(kind, x0, noise, a, s), x, a, s, clip=0.1)
    assert clipped.x0.abs().max() <= 0.1 and weft.allclose(a * clipped.x0 + s * clipped.epsilon, x)


def test_ddim_with_x0_prediction_has_the_epsilon_that_belongs_to_it():
    """The output of a network is not ε unless it predicts ε: all three kinds must make the same step."""
    x0, noise = normal(5, 3), normal(5, 3, seed=1)
    steps = {}
    for kind in PREDICTION_TYPES:
        scheduler = DDIMScheduler(SHORT, prediction_type=kind)
        a, s = SHORT.rates(weft.tensor(30), x0)
        output = target_of(kind, x0, noise, a, s)
        steps[kind] = scheduler.step(output, 30, a * x0 + s * noise)
    before = SHORT.rates(weft.tensor(29), x0)
    for found in steps.values():
        assert weft.allclose(found.prev_sample, before[0] * x0 + before[1] * noise)  # on the line of x₀ and ε
        assert weft.allclose(found.pred_original_sample, x0)


@pytest.mark.parametrize("steps", [50, 10])
def test_ddim_with_eta_one_is_ddpm(steps):
    """The same noise makes the same step, so marginals agree at every t."""
    one, other = DDIMScheduler(SHORT, eta=1.0), DDPMScheduler(SHORT)
    x, output = normal(7, 3), normal(7, 3, seed=1)
    for scheduler in (one, other):
        scheduler.set_timesteps(steps)
    for t in one.timesteps.tolist():
        found, same = (scheduler.step(output, t, x, generator=seeded(t)) for scheduler in (one, other))
        assert weft.allclose(found.prev_sample, same.prev_sample, rtol=1e-9)


def test_ancestral_steps_over_levels_are_those_of_ddpm():
    """The same draw of q(x_t' | x_t, x̂₀), once of x and once of x / √ᾱ."""
    over, plain = EulerAncestralDiscreteScheduler(SHORT, timestep_spacing="trailing"), DDPMScheduler(SHORT)
    plain.timestep_spacing = "trailing"
    x, output = normal(7, 3), normal(7, 3, seed=1)
    for scheduler in (over, plain):
        scheduler.set_timesteps(10)
    for number, t in enumerate(plain.timesteps.tolist()):
        here, after = plain.bars[number].sqrt().tolist()
        one = plain.step(output, t, x, generator=seeded(t)).prev_sample / after
        other = over.step(output, t, x / here, generator=seeded(t)).prev_sample
        assert weft.allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("steps", [10, 600])
def test_ancestral_walks_of_a_gaussian(steps):
    """x̂₀ − m = k (x − m) with k = v / (v + σ²): variances follow v' = (r + (1 − r) k)² v + σ_up², r = σ'² / σ², and come to
    that of the data with many levels."""
    made = EulerAncestralDiscreteScheduler(SHORT, prediction_type="sample")
    levels = karras_sigmas(steps, 0.01, 20.0)
    made.set_sigmas(levels)
    shrunk = lambda x, t: MEAN + VARIANCE / (VARIANCE + t[0] ** 2) * (x * (t[0] ** 2 + 1).sqrt() - MEAN)
    drawn = denoise(shrunk, made, normal(8_000, 4), seeded(2))
    variance = levels[0] ** 2
    for here, there in zip(levels, [*levels[1:], 0.0], strict=True):
        ratio, kept = (there / here) ** 2, VARIANCE / (VARIANCE + here**2)
        variance = (ratio + (1 - ratio) * kept) ** 2 * variance + there**2 * (1 - ratio)
    assert drawn.var().item() == pytest.approx(variance, rel=0.04)
    assert steps == 10 or variance == pytest.approx(VARIANCE, rel=0.02)


def test_latents_of_a_large_scale_are_not_clipped():
    """Clipping x₀ to [−1, 1] suits images alone; codes with a standard deviation of 5 pass unless clipping is asked for."""
    x = 5 * normal(200, 2)
    for make in EVERY[:-1]:
        free, held = make(SHORT, prediction_type="sample"), make(SHORT, prediction_type="sample", clip_sample=True)
        t = free.timesteps[0].item()
        assert weft.allclose(free.step(x, t, normal(200, 2, seed=1)).pred_original_sample, x)
        assert held.step(x, t, normal(200, 2, seed=1)).pred_original_sample.abs().max() == 1


def flowed(scheduler: type, steps: int, **options) -> float:
    """The largest relative distance from the exact flow of a Gaussian, x₀ = m + √(v / (a² v + s²)) (x − a m)."""
    made = scheduler(SHORT, **options)
    made.set_timesteps(steps)
    network = PerfectNetwork(GAUSSIAN, SHORT)
    start = normal(40, 4)
    found = denoise(network, made, start)
    a, s = SHORT.rates(weft.tensor(49), start)
    if made.init_noise_sigma == 1:
        exact = MEAN + math.sqrt(VARIANCE) * (start - a * MEAN) / (a**2 * VARIANCE + s**2).sqrt()
    else:  # samples are x / a there
        start = start * made.init_noise_sigma
        exact = MEAN + math.sqrt(VARIANCE) * (start - MEAN) / (VARIANCE + (s / a) ** 2).sqrt()
    return ((found - exact).abs() / (1 + exact.abs())).max().item()


@pytest.mark.parametrize(
    ("scheduler", "options", "order"),
    [
        (DDIMScheduler, {"timestep_spacing": "linspace"}, 1),
        (DPMSolverMultistepScheduler, {}, 2),
        (EulerDiscreteScheduler, {"use_karras_sigmas": True}, 1),
        (HeunDiscreteScheduler, {"use_karras_sigmas": True}, 2),
    ],
)
def test_solvers_follow_the_exact_flow_at_their_order(scheduler, options, order):
    """The flow of a Gaussian is linear and known; twice the steps leave an error 2^order times smaller (0.7 allowed)."""
    coarse, fine = flowed(scheduler, 12, **options), flowed(scheduler, 24, **options)
    assert fine < 0.2 and fine < coarse / (0.7 * 2**order)


def test_dpm_solver_of_first_order_is_ddim():
    network, x = PerfectNetwork(GAUSSIAN, SHORT), normal(10, 4)
    found = []
    last = {"timestep_spacing": "trailing"}
    for made in (DPMSolverMultistepScheduler(SHORT, solver_order=1, **last), DDIMScheduler(SHORT, **last)):
        made.set_timesteps(10)
        found.append(denoise(network, made, x))
    assert weft.allclose(*found, rtol=1e-9)


def test_dpm_solver_coefficients_are_the_papers():
    """x ← (s'/s) x − a' (e^−h − 1) D with D = (1 + 1/2r) x̂₀ − (1/2r) x̂₀ before (Lu et al. 2022, algorithm 2)."""
    made = DPMSolverMultistepScheduler(SHORT, prediction_type="sample")
    made.set_timesteps(5)
    t = made.timesteps.tolist()
    assert t == [49, 39, 29, 20, 10]
    a, s = SHORT.alphas_cumprod[t].sqrt().tolist(), (1 - SHORT.alphas_cumprod[t]).sqrt().tolist()
    level = [math.log(p / q) for p, q in zip(a, s, strict=True)]
    x, first, second = (normal(3, 2, seed=i) for i in range(3))
    x1 = made.step(first, t[0], x).prev_sample
    h0, h1 = level[1] - level[0], level[2] - level[1]
    assert weft.allclose(x1, s[1] / s[0] * x - a[1] * math.expm1(-h0) * first)
    r = h0 / h1
    assert weft.allclose(
        made.step(second, t[1], x1).prev_sample,
        s[2] / s[1] * x1 - a[2] * math.expm1(-h1) * ((1 + 1 / (2 * r)) * second - first / (2 * r)),
    )


@pytest.mark.parametrize("make", EVERY)
def test_step_by_step_is_the_loop(make):
    """diffusers' way to write a sampler, call by call, ends where `denoise` ends."""
    made = make(50) if make is FlowMatchEulerDiscreteScheduler else make(SHORT)
    made.set_timesteps(6)
    network = PerfectNetwork(GAUSSIAN, SHORT)
    tell = (lambda t: t / 20) if make is FlowMatchEulerDiscreteScheduler else (lambda t: t)
    start = normal(5, 4)
    x, generator = start * made.init_noise_sigma, seeded(3)
    for t in made.timesteps:
        output = network(made.scale_model_input(x, t), tell(t.expand(5)))
        x = made.step(output, t, x, generator=generator).prev_sample
    looped = denoise(lambda x, t: network(x, tell(t)), made, start, seeded(3))
    assert weft.allclose(x, looped, rtol=1e-9)


def test_straight_flows_are_exact_in_one_step():
    x0, noise = normal(4, 3), normal(4, 3, seed=1)
    made = FlowMatchEulerDiscreteScheduler(shift=3.0)
    made.set_timesteps(1)
    assert weft.allclose(denoise(lambda x, t: noise - x0, made, noise), x0)
    sigma = np.linspace(1, 0, 5)[:-1]
    made.set_timesteps(sigmas=sigma)
    assert np.allclose(made.timesteps.numpy() / 1000, 3 * sigma / (1 + 2 * sigma))
    assert weft.allclose(made.scale_noise(x0, noise, weft.full((4,), 250.0)), 0.75 * x0 + 0.25 * noise)


def test_timesteps_are_diffusers():
    made = DDIMScheduler("linear", 1000)
    made.set_timesteps(4)
    assert made.timesteps.tolist() == [750, 500, 250, 0]
    made = DDIMScheduler("linear", 1000, timestep_spacing="trailing")
    made.set_timesteps(4)
    assert made.timesteps.tolist() == [999, 749, 499, 249]
    sigmas = karras_sigmas(18)  # Karras et al. 2022, table 1: 80 to 0.002, ρ = 7
    assert sigmas[0] == pytest.approx(80) and sigmas[-1] == pytest.approx(0.002)
    assert sigmas[1] == pytest.approx((80 ** (1 / 7) + (0.002 ** (1 / 7) - 80 ** (1 / 7)) / 17) ** 7)


def test_min_snr_weighs_every_prediction_alike():
    """Weights on errors of x₀, ε and v are one objective: ‖Δx₀‖² = ‖Δε‖² / SNR = ‖Δv‖² / (SNR + 1)."""
    snr = SHORT.snr
    on_x0 = min_snr_weights(snr, 5.0, "sample")
    assert on_x0.max() == 5 and weft.equal(on_x0[snr < 5], snr[snr < 5])
    assert weft.allclose(min_snr_weights(snr, 5.0) * snr, on_x0)
    assert weft.allclose(min_snr_weights(snr, 5.0, "v_prediction") * (snr + 1), on_x0)


def test_bad_schedules_are_refused():
    with pytest.raises(OptionError, match="linear, cosine"):
        NoiseSchedule("square")
    with pytest.raises(OptionError, match="above 0 and below 1"):
        NoiseSchedule([0.1, 1.5])
    with pytest.raises(OptionError, match="epsilon, sample, v_prediction"):
        DDIMScheduler(SHORT, prediction_type="noise")
    with pytest.raises(OptionError, match="1 to 50 steps, got 60"):
        DDIMScheduler(SHORT).set_timesteps(60)
    with pytest.raises(OptionError, match="fixed_small"):
        DDPMScheduler(SHORT, variance_type="learned")
    with pytest.raises(OptionError, match="each below the one before"):
        EulerDiscreteScheduler(SHORT).set_sigmas([1.0, 2.0])
    made = DDIMScheduler(SHORT)
    made.set_timesteps(5)
    with pytest.raises(ArgumentError, match="none of the 5 timesteps"):
        made.step(normal(2, 2), 3, normal(2, 2))
    with pytest.raises(ShapeError, match="one step for each of 2 rows"):
        SHORT.add_noise(normal(2, 2), normal(2, 2), weft.tensor([1, 2, 3]))
