"""Doors of modules: those from which others import say in `__all__` what they offer; stars are for packages."""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import pathlib

import weft

ROOT = pathlib.Path(weft.__file__).parent
FILES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}


@functools.cache
def statements(module: str) -> list[ast.AST]:
    """Imports, `__all__` and the names that are defined; whole trees of all files would keep the collector busy."""
    found: list[ast.AST] = []
    for node in ast.walk(ast.parse(FILES[module].read_text())):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.append(ast.Name(node.name, ast.Store()))
        elif isinstance(node, (ast.Import, ast.ImportFrom)) or (
            isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        ):
            found.append(node)
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__all__":
            found.append(node)
    return found


@functools.cache
def imported() -> dict[str, set[str]]:
    """module → the names without underscore that other modules import from it, inside functions also."""
    found: dict[str, set[str]] = {}
    for module in FILES:
        package = module if is_package(module) else module.rpartition(".")[0]
        for node in statements(module):
            if isinstance(node, ast.ImportFrom):
                source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                names = {alias.name for alias in node.names if not alias.name.startswith("_")}
                found.setdefault(source, set()).update(n for n in names if f"{source}.{n}" not in FILES)
    return found


def offered(module: str) -> list[str] | None:
    """`__all__` as it is written; None where there is none. Parts that are computed are left out."""
    for node in statements(module):
        if isinstance(node, ast.Assign):
            parts = node.value.elts if isinstance(node.value, (ast.List, ast.Tuple)) else []
            return [part.value for part in parts if isinstance(part, ast.Constant)]
    return None


def defined(module: str) -> set[str]:
    """Names that a module makes or imports at its top level, under conditions also."""
    names: set[str] = set()
    for node in statements(module):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Name):
            names.add(node.id)
    return names


def test_modules_that_others_import_from_say_what_they_offer():
    """Packages gather: what they offer is what their files do."""
    doors = {module for module, names in imported().items() if names and module in FILES}
    assert [m for m in sorted(doors) if not is_package(m) and offered(m) is None] == []


def test_what_is_offered_is_there():
    files = [module for module in FILES if not is_package(module)]
    missing = {module: sorted(set(offered(module) or ()) - defined(module)) for module in files}
    assert {module: names for module, names in missing.items() if names} == {}


def test_stars_are_for_packages():
    stars = [
        module
        for module in FILES
        for node in statements(module)
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*" and not is_package(module)
    ]
    assert stars == []


def test_modules_are_not_hidden_behind_what_they_define():
    """`from . import device` would be the class `weft.device`, or the module while Weft is being imported."""
    hidden = {name for name in vars(weft) if f"weft.{name}" in FILES and not inspect.ismodule(vars(weft)[name])}
    taken = {
        (module, alias.name)
        for module in FILES
        for node in statements(module)
        if isinstance(node, ast.ImportFrom)
        and node.module is None
        and node.level == module.count(".") + is_package(module)
        for alias in node.names
        if alias.name in hidden
    }
    assert (hidden, taken) == ({"device", "tensor"}, set())


def is_package(module: str) -> bool:
    return FILES[module].name == "__init__.py"
