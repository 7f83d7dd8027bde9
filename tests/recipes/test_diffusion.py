"""Recipes of diffusions on small files: they learn, are loaded again, and are judged beside a histogram of levels."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import weft
from weft import recipes
from weft.data.sources import trusted
from weft.recipes.diffusion import grey
from weft.train import RunFolder

from .files import write_cifar, write_idx

pytestmark = pytest.mark.filterwarnings("ignore:.*is not the canonical", "ignore:.*reads no files")
IMAGES = [
    "epochs=2",
    "width=8",
    "drawn=130",
    "steps=4",
    "batch_size=50",
    "limit=300",
    "lr=0.005",
    "average=0",
    "patch=4",
    "multiples=1",
]


def test_a_short_run_in_the_plane_learns_and_is_loaded_again(tmp_path):
    words = ["epochs=4", "examples=2000", "hidden=32", "layers=2", "timesteps=30"]
    result = recipes.run("ddpm-2d", words, folder=tmp_path, progress=False)
    rows = [row["train_loss"] for row in RunFolder(result.folder).rows("epoch")]
    assert rows[-1] < rows[0] and math.isfinite(result.figures["test_nll"])
    assert result.figures["baseline_nll"] == pytest.approx(1.91, abs=0.05)  # of the moons' covariance
    loaded = recipes.load(result.folder)
    said = loaded.recipe.predict(loaded.task, "0.5,-0.2; 1,1")
    assert said == recipes.get("ddpm-2d").predict(result.task, "0.5,-0.2; 1,1") and json.dumps(said)


def test_bits_of_colours_and_the_whole_bound(tmp_path):
    write_cifar(tmp_path / "data" / "cifar10")
    words = ["epochs=1", "width=8", "batch_size=50", "limit=150", "lr=0.005", "average=0", "timesteps=10", "steps=4"]
    with trusted():
        result = recipes.run("ddpm-cifar10", words, root=tmp_path / "data", folder=tmp_path / "run", progress=False)
    figures = result.figures
    whole = sum(figures[f"bpd_{part}"] for part in ("prior", "transitions", "decoder"))
    assert figures["test_bpd"] == pytest.approx(whole, rel=0.15)  # by draws of ten steps; on a hundred images by all
    assert (tmp_path / "run" / "picture.png").exists()


@pytest.mark.slow  # compiling a U-Net takes longer than a test should; tests/models/diffusion has the models
@pytest.mark.parametrize("name", ["ddpm-mnist", "ddpm-fashion", "flow-matching-mnist"])
def test_a_short_run_on_images_learns_and_is_loaded_again(name, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_RUNS", str(tmp_path / "runs"))
    for folder in ("mnist", "fashion-mnist"):
        write_idx(tmp_path / "data" / folder, 400)  # a covariance of 128 features needs more than as many test images
    words = [*IMAGES, *(["timesteps=20", "draws=3", "walked=130"] if "ddpm" in name else [])]
    with trusted():
        result = recipes.run(name, words, root=tmp_path / "data", folder=tmp_path / "run", progress=False)
    rows = [row["train_loss"] for row in RunFolder(result.folder).rows("epoch")]
    assert rows[-1] < rows[0]
    assert result.figures["frechet_floor"] > 0 and 0 <= result.figures["guided_accuracy"] <= 1
    loaded = recipes.load(result.folder)
    example = np.zeros((2, 28, 28))
    assert loaded.recipe.predict(loaded.task, example) == recipes.get(name).predict(result.task, example)


def test_bits_of_independent_pixels_are_their_cross_entropy():
    """Two pixels, one always black, one black or white as a coin falls: half a bit a pixel."""
    coin = (weft.rand(4000, 1, generator=weft.Generator().manual_seed(0)) < 0.5).float()
    x = weft.cat([weft.zeros(4000, 1), coin], 1)
    assert grey.independent_bits(x[:2000], x[2000:]) == pytest.approx(0.5, abs=0.01)
    assert grey.independent_bits(x[:2000], 1 - x[2000:]) > 4  # white where it always was black
