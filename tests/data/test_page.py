"""The sets at `weft.data`, and the page that lists them."""

from __future__ import annotations

import inspect
import pathlib
import re
import runpy
import sys

import pytest

import weft
from weft import data
from weft.data import sources

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["MNIST", "FashionMNIST", "KMNIST", "CIFAR10", "CIFAR100"])
def test_arguments_come_in_torchvisions_order(name):
    wanted = ["root", "train", "transform", "target_transform", "download"]
    assert list(inspect.signature(getattr(data, name)).parameters)[:5] == wanted
    assert list(inspect.signature(data.ImageFolder).parameters)[:5] == [
        *("root", "transform", "target_transform", "loader", "is_valid_file"),
    ]  # fmt: skip


def test_every_set_is_at_data_and_on_the_page():
    for name in sources.SETS:
        assert getattr(data, name) is getattr(sources, name) and name in dir(data) and name in data.__all__
        assert f"| `{name}` |" in PAGE
    assert not [name for name in data.__all__ if f"`{name}`" not in PAGE and "Sampler" not in name and name not in (
        *("load_digits", "default_collate", "default_convert", "WorkerError", "get_worker_info"),
    )]  # fmt: skip


def test_pages_are_up_to_date(monkeypatch):
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert generate["main"]() == 0, "run `make docs`"


def test_programs_of_the_page_run():
    assert len(BLOCKS) == 2
    weft.manual_seed(0)
    for block in BLOCKS:
        program = compile(block, "docs/data.md", "exec")
        if "download=True" not in block:
            exec(program, {})


def test_a_set_that_is_not_there_says_where_it_belongs(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(sources.SourceError, match=r"mnist/train-images-idx3-ubyte\.gz(.|\n)*download=True"):
        data.MNIST(tmp_path)
