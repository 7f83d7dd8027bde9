"""`weft.compile`: a function that is traced once for each signature and then runs as a plan."""

from __future__ import annotations

import collections
import copy
import functools
import sys
import warnings
from collections.abc import Callable, Collection, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..autograd.batched import live_levels
from ..dtypes import get_default_dtype
from ..errors import ArgumentError, InvalidValueError, OptionError, TraceError
from ..runtime.locks import fork_safe_lock, held_by_me
from ..runtime.notices import announced
from ..runtime.threads import get_num_threads
from ..tape.modes import mode
from ..tensor import Tensor, wrap
from ..utils.pytree import tree_flatten, tree_unflatten
from .graph.graph import Graph
from .graph.reference import HostPlan
from .outside import Pull
from .passes.gradients import OldGradients
from .pipeline import OPTIONAL, build_plan
from .policy import POLICIES, Policy
from .program import ARGUMENT, COPY, NUMBER, OBJECT, OUTPUT, TREE, Program, Result
from .trace import trace
from .tracing.places import Place
from .tracing.state import TRANSITIONS, Carried, Unsettled

if TYPE_CHECKING:
    from .show.explain import Explanation, Profile

__all__ = ["ELSEWHERE", "Bound", "Compiled", "compile", "signature"]

PLANS = 32  # kept for one function
BRANCHES = 24  # for one signature; more of them, and it runs as Python
IN_VAIN = 8  # plans made one after the other for one signature, none of them used again
BACKENDS = {
    **dict.fromkeys(("native", "inductor", "cudagraphs", "onnxrt", "openxla", "tvm"), build_plan),
    **dict.fromkeys(("host", "eager", "aot_eager"), HostPlan),
}
MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
ELSEWHERE: Any = object()  # Python would decide otherwise than this plan


class Compiled:
    """A compiled function or module. Attributes of the original are found here, too."""

    def __init__(
        self,
        function: Callable,
        policy: Policy,
        threads: int | None = None,
        without: Collection[str] = (),
        build: Any = build_plan,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function, self.policy, self.threads, self.without = function, policy, threads, without
        self.build = build
        self.plans: dict[Any, list[Bound]] = {}
        self.eager: set[Any] = set()
        self.branches: dict[Any, int] = {}  # how many plans a signature has needed
        self.carried = Carried()
        self.lock = fork_safe_lock()  # threads that come with the same signature wait for one plan

    def __reduce__(self) -> Any:
        """Plans stay behind: a copy makes its own. A function that was compiled by a decorator goes by its name."""
        name = getattr(self, "__qualname__", "")
        if getattr(sys.modules.get(self.__module__), name, None) is self:
            return name
        return Compiled, (self.function, self.policy, self.threads, self.without, self.build)

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        return Compiled(copy.deepcopy(self.function, memo), self.policy, self.threads, self.without, self.build)

    def __getattr__(self, name: str) -> Any:
        if name == "function":
            raise AttributeError(name)
        return getattr(self.function, name)

    def __getitem__(self, key: Any) -> Any:
        return self.function[key]

    def __len__(self) -> int:
        return len(self.function)

    def __iter__(self) -> Any:
        return iter(self.function)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"compiled({self.function!r})"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if mode.interpreter is not None or mode.forward or live_levels():
            return self.function(*args, **kwargs)
        key, leaves, tensors, spec = signature(args, kwargs)
        bound = self._found(key, tensors)
        if bound is not None:
            if held_by_me(bound.lock):  # a signal handler in the middle of a call: the plan's buffers are in use
                return self.function(*args, **kwargs)
            result = bound.run(tensors)
            if result is not ELSEWHERE:
                return result
        if key in self.eager:
            return self.function(*args, **kwargs)
        run, reason = lambda: self.function(*args, **kwargs), self.policy.stops(self)
        if reason is not None:
            return self.policy.uncompiled(self, key, reason, run)
        try:
            result = self._bind_and_run(key, leaves, tensors, spec)
        except self.policy.takes as error:
            return self.policy.uncompiled(self, key, error, run)
        self.policy.made(self)
        return result

    def decisions(self) -> set[str]:
        """The lines at which Python decides by the values of tensors: there is a plan for each way."""
        return {line for bounds in self.plans.values() for bound in bounds for line in bound.program.decisions()}

    def host_work(self) -> dict[str, int]:
        """What Python computes at each call beside native code: operations by name, and how often, at most."""
        found: dict[str, int] = {}
        for bound in (bound for bounds in self.plans.values() for bound in bounds):
            for name, count in bound.host_work().items():
                found[name] = max(found.get(name, 0), count)
        return found

    def _bind_and_run(self, key: Any, leaves: Sequence[Any], tensors: Sequence[Tensor], spec: Any) -> Any:
        """A call for which the plan found first is not the right one, or there is none."""
        if key in self.eager:
            return self._as_python(leaves, spec)
        with self.lock:
            for bound in self.plans.get(key, ()):
                if bound.holds(tensors) and (result := bound.run(tensors)) is not ELSEWHERE:
                    return result
            if self.branches.get(key, 0) >= BRANCHES or self._were_in_vain(key):
                self._give_up(key)
                return self._as_python(leaves, spec)
            try:
                bound = self._bind(key, leaves, spec)
            except Unsettled as unsettled:
                return self._settle(str(unsettled), leaves, spec)
            self.carried.transitions = 0
            result = bound.run(tensors)
            return self._as_python(leaves, spec) if result is ELSEWHERE else result

    def _settle(self, name: str, leaves: Sequence[Any], spec: Any) -> Any:
        """Let Python make what later calls find."""
        self.carried.transitions += 1
        if self.carried.transitions > TRANSITIONS:
            raise TraceError(
                f"compile: {name} gets new entries, or content of another kind, at every call, which a plan cannot do; "
                "return the value and keep it outside, or pass fallback='eager' to weft.compile"
            )
        return self._as_python(leaves, spec)

    def _as_python(self, leaves: Sequence[Any], spec: Any) -> Any:
        args, kwargs = (leaves, {}) if spec is None else tree_unflatten(leaves, spec)
        return self.function(*args, **kwargs)

    def _were_in_vain(self, key: Any) -> bool:
        newest = self.plans.get(key, ())[:IN_VAIN]
        return len(newest) == IN_VAIN and all(bound.runs == 1 for bound in newest)

    def _give_up(self, key: Any) -> None:
        """Python decides by values that are new at every call."""
        lines = sorted({line for bound in self.plans.get(key, ()) for line in bound.program.decisions()})
        where = f" at {', '.join(lines)}" if lines else ""
        warnings.warn(
            f"compile: {getattr(self.function, '__name__', self.function)} needs ever new plans for one signature, because "
            f"Python decides by values that differ from call to call{where}; it runs uncompiled from now on",
            stacklevel=4,
        )
        self.eager.add(key)

    def _found(self, key: Any, tensors: Sequence[Tensor]) -> Bound | None:
        for bound in self.plans.get(key, ()):
            if bound.holds(tensors):
                return bound
        return None

    @announced
    def _bind(self, key: Any, leaves: Sequence[Any], spec: Any) -> Bound:
        for bound in self.plans.get(key, ()):
            bound.program.note_variations(self.carried)
        program = trace(self.function, leaves, spec, carried=self.carried)
        program.kept = [x for x in leaves if not isinstance(x, Tensor)]
        build, threads, without = self.build, self.threads, self.without  # not self: it would hold on to itself
        if program.first is not None:  # a rank that Python takes another way runs as Python before the others do
            without = {*without, "ranks"}
        bound = Bound(program, lambda graph: build(graph, threads, without))
        self.plans.setdefault(key, []).insert(0, bound)
        self.branches[key] = self.branches.get(key, 0) + 1
        self._forget_oldest()
        return bound

    def _forget_oldest(self) -> None:
        if sum(map(len, self.plans.values())) <= PLANS:
            return
        oldest = next(iter(self.plans))
        self.plans[oldest].pop()
        if not self.plans[oldest]:
            del self.plans[oldest]
        warnings.warn(
            f"compile: more than {PLANS} plans for {getattr(self.function, '__name__', self.function)}; the oldest is "
            "dropped. Python numbers and sizes that change from call to call each make a plan: pass numbers as "
            "tensors, pad sizes",
            stacklevel=4,
        )

    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph of a call with these arguments; nothing is run."""
        _, leaves, _, spec = signature(args, kwargs)
        return self._looked_at(leaves, spec).graph

    def _looked_at(self, leaves: Sequence[Any], spec: Any) -> Program:
        try:
            return trace(self.function, leaves, spec, to_look=True, carried=self.carried)
        except Unsettled as unsettled:
            raise TraceError(f"compile: the first call makes {unsettled}; call the function once, then look") from None

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """How a call with these arguments is compiled: graph, passes, kernels with work and times, memory. Print it.

        Nothing outside changes: what the timed runs write is put back.
        """
        from .show.explain import explain

        _, leaves, tensors, spec = signature(args, kwargs)
        program = self._looked_at(leaves, spec)
        notes = program.notes(self.carried)
        return explain(program.graph, [x.array for x in tensors], self.threads, self.without, notes)

    def profile(self, *args: Any, **kwargs: Any) -> Profile:
        """The times of all kernels of such a call, against what this machine can do at best. Print it."""
        return self.explain(*args, **kwargs).profile


class Bound:
    """A program with its plan, ready to run."""

    def __init__(self, program: Program, build: Callable[[Graph], Any]) -> None:
        self.program, self.plan = program, build(program.graph)
        first = program.first
        self.first = None if first is None else HostPlan(first.graph) if first.is_small else build(first.graph)
        self.pull = None if program.backward is None else Pull(program.backward, build)
        self.alone = program.spec.kind is None
        self.lock = fork_safe_lock()  # a plan has one set of buffers
        self.runs = 0
        self._find_counters()
        self.cleared, self.stores = [], []  # what is set to None is told apart: gradients, mostly
        for table, key, result in program.stores:
            if table.__class__ is dict and result[0] is OBJECT and result[1] is None:
                self.cleared.append((table, key))
            else:
                self.stores.append((table, key, result))
        made = [(table, number) for table, key, (kind, number) in self.stores if key == "_grad" and kind is OUTPUT]
        self.old = OldGradients([place for place in made if place[0].__class__ is dict], self.plan)

    def holds(self, tensors: Sequence[Tensor]) -> bool:
        """Whether the plan fits the surroundings; tensors that were replaced by like ones are followed."""
        if self.program.holds(tensors):
            return True
        with self.lock:
            if not self.program.follows(tensors):
                return False
            self.plan.rebind()
            if self.first is not None:
                self.first.rebind()
            self._find_counters()
        return True

    def host_work(self) -> collections.Counter[str]:
        """What Python computes at each run, by name."""
        return self.plan.host_work() if self.first is None else self.plan.host_work() + self.first.host_work()

    def _find_counters(self) -> None:
        """Of tensors that an eager graph may have saved."""
        counters = {}
        for x in self.program.changed:
            if x._counter is None:
                x._counter = [0]
            counters[id(x._counter)] = x._counter
        self.counters = list(counters.values())

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """What the function returns; ELSEWHERE: Python would have decided otherwise, and nothing has changed."""
        program = self.program
        with self.lock:
            arrays, moved = [x.array for x in tensors], [stream.advance() for stream in program.streams]
            held: list[Any] = []
            try:
                more = [] if self.first is None else self._decided(arrays)
                if more is not None:
                    memory, held = self.old.take()
                    outputs = self.plan.run(arrays + more, memory)
            except BaseException:
                self._go_back(moved)
                self.old.put_back(held)
                raise
            del held
            if more is None:
                self._go_back(moved)
                return ELSEWHERE
            self.runs += 1
        for counter in self.counters:
            counter[0] += 1
        for position, number in program.written:
            np.copyto(tensors[position].array, outputs[number])
            tensors[position]._bump()
        made = [wrap(a) for a in outputs[: program.count]]
        ledger = program.ledger
        if ledger is not None:
            ledger.continues({k: outputs[number].item() for k, number in program.items})
        results = [_content(r, made, tensors, ledger) for r in program.results]
        if self.pull is not None:
            recorded = [results[k] for k in program.backward.results]
            self.pull.record(recorded, tensors, [outputs[k] for k in program.saved])
        for table, key in self.cleared:
            table[key] = None
        for table, key, result in self.stores:
            if table.__class__ is Place:
                table.put(_content(result, made, tensors, ledger))
            else:
                table = tensors[table].__dict__ if table.__class__ is int else table
                table[key] = _content(result, made, tensors, ledger)
        for call, given, spec in program.effects:
            values, options = tree_unflatten([_content(r, made, tensors, ledger) for r in given], spec)
            call(*values, **options)
        return results[0] if self.alone else tree_unflatten(results, program.spec)

    def _go_back(self, moved: list[Any]) -> None:
        """The call did not happen: random streams are where they were."""
        for stream, before in zip(self.program.streams, moved, strict=True):
            stream.go_back(before)

    def _decided(self, arrays: list[np.ndarray]) -> list[np.ndarray] | None:
        """Run the part before Python's decisions: what the rest goes on with, or None for another decision."""
        program, first = self.program, self.program.first
        program.ledger.forget()
        found = self.first.run(arrays)
        items = {
            k: a if program.ledger.entries[k].kind is np.ndarray else a.item()
            for k, a in zip(program.asked, found, strict=False)
        }
        return found[first.asked :] if program.ledger.continues(items) else None


def _content(result: Result, made: Sequence[Tensor], tensors: Sequence[Tensor], ledger: Any) -> Any:
    kind, what = result
    if kind is OUTPUT:
        return made[what]
    if kind is NUMBER:
        return ledger.values[what]
    if kind is TREE:
        spec, results = what
        return tree_unflatten([_content(r, made, tensors, ledger) for r in results], spec)
    return made[what].detach().clone() if kind is COPY else tensors[what] if kind is ARGUMENT else what


def signature(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Any], list[Tensor], Any]:
    """What a plan depends on, the leaves of the arguments, the tensors among them, and their containers (None: the
    arguments are themselves the leaves)."""
    leaves, spec, tensors = args, None, []
    if kwargs or not _PLAIN.issuperset(map(type, args)):
        leaves, spec = tree_flatten((args, kwargs))
    key = [mode.grad, mode.inference, mode.casting, get_default_dtype(), get_num_threads(), spec]
    for x in leaves:
        if isinstance(x, Tensor):
            a = x.array
            key.append((a.shape, a.dtype, a.strides, x._needs_grad, x.__class__))
            tensors.append(x)
        else:
            key.append(_constant(x))
    return tuple(key), leaves, tensors, spec


_PLAIN = frozenset({Tensor, int, float, bool, str, NoneType})


def _constant(x: Any) -> Any:
    """An argument that is no tensor, as a part of the signature."""
    if isinstance(x, np.ndarray):
        raise TraceError("compile: NumPy arrays among the arguments are not followed; pass weft.from_numpy(array)")
    try:
        hash(x)
    except TypeError:
        return id(x)
    return x.__class__, x


def compile(
    fn: Callable | None = None,
    *,
    fallback: str = "error",
    threads: int | None = None,
    without: Collection[str] = (),
    backend: str = "native",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Callable:
    """`fn` (a function, method or module) compiled: as a call, or as a decorator.

    The first call with a signature (sizes, types and layouts of tensors, Python values, modes) traces the function;
    later calls run the plan. Tensors from outside (parameters, buffers, optimiser state) are read and written in
    place. `fallback='eager'` runs what cannot be traced uncompiled, after one warning. `without` names passes to leave
    out; `backend='host'` runs the graph with NumPy, node by node.

    PyTorch's arguments are taken: `fullgraph=True` is `fallback='error'`; its back ends that compile ('inductor', …) mean
    'native', 'eager' and 'aot_eager' mean 'host'; `mode`, `dynamic` and `options` change nothing, because there is one
    way to compile and a plan for each size; `disable=True` gives `fn` itself.
    """
    if fn is None:
        given = dict(fallback=fallback, threads=threads, without=without, backend=backend, fullgraph=fullgraph)
        return lambda fn: compile(fn, **given, dynamic=dynamic, mode=mode, options=options, disable=disable)
    if not callable(fn):
        raise ArgumentError(f"compile: expected a function, method or module, got {type(fn).__name__} {fn!r}")
    if fallback not in POLICIES:
        raise InvalidValueError(f"compile: fallback must be 'error' or 'eager', got {fallback!r}")
    if isinstance(without, str) or not set(without) <= OPTIONAL:
        raise OptionError(f"compile: without takes names of {sorted(OPTIONAL)}, got {without!r}")
    if mode not in MODES:
        raise OptionError(f"compile: mode must be one of {MODES}, got {mode!r}")
    if callable(backend) or backend not in BACKENDS:
        raise OptionError(f"compile: backend must be 'native', 'host' or a name of PyTorch's, got {backend!r}")
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise OptionError(f"compile: threads must be a positive number or None, got {threads!r}")
    policy = POLICIES["error" if fullgraph else fallback]
    return fn if disable else Compiled(fn, policy, threads, without, BACKENDS[backend])
