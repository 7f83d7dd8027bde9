"""The variational bound, term by term, on Gaussian data, where every term has a closed form; levels of grey; learned variances."""

from __future__ import annotations

import math

import pytest

import weft
from weft import nn
from weft.errors import DtypeError, OptionError, ShapeError
from weft.models import diffusion
from weft.models.diffusion import DDPM, NoiseSchedule, PerfectNetwork, discretised_normal_log_prob, normal_kl

from .common import GAUSSIAN, MEAN, VARIANCE, normal, seeded

T = 30
SCHEDULE = NoiseSchedule("cosine", T)
BAR, BEFORE, BETA = (table.numpy() for table in (SCHEDULE.alphas_cumprod, SCHEDULE.alphas_cumprod_prev, SCHEDULE.betas))
LEFT = VARIANCE * (1 - BAR) / (BAR * VARIANCE + 1 - BAR)  # Var(x₀ | x_t)
N = 6000
RELATIVE = 4.5 * math.sqrt(2 / (4 * N))  # of a mean of N × 4 squares of normal numbers


@pytest.fixture(scope="module")
def data():
    return MEAN + math.sqrt(VARIANCE) * normal(N, 4, seed=5)


def terms_of(model: DDPM, x: weft.Tensor, seed: int = 1) -> diffusion.Terms:
    """`model.terms` without compiling, which takes longer than these few steps."""
    return DDPM._terms.__wrapped__(model, x, None, seeded(seed))


def perfect(kind: str = "epsilon", **options) -> DDPM:
    return DDPM(PerfectNetwork(GAUSSIAN, SCHEDULE, kind), (4,), SCHEDULE, prediction_type=kind, **options)


def test_the_best_epsilon_of_a_gaussian():
    """E[ε | x_t] = s (x − a m) / (a² v + s²)"""
    x, t = normal(T, 4), weft.arange(T)
    a, s = SCHEDULE.rates(t, x)
    best = s * (x - a * MEAN) / (a**2 * VARIANCE + s**2)
    assert weft.allclose(PerfectNetwork(GAUSSIAN, SCHEDULE)(x, t), best)


@pytest.mark.parametrize(("kind", "variance"), [("epsilon", "fixed_small"), ("v_prediction", "fixed_large")])
def test_every_term_of_a_gaussian_is_its_closed_form(kind, variance, data):
    terms = terms_of(perfect(kind, variance_type=variance), data)
    small = BETA * (1 - BEFORE) / (1 - BAR)
    wide = BETA if variance == "fixed_large" else small
    toward = BEFORE**0.5 * BETA / (1 - BAR)
    for t in range(1, T):
        shape = 0.5 * (math.log(wide[t] / small[t]) + small[t] / wide[t] - 1)
        moved = 0.5 * toward[t] ** 2 * LEFT[t] / wide[t]
        found = terms.transitions[:, t - 1].mean().item() / 4
        assert abs(found - shape - moved) < RELATIVE * moved, t
    decoder = 0.5 * (math.log(2 * math.pi * small[1]) + LEFT[0] / small[1])
    assert abs(terms.decoder.mean().item() / 4 - decoder) < RELATIVE * 0.5 * LEFT[0] / small[1]
    end = 0.5 * (BAR[-1] * data**2 + (1 - BAR[-1]) - 1 - math.log(1 - BAR[-1])).sum(1)
    assert weft.allclose(terms.prior, end, atol=1e-12)
    assert weft.allclose(terms.total, terms.prior + terms.transitions.sum(1) + terms.decoder)


def test_the_bound_is_below_and_closes_with_more_steps(data):
    """−L ≤ log p in the mean, and the gap falls with T: the only loss of a perfect network is that of large steps."""
    gaps = []
    true = GAUSSIAN.log_prob(data).mean().item()
    for steps in (8, 30, 120):
        schedule = NoiseSchedule("cosine", steps)
        model = DDPM(PerfectNetwork(GAUSSIAN, schedule), (4,), schedule)
        gaps.append(GAUSSIAN.log_prob(data[:1500]).mean().item() + terms_of(model, data[:1500]).total.mean().item())
    assert gaps[0] > gaps[1] > gaps[2] > 0 and true < 0


def test_some_steps_estimate_all_of_them(data):
    """Strata with one draw each: the mean of the bound is that of all T terms."""
    model = perfect()
    whole, part = model.elbo(data, generator=seeded(3)), model.elbo(data, generator=seeded(4), draws=7)
    error = math.hypot(whole.std().item(), part.std().item()) / math.sqrt(N)
    assert abs(whole.mean().item() - part.mean().item()) < 4.5 * error
    assert weft.allclose(-terms_of(model, data, 3).total, whole)  # compiled is eager, draw by draw
    found = model.log_prob_bound(data, generator=seeded(3), repeats=2)
    assert found.side == "lower" and (found.error > 0).all()
    first, second = whole, model.elbo(data, generator=seeded(9))
    assert abs(found.value.mean().item() - (first.mean().item() + second.mean().item()) / 2) < 4.5 * error


def test_all_predictions_have_one_bound(data):
    found = [terms_of(perfect(kind), data[:50]).total for kind in diffusion.PREDICTION_TYPES]
    assert weft.allclose(found[0], found[1], rtol=1e-6) and weft.allclose(found[0], found[2], rtol=1e-6)


def test_kl_is_the_librarys():
    mean, log_variance, other, other_log_variance = normal(4, 5)
    p = weft.distributions.Normal(mean, (0.5 * log_variance).exp())
    q = weft.distributions.Normal(other, (0.5 * other_log_variance).exp())
    expected = weft.distributions.kl_divergence(p, q)
    assert weft.allclose(normal_kl(mean, log_variance, other, other_log_variance), expected)


@pytest.mark.parametrize("levels", [2, 17, 256])
@pytest.mark.parametrize("deviation", [0.001, 0.05, 2.0])
def test_levels_of_grey_have_masses_that_sum_to_one(levels, deviation):
    """256 levels lie 2/255 apart: 255 bins, or bins of 2/256, would not sum to one."""
    x = weft.linspace(-1, 1, levels, dtype=weft.float64)
    for mean in (-1.3, -0.2, 0.9):
        found = discretised_normal_log_prob(
            x, weft.tensor(mean).double(), weft.tensor(2 * math.log(deviation)).double(), levels
        )
        assert found.exp().sum().item() == pytest.approx(1, abs=1e-9)


def test_levels_far_from_the_mean_keep_finite_logarithms_and_slopes():
    mean = weft.tensor([-1.0, 0.0, 1.0], requires_grad=True)
    found = discretised_normal_log_prob(weft.tensor([1.0, 0.8039216, -1.0]), mean, weft.tensor(2 * math.log(0.005)))
    found.sum().backward()
    assert found.isfinite().all() and mean.grad.isfinite().all() and found.max() < -1000


def test_bits_of_levels_have_the_width_of_a_bin():
    """bpd without the log-determinant of [0, 255] → [−1, 1] would miss log₂(2/255) a pixel: a wide decoder's mass is density
    times width, so −log P = −log p − log(2/255)."""
    x = weft.linspace(-0.9, 0.9, 7, dtype=weft.float64)
    mean, log_variance = weft.tensor(0.1).double(), weft.tensor(2 * math.log(0.4)).double()
    density = weft.distributions.Normal(mean, weft.tensor(0.4).double()).log_prob(x)
    found = discretised_normal_log_prob(x, mean, log_variance)
    assert weft.allclose(found, density + math.log(2 / 255), atol=1e-4)
    terms = diffusion.Terms(weft.ones(2), weft.ones(2, 3), weft.ones(2))
    assert terms.bits(4).total.tolist() == pytest.approx([5 / (4 * math.log(2))] * 2)


class Constant(nn.Module):
    """A network whose outputs are parameters."""

    def __init__(self, *shape: int, value: float = 0.0) -> None:
        super().__init__()
        self.value = nn.Parameter(weft.full(shape, value, dtype=weft.float64))

    def forward(self, x, t):
        return self.value.expand(len(x), *self.value.shape)


def test_learned_variances_lie_between_the_posterior_and_beta(data):
    """At −1 they are β̃ and at 1 they are β, on a logarithmic scale; the bound at ±1 is that of the fixed ones."""
    fixed = {-1.0: "fixed_small", 1.0: "fixed_large"}
    for value, name in fixed.items():
        learned = DDPM(Constant(8, value=value), (4,), SCHEDULE, variance_type="learned_range")
        learned.network.value.data[:4] = 0.3
        same = DDPM(Constant(4, value=0.3), (4,), SCHEDULE, variance_type=name)
        found, expected = (terms_of(model, data[:20]) for model in (learned, same))
        assert weft.allclose(found.transitions, expected.transitions, rtol=1e-8)
        x = data[:20]
        steps = (m.scheduler().step(m.network(x, 12), 12, x, generator=seeded(2)) for m in (learned, same))
        assert weft.allclose(*(step.prev_sample for step in steps), rtol=1e-6)


def test_the_bound_in_the_hybrid_loss_moves_variances_alone(data):
    """The slope of the means is that of L_simple: the bound's is stopped there (Nichol and Dhariwal 2021)."""
    hybrid = DDPM(Constant(8, value=0.2), (4,), SCHEDULE, variance_type="learned_range")
    simple = DDPM(Constant(4, value=0.2), (4,), SCHEDULE)
    for model in (hybrid, simple):
        model.loss(data[:200], generator=seeded(1)).backward()
    grad = hybrid.network.value.grad
    assert weft.allclose(grad[:4], simple.network.value.grad) and (grad[4:] != 0).all()


def test_the_loss_of_a_perfect_network_is_known(data):
    """E‖ε − ε̂‖² = a² v / (a² v + s²), meant over t; weighted by min-SNR, the weighted mean."""
    left = BAR * VARIANCE / (BAR * VARIANCE + 1 - BAR)
    found = perfect().loss(data, generator=seeded(1)).item()
    assert found == pytest.approx(left.mean(), rel=0.05)
    snr = BAR / (1 - BAR)
    weighted = perfect(min_snr=5.0).loss(data, generator=seeded(1)).item()
    assert weighted == pytest.approx((left * snr.clip(max=5.0) / snr).mean(), rel=0.05)


def test_levels_are_seen_in_one_scale_and_returned_in_the_other():
    grey = DDPM(Constant(3, value=0.1), (3,), SCHEDULE, levels=256)
    x = weft.tensor([[0.0, 0.5, 1.0]]).double()
    assert grey.inside(x).tolist() == [[-1, 0, 1]]
    drawn = grey.sample(20, generator=seeded(1))
    assert drawn.min() >= 0 and drawn.max() <= 1
    assert terms_of(grey, x).decoder.item() > 0  # −log of a probability


def test_what_cannot_be_is_refused(data):
    model = perfect()
    with pytest.raises(ShapeError, match=r"\(B, 4\) with B > 0"):
        model.loss(data[:0])
    with pytest.raises(ShapeError, match="expected x of shape"):
        model.elbo(data[:, :3])
    with pytest.raises(DtypeError, match=r"scale it to \[0, 1\]"):
        model.loss(weft.zeros(3, 4, dtype=weft.int64))
    with pytest.raises(OptionError, match="sampler is one of ddpm"):
        model.sample(2, sampler="ode")
    with pytest.raises(OptionError, match="1 draw or more"):
        model.elbo(data[:3], draws=0)
    with pytest.raises(weft.errors.UnsupportedError, match="takes no condition"):
        model.sample(2, condition=1)
    row = data[:4].mT[:, 1:2].mT  # not contiguous
    assert terms_of(model, row).total.shape == (1,)
    assert model.loss(weft.full((2, 4), math.nan), generator=seeded()).isnan()
