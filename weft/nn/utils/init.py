"""Modules without the work of initial values."""

from __future__ import annotations

import inspect
from typing import Any

from ...errors import StateError
from .. import init
from ..module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """`module_cls(*args, **kwargs)` whose parameters hold whatever is in memory, to be loaded or filled afterwards."""
    if not issubclass(module_cls, Module):
        raise StateError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise StateError("Module must support a 'device' arg to skip initialization")
    with init.skipping():
        return module_cls(*args, **kwargs)
