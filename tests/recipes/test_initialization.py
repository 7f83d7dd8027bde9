"""Starts of a network: what their weights are, how signals grow, and what happens to equal units."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import weft
from weft import nn, recipes
from weft.data import DataLoader, TensorDataset
from weft.data.sources import trusted
from weft.recipes.base import Splits
from weft.recipes.vision import mnist_initialization as study
from weft.train import RunFolder

from .files import write_idx

LAWS = {  # start → the distribution of one weight of a layer with 400 inputs
    "normal_1": stats.norm(0, 1),
    "uniform_1": stats.uniform(-1, 2),
    "normal_0.1": stats.norm(0, 0.1),
    "uniform_0.1": stats.uniform(-0.1, 0.2),
    "scaled": stats.uniform(-0.05, 0.1),
    "he": stats.norm(0, np.sqrt(2 / 400)),
}


def filled(name: str) -> np.ndarray:
    weft.manual_seed(5)
    return study.STARTS[name](weft.zeros(50, 400, requires_grad=True)).detach().numpy().astype(float)


@pytest.mark.parametrize("name", study.STARTS)
def test_weights_are_drawn_as_said(name):
    weights = filled(name)
    if name in LAWS:
        assert stats.kstest(weights.ravel(), LAWS[name].cdf).pvalue > 1e-3
    elif name.startswith("signs"):
        size = float(name.partition("_")[2])
        np.testing.assert_allclose(np.abs(weights), size, rtol=1e-6)
        assert stats.binomtest(int((weights > 0).sum()), weights.size).pvalue > 1e-3
    else:
        assert (weights == {"zeros": 0, "ones": 1}[name]).all()


def test_signals_grow_by_the_variance_of_the_weights():
    """E z² = n var(w) E h², and ReLU keeps half of a symmetric signal's E z²."""
    settings = recipes.get("mnist-initialization").settings(["hidden=400,400"])
    x = weft.tensor(np.random.default_rng(0).normal(size=(500, 1, 28, 28)).astype(np.float32))
    splits = Splits(None, None, DataLoader(TensorDataset(x, weft.zeros(500))))
    for name, law in LAWS.items():
        if name in ("scaled", "he"):
            continue  # their variance depends on the layer
        found = study.growth(study.network(settings, study.STARTS[name]), splits)
        right = [1.0]
        for n, kept in ((784, 1), (400, 0.5), (400, 0.5)):
            right.append(right[-1] * np.sqrt(kept * n * law.var()))
        np.testing.assert_allclose(found, right, rtol=0.15)
    np.testing.assert_allclose(
        study.growth(study.network(settings, study.STARTS["he"]), splits)[1:], np.sqrt(2), rtol=0.15
    )


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    write_idx(root / "mnist")
    words = ["epochs=2", "batch_size=40", "holdout=80", "rates=0.01,1e30", "hidden=6"]
    with trusted(), pytest.warns(UserWarning, match="is not the canonical"):
        return recipes.run("mnist-initialization", words, root=root, folder=root / "run", progress=False)


def test_rates_are_chosen_on_validation_data(result):
    rows = RunFolder(result.folder).rows("epoch")
    assert len(rows) == 2
    assert {result.figures[f"rate_{name}"] for name in ("normal_1", "scaled", "he")} == {0.01}  # the other one diverges
    assert result.figures["baseline_accuracy"] == max(result.figures[f"accuracy_{name}"] for name in study.LARGE)
    assert result.figures["test_accuracy"] == result.figures["accuracy_scaled"]


def test_equal_units_stay_equal(result):
    assert result.figures["distinct_units_ones"] == 1
    weft.manual_seed(0)
    other = study.Classification(nn.Sequential(nn.Flatten(), nn.Linear(9, 7)))
    assert study.distinct_units(other) == 7


def test_the_scaled_network_is_kept(result):
    loaded = recipes.load(result.folder)
    image = np.zeros((28, 28), np.uint8)
    image[8:20, 13:15] = 255
    assert loaded.recipe.predict(loaded.task, image) == loaded.recipe.predict(result.task, image)
