"""m1m2-mnist on small files: one M1, a fresh M2 for each draw of labels, the classifiers beside it."""

from __future__ import annotations

import pytest

import weft
from weft import recipes
from weft.data.sources import trusted
from weft.recipes.fewlabels.m1m2_mnist import balanced
from weft.train import RunFolder

from .files import write_idx

pytestmark = pytest.mark.filterwarnings("ignore:.*is not the canonical")
QUICK = ["draws=1", "labels=20", "epochs=2", "hidden=16", "code=4", "steps=8", "m2_hidden=8", "m2_code=2"]


def test_each_draw_has_its_errors(tmp_path):
    write_idx(tmp_path / "mnist")
    with trusted():
        found = recipes.run(
            "m1m2-mnist", [*QUICK, "batch_size=20"], root=tmp_path, folder=tmp_path / "run", progress=False
        )
    folder = RunFolder(found.folder)
    losses, draws = [row["train_loss"] for row in folder.rows("epoch")], folder.rows("draw")
    assert losses[-1] < losses[0] and len(draws) == 1
    for name in ("test_error", "baseline_error", "linear_on_codes", "pixels_alone"):
        assert found.figures[name] == draws[0][name]
    assert 0 <= found.figures["all_labels"] <= 1


def test_labels_are_drawn_evenly():
    labels = weft.arange(200) % 10
    first, second = (balanced(labels, 100, weft.Generator().manual_seed(seed)) for seed in (0, 1))
    assert labels[first].bincount().tolist() == [10] * 10 and len(set(first.tolist())) == 100
    assert set(first.tolist()) != set(second.tolist())
