"""The pages about the compiler say what is there: printouts, passes, files, and the example of the README."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

from weft.compiler import PIPELINE

ROOT = pathlib.Path(__file__).parents[2]
PAGE, MAP, README = (ROOT / name for name in ("docs/compiler.md", "docs/architecture.md", "README.md"))


def test_printouts_are_what_the_compiler_makes_now() -> None:
    command = [sys.executable, "docs/compiler_printouts.py", "--check"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, f"make docs writes them anew:\n{found.stdout[-3000:]}{found.stderr[-3000:]}"


def test_every_pass_is_described() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in PIPELINE if f"`{name}`" not in text] == []


def test_links_lead_to_files() -> None:
    for page in (PAGE, MAP, README):
        targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
        assert [t for t in targets if not (page.parent / t).exists()] == []


@pytest.mark.parametrize("folder", ["compiler", "runtime"])
def test_every_file_is_on_the_map(folder: str) -> None:
    text = MAP.read_text(encoding="utf-8")
    files = (ROOT / "weft" / folder).rglob("*.py")
    assert sorted(f.name for f in files if not re.search(rf"\b{f.name}\b", text) and f.name != "__init__.py") == []


def test_example_of_the_readme(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """It learns the digits: the accuracy that it prints is high."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    (code,) = (block for block in blocks if "weft.compile" in block)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert float(capsys.readouterr().out.split()[-1]) > 0.97
