"""Posteriors of pixels beside sums over a grid, and models that know the law of independent pixels beside that law."""

import math

import numpy as np
import pytest

import weft
from weft import nn
from weft.errors import OptionError
from weft.models.diffusion import DDPM, FlowMatching, NoiseSchedule, PixelPosterior, PixelVelocity


class Says(nn.Module):
    """The same numbers of every image: (outputs, *event) → (B, outputs · C, *)"""

    def __init__(self, numbers):
        super().__init__()
        self.numbers = weft.tensor(numbers, dtype=weft.float32)

    def forward(self, x, t, condition=None):
        return self.numbers.expand(len(x), *self.numbers.shape).flatten(1, 2)


def on_a_grid(x, a, s, points, weights, means, widths):
    """Mean and variance of x₀ given a x₀ + s ε = x, by sums over a fine grid."""
    levels = np.linspace(-6, 6, 240_001)
    step = levels[1] - levels[0]
    density = sum(
        w * np.exp(-0.5 * ((levels - m) / d) ** 2) / (d * math.sqrt(2 * math.pi)) * step
        for w, m, d in zip(weights[len(points) :], means, widths, strict=True)
    )
    levels, mass = np.append(levels, points), np.append(density, weights[: len(points)])
    mass = mass * np.exp(-0.5 * ((x - a * levels) / s) ** 2)
    mean = (mass * levels).sum() / mass.sum()
    return mean, (mass * levels**2).sum() / mass.sum() - mean**2


@pytest.mark.parametrize("points", [(-1.0,), (-1.0, 1.0)])
def test_posterior_is_that_of_a_sum_over_levels(points):
    weights = np.array([0.5, 0.2, 0.3, 0.1][: len(points) + 2])
    means, widths = np.array([0.4, -0.6]), np.array([0.3, 0.05])
    model = PixelPosterior(nn.Identity(), NoiseSchedule("cosine", 10), points)
    said = np.concatenate(
        [np.log(weights), means - model.means.detach().numpy(), np.log(widths) - model.log_widths.detach().numpy()]
    )
    said = weft.tensor(said, dtype=weft.float64).reshape(1, -1, 1, 1)
    for x, a, s in ((-0.9, 0.95, 0.3), (0.2, 0.5, 0.8), (-0.98, 0.9999, 0.02), (0.9, 0.99, 0.1)):
        rate = lambda value: weft.full((1, 1, 1, 1), value, dtype=weft.float64)
        mean, variance = model.posterior(rate(x), rate(a), rate(s), said)
        wanted = on_a_grid(x, a, s, points, weights, means, widths)
        assert np.allclose((mean.item(), variance.item()), wanted, rtol=1e-4, atol=1e-7), (x, a, s)


CHANCES = np.array([[0.9, 0.5], [0.02, 0.3]])  # that pixels are 1


def bits_model(steps=300):
    schedule = NoiseSchedule("cosine", steps)
    numbers = np.stack([np.log(1 - CHANCES), np.log(CHANCES)])[:, None]  # (2, C = 1, H, W)
    network = PixelPosterior(Says(numbers), schedule, (-1.0, 1.0), 0)
    options = {"prediction_type": "v_prediction", "variance_type": "learned_range", "levels": 2}
    return DDPM(network, (1, 2, 2), schedule, **options)


def test_bound_of_a_model_that_knows_the_law_is_its_entropy():
    x = weft.bernoulli(
        weft.tensor(CHANCES, dtype=weft.float32).expand(4000, 1, 2, 2), generator=weft.Generator().manual_seed(0)
    )
    true = np.where(x.numpy() > 0.5, np.log(CHANCES), np.log(1 - CHANCES)).sum((1, 2, 3))
    gaps = true - bits_model().elbo(x, generator=weft.Generator().manual_seed(1)).numpy()
    error = gaps.std() / math.sqrt(len(x))
    assert -3 * error < gaps.mean() < 0.02 + 3 * error and error < 0.03


@pytest.mark.parametrize("sampler", ["ddpm", "ddim", "dpm"])
def test_draws_of_a_model_that_knows_the_law(sampler):
    drawn = bits_model().sample(4000, generator=weft.Generator().manual_seed(2), sampler=sampler, steps=100)
    found = drawn.numpy()
    assert np.isin(found.round(2), (0, 1)).mean() > 0.99
    assert np.abs(found.mean((0, 1)) - CHANCES).max() < 0.04


def test_a_flow_that_knows_the_law():
    numbers = np.stack([np.log(1 - CHANCES), np.log(CHANCES)])[:, None]
    model = FlowMatching(PixelVelocity(Says(numbers), (-1.0, 1.0), 0), (1, 2, 2))
    found = model.sample(4000, generator=weft.Generator().manual_seed(3), steps=50).numpy()
    assert np.allclose(np.abs(found), 1, atol=0.02) or (np.abs(np.abs(found) - 1) > 0.02).mean() < 0.01
    assert np.abs((found.mean((0, 1)) + 1) / 2 - CHANCES).max() < 0.04


def test_learns_levels():
    """Pixels that are black half of the time and a normal level else: the loss falls to that of the truth."""
    weft.manual_seed(0)
    schedule, drawn = NoiseSchedule("cosine", 100), weft.Generator().manual_seed(4)
    network = PixelPosterior(nn.Sequential(), schedule)
    network.network = Learned(network.outputs)
    model = DDPM(
        network, (1, 1, 1), schedule, prediction_type="v_prediction", variance_type="learned_range", levels=256
    )
    optimizer = weft.optim.Adam(model.parameters(), lr=0.03)

    @weft.compile
    def step(x):
        optimizer.zero_grad()
        loss = model.loss(x)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(300):
        grey = (127 + 20 * weft.randn(512, 1, 1, 1, generator=drawn)).round() / 255
        step(weft.where(weft.rand(512, 1, 1, 1, generator=drawn) < 0.5, 0.0, grey))
    x = weft.cat([weft.zeros(500, 1, 1, 1), (127 + 20 * weft.randn(500, 1, 1, 1, generator=drawn)).round() / 255])
    entropy = math.log2(2) + 0.5 * math.log2(20 * math.sqrt(2 * math.pi * math.e))
    bits = -model.elbo(x, generator=drawn).mean().item() / math.log(2)
    assert entropy - 0.3 < bits < entropy + 0.5


class Learned(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.numbers = nn.Parameter(weft.zeros(outputs))

    def forward(self, x, t, condition=None):
        return self.numbers.reshape(1, -1, 1, 1).expand(len(x), -1, 1, 1)


def test_what_is_no_posterior():
    for points, normals in (((-1.0,), 0), ((), 1), ((-1.0,), -1)):
        with pytest.raises(OptionError, match="two parts"):
            PixelVelocity(nn.Identity(), points, normals)
