"""Whole programs in the manner of public repositories, run by `weft run` and by PyTorch: loss curves are the same.

Each is a file, or a folder with main.py, in scripts/. It imports torch as its authors would, keeps its losses in `history`,
and takes initial weights and noise from NumPy (portable.py), because the libraries' random streams differ.
"""

from __future__ import annotations

import pathlib
import runpy
import sys

import numpy as np
import pytest
import torch

import weft.torch
from weft.torch.script import run

FOLDER = pathlib.Path(__file__).parent / "scripts"
FILES = {p.stem: p for p in FOLDER.glob("*.py") if p.stem not in ("portable", "__init__")}
SCRIPTS = dict(sorted((FILES | {p.parent.name: p for p in FOLDER.glob("*/main.py")}).items()))
SLOW = {"flex_attention"}  # PyTorch takes seconds to import what it needs for it
TOLERANCE = {"mixed_precision": 2e-2}  # sums in another order, rounded to 8 bits of mantissa


def _clean() -> None:
    """Forget the modules of the programs, and einops' layers: the two libraries each need their own."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(FOLDER)) or name == "einops.layers.torch":
            del sys.modules[name]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.chdir(tmp_path)
    kinds = torch.get_default_dtype(), weft.get_default_dtype()
    yield tmp_path
    torch.set_default_dtype(kinds[0])
    weft.set_default_dtype(kinds[1])
    _clean()


def _by_pytorch(path: pathlib.Path) -> np.ndarray:
    sys.path.insert(0, str(path.parent))
    argv, sys.argv = sys.argv, [str(path)]
    try:
        return np.array(runpy.run_path(str(path), run_name="__main__")["history"], float)
    finally:
        sys.argv = argv
        sys.path.remove(str(path.parent))
        _clean()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in SCRIPTS])
def test_loss_curve_is_that_of_pytorch(name, here, capsys):
    path = SCRIPTS[name]
    torch.manual_seed(0)
    expected = _by_pytorch(path)
    found = np.array(run(str(path))["history"], float)
    assert expected.shape == found.shape and len(found) >= 8 and np.isfinite(expected).all()
    assert np.ptp(expected) > 1e-2, "the program must learn something, else nothing is compared"
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=TOLERANCE.get(name, 1e-4))
    assert not weft.torch.missing(), weft.torch.report()


def test_programs_are_many_and_do_not_know_weft():
    assert len(SCRIPTS) >= 55
    for path in FOLDER.rglob("*.py"):
        assert "weft" not in path.read_text().lower(), path
