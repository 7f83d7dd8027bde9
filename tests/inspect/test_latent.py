"""Pictures of codes, with decoders whose images are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import weft
from weft import inspect
from weft.errors import OptionError, ShapeError


def paint(z):
    """The first number as the brightness of the left half, the second of the right half: (N, 2) → (N, 4, 4)"""
    return z[:, None, :].repeat_interleave(2, -1).expand(len(z), 4, 4)


def test_traversals_change_one_number_each():
    grid = inspect.latent_traversal(paint, weft.tensor([0.5, -0.5]), steps=5, limits=(-1, 1))
    values = np.linspace(-1, 1, 5)
    np.testing.assert_allclose(grid.images[0, :, 0, 0], values, atol=1e-6)
    np.testing.assert_allclose(grid.images[0, :, 0, 3], -0.5)
    np.testing.assert_allclose(grid.images[1, :, 0, 3], values, atol=1e-6)
    assert (grid.rows, grid.columns[0]) == (["z0", "z1"], "-1")
    assert inspect.latent_traversal(paint, weft.zeros(2), [1]).images.shape == (1, 9, 4, 4)


def test_interpolation_is_along_the_line():
    start, end = weft.tensor([[0.0, 1.0], [2.0, 2.0]]), weft.tensor([[1.0, 0.0], [2.0, 4.0]])
    grid = inspect.interpolation_grid(paint, start, end, 3)
    np.testing.assert_allclose(grid.codes[:, 1], [[0.5, 0.5], [2.0, 3.0]])
    assert grid.images.shape == (2, 3, 4, 4)


def test_the_plane_is_at_quantiles_of_the_prior():
    grid = inspect.latent_manifold(paint, 4)
    values = stats.norm.ppf((np.arange(4) + 0.5) / 4)
    np.testing.assert_allclose(grid.codes[0, :, 0], values, rtol=1e-5)
    np.testing.assert_allclose(grid.codes[:, 0, 1], values[::-1], rtol=1e-5)


def test_images_of_other_shapes():
    colours = inspect.latent_manifold(lambda z: weft.ones(len(z), 3, 4, 4), 2)
    assert colours.images.shape == (2, 2, 4, 4, 3)
    rows = inspect.latent_manifold(lambda z: weft.ones(len(z), 16), 2, shape=(4, 4))
    assert rows.images.shape == (2, 2, 4, 4)
    with pytest.raises(ShapeError, match=r"shape=\(H, W\)"):
        inspect.latent_manifold(lambda z: weft.ones(len(z), 16), 2)


def test_it_draws_itself(tmp_path):
    pytest.importorskip("matplotlib")
    grid = inspect.latent_traversal(paint, weft.zeros(2), steps=3)
    image = grid.figure().axes[0].images[0].get_array()
    assert image.shape == (8, 12)  # 2 rows and 3 columns of 4×4
    np.testing.assert_allclose(image[0, 8:10], grid.images[0, 2, 0, :2])
    assert grid.save(tmp_path / "codes.png").stat().st_size > 500


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: inspect.latent_traversal(paint, weft.zeros(1, 2)), ShapeError, "one code"),
        (lambda: inspect.latent_traversal(paint, weft.zeros(2), [2]), OptionError, "from 0 to 1"),
        (lambda: inspect.interpolation_grid(paint, weft.zeros(2, 2), weft.zeros(3, 2)), ShapeError, "twice"),
        (lambda: inspect.latent_manifold(paint, 1), OptionError, "side ≥ 2"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
