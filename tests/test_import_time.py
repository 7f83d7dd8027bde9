"""`import weft` is quick: what most programs never need is imported when it is first asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

import weft

from . import pace

PACES = 6.0  # of tests/pace.py; 3.3 were seen, about 0.45 s of a quiet processor
HEAVY = ("scipy", "llvmlite", "matplotlib", "safetensors", "rich", "torch", "asyncio", "multiprocessing", "unittest")
LATER = ("array_api", "compiler", "distributions", "inspect", "io", "nn", "optim", "testing")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("bytecode")


def in_new_process(program: str, cache: os.PathLike[str]) -> Any:
    """What a program prints as JSON in a fresh interpreter that keeps its bytecode in `cache`."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(cache)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_heavy_modules_are_not_imported(cache):
    loaded = in_new_process("import json, sys, weft; print(json.dumps(dict.fromkeys(sys.modules)))", cache)
    assert "weft.tensor" in loaded
    assert [name for name in HEAVY if name in loaded] == []
    assert [name for name in LATER if f"weft.{name}" in loaded] == []


def test_best_of_five_imports_is_quick(cache):
    program = f"{pace.BEFORE}\nimport weft\n{pace.AFTER}\nprint(_paces)"
    in_new_process(program, cache)  # writes the bytecode
    paces = [in_new_process(program, cache) for _ in range(5)]
    assert min(paces) < PACES, paces


def test_packages_are_attributes():
    for name in LATER:
        assert getattr(weft, name).__name__ == f"weft.{name}"


def test_names_of_packages_are_those_of_weft():
    assert weft.conv2d is weft.nn.functional.conv2d
    assert weft.load is weft.io.load
    assert weft.autograd.gradcheck is weft.autograd.check.gradcheck
    assert {"compile", "conv2d", "load", *LATER} <= set(dir(weft))
    assert not hasattr(weft, "no_such_name")
    with pytest.raises(AttributeError, match=r"module 'weft\.autograd' has no attribute 'nonsense'"):
        weft.autograd.nonsense  # noqa: B018
