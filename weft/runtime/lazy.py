"""Modules that are imported when they are first used: SciPy takes longer to import than all of Weft."""

from __future__ import annotations

import importlib
from typing import Any


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
