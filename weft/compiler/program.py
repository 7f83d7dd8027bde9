"""From a traced function to a program: the graph, what comes back, what is left behind, and when it holds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import TraceError
from ..runtime.locks import unforked
from ..tape.node import Handle
from ..tensor import ENGINE_ATTRIBUTES, Tensor
from ..utils.pytree import LEAF, TreeSpec, tree_flatten, tree_unflatten
from .graph.graph import Graph, Value
from .outside import Backward, split_backward
from .tracing.arrays import Stand
from .tracing.breaks import First, Probe, cut
from .tracing.counted import Number, Overlaid
from .tracing.effects import MISSING, Guard
from .tracing.ledger import Ledger
from .tracing.state import Carried, HostRandomness, Varies, classified
from .tracing.streams import Stream
from .tracing.surroundings import Kept, Place, Surroundings, is_same
from .tracing.tracer import Overlap, Tracer

__all__ = ["ARGUMENT", "COPY", "NUMBER", "OBJECT", "OUTPUT", "TREE", "Program", "Result", "trace"]

OUTPUT, COPY, ARGUMENT, OBJECT, NUMBER, TREE = "output", "copy", "argument", "object", "number", "tree"
# (OUTPUT, number), (COPY, number), (ARGUMENT, position), (OBJECT, the object itself), (NUMBER, its entry in the ledger) or
# (TREE, (containers, results))
Result = tuple[str, Any]


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
    ledger: Ledger | None = None  # numbers that Python computes at each call
    first: First | None = None  # what runs before Python's decisions
    effects: list[tuple[Callable, list[Result], TreeSpec]] = field(default_factory=list)  # calls with their arguments
    asked: list[int] = field(default_factory=list)  # entries of what the first part gives
    items: list[tuple[int, int]] = field(default_factory=list)  # (entry, output): numbers that the plan gives
    places: list[tuple[Place, Any]] = field(default_factory=list)  # what must lie in cells, lists and slots
    forms: list[tuple[Any, int]] = field(default_factory=list)  # (container, its length)
    wholes: list[Kept] = field(default_factory=list)  # containers that are compared as a whole
    keeps: bool = False  # whether there are such containers, or numbers
    streams: list[Stream] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)  # objects whose identity the signature relies on

    def holds(self, tensors: Sequence[Tensor]) -> bool:
        """Whether everything outside is just as it was."""
        if self.keeps and not self.numbers_hold():
            return False
        for place, content in self.places:
            if place.get() is not content:
                return False
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

    def numbers_hold(self) -> bool:
        """Whether Python would decide as before by the numbers of this call, and containers have the same entries."""
        for container, length in self.forms:
            if len(container) != length:
                return False
        for kept in self.wholes:
            if not kept.has_same_form():
                return False
        return self.ledger is None or self.ledger.holds()

    def follows(self, tensors: Sequence[Tensor]) -> bool:
        """Let the graph use what is there now, if it is like what was traced."""
        if not self.numbers_hold() or not all(guard.holds() for guard in self.guards):
            return False
        places = [(place, place.get()) for place, _ in self.places]
        reads = [(table, key, table.get(key)) for table, key, _ in self.reads]
        looked_at = [(position, tensors[position]._grad) for position, _ in self.looked_at]
        contents = [(table, list(table.values())) for table, _ in self.contents]
        instead: dict[int, Any] = {}
        pairs = [
            (old[-1], now[-1])
            for old, now in zip(
                [*self.reads, *self.looked_at, *self.places], [*reads, *looked_at, *places], strict=True
            )
        ]
        for (_, before), (_, now) in zip(self.contents, contents, strict=True):
            if len(before) != len(now):
                return False
            pairs += zip(before, now, strict=True)
        pinned = self._pinned()
        for before, now in pairs:
            for one, other in _pairs(before, now):
                if not _alike(one, other) or (one is not other and id(one) in pinned):
                    return False
                instead[id(one)] = other
        captured = [(x, instead.get(id(x), x), array) for x, array in self.captured]
        if not all(same_form(now.array, array) for _, now, array in captured):
            return False
        if [now._needs_grad for _, now, _ in captured] != [needs for *_, needs in self.watched] or not self._move(
            captured
        ):
            return False
        self.reads, self.looked_at, self.contents, self.places = reads, looked_at, contents, places
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

    def decisions(self) -> list[str]:
        """The lines at which Python decides by values of the graph."""
        return [] if self.ledger is None else list(dict.fromkeys(self.ledger.lines.values()))

    def notes(self, carried: Carried) -> list[str]:
        """What Python does at each call beside the plan, in words."""
        cuts = [
            f"Python decides by values at {line}: what they need runs first, then the rest" for line in self.decisions()
        ]
        names = sorted({place.name for place in carried.places.values()})
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        return cuts + ([f"numbers read, and stored, at every call: {shown}"] if names else [])

    def note_variations(self, carried: Carried) -> None:
        """Numbers that have changed since the trace."""
        for table, key, content in self.reads:
            carried.note_variation(table, key, content, table.get(key))
        for place, content in self.places:
            carried.note_variation(place.holder, place.key, content, place.get())

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
    return is_same(before, now)


def _pairs(before: Any, now: Any) -> Sequence[tuple[Any, Any]]:
    """What is to be compared one by one: the leaves of like containers."""
    if before is now or type(before) is not type(now) or not isinstance(before, (tuple, list, dict)):
        return [(before, now)]
    first, second = tree_flatten(before), tree_flatten(now)
    return list(zip(first[0], second[0], strict=True)) if first[1] == second[1] != LEAF else [(before, now)]


@unforked()
def trace(
    function: Callable,
    leaves: Sequence[Any],
    spec: TreeSpec | None,
    to_look: bool = False,
    carried: Carried | None = None,
) -> Program:
    """Run `function` on symbolic tensors; everything outside is afterwards as it was before.

    But objects that the first call makes for optimisers of ours stay, for the later calls to find; `to_look`: these go,
    too. `carried` knows the places whose numbers change from call to call; those that this trace finds are added.
    """
    shared: list[np.ndarray] = []
    carried = Carried() if carried is None else carried
    while True:
        try:
            return _traced(Tracer({id(owner) for owner in shared}), function, leaves, spec, to_look, carried)
        except Overlap as overlap:
            shared.append(overlap.owner)
        except Varies as varies:
            carried.add(varies.places)


def _traced(
    tracer: Tracer,
    function: Callable,
    leaves: Sequence[Any],
    spec: TreeSpec | None,
    to_look: bool,
    carried: Carried,
) -> Program:
    tensors = [x for x in leaves if isinstance(x, Tensor)]
    around = Surroundings(function, [x for x in leaves if not isinstance(x, Tensor)])
    chance = HostRandomness(around)
    tracer.probe, tracer.around = Probe([x.array for x in tensors]), around
    try:
        with Overlaid(around), tracer.running():
            with tracer.paused():
                proxies = [tracer.argument(x, position) for position, x in enumerate(tensors)]
            carried.put_numbers(tracer.ledger, around)
            tracer.look_around()
            given = iter(proxies)
            given = [next(given) if isinstance(x, Tensor) else x for x in leaves]
            args, kwargs = (given, {}) if spec is None else tree_unflatten(given, spec)
            result = function(*args, **kwargs)
            chance.check()
            if spec is not None:
                _check_arguments(given, spec, (args, kwargs))
            program = _finished(tracer, result, list(zip(proxies, tensors, strict=True)), around, carried, to_look)
    except BaseException:
        tracer.journal.fail()
        around.restore()
        tracer.streams.restore()
        chance.restore()
        raise
    if to_look:
        tracer.journal.fail()
    else:
        tracer.journal.restore(_is_traced_or_engine)
    around.restore()
    program.streams = tracer.streams.restore()
    program.watch()
    program.contents = [(table, list(table.values())) for table in tracer.journal.contents.values()]
    # what was there for a while only, in the place of a parameter, is not what a later call finds
    program.reads = [(table, key, content) for table, key, content in program.reads if table.get(key) is content]
    _hold_on(program, tracer, around, carried)
    return program


def _attributes_guard(held: dict[str, Any], names: frozenset[str]) -> Guard:
    """An object has those of the attributes that the code mentions."""
    return Guard(lambda: names & held.keys(), lambda: len(held))


def _hooks_guard(tensors: Sequence[Tensor]) -> Guard:
    """Hooks of captured tensors are part of the trace."""

    def look() -> list[Any]:
        tables = (x.__dict__.get(name) for x in tensors for name in ("_hooks", "_post_hooks"))
        return [tuple(table) if table else () for table in tables]

    return Guard(look, lambda: Handle.changes)


def _check_arguments(given: Sequence[Any], spec: TreeSpec, now: Any) -> None:
    """Lists and dictionaries among the arguments are taken apart: what is done to them would be lost."""
    leaves, containers = tree_flatten(now)
    if containers != spec or any(a is not b for a, b in zip(leaves, given, strict=True)):
        raise TraceError(
            "compile: the function changes a list or dictionary that it was given as an argument; return what is new, or "
            "keep it in an object or a closure"
        )


def _hold_on(program: Program, tracer: Tracer, around: Surroundings, carried: Carried) -> None:
    """What Python looked at, as far as it is not carried, must stay as it is."""
    stored = {(id(table), key) for table, key, _ in program.stores}
    used = {id(x) for x, _ in tracer.captured}
    for place, content in around.places.values():
        if id(place.holder) in around.exact or place.identity in carried.places or isinstance(content, _FIXED):
            continue
        if place.identity in stored and isinstance(content, Tensor) and id(content) not in used:
            program.guards.append(Guard(lambda place=place: type(place.get())))
        elif isinstance(place.holder, dict):
            program.reads.append((place.holder, place.key, None if content is MISSING else content))
        else:
            program.places.append((place, content))
    for kept in around.kept.values():
        if id(kept.container) in around.exact:
            continue
        if kept.attributes:
            program.guards.append(_attributes_guard(kept.container, frozenset(around.names)))
        elif kept.whole:
            program.wholes.append(kept)
        else:
            program.forms.append((kept.container, len(kept.container)))
    leaves = [x for x, _ in tracer.captured if x._needs_grad]
    if leaves:
        program.guards.append(_hooks_guard(leaves))
    replaced = {
        (id(table), key)
        for table, key, content in program.reads
        if (id(table), key) in stored & tracer.mentioned and isinstance(content, Tensor) and id(content) not in used
    }
    held = replaced | {(id(table), key) for table, key in carried.tables()}
    program.reads = [(table, key, content) for table, key, content in program.reads if (id(table), key) not in held]
    program.contents = [(table, content) for table, content in program.contents if id(table) not in around.kept]
    program.keeps = bool(program.forms or program.wholes or program.ledger is not None)


def _is_traced(x: Any) -> bool:
    return isinstance(x, Tensor) and x.__dict__["array"].__class__ is Stand


def _is_traced_or_engine(key: Any, now: Any) -> bool:
    return _is_traced(now) or (isinstance(key, str) and key in ENGINE_ATTRIBUTES)


_FIXED = (type, type(np), type(np.sum))  # classes, modules: what code names, hardly ever replaced


def _finished(
    tracer: Tracer,
    result: Any,
    proxies: list[tuple[Tensor, Tensor]],
    around: Surroundings,
    carried: Carried,
    whole: bool,
) -> Program:
    """Name the outputs of the graph: results, what is stored, and the final values of states."""
    graph, outputs = tracer.graph, _Outputs(tracer, proxies)
    leaves, spec = tree_flatten(result)
    backward = split_backward(tracer, leaves, [proxy for proxy, _ in proxies])
    results = [outputs.resolved(x) for x in leaves]
    stores, written = outputs.stores(around, carried), outputs.written()
    effects = [(call, *_taken(outputs.resolved, given)) for call, *given in tracer.effects]
    ledger = tracer.ledger if tracer.ledger.entries else None
    if ledger is not None:
        ledger.close()
    asked = [] if ledger is None else _asked(ledger)
    late = [] if ledger is None else [(k, v) for k, v in ledger.items.items() if k not in dict(asked)]
    items = [(k, outputs.number(v)) for k, v in late]
    count = len(outputs.numbers)
    saved = [outputs.number(v) for v in (backward.saved if backward is not None else ())]
    graph.outputs = list(outputs.numbers)
    for memory, state in tracer.sources:
        state.final = None if memory.value is state.value else memory.value
    first = cut(graph, [v for _, v in asked], len(proxies)) if asked and not whole else None
    return Program(
        ledger=ledger,
        first=first,
        effects=effects,
        items=items,
        asked=[k for k, _ in asked],
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


class _Outputs:
    """The values of a graph that somebody needs, numbered as they are asked for."""

    def __init__(self, tracer: Tracer, proxies: list[tuple[Tensor, Tensor]]) -> None:
        self.tracer, self.proxies = tracer, proxies
        self.numbers: dict[Value, int] = {}
        self.users: dict[Value, int] = {}  # the tensor that an output becomes; others get copies of it
        self.positions = {id(proxy): position for position, (proxy, _) in enumerate(proxies)}
        self.known = {id(array) for _, array in tracer.captured}

    def number(self, value: Value) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def resolved(self, x: Any) -> Result:
        """What a plan gives in the place of x."""
        if type(x) is Number:
            self.tracer.ledger.wanted.add(x._index)
            return NUMBER, x._index
        if not isinstance(x, Tensor):
            return OBJECT, x
        if id(x) in self.positions:
            return ARGUMENT, self.positions[id(x)]
        array = x.__dict__["array"]
        if id(array) in self.known and array.__class__ is not Stand:
            return OBJECT, x
        value = self.tracer.value(x)
        number = self.number(value)
        return (OUTPUT if self.users.setdefault(value, id(x)) == id(x) else COPY), number

    def stores(self, around: Surroundings, carried: Carried) -> list[tuple[Any, Any, Result]]:
        """What the function left in attributes, containers and gradients: (table, place or argument, key, content)."""
        tracer = self.tracer
        own = {id(tracer.stands[id(array)]): x for x, array in tracer.captured}
        stores: list[tuple[Any, Any, Result]] = []
        for table, key, before, now in tracer.journal.changes():
            if key == "array":
                _write_back(tracer, before, now)
            elsewhere = key in ENGINE_ATTRIBUTES or not _is_traced(now) or (id(table), key) in around.places
            if elsewhere and key != "_grad":
                continue
            if now is not before or (id(table), key) not in tracer.journal.reads:
                stores.append((table, key, self._stored(None if now is MISSING else now, own)))
        for place, now in classified(around, carried):
            holder = place.holder if isinstance(place.holder, dict) else place
            stores.append((holder, place.key, self._stored(now, own)))
        for position, (proxy, x) in enumerate(self.proxies):
            now = proxy.__dict__.get("_grad")
            if now is not x.__dict__.get("_grad"):
                stores.append((position, "_grad", self.resolved(now)))
        return stores

    def _stored(self, x: Any, own: dict[int, Tensor]) -> Result:
        if isinstance(x, Tensor):
            kept = own.get(id(x.__dict__["array"]))
            return self.resolved(x) if kept is None else (OBJECT, kept)
        leaves, containers = tree_flatten(x) if isinstance(x, (tuple, list, dict)) else ([x], LEAF)
        if containers is LEAF:
            return self.resolved(x)
        return TREE, (containers, [self._stored(leaf, own) for leaf in leaves])

    def written(self) -> list[tuple[int, int]]:
        """(position, number) of the arguments whose memory was written to."""
        memories = [self.tracer.stand(proxy).memory for proxy, _ in self.proxies]
        return [(position, self.number(m.value)) for position, m in enumerate(memories) if m.version]


def _taken(resolved: Callable[[Any], Result], given: Sequence[Any]) -> tuple[list[Result], TreeSpec]:
    leaves, containers = tree_flatten(tuple(given))
    return [resolved(x) for x in leaves], containers


def _asked(ledger: Ledger) -> list[tuple[int, Value]]:
    """The values of the graph that Python decides by, with their entries."""
    needed, pending = set(), [k for k, _ in ledger.late]
    while pending:
        k = pending.pop()
        if k not in needed:
            needed.add(k)
            pending.extend(ledger.entries[k].operands)
    return [(k, v) for k, v in ledger.items.items() if k in needed]


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
