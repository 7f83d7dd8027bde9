"""Guards: every name is there, every operation has one home, autograd and compiler know no operation by name."""

from __future__ import annotations

import ast
import pathlib

import pytest
import torch

import weft
from weft.ops.core.pointwise import Elementwise
from weft.ops.core.primitive import OPERATIONS, PRIMITIVES

ROOT = pathlib.Path(weft.__file__).parent
NAMES = [
    line.strip()
    for line in pathlib.Path(__file__).with_name("torch-names.txt").read_text().splitlines()
    if line.strip() and not line.startswith("#")
]


def _has(name: str) -> bool:
    target = weft
    for part in name.split("."):
        if not hasattr(target, part):
            return "." not in name and hasattr(weft.Tensor, name)
        target = getattr(target, part)
    return True


def test_every_name_of_pytorch_is_there():
    assert len(NAMES) > 400
    missing = [name for name in NAMES if not _has(name)]
    assert not missing


def test_every_differentiable_primitive_has_a_gradient():
    without = [p.title for p in PRIMITIVES.values() if p.differentiable and p.vjp is None]
    assert not without


def test_every_primitive_has_a_meaning_and_a_docstring():
    for primitive in PRIMITIVES.values():
        assert callable(primitive.reference), primitive.title
        assert type(primitive).__doc__, primitive.title


def _called(path: pathlib.Path) -> set[str]:
    """Names that a file calls (`f(…)`, `x.f(…)`) or imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            found.add(getattr(node.func, "attr", getattr(node.func, "id", "")))
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
    return found


# Words of Python (built-ins, methods of its containers and strings), of the tensor and of the tape (`mode`, `clone` of a
# switch) that are not operations here.
HARMLESS = {"max", "min", "abs", "all", "any", "sum", "range", "type", "round", "index", "add", "split", "sort", "copy"}
HARMLESS |= {"is_complex", "is_floating_point", "numel", "is_tensor", "mode", "clone", "gradient"}


# Backpropagation written out for the reader is mathematics over operations, no part of the engine.
ENGINE = [path for path in sorted((ROOT / "autograd").rglob("*.py")) if not path.name.startswith("backprop")]


@pytest.mark.parametrize("path", ENGINE, ids=lambda p: p.name)
def test_autograd_names_no_operation(path):
    names = {row.name.rpartition(".")[2] for row in OPERATIONS.values()} - HARMLESS
    named = sorted(_called(path) & names)
    assert not named, f"{path.name} mentions {named}"


def _imported(path: pathlib.Path) -> set[str]:
    """Modules that a file imports, anywhere in it, by their whole names (those of the names that it takes included)."""
    package = ("weft", *path.relative_to(ROOT).parts[:-1])
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            source = ".".join([*start, *filter(None, [node.module])])
            found |= {source, *(f"{source}.{alias.name}" for alias in node.names)}
    return found


WRITERS = sorted(path for room in ("compiler", "kernels") for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("path", WRITERS, ids=lambda p: str(p.relative_to(ROOT)))
def test_compiler_asks_no_operation_for_its_name(path):
    """What an operation is natively stands in its class: the compiler imports none and compares no names."""
    homes = {row.primitive.__class__.__module__ for row in OPERATIONS.values() if row.primitive is not None}
    homes = {home for home in homes if home.rpartition(".")[2] not in ("primitive", "base")}
    assert not _imported(path) & homes
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            asks = any(isinstance(x, ast.Attribute) and x.attr in ("name", "title") for x in sides)
            texts = {x.value for x in sides if isinstance(x, ast.Constant)}
            assert not (asks and texts & {*OPERATIONS, *PRIMITIVES}), f"line {node.lineno} compares {texts}"


def test_the_guards_see_files_in_rooms():
    """Relative imports are resolved from any depth, and no folder is left out."""
    taken = [_imported(ROOT / "tensor.py"), *(_imported(path) for path in (ROOT / "models").rglob("anomalies.py"))]
    assert len(taken) == 2 and all({"weft.errors", "weft.errors.ShapeError"} <= names for names in taken)
    assert len(WRITERS) > 80 and len(ENGINE) > 15


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_package_imports_no_test_oracle(path):
    forbidden = {"torch", "jax", "sklearn", "networkx", "transformers", "tensorflow"}
    for node in ast.walk(ast.parse(path.read_text())):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules = [node.module or ""]
        assert not {m.partition(".")[0] for m in modules} & forbidden


def test_every_public_operation_is_in_the_documentation():
    table = (ROOT.parent / "docs" / "operations.md").read_text()
    missing = [name for name in OPERATIONS if f"`{name}`" not in table]
    assert not missing, "run `make docs`"


def test_every_public_operation_has_a_summary():
    assert not [name for name, row in OPERATIONS.items() if not row.summary]


BINARY = [n for n, row in OPERATIONS.items() if isinstance(row.primitive, Elementwise) and row.primitive.arity == 2]


@pytest.mark.parametrize("name", BINARY)
def test_numbers_are_taken_where_pytorch_takes_them(name):
    """A Python number instead of either tensor, or of both, is refused just where PyTorch refuses it."""

    def refuses(library, arguments):
        target = library
        for part in name.split("."):
            target = getattr(target, part)
        for kind in (library.float32, library.int64):
            try:
                target(*(library.ones(3, dtype=kind) if a is None else a for a in arguments))
            except RuntimeError:  # the element type
                continue
            except TypeError:
                return True
            return False
        return None

    for arguments in ((None, 2), (2, None), (2, 3)):
        assert refuses(weft, arguments) == refuses(torch, arguments), arguments
