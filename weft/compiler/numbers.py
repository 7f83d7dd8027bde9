"""Numbers that Python gives at every call: learning rates and the other options of optimisers.

In a trace such a number is a 0-d float64 tensor that counts as a Python number in type promotion, so that the arithmetic
is that of eager code. It knows its present value: where Python decides by it, the trace holds as long as the decision
stays the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import TraceError
from ..ops.primitive import Primitive
from ..tensor import Tensor, wrap
from .effects import Guard
from .graph import Fetched
from .traced import no_values, user_line


class Options(dict):
    """A parameter group during a trace."""

    def __init__(self, real: dict[str, Any]) -> None:
        super().__init__(real)
        self.real = real

    def __setitem__(self, key: str, value: Any) -> None:
        raise changed_option(repr(key))


def changed_option(what: str) -> TraceError:
    return TraceError(
        f"compile: at {user_line()} an option of an optimizer ({what}) is changed inside the compiled function, which "
        "Python would do only once; call scheduler.step() outside"
    )


class Numbers:
    """The part of a tracer that knows them."""

    def __init__(self) -> None:
        self.groups: dict[int, Options] = {}  # parameter groups, by identity
        self.optimizers: dict[int, Any] = {}  # their states, by identity

    def number(self, fetch: Callable[[], float], label: str) -> Any:
        """A number read anew at every call. 0 stays 0, because formulas leave out what is multiplied by it."""
        if fetch() == 0:
            return 0.0
        out = self.fresh(self.graph.source(Fetched(fetch, label), (), np.float64))
        out.__dict__["_fetch"] = fetch
        return out

    def groups_of(self, optimizer: Any) -> list[Options]:
        """The parameter groups of an optimiser; the trace holds while they have the same parameters."""
        groups = optimizer.__dict__["param_groups"]
        if any(id(group) not in self.groups for group in groups):
            look = lambda: [(id(group), len(group["params"])) for group in optimizer.__dict__["param_groups"]]
            self.journal.guards.append(Guard(look))
        return [self.options(group) for group in groups]

    def options(self, group: dict[str, Any]) -> Options:
        """A parameter group whose floats are read anew at every call; the rest must stay as it is."""
        if id(group) in self.groups:
            return self.groups[id(group)]
        found, kinds = self.groups.setdefault(id(group), Options(group)), []
        for key, content in group.items():
            if isinstance(content, float):
                dict.__setitem__(found, key, self.number(lambda key=key: group[key], key))
                kinds.append((key, _is_zero))
            elif isinstance(content, tuple) and all(isinstance(c, float) for c in content):
                fetches = [lambda key=key, k=k: group[key][k] for k in range(len(content))]
                dict.__setitem__(found, key, tuple(self.number(f, f"{key}[{k}]") for k, f in enumerate(fetches)))
                kinds.append((key, lambda numbers: [_is_zero(n) for n in numbers]))
            elif key not in ("params", "param_names") and not isinstance(content, Tensor):
                kinds.append((key, lambda content: content))
        if kinds:
            look = lambda: [(type(group[key]), kind(group[key])) for key, kind in kinds]
            quick = operator.itemgetter(*(key for key, _ in kinds))
            self.journal.guards.append(Guard(look, lambda: quick(group)))
        return found

    def optimizer_state(self, optimizer: Any, parameter: Tensor, group: Options) -> dict[str, Any]:
        """The state of a parameter, started for real where there is none."""
        if id(optimizer) not in self.optimizers:
            self.optimizers[id(optimizer)] = optimizer.state
            self.journal.guards.append(Guard(lambda kept=optimizer.state: optimizer.state is kept))
        state = optimizer.state.get(parameter)
        if not state:
            with self.paused():
                state = optimizer._start(parameter, group.real)
            if state:
                optimizer.state[parameter] = state
                self.journal.undo.append(lambda: optimizer.state.pop(parameter, None))
        self.journal.note_read(optimizer.state, parameter)
        self.journal.note_table(state)
        for key, content in state.items():
            if content is None:  # a part of the state that the first step makes
                self.journal.note_read(state, key)
        return state

    def zeros(self, like: Tensor) -> Tensor:
        """Real zeros, for a state that starts with them."""
        shape, kind = tuple(like.shape), like.dtype.np
        with self.paused():
            return wrap(np.zeros(shape, kind))

    def as_number(self, x: Tensor) -> Tensor:
        """A 0-d tensor that counts as a Python number."""
        out = x.double()
        out = out if out is not x else self.detached(x)
        out.__dict__["_fetch"] = None
        return out

    def _note_number(self, out: Tensor, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> None:
        """A number computed from numbers is one, too; its present value is known if theirs are."""
        fetches = [x.__dict__["_fetch"] if isinstance(x, Tensor) else (lambda x=x: x) for x in inputs]
        known = all(f is not None for f in fetches)
        compute = lambda: primitive.reference(*(np.float64(f()) for f in fetches), **params).item()
        out.__dict__["_fetch"] = compute if known else None

    def concrete(self, x: Tensor, what: str, convert: Callable[[Any], Any]) -> Any:
        """What Python makes of a number that it gives itself; the plan holds as long as it stays so."""
        fetch = x.__dict__.get("_fetch")
        if fetch is None:
            raise no_values(what)
        guard = Guard(lambda: convert(fetch()))
        self.journal.guards.append(guard)
        return guard.found


def _is_zero(number: float) -> bool:
    return number == 0
