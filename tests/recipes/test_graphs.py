"""Recipes of graphs in short real runs: what they promise is measured, protocols choose nothing on test data."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import recipes
from weft.data.sources.graphs import TUDataset
from weft.recipes.graphs import citations, codes, links, molecules

REAL = Path(os.environ.get("WEFT_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason="the real files are not there; set WEFT_DATA")

SHORT = {
    "gcn-cora": ["seeds=2", "epochs=4"],
    "gat-cora": ["seeds=1", "epochs=2", "heads=2", "hidden=4"],
    "appnp-cora": ["seeds=1", "epochs=2", "steps=2", "hidden=8", "edge_dropout=0.1"],
    "dgi-cora": ["seeds=1", "epochs=3", "hidden=8", "steps=5"],
    "graphmae-cora": ["seeds=1", "epochs=2", "hidden=8", "heads=2", "steps=5"],
    "vgae-cora": ["runs=1", "epochs=10", "hidden=8", "code=4"],
    "gin-mutag": ["epochs=2", "limit=1", "hidden=8", "members=2"],
}


@pytest.mark.parametrize("name", SHORT)
def test_a_short_run_leaves_its_figures(name, tmp_path):
    result = recipes.run(name, SHORT[name], folder=tmp_path / "run", root=REAL, progress=False)
    goal = recipes.get(name).goal
    assert {goal.metric, goal.beside} <= set(result.figures)
    assert 0 < result.figures[goal.metric] <= 1 and 0 < result.figures[goal.beside] < 1
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) >= 1


@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_no_paper_is_in_two_parts(name):
    paper = citations.Paper.read(name, REAL)
    parts = [set(part.tolist()) for part in (paper.train, paper.validation, paper.test)]
    assert [len(part) for part in parts] == [20 * paper.classes, 500, 1000]
    assert not parts[0] & parts[1] and not parts[0] & parts[2] and not parts[1] & parts[2]


def changed(paper: citations.Paper, part: weft.Tensor) -> citations.Paper:
    """The same network with other classes for some papers."""
    y = paper.graph.y.clone()
    y[part] = (y[part] + 1) % paper.classes
    return citations.Paper(
        paper.graph.replace(y=y),
        *(getattr(paper, n) for n in ("x", "matrix", "train", "validation", "test", "classes")),
    )


def test_labels_of_test_papers_choose_nothing():
    """With other labels of test papers the same network is trained, stopped and asked: right and wrong change places."""
    paper = citations.Paper.read("cora", REAL)
    recipe = recipes.get("gcn-cora")
    one, two = (
        citations.Learner(recipe, recipe.settings(["epochs=6"]), part).learned(0)
        for part in (paper, changed(paper, paper.test))
    )
    assert one["validation_accuracy"] == two["validation_accuracy"] and one["epoch"] == two["epoch"]
    assert one["test_accuracy"] != two["test_accuracy"]


def test_encoders_never_see_a_label():
    paper = citations.Paper.read("cora", REAL)
    recipe = recipes.get("dgi-cora")
    settings = recipe.settings(["epochs=2", "hidden=8"])
    everyone = weft.arange(paper.graph.num_nodes)
    one, two = (codes.Encoding(recipe, settings, part).codes(0)[0] for part in (paper, changed(paper, everyone)))
    np.testing.assert_array_equal(one.numpy(), two.numpy())


def test_held_out_citations_carry_no_message():
    """Codes are made of training citations alone: other held-out ones change nothing but the figures."""
    paper = citations.Paper.read("cora", REAL, normalize=False)
    learner = links.LinkLearner(links.LinkSettings(epochs=10, hidden=8, code=4), paper)
    first, again = learner.learned(1), learner.learned(1)
    assert first == again and first["test_auc"] > 0.5


def test_published_folds_are_used_where_they_are():
    source = TUDataset(REAL, name="ENZYMES", use_node_attr=True)
    folds = recipes.get("gin-enzymes").folds(source, REAL)
    assert len(folds) == 10 and all(len(fold.test) == 60 for fold in folds)
    mutag = TUDataset(REAL, name="MUTAG")
    own = recipes.get("gin-mutag").folds(mutag, REAL)
    assert sorted(np.concatenate([fold.test for fold in own])) == list(range(188))
    kernels = molecules.kernels_of(mutag)
    found = [molecules.by_kernel(kernels, mutag, fold) for fold in own[:3]]
    assert np.mean(found) > 0.75  # far above the majority of 66.5 %


def test_members_leave_out_parts_of_what_is_not_tested():
    """Each graph that may be learned from validates one member; what two equal members say together is what one says."""
    source = TUDataset(REAL, name="MUTAG")
    learner = molecules.GraphLearner(source, molecules.MoleculeSettings(members=3, epochs=1, hidden=4))
    fold = recipes.get("gin-mutag").folds(source, REAL)[0]
    parts = learner._parts(fold.train, fold.val)
    known = sorted([*fold.train, *fold.val])
    assert sorted(np.concatenate([held for _, held in parts])) == known
    assert all(sorted([*train, *held]) == known for train, held in parts)
    _, (network, kept) = learner.fitting("gin")("sum", fold.train, fold.val)
    assert len(kept) == 3
    one, two = (learner.tested((network, [kept[0]] * count), fold.test) for count in (1, 2))
    assert one == two
