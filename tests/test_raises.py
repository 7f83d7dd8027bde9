"""Every error that Weft raises on purpose is a `WeftError`; where a user would catch a built-in class, it is that, too.

Built-in classes stand in `raise` only where Python itself reads them, by the rules below.
"""

from __future__ import annotations

import ast
import builtins
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import weft
from weft import errors

ROOT = Path(weft.__file__).parent
BUILT_IN = {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException) and not issubclass(value, Warning)
}
PROTOCOLS = {"StopIteration", "StopAsyncIteration", "GeneratorExit", "KeyboardInterrupt", "SystemExit"}
LOOKUPS = {"__getattr__", "__getattribute__"}  # `hasattr` and `getattr` with a default read their AttributeError
REWORDED = {  # raised and caught nearby: the caller says what was wrong with the whole, in a class of Weft's
    "data/sources/fetch.py": {"ConnectionError"},
    "io/unpickle.py": {"IndexError", "TypeError"},
    "kernels/llvm/worker.py": {"RuntimeError"},  # also a program of its own, without the rest of Weft
    "recipes/finding.py": {"ValueError"},
    "recipes/settings.py": {"TypeError", "ValueError"},
}
SIGNALS = {  # never seen by users: they carry control from one part to another
    "_Enough", "Overlap", "Changed", "Varies", "Unsettled", "Targeted", "Terminated", "Taken",
}  # fmt: skip


NAMES = "|".join(sorted(BUILT_IN))
MADE = re.compile(rf"\b({NAMES})\(|\braise ({NAMES})\b")


def raised(tree: ast.AST, function: str = "") -> Iterator[tuple[str, str, ast.AST]]:
    """The built-in errors that are made, or raised without being made: name, function around, node."""
    for node in ast.iter_child_nodes(tree):
        inside = node.name if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else function
        made = node.func if isinstance(node, ast.Call) else node.exc if isinstance(node, ast.Raise) else None
        if isinstance(made, ast.Name) and made.id in BUILT_IN:
            yield made.id, inside, node
        yield from raised(node, inside)


def allowed(path: str, name: str, function: str, node: ast.AST) -> bool:
    if name == "NotImplementedError":
        return isinstance(node, ast.Raise)  # without a message: it marks a method that subclasses write
    if name == "AttributeError":
        return function in LOOKUPS
    return name in PROTOCOLS or name in REWORDED.get(path, ())


def test_errors_raised_on_purpose_are_wefts() -> None:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        text, short = path.read_text("utf-8"), path.relative_to(ROOT).as_posix()
        if MADE.search(text):
            found += [
                f"{short}:{node.lineno} {name}"
                for name, function, node in raised(ast.parse(text))
                if not allowed(short, name, function, node)
            ]
    assert not found, f"use a class of weft/errors.py, or one that derives from it: {found}"


def test_classes_of_errors_derive_from_wefts() -> None:
    """Each class with a built-in error among its bases has one of Weft's before it, or is a signal."""
    head = re.compile(r"^ *class (\w+)\(([^)]*)\):", re.MULTILINE)
    classes = {
        name: [base.strip() for base in bases.split(",")]
        for path in ROOT.rglob("*.py")
        for name, bases in head.findall(path.read_text("utf-8"))
        if BUILT_IN & set(map(str.strip, bases.split(",")))
    }
    assert {name for name, bases in classes.items() if bases[0] in BUILT_IN} == SIGNALS | {"WeftError"}
    assert all(
        bases[0] in classes or bases[0] in errors.__all__
        for name, bases in classes.items()
        if name not in SIGNALS | {"WeftError"}
    )


PYTORCHS = {
    "InvalidValueError": ValueError,
    "ArgumentError": TypeError,
    "StateError": RuntimeError,
    "UnsupportedError": NotImplementedError,
    "EntryError": KeyError,
    "IndexRangeError": IndexError,
    "AttributeAccessError": AttributeError,
    "ConditionError": AssertionError,
    "MissingFileError": FileNotFoundError,
    "ExportError": BufferError,
    "DivisionError": ZeroDivisionError,
    "NumberRangeError": OverflowError,
}


@pytest.mark.parametrize("name", PYTORCHS)
def test_an_error_is_caught_as_pytorchs_and_travels_between_processes(name: str) -> None:
    kind = getattr(errors, name)
    again = pickle.loads(pickle.dumps(kind("what is wrong")))
    assert (
        type(again) is kind
        and isinstance(again, (PYTORCHS[name], errors.WeftError))
        and again.args == ("what is wrong",)
    )
    assert issubclass(kind, PYTORCHS[name]) and issubclass(kind, errors.WeftError)


CALLS = {
    ValueError: lambda lib: lib.distributions.Normal(0.0, -1.0),
    TypeError: lambda lib: lib.optim.SGD(lib.zeros(2)),
    NotImplementedError: lambda lib: lib.distributions.Cauchy(0.0, 1.0).enumerate_support(),
    KeyError: lambda lib: lib.nn.Module().register_buffer("a.b", None),
    RuntimeError: lambda lib: lib.nn.TransformerEncoderLayer(4, 2, activation="sine"),
    AttributeError: lambda lib: lib.nn.Linear(1, 1).get_parameter("in_features"),
    AssertionError: lambda lib: lib.nn.MultiheadAttention(5, 2),
    IndexError: lambda lib: lib.nn.ModuleList([])[1],
}


@pytest.mark.parametrize("kind", CALLS, ids=lambda kind: kind.__name__)
def test_both_libraries_raise_the_same_class(kind: type[Exception]) -> None:
    for library in (torch, weft):
        with pytest.raises(kind) as caught:
            CALLS[kind](library)
    assert isinstance(caught.value, errors.WeftError)
