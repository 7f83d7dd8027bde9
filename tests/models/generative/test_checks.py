"""Detectors: each passes a model that keeps its promise and catches a planted fault."""

from __future__ import annotations

import math
from copy import deepcopy

import pytest

import weft
from weft import nn
from weft.distributions import Bernoulli, Independent, Logistic, Normal
from weft.errors import ConditionError, ShapeError
from weft.models.generative import (
    binary_states,
    check_autoregressive,
    check_ema,
    check_gradient_estimator,
    check_invertible,
    check_normalised,
    grid,
    influence,
)
from weft.optim.swa_utils import AveragedModel, get_ema_avg_fn
from weft.train.callbacks import EMA


@pytest.fixture(autouse=True)
def seeded():
    weft.manual_seed(0)


def test_probabilities_of_a_finite_space():
    coins = Independent(Bernoulli(weft.tensor([0.1, 0.5, 0.9])), 1)
    assert check_normalised(coins.log_prob, binary_states(3)) == pytest.approx(1, abs=1e-6)
    with pytest.raises(ConditionError, match=r"sum to 1\.10517"):
        check_normalised(lambda x: coins.log_prob(x) + 0.1, binary_states(3))


def test_an_ensemble_of_logits_is_no_distribution():
    """Averaging log p over orderings (a common fault) loses mass; averaging p keeps it."""
    a, b = (Independent(Bernoulli(weft.tensor(p)), 1) for p in ([0.1, 0.9], [0.8, 0.3]))
    states = binary_states(2)
    both = lambda x: weft.stack([a.log_prob(x), b.log_prob(x)])
    check_normalised(lambda x: both(x).logsumexp(0) - math.log(2), states)
    with pytest.raises(ConditionError):
        check_normalised(lambda x: both(x).mean(0), states)


def test_densities_integrate_to_one_on_a_grid():
    points, cell = grid([(-9, 9), (-30, 32)], 150)
    normal, logistic = Normal(0.0, 1.0), Logistic(1.0, 2.0)
    density = lambda x: normal.log_prob(x[:, 0]) + logistic.log_prob(x[:, 1])
    assert check_normalised(density, points, cell) == pytest.approx(1, abs=1e-5)
    with pytest.raises(ConditionError):  # the logarithm of a scale forgotten
        check_normalised(lambda x: density(x) + math.log(2), points, cell)


@pytest.mark.parametrize("order", [None, [3, 1, 0, 2]])
def test_conditionals_that_look_ahead_are_found(order):
    rank = weft.argsort(weft.tensor(order or [0, 1, 2, 3]))
    mask = (rank[:, None] > rank[None, :]).float()
    weight = weft.randn(4, 4)
    x = (weft.rand(6, 4) > 0.5).float()
    seen = check_autoregressive(lambda x: x @ (weight * mask).T, x, order)
    assert ((seen > 0) == (mask > 0)).all()
    for i, j in ((0, 0), (1, 1), (order or [0, 1])[:2]):
        leak = mask.clone()
        leak[i, j] = 1
        with pytest.raises(ConditionError, match=f"element {i} depends on"):
            check_autoregressive(lambda x, leak=leak: x @ (weight * leak).T, x, order)


def test_a_leak_without_slope_is_found():
    """A threshold has derivative 0 almost everywhere; its value still tells what it saw."""
    x = weft.rand(5, 3)
    with pytest.raises(ConditionError, match="element 0 depends on element 2"):
        check_autoregressive(lambda x: weft.stack([(x[:, 2] > 0.5).float(), 0 * x[:, 0], x[:, 1]], 1), x)


def test_influence_of_images_with_several_parameters():
    x = weft.rand(3, 2, 2)
    shifted = lambda x: weft.nn.functional.pad(x.flatten(1)[:, :-1], (1, 0)).reshape(x.shape)
    two = lambda x: weft.stack([shifted(x), 2 * shifted(x)], -1)  # a mean and a scale from the pixel before
    assert (influence(two, x) > 0).int().tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
    with pytest.raises(ShapeError, match="expected predictions of shape"):
        influence(lambda x: x[:, :1, :1].flatten(), weft.rand(3, 2, 2))


SCALE = weft.tensor([2.0, 0.5, 3.0]).double()


def affine(x):
    return SCALE * x + 1, SCALE.abs().log().sum().expand(len(x))


def back(y):
    return (y - 1) / SCALE, -SCALE.abs().log().sum().expand(len(y))


FAULTS = {
    "inverse": (affine, lambda y: ((y - 1.1) / SCALE, back(y)[1]), "away from x"),
    "volume": (lambda x: (affine(x)[0], affine(x)[1] + 0.3), back, r"log\|det J\| is 0\.3 away"),
    "sign of the inverse's volume": (affine, lambda y: (back(y)[0], -back(y)[1]), "the inverse's"),
}


def test_an_inverse_and_its_volume():
    x = weft.randn(4, 3).double()
    assert check_invertible(affine, back, x) < 1e-12
    assert check_invertible(weft.exp, weft.log, x) < 1e-12
    for forward, inverse, words in FAULTS.values():
        with pytest.raises(ConditionError, match=words):
            check_invertible(forward, inverse, x)


def test_the_worst_element_of_an_inverse_counts_and_nan_is_no_inverse():
    with pytest.raises(ConditionError, match="nan away"):
        check_invertible(weft.sqrt, lambda y: y**2, weft.tensor([[4.0], [-1.0]]))


def test_a_biased_gradient_estimator_is_found():
    """∇μ E[x²] = 2μ for x ~ N(μ, 1): reparametrised, and by a score function whose baseline depends on x."""
    mean = 1.5
    exact = {"mean": weft.tensor([2 * mean])}
    pathwise = lambda: {"mean": 2 * (mean + weft.randn(1, dtype=weft.float64))}
    assert check_gradient_estimator(pathwise, exact) < 5

    def wrong():
        noise = weft.randn(1, dtype=weft.float64)
        return {"mean": ((mean + noise) ** 2 - 3 * noise) * noise}  # 3 noise² does not vanish in the mean

    with pytest.raises(ConditionError, match="standard errors away; it is biased"):
        check_gradient_estimator(wrong, exact)


def test_a_constant_estimate_must_be_right():
    check_gradient_estimator(lambda: weft.ones(2), weft.ones(2), draws=3)
    with pytest.raises(ConditionError):
        check_gradient_estimator(lambda: weft.ones(2), weft.tensor([1.0, 1.001]), draws=3)


# ---- averages of weights -----------------------------------------------------------------------------------


def generator():
    return nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3))


def own_average(copy, decay=0.9, *, buffers=True, late=0.0):
    """An average written by hand, with faults to order."""

    @weft.no_grad()
    def update(model):
        for mean, value in zip(copy.parameters(), model.parameters(), strict=True):
            mean.mul_(decay + late).add_(value, alpha=1 - decay)
        if buffers:
            for mean, value in zip(copy.buffers(), model.buffers(), strict=True):
                mean.copy_(value)

    return update


@pytest.mark.parametrize("use_buffers", [False, True], ids=["newest", "averaged"])
def test_the_average_of_swa_utils_keeps_its_promise(use_buffers):
    model = generator()
    average = AveragedModel(model, avg_fn=get_ema_avg_fn(0.9), use_buffers=use_buffers)
    before = {name: x.clone() for name, x in model.state_dict().items()}
    assert check_ema(average.module, average.update_parameters, model, 0.9) < 1e-5
    assert all(weft.equal(x, before[name]) for name, x in model.state_dict().items()), "the model is as it was"


def test_averages_that_are_broken_are_caught():
    model = generator()
    copy = deepcopy(model)
    assert check_ema(copy, own_average(copy), model, 0.9) < 1e-5
    with pytest.raises(ConditionError, match=r"buffer 1\.running_mean.*newest"):  # the trap
        check_ema(copy, own_average(copy, buffers=False), model, 0.9)
    with pytest.raises(ConditionError, match=r"0\.weight is .* closed form"):
        check_ema(copy, own_average(copy, late=0.05), model, 0.9)
    with pytest.raises(ConditionError, match=r"0\.weight is .* closed form"):
        check_ema(copy, own_average(copy, 0.99), model, 0.9)
    with pytest.raises(ConditionError, match="model itself"):
        check_ema(model, own_average(model), model, 0.9)
    with pytest.raises(ConditionError, match="has no"):
        check_ema(copy[0], own_average(copy[0]), model, 0.9)


def test_an_average_that_warms_up():
    model = generator()
    callback = EMA(0.8, warm_up=True)
    callback.prepare(model)
    rate = lambda count: min(0.8, (1 + count) / (10 + count))
    assert check_ema(callback.average.module, callback.average.update_parameters, model, rate, steps=6) < 1e-5
    with pytest.raises(ConditionError, match="closed form"):
        check_ema(callback.average.module, callback.average.update_parameters, model, 0.8)
