"""What Python keeps around a compiled function: globals, closures, attributes of objects, lists and dictionaries.

`Surroundings` walks from the function along the names that its code mentions, notes what lies there before a trace,
finds what the trace has changed, puts it back, and tells at every call whether all is as it was.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...random import Generator
from ...tape.holders import TABLES, PartHolder, StateHolder, global_hooks
from ...tensor import Tensor
from .code import is_foreign, is_foreign_class, loaded_names, names_of
from .places import PLAIN, Kept, Place, is_same

__all__ = ["Surroundings"]


class Surroundings:
    """Everything that a function and what it calls can reach by name; engine and library code is not looked into."""

    def __init__(self, function: Callable, arguments: Iterable[Any]) -> None:
        self.places: dict[tuple[int, Any], tuple[Place, Any]] = {}
        self.kept: dict[int, Kept] = {}
        self.exact: set[int] = set()  # attribute tables of modules: who reads them is seen by the tracer
        self.names: set[str] = set()  # attributes that the code mentions
        self.loaded: set[str] = set()  # and those of them that it reads
        self.tensors: dict[int, Tensor] = {}
        self.modules: list[PartHolder] = []
        self.codes: set[Any] = set()
        self.seen: dict[int, Any] = {}
        self.objects: list[tuple[Any, str]] = []  # instances whose attributes are looked up by name
        self.mathematics: list[Place] = []  # globals that are functions of `math`
        self.ours: list[tuple[Any, str, dict[str, Any]]] = []  # objects of Weft, and their attributes before
        self.passed: set[int] = set()  # containers of ours, looked through for objects of users
        self.pending: list[tuple[Any, str]] = []
        self._reach(function, getattr(function, "__name__", "the function"))
        for x in arguments:
            self._reach(x, "an argument")
        self._walk()

    def _reach(self, x: Any, name: str, kept: bool = True) -> None:
        """Look at an object; `kept`: what it contains, if it is a container, is to stay or to be carried."""
        if isinstance(x, Tensor):
            self.tensors[id(x)] = x
            for hooks in ("_hooks", "_post_hooks"):
                self._visit_hooks(x.__dict__.get(hooks))
        elif not isinstance(x, _LEAVES) and (id(x) not in self.seen or (kept and id(x) in self.passed)):
            self.seen[id(x)] = x
            if isinstance(x, _CONTAINERS):
                (self.passed.discard if kept else self.passed.add)(id(x))
            self.pending.append((x, name))

    def _walk(self) -> None:
        """Until nothing new is found: new code mentions new names, which lead to new objects."""
        looked: dict[int, set[str]] = {}
        while True:
            while self.pending:
                self._visit(*self.pending.pop())
            for x, name in list(self.objects):
                new = self.names - looked.setdefault(id(x), set())
                looked[id(x)] |= new
                self._look_up(x, new, name)
            if not self.pending:
                return

    def _visit(self, x: Any, name: str) -> None:
        if isinstance(x, types.FunctionType):
            self._visit_function(x, name)
        elif isinstance(x, types.MethodType):
            self._reach(x.__func__, name)
            self._reach(x.__self__, name)
        elif isinstance(x, functools.partial):
            for part in (x.func, x.args, x.keywords):
                self._reach(part, name)
        elif isinstance(x, PartHolder):
            self._visit_module(x, name)
        elif isinstance(x, _CONTAINERS):
            self._visit_container(x, name)
        elif isinstance(x, tuple):
            for k, content in enumerate(x):
                self._reach(content, f"{name}[{k}]", id(x) not in self.passed)
        elif isinstance(x, StateHolder):
            self._visit_optimizer(x, name)
        elif isinstance(x, types.ModuleType):
            if is_foreign(getattr(x, "__file__", None) or ""):
                self.objects.append((x, name))
        elif isinstance(x, type):
            if is_foreign_class(x):
                self.objects.append((x, name))
        else:
            self._visit_object(x, name)

    def _visit_function(self, f: types.FunctionType, name: str) -> None:
        for part in (f.__defaults__, f.__kwdefaults__):
            self._reach(part, name)
        wrapped = getattr(f, "__wrapped__", None)
        if wrapped is not None:
            self._reach(wrapped, name)
        foreign = is_foreign(f.__code__.co_filename)
        for variable, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            if foreign:
                self._note(Place(cell, 0, variable))
            else:
                self._reach(Place(cell, 0, variable).get(), variable, kept=False)
        if not foreign and not f.__module__.startswith(_LOOKED_INTO):
            return
        if f.__code__ in self.codes:
            return
        self.codes.add(f.__code__)
        read, mentioned = names_of(f.__code__)
        self.names |= mentioned
        self.loaded |= loaded_names(f.__code__)
        for variable in read if foreign else ():
            if variable in f.__globals__:
                self._note_global(Place(f.__globals__, variable, f"the global {variable}"))

    def _note_global(self, place: Place) -> None:
        content = place.get()
        if isinstance(content, types.BuiltinFunctionType):
            if content.__module__ == "math":
                self.mathematics.append(place)
            return
        if isinstance(content, (types.ModuleType, type)):
            self._reach(content, place.name)
        else:
            self._note(place)

    def _note(self, place: Place) -> None:
        """What lies there is to stay, or to be carried."""
        content = place.get()
        self.places.setdefault(place.identity, (place, content))
        self._reach(content, place.name)

    def _visit_module(self, x: PartHolder, name: str) -> None:
        held = x.__dict__
        self.modules.append(x)
        for table in TABLES:
            for key, part in held.get(table, {}).items():
                self._reach(part, f"{name}.{key}")
        for table in (global_hooks, held.get("_hooks") or {}):
            for hooks in table.values():
                self._visit_hooks(hooks)
        if is_foreign_class(type(x)) or isinstance(held.get("forward"), types.FunctionType):
            self.exact.add(id(held))
            self.objects.append((x, name))
            self.names.add("forward")

    def _visit_hooks(self, hooks: Any) -> None:
        if isinstance(hooks, dict):
            for hook in hooks.values():
                self._reach(hook, getattr(hook, "__name__", "a hook"))

    def _visit_optimizer(self, x: StateHolder, name: str) -> None:
        for hooks in x.__dict__.get("_hooks", {}).values():
            self._visit_hooks(hooks)
        if x._has_own_step():
            for key in ("state", "param_groups"):
                self._reach(x.__dict__[key], f"{name}.{key}")
            self.objects.append((x, name))
            self.names.add("step")

    def _visit_container(self, x: Any, name: str) -> None:
        if id(x) in self.passed:
            for content in list(x.values() if isinstance(x, dict) else x):
                self._reach(content, name, kept=False)
            return
        kept = self.kept[id(x)] = Kept(x, name)
        if kept.whole:
            return
        for key in x if isinstance(x, dict) else range(len(x)):
            label = f"{name}[{key!r}]" if isinstance(key, (int, str)) else f"{name}[…]"
            self._note(Place(x, key, label))

    def _visit_object(self, x: Any, name: str) -> None:
        if isinstance(x, _compiled_class()):
            self._reach(x.function, name)
        elif type(x).__module__ == _SHOWING:
            return
        elif is_foreign_class(type(x)) or type(x).__module__.startswith(_LOOKED_INTO):
            self.objects.append((x, name))
        elif type(x).__module__.startswith(_KEEPERS) and isinstance(getattr(x, "__dict__", None), dict):
            self.ours.append((x, name, dict(x.__dict__)))

    def _look_up(self, x: Any, names: set[str], name: str) -> None:
        """The attributes of an object, or of a class or module, that the code mentions."""
        held = getattr(x, "__dict__", None)
        if isinstance(x, (type, types.ModuleType)):
            for key in names & held.keys():
                self._note_attribute(x, key, held[key], name)
            return
        for cls in type(x).__mro__[:-1]:
            if is_foreign_class(cls) or cls.__module__.startswith(_LOOKED_INTO):
                for key in (names | _CALLED) & cls.__dict__.keys():
                    self._note_attribute(cls, key, cls.__dict__[key], cls.__name__)
        own = is_foreign_class(type(x))
        if isinstance(held, dict):
            if own and id(held) not in self.kept:
                self.kept[id(held)] = Kept(held, name, attributes=True)
            for key in names & held.keys():
                if own:
                    self._note(Place(held, key, f"{name}.{key}"))
                else:
                    self._reach(held[key], f"{name}.{key}", kept=False)
        for cls in type(x).__mro__ if own else ():
            for key in names.intersection(_slots(cls)):
                self._note(Place(x, key, f"{name}.{key}"))

    def _note_attribute(self, holder: Any, key: str, content: Any, name: str) -> None:
        if isinstance(content, (staticmethod, classmethod)):
            content = content.__func__
        if isinstance(content, property):
            for part in (content.fget, content.fset):
                self._reach(part, f"{name}.{key}")
        elif isinstance(content, _DEFINED):
            self._reach(content, f"{name}.{key}")
        elif is_foreign_class(holder) if isinstance(holder, type) else True:
            if not hasattr(content, "__get__"):
                place = Place(holder.__dict__ if isinstance(holder, types.ModuleType) else holder, key, f"{name}.{key}")
                self._note(place)

    # ------------------------------------------------------------------------------ after a trace
    def changes(self) -> Iterator[tuple[Place, Any, Any]]:
        """(place, content before, content now) of what was replaced; `reformed` has what got other entries."""
        for place, before in self.places.values():
            now = place.get()
            if now is not before:
                yield place, before, now

    def reformed(self) -> Kept | None:
        """A container that has got, or lost, entries."""
        return next((k for k in self.kept.values() if not k.has_same_form()), None)

    def disturbed(self) -> tuple[Any, str] | None:
        """An object of Weft that keeps Python state of its own, a schedule for one, and was changed."""
        for x, name, before in self.ours:
            now = x.__dict__
            if now.keys() != before.keys() or not all(is_same(before[key], now[key]) for key in before):
                return x, name
        return None

    def restore(self) -> None:
        """Everything as it was when it was first seen."""
        for x, _, before in self.ours:
            x.__dict__.update(before)
        for kept in self.kept.values():
            if not _is_as_before(kept):
                kept.restore()
        for place, before in self.places.values():
            if place.get() is not before:
                place.put(before)


def _is_as_before(kept: Kept) -> bool:
    now, before = kept.container, kept.content
    if len(now) != len(before):
        return False
    if isinstance(now, dict):
        return all(a is b for a, b in zip(now.keys(), before.keys(), strict=True)) and all(
            a is b for a, b in zip(now.values(), before.values(), strict=True)
        )
    return now == before if isinstance(now, (set, bytearray)) else all(map(lambda a, b: a is b, now, before))


_CALLED = frozenset(
    {"__call__", "__getattr__", "__enter__", "__exit__", "__iter__", "__next__", "__len__", "__getitem__"}
)
_LEAVES = (*PLAIN, types.BuiltinFunctionType, types.CodeType, Generator)
_CONTAINERS = (dict, list, set, deque, bytearray)
_DEFINED = (types.FunctionType, type, functools.partial)
_KEEPERS = ("weft.optim.", "weft.data.", "weft.distributions.", "weft.models.")  # where objects may keep count
_LOOKED_INTO = ("weft.train.",)  # code of ours that calls methods of users' objects by name
_SHOWING = "weft.train.progress"  # no step depends on it, and it changes all the time in a thread of its own


@functools.cache
def _slots(cls: type) -> tuple[str, ...]:
    return tuple(k for k, v in cls.__dict__.items() if isinstance(v, types.MemberDescriptorType))


def _compiled_class() -> type:
    from ..compiled import Compiled

    return Compiled
