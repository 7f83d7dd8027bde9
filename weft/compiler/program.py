"""From a traced function to a program: the graph, what comes back, what is left behind, and when it holds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import TraceError
from ..runtime.locks import unforked
from ..tensor import Tensor
from ..utils.pytree import TreeSpec, tree_flatten, tree_unflatten
from .effects import MISSING, Guard
from .graph import Graph, Value
from .outside import Backward, split_backward
from .streams import Stream
from .trace import Overlap, Tracer
from .traced import Stand

OUTPUT, COPY, ARGUMENT, OBJECT = "output", "copy", "argument", "object"
Result = tuple[str, Any]  # (OUTPUT, number), (COPY, number), (ARGUMENT, position) or (OBJECT, the object itself)


@dataclass
class Program:
    """One traced function, and the surroundings in which it holds."""

    graph: Graph
    results: list[Result]
    spec: TreeSpec
    stores: list[tuple[dict[Any, Any] | int, Any, Result]]  # (table or argument whose attributes it is, key, content)
    written: list[tuple[int, int]]  # (position, number): arguments that an output is copied to
    count: int  # how many outputs are for others than the backward pass
    backward: Backward | None
    saved: list[int]  # outputs that the backward pass needs
    reads: list[tuple[dict[Any, Any], Any, Any]]  # (table, key, content): what Python looked at
    contents: list[tuple[dict[Any, Any], list[Any]]]  # dictionaries that must hold the same objects
    looked_at: list[tuple[int, Any]]  # (position, gradient): arguments whose gradient was looked at
    captured: list[tuple[Tensor, np.ndarray]]
    changed: list[Tensor]  # captured tensors whose memory the program writes to
    guards: list[Guard]
    watched: list[tuple[Tensor, np.ndarray, bool]] = field(
        default_factory=list
    )  # the captured; do they take gradients?
    streams: list[Stream] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)  # objects whose identity the signature relies on

    def holds(self, tensors: Sequence[Tensor]) -> bool:
        """Whether everything outside is just as it was."""
        for table, key, content in self.reads:
            if table.get(key) is not content:
                return False
        for table, content in self.contents:
            if len(table) != len(content) or not all(map(operator.is_, table.values(), content)):
                return False
        for guard in self.guards:
            if not guard.holds():
                return False
        for position, grad in self.looked_at:
            if tensors[position]._grad is not grad:
                return False
        for x, array, needs in self.watched:
            if x.array is not array or x._needs_grad is not needs:
                return False
        return True

    def follows(self, tensors: Sequence[Tensor]) -> bool:
        """Let the graph use what is there now, if it is like what was traced."""
        if not all(guard.holds() for guard in self.guards):
            return False
        reads = [(table, key, table.get(key)) for table, key, _ in self.reads]
        looked_at = [(position, tensors[position]._grad) for position, _ in self.looked_at]
        contents = [(table, list(table.values())) for table, _ in self.contents]
        instead: dict[int, Any] = {}
        pairs = [
            (old[-1], now[-1]) for old, now in zip([*self.reads, *self.looked_at], [*reads, *looked_at], strict=True)
        ]
        for (_, before), (_, now) in zip(self.contents, contents, strict=True):
            if len(before) != len(now):
                return False
            pairs += zip(before, now, strict=True)
        pinned = self._pinned()
        for before, now in pairs:
            if not _alike(before, now) or (before is not now and id(before) in pinned):
                return False
            instead[id(before)] = now
        captured = [(x, instead.get(id(x), x), array) for x, array in self.captured]
        if not all(same_form(now.array, array) for _, now, array in captured):
            return False
        if [now._needs_grad for _, now, _ in captured] != [needs for *_, needs in self.watched] or not self._move(
            captured
        ):
            return False
        self.reads, self.looked_at, self.contents = reads, looked_at, contents
        self.changed = [instead.get(id(x), x) for x in self.changed]
        return True

    def _pinned(self) -> set[int]:
        """Tensors (their identities) that are more to the program than memory: it hands them out, sets their attributes
        or gives them gradients."""
        handed = {id(what) for kind, what in (*self.results, *(r for _, _, r in self.stores)) if kind is OBJECT}
        tables = {id(table) for table, _, _ in self.stores}
        return handed | {id(x) for x, _ in self.captured if x._needs_grad or id(x.__dict__) in tables}

    def _move(self, captured: Sequence[tuple[Tensor, Tensor, np.ndarray]]) -> bool:
        """Use other tensors in the place of captured ones; False: one of them shares memory with others."""
        states = {id(state.tensor): state for state in self.graph.states}
        moved = [(old, now) for old, now, array in captured if now.array is not array]
        if any(id(old) not in states for old, _ in moved):
            return False
        for old, now in moved:
            states[id(old)].tensor = states[id(old)].value.node.op.tensor = now
        self.captured = [(now, now.array) for _, now, _ in captured]
        self.watch()
        return True

    def watch(self) -> None:
        """Hold to what captured tensors are now."""
        self.watched = [(x, array, x._needs_grad) for x, array in self.captured]


def same_form(a: np.ndarray, b: np.ndarray) -> bool:
    return a is b or (a.shape == b.shape and a.dtype == b.dtype and a.strides == b.strides)


def _alike(before: Any, now: Any) -> bool:
    """Whether a trace that met one would have been the same with the other."""
    if before is now:
        return True
    if isinstance(before, Tensor) and isinstance(now, Tensor):
        return same_form(before.array, now.array) and before._needs_grad == now._needs_grad
    return type(before) is type(now) and isinstance(before, _VALUES) and before == now


_VALUES = (bool, int, float, complex, str, tuple, frozenset)


@unforked()
def trace(function: Callable, leaves: Sequence[Any], spec: TreeSpec | None, to_look: bool = False) -> Program:
    """Run `function` on symbolic tensors; everything outside is afterwards as it was before.

    But objects that the first call makes (an optimiser's state, attributes that are no tensors) stay, for the later
    calls to find; `to_look`: these go, too.
    """
    shared: list[np.ndarray] = []
    while True:
        try:
            return _traced(Tracer({id(owner) for owner in shared}), function, leaves, spec, to_look)
        except Overlap as overlap:
            shared.append(overlap.owner)


def _traced(tracer: Tracer, function: Callable, leaves: Sequence[Any], spec: TreeSpec | None, to_look: bool) -> Program:
    try:
        with tracer.running():
            with tracer.paused():
                tensors = [x for x in leaves if isinstance(x, Tensor)]
                proxies = [tracer.argument(x, position) for position, x in enumerate(tensors)]
            given = iter(proxies)
            given = [next(given) if isinstance(x, Tensor) else x for x in leaves]
            args, kwargs = (given, {}) if spec is None else tree_unflatten(given, spec)
            result = function(*args, **kwargs)
            program = _finished(tracer, result, list(zip(proxies, tensors, strict=True)))
    except BaseException:
        tracer.journal.fail()
        tracer.streams.restore()
        raise
    if to_look:
        tracer.journal.fail()
    else:
        tracer.journal.restore(_is_traced_or_engine)
    program.streams = tracer.streams.restore()
    program.watch()
    program.contents = [(table, list(table.values())) for table in tracer.journal.contents.values()]
    # what was there for a while only, in the place of a parameter, is not what a later call finds
    program.reads = [(table, key, content) for table, key, content in program.reads if table.get(key) is content]
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

    users: dict[Value, int] = {}

    def resolved(x: Any) -> Result:
        if not isinstance(x, Tensor):
            return OBJECT, x
        if id(x) in positions:
            return ARGUMENT, positions[id(x)]
        array = x.__dict__["array"]
        if id(array) in known and array.__class__ is not Stand:
            return OBJECT, x
        value = tracer.value(x)
        number = outputs.setdefault(value, len(outputs))
        return (OUTPUT if users.setdefault(value, id(x)) == id(x) else COPY), number

    leaves, spec = tree_flatten(result)
    backward = split_backward(tracer, leaves, [proxy for proxy, _ in proxies])
    results = [resolved(x) for x in leaves]
    own = {id(tracer.stands[id(array)]): x for x, array in tracer.captured}
    stores = []
    for table, key, before, now in tracer.journal.changes():
        if key == "array":
            _write_back(tracer, before, now)
        if key != "_grad" and (key in _ENGINE or not _is_traced(now)):
            continue
        if now is not before or (id(table), key) not in tracer.journal.reads:
            kept = own.get(id(now.__dict__["array"])) if isinstance(now, Tensor) else None
            stores.append((table, key, resolved(None if now is MISSING else now) if kept is None else (OBJECT, kept)))
    for position, (proxy, x) in enumerate(proxies):
        now = proxy.__dict__.get("_grad")
        if now is not x.__dict__.get("_grad"):
            stores.append((position, "_grad", resolved(now)))
    written = []
    for position, (proxy, _) in enumerate(proxies):
        memory = tracer.stand(proxy).memory
        if memory.version:
            written.append((position, outputs.setdefault(memory.value, len(outputs))))
    count = len(outputs)
    saved = [outputs.setdefault(v, len(outputs)) for v in (backward.saved if backward is not None else ())]
    graph.outputs = list(outputs)
    for memory, state in tracer.sources:
        state.final = None if memory.value is state.value else memory.value
    return Program(
        graph=graph,
        results=results,
        spec=spec,
        stores=stores,
        written=written,
        count=count,
        backward=backward,
        saved=saved,
        reads=list(tracer.journal.reads.values()),
        contents=[],
        looked_at=[(k, x.__dict__.get("_grad")) for k, (p, x) in enumerate(proxies) if id(p) in tracer.looked_at],
        captured=tracer.captured,
        changed=[x for x, array in tracer.captured if tracer.stands[id(array)].memory.version],
        guards=tracer.journal.guards,
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
