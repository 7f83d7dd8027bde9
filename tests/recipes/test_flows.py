"""Recipes of flows: known densities of the plane, levels of grey in their bins, a short run over folds of wines."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft
from weft import recipes
from weft.data.sources import trusted
from weft.models.generative import check_normalised, grid
from weft.recipes.flows.density_2d import DENSITIES
from weft.recipes.flows.pixels import in_bins


@pytest.mark.parametrize("name", DENSITIES)
def test_densities_of_the_plane_are_densities_and_drawn_as_they_say(name):
    """∫ p = 1, and the mean of log p over draws is ∫ p log p: the entropy that a flow is judged by."""
    plane = DENSITIES[name]
    points, cell = grid([(-2, 3)] * 2 if name == "moons" else [(-1.5, 1.5)] * 2, 72)
    check_normalised(plane.log_prob, points, cell, tolerance=5e-3)
    log_p = plane.log_prob(points).double()
    entropy = -(log_p.exp() * log_p.clamp(min=-700)).sum().item() * cell
    drawn = -plane.log_prob(plane.draw(1500, weft.Generator().manual_seed(1)))
    assert drawn.mean().item() == pytest.approx(entropy, abs=5 * drawn.std().item() / math.sqrt(1500) + 5e-3)
    if name == "checkerboard":
        assert entropy == pytest.approx(math.log(2), abs=1e-6)


def test_logits_lie_in_the_bins_of_their_levels():
    x = (weft.arange(256).float() / 255).reshape(4, 64)
    found = in_bins(x, 1e-6, 0).double().sigmoid()
    levels = 256 * (found - 1e-6) / (1 - 2e-6)
    assert (levels - (x * 255).round() - 0.5).abs().max() <= 0.5 + 2e-3  # but for the rounding of float32


def test_wines_by_splines_fold_by_fold(tmp_path):
    random = np.random.default_rng(0)
    place = tmp_path / "data" / "tabular" / "uci"
    place.mkdir(parents=True)
    wines = random.normal(size=(1599, 12)) @ random.normal(size=(12, 12)) + 5
    np.savetxt(place / "wine-quality-red.txt", wines, fmt="%.4f")
    settings = ["epochs=2", "limit=1", "hidden=8", "bins=3", "transforms=1", "batch_size=200"]
    with trusted(), pytest.warns(UserWarning, match="canonical"):
        result = recipes.run("spline-wine", settings, root=tmp_path / "data", folder=tmp_path / "run", progress=False)
    assert (
        not result.reached and result.figures["factorised_log_likelihood"] < result.figures["baseline_log_likelihood"]
    )
