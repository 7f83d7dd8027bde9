"""What all ranks of a group compute together, as operations: with gradients, and as steps of a compiled plan.

Eagerly a call is made at once. In a plan it is a step between native parts. There each call reads and writes the group's
*token*, a small tensor, so that calls come in the order of the program on every rank, and none is left out, computed
once for two, or computed when the plan is made. `start` and `wait` are the two halves of a call: the plan starts it as soon as
what it sends is there, computes on, and waits when nothing else is left to do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...runtime.cluster import exchange as arrays
from ...runtime.cluster.group import Group, courier
from ...tape.modes import mode, no_grad
from ...tensor import Tensor, wrap
from ..core.primitive import Opaque
from ..create.create import zeros_like
from ..shape.reshape import reshape

__all__ = ["CALLS", "Started", "exchanged", "started"]

INTEGER = np.dtype(np.int64)


@dataclass(frozen=True)
class Call:
    """One kind of exchange: the shape of its result, what moves the arrays, and its gradient."""

    shape: Callable[[tuple[int, ...], int], tuple[int, ...]]
    run: Callable[[Group, np.ndarray, Any], np.ndarray]
    back: Callable[[Tensor, Group, Any], Tensor]


def _to_all(g: Tensor, group: Group, option: Any) -> Tensor:
    """Of a sum: the sum of what came from all ranks; of a mean, its mean."""
    if option not in ("sum", "avg"):
        raise NotImplementedError
    return exchanged(g, "all_reduce", group, option)


def _to_source(g: Tensor, group: Group, source: int) -> Tensor:
    total = exchanged(g, "all_reduce", group, "sum")
    return total if group.rank == source else zeros_like(total)


def _swapped(group: Group, rows: np.ndarray, option: Any) -> np.ndarray:
    taken = np.empty_like(rows, order="C")
    arrays.all_to_all(group, list(rows), list(taken))
    return taken


CALLS = {
    "all_reduce": Call(lambda shape, size: shape, arrays.all_reduce, _to_all),
    "broadcast": Call(lambda shape, size: shape, arrays.broadcast, _to_source),
    "all_gather": Call(
        lambda shape, size: (size, *shape),
        lambda group, array, option: arrays.all_gather(group, array),
        lambda g, group, option: exchanged(g, "reduce_scatter", group, option or "sum"),
    ),
    "reduce_scatter": Call(
        lambda shape, size: shape[1:],
        arrays.reduce_scatter,
        lambda g, group, op: exchanged(g / group.size if op == "avg" else g, "all_gather", group),
    ),
    "all_to_all": Call(lambda shape, size: shape, _swapped, lambda g, group, option: exchanged(g, "all_to_all", group)),
}


class Collective(Opaque, abstract=True):
    """A call that other processes make as well: it is computed where it stands, once, whatever its size."""

    shared = True
    low_precision = True

    def evaluate(self, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        result = self.reference(*(x.array for x in inputs), **params)
        if result.__class__ is tuple:
            return self.record_many(tuple(wrap(r) for r in result), inputs, params)
        return self.record(wrap(result), inputs, params)


class Exchange(Collective):
    """(x, token) → (y, token): one whole call."""

    reads = "shapes"

    def reference(self, x, token, *, call, group, option):
        return courier.run(lambda: CALLS[call].run(group, x, option)), token + 1

    def shapes(self, x, token, *, call, group, option):
        return (CALLS[call].shape(x.shape, group.size), x.dtype), (token.shape, token.dtype)

    def vjp(self, g, y, x, token, *, call, group, option):
        return CALLS[call].back(g[0], group, option), None


class StartExchange(Collective):
    """(x, token) → (ticket, token): the first half of a call, which goes on in a thread of its own. x must stay."""

    urgent, differentiable = True, False

    def reference(self, x, token, *, call, group, option):
        return _hold(courier.start(lambda: CALLS[call].run(group, x, option))), token + 1

    def shapes(self, x, token, *, call, group, option):
        return ((), INTEGER), (token.shape, token.dtype)


class WaitExchange(Collective):
    """(x, ticket) → y: the second half; x is what was sent."""

    differentiable = False

    def reference(self, x, ticket, *, call, group):
        return _under_way.pop(int(ticket)).result()

    def shapes(self, x, ticket, *, call, group):
        return CALLS[call].shape(x.shape, group.size), x.dtype


EXCHANGE, START, WAIT = Exchange(), StartExchange(), WaitExchange()
_under_way: dict[int, Future] = {}
_tickets = itertools.count(1)


def _hold(future: Future) -> np.ndarray:
    ticket = next(_tickets)
    _under_way[ticket] = future
    return np.array(ticket, INTEGER)


def _with_token(primitive: Collective, x: Tensor, group: Group, call: str, option: Any) -> Tensor:
    if group.token is None:
        group.token = wrap(np.zeros(1, INTEGER))
    found, token = primitive(x, group.token, call=call, group=group, option=option)
    if mode.interpreter is not None:
        with no_grad():
            group.token.copy_(token)
    return found


def exchanged(x: Tensor, call: str, group: Group, option: Any = None) -> Tensor:
    """What a call of all ranks gives for x; in a group of one, x itself (with a first dimension of 1, or without it)."""
    if group.size == 1:
        return reshape(x, CALLS[call].shape(tuple(x.shape), 1))
    return _with_token(EXCHANGE, x, group, call, option)


class Started:
    """A call under way; `wait` gives its result."""

    def __init__(self, x: Tensor, ticket: Tensor | None, call: str, group: Group) -> None:
        self.x, self.ticket, self.call, self.group = x, ticket, call, group

    def wait(self) -> Tensor:
        if self.ticket is None:
            return reshape(self.x, CALLS[self.call].shape(tuple(self.x.shape), 1))
        return WAIT(self.x, self.ticket, call=self.call, group=self.group)

    def is_completed(self) -> bool:
        return self.ticket is None or _under_way[int(self.ticket)].done()


def started(x: Tensor, call: str, group: Group, option: Any = None) -> Started:
    """The first half of a call; nothing is recorded on the tape."""
    if group.size == 1:
        return Started(x, None, call, group)
    with no_grad():
        x = x.detach().contiguous()
        return Started(x, _with_token(START, x, group, call, option), call, group)
