"""Score matching and scores: Gaussians and mixtures, whose scores are known at every noise level."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import weft
from weft import nn
from weft.models.diffusion import (
    NCSN,
    NoisedMixture,
    NoiseSchedule,
    PerfectNetwork,
    denoising_score_matching,
    divergence,
    explicit_score_matching,
    hutchinson,
    kl_rate,
    sliced_score_matching,
)

from .common import MIXTURE, normal, seeded

V = 2.25
X = 1.5 * normal(4000, 1, seed=1)


def line(w: float) -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False).double()
    layer.weight.data.fill_(w)
    return layer


def slope_at(w: float, loss) -> float:
    layer = line(w)
    loss(layer).backward()
    return layer.weight.grad.item()


def test_explicit_score_matching_is_minimal_at_the_score():
    """For s = w x the loss is ½ w² E x² + w: its minimum on the very sample is −1 / E x²."""
    second = (X**2).mean().item()
    assert explicit_score_matching(line(-0.3), X).item() == pytest.approx(0.5 * 0.09 * second - 0.3)
    assert slope_at(-1 / second, lambda s: explicit_score_matching(s, X)) == pytest.approx(0, abs=1e-12)


def test_explicit_score_matching_is_the_distance_to_the_score_but_for_a_constant():
    """½ E‖s − ∇ log p‖² of two candidates differ as the losses do; the mixture's own score is best."""
    x = MIXTURE.sample(20000, seeded(1))
    own = lambda x: MIXTURE.score(x)
    other = lambda x: -0.5 * x
    away = 0.5 * ((other(x) - own(x)) ** 2).sum(1).mean().item()
    found = explicit_score_matching(other, x).item() - explicit_score_matching(own, x).item()
    assert found == pytest.approx(away, rel=0.05)


@pytest.mark.parametrize("reduced", [True, False])
def test_sliced_score_matching_has_the_mean_of_the_explicit_loss(reduced):
    net = lambda x: weft.stack([(x[:, 0] * x[:, 1]).sin(), x[:, 1] ** 2 - x[:, 0]], 1)
    x = normal(3, 2)
    drawn = weft.stack([sliced_score_matching(net, x, seeded(i), slices=400, reduced=reduced) for i in range(20)])
    error = drawn.std().item() / math.sqrt(20)
    assert abs(drawn.mean().item() - explicit_score_matching(net, x).item()) < 4.5 * error


def test_denoising_score_matching_is_minimal_at_the_smoothed_score():
    """Its optimum on N(0, v) is −x / (v + σ²), not −x / v: slopes at the first vanish, at the second they do not."""
    x = 1.5 * normal(200000, 1, seed=3)
    sigma = 0.8
    loss = lambda s: denoising_score_matching(s, x, sigma, seeded(2))
    best = slope_at(-1 / (V + sigma**2), loss)
    plain = slope_at(-1 / V, loss)
    noise_of_slope = math.sqrt((V + sigma**2) / sigma**2 / len(x))
    assert abs(best) < 4.5 * noise_of_slope < abs(plain) / 5


def test_weighted_denoising_is_sigma_squared_times_the_plain():
    score, x = (lambda x: -x), normal(50, 3)
    plain, weighted = (denoising_score_matching(score, x, 0.3, seeded(1), weighted=w) for w in (False, True))
    assert weighted.item() == pytest.approx(0.09 * plain.item())


@pytest.mark.parametrize("t", [0, 10, 40, 99])
def test_scores_of_a_noised_mixture_are_closed_forms(t):
    """Against SciPy's densities, and the slope that autograd finds."""
    schedule = NoiseSchedule("linear", 100)
    x = normal(6, 2)
    a, s = (v.item() for v in schedule.rates(weft.tensor(t), x))
    density = sum(
        w * stats.multivariate_normal(a * m, (a * c) ** 2 * np.eye(2) + s**2 * np.eye(2)).pdf(x.numpy())
        for w, m, c in zip(MIXTURE.weights.tolist(), MIXTURE.means.numpy(), MIXTURE.scales[:, 0].tolist(), strict=True)
    )
    assert np.allclose(MIXTURE.log_prob(x, a, s).numpy(), np.log(density))
    slope = weft.func.grad(lambda x: MIXTURE.log_prob(x, a, s).sum())(x)
    assert weft.allclose(MIXTURE.score(x, a, s), slope)
    network = PerfectNetwork(MIXTURE, schedule)
    assert weft.allclose(network(x, weft.full((6,), t)), -s * slope)


def test_the_divergence_is_the_trace_of_the_jacobian():
    field = lambda x: weft.stack([x[:, 0] ** 2 * x[:, 2], x[:, 1].exp() * x[:, 0], x.prod(1)], 1)
    x = normal(4, 3)
    traces = [weft.func.jacrev(lambda r: field(r[None])[0])(row).trace() for row in x]
    found, trace = divergence(field, x)
    assert weft.allclose(trace, weft.stack(traces)) and weft.allclose(found, field(x))
    rows = x[:1].expand(20000, 3)
    signs = 2.0 * (weft.rand(20000, 3, dtype=weft.float64, generator=seeded(1)) < 0.5).double() - 1
    drawn = hutchinson(field, rows, signs)[1]
    assert abs(drawn.mean().item() - traces[0].item()) < 4.5 * drawn.std().item() / math.sqrt(20000)


class Known(nn.Module):
    """What an NCSN's network would say of a mixture: σ ∇ log p_σ(x)."""

    def __init__(self, mixture: NoisedMixture) -> None:
        super().__init__()
        self.mixture = mixture

    def forward(self, x, log_sigma):
        sigma = log_sigma.exp().unsqueeze(1)
        return sigma * self.mixture.score(x, 1.0, sigma)


def test_annealed_langevin_finds_the_weights_of_far_modes():
    """Modes at −3 and 3 with weights 0.8 and 0.2, and their spread; plain chains from noise would mix them half and half."""
    mixture = NoisedMixture([[-3.0], [3.0]], [0.4, 0.4], [0.8, 0.2])
    model = NCSN(Known(mixture), (1,), high=8.0, low=0.05, levels=25, step=0.1, steps=60)
    drawn = model.sample(1500, generator=seeded(1)).double()
    left = (drawn < 0).double().mean().item()
    assert abs(left - 0.8) < 4.5 * math.sqrt(0.16 / 1500)
    assert drawn[drawn < 0].std().item() == pytest.approx(0.4, rel=0.08)
    assert weft.allclose(model.score(drawn), mixture.score(drawn, 1.0, 0.05))


def test_ncsn_loss_is_the_mean_over_levels():
    """E σ² ½‖s + ε/σ‖² for the perfect score of N(0, v): ½ v / (v + σ²) at each level."""
    model = NCSN(Known(NoisedMixture([[0.0]], [1.5])), (1,), high=4.0, low=0.5, levels=4)
    expected = np.mean([0.5 * V / (V + s**2) for s in np.geomspace(4.0, 0.5, 4)])
    assert model.loss(1.5 * normal(100000, 1), generator=seeded(1)).item() == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("t", [0.0, 0.5])
def test_kl_falls_at_the_rate_of_the_fisher_divergence(t):
    """N1 eq. 317 on two Gaussians under dx = g dw: KL in closed form, its slope by differences, against −½ g² E‖Δ score‖²."""
    g, (m, v), (n, w) = 1.3, (0.5, 1.0), (-0.4, 2.0)

    def kl(t: float) -> float:
        p, q = v + g * g * t, w + g * g * t
        return 0.5 * (math.log(q / p) + (p + (m - n) ** 2) / q - 1)

    p, q = NoisedMixture([[m]], [v**0.5]), NoisedMixture([[n]], [w**0.5])
    spread = g * math.sqrt(t)
    x = m + math.sqrt(v + spread**2) * normal(400000, 1, seed=2)
    found = kl_rate(lambda x: p.score(x, 1.0, spread), lambda x: q.score(x, 1.0, spread), x, g).item()
    slope = (kl(t + 1e-5) - kl(max(t - 1e-5, 0))) / (1e-5 if t == 0 else 2e-5)
    assert found == pytest.approx(slope, rel=0.01) and found < 0
