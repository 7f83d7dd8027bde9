"""The finder that answers `import torch`, and the modules that it hands out.

Such a module has no code. Its names are those of its homes in Weft (spaces.py has the table), looked up when they are
first used; what none of them has is noted (wanting.py) and refused as Python does.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import pkgutil
import sys
import threading
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from ..errors import MissingImportError, WeftError
from ..runtime.lazy import _imports_names
from ..tensor import Tensor
from . import leaks, wanting
from .spaces import READ_WHOLE, ROOTS, homes_of, parts_of
from .version import VERSIONS

__all__ = ["Alias", "MissingTorchModuleError", "MissingTorchNameError", "install", "installed", "is_installed"]
__all__ += ["uninstall"]


REFUSED = "weft.torch.refused"


class MissingTorchNameError(WeftError, AttributeError):
    """A name that PyTorch may have and Weft has not."""

    def __init__(self, owner: str, *name: str) -> None:  # libraries raise type(error)(text) anew
        super().__init__(owner, *name)
        self.name = name[0] if name else None

    def __str__(self) -> str:
        if len(self.args) != 2:
            return " ".join(map(str, self.args))
        owner, name = self.args
        reason = wanting.explanation(f"{owner}.{name}")
        return f"module {owner!r}, answered by Weft, has no attribute {name!r}" + (f": {reason}" if reason else "")


class MissingTorchImportError(MissingImportError):
    """A name that `from torch… import …` asked for in vain."""

    __str__ = MissingTorchNameError.__str__


class MissingTorchModuleError(WeftError, ModuleNotFoundError):
    """A module that PyTorch may have and Weft has not."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        reason = wanting.explanation(self.args[0])
        return f"no module named {self.args[0]!r} on Weft" + (f": {reason}" if reason else "")


class Alias(ModuleType):
    """A module with PyTorch's name and Weft's contents."""

    def __init__(self, name: str, homes: Sequence[str]) -> None:
        super().__init__(name, f"`{name}`, answered by {' and '.join(homes)}.")
        self.__path__: list[str] = []
        self.__homes__ = tuple(homes)

    def __getattr__(self, name: str) -> Any:
        for home in self.__homes__:
            module = importlib.import_module(home)
            if home == REFUSED and homes_of(f"{self.__name__}.{name}"):
                continue  # it has every name, also those of modules
            try:
                found = getattr(module, name)
            except (AttributeError, ImportError):
                continue
            if not isinstance(found, ModuleType) or (name in getattr(module, "__all__", ()) and not _is_weft(found)):
                self.__dict__[name] = found
                return found
        if homes_of(f"{self.__name__}.{name}"):
            return importlib.import_module(f"{self.__name__}.{name}")
        leaked = leaks.found(self.__name__, name)
        if leaked is not None:
            return leaked
        if not (name.startswith("__") and name.endswith("__")):
            wanting.note(f"{self.__name__}.{name}")
        kind = MissingTorchImportError if _imports_names(sys._getframe(1)) else MissingTorchNameError
        raise kind(self.__name__, name)

    def __dir__(self) -> list[str]:
        listed = {name for home in self.__homes__ for name in _names(importlib.import_module(home))}
        return sorted({*(listed - _modules(self.__homes__)), *parts_of(self.__name__), *self.__dict__})


def _names(home: ModuleType) -> list[str]:
    """The names of a module but for other modules that it happens to use."""
    return [name for name in dir(home) if not isinstance(home.__dict__.get(name), ModuleType)]


def _modules(homes: Sequence[str]) -> set[str]:
    """The modules that lie in packages of Weft's, which programs of PyTorch do not know."""
    paths = [getattr(importlib.import_module(home), "__path__", ()) for home in homes]
    return {found.name for path in paths for found in pkgutil.iter_modules(path)} | {"weft"}


def _is_weft(module: ModuleType) -> bool:
    return module.__name__.partition(".")[0] == "weft"


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers imports of PyTorch's names."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname.partition(".")[0] not in ROOTS:
            return None
        if not homes_of(fullname):
            wanting.note(fullname)
            raise MissingTorchModuleError(fullname)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        return Alias(spec.name, homes_of(spec.name))

    def exec_module(self, module: ModuleType) -> None:
        """Names that are there already are put in at once, for programs that read `__dict__`."""
        for home in reversed(module.__homes__):
            found = importlib.import_module(home)
            names = {name: value for name, value in vars(found).items() if not name.startswith("_")}
            if module.__name__ in READ_WHOLE:
                names |= {name: getattr(found, name) for name in dir(found) if not name.startswith("_")}
            vars(module).update({name: value for name, value in names.items() if not isinstance(value, ModuleType)})
        if module.__name__ == "torch":
            vars(module)["torch"] = module  # PyTorch's own file says `import torch` too, and libraries found it
        if module.__name__ in VERSIONS:
            vars(module)["__version__"] = VERSIONS[module.__name__]


_lock = threading.RLock()
_finder = Finder()
_before: dict[str, ModuleType] = {}  # modules of these names that were there before


def _taken() -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in ROOTS}


def is_installed() -> bool:
    """Whether `import torch` is answered by Weft now."""
    return _finder in sys.meta_path


def install() -> None:
    """From now on `import torch` and its kin are answered by Weft; modules of PyTorch that are there are put aside."""
    _begin()


def _begin() -> bool:
    """Whether it was not on already."""
    with _lock:
        if is_installed():
            return False
        _before.update(_taken())
        for name in _before:
            del sys.modules[name]
        wanting.forget()
        sys.meta_path.insert(0, _finder)
        Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]
        return True


def _make_subclass(cls: type, data: Any, require_grad: bool = False) -> Any:
    """The same memory, without history, as an object of a subclass: what classes of others call in `__new__`."""
    return data.detach().as_subclass(cls).requires_grad_(require_grad)


def uninstall() -> None:
    """Put everything back as it was before `install`."""
    with _lock:
        if not is_installed():
            return
        sys.meta_path.remove(_finder)
        del Tensor._make_subclass  # type: ignore[attr-defined]
        for name in _taken():
            del sys.modules[name]
        sys.modules.update(_before)
        _before.clear()


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """`with weft.torch.installed():` within it, `import torch` is answered by Weft."""
    begun = _begin()
    try:
        yield
    finally:
        if begun:
            uninstall()
