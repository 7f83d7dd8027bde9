"""Predictive sparse decomposition: its codes are optimal, and its slope is that of the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Lasso

import weft
from weft.errors import OptionError
from weft.models.autoencoders import PredictiveSparseDecomposition


def made(sparsity=0.3, prediction=0.5):
    weft.manual_seed(0)
    return PredictiveSparseDecomposition(6, 10, sparsity, prediction, dtype=weft.float64)


@pytest.fixture
def x():
    return weft.tensor(np.random.default_rng(0).standard_normal((8, 6)))


def test_codes_meet_the_conditions_of_the_optimum(x):
    """0 ∈ ∂: the slope of the smooth part is −λ sign z where z ≠ 0, and at most λ in size where z = 0."""
    model = made()
    z = weft.compile(model.infer)(x, steps=2000).numpy()
    d, guess = model.dictionary.detach().numpy(), model.encode(x).detach().numpy()
    slope = 2 * (z @ d.T - x.numpy()) @ d + 2 * 0.5 * (z - guess)
    used = z != 0
    assert 0.1 < used.mean() < 0.9
    np.testing.assert_allclose(slope[used], -0.3 * np.sign(z[used]), atol=1e-9)
    assert np.abs(slope[~used]).max() <= 0.3 + 1e-9


def test_without_a_prediction_it_is_the_lasso(x):
    model = made(prediction=0.0)
    z = weft.compile(model.infer)(x, steps=5000).numpy()
    for row, code in zip(x.numpy(), z, strict=True):  # their loss is |·|² / 2n + α|·|₁
        theirs = Lasso(alpha=0.3 / 2 / 6, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(
            model.dictionary.detach().numpy(), row
        )
        np.testing.assert_allclose(code, theirs.coef_, atol=1e-5)


def test_the_slope_is_that_of_the_minimum(x):
    """Danskin: ∂ min_z F / ∂D = ∂F / ∂D at the best z. Compared with differences of the minimum itself."""
    model = made()
    minimum = weft.compile(lambda: model.loss(x, steps=1000))
    model.loss(x, steps=1000).backward()
    for parameter in (model.dictionary, model.predictor.weight, model.gain):
        place, step = (0,) * parameter.ndim, 1e-5
        values = []
        for sign in (1, -1):
            with weft.no_grad():
                parameter[place] += sign * step
                values.append(minimum().item())
                parameter[place] -= sign * step
        assert parameter.grad[place].item() == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-4, abs=1e-7)


def test_columns_have_length_one(x):
    model = made()
    with weft.no_grad():
        model.dictionary.mul_(3)
    model.normalise()
    np.testing.assert_allclose((model.dictionary.detach() ** 2).sum(0), 1, rtol=1e-12)


def test_training_brings_the_guess_to_the_codes():
    """Data made of few of ten columns; the encoder learns to say which."""
    rng = np.random.default_rng(1)
    true = rng.standard_normal((16, 10))
    codes = rng.laplace(size=(500, 10)) * (rng.random((500, 10)) < 0.2)
    x = weft.tensor((codes @ (true / np.linalg.norm(true, axis=0)).T).astype(np.float32))
    weft.manual_seed(0)
    model = PredictiveSparseDecomposition(16, 10, 0.05, 1.0)
    optimizer = weft.optim.Adam(model.parameters(), lr=0.02)

    @weft.compile
    def step():
        optimizer.zero_grad()
        loss = model.loss(x, steps=20)
        loss.backward()
        optimizer.step()
        model.normalise()
        return loss.detach()

    losses = [step().item() for _ in range(200)]
    assert losses[-1] < 0.25 * losses[0]
    left = ((x - model.reconstruct(x)) ** 2).sum() / (x**2).sum()
    assert left.item() < 0.3


def test_weights_that_cannot_be():
    with pytest.raises(OptionError, match=">= 0"):
        PredictiveSparseDecomposition(4, 4, -1.0)
