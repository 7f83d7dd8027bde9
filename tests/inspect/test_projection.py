"""Principal components against scikit-learn and NumPy; what the Eckart–Young theorem says."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA, TruncatedSVD

import weft
from weft.data import load_digits
from weft.errors import OptionError, ShapeError
from weft.inspect import pca, svd_projection

DIGITS = load_digits()[0].reshape(-1, 64)[:300] / 16.0
TABLES = {
    "digits": DIGITS,
    "wide": np.random.default_rng(0).normal(size=(7, 30)),
    "strided": np.random.default_rng(1).normal(size=(40, 12))[::2, ::3],
    "far from 0": np.random.default_rng(2).normal(size=(30, 4)) + 1e6,
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_pca_is_scikit_learns(name, count):
    x = TABLES[name]
    found, expected = pca(x, count), PCA(count, svd_solver="full").fit(x)
    np.testing.assert_allclose(found.components, expected.components_, atol=1e-8)
    np.testing.assert_allclose(found.scores, expected.transform(x), atol=1e-7)
    np.testing.assert_allclose(found.explained, expected.explained_variance_ratio_, rtol=1e-8)
    np.testing.assert_allclose(found.singular_values, expected.singular_values_, rtol=1e-8)
    np.testing.assert_allclose(found.transform(x[:3]), found.scores[:3], atol=1e-8)
    np.testing.assert_allclose(
        found.inverse(found.scores), expected.inverse_transform(expected.transform(x)), atol=1e-7
    )


def test_svd_projection_is_numpys_and_scikit_learns():
    found = svd_projection(DIGITS, 5)
    _, s, vt = np.linalg.svd(DIGITS, full_matrices=False)
    np.testing.assert_allclose(np.abs(found.components @ vt[:5].T), np.eye(5), atol=1e-10)
    np.testing.assert_allclose(found.singular_values, s[:5])
    theirs = TruncatedSVD(5, algorithm="arpack").fit(DIGITS)
    np.testing.assert_allclose(np.abs(found.scores), np.abs(theirs.transform(DIGITS)), atol=1e-8)
    assert np.linalg.norm(DIGITS - found.inverse(found.scores)) == pytest.approx(np.sqrt((s[5:] ** 2).sum()))


def test_tensors_images_and_constant_tables():
    images = weft.tensor(DIGITS.reshape(-1, 8, 8))
    np.testing.assert_array_equal(pca(images).scores, pca(DIGITS).scores)
    assert pca(np.ones((4, 3))).scores.tolist() == [[0.0, 0.0]] * 4


@pytest.mark.parametrize("x, count, error", [
    (np.ones((3, 2)), 3, OptionError), (np.ones((3, 2)), 0, OptionError), (np.ones(3), 1, ShapeError),
    (np.ones((1, 4)), 1, ShapeError), (np.ones((3, 0)), 1, ShapeError), (np.array([[1.0, np.nan], [0, 1]]), 1, OptionError),
    (np.array([[1.0, np.inf], [0, 1]]), 1, OptionError),
])  # fmt: skip
def test_refused(x, count, error):
    with pytest.raises(error, match="pca: expected"):
        pca(x, count)
