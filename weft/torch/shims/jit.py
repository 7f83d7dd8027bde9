"""`torch.jit`: programs that script or trace their modules keep them as they are, which is what Weft runs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

from ...nn.module import Module
from .. import wanting
from . import saving

__all__ = [
    "Attribute",
    "Final",
    "ScriptFunction",
    "ScriptModule",
    "annotate",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]


class ScriptModule(Module):
    """The base of modules that were written for TorchScript; other modules are none of these, also where `script` got them."""

    @property
    def original_name(self) -> str:
        """The name of the class."""
        return type(self).__name__


class ScriptFunction:
    """A function of TorchScript; nothing is one."""


RecursiveScriptModule = ScriptModule


class CompilationUnit:
    """Sources of TorchScript; there are none."""


class TracerWarning(Warning):
    """What PyTorch says of a trace that Python's values shaped."""


TopLevelTracedModule = RecursiveScriptModule
BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = list
isinstance = isinstance


def _kept(name: str, obj: Any) -> Any:
    wanting.remark(f"torch.jit.{name}", "it stays the Python that it is; weft.compile makes machine code of it")
    if isinstance(obj, Module) and not hasattr(obj, "save"):
        obj.__dict__["save"] = _Save(obj)
    return obj


class _Save:
    """The method `save` of a module that was scripted."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def __call__(self, f: Any, **options: Any) -> None:
        save(self.module, f)


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Write a module as `torch.save` does: a file of Weft's, for `load`; PyTorch cannot read it."""
    saving.save(m, f)


def load(f: Any, map_location: Any = None, _extra_files: Any = None, **options: Any) -> Any:
    """What `save` wrote; it holds code of its maker, as PyTorch's files of TorchScript do."""
    return saving.load(f, map_location, weights_only=False)


def script(obj: Any, *args: Any, **options: Any) -> Any:
    """`obj` itself."""
    return _kept("script", obj)


def trace(func: Any, example_inputs: Any = None, *args: Any, **options: Any) -> Any:
    """`func` itself: later calls are not bound to the way the example took."""
    return _kept("trace", func)


def trace_module(mod: Any, inputs: Any, *args: Any, **options: Any) -> Any:
    """`mod` itself."""
    return _kept("trace_module", mod)


def freeze(mod: Any, *args: Any, **options: Any) -> Any:
    """`mod` itself."""
    return mod


optimize_for_inference = freeze


def _marker(fn: Any = None, **options: Any) -> Any:
    """A decorator that changes nothing, with or without options."""
    return fn if callable(fn) else lambda fn: fn


ignore = unused = export = script_method = interface = script_if_tracing = _script_if_tracing = _marker
_overload = _overload_method = _marker


def is_scripting() -> bool:
    """False: it is Python that runs."""
    return False


is_tracing = is_scripting


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value


def Attribute(value: Any, type: Any = None) -> Any:
    """The value."""
    return value


def fork(func: Callable, *args: Any, **kwargs: Any) -> Callable:
    """The result, computed at once, for `wait`."""
    return functools.partial(_identity, func(*args, **kwargs))


def wait(future: Callable) -> Any:
    """What `fork` computed."""
    return future()


def _identity(value: Any) -> Any:
    return value


@contextlib.contextmanager
def optimized_execution(should_optimize: bool = True) -> Iterator[None]:
    """Nothing changes."""
    yield


strict_fusion = optimized_execution


def set_fusion_strategy(strategy: Any) -> None:
    """Remembered by nobody."""


def boolean_dispatch(
    arg_name: str, arg_index: int, default: bool, if_true: Any, if_false: Any, *names: Any
) -> Callable:
    """A function that calls one of two, as an argument says."""

    def chosen(*args: Any, **kwargs: Any) -> Any:
        wanted = kwargs.get(arg_name, args[arg_index] if len(args) > arg_index else default)
        return (if_true if wanted else if_false)(*args, **kwargs)

    return chosen
