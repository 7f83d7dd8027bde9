"""User code is recognised by where the package really lies: a clone, or a project, may be called `weft`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import weft
from weft.runtime.frames import PACKAGE, is_ours

ROOT = str(Path(weft.__file__).parent.parent)
ANOMALY = """
import weft
x = weft.tensor([0.0], requires_grad=True)
with weft.autograd.detect_anomaly():
    y = (x.sqrt() * 0).sum()
    try:
        y.backward()
    except RuntimeError as error:
        raise SystemExit(str(error))
"""
TRACED = """
from weft.compiler.tracing.arrays import user_line
raise SystemExit(user_line())
"""


@pytest.mark.parametrize("program", [ANOMALY, TRACED], ids=["detect_anomaly", "compile"])
@pytest.mark.parametrize("folder", ["weft", "weft/weft", "other"])
def test_errors_name_the_users_line(program: str, folder: str, tmp_path: Path) -> None:
    place = tmp_path / folder
    place.mkdir(parents=True)
    (place / "script.py").write_text(program)
    start = f"import sys, runpy; sys.path[:0] = [{ROOT!r}]; import weft; runpy.run_path({str(place / 'script.py')!r})"
    done = subprocess.run([sys.executable, "-P", "-c", start], capture_output=True, text=True, cwd=tmp_path)
    assert str(place / "script.py") in done.stderr
    assert PACKAGE not in done.stderr


def test_links_to_the_package_are_followed(tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(PACKAGE)
    assert is_ours(str(tmp_path / "linked" / "tensor.py"))
    assert is_ours(weft.__file__)
    assert not is_ours("<stdin>")
    assert not is_ours(str(tmp_path / "weft" / "tensor.py"))
    assert not is_ours(PACKAGE.rstrip("/") + "-extra/tensor.py")
