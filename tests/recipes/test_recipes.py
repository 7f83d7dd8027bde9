"""Every recipe on small files: it learns, leaves a run folder, is loaded again. Figures on the real files: `test_figures.py`."""

from __future__ import annotations

import dataclasses
import json
import re
from importlib.machinery import SourceFileLoader
from pathlib import Path

import numpy as np
import pytest
from numpy.polynomial import chebyshev
from scipy import stats
from sklearn.metrics import accuracy_score

import weft
from weft import recipes
from weft.data.sources import trusted
from weft.errors import OptionError, ShapeError
from weft.recipes import finding
from weft.train import Callback, RunFolder

from .files import write_all

pytestmark = pytest.mark.filterwarnings("ignore:.*is not the canonical", "ignore:.*reads no files")

ROW = "-122.23,37.88,41,880,,322,126,8.3252,NEAR BAY"

# recipe → settings that make it quick, an input for `predict`
SHORT = {
    "airline-forecast": (["epochs=6"], list(range(100, 124))),
    "cifar10-cnn": (["epochs=3", "width=4", "batch_size=50"], np.zeros((3, 32, 32))),
    "cifar10-resnet20": (["epochs=2", "batch_size=50", "limit=200"], np.zeros((3, 32, 32))),
    "cifar10-linear": (["epochs=3", "batch_size=50", "lr=0.01"], np.zeros((3, 32, 32))),
    "cifar10-mlp": (["epochs=2", "hidden=16", "batch_size=50"], np.zeros(3072)),
    "contractive-filters": (["epochs=3", "hidden=16", "batch_size=50", "limit=300"], np.zeros((28, 28))),
    "deep-autoencoder-mnist": (["epochs=3", "hidden=32", "code=5", "batch_size=50"], np.zeros((2, 28, 28))),
    "denoising-filters": (["epochs=3", "hidden=16", "batch_size=50", "limit=300"], np.zeros((28, 28))),
    "digits-logistic": (["epochs=3"], np.zeros((8, 8), np.uint8)),
    "digits-mlp": (["epochs=3", "hidden=32"], np.zeros((2, 8, 8), np.uint8)),
    "fashion-cnn": (["epochs=3", "width=4", "batch_size=50"], np.zeros((28, 28))),
    "fashion-linear": (["epochs=3", "batch_size=50"], np.zeros((1, 28, 28))),
    "fashion-mlp": (["epochs=2", "hidden=16", "batch_size=50"], np.zeros((2, 28, 28))),
    "housing-regression": (["epochs=4", "width=16"], ROW),
    "mnist-cnn": (["epochs=2", "width=4", "batch_size=50"], np.zeros((2, 1, 28, 28))),
    "mnist-clustering": (
        ["epochs=2", "refining=1", "channels=4,4", "batch_size=50", "restarts=1", "lr=0.01"],
        np.zeros((2, 28, 28)),
    ),
    "mnist-linear": (["epochs=3", "batch_size=50"], np.zeros(784)),
    "mnist-mlp": (["epochs=2", "hidden=32", "batch_size=50"], np.zeros((28, 28), np.uint8)),
    "mnist-rows-lstm": (["epochs=3", "hidden=16", "batch_size=50"], np.zeros((2, 28, 28))),
    "mnist-vit": (["epochs=3", "patch=7", "layers=1", "width=16", "batch_size=50"], np.zeros((28, 28))),
    "moons-mlp": (["epochs=10"], "0.5,-0.2; 1,1"),
    "perceptron-2d": ([], [[0.5, -0.2]]),
    "polynomial-fit": (["epochs=40"], "0.1; 0.5"),
    "dbm-mnist": (
        [
            *("epochs=3", "first=8", "second=6", "pretraining=1", "batch_size=20"),
            *("temperatures=20", "chains=10", "seeds=1"),
        ],
        np.zeros((2, 28, 28)),
    ),
    "dbn-mnist": (
        ["epochs=3", "hidden=24,16", "pretraining=1", "dropout=0.1", "batch_size=50", "lr=0.01"],
        np.zeros((2, 28, 28)),
    ),
    "mixture-mnist": (["epochs=4", "components=5"], np.zeros((2, 28, 28))),
    "rbm-mnist-16": (["epochs=3", "hidden=4", "batch_size=20", "limit=300"], np.zeros((2, 28, 28))),
    "rbm-mnist-500": (
        ["epochs=3", "hidden=24", "batch_size=20", "temperatures=20", "chains=10", "seeds=1"],
        np.zeros((2, 28, 28)),
    ),
    "shakespeare-char": (["epochs=3", "width=16", "layers=1", "context=32", "heads=2"], "The king"),
}
DEEP = {"cifar10-resnet20"}  # compiling twenty layers takes longer than a test should
STUDIES = {  # recipe → settings that make it quick, rows of its table
    "bias-variance": (["repeats=20", "degrees=1,3,6"], 3),
    "double-descent": (["repeats=3", "widths=5,20,40,80,400"], 5),
    "epoch-double-descent": (["epochs=200", "repeats=5"], 53),
    "gradient-noise": (["examples=60", "hidden=4", "draws=30", "batches=1,10,40", "middle=4"], 3),
    "hopfield-capacity": (["size=60", "loads=0.05,0.1,0.3", "probes=5", "sweeps=3"], 3),
    "ising-4x4": (
        ["couplings=0.2,0.4", "chains=20", "sweeps=30", "large=6", "large_chains=3", "large_couplings=0.3"],
        3,
    ),
    "momentum-rates": (["steps=60"], 60),
    "ratings-rbm": (["people=60", "items=12", "hidden=3", "epochs=4", "batch_size=20"], 4),
}


@pytest.fixture(scope="module", autouse=True)
def made_up_files():
    """Files of other digests than the published ones are read."""
    with trusted():
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("data")
    write_all(root)
    return root


def short(name: str, root: Path, folder: Path, *more: str, **options) -> recipes.Result:
    words = [*(SHORT if name in SHORT else STUDIES)[name][0], *more]
    return recipes.run(name, words, root=root, folder=folder, progress=False, **options)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in DEEP else []) for n in SHORT])
def test_a_short_run_learns_and_is_loaded_again(name, files, tmp_path):
    result = short(name, files, tmp_path / "run")
    run = RunFolder(result.folder)
    assert run.settings["recipe"] == name
    assert recipes.get(name).settings(run.settings["settings"]) == result.settings
    assert run.result["figures"].items() >= result.figures.items()
    assert run.result["finished"] and run.result["reached"] == result.reached == recipes.get(name).goal.reached(
        result.figures
    )
    learned = [row.get("train_loss", row.get("loss", row.get("corrections"))) for row in run.rows("epoch")]
    assert learned[-1] < learned[0]

    loaded = recipes.load(result.folder)
    said = loaded.recipe.predict(loaded.task, SHORT[name][1])
    result.task.eval()
    assert said == recipes.get(name).predict(result.task, SHORT[name][1])
    assert said and json.dumps(said)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_writes_a_run_folder_and_has_no_model(name, tmp_path):
    result = short(name, None, tmp_path / "run")
    assert RunFolder(result.folder).result["figures"] == result.figures
    assert len(RunFolder(result.folder).rows("epoch")) == STUDIES[name][1]
    assert (result.folder / "environment.json").exists()
    with pytest.raises(OptionError, match=f"{name} is a study"):
        recipes.load(result.folder)


@pytest.mark.parametrize("name", ["moons-mlp", "perceptron-2d", "polynomial-fit", "housing-regression", *STUDIES])
def test_a_picture_is_drawn(name, files, tmp_path):
    pytest.importorskip("matplotlib")
    folder = short(name, files, tmp_path / "run").folder
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_digits_mlp_reaches_its_goal(tmp_path):
    result = recipes.run("digits-mlp", folder=tmp_path, progress=False)
    assert result.reached and result.seconds < 60
    images, labels = weft.data.load_digits()
    said = [int(row["label"]) for row in recipes.get("digits-mlp").predict(result.task, images[::5])]
    assert accuracy_score(labels[::5], said) == pytest.approx(result.figures["test_accuracy"])
    assert result.figures["test_accuracy"] >= 0.97


@pytest.mark.parametrize(
    "name",
    [
        *("digits-logistic", "moons-mlp", "perceptron-2d", "polynomial-fit"),
        *("bias-variance", "double-descent", "momentum-rates", "epoch-double-descent"),
        pytest.param("gradient-noise", marks=pytest.mark.slow),
    ],
)
def test_recipes_without_files_reach_their_goals(name, tmp_path):
    result = recipes.run(name, folder=tmp_path, progress=False)
    assert result.reached, (str(recipes.get(name).goal), result.figures)


# ------------------------------------------------------------------------------------------- outside truths


def test_parts_of_the_digits_are_apart():
    splits = recipes.get("digits-mlp").data(recipes.get("digits-mlp").settings())
    parts = [part.dataset.tensors[0].numpy().reshape(-1, 64) for part in (splits.train, splits.validation, splits.test)]
    assert [len(part) for part in parts] == [9 * 1257, 180, 360]
    parts[0] = parts[0][4 * 1257 : 5 * 1257]  # as they are; the others are moved
    images = weft.data.load_digits()[0].reshape(-1, 64) / 16
    joined = np.concatenate(parts)
    assert np.array_equal(joined[np.lexsort(joined.T)], images[np.lexsort(images.T)].astype(np.float32))


def test_training_digits_are_moved_by_a_pixel():
    splits = recipes.get("digits-mlp").data(recipes.get("digits-mlp").settings())
    x, y = (part.numpy() for part in splits.train.dataset.tensors)
    x, y = x.reshape(9, 1257, 8, 8), y.reshape(9, 1257)
    assert (y == y[0]).all()
    for number, (down, across) in enumerate((d, a) for d in (1, 0, -1) for a in (1, 0, -1)):
        rows, columns = (slice(max(0, s), 8 + min(0, s)) for s in (down, across))
        rolled = np.roll(x[4], (down, across), (1, 2))
        assert np.array_equal(x[number][:, rows, columns], rolled[:, rows, columns])
        assert x[number].sum() <= x[4].sum()


def test_the_perceptron_separates_within_novikoffs_bound(tmp_path):
    result = recipes.run("perceptron-2d", folder=tmp_path)
    rows = RunFolder(tmp_path).rows("epoch")
    assert sum(row["corrections"] for row in rows) == result.figures["corrections"] <= result.figures["bound"]
    assert rows[-1]["corrections"] == 0


def test_polynomial_fit_agrees_with_numpy(tmp_path):
    recipe = recipes.get("polynomial-fit")
    result = recipes.run("polynomial-fit", folder=tmp_path)
    (train, test) = (
        tuple(t.numpy()[:, 0].astype(float) for t in part.dataset.tensors) for part in _sides(recipe, result.settings)
    )
    weights = chebyshev.chebfit(*train, 7)
    error = np.sqrt(((chebyshev.chebval(test[0], weights) - test[1]) ** 2).mean())
    assert result.figures["test_rmse_closed_form"] == pytest.approx(error, rel=1e-5)


def _sides(recipe, settings):
    splits = recipe.data(settings)
    return splits.train, splits.test


def test_bias_variance_adds_up(tmp_path):
    short("bias-variance", None, tmp_path)
    for row in RunFolder(tmp_path).rows("epoch"):
        assert row["error"] == pytest.approx(row["noise"] + row["bias_squared"] + row["variance"], rel=1e-9)


def test_double_descent_peaks_where_features_meet_rows(tmp_path):
    result = short("double-descent", None, tmp_path)
    rows = {row["epoch"]: row for row in RunFolder(tmp_path).rows("epoch")}
    assert result.figures["peak_at"] == 40
    assert rows[20]["train_error"] > 1e-3 and rows[80]["train_error"] < 1e-12  # more features than rows: fitted exactly
    assert rows[400]["norm"] < rows[40]["norm"]


def test_housing_likelihood_agrees_with_scipy(files, tmp_path):
    result = short("housing-regression", files, tmp_path)
    x, y = recipes.get("housing-regression").data(result.settings, files).test.dataset.tensors
    assert weft.isnan(x).any().item()  # a district without bedrooms is among them
    result.task.eval()
    with weft.no_grad():
        prices = result.task(x)
    mean, spread = prices.mean.numpy().astype(float), prices.stddev.numpy().astype(float)
    assert result.figures["test_nll"] == pytest.approx(-stats.norm.logpdf(y.numpy(), mean, spread).mean(), rel=1e-4)
    inside = np.abs(y.numpy() - mean) < stats.norm.ppf(0.95) * spread
    assert result.figures["test_coverage"] == pytest.approx(inside.mean(), abs=0.01)


def test_predicted_spread_beats_constant_spread(files, tmp_path):
    words = ("epochs=12", "batch_size=16", "lr=0.02")
    nll = {
        kind: short("housing-regression", files, tmp_path / kind, *words, f"variance={kind}").figures["test_nll"]
        for kind in ("predicted", "constant")
    }
    assert nll["predicted"] < nll["constant"]


def test_bits_per_character(files, tmp_path):
    figures = short("shakespeare-char", files, tmp_path).figures
    assert re.fullmatch(r"ROMEO:\n[\n -~]{300}", (tmp_path / "sample.txt").read_text())
    assert figures["test_bits_per_char"] == pytest.approx(figures["test_loss"] / np.log(2), rel=1e-5)
    assert figures["test_bits_per_char"] < np.log2(96)  # better than chance


def test_the_naive_forecast_is_last_year(files, tmp_path):
    result = short("airline-forecast", files, tmp_path)
    past, future = (
        part.numpy() for part in recipes.get("airline-forecast").data(result.settings, files).test.dataset.tensors
    )
    assert past.shape == (13, 24) and future.shape == (13, 12)
    naive = np.sqrt(((past[:, -12:] - future) ** 2).mean())
    assert result.figures["test_naive_rmse"] == pytest.approx(naive, rel=1e-5)


def test_the_spread_of_a_forecast_is_its_error_up_to_the_validation(files, tmp_path):
    result = short("airline-forecast", files, tmp_path)
    splits = recipes.get("airline-forecast").data(result.settings, files)
    task = recipes.load(tmp_path).task
    errors = []
    for part in (splits.train, splits.validation):
        past, future = part.dataset.tensors
        with weft.no_grad():
            errors.append(np.log(future.numpy()) - task(past).mean.numpy())
    spread = np.sqrt((np.concatenate(errors) ** 2).mean(0))  # (12,)
    np.testing.assert_allclose(task.spread.numpy(), spread, rtol=1e-4)
    past, future = (part.numpy() for part in splits.test.dataset.tensors)
    with weft.no_grad():
        mean = task(weft.tensor(past)).mean.numpy()
    nll = -stats.norm.logpdf(np.log(future), mean, spread).mean()
    assert result.figures["test_nll"] == pytest.approx(nll, rel=1e-3)


# ------------------------------------------------------------------------------------------- what a list says


@pytest.mark.parametrize("name", recipes.names())
def test_a_promise_read_from_the_file_is_that_of_the_recipe(name):
    recipe = recipes.get(name)
    title, goal = finding._written(name)
    assert title == recipe.title
    assert goal == dataclasses.replace(recipe.goal, baseline="", margin=0, relative=False)
    assert finding.promise(name).goal == str(recipe.goal).partition(" on ")[0]


@pytest.mark.parametrize(
    "source",
    [
        'class A:\n    title = NAME\n    goal = Goal("loss", at_most=1)',
        'class A:\n    title = "A"\n    goal = make()',
        "",
    ],
)
def test_a_promise_that_is_computed_is_asked_of_the_recipe(source, monkeypatch):
    monkeypatch.setattr(SourceFileLoader, "get_source", lambda self, name: source)
    goal = recipes.get("moons-mlp").goal
    assert finding._written("moons-mlp") is None
    assert finding.promise("moons-mlp") == finding.Promise(
        "moons-mlp", "Two moons in the plane, a small network", "test_accuracy ≥ 0.97", goal.data
    )


# ------------------------------------------------------------------------------------------- running


class StopAt(Callback):
    """Ctrl-C after some steps."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(self, trainer, task, outputs, batch, batch_idx):
        if trainer.global_step == self.step:
            raise KeyboardInterrupt


def test_an_interrupted_run_resumes_to_the_same_weights(files, tmp_path):
    whole = short("mnist-mlp", files, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        short("mnist-mlp", files, tmp_path / "cut", callbacks=[StopAt(5)])
    assert not RunFolder(tmp_path / "cut").result["finished"]
    resumed = recipes.run("mnist-mlp", folder=tmp_path / "cut", root=files, resume=True, progress=False)
    assert resumed.settings == whole.settings
    assert resumed.figures == whole.figures
    for a, b in zip(whole.task.parameters(), resumed.task.parameters(), strict=True):
        assert np.array_equal(a.detach().numpy(), b.detach().numpy())


def test_seeds_decide(files, tmp_path):
    figures = [short("mnist-mlp", files, tmp_path / f"{i}", f"seed={seed}").figures for i, seed in enumerate((3, 3, 4))]
    assert figures[0] == figures[1] != figures[2]


def test_resume_takes_the_latest_run_of_the_recipe(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_RUNS", str(tmp_path))
    first = recipes.run("moons-mlp", ["epochs=2", "hidden=8"], progress=False)
    recipes.run("perceptron-2d")
    again = recipes.run("moons-mlp", ["epochs=3"], resume=True, progress=False)
    assert again.folder == first.folder
    assert again.settings == first.settings.replace(epochs=3)  # what is not said anew stays as it was
    assert [row["epoch"] for row in RunFolder(again.folder).rows("epoch")] == [0, 1, 2]


def test_wrong_settings_leave_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_RUNS", str(tmp_path))
    with pytest.raises(OptionError, match="there is no 'rate'"):
        recipes.run("moons-mlp", ["rate=2"])
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_resumed_or_loaded(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_RUNS", str(tmp_path / "none"))
    with pytest.raises(OptionError, match="no run of moons-mlp below"):
        recipes.run("moons-mlp", resume=True)
    with pytest.raises(OptionError, match="is no run folder"):
        recipes.load(tmp_path)
    recipes.run("perceptron-2d", folder=tmp_path / "line")
    with pytest.raises(OptionError, match="holds a run of perceptron-2d"):
        recipes.run("moons-mlp", folder=tmp_path / "line", resume=True)


def test_missing_files_are_explained(tmp_path, monkeypatch):
    monkeypatch.delenv("WEFT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("weft.data.sources.fetch.download", _offline)
    with pytest.raises(OSError, match="train-images-idx3-ubyte"):
        recipes.get("mnist-linear").data(recipes.get("mnist-linear").settings(), tmp_path / "empty")


def _offline(url, path, **options):
    from weft.data.sources import DownloadError

    raise DownloadError(f"{url}: offline")


@pytest.mark.parametrize(
    ("name", "input", "error"),
    [
        ("digits-mlp", np.zeros((7, 7)), ShapeError),
        ("digits-mlp", "missing.png", OptionError),
        ("digits-mlp", np.zeros((0, 8, 8)), ShapeError),
        ("mnist-cnn", np.zeros((3, 28, 28, 1)), ShapeError),
        ("moons-mlp", "0.5", ShapeError),
        ("moons-mlp", "left,right", OptionError),
        ("housing-regression", "1,2,3", OptionError),
        ("housing-regression", ROW.replace("NEAR BAY", "MOON"), OptionError),
        ("shakespeare-char", "naïve", OptionError),
    ],
)
def test_inputs_that_predict_refuses(name, input, error):
    recipe = recipes.get(name)
    with pytest.raises(error, match=r"expected|there is no|not a number|must be|does not have"):
        recipe.predict(recipe.task(recipe.settings()), input)


def test_an_image_is_read_from_a_picture(tmp_path):
    image = pytest.importorskip("PIL.Image")
    recipe = recipes.get("digits-mlp")
    task = recipe.task(recipe.settings())
    task.eval()
    digit = weft.data.load_digits()[0][0]
    image.fromarray((digit.astype(float) * 255 / 16).round().astype(np.uint8)).save(tmp_path / "zero.png")
    np.save(tmp_path / "zero.npy", digit)
    (picture,), (array,), (direct,) = (
        recipe.predict(task, given) for given in (tmp_path / "zero.png", tmp_path / "zero.npy", digit)
    )
    assert array == direct
    assert np.allclose(list(picture["probabilities"].values()), list(direct["probabilities"].values()), atol=2e-3)
