"""Recipes with few labels in short real runs: moons are told apart by consistency, protocols draw labels once and count draws."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import recipes
from weft.errors import OptionError
from weft.recipes.fewlabels import few_images, moons_semi

REAL = Path(os.environ.get("WEFT_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
real = pytest.mark.skipif(not REAL.is_dir(), reason="the real files are not there; set WEFT_DATA")

SHORT = ["draws=2", "steps=2", "supervised_steps=2", "all_steps=2", "limit=400", "batch_size=10", "uratio=2"]


def test_consistency_tells_the_moons_apart(tmp_path):
    """A whole training: four labels and the Π-model against four labels alone."""
    result = recipes.run("moons-semi", ["method=pi-model", "seed=1000"], folder=tmp_path / "run", progress=False)
    assert result.reached and result.figures["consistency_accuracy"] >= 0.98
    assert result.figures["all_labels_accuracy"] >= 0.99 > result.figures["baseline_consistency_accuracy"]
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    (noted,) = [row for row in rows if row["kind"] == "labelled"]
    assert noted["seed"] == 1000 and len(noted["rows"]) == 4


def test_methods_of_the_moons_are_known_by_name():
    with pytest.raises(OptionError, match="sarsa"):
        moons_semi._asked("sarsa")
    assert set(moons_semi.CONSISTENT) < set(moons_semi.METHODS) and len(moons_semi._asked("all")) == 12


@real
@pytest.mark.parametrize("name", ["mnist-ladder", "mnist-fixmatch", "cifar10-fixmatch"])
def test_a_short_run_reports_draws_baseline_and_bound(name, tmp_path):
    more = ["hidden=16,8"] if name == "mnist-ladder" else ["width=4", "labels=20"]
    result = recipes.run(name, [*SHORT, *more], folder=tmp_path / "run", root=REAL, progress=False)
    assert {"test_error", "test_error_deviation", "supervised_error", "all_labels_error"} <= set(result.figures)
    assert result.figures["draws"] == 2 and result.figures["test_error_deviation"] >= 0


@real
def test_held_out_images_take_the_place_of_the_test(tmp_path):
    recipe = recipes.get("mnist-vat")
    settings = recipe.settings(["holdout=100", "limit=400"])
    train, tested = recipe.images(settings, REAL)
    whole, test = recipe.images(recipe.settings(["limit=400"]), REAL)
    assert len(train[1]) == 300 and tested[1].equal(whole[1][300:]) and len(test[1]) == 400


@pytest.mark.parametrize("depth, seen", [(1, 17), (2, 25), (3, 33)])
def test_depth_says_how_much_of_an_image_a_place_sees(depth, seen):
    weft.manual_seed(0)
    x = weft.rand(1, 1, 60, 60, requires_grad=True)
    places = few_images.small_network(1, 4, depth=depth).eval()[:-3](x)  # (1, 16, 15, 15)
    places[0, :, 7, 7].sum().backward()
    assert (x.grad[0, 0].abs().amax(0) > 0).sum().item() == seen


def test_figures_are_means_over_draws_with_their_deviation():
    rows = [{"test_error": 0.1, "supervised_error": 0.2}, {"test_error": 0.3, "supervised_error": 0.2}]
    found = few_images.summary(rows)
    assert found["test_error"] == pytest.approx(0.2) and found["test_error_deviation"] == pytest.approx(np.sqrt(0.02))
    assert np.isnan(few_images.summary(rows[:1])["test_error_deviation"])
