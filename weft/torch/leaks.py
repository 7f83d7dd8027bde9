"""What PyTorch's modules let through: `from torch.jit.annotations import List`, `from torch.functional import F`."""

from __future__ import annotations

import collections
import copy
import functools
import importlib
import itertools
import math
import numbers
import operator
import os
import typing
import warnings
from typing import Any

import numpy

__all__ = ["found"]

MODULES = {
    "collections": collections,
    "copy": copy,
    "functools": functools,
    "itertools": itertools,
    "math": math,
    "np": numpy,
    "numbers": numbers,
    "operator": operator,
    "os": os,
    "typing": typing,
    "warnings": warnings,
}
HINTS = (
    "Any BinaryIO Callable Dict Generic Iterable Iterator List Mapping NamedTuple Optional Sequence Set Tuple Type TypeVar Union "
    "cast overload TYPE_CHECKING"
).split()
PYTORCHS = {"F": "torch.nn.functional", "init": "torch.nn.init", "torch": "torch", "nn": "torch.nn"}
OURS = ("Tensor", "Size", "Generator", "dtype", "device")


def found(module: str, name: str) -> Any:
    """What a module of PyTorch's imports for itself, and so has; None where that is not a usual thing."""
    if module.count(".") == 0 and name not in MODULES:
        return None
    if name in MODULES:
        return MODULES[name]
    if name in HINTS:
        return getattr(typing, name)
    if name in PYTORCHS:
        return importlib.import_module(PYTORCHS[name])
    return getattr(importlib.import_module("torch"), name) if name in OURS else None
