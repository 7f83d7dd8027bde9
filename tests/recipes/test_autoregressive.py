"""Recipes of autoregressive models on small files: they learn, are loaded again, and never judge a sorted prefix."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.io

import weft
from weft import recipes
from weft.data import BinarizedMNIST
from weft.data.sources import trusted
from weft.models.autoregressive import PixelRNN
from weft.recipes.autoregressive import bits
from weft.recipes.autoregressive.diagonal_lstm import same_size
from weft.train import RunFolder

from .files import digits

pytestmark = pytest.mark.filterwarnings("ignore:.*is not the canonical")

# recipe → settings that make it quick, an input for `predict`
SHORT = {
    "made-mnist": (
        ["epochs=4", "hidden=16", "masks=2", "batch_size=25", "lr=0.02", "direct=no"],
        np.zeros((2, 28, 28)),
    ),
    "nade-mnist": (["epochs=2", "hidden=8", "batch_size=25", "lr=0.02"], np.zeros(784)),
    "pixelcnn-mnist": (
        ["epochs=4", "features=4", "layers=2", "limit=60", "batch_size=10", "average=0", "lr=0.01"],
        np.zeros((28, 28)),
    ),
    "diagonal-lstm": (
        ["epochs=2", "features=2", "layers=1", "limit=100", "batch_size=25", "lr=0.02"],
        np.zeros((14, 14)),
    ),
}
DEEP = {
    "diagonal-lstm",
    "pixelcnn-mnist",
}  # compiling them takes longer than a test should; test_learning.py has the models


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Digits as bits, sorted by class as the real test part is; wines that are correlated numbers."""
    root = tmp_path_factory.mktemp("data")
    images, labels = digits(28)
    images = (images[np.argsort(labels, kind="stable")] > 100).reshape(len(images), -1).astype(np.uint8)
    for part, rows in {"train": slice(0, 600), "valid": slice(0, 600, 6), "test": slice(1, 600, 5)}.items():
        scipy.io.savemat(root / f"binarized_mnist_{part}.mat", {"X": images[rows]})
    random = np.random.default_rng(0)
    wines = random.normal(size=(1599, 12)) @ random.normal(size=(12, 12)) + 5
    place = root / "tabular" / "uci"
    place.mkdir(parents=True)
    np.savetxt(place / "wine-quality-red.txt", wines, fmt="%.4f")
    with trusted():
        yield root


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in DEEP else []) for n in SHORT])
def test_a_short_run_learns_and_is_loaded_again(name, files, tmp_path):
    settings, example = SHORT[name]
    result = recipes.run(name, settings, root=files, folder=tmp_path / "run", progress=False)
    figures = result.figures
    assert RunFolder(result.folder).result["reached"] == result.reached == recipes.get(name).goal.reached(figures)
    each = bits.nats(result.task.model, recipes.get(name).data(result.settings, files).test.dataset.tensors[0])
    assert figures["test_nll"] == pytest.approx(each.mean().item(), rel=1e-4)
    assert 0 < figures["test_nll"] < 784 * np.log(2) and figures["test_nll_error"] > 0
    rows = [row["train_loss"] for row in RunFolder(result.folder).rows("epoch")]
    assert len(rows) == 1 or rows[-1] < rows[0]
    loaded = recipes.load(result.folder)
    said = loaded.recipe.predict(loaded.task, example)
    assert said == recipes.get(name).predict(result.task, example) and json.dumps(said)


def test_a_picture_of_samples_is_drawn(files, tmp_path):
    pytest.importorskip("matplotlib")
    folder = recipes.run("made-mnist", ["epochs=1", "hidden=4"], root=files, folder=tmp_path, progress=False).folder
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_a_limited_test_set_is_no_prefix(files):
    """Of sorted images the first ones are all of one class; a part must have the ink of the whole."""
    whole = BinarizedMNIST(files, "test").as_tensors(flat=True).tensors[0]
    recipe = recipes.get("made-mnist")
    part = recipe.data(recipe.settings(["limit=60"]), files).test.dataset.tensors[0]
    rows = {tuple(row) for row in whole[:60].tolist()}
    assert len(part) == 60 and sum(tuple(row) in rows for row in part.tolist()) < 45
    independent = bits.independent_nll(whole, part)
    assert independent == pytest.approx(bits.independent_nll(whole, whole), rel=0.05)


def test_wines_are_told_apart_by_folds(files, tmp_path):
    settings = ["limit=2", "epochs=25", "components=2", "hidden=8", "folds=5"]
    result = recipes.run("rnade-wine", settings, root=files, folder=tmp_path, progress=False)
    found = result.figures
    assert len(RunFolder(result.folder).rows("fold")) == 2
    assert found["factorised_log_likelihood"] < found["test_log_likelihood"]  # correlations are found
    # Standardised normal data: one Gaussian is the truth here, and its figure that of the covariance.
    wines = np.loadtxt(files / "tabular" / "uci" / "wine-quality-red.txt")[:, :-1]
    spread = np.corrcoef(wines.T)
    entropy = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * spread)[1]
    assert found["baseline_log_likelihood"] == pytest.approx(-entropy, abs=0.5)


def test_the_pixelcnn_beside_the_lstm_has_its_size():
    model = PixelRNN((1, 14, 14), 16, 2)
    count = lambda model: sum(p.numel() for p in model.parameters())
    assert abs(count(same_size(model, 2)) / count(model) - 1) < 0.05


def test_biases_start_at_the_rates_of_pixels():
    train = (weft.rand(200, 784, generator=weft.Generator().manual_seed(0)) < 0.3).float()
    for name in ("made-mnist", "nade-mnist"):
        recipe = recipes.get(name)
        model = recipe.model(recipe.settings([]))
        bits.start_at_rates(model, train)
        bias = model.output.bias if name == "made-mnist" else model.output_bias
        np.testing.assert_allclose(bias.sigmoid().flatten().detach().numpy(), (train.sum(0) + 1) / 202, rtol=1e-4)
