"""What notebooks show of tensors, modules and runs: well-formed, escaped, small, and true."""

from __future__ import annotations

import math
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import nn
from weft.notebook import MOST_MODULES
from weft.recipes.base import Result
from weft.train.history import History
from weft.train.runs import RunFolder


class Reader(HTMLParser):
    """Refuses tags that do not match; keeps the text and the rows of tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert tag in ("div", "span", "b", "pre", "table", "thead", "tbody", "tr", "td", "th", "details", "summary")
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)
        if self.open[-1] in ("td", "th"):
            self.rows[-1].append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


def read(thing) -> Reader:
    return Reader(thing._repr_html_())


def test_small_matrices_are_shown_whole():
    found = read(weft.tensor([[1.0, -2.5], [3.25, 1e-9]], requires_grad=True))
    assert found.rows == [["1", "-2.5"], ["3.25", "1e-09"]]
    assert "(2, 2) · float32 · requires grad" in found.text
    assert read(weft.tensor([True, False])).rows == [["True", "False"]]
    assert read(weft.tensor([1, -7])).rows == [["1", "-7"]]
    assert read(weft.tensor([1 + 2j])).rows == [["(1+2j)"]]
    assert read(weft.ones(2).bfloat16()).rows == [["1", "1"]]


def test_large_ones_are_cut_with_their_range():
    x = weft.arange(10_000.0).reshape(100, 100)
    found = read(x)
    assert len(found.rows) == 9 and all(len(row) == 9 for row in found.rows)
    assert found.rows[0][:5] == ["0", "1", "2", "3", "…"] and found.rows[-1][-1] == "9999"
    assert "0 … 9999" in found.text
    assert len(weft.zeros(4000, 4000)._repr_html_()) < 10_000
    x[0, 0], x[1, 1] = math.nan, math.inf
    assert "2 not finite" in read(x).text and "1 … 9999" in read(x).text


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 3, 4), (1, 0, 5)])
def test_other_shapes_are_printed(shape):
    x = weft.ones(shape)
    assert repr(x) in read(x).text


def test_inside_a_transform_there_are_no_values():
    seen = []
    weft.vmap(lambda x: seen.append(Reader(x._repr_html_())) or x)(weft.ones(2, 3))
    assert len(seen) == 1


def test_modules_are_trees_with_counts():
    model = nn.Sequential(nn.Linear(3, 4), nn.ModuleDict({"a<b>": nn.ReLU(), "inner": nn.Sequential(nn.Linear(4, 2))}))
    text = read(model).text
    assert "Sequential" in text and "26 parameters" in text and "16 parameters" in text
    assert "in_features=3, out_features=4, bias=True" in text and "(a<b>)" in text
    assert "<b>(" not in model._repr_html_().replace("<b>ModuleDict</b>(", "").replace("<b>Sequential</b>(", "")
    assert "LazyLinear" in read(nn.LazyLinear(3)).text


def test_hostile_names_are_escaped():
    class Evil(nn.Module):
        def extra_repr(self):
            return "<script>alert(1)</script>" + "x" * 1000

    html = nn.ModuleDict({"<img src=x>": Evil()})._repr_html_()
    assert "<script" not in html and "<img" not in html and len(html) < 2000
    Reader(html)


def test_large_modules_stay_small():
    html = nn.Sequential(*(nn.Linear(2, 2) for _ in range(1000)))._repr_html_()
    assert f"… {1000 - MOST_MODULES + 1} more" in Reader(html).text and len(html) < 100_000


def test_histories_and_runs(tmp_path):
    rows = [{"kind": "epoch", "epoch": k, "step": 10 * k, "val_loss": 1 / (k + 1), "<b>": None} for k in range(40)]
    history = History(rows)
    history.seconds = 12.34
    found = read(history)
    assert "40 epochs in 12.3 s, not finished" in found.text
    assert found.rows[0] == ["epoch", "val_loss", "<b>"] and found.rows[1][:2] == ["0", "1"]
    assert len(found.rows) == 14 and found.rows[-1][:2] == ["39", "0.025"]
    assert read(History()).rows == []
    run = RunFolder.create(tmp_path, "<i>")
    run.append(rows[3])
    run.append({"kind": "step", "epoch": 3, "step": 40, "train_loss": math.nan})
    found = read(run)
    assert str(run.path) in found.text and found.rows[1][:2] == ["3", "0.25"] and len(found.rows) == 2
    run.close()


def test_results_of_recipes():
    result = Result("digits-mlp", None, {"accuracy": 0.9817}, True, Path("runs/<x>"), 3.14159)
    found = dict(read(result).rows)
    assert found == {"accuracy": "0.9817", "goal": "reached", "seconds": "3.1", "folder": "runs/<x>"}


def test_values_are_those_of_the_tensor():
    x = np.random.default_rng(0).normal(size=(5, 7))
    shown = np.array(read(weft.tensor(x)).rows, float)
    np.testing.assert_allclose(shown, x, rtol=1e-3)
