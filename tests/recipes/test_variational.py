"""Recipes of variational models on small files: they learn, are judged on the same bits each time, and are loaded again."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import weft
from weft import recipes
from weft.app.cli import app
from weft.data.sources import trusted
from weft.errors import OptionError, ShapeError
from weft.models.variational.gradient_estimators import DReG
from weft.recipes.variational.flow_posterior_mnist import same_size
from weft.train import RunFolder

from .files import write_idx

pytestmark = pytest.mark.filterwarnings("ignore:.*is not the canonical")

SMALL = ["hidden=8", "code=2", "batch_size=50", "samples=20", "mixture=2", "average=0", "lr=0.01"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    write_idx(root / "mnist")
    write_idx(root / "fashion-mnist")
    with trusted():
        yield root


@pytest.fixture(scope="module")
def iwae(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "iwae"
    return recipes.run("vae-mnist", [*SMALL, "k=3", "epochs=4"], root=files, folder=folder, progress=False)


def test_a_short_run_learns_and_is_loaded_again(iwae, files):
    figures = iwae.figures
    assert 0 < figures["test_nll"] < figures["test_negative_elbo"] < 784 * np.log(2) and figures["test_nll_error"] > 0
    assert {"baseline_nll", "mixture_nll", "importance_samples"} <= set(figures)
    rows = [row["train_loss"] for row in RunFolder(iwae.folder).rows("epoch")]
    assert rows[-1] < rows[0]
    loaded = recipes.load(iwae.folder)
    said = loaded.recipe.predict(loaded.task, np.zeros((2, 28, 28)))
    assert (
        len(said) == 2
        and json.dumps(said)
        and said == recipes.get("vae-mnist").predict(iwae.task, np.zeros((2, 28, 28)))
    )


@pytest.mark.filterwarnings("error:compile")
@pytest.mark.parametrize("early, draws", [("0.5", 8), ("1", 5)])
def test_few_draws_are_taken_at_first(files, tmp_path, early, draws):
    options = [*SMALL, "k=8", "epochs=2", f"early={early}"]
    found = recipes.run("vae-mnist", options, root=files, folder=tmp_path / "run", progress=False)
    assert found.task.model.objective == DReG(draws)


def test_training_images_are_grey_and_test_images_bits_that_stay(files):
    recipe = recipes.get("vae-mnist")
    first, second = (recipe.data(recipe.settings([f"seed={seed}"]), files) for seed in (0, 1))
    assert ((first.train.dataset.tensors[0] > 0) & (first.train.dataset.tensors[0] < 1)).any()
    for part in ("validation", "test"):
        one, other = (getattr(splits, part).dataset.tensors[0] for splits in (first, second))
        assert ((one == 0) | (one == 1)).all() and (one == other).all()


def test_the_command_evaluates_with_samples(iwae, files):
    words = [
        "evaluate",
        str(iwae.folder),
        "--data",
        str(files),
        "--trust-data",
        "--samples",
        "5",
        "--seeds",
        "1",
        "--json",
    ]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    (found,) = json.loads(said.stdout)["evaluations"]
    assert found["binarisation"] == "dynamic" and found["examples"] == 100
    assert [f["method"] for f in found["likelihoods"]] == ["elbo", "log_prob_bound, samples = 5"]


def test_flows_are_beside_a_vae_of_their_size():
    recipe = recipes.get("flow-posterior-mnist")
    settings = recipe.settings([])
    count = lambda model: sum(p.numel() for p in model.parameters())
    flow = recipe.model(settings)
    plain = same_size(flow, settings)
    assert 0 <= count(plain) - count(flow) < 0.003 * count(flow)
    assert count(plain.decoder) == count(flow.decoder)


@pytest.mark.slow
def test_a_short_run_of_flows(files, tmp_path):
    settings = [*SMALL, "kind=planar", "context=2", "epochs=2"]
    figures = recipes.run("flow-posterior-mnist", settings, root=files, folder=tmp_path, progress=False).figures
    assert 0 < figures["test_nll"] < 784 * np.log(2) and figures["baseline_nll"] < 784 * np.log(2)


def test_a_linear_vae_comes_near_probabilistic_pca(tmp_path):
    result = recipes.run("linear-vae", ["epochs=700", "code=3"], folder=tmp_path, progress=False)
    assert 0 <= result.figures["gap"] < 0.2 < result.figures["baseline_gap"]
    assert result.figures["largest_angle"] < 0.3
    loaded = recipes.load(result.folder)
    (said,) = loaded.recipe.predict(loaded.task, np.zeros((1, 8, 8)))
    assert np.isfinite(said["log_prob"])


def test_a_short_vq_run_judges_the_whole_test_set(files, tmp_path):
    words = ["epochs=2", "codes=4", "dimension=2", "width=4", "features=2", "layers=1", "batch_size=50", "lr=0.01"]
    result = recipes.run("vq-vae-fashion", words, root=files, folder=tmp_path / "run", progress=False)
    figures = result.figures
    assert 1 <= figures["test_perplexity"] <= 4 and figures["patches_error"] > 0
    every = figures["test_codes_used"] == 4
    assert figures["test_code_share"] == pytest.approx(figures["test_perplexity"] / 4 if every else 0)
    loaded = recipes.load(result.folder)
    said = loaded.recipe.predict(loaded.task, np.zeros((28, 28)))
    assert np.shape(said[0]["codes"]) == (7, 7) and json.dumps(said)


def test_features_come_from_a_run_and_say_which(files, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_RUNS", str(tmp_path))
    words = ["epochs=1", "width=2", "batch_size=50"]
    features = recipes.classifier_features("mnist-cnn", root=files, settings=words)
    again = recipes.classifier_features("mnist-cnn")  # the run that is there now
    assert features.digest == again.digest and "mnist-cnn" in features.name
    assert features.extract(weft.zeros(3, 1, 28, 28)).shape == (3, 128)
    with pytest.raises(OptionError, match="expected one of"):
        recipes.classifier_features("digits-mlp")
    with pytest.raises(ShapeError, match="1, 28, 28"):
        features.extract(weft.zeros(3, 1, 8, 8))
