"""What a trace is told at the doors of tensors, modules and generators: what is read, made and changed there.

Reading is a reason to trace anew when another call finds something else; what is changed is put back after the trace,
and done by the plan at every call.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...tape.interpreter import ThreadInterpreter
from ...tensor import Tensor, new, wrap
from .arrays import Memory, Stand, no_values, stand_in
from .code import is_foreign_class, loaded_names
from .surroundings import Surroundings

__all__ = ["Doors"]


class Doors(ThreadInterpreter):
    """The part of a tracer that listens there; the rest knows the memory of every tensor (`stand`)."""

    around: Surroundings  # what Python keeps around the function

    # --------------------------------------------------------------------------- reading tensors
    def window(self, x: Tensor) -> Stand:
        return self.stand(x)

    def examined(self, x: Tensor, what: str, look: Callable[[Tensor], Any]) -> Any:
        array = self.contents(x, what)
        with self.paused():
            return look(wrap(array))

    def knows(self, array: np.ndarray) -> bool:
        """Whether the array was made during the trace, from nothing but constants."""
        found = self.stands.get(id(array)) if array.__class__ is not Stand else None
        return found is not None and found.memory.constant and found.memory.version == 0

    def known(self, x: Tensor, what: str) -> np.ndarray:
        array = x.__dict__["array"]
        if not self.knows(array):
            raise no_values(what)
        return array

    def read_grad(self, x: Tensor) -> None:
        if x.__dict__["array"].__class__ is Stand:
            self.looked_at.add(id(x))
        else:
            self.journal.note_read(x.__dict__, "_grad")

    # ---------------------------------------------------------------- making and changing tensors
    def made(self, x: Tensor) -> None:
        """A constant, unless the array is a window on one that is known."""
        array = x.__dict__["array"]
        if array.__class__ is Stand or id(array) in self.stands:
            return
        below = array.base
        while below is not None and below.__class__ is not Stand:
            below = getattr(below, "base", None)
        memory = Memory(self, array, None, constant=True) if below is None else below.memory
        self.stands[id(array)] = stand_in(array, memory, None)

    def short_way(self, slow: Callable, *inputs: Any) -> Any:
        """Constants are computed with at once."""
        if all(self.knows(x.__dict__["array"]) for x in inputs if isinstance(x, Tensor)):
            with self.paused():
                out = slow(*inputs)
            if isinstance(out, Tensor):
                self.made(out)
            return out
        return slow(*inputs)

    def changing(self, x: Tensor, name: str) -> None:
        held = x.__dict__
        array = held.get("array")
        if array is not None and array.__class__ is not Stand:
            self.journal.note(held, name)

    def counting(self, counter: list[int]) -> None:
        self.journal.note_count(counter)

    def data_of(self, x: Tensor) -> Tensor:
        out = new(Tensor)
        out.array = self.stand(x)
        return out

    def set_data(self, x: Tensor, value: Tensor) -> None:
        self.changing(x, "array")
        x.array = self.stand(value)

    # ------------------------------------------------------------------- generators and modules
    def look_around(self) -> None:
        """Meet what can be reached by name before the function runs."""
        for x in self.around.tensors.values():
            self.journal.note_table(x.__dict__)
        for module in self.around.modules:
            self.meet(module)

    def moving(self, generator: Any) -> None:
        self.streams.note(generator)

    def module_called(self, module: Any, hooks: Sequence[dict[Any, Any]]) -> None:
        self.meet(module)
        self.journal.note_read(module.__dict__, "_hooks")
        for table in hooks:
            self.journal.contents[id(table)] = table

    def module_read(self, module: Any, table: dict[str, Any], name: str) -> None:
        self.meet(module)
        self.journal.note_read(table, name)

    def module_changing(self, module: Any, tables: Sequence[dict[str, Any]]) -> None:
        self.meet(module)
        for table in tables:
            self.journal.note_table(table)

    def meet(self, module: Any) -> None:
        """A module is met for the first time: those of its attributes that the code mentions count as read."""
        if id(module) in self.modules:
            return
        self.modules[id(module)] = module
        held, reached = module.__dict__, id(module) in self.around.seen
        for key in held.keys() & (attributes_read(type(module), reached) | self.around.loaded):
            self.journal.note_read(held, key)
            self.mentioned.add((id(held), key))


@functools.cache
def attributes_read(cls: type, reached: bool) -> frozenset[str]:
    """The attributes that the methods of a module read, but for the methods that make, load or print it.

    Of a user's module that can be `reached` by name, it is known which methods are called: `Surroundings.loaded`.
    """
    found: set[str] = set()
    for owner in cls.__mro__:
        if owner in cls._roots or (reached and is_foreign_class(owner)):
            continue
        for name, method in owner.__dict__.items():
            function = getattr(method, "__func__", method)
            if isinstance(function, types.FunctionType) and name not in _ELSEWHERE:
                found |= loaded_names(function.__code__)
    return frozenset(found)


_ELSEWHERE = frozenset({"__init__", "__repr__", "extra_repr", "reset_parameters", "__setstate__", "__getstate__"})
