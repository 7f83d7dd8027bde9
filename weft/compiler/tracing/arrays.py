"""Tensors during a trace: arrays that have a geometry but no values, and the layer over `Tensor` that hands them out.

While a function is traced every tensor of the tracing thread is symbolic: parameters and constants as much as
results. Their objects stay what they are. `Overlay` puts a layer over the class `Tensor` for that time: `.array`,
the door to values, is shut, sizes and strides are answered by a `Stand`, operations go to the tracer, and what is
assigned to a tensor that was there before is noted, so that it can be undone.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import TraceError
from ...nn.module import TABLES, Module
from ...nn.module_hooks import global_hooks
from ...optim.optimizer import Optimizer
from ...random import Generator
from ...runtime.frames import is_ours
from ...runtime.locks import fork_safe_lock
from ...sizes import Size
from ...tape.modes import mode
from ...tensor import Tensor, dtype, new, wrap
from ..graph.graph import Value

__all__ = ["OVERLAY", "Memory", "Stand", "no_values", "plain", "stand_in", "user_line"]

REMEDY = (
    "use weft.where, cond, while_loop or scan, move that part out of the compiled function, or pass fallback='eager' "
    "to weft.compile"
)


class NoValues(TraceError, AttributeError):
    """Raised where the array of a tensor is asked for during a trace: short ways take it as the sign to leave."""


def user_line() -> str:
    """'file:line' of the innermost frame outside the package."""
    frame = sys._getframe(1)
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""


def no_values(what: str = "its values were asked for", kind: type[TraceError] = TraceError) -> TraceError:
    return kind(f"compile: at {user_line()} a tensor was used in a way that needs numbers: {what}; {REMEDY}")


# -------------------------------------------------------------------------------------- stand-ins


class Memory:
    """What lies under a tensor and all its views: the value it holds now, as the array `root` sees it."""

    def __init__(self, tracer: Any, root: np.ndarray, value: Value | None, constant: bool = False) -> None:
        self.tracer, self.root, self.value, self.version = tracer, root, value, 0
        self.constant = constant  # whether `root` itself holds the values, until it is written to
        self.scope = tracer.scopes[-1]  # the body of control flow in which it was made


class Stand(np.ndarray):
    """Sizes, strides and address of an array whose values are known only when the plan runs.

    `value` is what it showed when `memory` was at `version`.
    """

    memory: Memory | None = None
    value: Value | None = None
    version = 0
    origin: np.ndarray | None = None

    def __array_function__(self, function: Callable, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.copyto and mode.tracer is not None:
            return mode.tracer.assign(*args[:2])
        if function in _GEOMETRIC:
            return function(*(plain(a) if isinstance(a, Stand) else a for a in args), **kwargs)
        raise _left_over() if mode.tracer is None else no_values(f"numpy.{function.__name__}")

    def __array_ufunc__(self, ufunc: np.ufunc, *_: Any, **__: Any) -> Any:
        raise _left_over() if mode.tracer is None else no_values(f"numpy.{ufunc.__name__}")

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise _left_over() if mode.tracer is None else no_values()

    item = tolist = tobytes = astype = copy = __bool__ = __int__ = __float__ = __complex__ = __index__ = _refuse
    __setitem__ = fill = any = all = max = min = sum = _refuse

    def __repr__(self) -> str:
        return f"Stand({self.value})"


_GEOMETRIC = frozenset({np.empty_like, np.may_share_memory})  # what looks at sizes and addresses only


def _left_over() -> TraceError:
    return TraceError(
        "compile: a tensor made while a function was traced is used outside of it; return it from the compiled "
        "function instead of storing it elsewhere"
    )


def stand_in(array: np.ndarray, memory: Memory, value: Value | None) -> Stand:
    """A stand-in with the geometry of `array`; its value is current unless it is None."""
    made = array.view(Stand)
    made.memory, made.value, made.version = memory, value, memory.version if value is not None else -1
    made.origin = array  # kept alive: stand-ins of plain arrays are found by its identity
    return made


def plain(stand: Stand) -> np.ndarray:
    """The geometry alone, as an array that NumPy's functions take."""
    return stand.view(np.ndarray)


# ------------------------------------------------------------------------------------- the overlay


def _array(self: Tensor) -> Any:
    tracer = mode.tracer
    if tracer is None:
        return self.__dict__["array"]
    if tracer.open:
        return tracer.stand(self)
    array = self.__dict__["array"]
    if tracer.knows(array):
        array = array.view()
        array.flags.writeable = False
        return array
    raise no_values(kind=NoValues)


def _set_array(self: Tensor, array: Any) -> None:
    self.__dict__["array"] = array


class _Interpreter:
    """`_interpreter` of the tensors that have none of their own: the tracer."""

    def __get__(self, tensor: Any, cls: type) -> Any:
        return mode.tracer


def _geometry(read: Callable[[np.ndarray], Any], before: property) -> property:
    """A property of sizes and types, read from the stand-in."""

    def get(self: Tensor) -> Any:
        tracer = mode.tracer
        return before.fget(self) if tracer is None else read(tracer.stand(self))

    return property(get, before.fset)


def _opened(method: Callable) -> Callable:
    """A method that looks at geometry only: it may see the stand-in."""

    def looking(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        tracer = mode.tracer
        if tracer is None:
            return method(self, *args, **kwargs)
        with tracer.opened():
            return method(self, *args, **kwargs)

    return looking


def _shut(method: Callable, what: str, convert: Callable) -> Callable:
    """A method that needs values: there are some only for constants and for numbers that Python gives."""

    def asking(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        tracer = mode.tracer
        if tracer is None:
            return method(self, *args, **kwargs)
        if tracer.knows(self.__dict__["array"]):
            with tracer.paused():
                return method(self, *args, **kwargs)
        return tracer.concrete(self, what, lambda value: convert(value, *args, **kwargs))

    return asking


def _item(method: Callable) -> Callable:
    """`.item()`: a number that Python goes on computing with."""

    def asking(self: Tensor) -> Any:
        tracer = mode.tracer
        if tracer is None:
            return method(self)
        if tracer.knows(self.__dict__["array"]):
            with tracer.paused():
                return method(self)
        return tracer.item(self)

    return asking


def _contents(method: Callable, what: str) -> Callable:
    """A method that needs all values: they are computed now, and the plan holds while they stay the same."""

    def asking(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        tracer = mode.tracer
        if tracer is None:
            return method(self, *args, **kwargs)
        array = tracer.contents(self, what)
        with tracer.paused():
            return method(wrap(array), *args, **kwargs)

    return asking


def _grad(self: Tensor) -> Tensor | None:
    if mode.tracer is not None:
        mode.tracer.note_grad(self)
    return self.__dict__.get("_grad")


def _set_grad(self: Tensor, value: Tensor | None) -> None:
    self.__dict__["_grad"] = value


def _noted(before: Callable, note: str) -> Callable:
    """`__setattr__` that tells the tracer first."""

    def assign(self: Any, name: str, value: Any) -> None:
        tracer = mode.tracer
        if tracer is not None:
            getattr(tracer, note)(self, name, value)
        before(self, name, value)

    return assign


def _counted(before: Callable) -> Callable:
    def bump(self: Tensor) -> None:
        tracer = mode.tracer
        if tracer is not None and self._counter is not None:
            tracer.note_count(self._counter)
        before(self)

    return bump


def _found(self: Module, name: str) -> Any:
    """An attribute of a module: what it holds itself is noted."""
    tracer, value = mode.tracer, object.__getattribute__(self, name)
    if tracer is not None and name != "__dict__":
        held = object.__getattribute__(self, "__dict__")
        if name in held:
            tracer.journal.note_read(held, name)
    return value


def _found_in_tables(before: Callable) -> Callable:
    """A parameter, buffer or part of a module."""

    def get(self: Module, name: str) -> Any:
        tracer, value = mode.tracer, before(self, name)
        if tracer is not None:
            table = next(t for t in (self.__dict__[t] for t in TABLES) if name in t)
            tracer.journal.note_read(table, name)
        return value

    return get


def _called(before: Callable) -> Callable:
    """Calling a module looks at its hooks, and at those of all modules."""

    def call(self: Module, *args: Any, **kwargs: Any) -> Any:
        tracer = mode.tracer
        if tracer is not None:
            tracer.journal.note_read(self.__dict__, "_hooks")
            for table in (global_hooks, *global_hooks.values(), *self.__dict__.get("_hooks", {}).values()):
                tracer.journal.contents[id(table)] = table
        return before(self, *args, **kwargs)

    return call


def _assigned(before: Callable) -> Callable:
    """Something is about to be assigned to a module."""

    def assign(self: Module, name: str, value: Any) -> None:
        tracer = mode.tracer
        if tracer is not None:
            for table in (self.__dict__, *(self.__dict__[t] for t in TABLES if t in self.__dict__)):
                tracer.journal.note_table(table)
        before(self, name, value)

    return assign


def _groups(self: Optimizer) -> list[dict[str, Any]]:
    """Parameter groups whose numbers are read anew at every call."""
    return self.__dict__["param_groups"] if mode.tracer is None else mode.tracer.groups_of(self)


def _set_groups(self: Optimizer, groups: list[dict[str, Any]]) -> None:
    self.__dict__["param_groups"] = groups


def _data(before: Callable) -> Callable:
    """`.data`: the same memory, whose writes are not counted."""

    def get(self: Tensor) -> Tensor:
        if mode.tracer is None:
            return before(self)
        out = new(Tensor)
        out.array = mode.tracer.stand(self)
        return out

    return get


def _set_data(before: Callable) -> Callable:
    def put(self: Tensor, value: Tensor) -> None:
        if mode.tracer is None:
            before(self, value)
        else:
            self.array = mode.tracer.stand(value)

    return put


class _Overlay:
    """The layer over `Tensor` and `Module`, put on when the first trace starts and taken off after the last.

    A signal handler may trace while it is put on or taken off: both can be begun again in the middle.
    """

    def __init__(self) -> None:
        self.lock, self.traces = fork_safe_lock(), 0
        self.places: list[tuple[type, str, Any, Any]] = []  # class, attribute, the layer's, the class's own
        self.unfinished = False

    def put_on(self) -> None:
        with self.lock:
            first = self.traces == 0
            if first:
                self.places, self.unfinished = self._found(), True
            self.traces += 1
            if self.unfinished:
                for cls, name, value, _ in self.places:
                    setattr(cls, name, value)
            if first:
                self.unfinished = False

    def take_off(self) -> None:
        with self.lock:
            self.traces -= 1
            if self.traces == 0:
                for cls, name, _, before in self.places:
                    if before is not self:
                        setattr(cls, name, before)
                    elif name in cls.__dict__:
                        delattr(cls, name)

    def _found(self) -> list[tuple[type, str, Any, Any]]:
        layers = {Tensor: self._tensor_layer(), Module: self._module_layer()}
        layers |= {Generator: self._generator_layer(), Optimizer: self._optimizer_layer()}
        return [
            (c, name, value, c.__dict__.get(name, self)) for c, layer in layers.items() for name, value in layer.items()
        ]

    def _tensor_layer(self) -> dict[str, Any]:
        own = Tensor.__dict__
        layer: dict[str, Any] = {
            "array": property(_array, _set_array),
            "_interpreter": _Interpreter(),
            "shape": _geometry(lambda a: Size(a.shape), own["shape"]),
            "ndim": _geometry(lambda a: a.ndim, own["ndim"]),
            "dtype": _geometry(lambda a: dtype.by_numpy[a.dtype], own["dtype"]),
            "itemsize": _geometry(lambda a: a.itemsize, own["itemsize"]),
            "nbytes": _geometry(lambda a: a.nbytes, own["nbytes"]),
            "data": property(_data(own["data"].fget), _set_data(own["data"].fset)),
            "_grad": property(_grad, _set_grad),
            "__setattr__": _noted(object.__setattr__, "note_attribute"),
            "_bump": _counted(own["_bump"]),
        }
        for name in ("stride", "storage_offset", "is_contiguous", "data_ptr", "untyped_storage", "storage"):
            layer[name] = _opened(own[name])
        layer["_window"] = _opened(own["_window"])
        for name, convert in {"bool": bool, "int": int, "float": float, "complex": complex}.items():
            layer[f"__{name}__"] = _shut(getattr(Tensor, f"__{name}__"), f"{name}(tensor)", convert)
        layer["item"] = _item(Tensor.item)
        for name in ("numpy", "tolist"):
            layer[name] = _contents(getattr(Tensor, name), f".{name}()")
        layer["__index__"] = _shut(Tensor.__index__, "its use as an index or size", operator.index)
        layer["__array__"] = _contents(Tensor.__array__, "conversion to a NumPy array")
        layer["__str__"] = _contents(Tensor.__str__, "printing")
        layer["__format__"] = _contents(Tensor.__format__, "printing")
        return layer

    def _module_layer(self) -> dict[str, Any]:
        own = Module.__dict__
        return {
            "__setattr__": _assigned(own["__setattr__"]),
            "__call__": _called(own["__call__"]),
            "__getattribute__": _found,
            "__getattr__": _found_in_tables(own["__getattr__"]),
        }

    def _optimizer_layer(self) -> dict[str, Any]:
        return {"param_groups": property(_groups, _set_groups)}

    def _generator_layer(self) -> dict[str, Any]:
        return {"__setattr__": _noted(object.__setattr__, "note_generator")}


OVERLAY = _Overlay()
