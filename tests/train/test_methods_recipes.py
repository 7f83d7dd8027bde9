"""The recipes of these methods on small files. Figures on the real ones: `tests/recipes/test_figures.py`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from weft import recipes
from weft.data.sources import trusted
from weft.train import Callback, RunFolder
from weft.train.methods import count_parameters, sparsity

from ..recipes.files import write_idx

pytestmark = pytest.mark.filterwarnings("ignore:.*is not the canonical")

COMMON = ["epochs=2", "hidden=32", "batch_size=50"]
SHORT = {
    "lottery-ticket": [*COMMON, "rounds=2"],
    "adversarial-mnist": [*COMMON, "steps=2", "test_steps=3"],
    "lora-shift": ["epochs=2", "width=4", "batch_size=50", "first_epochs=2"],
}


@pytest.fixture(scope="module", autouse=True)
def made_up_files():
    """Files of other digests than the published ones are read."""
    with trusted():
        yield


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, recipes.Result]:
    root = tmp_path_factory.mktemp("data")
    for name in ("mnist", "fashion-mnist"):
        write_idx(root / name)
    return {
        name: recipes.run(name, words, root=root, folder=root / name.replace("-", "_"), progress=False)
        for name, words in SHORT.items()
    }


@pytest.mark.parametrize("name", SHORT)
def test_a_short_run_is_loaded_again(name, results) -> None:
    result = results[name]
    run = RunFolder(result.folder)
    assert run.result["figures"].items() >= result.figures.items() and run.rows("epoch")
    assert run.result["finished"] and run.result["reached"] == recipes.get(name).goal.reached(result.figures)
    loaded = recipes.load(result.folder)
    image = np.random.default_rng(0).uniform(0, 255, (2, 28, 28))
    said = loaded.recipe.predict(loaded.task, image)
    assert said == loaded.recipe.predict(result.task, image) and json.dumps(said)


def test_the_ticket_is_as_sparse_as_asked(results) -> None:
    result = results["lottery-ticket"]
    assert sparsity(result.task).total == pytest.approx(0.8, abs=1e-3)
    assert sparsity(recipes.load(result.folder).task).total == sparsity(result.task).total
    rows = RunFolder(result.folder).rows("epoch")
    np.testing.assert_allclose([row["sparsity"] for row in rows], [0, 1 - 0.2**0.5, 0.8], atol=1e-3)
    f = result.figures
    assert f["ticket_over_dense"] == pytest.approx(f["test_accuracy"] - f["dense_accuracy"])
    assert f["baseline_ticket_over_dense"] == pytest.approx(f["control_accuracy"] - f["dense_accuracy"])
    goal = recipes.get("lottery-ticket").goal
    below = {**f, "ticket_over_dense": f["baseline_ticket_over_dense"]}  # no better than the control
    assert not goal.reached(below) and not goal.reached({**f, "ticket_over_dense": -0.006})


def test_attacks_lower_accuracy(results) -> None:
    f = results["adversarial-mnist"].figures
    assert f["test_robust_acc"] <= f["test_accuracy"] and f["plain_robust_acc"] <= f["plain_accuracy"]


def test_the_share_of_trained_parameters(results) -> None:
    result = results["lora-shift"]
    trained, total = count_parameters(result.task)
    assert result.figures["trained_share"] == pytest.approx(trained / total)
    assert result.figures["gap"] == pytest.approx(result.figures["full_accuracy"] - result.figures["test_accuracy"])


class StopAt(Callback):
    """Ctrl-C in the middle of the second epoch."""

    def on_train_batch_end(self, trainer, task, outputs, batch, batch_idx) -> None:
        if trainer.global_step == 12:
            raise KeyboardInterrupt


def test_an_interrupted_shift_resumes_to_the_same_figures(results, tmp_path) -> None:
    whole = results["lora-shift"]
    told = {"root": whole.folder.parent, "folder": tmp_path, "progress": False}
    with pytest.raises(KeyboardInterrupt):
        recipes.run("lora-shift", SHORT["lora-shift"], callbacks=[StopAt()], **told)
    assert recipes.run("lora-shift", resume=True, **told).figures == whole.figures
    assert [row["epoch"] for row in RunFolder(tmp_path).rows("epoch")] == [0, 1]
