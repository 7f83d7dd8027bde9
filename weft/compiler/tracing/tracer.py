"""Tracing: a Python function of tensors becomes a graph.

The tracer stands where a running `vmap` would stand: every primitive of the tracing thread comes to `apply`, which
adds a node to the graph and hands back a tensor that has a geometry and a place on the tape, but no values. The tape,
the optimisers and every composite function run unchanged on such tensors. Writes in place become new values of the
memory they go to; views look them up there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from ...dtypes import LOW_PRECISION, bool_, can_cast
from ...errors import TraceError
from ...ops.core import tracing
from ...ops.core.inplace import written
from ...ops.core.operands import broadcast_error, scalar_array
from ...ops.core.pointwise import Elementwise
from ...ops.core.primitive import Primitive, View
from ...runtime.locks import fork_safe_lock
from ...storage import owner_of
from ...tape.modes import mode, switches
from ...tensor import Tensor, new, wrap
from ..graph.geometry import lies_dense
from ..graph.graph import Argument, Captured, Fetched, Graph, State, Value
from . import mapped
from .arrays import Memory, Stand, no_values, plain, stand_in, user_line
from .breaks import Probe
from .counted import Number, plain_tree
from .doors import Doors
from .effects import Guard, Journal
from .given import Numbers, changed_option
from .handlers import handlers_outside
from .infer import result_dtype, results_of, strides_like
from .ledger import Ledger
from .scope import Scope
from .selections import Selections
from .streams import Place, Streams

__all__ = ["Overlap", "Tracer"]


class Overlap(BaseException):
    """Two tensors from outside overlap: the trace starts anew with the array `owner` as one state under both."""

    def __init__(self, owner: np.ndarray) -> None:
        self.owner = owner


class Tracer(Selections, Numbers, Doors):
    """One trace: the graph so far, the memory of every tensor met, and what must be put back at the end."""

    def __init__(self, shared: Collection[int] = (), all_forms: bool = True) -> None:
        super().__init__()
        self.all_forms = all_forms  # of what a mask has chosen
        self.graph, self.journal, self.streams = Graph(), Journal(), Streams()
        self.shared = shared  # arrays (their identities) of which several overlapping windows are met
        self.windows: dict[int, list[tuple[int, int]]] = {}  # addresses of captured memory, by owner
        self.stands: dict[int, Stand] = {}  # of plain arrays, by identity
        self.sources: list[tuple[Memory, State]] = []
        self.owners: dict[int, Memory] = {}  # captured memory under several windows, by its owner
        self.captured: list[tuple[Tensor, np.ndarray]] = []
        self.scalars: dict[tuple[Any, ...], Value] = {}
        self.modules: dict[int, Any] = {}  # those met, by identity
        self.mentioned: set[tuple[int, str]] = set()  # places of attributes of modules that count as read
        self.looked_at: set[int] = set()  # arguments whose gradient was asked for
        self.scopes: list[Scope | None] = [None]  # the bodies of control flow being traced, innermost last
        self.ledger = Ledger(self)
        self.probe: Probe | None = None  # gives values that Python asks for
        self.effects: list[tuple[Callable, tuple[Any, ...], dict[str, Any]]] = []  # calls to be made at every call

    # ----------------------------------------------------------------------------- being in force
    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Trace what this thread does."""
        with handlers_outside():
            _count_traces(1)
            try:
                mode.give_to(self)
                yield
            finally:
                mode.give_to(None)
                _count_traces(-1)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Compute for real for a while."""
        mode.give_to(None)
        try:
            yield
        finally:
            mode.give_to(self)

    # -------------------------------------------------------------------------- memory and values
    def stand(self, x: Tensor) -> Stand:
        """The stand-in of a tensor's array."""
        array = x.__dict__["array"]
        if array.__class__ is Stand:
            return array
        found = self.stands.get(id(array))
        return self.capture(x, array) if found is None else found

    def capture(self, x: Tensor, array: np.ndarray) -> Stand:
        """A tensor of the surrounding program is met for the first time."""
        owner = owner_of(array)
        alone = id(owner) not in self.shared and (array.flags.c_contiguous or array.dtype != owner.dtype)
        memory = None if alone else self.owners.get(id(owner))
        if memory is None:
            root, holder = array, x
            if not alone:
                root = owner if owner.flags.c_contiguous else owner.ravel("K")  # one line under all windows
                with self.paused():
                    holder = wrap(root)
            memory = self._captured_memory(owner, root, holder)
            if not alone:
                self.owners[id(owner)] = memory
        self.journal.note_table(x.__dict__)
        self.captured.append((x, array))
        stand = self.stands[id(array)] = stand_in(array, memory, None)
        return stand

    def _captured_memory(self, owner: np.ndarray, root: np.ndarray, holder: Tensor) -> Memory:
        """A state of its own for `root`, unless it overlaps another one."""
        low, high = np.lib.array_utils.byte_bounds(root)
        taken = self.windows.setdefault(id(owner), [])
        if any(low < end and start < high for start, end in taken):
            raise Overlap(owner)
        taken.append((low, high))
        memory = self.source(Captured(holder), root)
        memory.scope = None
        state = State(holder, memory.value)
        self.graph.states.append(state)
        self.sources.append((memory, state))
        return memory

    def from_outside(self, x: Tensor) -> None:
        """A tensor made during the trace over memory that was there before is captured, not constant."""
        array = x.__dict__["array"]
        if owner_of(array) is not array:
            self.stands.pop(id(array), None)
            self.capture(x, array)

    def source(self, op: Any, root: np.ndarray) -> Memory:
        """Memory that holds something before the function starts."""
        return Memory(self, root, self.graph.source(op, root.shape, root.dtype))

    def argument(self, x: Tensor, position: int) -> Tensor:
        """What the function gets in the place of an argument."""
        proxy = new(x.__class__)
        array = x.array
        proxy.__dict__.update(x._user_attributes() | {k: x.__dict__[k] for k in _KEPT if k in x.__dict__})
        strides = array.strides if lies_dense(array.shape, array.strides, array.itemsize) else None
        proxy.array = stand_in(array, self.source(Argument(position, strides), array), None)
        return proxy

    def constant(self, array: np.ndarray) -> Value:
        """The value of an array made during the trace; one number repeated stays one number."""
        if array.size > 1 and _is_uniform(array):
            return self._fitted(self.graph.constant(array.flat[0].reshape(())), array.shape, array.dtype)
        return self.graph.constant(array.copy())

    def scalar(self, number: Any, kind: np.dtype) -> Value:
        key = (number, type(number), kind)
        if number == 0 or key not in self.scalars:  # 0.0 and -0.0 are equal keys
            self.scalars[key] = self.graph.constant(scalar_array(number, kind))
        return self.scalars[key]

    def fresh(self, value: Value, array: np.ndarray | None = None) -> Tensor:
        """A tensor with memory of its own (laid out as `array`) that holds `value`."""
        out = new(Tensor)
        array = Stand(value.shape, value.dtype) if array is None else array
        out.array = stand_in(array, Memory(self, array, value), value)
        if mode.inference:
            out._inference = True
        return out

    def read(self, stand: Stand) -> Value:
        """What the array behind a stand-in holds now."""
        memory = stand.memory
        if memory is None or memory.tracer is not self:
            raise no_values("it was made by another trace, or by code that works on arrays directly")
        if memory.scope not in self.scopes:
            raise memory.scope.escaped()
        if memory.value is None:
            memory.value = self.constant(memory.root)
        if stand.version != memory.version:
            stand.value, stand.version = self._window(memory, stand), memory.version
            if self.scopes[-1] is not None:
                self.scopes[-1].looked_up.append(stand)
        return stand.value

    def settled(self, x: Tensor) -> np.ndarray | None:
        array = x.__dict__["array"]
        if self.knows(array):
            return array
        found = Probe.of_captured(self.value(x))
        if found is None:
            return None
        values, sources = found
        owners = {id(owner_of(source.__dict__["array"])) for source in sources}
        for tensor, held in self.captured:
            if id(owner_of(held)) in owners and id(tensor) not in self.journal.settled:
                self.journal.settled[id(tensor)] = tensor
                self.journal.guards.append(Guard(lambda tensor=tensor: tensor._version))
        return values

    def _window(self, memory: Memory, stand: Stand) -> Value:
        root = memory.root
        if _same_window(root, stand):
            return memory.value
        view, value = plain(stand), memory.value
        joined = self._read_as_parts(root, view)
        if joined:  # the parts are read, and put together
            view = tracing.parts_of(view)
        elif root.dtype != view.dtype:
            root, value = tracing.parts_of(root), self._parts(value)
        step, params = tracing.reading(root, view)
        value = self.add(step, [value], params, (view.shape, view.dtype))[0]
        return self._joined(value) if joined else value

    def _read_as_parts(self, root: np.ndarray, view: np.ndarray) -> bool:
        """Whether complex numbers are looked at in memory of their parts; other types have to be equal, or parts."""
        parts, whole = view.dtype.char.lower(), view.dtype.kind == "c"
        if root.dtype != view.dtype and (whole or root.dtype.kind == "c") and root.dtype.char.lower() == parts:
            return whole
        _check_types(root, view)
        return False

    def _parts(self, value: Value) -> Value:
        (step, params), *_ = tracing.parting(len(value.shape))
        return self.add(step, [value], params, ((*value.shape, 2), np.dtype(value.dtype.char.lower())))[0]

    def _joined(self, value: Value) -> Value:
        step, params = tracing.pairing()
        return self.add(step, [value], params, (value.shape[:-1], np.dtype(value.dtype.char.upper())))[0]

    def value(self, x: Any) -> Value:
        return self.read(self.stand(x))

    def assign(self, target: Stand, source: Stand) -> None:
        """Write one array into another."""
        value = self._fitted(self.read(source), target.shape, target.dtype)
        memory = target.memory
        self.read(target)
        if self.scopes[-1] is not None:
            self.scopes[-1].check_write(memory)
        if _same_window(memory.root, target):
            memory.value = value
        else:
            root, view, before, new = memory.root, plain(target), memory.value, value
            if self._read_as_parts(root, view):
                view, new = tracing.parts_of(view), self._parts(value)
            elif root.dtype != view.dtype:
                root, before = tracing.parts_of(root), self._parts(before)
            step, params = tracing.replacing(root, view)
            after = self.add(step, [before, new], params, (root.shape, root.dtype))[0]
            memory.value = after if after.dtype == memory.root.dtype else self._joined(after)
        memory.version += 1
        target.value, target.version = value, memory.version

    def _fitted(self, value: Value, shape: Sequence[int], kind: np.dtype) -> Value:
        if value.dtype != kind:
            step, params = tracing.converting(kind)
            value = self.add(step, [value], params, (value.shape, kind))[0]
        if value.shape != tuple(shape):
            step, params = tracing.repeating(shape)
            value = self.add(step, [value], params, (shape, kind))[0]
        return value

    def add(self, op: Any, inputs: Sequence[Value], params: dict[str, Any], *kinds: Any) -> tuple[Value, ...]:
        """A node with its outputs."""
        return self.graph.add(op, inputs, params, user_line()).make(*kinds)

    # ----------------------------------------------------------------- what the engine asks of it
    def apply(self, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Add a primitive to the graph; its result is recorded on the tape as usual."""
        if self.ledger.entries:
            inputs = [self.ledger.tensor(x) if type(x) is Number else x for x in inputs]
            params = {name: plain_tree(param) for name, param in params.items()}
        if self.selections and not self.unseen:
            found = self.densely(primitive, inputs, params)
            if found is not None:
                return found
        if isinstance(primitive, View):
            return self._apply_view(primitive, inputs, params)
        if isinstance(primitive, Elementwise):
            return self._apply_elementwise(primitive, inputs, params)
        values = [self.value(x) if isinstance(x, Tensor) else self.graph.constant(np.asarray(x)) for x in inputs]
        kinds, many = results_of(primitive, values, params)
        outs = tuple(self.fresh(v) for v in self.add(primitive, values, params, *kinds))
        return primitive.record_many(outs, inputs, params) if many else primitive.record(outs[0], inputs, params)

    def _apply_view(self, primitive: View, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        (x,) = inputs
        stand = self.stand(x)
        value = self.read(stand)
        windows = primitive.reference(plain(stand), **params)
        many = windows.__class__ is tuple
        windows = windows if many else (windows,)
        values = self.add(primitive.pure or primitive, [value], params, *((w.shape, w.dtype) for w in windows))
        outs = []
        for window, value in zip(windows, values, strict=True):
            out = primitive._window(x, stand_in(window, stand.memory, value))
            if many:
                out._origin = "several"
            outs.append(out)
        return primitive.record_many(tuple(outs), inputs, params) if many else primitive.record(outs[0], inputs, params)

    def _apply_elementwise(self, primitive: Elementwise, inputs: Sequence[Any], params: dict[str, Any]) -> Tensor:
        alone = all("_fetch" in x.__dict__ for x in inputs if isinstance(x, Tensor))
        flags = [isinstance(x, Tensor) and "_fetch" in x.__dict__ and x.dtype is not bool_ for x in inputs]
        shown = inputs if alone else [_like(x) if flag else x for x, flag in zip(inputs, flags, strict=True)]
        kind, operands = primitive.operands(shown)
        if not alone:
            operands = [x.to(kind) if flag else o for x, o, flag in zip(inputs, operands, flags, strict=True)]
        stands = [self.stand(x) for x in operands if isinstance(x, Tensor)]
        try:
            shape = np.broadcast_shapes(*(s.shape for s in stands))
        except ValueError:
            raise broadcast_error(primitive.name, *(s.shape for s in stands)) from None
        values = [self.value(x) if isinstance(x, Tensor) else self.scalar(x, kind.np) for x in operands]
        widen = kind in LOW_PRECISION and not primitive.native_low
        if widen:
            wide = np.dtype(np.float32)
            values = [self._fitted(v, v.shape, wide) if v.dtype == kind.np else v for v in values]
        computed = result_dtype(primitive, [v.dtype for v in values], params)
        value = self.add(primitive, values, params, (shape, computed))[0]
        if kind is not None:
            value = self._fitted(value, shape, primitive.result_dtype(kind))
        out = self.fresh(value, strides_like(stands, shape, value.dtype, params))
        if alone:
            self._note_number(out, primitive, inputs, params)
        return primitive.record(out, operands, params)

    def write(self, target: Tensor, value: Tensor, name: str) -> Tensor:
        """Copy `value` into the memory of `target`."""
        if "_fetch" in target.__dict__:
            raise changed_option("a number")
        if self.selections and not self.unseen:
            found = self.write_densely(target, value, name)
            if found is not None:
                return found
        if self.scopes[-1] is not None:
            self.scopes[-1].check_write(self.stand(target).memory)
        target._check_writable(name)
        if value.dtype is not target.dtype and can_cast(value.dtype, target.dtype):
            value = value.to(target.dtype)
        return written(target, value, name, lambda target, value: self.assign(self.stand(target), self.stand(value)))

    def is_number(self, x: Any) -> bool:
        """Whether it is a Python number that is computed anew at every call."""
        return type(x) is Number

    def operand(self, x: Number) -> Tensor:
        """Such a number as a 0-d tensor."""
        return self.ledger.tensor(x)

    def filled(self, x: Tensor, number: Any) -> Tensor:
        stand = self.stand(x)
        if type(number) is Number:
            return self.fresh(self._fitted(self.value(self.ledger.tensor(number)), stand.shape, stand.dtype))
        return self.fresh(self._fitted(self.graph.constant(np.full((), number, stand.dtype)), stand.shape, stand.dtype))

    def copied(self, x: Tensor) -> Tensor:
        return self.fresh(self.value(x))

    def detached(self, x: Tensor) -> Tensor:
        out = new(Tensor)
        out.array = self.stand(x)
        if x._counter is None:
            x._counter = [0]
        out._counter = x._counter
        return out

    def renewed(self, x: Tensor) -> Tensor:
        """The value and history of x apart from its memory."""
        if self.selections and not self.unseen:
            found = self.renewed_selection(x)
            if found is not None:
                return found
        copy = self.fresh(self.value(x), np.empty_like(plain(self.stand(x))))
        copy.node, copy._needs_grad = x.node, x._needs_grad
        return copy

    def shown(self, x: Tensor) -> str:
        return f"Traced({self.value(x)})"

    def draw(self, name: str, sampler: str, source: Any, parameters: Sequence[Any], options: dict[str, Any]) -> Tensor:
        """Random numbers: a node that takes the same words of the stream at every call as eager code would."""
        tensors = [p for p in (*parameters, *options.values()) if isinstance(p, Tensor)]
        op, place, kind = self.streams.draw(name, sampler, source, parameters, options, self.stand)
        return self.fresh(self.add(op, [self.placed(place, name), *map(self.value, tensors)], {}, kind)[0])

    def placed(self, place: Place, name: str = "") -> Value:
        """The words of a place in a random stream."""
        op = Fetched(lambda: place.words, f"{name}: place in the stream")
        op.place = place
        return self.graph.source(op, place.words.shape, place.words.dtype)

    # --------------------------------------------------------------------------------- control flow
    def scan(self, *given: Any) -> tuple[list[Tensor], list[Tensor]]:
        return mapped.scan(self, *given)

    def cond(self, *given: Any) -> list[Tensor]:
        return mapped.cond(self, *given)

    def while_loop(self, *given: Any) -> list[Tensor]:
        return mapped.while_loop(self, *given)


_counting = fork_safe_lock()


def _count_traces(more: int) -> None:
    """How many threads trace: the doors ask that before they ask what stands over their own thread."""
    with _counting:
        switches.interpreting += more


_KEPT = ("_needs_grad", "_grad")  # what the stand-in of an argument has of it


def _like(number: Tensor) -> float:
    """A plain number of the same kind."""
    return 0.5 if number.is_floating_point() else 1


def _same_window(root: np.ndarray, view: np.ndarray) -> bool:
    address = lambda a: a.__array_interface__["data"][0]
    return (
        view.shape == root.shape
        and view.strides == root.strides
        and view.dtype == root.dtype
        and (not root.size or address(view) == address(root))
    )


def _check_types(root: np.ndarray, view: np.ndarray) -> None:
    if root.dtype != view.dtype:
        raise TraceError(
            f"compile: at {user_line()} memory of type {root.dtype} is read or written through a view of type "
            f"{view.dtype} after a write; .clone() the view first"
        )


def _is_uniform(array: np.ndarray) -> bool:
    """Whether all elements have the same bits."""
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1, array.itemsize)
    return bool((raw[-1] == raw[0]).all() and (raw == raw[0]).all())
