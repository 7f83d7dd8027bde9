"""Guidance and filling in: exact conditional distributions of Gaussians and mixtures, and scales that need no new plan."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft
from weft import nn
from weft.errors import ArgumentError, ShapeError
from weft.models.diffusion import (
    DDPM,
    FlowMatching,
    Inpainter,
    NoisedMixture,
    NoiseSchedule,
    PerfectNetwork,
    PointNetwork,
    classifier_free_guidance,
    classifier_guidance,
    denoise,
)

from .common import normal, seeded

SCHEDULE = NoiseSchedule("cosine", 60)
TWO = NoisedMixture([[-2.0, 0.0], [2.0, 1.0]], [0.5, 0.5])


class Classes(nn.Module):
    """A perfect network of two classes and of none."""

    def __init__(self, schedule: NoiseSchedule) -> None:
        super().__init__()
        parts = (NoisedMixture(TWO.means[:1], [0.5]), NoisedMixture(TWO.means[1:], [0.5]), TWO)
        self.parts = nn.ModuleList(PerfectNetwork(part, schedule) for part in parts)

    def forward(self, x, t, condition):
        found = weft.stack([part(x, t) for part in self.parts])
        return found.gather(0, condition.reshape(1, -1, 1).expand(1, *x.shape))[0]


@pytest.fixture(scope="module")
def model():
    return DDPM(Classes(SCHEDULE), (2,), SCHEDULE, classes=2)


def test_guidance_of_zero_is_unconditional_and_of_one_conditional(model):
    draw = lambda **options: model.sample(40, generator=seeded(1), sampler="dpm", steps=12, **options)
    assert weft.allclose(draw(condition=1, guidance=0.0), draw(), atol=1e-5)
    assert weft.allclose(draw(condition=1, guidance=1.0), draw(condition=1), atol=1e-5)
    assert not weft.allclose(draw(condition=1, guidance=2.0), draw(condition=1), atol=0.1)
    c, u = normal(3, 2), normal(3, 2, seed=1)
    assert weft.allclose(classifier_free_guidance(c, u, 3.0), u + 3 * (c - u))


def test_scales_need_no_new_plan(model):
    draw = lambda w: model.sample(7, weft.arange(7) % 2, seeded(1), sampler="ddim", steps=5, guidance=w)
    draw(1.5)
    plans = model._plans.made["_sampled"]
    before = plans.plans
    assert not weft.allclose(draw(4.0), draw(weft.tensor(2.5)))
    assert plans.plans == before
    flow = FlowMatching(PointNetwork(2, 8, 1, classes=2), (2,), classes=2)
    drawn = [flow.sample(5, 1, seeded(1), steps=3, guidance=w) for w in (0.5, 3.0)]
    assert flow._plans.made["_carried"].plans == 1 and drawn[0].isfinite().all()


def test_classes_are_hidden_in_training(model):
    given = weft.zeros(20000, dtype=weft.int64)
    hidden = (model.hidden(given, seeded(1)) == 2).double().mean().item()
    assert abs(hidden - 0.1) < 4.5 * math.sqrt(0.09 / 20000)


@pytest.mark.parametrize("kind", ["epsilon", "sample", "v_prediction"])
def test_a_perfect_classifier_makes_the_unconditional_score_conditional(kind):
    """∇ log q(x) + ∇ log q(y | x) = ∇ log q(x | y) at every t, whatever the network predicts."""
    whole = PerfectNetwork(TWO, SCHEDULE, kind)
    one = PerfectNetwork(NoisedMixture(TWO.means[1:], [0.5]), SCHEDULE, kind)

    def log_prob(x, t):
        a, s = SCHEDULE.rates(t, x)
        joint = [NoisedMixture(TWO.means[i : i + 1], [0.5]).log_prob(x, a, s) for i in (0, 1)]
        return joint[1] - weft.logaddexp(*joint)

    guided = classifier_guidance(whole, log_prob, SCHEDULE, 1.0, kind)
    x, t = normal(6, 2), weft.tensor([0, 5, 20, 40, 50, 58])
    assert weft.allclose(guided(x, t), one(x, t), atol=1e-7)


def test_guided_walks_end_where_the_classifier_points():
    predict = classifier_guidance(PerfectNetwork(TWO, SCHEDULE), lambda x, t: 3 * x[:, 0], SCHEDULE, weft.tensor(2.0))
    made = DDPM(nn.Identity(), (2,), SCHEDULE).scheduler("ddim", 20)
    drawn = weft.compile(lambda x: denoise(predict, made, x))(normal(200, 2))
    assert (drawn[:, 0] > 0).double().mean() > 0.95


@pytest.mark.parametrize("sampler", ["euler", "heun", "dpm"])
def test_guidance_follows_walks_between_two_steps(sampler):
    """Their times need not be whole; x₁ ~ N(0, 1) tilted by exp 1.5 x₁ is N(1.5, 1)."""
    one = NoisedMixture([[0.0, 0.0]], [1.0])
    predict = classifier_guidance(PerfectNetwork(one, SCHEDULE), log_tilt, SCHEDULE, 1.0)
    drawn = denoise(predict, DDPM(nn.Identity(), (2,), SCHEDULE).scheduler(sampler, 40), normal(2000, 2))
    assert drawn[:, 0].mean().item() == pytest.approx(1.5, abs=0.15)
    assert drawn[:, 1].mean().item() == pytest.approx(0.0, abs=0.1)
    assert drawn[:, 0].var().item() == pytest.approx(1.0, abs=0.2)


def log_tilt(x, t):
    """log E[exp(1.5 x₀) | x_t] but for a constant, x₀ ~ N(0, 1): x₀ | x_t has mean a x_t."""
    a, _ = SCHEDULE.rates(t, x)
    return 1.5 * a[:, 0] * x[:, 0]


def test_rates_between_two_steps_lie_on_a_line_of_log_snr():
    t, x = weft.tensor([10.0, 10.25, 11.0]).double(), normal(3, 2)
    a, s = SCHEDULE.rates(t, x)
    whole = weft.stack(SCHEDULE.rates(weft.tensor([10, 11]), normal(2, 2)))[..., 0]  # (2, 2): a and s
    np.testing.assert_allclose(weft.stack([a, s])[:, [0, 2], 0], whole, rtol=1e-9)
    np.testing.assert_allclose(a**2 + s**2, 1.0, rtol=1e-9)
    low, high = (whole[0] / whole[1]).log().tolist()
    assert math.log(a[1].item() / s[1].item()) == pytest.approx(0.75 * low + 0.25 * high, rel=1e-9)


COVARIANCE = weft.tensor([[1.0, 0.8], [0.8, 1.0]]).double()


class Correlated(nn.Module):
    """ε̂ of N(0, Σ): s (a² Σ + s²)⁻¹ x."""

    def forward(self, x, t):
        a, s = SCHEDULE.rates(t, x)
        total = a.unsqueeze(2) ** 2 * COVARIANCE.to(x.dtype) + s.unsqueeze(2) ** 2 * weft.eye(2, dtype=x.dtype)
        return s * weft.linalg.solve(total, x.unsqueeze(2)).squeeze(2)


def test_filling_in_comes_to_the_conditional_distribution_with_resampling():
    """x₂ | x₁ = 1.5 is N(1.2, 0.36). Plain replacement falls short of the mean; taking steps again repairs it."""
    fill = Inpainter(DDPM(Correlated(), (2,), SCHEDULE))
    known = weft.tensor([[1.5, 0.0]]).double().expand(800, 2)
    mask = weft.tensor([1.0, 0.0]).double()
    found = {r: fill.replaced(known, mask, generator=seeded(2), resamples=r) for r in (1, 8)}
    misses = {r: abs(x[:, 1].mean().item() - 1.2) for r, x in found.items()}
    assert all(weft.allclose(x[:, 0], known[:, 0]) for x in found.values())
    assert misses[8] < 0.1 < misses[1]
    assert found[8][:, 1].var().item() == pytest.approx(0.36, rel=0.25)


def test_filling_in_by_guidance_follows_what_is_known():
    """The pull of x̂₀ moves x₂ the way that the correlation says; known values stay."""
    fill = Inpainter(DDPM(Correlated(), (2,), SCHEDULE))
    known, mask = weft.tensor([[1.5, 0.0]]).double().expand(400, 2), weft.tensor([1.0, 0.0]).double()
    pulled, free = (fill.guided(known, mask, seeded(2), scale=w) for w in (1.0, 0.0))
    assert weft.equal(pulled[:, 0], known[:, 0])
    assert abs(free[:, 1].mean().item()) < 4.5 / math.sqrt(400) < 0.7 < pulled[:, 1].mean().item()
    assert fill._plans.made["_guided"].plans == 1


def test_conditions_that_do_not_fit_are_refused(model):
    with pytest.raises(ArgumentError, match="guidance needs a condition"):
        model.sample(2, guidance=2.0)
    with pytest.raises(ShapeError, match="expected 4 classes"):
        model.sample(4, condition=weft.zeros(3, dtype=weft.int64))
