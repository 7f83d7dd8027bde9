"""mnist-active on small files: it asks, learns, and says how many labels each query needed."""

from __future__ import annotations

import pytest

from weft import recipes
from weft.data.sources import trusted
from weft.recipes.fewlabels.mnist_active import recipe
from weft.train import RunFolder

from .files import write_idx

pytestmark = pytest.mark.filterwarnings("ignore:.*is not the canonical")
QUICK = ["seeds=1", "start=20", "batch=20", "budget=60", "steps=8", "examples=16", "width=4", "samples=2"]


def test_every_query_asks_for_labels(tmp_path):
    write_idx(tmp_path / "mnist")
    words = [*QUICK, "queries=random,entropy,bald,coreset", "accuracy=0.9"]
    with trusted():
        found = recipes.run("mnist-active", words, root=tmp_path, folder=tmp_path / "run", progress=False)
    rows = RunFolder(found.folder).rows("round")
    for name in ("random", "entropy", "bald", "coreset"):
        mine = [row for row in rows if row["query"] == name]
        assert [row["step"] for row in mine] == [20, 40, 60][: len(mine)]
        assert found.figures[f"labels_{name}"] == mine[-1]["step"]
    first = {row["test_accuracy"] for row in rows if row["step"] == 20}
    assert len(first) == 1  # every query starts from the same labels and weights


def test_the_worse_of_the_two_shares_counts():
    found = recipe.figures({"random": [800, 600], "entropy": [300, 400], "bald": [280, 280]})
    assert found["labels_random"] == 700 and found["labels_random_deviation"] == 100
    assert found["entropy_share"] == found["label_share"] == 0.5 and found["bald_share"] == 0.4
