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

from ...dtypes import bool_
from ...errors import ShapeError, TraceError
from ...ops.core.primitive import Primitive
from ...tensor import Tensor, wrap
from ..graph.graph import Fetched
from .arrays import no_values, user_line
from .effects import Guard

__all__ = ["Numbers", "changed_option"]

LARGEST = 1 << 16  # elements of a tensor that Python may look at


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
        return self.live(fetch, float, label)

    def live(self, fetch: Callable[[], float], kind: type, label: str = "a number") -> Tensor:
        """A number that Python gives at every call, as a 0-d tensor."""
        out = self.fresh(self.graph.source(Fetched(fetch, label), (), np.int64 if kind is int else np.float64))
        out.__dict__["_fetch"] = fetch
        return out

    def groups_of(self, optimizer: Any) -> list[Options]:
        """The parameter groups of an optimiser; the trace holds while they have the same parameters."""
        groups = optimizer.__dict__["param_groups"]
        if optimizer._has_own_step():
            return groups  # their numbers are among the places that are carried
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
        return self.marked(out if out is not x else self.detached(x))

    def number_of(self, x: Tensor) -> Tensor:
        """The one element of a tensor, counting as a Python number."""
        x = x.detach().reshape(())
        whole = not (x.is_floating_point() or x.is_complex())
        return self.marked(x.long()) if whole else self.as_number(x)

    def marked(self, x: Tensor) -> Tensor:
        x.__dict__.setdefault("_fetch", None)
        return x

    def _note_number(self, out: Tensor, primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any]) -> None:
        """A number computed from numbers is one, too; its present value is known if theirs are."""
        fetches = [x.__dict__["_fetch"] if isinstance(x, Tensor) else (lambda x=x: x) for x in inputs]
        known = all(f is not None for f in fetches)
        compute = lambda: primitive.reference(*(np.float64(f()) for f in fetches), **params).item()
        out.__dict__["_fetch"] = compute if known else None

    def concrete(self, x: Tensor, what: str, convert: Callable[[Any], Any]) -> Any:
        """What Python makes of a tensor with one element; the plan holds as long as it stays so."""
        if self.knows(x.__dict__["array"]):
            with self.paused():
                return convert(x)
        fetch = x.__dict__.get("_fetch")
        if fetch is None:
            return self.ledger.decide(self.ledger.apply(convert, (self.item(x, what),)))
        guard = Guard(lambda: convert(fetch()))
        self.journal.guards.append(guard)
        return guard.found

    def item(self, x: Tensor, what: str = ".item()") -> Any:
        """The element of a tensor as a number that Python goes on computing with."""
        if self.knows(x.__dict__["array"]):
            with self.paused():
                return x.item()
        fetch = x.__dict__.get("_fetch")
        if fetch is not None:
            return self.ledger.fetched(fetch)
        if x.numel() != 1:
            raise ShapeError(f"a Tensor with {x.numel()} elements cannot be converted to Scalar: {what}")
        self._check_break(what)
        kind = bool if x.dtype is bool_ else int if not (x.is_floating_point() or x.is_complex()) else float
        kind = complex if x.is_complex() else kind
        return self.ledger.item(x, self.value(x), kind)

    def contents(self, x: Tensor, what: str) -> np.ndarray:
        """All elements of a tensor; the plan holds as long as they stay so."""
        array = x.__dict__["array"]
        if self.knows(array):
            return array
        if x.numel() > LARGEST:
            raise no_values(f"{what} of {x.numel():,} elements")
        self._check_break(what)
        return self.ledger.array(self.value(x))

    def _check_break(self, what: str) -> None:
        """Values are there while the function itself is traced, not inside of loops and branches."""
        if self.scopes[-1] is not None or self.probe is None:
            raise no_values(what)


def _is_zero(number: float) -> bool:
    return number == 0
