"""The stubs are what docs/stubs.py would write, hold every public name with its text, and are shipped."""

from __future__ import annotations

import ast
import fnmatch
import importlib.util
import pathlib
import tomllib

import pytest

import weft

ROOT = pathlib.Path(weft.__file__).parent.parent
STUBS = sorted(path.relative_to(ROOT) for path in (ROOT / "weft").rglob("*.pyi"))


def test_stubs_are_current():
    spec = importlib.util.spec_from_file_location("stubs", ROOT / "docs" / "stubs.py")
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    expected = {path.relative_to(ROOT): text for path, text in generator.stubs().items()}
    stale = [
        str(path) for path, text in expected.items() if not (ROOT / path).exists() or (ROOT / path).read_text() != text
    ]
    assert (stale, sorted(expected)) == ([], STUBS), "run `make docs`"


@pytest.mark.parametrize("path", STUBS, ids=str)
def test_every_function_has_its_hover_text(path):
    bare = []
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            changes = any(isinstance(d, ast.Attribute) and d.attr in ("setter", "deleter") for d in node.decorator_list)
            if not (ast.get_docstring(node) or changes):
                bare.append(node.name)
    assert bare == []


@pytest.mark.parametrize("owner", ["weft", "weft.Tensor", "weft.linalg", "weft.nn", "weft.nn.functional", "weft.data"])
def test_no_public_name_is_missing(owner):
    live = {"weft": weft, "weft.Tensor": weft.Tensor}.get(owner) or eval(owner, {"weft": weft})
    tree = ast.parse((ROOT / _stub_of(owner)).read_text())
    body = next(n for n in tree.body if isinstance(n, ast.ClassDef)).body if owner == "weft.Tensor" else tree.body
    held = set(vars(weft.Tensor.__base__)) if owner == "weft.Tensor" else set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            held.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            held.update(alias.asname for alias in node.names)
        elif isinstance(node, ast.AnnAssign):
            held.add(node.target.id)
    names = {name for name in dir(live) if not name.startswith("_")}
    modules = {name for name in names if isinstance(getattr(live, name), type(weft))}
    assert sorted(names - held - modules) == []


def test_stubs_are_shipped():
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["*"]
    assert (ROOT / "weft" / "py.typed").exists()
    for name in ("py.typed", *(path.name for path in STUBS)):
        assert any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _stub_of(owner: str) -> str:
    path = {"weft.Tensor": "weft/tensor", "weft": "weft/__init__"}.get(owner, owner.replace(".", "/"))
    return f"{path}.pyi" if (ROOT / f"{path}.pyi").exists() else f"{path}/__init__.pyi"
