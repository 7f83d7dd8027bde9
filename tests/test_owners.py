"""What must have one home: environment switches, hints at missing libraries, the files of a run folder."""

from __future__ import annotations

import ast
import functools
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from weft.app.machine import info
from weft.runtime.extras import EXTRAS, PACKAGES, MissingExtraError, extra
from weft.runtime.switches import SWITCHES, switch

ROOT = Path(weft.__file__).parent
FILES = ("settings.json", "result.json", "environment.json")


@functools.cache
def texts() -> dict[str, str]:
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in sorted(ROOT.rglob("*.py"))}


def trees(*words: str) -> dict[str, ast.Module]:
    """The files in which one of these words stands, parsed."""
    return {path: ast.parse(text) for path, text in texts().items() if any(word in text for word in words)}


def calls(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """The name of each function that is called, and the texts among its arguments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            yield name, [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]


# ---------------------------------------------------------------------------- switches


def test_switches_are_read_through_their_table() -> None:
    """A name WEFT_… as an argument or a key: of `switch`, or of `Switch` in the table, and of nothing else."""
    found: dict[str, set[str]] = {}
    for path, tree in trees("WEFT_").items():
        for name, given in calls(tree):
            for text in given:
                if text.startswith("WEFT_") and text.isidentifier():
                    found.setdefault(name, set()).add(path)
        for node in ast.walk(tree):
            if isinstance(node, ast.Subscript) and str(getattr(node.slice, "value", "")).startswith("WEFT_"):
                found.setdefault("[]", set()).add(path)
    assert set(found) == {"switch", "Switch"} and found["Switch"] == {"runtime/switches.py"}


def test_every_switch_is_used() -> None:
    used = {
        text for tree in trees("switch(").values() for name, given in calls(tree) if name == "switch" for text in given
    }
    assert used == set(SWITCHES)


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_is_read_when_it_is_asked_and_an_empty_one_is_not_set(name, monkeypatch) -> None:
    monkeypatch.setenv(name, "7")
    assert switch(name) == SWITCHES[name].value == "7"
    monkeypatch.setenv(name, "")
    assert switch(name) == SWITCHES[name].default
    monkeypatch.delenv(name)
    assert switch(name) == SWITCHES[name].default


def test_info_prints_every_switch_with_value_and_meaning(monkeypatch, capsys) -> None:
    monkeypatch.setenv("WEFT_RUNS", "elsewhere")
    monkeypatch.setenv("COLUMNS", "200")
    info()
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    for name, entry in SWITCHES.items():
        line = next(line for line in lines if line[:1] == [name])
        assert line == [name, *entry.value.split(), *entry.meaning.split()]
    info(as_json=True)
    assert json.loads(capsys.readouterr().out)["switches"]["WEFT_RUNS"]["value"] == "elsewhere"


# ---------------------------------------------------------------------------- missing libraries


def test_only_one_file_says_how_to_install_what_is_missing() -> None:
    assert [
        path for path, text in texts().items() if "pip install" in text
    ] == []  # the command is put together where it is known which pip is the right one:
    assert {path for path, tree in trees("install(").items() if any(n == "install" for n, _ in calls(tree))} == {
        "runtime/extras.py"
    }


def test_nothing_else_tries_to_import_an_optional_library() -> None:
    """`extra` imports it or says what is missing; other imports of it stand where it is known to be there."""
    optional = set(PACKAGES)
    found = set()
    for path, tree in trees("ImportError", "ModuleNotFoundError").items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Try) and any(
                name in ast.unparse(h.type or node)
                for h in node.handlers
                for name in ("ImportError", "ModuleNotFoundError")
            ):
                for line in node.body:
                    names = (
                        [line.module]
                        if isinstance(line, ast.ImportFrom)
                        else [a.name for a in getattr(line, "names", ())]
                    )
                    found |= {path for name in names if str(name).partition(".")[0] in optional}
    assert found == set()


@pytest.mark.parametrize("package", [(name, module) for module, name in PACKAGES.items()])
def test_a_missing_library_is_named_with_the_command_that_installs_it(package, monkeypatch) -> None:
    name, module = package
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"this needs {name}: .*pip install {name}$") as caught:
        extra(module, "this needs")
    assert isinstance(caught.value, ImportError) and isinstance(caught.value, weft.errors.WeftError)


# ---------------------------------------------------------------------------- run folders


def test_the_files_of_a_run_have_one_writer() -> None:
    """`RunFolder` writes settings, result and environment; others ask it by name."""
    owned = {name.removesuffix(".json") for name in FILES}
    found = {
        (path, name)
        for path, tree in trees(*FILES, "write_json").items()
        for name, given in calls(tree)
        if name in ("write_json", "replacing", "open", "write_text", "write_bytes")
        if owned & {text.removesuffix(".json") for text in given}
    }
    assert found == {("train/runs.py", "write_json")}
    literal = {
        path for path, tree in trees(*FILES).items() for node in ast.walk(tree) if getattr(node, "value", "") in FILES
    }
    assert literal == {"train/runs.py"}


def test_where_runs_lie_and_which_is_the_latest_is_known_in_one_place() -> None:
    homes = {"runs_folder": "runtime/places.py", "latest_run": "train/runs.py", "pairs": "recipes/settings.py"}
    for name, home in homes.items():
        found = {path for path, text in texts().items() if f"\ndef {name}(" in text}
        assert found == {home}


# ---------------------------------------------------------------------------- dependencies


def test_dependencies_are_what_is_imported() -> None:
    """Each library that Weft imports is one of pyproject.toml's, and each of those is imported."""
    told = tomllib.loads((ROOT.parent / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {re.match(r"[\w-]+", entry)[0] for entry in told["dependencies"]}
    modules = set(PACKAGES)
    imports = re.compile(r"^\s*(?:import|from) (\w+)|\bextra\(\"(\w+)", re.MULTILINE)
    found = {name for text in texts().values() for pair in imports.findall(text) for name in pair if name}
    assert found - sys.stdlib_module_names - {"weft"} == needed | modules
    for name, packages in EXTRAS.items():
        assert {re.match(r"[\w-]+", entry)[0] for entry in told["optional-dependencies"][name]} == set(packages)
