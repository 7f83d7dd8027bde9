"""What an install offers: extras that something uses, hints that can be typed, a lint that needs ruff alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import weft
from weft.runtime import extras, invocation

from .shell import environment, in_pipe

ROOT = Path(weft.__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = {
    name: wanted for name, wanted in PROJECT["optional-dependencies"].items() if name not in ("test", "bench", "all")
}
IN_PATH = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"


def test_extras_are_those_of_the_project() -> None:
    assert PROJECT["optional-dependencies"]["all"] == [f"weft[{','.join(extras.EXTRAS)}]"]
    named = {name: [re.match(r"[\w-]+", word)[0] for word in wanted] for name, wanted in OPTIONAL.items()}
    assert {name: list(packages) for name, packages in extras.EXTRAS.items()} == named


@pytest.mark.parametrize("module", sorted(extras.PACKAGES))
def test_every_extra_is_imported_somewhere(module: str) -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "weft").rglob("*.py") if path.name != "extras.py")
    used = re.compile(rf"^\s+(from|import) {module}\b|extra\(\"{module}\b", re.MULTILINE)
    assert any(used.search(source) for source in sources)


def test_info_tells_what_is_there(tmp_path: Path) -> None:
    told = json.loads(in_pipe("info", "--json", cwd=tmp_path).out)
    assert told["devices"] == ["cpu"]
    assert told["compiler"] == "works"
    assert told["extras"]["images"] == {"pillow": pytest.importorskip("PIL").__version__}
    assert set(told["extras"]) == set(extras.EXTRAS)


def test_info_tells_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(  # an environment without openpyxl
        "import importlib.util as u\nfind = u.find_spec\nu.find_spec = lambda n, *a: None if n == 'openpyxl' else find(n, *a)\n"
    )
    done = in_pipe("info", cwd=tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}")
    line = next(line for line in done.out.splitlines() if "tables" in line)
    assert re.search(r"tables: pyarrow [\d.]+; missing: .*pip install openpyxl$", line)


def test_info_tells_that_nothing_can_be_compiled(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(  # LLVM is there but makes no code
        "import llvmlite.binding as b\n\ndef broken(*_, **__):\n    raise RuntimeError('no machine code')\n\n"
        "b.create_mcjit_compiler = broken\n"
    )
    done = in_pipe("info", cwd=tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}", WEFT_CACHE_SIZE="0")
    assert "fails, RuntimeError: no machine code" in done.out


# ------------------------------------------------------------------------------------------- hints


@pytest.mark.parametrize(("path", "prefix"), [(IN_PATH, "pip install"), ("/usr/bin:/bin", f"{sys.executable} -m pip")])
def test_hints_can_be_typed(path: str, prefix: str, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", path)
    monkeypatch.chdir(tmp_path)
    hint = str(extras.missing("PIL", "pictures need"))
    assert hint.startswith("pictures need pillow: ")
    command = hint.removeprefix("pictures need pillow: ")
    assert command.startswith(prefix)
    done = subprocess.run(f"{command} --help", shell=True, capture_output=True, text=True)
    assert "Usage" in done.stdout, done.stderr


def test_a_command_within_reach_is_named_by_the_shorter_path(monkeypatch, tmp_path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    script = tmp_path / ".venv" / "bin" / "weft"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script.with_name("python")))
    monkeypatch.chdir(tmp_path)
    assert invocation.weft_command() == ".venv/bin/weft"
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    assert invocation.weft_command() == "weft"
    script.unlink()
    assert invocation.weft_command() == ".venv/bin/python -m weft"


def test_python_dash_m_weft(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "weft", "--version"], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert done.stdout == f"weft {weft.__version__}\n"


# ------------------------------------------------------------------------------------------- make


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_lint_installs_what_checks_and_what_is_checked_alone(tmp_path) -> None:
    """Types are checked against Weft's own dependencies; PyTorch and the rest of the tests' extra stay away."""
    told = [f"VENV={tmp_path}/venv", "--dry-run", "--no-print-directory"]
    lines = subprocess.run(["make", "lint", *told], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    installs = re.findall(r"pip install (.*)", lines)
    ruff, pyright = (word for word in PROJECT["optional-dependencies"]["test"] if word.startswith(("ruff", "pyright")))
    assert installs == [f"--quiet '{ruff}' '{pyright}'", "--quiet -e ."]
