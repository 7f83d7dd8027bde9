"""Dropout and noise: what they promise about means, variances and which elements fall together."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft

from .modules_harness import case, check_cases

CASES = {
    "Dropout": [(3,), (2, 3), (2, 3, 4), (0, 3), (), (2, 3, 4, 4)],
    "Dropout1d": [(2, 3, 4), (3, 4), (0, 3, 4), (1, 1, 1), (2, 3, 1), (5, 2, 2)],
    "Dropout2d": [(2, 3, 4, 4), (2, 3, 4), (0, 3, 4, 4), (1, 1, 1, 1), (2, 3, 1, 5), (5, 2, 2, 2)],
    "Dropout3d": [(2, 3, 4, 4, 2), (3, 4, 4, 2), (0, 3, 4, 4, 1), (1, 1, 1, 1, 1), (2, 3, 1, 5, 1), (5, 2, 2, 2, 2)],
    "AlphaDropout": [(3,), (2, 3), (2, 3, 4), (0, 3), (), (2, 3, 4, 4)],
    "FeatureAlphaDropout": [(2, 3), (2, 3, 4), (0, 3, 2), (2, 3, 4, 4), (1, 1, 1), (2, 2, 2, 2, 2)],
}


@pytest.mark.filterwarnings("ignore:dropout2d")
@pytest.mark.parametrize("name", CASES)
def test_evaluation_and_p_zero_are_the_identity_as_in_torch(name, record_property):
    check_cases(name, [case(s, p=0.4) for s in CASES[name]], record_property, train=False)
    check_cases(name, [case(s, p=0.0) for s in CASES[name]], record_property, train=True)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_inverted_dropout_keeps_the_mean(p):
    weft.manual_seed(0)
    y = weft.nn.Dropout(p)(weft.ones(200_000)).numpy()
    assert set(np.unique(y)) == {0.0, np.float32(1 / (1 - p))}
    assert abs((y == 0).mean() - p) < 4 * np.sqrt(p * (1 - p) / y.size)


@pytest.mark.parametrize(
    "name,spatial", [("Dropout1d", 1), ("Dropout2d", 2), ("Dropout3d", 3), ("FeatureAlphaDropout", 2)]
)
def test_whole_channels_fall(name, spatial):
    weft.manual_seed(1)
    y = getattr(weft.nn, name)(0.5)(weft.ones(30, 8, *(4,) * spatial)).numpy().reshape(30 * 8, -1)
    assert (y == y[:, :1]).all() and len(np.unique(y[:, 0])) == 2


def test_alpha_dropout_keeps_mean_and_variance():
    weft.manual_seed(2)
    x = weft.randn(300_000)
    y = weft.nn.AlphaDropout(0.3)(x).numpy()
    assert abs(y.mean()) < 0.01 and abs(y.var() - 1) < 0.02


@pytest.mark.parametrize("name", ["Dropout", "AlphaDropout", "WeightScalingDropout"])
def test_inplace_and_everything_dropped(name):
    x = weft.ones(50)
    layer = getattr(weft.nn, name)(1.0, inplace=True)
    assert layer(x) is x and not x.any()
    with pytest.raises(ValueError, match="between 0 and 1"):
        getattr(weft.nn, name)(1.5)


# ------------------------------------------------------------------------------------------ of the notes


def test_weight_scaling_equals_scaled_weights_and_the_mean_of_training():
    """N1 §2.3: W_test = (1 − p) W_train gives the expected pre-activation of training."""
    weft.manual_seed(0)
    p, linear = 0.3, weft.nn.Linear(6, 4).double()
    model, x = weft.nn.Sequential(weft.nn.WeightScalingDropout(p), linear), weft.randn(6, dtype=weft.float64)
    with weft.no_grad():
        drawn = model(x.expand(40_000, 6))
        expected = (x @ ((1 - p) * linear.weight.mT) + linear.bias).numpy()
        np.testing.assert_allclose(model.eval()(x).numpy(), expected, 1e-10)
    variance = p * (1 - p) * (linear.weight.detach().numpy() ** 2 @ x.numpy() ** 2)
    assert (np.abs(drawn.mean(0).numpy() - expected) < 4 * np.sqrt(variance / 40_000)).all()
    assert set(np.unique(model[0].train()(weft.ones(100)).numpy())) == {0.0, 1.0}


def test_monte_carlo_dropout_variance_of_a_linear_layer():
    """y = W (r ⊙ x) / (1 − p) + b has mean W x + b and variance Σ_j W_ij² x_j² p / (1 − p) (N2 §8.3)."""
    weft.manual_seed(0)
    p, samples = 0.25, 20_000
    linear, x = weft.nn.Linear(5, 3).double(), weft.randn(5, dtype=weft.float64)
    model = weft.nn.Sequential(weft.nn.Dropout(p), linear).eval()
    mean, variance = weft.nn.monte_carlo(model, x, samples)
    exact = (p / (1 - p)) * (linear.weight.detach().numpy() ** 2 @ x.numpy() ** 2)
    assert (np.abs(mean.numpy() - linear(x).detach().numpy()) < 4 * np.sqrt(exact / samples)).all()
    np.testing.assert_allclose(variance.numpy(), exact, 0.1)
    assert not model.training and not model[0].training


def test_monte_carlo_leaves_batch_statistics_alone():
    model = weft.nn.Sequential(weft.nn.BatchNorm1d(3), weft.nn.Dropout(0.5)).train()
    weft.nn.monte_carlo(model, weft.randn(4, 3) + 5, 4)
    assert int(model[0].num_batches_tracked) == 0 and model[0].training and model[1].training
    with pytest.raises(ValueError, match="at least 2"):
        weft.nn.monte_carlo(model, weft.randn(4, 3), 1)


@pytest.mark.parametrize("relative", [False, True])
def test_gaussian_noise(relative):
    weft.manual_seed(0)
    x = weft.full((100_000,), 3.0, requires_grad=True)
    layer = weft.nn.GaussianNoise(0.2, relative)
    y = layer(x)
    std = 0.6 if relative else 0.2
    assert abs(float(y.mean()) - 3) < 4 * std / 300 and abs(float(y.std()) - std) < 0.01
    y.sum().backward()
    assert (x.grad == 1).all() and layer.eval()(x) is x


def test_noise_on_weights_is_taken_away_again():
    weft.manual_seed(0)
    linear = weft.nn.Linear(200, 300)
    before = {k: v.clone() for k, v in linear.state_dict().items()}
    with weft.nn.noisy_weights(linear, 0.5):
        shift = (linear.weight.detach() - before["weight"]).numpy()
        assert abs(shift.std() - 0.5) < 0.01 and abs(shift.mean()) < 0.01
        assert (linear.bias.detach() == before["bias"]).all()
        linear(weft.ones(1, 200)).sum().backward()
    assert (linear.weight.detach() == before["weight"]).all() and linear.weight.grad is not None


def test_the_stream_of_masks_is_reproducible():
    layer, x = weft.nn.Dropout(0.5), weft.ones(64)
    weft.manual_seed(7)
    first, other = layer(x).numpy(), layer(x).numpy()
    weft.manual_seed(7)
    np.testing.assert_array_equal(layer(x).numpy(), first)
    assert (first != other).any() and repr(layer) == repr(torch.nn.Dropout(0.5))
