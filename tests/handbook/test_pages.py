"""The Python of every page of the handbook runs from top to bottom and makes the pictures that the page shows."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import pytest

HANDBOOK = Path(__file__).parents[2] / "handbook"
PAGES = sorted(HANDBOOK.glob("*.md"))
SHOWN = re.compile(r"!\[[^\]]+\]\((pictures/[\w.]+)\)")
LARGEST = 60 * 1024  # bytes of a picture
OF_FILES = {"graphs"}  # pages that read sets which do not come with Weft
REAL = Path(os.environ.get("WEFT_DATA") or HANDBOOK.parents[1] / "shared" / "data")


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_pictures", HANDBOOK / "make_pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_pages():
    assert PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pictures_of_a_page_are_there_and_small(page):
    names = SHOWN.findall(page.read_text(encoding="utf-8"))
    assert len(names) == len(set(names))
    for name in names:
        data = (HANDBOOK / name).read_bytes()
        assert data.startswith(b"\x89PNG") and len(data) <= LARGEST, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_are_python(page, maker):
    found = maker.blocks(page)
    lines = page.read_text(encoding="utf-8").splitlines()
    for line, source in found:
        assert source.startswith(lines[line - 1]) and compile(source, page.name, "exec")


def test_every_picture_is_shown_by_a_page():
    shown = {name for page in PAGES for name in SHOWN.findall(page.read_text(encoding="utf-8"))}
    assert {f"pictures/{file.name}" for file in (HANDBOOK / "pictures").iterdir()} == shown


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_runs_and_makes_its_pictures(page, maker, tmp_path, capsys, monkeypatch):
    before = Path.cwd()
    if page.stem in OF_FILES:
        if not REAL.is_dir():
            pytest.skip("the real files are not there; set WEFT_DATA")
        monkeypatch.setenv("WEFT_DATA", str(REAL))
    maker.run(page, tmp_path)
    made = {f"pictures/{file.name}" for file in (tmp_path / "pictures").iterdir()}
    assert made == set(SHOWN.findall(page.read_text(encoding="utf-8")))
    assert all((tmp_path / name).stat().st_size <= LARGEST for name in made) and Path.cwd() == before
