"""`check_gan` passes what is sound and catches each fault that it is for."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn
from weft.data.synthetic import gaussian_ring, ring_centres
from weft.errors import ConditionError, ShapeError
from weft.models.adversarial import mlp
from weft.models.generative import check_gan, lipschitz_estimate

REAL, DRAWS = (gaussian_ring(400, seed=seed)[0] for seed in (0, 1))


def test_a_sound_critic_and_all_modes_pass_with_the_figures_measured():
    w = weft.tensor([0.6, 0.8])
    found = check_gan(lambda x: x @ w, REAL, DRAWS, lipschitz=1.0, centres=ring_centres(), scale=0.02)
    assert found.lipschitz == pytest.approx(1, rel=1e-3) and found.modes == 8 and found.good > 0.97


def test_estimate_is_below_the_product_of_spectral_norms_and_above_any_slope_seen():
    weft.manual_seed(0)
    net = mlp(2, (32,), 1, "tanh")
    bound = np.prod([np.linalg.svd(layer.weight.detach().numpy())[1][0] for layer in (net[0], net[2])])
    found = lipschitz_estimate(net, REAL)
    slopes = weft.func.grad(lambda x: net(x).sum())(REAL).norm(dim=1)
    assert slopes.max().item() * (1 - 1e-5) <= found <= bound * (1 + 1e-5)


def test_a_steep_critic_is_caught():
    with pytest.raises(ConditionError, match=r"slope of 3, but may have 1"):
        check_gan(lambda x: 3 * x[:, 0], REAL, DRAWS, lipschitz=1.0)


def test_a_jump_that_slopes_do_not_show_is_caught_between_points():
    step = lambda x: (x[:, 0] > 0).float()
    with pytest.raises(ConditionError, match=r"but may have 0\.5 at most"):
        check_gan(step, REAL, DRAWS, lipschitz=0.5)


def test_lost_modes_are_caught():
    half = DRAWS.clone()
    half[:, 1] = half[:, 1].abs()  # the modes below are thrown up
    with pytest.raises(ConditionError, match="found 5 of 8 modes"):
        check_gan(lambda x: x[:, 0], REAL, half, centres=ring_centres(), scale=0.02)
    check_gan(lambda x: x[:, 0], REAL, half, centres=ring_centres(), scale=0.02, least_modes=5)


def test_scores_that_hang_on_the_batch_are_caught():
    net = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
    shifted = weft.cat([REAL[:200] + 5, REAL[200:]])
    with pytest.raises(ConditionError, match="batch normalisation"):
        check_gan(net, shifted, DRAWS)


def test_a_gradient_that_is_not_that_of_the_critic_is_caught():
    with pytest.raises(ConditionError, match="finite differences say"):
        lipschitz_estimate(lambda x: (x + (x * x).detach()).sum(1), REAL)


def test_shapes_must_agree():
    with pytest.raises(ShapeError, match="one shape"):
        check_gan(lambda x: x[:, 0], REAL, DRAWS[:5])
