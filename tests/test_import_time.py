"""`import weft` is quick: what most programs never need is imported when it is first asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

import weft

SECONDS = 0.7  # twice what is asked for on a quiet machine
HEAVY = ("scipy", "llvmlite", "matplotlib", "safetensors", "rich", "torch", "asyncio", "multiprocessing", "unittest")
LATER = ("array_api", "compiler", "distributions", "inspect", "io", "nn", "optim", "testing")


def in_new_process(program: str, cache: os.PathLike[str]) -> Any:
    """What a program prints as JSON in a fresh interpreter that keeps its bytecode in `cache`."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(cache)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_heavy_modules_are_not_imported(tmp_path):
    loaded = in_new_process("import json, sys, weft; print(json.dumps(dict.fromkeys(sys.modules)))", tmp_path)
    assert "weft.tensor" in loaded
    assert [name for name in HEAVY if name in loaded] == []
    assert [name for name in LATER if f"weft.{name}" in loaded] == []


def test_best_of_five_imports_is_quick(tmp_path):
    program = "from time import perf_counter as now; start = now(); import weft; print(now() - start)"
    in_new_process(program, tmp_path)  # writes the bytecode
    times = [in_new_process(program, tmp_path) for _ in range(5)]
    assert min(times) < SECONDS, times


def test_packages_are_attributes():
    for name in set(LATER) - {"compiler"}:
        assert getattr(weft, name).__name__ == f"weft.{name}"


def test_names_of_packages_are_those_of_weft():
    assert weft.conv2d is weft.nn.functional.conv2d
    assert weft.load is weft.io.load
    assert weft.autograd.gradcheck is weft.autograd.check.gradcheck
    assert {"conv2d", "load", *LATER} - {"compiler"} <= set(dir(weft))
    assert not hasattr(weft, "no_such_name")
    with pytest.raises(AttributeError, match=r"module 'weft\.autograd' has no attribute 'nonsense'"):
        weft.autograd.nonsense  # noqa: B018
