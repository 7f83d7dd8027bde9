"""Recipes of sequences end to end on a few made-up lines: trained, tested, drawn, loaded again, asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weft import recipes
from weft.data.sources import trusted
from weft.data.text import Vocabulary
from weft.errors import OptionError
from weft.recipes.text.words import Words, collated, padded_loader

pytestmark = pytest.mark.filterwarnings("ignore::weft.data.sources.errors.SourceWarning")
WORDS = ("king", "queen", "he", "she", "sees", "the", "old", "dog", "runs", "home")


def sentences(count: int, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(3, 9))) for _ in range(count)]


@pytest.fixture(scope="module", autouse=True)
def made_up_files():
    """Files of other digests than the published ones are read."""
    with trusted():
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Files as the sources expect them, tiny."""
    folder = tmp_path_factory.mktemp("data")
    write = lambda name, text: (
        (folder / name).parent.mkdir(parents=True, exist_ok=True),
        (folder / name).write_text(text),
    )
    for number, split in enumerate(("train", "dev", "test")):
        rows = [f"{s}\t{int('king' in s)}" for s in sentences(60, number)]
        write(f"sst2/{split}.tsv", "\n".join(["sentence\tlabel", *rows]) + "\n")
    for number, split in enumerate(("test", "valid")):
        write(f"wikitext-2/{split}.txt", "\n".join(sentences(200, number)) + "\n")
    write("tinyshakespeare/input.txt", ". ".join(sentences(300)))
    for number, split in enumerate(("train", "val", "test_2016_flickr")):
        for language in ("de", "en"):
            write(f"multi30k/{split}.{language}", "\n".join(sentences(40, number)) + "\n")
    days = np.arange(2190)
    values = 11 + 4 * np.sin(2 * np.pi * days / 365) + np.random.default_rng(0).normal(size=2190)
    dates = np.datetime64("1981-01-01") + days
    rows = [f'"{date}",{value:.1f}' for date, value in zip(dates, values, strict=True)]
    write("tabular/jbrownlee/daily-min-temperatures.csv", "\n".join(['"Date","Temp"', *rows]) + "\n")
    return folder


TINY = {
    "reverse-seq2seq": ("epochs=1 examples=64 length=4 hidden=4", "3 1 2", 3),
    "sst2-lstm": ("epochs=1 batch_size=16 width=4 hidden=4 words=20", "the KING runs", 2),
    "word-lstm": ("epochs=1 batch_size=4 length=5 width=4 words=20", "the old dog", None),
    "deepar-temperatures": ("epochs=1 hidden=4 batch_size=256", [12.0] * 30 + [5], 30),
    "word2vec-shakespeare": ("epochs=1 words=12 dim=4 batch_size=32", "king", 8),
    "multi30k-transformer": (
        "epochs=1 batch_size=8 subwords=300 width=8 heads=2 layers=1 inner=8 longest=12",
        "the king",
        None,
    ),
}


@pytest.mark.parametrize("name", TINY)
def test_recipes_of_sequences_run_load_and_answer(name, data, tmp_path):
    if name == "multi30k-transformer":
        pytest.importorskip("tokenizers")
    words, question, length = TINY[name]
    done = recipes.run(name, words.split(), folder=tmp_path / "run", root=data, progress=False, compile=False)
    loaded = recipes.load(tmp_path / "run")
    goal = recipes.get(name).goal
    assert np.isfinite(done.figures[goal.metric])
    for key, value in done.task.state_dict().items():
        if hasattr(value, "numpy") and "carried" not in key:
            np.testing.assert_array_equal(np.array(loaded.task.state_dict()[key]), np.array(value), err_msg=key)
    answer = loaded.recipe.predict(loaded.task, question)
    done.task.eval()
    assert answer == loaded.recipe.predict(done.task, question)
    assert length is None or len(answer) == length


def test_word_vectors_lie_in_the_folder(data, tmp_path):
    from weft.models.supervised import WordVectors

    settings = TINY["word2vec-shakespeare"][0].split()
    done = recipes.run("word2vec-shakespeare", settings, folder=tmp_path, root=data, progress=False)
    vectors = WordVectors.load(tmp_path / "vectors.vec")
    assert set(vectors.words) == set(WORDS)
    np.testing.assert_array_equal(vectors["king"], done.task.vectors()["king"])


def test_reverse_says_what_it_expects():
    recipe = recipes.get("reverse-seq2seq")
    task = recipe.task(recipe.settings(["hidden=4"]))
    for wrong in ("", "0 1", "9"):
        with pytest.raises(OptionError, match="from 1 to 8"):
            recipe.predict(task, wrong)


# ------------------------------------------------------------------------------------------- what they share


def test_padded_batches_hold_every_sample_once():
    rows = [[i] * (i % 7 + 1) for i in range(1, 41)]
    others = [[i] for i in range(1, 41)]
    loader = padded_loader(rows, others, list(range(40)), batch_size=8, multiple=4)
    seen = []
    for x, y, labels in loader:
        assert x.shape == y.shape and x.shape[1] in (4, 8)
        for row, other, label in zip(x.tolist(), y.tolist(), labels.tolist(), strict=True):
            assert [t for t in row if t] == rows[label]
            assert [t for t in other if t] == others[label]
            seen.append(label)
    assert sorted(seen) == list(range(40))
    shuffled = padded_loader(rows, batch_size=12, shuffle=True, seed=1)
    assert [len(x) for (x,) in shuffled] == [12, 12, 12]  # four sit out, so that all batches have one size
    assert collated([([1, 2],), ([],)])[0].tolist() == [[1, 2], [0, 0]]
    with pytest.raises(OptionError, match="one length"):
        padded_loader(rows, others[:3], batch_size=2)


def test_a_vocabulary_travels_with_the_weights():
    words = Words(Vocabulary(["a", "b"], ["<pad>", "<unk>"], "<unk>"))
    other = Words()
    other.load_state_dict(words.state_dict())
    assert other.vocabulary == words.vocabulary
    assert len(other) == 4
