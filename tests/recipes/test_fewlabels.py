"""Recipes that learn without labels, or of classes they never saw, on small files: what is judged, and how."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import recipes
from weft.data.sources import trusted
from weft.recipes.fewlabels.few_shot import turned
from weft.recipes.fewlabels.shapes_clip import bag, parted, places_of, same_words, tokens_of
from weft.recipes.fewlabels.unlabelled import drawn
from weft.train import RunFolder

from .files import write_idx

pytestmark = pytest.mark.filterwarnings("ignore:.*is not the canonical", "ignore:.*reads no files")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    for name in ("mnist", "fashion-mnist"):
        write_idx(root / name)
    return root


def run(name, words, root, folder):
    with trusted():
        return recipes.run(name, words, root=root, folder=folder, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, words",
    [
        ("fashion-simclr", ["width=4", "epochs=4", "batch_size=50"]),
        ("fashion-byol", ["width=4", "epochs=4", "batch_size=50"]),
        ("fashion-mae", ["width=16", "layers=1", "epochs=4", "batch_size=50"]),
    ],
)
def test_an_encoder_is_judged_beside_its_rivals_and_loaded_again(name, words, files, tmp_path):
    result = run(name, [*words, "labels=50", "draws=2", "supervised_steps=3"], files, tmp_path / "run")
    figures, recipe = result.figures, recipes.get(name)
    assert figures["baseline_accuracy"] == max(figures[rival] for rival in recipe.rivals)
    assert {"pixels_accuracy", "supervised_accuracy", "knn_accuracy", "effective_rank"} <= figures.keys()
    rows = RunFolder(result.folder).rows("epoch")
    assert rows[-1]["train_loss"] < rows[0]["train_loss"] and 0 <= rows[-1]["spread"] <= 1.2
    loaded = recipes.load(result.folder)
    x = np.zeros((28, 28))
    assert loaded.recipe.predict(loaded.task, x) == recipe.predict(result.task, x)


def test_draws_of_labels_have_as_many_of_each_class_and_come_from_the_seed_alone():
    labels = np.random.default_rng(0).integers(0, 10, 500)
    rows = drawn(labels, 50, np.random.default_rng([3, 1]))
    assert np.bincount(labels[rows], minlength=10).tolist() == [5] * 10 and len(set(rows.tolist())) == 50
    assert rows.tolist() == drawn(labels, 50, np.random.default_rng([3, 1])).tolist()


def test_quarters_of_a_turn_make_new_classes():
    x = weft.arange(8).reshape(2, 1, 2, 2)
    images, labels = turned((x, weft.tensor([0, 5])))
    assert labels.tolist() == [0, 20, 1, 21, 2, 22, 3, 23]
    assert images[2, 0].tolist() == np.rot90(x[0, 0].numpy()).tolist()


@pytest.mark.slow
def test_unseen_digits_are_unseen(files, tmp_path):
    result = run("few-shot", ["epochs=1", "width=2", "ways=4", "episodes=4", "queries=1"], files, tmp_path / "run")
    assert 0 <= result.figures["test_accuracy"] <= 1 and "siamese_accuracy" in result.figures


def test_captions_left_out_share_no_words_with_others():
    known, new = parted(0)
    assert len(known) + len(new) == 24**2 and not {bag(k) for k in known} & {bag(k) for k in new}
    assert {bag(k) for k in parted(1)[1]} != {bag(k) for k in new}
    pool = tokens_of(new)
    assert places_of(pool, pool).tolist() == list(range(len(new)))
    bags = [bag(k) for k in new]
    assert same_words(pool).tolist() == [bags.count(b) for b in bags]


def test_clip_learns_which_words_go_with_a_picture(tmp_path):
    words = ["epochs=2", "pictures=640", "test_pictures=50", "width=16", "layers=1"]
    result = recipes.run("shapes-clip", words, folder=tmp_path / "run", progress=False)
    rows = RunFolder(result.folder).rows("epoch")
    assert rows[-1]["train_loss"] < rows[0]["train_loss"] < np.log(64) + 0.5
    assert result.figures["chance"] == pytest.approx(1 / result.figures["captions"])
