"""The layers of the house: a module imports its own package and those before it, inside of functions as well.

What stands only under TYPE_CHECKING does not count. `import weft` counts as what is taken from it: `weft.exp` is an
operation, `weft.load` is io. A module that is named by a string, to be imported later, counts as imported.
"""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import weft
from weft.ops.core.register import OPERATIONS

HOUSE = Path(weft.__file__).parent

# From the ground up, and within a line from left to right; the longest name that fits a module decides.
LAYERS = {
    "foundations": "errors dtypes device sizes runtime random utils backends cuda",
    "kernels": "kernels",
    "tensor and tape": "tape storage dlpack show notebook refusal protocols tensor sparse",
    "operations": "ops",
    "transforms": "autograd func utils.checkpoint",
    "front door": "weft",  # what is imported with it; the rest it names by `later`
    "compiler": "compiler",
    "processes": "distributed",
    "layers": "nn distributed.fsdp",
    "optimisers, distributions": "optim distributed.optim distributions integrate masked array_api testing",
    "files, looking inside": "io inspect",
    "data": "data metrics utils.data",
    "other systems' files": "onnx",
    "training": "train amp profiler",
    "graph layers": "graphs.segment graphs.nn",
    "models": "models graphs",
    "recipes": "recipes sklearn vision audio",
    "application": "torch app __main__",
}

# These see less than all that is below them: foundations, and what stands here.
NARROW = {
    "kernels": "",
    "io": "tensor sparse storage dlpack nn.parameter",
}

# Imports that go up, each with the reason why it may.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("errors", "runtime.missing"): "the text of an error about a missing name is made when it is printed",
    ("protocols", "tensor"): "a part of the class Tensor, which has to make tensors",
    ("ops.core.base", "compiler.eager"): "large arrays in eager code run as plans; looked up when the first one comes",
    ("protocols", "array_api.of_tensors"): "what `__array_namespace__` gives to libraries that ask for it",
    ("nn.module", "inspect.summary"): "`module.summary()` is a door to inspect; PyTorch has no such method",
    (
        "compiler.tracing.surroundings",
        "train.progress",
    ): "named, not imported: what shows progress changes all the time",
}


class Import(NamedTuple):
    module: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.imported}"


@functools.cache
def modules() -> dict[str, Path]:
    """Every module of Weft, without the leading `weft.`: `ops.core.base` → its file."""
    found = {}
    for file in HOUSE.rglob("*.py"):
        parts = file.relative_to(HOUSE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "weft"] = file
    return found


@functools.cache
def imports() -> tuple[Import, ...]:
    """All of them; a million parts of syntax trees, which the collector would go through time and again."""
    gc.disable()
    try:
        found = (edge for module, file in modules().items() for edge in _Reader(module, file).edges())
        return tuple(dict.fromkeys(found))
    finally:
        gc.enable()


ORDER = " ".join(LAYERS.values()).split()


@functools.cache
def place_of(module: str) -> int:
    """Where a module stands in the order, by the longest name that fits."""
    parts = module.split(".")
    fitting = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next(ORDER.index(name) for name in fitting if name in ORDER)


def within(module: str, names: str) -> bool:
    return any(module == name or module.startswith(name + ".") for name in names.split())


class _Reader:
    """The imports of one file."""

    def __init__(self, module: str, file: Path) -> None:
        self.module = module
        package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
        self.package = [] if module == "weft" else package
        self.nodes = list(_run(ast.parse(file.read_text())))

    def edges(self) -> Iterator[Import]:
        doors = set()
        for node in self.nodes:
            for target in self._imported(node):
                if target == "weft" and isinstance(node, ast.Import):
                    doors |= {alias.asname or "weft" for alias in node.names if alias.name == "weft"}
                if target != self.module:
                    yield Import(self.module, target, node.lineno)
        for node in self.nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in doors:
                yield from (Import(self.module, home, node.lineno) for home in _home(node.attr))

    def _imported(self, node: ast.AST) -> Iterator[str]:
        """The modules that a statement imports or a string names; 'weft' for the front door as a whole."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "weft":
                    yield alias.name.removeprefix("weft.")
        elif isinstance(node, ast.ImportFrom):
            yield from self._from(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("weft."):
            name = node.value.removeprefix("weft.")
            if name in modules():
                yield name

    def _from(self, node: ast.ImportFrom) -> Iterator[str]:
        path = (node.module or "").split(".")
        if node.level:
            base = self.package[: len(self.package) - node.level + 1] + [part for part in path if part]
        elif path[0] == "weft":
            base = path[1:]
        else:
            return
        for alias in node.names:
            full = ".".join([*base, alias.name])
            if full in modules():
                yield full
            elif base:
                yield ".".join(base)
            else:
                yield from ("weft", *_home(alias.name))


def _run(tree: ast.AST) -> Iterator[ast.AST]:
    """The parts of a file that can run: not what stands under TYPE_CHECKING, no docstrings."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
                left += child.orelse
            elif not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
                left.append(child)


@functools.cache
def _home(name: str) -> tuple[str, ...]:
    """The module that `weft.name` comes from; none for a number such as `weft.pi`."""
    if name in modules() and not isinstance(getattr(weft, name), type):
        return (name,)
    found = getattr(weft, name)
    if name in OPERATIONS:  # which say that they are at home where they are offered
        row = OPERATIONS[name]
        found = type(row.primitive) if row.primitive is not None else row.function
    home = (getattr(found, "__module__", None) or "").removeprefix("weft.")
    return (home,) if home in modules() else ()


def upward() -> list[Import]:
    return [edge for edge in imports() if place_of(edge.imported) > place_of(edge.module)]


# ------------------------------------------------------------------------------------------------- the tests


def test_no_module_imports_what_stands_above() -> None:
    found = [str(edge) for edge in upward() if edge[:2] not in EXCEPTIONS]
    assert not found, "\n".join(found)


def test_exceptions_are_few_and_in_use() -> None:
    assert {edge[:2] for edge in upward()} >= set(EXCEPTIONS), "an exception that is no longer needed goes"
    assert len(EXCEPTIONS) < 10


def test_the_map_shows_the_layers() -> None:
    page = (HOUSE.parent / "docs" / "architecture.md").read_text()
    rows = [f"| {layer} | {' '.join(f'`{name}`' for name in names.split())} |" for layer, names in LAYERS.items()]
    assert "\n".join(rows) in page


def test_every_module_has_a_layer() -> None:
    assert {place_of(module) for module in modules()} == set(range(len(ORDER)))


@pytest.mark.parametrize("package", NARROW)
def test_what_sees_little(package: str) -> None:
    allowed = f"{package} {LAYERS['foundations']} {NARROW[package]}"
    own = [edge for edge in imports() if within(edge.module, package)]
    found = [str(edge) for edge in own if not within(edge.imported, allowed)]
    assert own
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f():\n    from ..compiler import eager", {"compiler.eager"}),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..nn import Module", set()),
        (
            "import weft\nweft.exp(weft.pi)\nweft.load\nweft.nn.Linear",
            {"weft", "ops.math.curves", "io.bundle", "nn"},
        ),
        ("from .. import dtypes as d, errors", {"dtypes", "errors"}),
        ("from . import tape\nfrom .modes import mode", {"tape.tape", "tape.modes"}),
        ("'''weft.nn'''\nx = LazyModule('weft.compiler.eager')", {"compiler.eager"}),
        ("import numpy, weft.train.runs", {"train.runs"}),
        ("from weft import compile", {"weft", "compiler.compiled"}),
    ],
)
def test_imports_are_found(tmp_path: Path, text: str, expected: set[str]) -> None:
    file = tmp_path / "file.py"
    file.write_text(text)
    assert {edge.imported for edge in _Reader("tape.file", file).edges()} == expected
