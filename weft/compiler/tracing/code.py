"""Which names code mentions, and whose code it is: a user's is looked into, that of libraries is not."""

from __future__ import annotations

import dis
import functools
import os
import sys
import sysconfig
import types

import numpy as np
import scipy

from ...runtime.frames import is_ours

__all__ = ["is_foreign", "is_foreign_class", "loaded_names", "names_of"]

_ASKING = frozenset({"getattr", "setattr", "hasattr", "vars", "__dict__"})  # attributes named by strings
_GLOBAL = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME"})
_ATTRIBUTE = frozenset({"LOAD_ATTR", "STORE_ATTR", "DELETE_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"})
_ASSIGNED = frozenset({"STORE_ATTR", "DELETE_ATTR"})


@functools.cache
def names_of(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """(globals, attributes) that a code object and the ones inside of it mention."""
    variables, attributes = set(), set()
    for instruction in dis.get_instructions(code):
        if instruction.opname in _GLOBAL:
            variables.add(instruction.argval)
        elif instruction.opname in _ATTRIBUTE:
            attributes.add(instruction.argval)
    library = not is_foreign(code.co_filename)
    if library or _ASKING & (variables | attributes):
        attributes |= {c for c in code.co_consts if isinstance(c, str) and c.isidentifier()}
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            more = names_of(inner)
            variables |= more[0]
            attributes |= more[1]
    return frozenset(variables), frozenset(attributes)


@functools.cache
def loaded_names(code: types.CodeType) -> frozenset[str]:
    """The attributes that a code object and the ones inside of it read, those it only assigns left out."""
    found = {i.argval for i in dis.get_instructions(code) if i.opname in _ATTRIBUTE and i.opname not in _ASSIGNED}
    if _ASKING & {*found, *code.co_names}:
        found |= {c for c in code.co_consts if isinstance(c, str) and c.isidentifier()}
    inner = (loaded_names(c) for c in code.co_consts if isinstance(c, types.CodeType))
    return frozenset(found.union(*inner))


@functools.cache
def is_foreign(filename: str) -> bool:
    """Whether a file is a user's: neither Weft's nor of a library that does not know Weft."""
    if not filename or filename.startswith(("<frozen", *_libraries())):
        return False
    if is_ours(filename):
        return _is_like_a_user(filename.replace(os.sep, "."))
    return _INSTALLED.isdisjoint(filename.split(os.sep)) or _uses_weft(filename)


_INSTALLED = frozenset({"site-packages", "dist-packages"})


def _uses_weft(filename: str) -> bool:
    """Whether the module in this file mentions Weft: a progress bar or a plotting library does not."""
    module = next((m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == filename), None)
    for x in [] if module is None else list(vars(module).values()):
        if not isinstance(x, (types.ModuleType, types.FunctionType, type)):
            continue
        name = x.__name__ if isinstance(x, types.ModuleType) else x.__module__
        if str(name).partition(".")[0] == "weft":
            return True
    return False


def _is_like_a_user(name: str) -> bool:
    """Parts of Weft that keep Python state as users' code does are looked into."""
    return "weft.metrics." in name


@functools.cache
def _libraries() -> tuple[str, ...]:
    standard = sysconfig.get_paths()["stdlib"]
    packages = (os.path.dirname(np.__file__), os.path.dirname(scipy.__file__))
    names = [os.path.join(standard, name) for name in sorted(os.listdir(standard)) if name != "site-packages"]
    return (*(p + os.sep for p in packages), *names)


@functools.cache
def is_foreign_class(cls: type) -> bool:
    """Whether a class is defined by users: in a Python file that is neither ours nor a library's."""
    if not cls.__flags__ & (1 << 9) or cls.__module__ == "builtins":  # not made by a class statement
        return False
    if cls.__module__.split(".")[0] in ("weft", "numpy", "scipy"):
        return _is_like_a_user(cls.__module__)
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    return file is None or is_foreign(file)
