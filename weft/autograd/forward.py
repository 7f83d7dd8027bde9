"""Forward mode: while a function runs, every operation put on the tape is given the tangent of its output at once.

A node needs its inputs' tangents, what it saved for its gradient, and the rule of its kind (`Primitive.push`). When
nothing but forward mode wants it, it is then emptied: what remains does not grow with the depth of the function.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..tape import tape
from ..tape.adjoint import by_adjoint
from ..tape.modes import FORWARD, NEVER, mode, switches
from ..tape.node import Node
from ..tape.saved import PASS
from ..tape.tape import edge_of
from ..tensor import Tensor
from .batched import Level, entered, levels_of, lifted, live_levels, lowered

__all__ = ["Pass", "have_tangents", "no_tangents", "push_node", "wanted", "without"]


class Pass:
    """One running forward pass, `batch` being what its tangents vary over besides (the columns of a Jacobian).

    Tangents are kept by the nodes and leaves of the tape, not by tensors, so they follow in-place writes as histories do.
    """

    readable = False  # whether its tangents can be asked for before it ends

    def __init__(self, batch: Level | None = None) -> None:
        self.batch, self.holders, self.tensors = batch, [], []

    def __enter__(self) -> Pass:
        self.before = mode.grad, mode.forward
        mode.grad, mode.forward = mode.grad or FORWARD, (*mode.forward, self)
        switches.passes += 1
        switches.renew()
        return self

    def __exit__(self, *_: object) -> None:
        mode.grad, mode.forward = self.before
        switches.passes -= 1
        switches.renew()

    def close(self) -> None:
        """Forget all tangents, and give tensors that outlive the pass the place on the tape that they have without it."""
        for reference in self.holders:
            holder = reference()
            if holder is not None:
                holder._tangents.pop(self, None)
        for reference, node, needs_grad in reversed(self.tensors):
            tensor = reference()
            if tensor is not None:
                tensor.node, tensor._needs_grad = node, needs_grad
        self.holders, self.tensors = [], []

    def take(self, node: Node, out: Any) -> None:
        """What the tape calls of any of the running passes, for all of them, with each new node."""
        push_node(node, out)

    # ------------------------------------------------------------------------------------- tangents
    def of(self, tensor: Tensor) -> Tensor | None:
        """The tangent of a tensor (None: zero), batched as the tensor is."""
        found = self.at(edge_of(tensor)) if tensor.requires_grad else None
        if found is None:
            return None
        with entered(self.levels()):
            return lifted(levels_of(tensor), found)

    def start(self, tensors: Sequence[Tensor], tangents: Sequence[Tensor]) -> None:
        """Let the tensors, variables of this pass, have these tangents."""
        with entered(self.levels()):
            for x, t in zip(tensors, tangents, strict=True):
                edge = edge_of(x)
                edge._wanted = edge._wanted if isinstance(edge, Node) else NEVER
                self.keep(edge, lowered(levels_of(x), t))

    def levels(self) -> Sequence[Level]:
        """The vmaps that tangents are computed in, outermost first."""
        levels = {*live_levels()} if self.batch is None else {*live_levels(), self.batch}
        return sorted(levels, key=lambda level: level.level)

    def at(self, edge: Any) -> Any:
        while isinstance(edge, Node) and edge.op is PASS:
            (edge,) = edge.edges
        if isinstance(edge, Node) and edge.index is not None:
            found = self.at(edge.edges[0])
            return None if found is None else found[edge.index]
        known = edge._tangents
        return None if known is None else known.get(self)

    def keep(self, edge: Any, tangent: Any) -> None:
        known = edge._tangents
        if known is None:
            known = edge._tangents = {}
        known[self] = tangent
        if not (isinstance(edge, Node) and edge._wanted == NEVER):  # those die with the pass
            self.holders = _living(self.holders)
            self.holders.append(weakref.ref(edge))

    def move(self, leaf: Tensor, told: Tensor) -> None:
        """Give a leaf, which was written to, the tangent of what it holds now."""
        found = self.of(told)
        if found is not None:
            self.keep(leaf, found)
        elif leaf._tangents is not None:
            leaf._tangents.pop(self, None)

    def adopt(self, tensor: Tensor, node: Node | None, needs_grad: bool) -> None:
        """Note what place on the tape the tensor goes back to when the pass is over."""
        self.tensors = _living(self.tensors, lambda entry: entry[0])
        self.tensors.append((weakref.ref(tensor), node, needs_grad))


def _living(entries: list[Any], reference: Callable = lambda entry: entry) -> list[Any]:
    """The entries, at powers of two without the dead ones."""
    count = len(entries)
    if count < 64 or count & (count - 1):
        return entries
    return [entry for entry in entries if reference(entry)() is not None]


# ------------------------------------------------------------------------------------- at every node


def push_node(node: Node, out: Any) -> None:
    """The tangents of a new node's output(s) for every running pass, outermost first; then let it go if nobody else waits."""
    passes = mode.forward
    node._wanted = NEVER if mode.grad is FORWARD else min(map(wanted, node.edges), default=NEVER)
    rule = getattr(node.op, "push", None) or _push_any
    for number, running in enumerate(passes):
        given = [None if edge is None else running.at(edge) for edge in node.edges]
        if any(t is not None for t in given):
            with _computing(passes[:number], node, given, running):
                pushed = rule(node, out, given)
            if pushed is not None:
                running.keep(node, _in_types(pushed, out))
    if node._wanted == NEVER:
        for tensor in out if isinstance(out, tuple) else (out,):
            passes[0].adopt(tensor, None, False)
        _empty(node)


@contextlib.contextmanager
def _computing(passes: tuple[Pass, ...], node: Node, given: Sequence[Tensor | None], running: Pass) -> Iterator[None]:
    """Compute a tangent of a pass: recorded where sweeps from outside of it, or outer passes, need it, and nowhere else."""
    before = mode.grad, mode.forward, mode.saved_hooks
    since = [node._wanted, *(wanted(edge_of(t)) for t in given if t is not None and t.requires_grad)]
    recorded = mode.grad is True and min(since) < (NEVER if running.readable else len(passes) + 1)
    mode.grad = True if recorded else FORWARD if passes else False
    mode.forward, mode.saved_hooks = passes, None
    try:
        with entered(running.levels()):
            yield
    finally:
        mode.grad, mode.forward, mode.saved_hooks = before


def wanted(edge: Any) -> float:
    """How many forward passes were running when something was made by which gradients are wanted through this edge.

    The tangents of a pass are not seen inside of it, so variables made there want no gradients through them.
    """
    if edge is None:
        return NEVER
    if isinstance(edge, Node) and (edge.index is not None or edge.op is PASS):
        return wanted(edge.edges[0])
    return edge._wanted


def _in_types(pushed: Any, out: Any) -> Any:
    """Tangents in the types of what they are tangents of."""
    if isinstance(out, tuple):
        return [None if t is None else _in_types(t, o) for t, o in zip(pushed, out, strict=False)]
    return pushed if pushed.dtype is out.dtype else pushed.to(out.dtype)


class _Emptied:
    """The operation of a node that only carries tangents: no gradient goes beyond it."""

    def __init__(self, op: Any) -> None:
        self.title, self.node_name = op.title, getattr(op, "node_name", None)

    def pull(self, node: Node, g: Any, useful: Any = None) -> tuple[Any, ...]:
        return ()


def _empty(node: Node) -> None:
    node.op, node.params, node.edges, node.saved = _Emptied(node.op), {}, (), ()
    node.versions = node.output = node.output_counter = None
    node.keeps = False


def have_tangents(roots: Sequence[Any]) -> bool:
    """Whether what these edges lead to takes part in a running forward pass."""
    known = [edge._tangents for edge in tape.collect(roots) if edge._tangents]
    return any(running in tangents for tangents in known for running in mode.forward)


def _push_any(node: Node, out: Any, tangents: Sequence[Tensor | None]) -> Any:
    """For operations of the tape that are no primitives: loops and branches of compiled code."""
    useful = [t is not None for t in tangents]
    return by_adjoint(lambda u: node.op.pull(node, u, useful), out, tangents)


@contextlib.contextmanager
def without(*resting: Pass) -> Iterator[None]:
    """Within it these passes rest."""
    before = mode.forward
    mode.forward = tuple(running for running in before if running not in resting)
    try:
        yield
    finally:
        mode.forward = before


@contextlib.contextmanager
def no_tangents() -> Iterator[None]:
    """Within it all passes rest, and what they would have recorded for themselves is recorded for gradients."""
    before, mode.grad = mode.grad, bool(mode.grad)
    try:
        with without(*mode.forward):
            yield
    finally:
        mode.grad = before
