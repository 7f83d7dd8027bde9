"""A function traced: run once on symbolic tensors, what it returns and leaves behind named, and all put back.

The result is a `Program`, which knows when it still holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import TraceError
from ..runtime.locks import unforked
from ..tape.node import Handle
from ..tensor import ENGINE_ATTRIBUTES, Tensor
from ..utils.pytree import LEAF, TreeSpec, tree_flatten, tree_unflatten
from .graph.geometry import order_of
from .graph.graph import Value
from .outside import split_backward
from .program import ARGUMENT, COPY, NUMBER, OBJECT, OUTPUT, TREE, Program, Result
from .tracing.arrays import Stand
from .tracing.breaks import Probe, cut
from .tracing.counted import Number, Overlaid
from .tracing.effects import MISSING, Guard
from .tracing.ledger import Ledger
from .tracing.selections import Targeted
from .tracing.state import Carried, HostRandomness, Varies, classified
from .tracing.surroundings import Surroundings
from .tracing.tracer import Overlap, Tracer

__all__ = ["trace"]


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
    all_forms = True
    carried = Carried() if carried is None else carried
    while True:
        try:
            tracer = Tracer({id(owner) for owner in shared}, all_forms)
            return _traced(tracer, function, leaves, spec, to_look, carried)
        except Overlap as overlap:
            shared.append(overlap.owner)
        except Targeted:
            all_forms = False
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
        tracer.journal.restore(lambda key, now: _is_made(tracer, now) or _is_engines(key))
    around.restore()
    program.streams = tracer.streams.restore()
    program.watch()
    program.contents = [(table, list(table.values())) for table in tracer.journal.contents.values()]
    # what was there for a while only, in the place of a parameter, is not what a later call finds
    program.reads = [(table, key, content) for table, key, content in program.reads if table.get(key) is content]
    _hold_on(program, tracer, around, carried)
    del tracer.around  # traced memory knows its tracer, which would keep everything around until garbage is looked for
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


def _is_made(tracer: Tracer, x: Any) -> bool:
    """Whether a tensor was made during the trace; one made of constants, too: it may have been written to since."""
    if not isinstance(x, Tensor):
        return False
    array = x.__dict__["array"]
    found = array if array.__class__ is Stand else tracer.stands.get(id(array))
    return found is not None and (found is array or found.memory.constant)


def _is_engines(key: Any) -> bool:
    return isinstance(key, str) and key in ENGINE_ATTRIBUTES


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
    if tracer.selections:
        tracer.settle_selections(outputs.needed(backward), None if backward is None else backward.graph)
    if ledger is not None:
        ledger.close()
    asked = [] if ledger is None else _asked(ledger)
    late = [] if ledger is None else [(k, v) for k, v in ledger.items.items() if k not in dict(asked)]
    items = [(k, outputs.number(v)) for k, v in late]
    count = len(outputs.numbers)
    saved = [outputs.number(v) for v in (backward.saved if backward is not None else ())]
    graph.outputs = [value for value, _ in outputs.numbers]
    graph.orders = {number: order for (_, order), number in outputs.numbers.items() if order is not None}
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
        settled=list(tracer.journal.settled.values()),
    )


Order = tuple[int, ...] | None  # of dimensions in memory


class _Outputs:
    """The values of a graph that somebody needs, numbered as they are asked for.

    Tensors get theirs with the dimensions in the order in memory that they have in eager code.
    """

    def __init__(self, tracer: Tracer, proxies: list[tuple[Tensor, Tensor]]) -> None:
        self.tracer, self.proxies = tracer, proxies
        self.numbers: dict[tuple[Value, Order], int] = {}
        self.users: dict[int, int] = {}  # the tensor that an output becomes; others get copies of it
        self.positions = {id(proxy): position for position, (proxy, _) in enumerate(proxies)}
        self.known = {id(array) for _, array in tracer.captured}

    def number(self, value: Value, order: Order = None) -> int:
        return self.numbers.setdefault((value, order), len(self.numbers))

    def needed(self, backward: Any) -> list[Value]:
        """All that has been asked for, and what the function leaves in the memory of states and for a backward pass."""
        left = [memory.value for memory, state in self.tracer.sources if memory.value is not state.value]
        return [*(value for value, _ in self.numbers), *left, *(() if backward is None else backward.saved)]

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
        number = self.number(self.tracer.value(x), order_of(array.shape, array.strides))
        return (OUTPUT if self.users.setdefault(number, id(x)) == id(x) else COPY), number

    def stores(self, around: Surroundings, carried: Carried) -> list[tuple[Any, Any, Result]]:
        """What the function left in attributes, containers and gradients: (table, place or argument, key, content)."""
        tracer = self.tracer
        own = {id(tracer.stands[id(array)]): x for x, array in tracer.captured}
        stores: list[tuple[Any, Any, Result]] = []
        for table, key, before, now in tracer.journal.changes():
            if key == "array":
                _write_back(tracer, before, now)
            elsewhere = _is_engines(key) or not _is_made(tracer, now) or (id(table), key) in around.places
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
