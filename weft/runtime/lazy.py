"""Modules that are imported when they are first used: SciPy takes longer to import than all of Weft."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any


def later(
    package: str, modules: Iterable[str] = (), names: Mapping[str, Iterable[str]] = MappingProxyType({})
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package with parts that are imported when they are first asked for.

    modules: its modules that are reached as attributes; names: module (reached as well) → what the package offers of it
    """
    homes = {name: module for module, offered in names.items() for name in offered}
    whole = {*modules, *(module for module in names if "." not in module)}
    namespace = vars(sys.modules[package])

    def find(name: str) -> Any:
        if name in whole:
            return importlib.import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = namespace[name] = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        return found

    return find, lambda: sorted({*namespace, *whole, *homes})


class LazyFunction:
    """A function of a module that is not imported yet."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name, self.found = module, name, None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.found is None:
            self.found = getattr(importlib.import_module(self.module), self.name)
        return self.found(*args, **kwargs)


class LazyModule:
    """Stands for a module of which only functions are called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> LazyFunction:
        function = LazyFunction(self._name, name)
        setattr(self, name, function)
        return function
