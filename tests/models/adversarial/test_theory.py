"""What the game is worth, where densities are known (N1 theorems 9.1 and 9.2): identities, and networks that learn them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

import weft
from weft.errors import InvalidValueError, ShapeError
from weft.models.adversarial import (
    game_value,
    jensen_shannon,
    mlp,
    optimal_discriminator,
    wasserstein_1d,
    wasserstein_of_cdfs,
)
from weft.models.adversarial.losses import logistic_discriminator
from weft.models.generative import grid

POINTS, CELL = grid([(-8, 10)], 2000)
P, Q = (scipy.stats.norm(m, s) for m, s in ((0, 1), (1.5, 1.5)))
p, q = (weft.tensor(d.pdf(POINTS[:, 0].numpy())) for d in (P, Q))
p, q = p / (p.sum() * CELL), q / (q.sum() * CELL)  # without the tails


def test_value_of_the_optimal_discriminator_is_2_jsd_minus_log_4():
    value = game_value(optimal_discriminator(p, q), p, q, CELL)
    assert value == pytest.approx(2 * jensen_shannon(p, q, CELL) - math.log(4), abs=1e-12)
    assert game_value(optimal_discriminator(p, p), p, p, CELL) == pytest.approx(-math.log(4), abs=1e-6)


def test_jensen_shannon_is_that_of_scipy_and_ends_at_log_2():
    theirs = scipy.spatial.distance.jensenshannon(p.numpy(), q.numpy()) ** 2
    assert jensen_shannon(p, q, CELL) == pytest.approx(theirs, rel=1e-6)
    apart = [weft.tensor([1.0, 0.0, 0.0]), weft.tensor([0.0, 0.0, 1.0])]
    assert jensen_shannon(*apart, 1.0) == pytest.approx(math.log(2)) and jensen_shannon(p, p, CELL) == 0
    np.testing.assert_allclose(optimal_discriminator(*apart).numpy(), [1, 0.5, 0])


def test_no_discriminator_beats_the_optimal_one():
    best, star = game_value(optimal_discriminator(p, q), p, q, CELL), optimal_discriminator(p, q)
    for change in (0.01, -0.01, 0.1):
        assert game_value((star.logit() + change * POINTS[:, 0].sin()).sigmoid(), p, q, CELL) < best


def test_optimal_discriminator_is_learnt_on_known_densities():
    """Logits of a small network against log p − log q, on fresh draws at every step."""
    weft.manual_seed(0)
    net = mlp(1, (32, 32), 1, "silu")
    adam, random = weft.optim.Adam(net.parameters(), lr=0.01), weft.Generator().manual_seed(1)

    @weft.compile
    def step():
        adam.zero_grad()
        x = weft.randn(1000, 1, generator=random)
        y = 1.5 + 1.5 * weft.randn(1000, 1, generator=random)
        loss = logistic_discriminator(net(x), net(y))
        loss.backward()
        adam.step()

    for i in range(400):
        adam.param_groups[0]["lr"] = 0.01 * (1 - i / 400)
        step()
    with weft.no_grad():
        learnt = net(POINTS.float()).sigmoid()[:, 0].double()
    weight = (p + q) / 2 * CELL
    assert ((learnt - optimal_discriminator(p, q)).abs() * weight).sum().item() < 0.015
    best = game_value(optimal_discriminator(p, q), p, q, CELL)
    assert best - 0.005 < game_value(learnt, p, q, CELL) < best


def test_theorem_9_2_descent_on_the_value_at_the_best_discriminator_converges_to_the_data():
    """max_D V is convex in q; with D at its optimum, steps of q down its slope, log(1 − D*), end at p."""
    true = weft.tensor([0.1, 0.2, 0.3, 0.4], dtype=weft.float64)
    drawn = weft.tensor([0.7, 0.1, 0.1, 0.1], dtype=weft.float64)
    gaps = []
    for _ in range(400):
        d = optimal_discriminator(true, drawn)
        gaps.append(game_value(d, true, drawn, 1.0) + math.log(4))
        drawn = drawn * (-0.5 * (1 - d).log()).exp()  # mirror descent stays among probabilities
        drawn = drawn / drawn.sum()
    assert all(after <= before + 1e-12 for before, after in itertools.pairwise(gaps))
    assert gaps[-1] < 1e-9 and (drawn - true).abs().max() < 1e-4


def test_value_is_convex_in_the_generators_density():
    at = lambda r: 2 * jensen_shannon(p, r, CELL)
    for t in (0.25, 0.5, 0.9):
        assert at(t * p + (1 - t) * q) <= t * at(p) + (1 - t) * at(q) + 1e-12


def test_wasserstein_on_the_line_is_the_area_between_distribution_functions():
    f, g = (weft.tensor(d.cdf(POINTS[:, 0].numpy())) for d in (P, scipy.stats.norm(2.25, 1)))
    assert wasserstein_of_cdfs(f, g, CELL) == pytest.approx(2.25, abs=1e-6)  # a shift
    x, y = weft.randn(300), 2 * weft.randn(170) + 1
    theirs = scipy.stats.wasserstein_distance(x.numpy(), y.numpy())
    assert wasserstein_1d(x, y) == pytest.approx(theirs, rel=1e-6)
    assert wasserstein_1d(x, x + 3) == pytest.approx(3, rel=1e-5)


def test_wasserstein_refuses_what_has_no_distance():
    with pytest.raises(ShapeError, match="expected samples"):
        wasserstein_1d(weft.zeros(0), weft.zeros(3))
    with pytest.raises(InvalidValueError, match="finite"):
        wasserstein_1d(weft.tensor([0.0, float("nan")]), weft.zeros(3))
    with pytest.raises(ShapeError, match="same points"):
        jensen_shannon(weft.zeros(3), weft.zeros(4), 1.0)
