"""Denoising: what noise does, and what the best denoiser of known data is."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn
from weft.errors import OptionError, UnsupportedError
from weft.models.autoencoders import Autoencoder, DeepAutoencoder, GaussianNoise, Masking, SaltAndPepper
from weft.models.generative import check_gradient_estimator

COVARIANCE = np.array([[2.0, 0.8], [0.8, 0.5]])
MEAN = np.array([1.0, -1.0])


def seeded(seed=0):
    return weft.Generator().manual_seed(seed)


def drawn(n, generator):
    noise = weft.randn(n, 2, generator=generator, dtype=weft.float64)
    return noise @ weft.tensor(np.linalg.cholesky(COVARIANCE)).mT + weft.tensor(MEAN)


def linear(noise):
    """x̂ = A x̃ + a, as a code of two numbers and a decoder that leaves it alone."""
    return Autoencoder(nn.Linear(2, 2, dtype=weft.float64), nn.Identity(), noise=noise)


def wiener(std):
    """The best linear (and, for normal data, the best) denoiser: A = Σ (Σ + σ²)⁻¹, about the mean."""
    model = linear(GaussianNoise(std))
    gain = COVARIANCE @ np.linalg.inv(COVARIANCE + std**2 * np.eye(2))
    with weft.no_grad():
        model.encoder.weight.copy_(weft.tensor(gain))
        model.encoder.bias.copy_(weft.tensor(MEAN - gain @ MEAN))
    return model


def test_the_slope_vanishes_at_the_wiener_filter_and_nowhere_near():
    generator, model = seeded(), wiener(0.7)
    parameters = list(model.parameters())
    estimate = lambda: weft.autograd.grad(model.loss(drawn(500, generator), generator), parameters)
    check_gradient_estimator(estimate, [weft.zeros_like(p) for p in parameters], draws=250)
    with weft.no_grad():
        model.encoder.weight.mul_(1.05)
    with pytest.raises(weft.errors.ConditionError, match="biased"):
        check_gradient_estimator(estimate, [weft.zeros_like(p) for p in parameters], draws=250)


def test_training_finds_the_wiener_filter():
    generator, expected, model = seeded(1), wiener(0.7), linear(GaussianNoise(0.7))
    optimizer = weft.optim.Adam(model.parameters(), lr=0.05)

    @weft.compile
    def step():
        optimizer.zero_grad()
        model.loss(drawn(1000, generator), generator).backward()
        optimizer.step()

    for number in range(800):
        optimizer.param_groups[0]["lr"] = 0.05 * 0.993**number
        step()
    for ours, best in zip(model.parameters(), expected.parameters(), strict=True):
        np.testing.assert_allclose(ours.detach(), best.detach(), atol=0.02)


def test_the_best_denoiser_tells_the_score():
    """(r(x) − x) / σ² = −(Σ + σ²)⁻¹ (x − μ), the score of the noisy data, which goes to that of the data as σ² does to 0."""
    x = drawn(50, seeded(2))
    true = -np.linalg.solve(COVARIANCE, (x.numpy() - MEAN).T).T
    gaps = []
    for std in (0.2, 0.1, 0.05):
        model = wiener(std)
        assert model.promises["score"] == "estimate"
        found = model.score(x).detach().numpy()
        smoothed = -np.linalg.solve(COVARIANCE + std**2 * np.eye(2), (x.numpy() - MEAN).T).T
        np.testing.assert_allclose(found, smoothed, atol=1e-9)
        gaps.append(np.abs(found - true).max())
    assert gaps[0] / gaps[1] > 2.5 and gaps[1] / gaps[2] > 3  # of second order in σ


def test_a_network_learns_the_score_of_two_peaks():
    """p = ½ N(−2, 0.5²) + ½ N(2, 0.5²), made wider by the noise: its score is a formula."""
    weft.manual_seed(0)
    generator, std = seeded(3), 0.5
    model = DeepAutoencoder(1, (32,), 32, activation="tanh", noise=GaussianNoise(std))
    optimizer = weft.optim.Adam(model.parameters(), lr=5e-3)

    @weft.compile
    def step():
        x = (
            0.5 * weft.randn(256, 1, generator=generator)
            + 4.0 * weft.bernoulli(weft.full((256, 1), 0.5), generator=generator)
            - 2
        )
        optimizer.zero_grad()
        model.loss(x, generator).backward()
        optimizer.step()

    for number in range(1500):
        optimizer.param_groups[0]["lr"] = 5e-3 * 0.998**number
        step()
    at = np.linspace(-2.8, 2.8, 57)
    variance = 0.5**2 + std**2
    pull = np.tanh(2 * at / variance)  # E[peak | x] / 2
    expected = (2 * pull - at) / variance
    found = model.score(weft.tensor(at[:, None].astype(np.float32))).detach().numpy()[:, 0]
    assert np.abs(found - expected).mean() < 0.25 and np.corrcoef(found, expected)[0, 1] > 0.98


def test_only_gaussian_noise_and_squared_errors_tell_a_score():
    for options in ({"noise": Masking(0.2)}, {}, {"noise": GaussianNoise(1.0), "error": "cross_entropy"}):
        model = DeepAutoencoder(4, (3,), 2, **options)
        with pytest.raises(UnsupportedError, match="has no score"):
            model.score(weft.rand(2, 4))


@pytest.mark.parametrize(
    "noise, low, high, kept",
    [(Masking(0.3), 0.3, 0.0, 0.7), (SaltAndPepper(0.4), 0.2, 0.2, 0.6), (SaltAndPepper(0.2, -1, 2), 0.1, 0.1, 0.8)],
)
def test_shares_of_elements_that_are_hit(noise, low, high, kept):
    x = weft.full((400, 500), 0.5)
    found = noise(x, seeded(4)).numpy()
    shares = [np.mean(found == value) for value in (getattr(noise, "low", 0.0), getattr(noise, "high", 1.0), 0.5)]
    np.testing.assert_allclose(shares, [low, high, kept], atol=5 * np.sqrt(0.25 / x.numel()))


def test_gaussian_noise_has_its_spread():
    noise = (GaussianNoise(0.3)(weft.ones(400, 500), seeded(5)) - 1).numpy()
    assert noise.mean() == pytest.approx(0, abs=5 * 0.3 / 447) and noise.std() == pytest.approx(0.3, rel=0.01)


def test_noise_is_in_training_only():
    model = DeepAutoencoder(6, (5,), 2, noise=Masking(0.5))
    x = weft.rand(8, 6)
    assert weft.equal(model(x), model(x)) and weft.equal(model.reconstruction_error(x), model.reconstruction_error(x))
    assert model.loss(x, seeded(1)).item() != model.loss(x, seeded(2)).item()
    assert model.loss(x, seeded(1)).item() == model.loss(x, seeded(1)).item()


@pytest.mark.parametrize("make", [lambda: Masking(1.5), lambda: SaltAndPepper(-0.1), lambda: GaussianNoise(0.0)])
def test_noise_that_cannot_be(make):
    with pytest.raises(OptionError):
        make()
