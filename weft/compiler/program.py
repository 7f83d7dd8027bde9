"""From a traced function to a program: the graph, what comes back, what is left behind, and when it holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import TraceError
from ..tensor import Tensor
from ..utils.pytree import TreeSpec, tree_flatten, tree_unflatten
from .effects import MISSING, Guard
from .graph import Graph, Value
from .streams import Stream
from .trace import Tracer
from .traced import Stand

OUTPUT, ARGUMENT, OBJECT = "output", "argument", "object"
Result = tuple[str, Any]  # (OUTPUT, number), (ARGUMENT, position) or (OBJECT, the object itself)


@dataclass
class Place:
    """Somewhere a tensor is kept: a dictionary and a key; without a dictionary, that of an argument's attributes."""

    table: dict[Any, Any] | None
    key: Any
    position: int = -1

    def find(self, arguments: Sequence[Tensor]) -> dict[Any, Any]:
        return arguments[self.position].__dict__ if self.table is None else self.table


@dataclass
class Program:
    """One traced function. `entries` are places that must hold what they held (None, or a tensor of equal form)."""

    graph: Graph
    results: list[Result]
    spec: TreeSpec
    stores: list[tuple[Place, Result]]
    written: list[tuple[int, int]]  # (position, number): arguments that an output is copied to
    entries: list[tuple[Place, Tensor | None]]
    captured: list[tuple[Tensor, np.ndarray]]
    modules: list[tuple[Any, bool]]
    guards: list[Guard]
    streams: list[Stream]
    kept: list[Any] = field(default_factory=list)  # objects whose identity the signature relies on

    def follows(self, tensors: Sequence[Tensor]) -> bool:
        """Use these tensors, like the captured ones, in their place; False: one of them shares memory with others."""
        instead = {id(old): now for (old, _), now in zip(self.captured, tensors, strict=True)}
        states = {id(state.tensor): state for state in self.graph.states}
        moved = [(old, now) for (old, array), now in zip(self.captured, tensors, strict=True) if now.array is not array]
        if any(id(old) not in states for old, _ in moved):
            return False
        for old, now in moved:
            states[id(old)].tensor = states[id(old)].value.node.op.tensor = now
        self.captured = [(instead[id(old)], instead[id(old)].array) for old, _ in self.captured]
        return True


def trace(function: Callable, leaves: Sequence[Any], spec: TreeSpec | None) -> Program:
    """Run `function` on symbolic tensors; everything outside is afterwards as it was before."""
    tracer = Tracer()
    try:
        with tracer.running():
            proxies: list[tuple[Tensor, Tensor]] = []
            given = []
            for x in leaves:
                if isinstance(x, Tensor):
                    with tracer.paused():
                        proxy = tracer.argument(x, len(proxies))
                    proxies.append((proxy, x))
                    given.append(proxy)
                else:
                    given.append(x)
            args, kwargs = (given, {}) if spec is None else tree_unflatten(given, spec)
            program = _finished(tracer, function(*args, **kwargs), proxies)
    except BaseException:
        tracer.journal.fail()
        tracer.streams.restore()
        raise
    tracer.journal.restore(_is_traced_or_engine)
    program.streams = tracer.streams.restore()
    return program


def _is_traced(x: Any) -> bool:
    return isinstance(x, Tensor) and x.__dict__["array"].__class__ is Stand


def _is_traced_or_engine(key: Any, now: Any) -> bool:
    return _is_traced(now) or (isinstance(key, str) and key in _ENGINE)


_ENGINE = frozenset("array node _needs_grad _grad _counter _views _base _retains _origin _inference _hooks".split())


def _finished(tracer: Tracer, result: Any, proxies: list[tuple[Tensor, Tensor]]) -> Program:
    """Name the outputs of the graph: results, what is stored, and the final values of states."""
    graph = tracer.graph
    outputs: dict[Value, int] = {}
    positions = {id(proxy): position for position, (proxy, _) in enumerate(proxies)}
    known = {id(array): x for x, array in tracer.captured}

    def resolved(x: Any) -> Result:
        if not isinstance(x, Tensor):
            return OBJECT, x
        if id(x) in positions:
            return ARGUMENT, positions[id(x)]
        array = x.__dict__["array"]
        if id(array) in known and array.__class__ is not Stand:
            return OBJECT, x
        value = tracer.value(x)
        return OUTPUT, outputs.setdefault(value, len(outputs))

    leaves, spec = tree_flatten(result)
    results = [resolved(x) for x in leaves]
    stores, entries = [], []
    for table, key, before, now in tracer.journal.changes():
        if key == "array":
            _write_back(tracer, before, now)
        if key != "_grad" and (key in _ENGINE or not _is_traced(now)):
            continue
        place = Place(table, key)
        before, now = (None if x is MISSING else x for x in (before, now))
        if key != "_grad" or (id(table), key) in tracer.journal.read:
            entries.append((place, before))
        if now is not before or (id(table), key) not in tracer.journal.read:
            stores.append((place, resolved(now)))
    for position, (proxy, x) in enumerate(proxies):
        if proxy._needs_grad or proxy._grad is not None:
            place = Place(None, "_grad", position)
            entries.append((place, x.__dict__.get("_grad")))
            if proxy._grad is not x.__dict__.get("_grad"):
                stores.append((place, resolved(proxy._grad)))
    written = []
    for position, (proxy, _) in enumerate(proxies):
        memory = tracer.stand(proxy).memory
        if memory.version:
            written.append((position, outputs.setdefault(memory.value, len(outputs))))
    graph.outputs = list(outputs)
    for memory, state in tracer.sources:
        state.final = None if memory.value is state.value else memory.value
    modules = {m: None for root in tracer.journal.modules for m in root.modules()}
    return Program(
        graph=graph,
        results=results,
        spec=spec,
        stores=stores,
        written=written,
        entries=entries,
        captured=tracer.captured,
        modules=[(m, m.training) for m in modules],
        guards=tracer.journal.guards,
        streams=[],
    )


def _write_back(tracer: Tracer, before: Any, now: Any) -> None:
    """A tensor that was there before got another array (`x.data = y`): its own memory takes the new value."""
    if before is MISSING or before is now:
        return
    old, new = tracer.stands.get(id(before)), now if now.__class__ is Stand else tracer.stands[id(now)]
    if old is None or old.shape != new.shape or old.dtype != new.dtype:
        raise TraceError(
            "compile: a tensor from outside was given other sizes in the compiled function; do that outside"
        )
    tracer.assign(old, new)
