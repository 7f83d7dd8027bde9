"""What an editor knows: a typed program of a user's has no error, wrong calls have one each, hover texts are there."""

from __future__ import annotations

import ast
import json
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys

import pytest

import weft

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
PROGRAM, WRONG = HERE / "user_program.py", HERE / "wrong_calls.py"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[tuple[int, str]]]]:
    """checker → file → the lines that it marks, both files in one run of each, in a folder of the user's."""
    folder = tmp_path_factory.mktemp("checked")
    for path in (PROGRAM, WRONG):
        shutil.copy(path, folder)
    return {"pyright": _pyright(folder), "mypy": _mypy(folder)}


@pytest.mark.parametrize("checker", ["pyright", "mypy"])
def test_a_typed_program_has_no_error(found, checker):
    assert found[checker].get(PROGRAM.name, []) == []


@pytest.mark.parametrize("checker", ["pyright", "mypy"])
def test_wrong_calls_are_marked(found, checker):
    lines = WRONG.read_text().splitlines()
    expected = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert {line for line, _ in found[checker][WRONG.name]} == expected


def test_the_program_runs():
    names = runpy.run_path(str(PROGRAM))
    assert names["tensors"]().isfinite() and names["chances"]().isfinite()
    assert names["train"](names["Network"]()) > 0


def test_the_program_is_large_enough():
    """60 methods of tensors and 30 layers, counted."""
    tree = ast.parse(PROGRAM.read_text())
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    calls = {
        node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    layers = {node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "nn"}
    assert len(calls & set(dir(weft.Tensor))) >= 60
    assert len([name for name in layers if isinstance(getattr(weft.nn, name), type)]) >= 30


def _pyright(folder: pathlib.Path) -> dict[str, list[tuple[int, str]]]:
    """In the mode that editors use unless they are told otherwise."""
    settings = {"extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False).stdout)
    assert report["summary"]["filesAnalyzed"] == 2
    marks: dict[str, list[tuple[int, str]]] = {}
    for entry in report["generalDiagnostics"]:
        place = entry["range"]["start"]["line"] + 1, entry["message"]
        marks.setdefault(pathlib.Path(entry["file"]).name, []).append(place)
    return marks


def _mypy(folder: pathlib.Path) -> dict[str, list[tuple[int, str]]]:
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--no-color-output", "--no-error-summary"]
    command += ["--config-file", os.devnull, "--cache-dir", os.devnull, PROGRAM.name, WRONG.name]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)
    assert result.returncode in (0, 1), result.stdout + result.stderr
    marks: dict[str, list[tuple[int, str]]] = {}
    for path, line, message in re.findall(r"^(.+?):(\d+): error: (.*)$", result.stdout, re.MULTILINE):
        marks.setdefault(pathlib.Path(path).name, []).append((int(line), message))
    return marks
