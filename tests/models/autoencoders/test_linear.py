"""The linear autoencoder is principal component analysis, in closed form and trained."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from sklearn.decomposition import PCA

import weft
from weft.errors import OptionError, ShapeError
from weft.models.autoencoders import LinearAutoencoder, principal_angles

CODE = 3


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    mixed = rng.standard_normal((300, 8)) * np.array([3, 2.5, 2, 0.8, 0.6, 0.5, 0.3, 0.1])
    turn = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    return weft.tensor(mixed @ turn + rng.standard_normal(8))


@pytest.fixture(scope="module")
def eigenvalues(data):
    return np.linalg.eigvalsh(np.cov(data.numpy().T, bias=True))[::-1]


def trained(x):
    """Descent alone, from random weights; the closed form is never looked at."""
    weft.manual_seed(1)
    model = LinearAutoencoder(8, CODE, dtype=weft.float64)
    optimizer = weft.optim.Adam(model.parameters(), lr=0.02)

    @weft.compile
    def step():
        optimizer.zero_grad()
        model.loss(x).backward()
        optimizer.step()

    for number in range(6000):
        optimizer.param_groups[0]["lr"] = 0.02 * 0.998 ** max(number - 3000, 0)
        step()
    return model


def solved(x):
    model = LinearAutoencoder(8, CODE, dtype=weft.float64)
    model.solve(x)
    return model


@pytest.mark.parametrize("make", [trained, solved])
def test_it_finds_the_principal_space_and_loses_the_discarded_eigenvalues(make, data, eigenvalues):
    model = make(data)
    theirs = PCA(CODE).fit(data.numpy())
    angles = principal_angles(model.decoder.weight, weft.tensor(theirs.components_.T))
    assert angles.max().item() < 1e-4
    assert model.loss(data).item() == pytest.approx(eigenvalues[CODE:].sum(), rel=1e-7)
    expected = theirs.inverse_transform(theirs.transform(data.numpy()))
    np.testing.assert_allclose(model.reconstruct(data).detach().numpy(), expected, atol=1e-3)


def test_the_closed_form_returns_all_eigenvalues(data, eigenvalues):
    model = LinearAutoencoder(8, CODE, dtype=weft.float64)
    np.testing.assert_allclose(model.solve(data).numpy(), eigenvalues, rtol=1e-10)
    spread = model.encode(data).detach().numpy()
    np.testing.assert_allclose(np.cov(spread.T, bias=True), np.diag(eigenvalues[:CODE]), atol=1e-9)
    np.testing.assert_allclose(spread.mean(0), 0, atol=1e-10)


def test_a_whole_code_loses_nothing(data):
    model = LinearAutoencoder(8, 8, dtype=weft.float64)
    model.solve(data)
    assert model.squared_error(data).max().item() < 1e-20


def test_principal_angles_are_scipys():
    rng = np.random.default_rng(3)
    first, second = rng.standard_normal((10, 4)), rng.standard_normal((10, 3))
    expected = scipy.linalg.subspace_angles(first, second)
    np.testing.assert_allclose(principal_angles(weft.tensor(first), weft.tensor(second)), expected, atol=1e-12)
    near = first @ rng.standard_normal((4, 4)) + 1e-9 * rng.standard_normal((10, 4))
    expected = scipy.linalg.subspace_angles(first, near)
    np.testing.assert_allclose(principal_angles(weft.tensor(first), weft.tensor(near)), expected, rtol=1e-4)


def test_what_cannot_be_is_refused(data):
    with pytest.raises(OptionError, match="1 to 8"):
        LinearAutoencoder(8, 9)
    with pytest.raises(ShapeError, match=r"\(N, 5\)"):
        LinearAutoencoder(5, 2).solve(data)
