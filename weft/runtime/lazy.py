"""Modules that are imported when they are first used: SciPy takes longer to import than all of Weft."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from opcode import opmap
from types import FrameType, MappingProxyType
from typing import Any

from ..errors import MissingImportError, MissingNameError

__all__ = ["LazyModule", "later"]


def later(
    package: str,
    modules: Iterable[str] = (),
    names: Mapping[str, Iterable[str]] = MappingProxyType({}),
    within: str = "",
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package with parts that are imported when they are first asked for.

    A name that it does not have is refused with what may be meant, so packages without such parts use it, too.

    modules: its modules that are reached as attributes; names: module (reached as well) → what the package offers of it;
    within: the package that the modules are in, if it is another
    """
    homes = {name: module for module, offered in names.items() for name in offered}
    whole = {*modules, *(module for module in names if "." not in module)}
    within = within or package
    namespace = vars(sys.modules[package])

    def find(name: str) -> Any:
        if name in whole:
            return importlib.import_module(f"{within}.{name}")
        if name not in homes:
            raise (MissingImportError if _imports_names(sys._getframe(1)) else MissingNameError)(package, name)
        found = namespace[name] = getattr(importlib.import_module(f"{within}.{homes[name]}"), name)
        return found

    def listed() -> list[str]:
        """Public names, and those with two underscores that Python's tools ask for."""
        names = {*namespace, *whole, *homes} - {"annotations"}
        return sorted(name for name in names if not name.startswith("_") or name.startswith("__"))

    return find, listed


def _imports_names(frame: FrameType) -> bool:
    """Whether a frame is at `from … import …`, where Python would not let the text of an AttributeError through."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]


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
