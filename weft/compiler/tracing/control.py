"""Tracing loops and branches: a body is traced once, cut out of the graph and put into the node that runs it.

A body reads tensors of the surrounding code as operands of its node. Where gradients may be asked for, the way back
through one iteration is traced along with it: the loop then stacks what that needs, and its gradient is a loop in the
other direction. On the tape a loop is one node; its edges lead to the first carried values, to the scanned tensors and
to everything else of the surrounding tape that the body's own tape ends at.

Where the gradient itself is recorded, it is written with the public functions instead, and computes the body again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...autograd.batched import entered
from ...errors import AutogradError, TraceError
from ...ops.core import control as functions
from ...ops.core.batching import zeros_of
from ...ops.core.formula import Meta
from ...tape.modes import enable_grad, mode, no_grad
from ...tape.node import Node as TapeNode
from ...tape.node import counter
from ...tensor import Tensor, wrap
from ..graph.bodies import Branch, Loop, While
from ..graph.graph import Argument, Graph, Node, Value
from .arrays import user_line
from .scope import (
    NoWayBack,
    Part,
    Scope,
    batches_of,
    differentiable,
    edge_if_needed,
    filled,
    history,
    partials,
    recorded,
)

__all__ = ["cond", "scan", "while_loop"]

# ----------------------------------------------------------------------------------------------- scan


def scan(
    tracer: Any, name: str, step: Callable, init: list[Tensor], xs: list[Tensor], length: int, reverse: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """The loop of `weft.scan` as one node: the last carry and the stacks, as tensors."""
    first, stacks = [tracer.value(x) for x in init], [tracer.value(x) for x in xs]
    with Scope(tracer, name) as scope:
        carried = [scope.argument(v.shape, v.dtype, mode.grad) for v in first]
        scanned = [
            scope.argument(v.shape[1:], v.dtype, mode.grad and x._needs_grad) for v, x in zip(stacks, xs, strict=True)
        ]
        after, ys = step(carried, scanned)
        outs = [*after, *ys]
        values = [tracer.value(x) for x in outs]
        middle = len(tracer.graph.nodes)
        way = _Way(scope, init, xs, carried, scanned, after, ys) if mode.grad and length else None
        back, refused = None, False
        if way is not None and way.any:
            try:
                back = way.trace(tracer, scope)
            except NoWayBack:
                refused = True
        ahead = {id(node) for node in tracer.graph.nodes[scope.mark : middle]}
        places = scope.repeat_draws(length, reverse)
        given = [tracer.value(x) for x in (*carried, *scanned)]
    moved = scope.cut(hoist=True)
    if not length:
        return init, [wrap(np.zeros((0, *v.shape), v.dtype)) for v in values[len(init) :]]
    part, behind = _apart(moved, ahead)
    rows = {v: stack for v, stack in places.items() if id(v.node) in ahead}
    late = {v: stack for v, stack in places.items() if id(v.node) not in ahead}  # drawn again on the way back
    if back is not None:
        back.finish(behind, list(late), length, not reverse)
    known = dict(zip(given[len(init) :], stacks, strict=True)) | rows  # what has a stack already
    saved = [v for v in behind.saved if v not in known and v not in values[len(init) :]]
    results = [part(v) for v in (*values, *saved)]
    body = part.graph([*given, *rows, *part.operands.values()], results)
    op = Loop(body, len(init), len(xs) + len(rows), length, reverse)
    made = tracer.add(op, [*first, *stacks, *rows.values(), *part.operands], {}, *op.kinds())
    tensors = [tracer.fresh(v) for v in made[: len(outs)]]
    if back is not None:
        known |= dict(zip((*values[len(init) :], *saved), made[len(init) :], strict=True))
        saved = [*late.values(), *(known[v] for v in behind.saved)]
        back.record(tensors, step, saved, list(behind.operands), bool(rows))
    elif refused:
        recorded(_NoWay("while_loop"), tensors, way.flags, way.edges(), ())
    return tensors[: len(init)], tensors[len(init) :]


def _apart(nodes: list[Node], ahead: set[int]) -> tuple[Part, Part]:
    """The nodes with these identities, and the others, which may use values of the first."""
    first = [node for node in nodes if id(node) in ahead]
    inside = {id(node) for node in first}
    behind = Part([node for node in nodes if id(node) not in ahead], lambda v: id(v.node) in inside)
    return Part(first), behind


class _Way:
    """Which gradients go through a loop: those of carried and scanned tensors, and of the edges `ends` outside."""

    def __init__(
        self,
        scope: Scope,
        init: list[Tensor],
        xs: list[Tensor],
        carried: list[Tensor],
        scanned: list[Tensor],
        after: list[Tensor],
        ys: list[Tensor],
    ) -> None:
        self.order, self.init, self.xs = scope.order, init, xs
        self.carried, self.scanned, self.after, self.ys = carried, scanned, after, ys
        outs, found = [*after, *ys], [history([x], scope.order) for x in (*after, *ys)]
        reach = [set() if any(n.freed for n in nodes) else set(ends) for nodes, ends in found]
        given = {id(x) for x in (*carried, *scanned)}
        edges = {key: edge for _, ends in found for key, edge in ends.items() if key not in given}
        needed = {id(x) for x, start in zip(carried, init, strict=True) if start._needs_grad}
        needed |= {id(x) for x, whole in zip(scanned, xs, strict=True) if whole._needs_grad} | edges.keys()
        count = 0
        while count != len(needed):
            count = len(needed)
            needed |= {id(x) for x, ends in zip(carried, reach, strict=False) if ends & needed}
        self.ends = list(edges.values())
        self.by_carried = [k for k, x in enumerate(carried) if id(x) in needed]
        self.by_scanned = [k for k, x in enumerate(scanned) if id(x) in needed]
        self.through = [k for k in range(len(outs)) if reach[k] & needed]  # results that have gradients
        self.flags = [bool(ends & needed) or (k < len(init) and k in self.by_carried) for k, ends in enumerate(reach)]
        self.any = bool(self.ends or self.by_carried or self.by_scanned)

    def trace(self, tracer: Any, scope: Scope) -> _Way:
        """Trace the way back through one iteration."""
        count, outs = len(self.init), [*self.after, *self.ys]
        self.stacked = [k for k in self.through if k >= count]
        seeds = {k: scope.argument(outs[k].shape, outs[k].dtype.np) for k in (*self.by_carried, *self.stacked)}
        variables = [*(self.carried[k] for k in self.by_carried), *(self.scanned[k] for k in self.by_scanned)]
        through = [k for k in self.through if k in seeds]
        found, at_ends = partials(
            [outs[k] for k in through], [seeds[k] for k in through], variables, self.ends, self.order
        )
        self.ends = [edge for edge, g in zip(self.ends, at_ends, strict=True) if g is not None]
        at_ends = [g for g in at_ends if g is not None]
        with no_grad():
            found = filled(found, variables)
            self.metas = [Meta(g) for g in at_ends]
        self.results = [tracer.value(x) for x in (*found, *at_ends)]
        self.seeds = [tracer.value(x) for x in seeds.values()]
        return self

    def finish(self, part: Part, rows: list[Value], length: int, reverse: bool) -> None:
        """Make the loop that goes back; `rows` are arguments of its own that change in every iteration."""
        results = [part(v) for v in self.results]
        body = part.graph([*self.seeds, *rows, *part.saved.values(), *part.operands.values()], results)
        scanned = len(self.stacked) + len(rows) + len(part.saved)
        self.loop = Loop(body, len(self.by_carried), scanned, length, reverse, len(self.ends))

    def record(
        self, outs: list[Tensor], step: Callable, saved: list[Value], operands: list[Value], draws: bool
    ) -> None:
        self.saved, self.operands = saved, operands
        self.step, self.draws = step, draws
        self.versions = [(x, x._version) for x in (*self.init, *self.xs)]
        recorded(self, outs, self.flags, self.edges(), ())

    def edges(self) -> list[Any]:
        given = (*(self.init[k] for k in self.by_carried), *(self.xs[k] for k in self.by_scanned))
        return [*map(edge_if_needed, given), *self.ends]

    # --------------------------------------------------------------------------- the operation of the tape's node
    title = "Scan"

    def pull(self, node: TapeNode, g: Sequence[Tensor | None], useful: Any = None) -> list[Tensor]:
        levels = batches_of(g)
        if mode.grad or levels:
            with entered(levels):
                return self._pull_again(node, g)
        tracer, wanted = mode.interpreter, [*self.by_carried, *self.stacked]
        seeds = filled([g[k] for k in wanted], [node.outputs[k] for k in wanted])
        inputs = [*(tracer.value(x) for x in seeds), *self.saved, *self.operands]
        return [tracer.fresh(v) for v in tracer.add(self.loop, inputs, {}, *self.loop.kinds())]

    def _pull_again(self, node: TapeNode, g: Sequence[Tensor | None]) -> list[Tensor]:
        """The same as a function that can be differentiated and mapped: carries computed again, then a loop back."""
        if self.draws:
            raise AutogradError(
                "scan: a body that draws random numbers cannot be differentiated twice, nor have its Jacobian taken, in "
                "compiled code; draw them before and pass them as xs"
            )
        create_graph = mode.grad
        _check_versions(self.versions)
        length, reverse = self.loop.length, not self.loop.reverse
        wanted = [*self.by_carried, *self.stacked]
        seeds = filled([g[k] for k in wanted], [node.outputs[k] for k in wanted])
        seeds, rows = seeds[: len(self.by_carried)], seeds[len(self.by_carried) :]
        again = lambda carry, row: (self.step(carry, row)[0], carry)
        with entered(()):
            _, carries = functions.scan(again, self.init, self.xs, length, reverse)

        def back(state: Any, row: Any) -> Any:
            (seeds, totals), (carry, x, row_seeds), order = state, row, next(counter)
            with enable_grad():
                carry, x = [differentiable(v) for v in carry], [differentiable(v) for v in x]
                after, ys = self.step(carry, x)
            outs = [*after, *ys]
            given = dict(zip(wanted, (*seeds, *row_seeds), strict=True))
            through = [k for k in self.through if k in given and outs[k]._needs_grad]
            variables = [*(carry[k] for k in self.by_carried), *(x[k] for k in self.by_scanned)]
            found, at_ends = partials(
                [outs[k] for k in through], [given[k] for k in through], variables, self.ends, order, create_graph
            )
            found, at_ends = filled(found, variables), filled(at_ends, self.metas)
            sums = [total + g for total, g in zip(totals, at_ends, strict=True)]
            return (found[: len(seeds)], sums), found[len(seeds) :]

        totals = [zeros_of(m) for m in self.metas]
        (seeds, totals), by_scanned = functions.scan(
            back, (seeds, totals), (carries, self.xs, rows), length, not reverse
        )
        return [*seeds, *by_scanned, *totals]


def _check_versions(versions: list[tuple[Tensor, int]]) -> None:
    if any(x._version != version for x, version in versions):
        raise AutogradError(
            "backward: a tensor given to a loop has been modified by an inplace operation since; .clone() it before"
        )


# ----------------------------------------------------------------------------------------------- cond


class _Side:
    """One branch of a condition, traced forward and back."""

    def __init__(self, tracer: Any, branch: Callable[[], list[Tensor]]) -> None:
        self.branch = branch
        with Scope(tracer, "cond") as scope:
            self.outs = branch()
            self.values = [tracer.value(x) for x in self.outs]
            middle = len(tracer.graph.nodes)
            self.through, self.ends, self.seeds, self.grads, self.refused = [], [], [], [], False
            if mode.grad:
                self._trace_back(tracer, scope)
            ahead = {id(node) for node in tracer.graph.nodes[scope.mark : middle]}
            self.drawn = {id(s): (s.generator, s.generator.key, s.generator.offset) for s, *_ in scope.drawn()}
            for stream, key, offset in scope.drawn():
                stream.generator._key, stream.generator.offset = key, offset
        self.part, self.behind = _apart(scope.cut(hoist=False), ahead)
        self.grads = [self.behind(v) for v in self.grads]
        self.saved = list(self.behind.saved)
        self.results = [self.part(v) for v in (*self.values, *self.saved)]

    def _trace_back(self, tracer: Any, scope: Scope) -> None:
        found = [history([x], scope.order) for x in self.outs]
        self.through = [k for k, (nodes, ends) in enumerate(found) if ends and not any(n.freed for n in nodes)]
        self.ends = list({key: edge for k in self.through for key, edge in found[k][1].items()}.values())
        outs = [self.outs[k] for k in self.through]
        seeds = [scope.argument(x.shape, x.dtype.np) for x in outs]
        try:
            _, grads = partials(outs, seeds, (), self.ends, scope.order)
        except NoWayBack:
            self.refused = True
            return
        self.ends = [edge for edge, g in zip(self.ends, grads, strict=True) if g is not None]
        grads = [g for g in grads if g is not None]
        self.metas = [Meta(g) for g in grads]
        self.seeds, self.grads = [tracer.value(x) for x in seeds], [tracer.value(g) for g in grads]


def cond(tracer: Any, pred: Tensor, true_branch: Callable, false_branch: Callable) -> list[Tensor]:
    """The branches of `weft.cond` as one node."""
    chosen = tracer.value(pred)
    sides = [_Side(tracer, true_branch), _Side(tracer, false_branch)]
    if sides[0].drawn != sides[1].drawn:
        raise TraceError(
            f"compile: at {user_line()} the branches of cond draw different amounts of random numbers, so that those drawn "
            "later would depend on the condition; draw before cond and pass the numbers"
        )
    for generator, key, offset in sides[0].drawn.values():
        generator._key, generator.offset = key, offset
    operands = list(dict.fromkeys(v for side in sides for v in side.part.operands))
    number = {v: 1 + k for k, v in enumerate(operands)}
    bodies = [_numbered(side.part, number, (), side.results) for side in sides]
    outs = sides[0].outs
    kinds = [(v.shape, v.dtype) for v in (*sides[0].results, *sides[1].results[len(outs) :])]
    made = tracer.add(Branch((bodies[0], bodies[1]), len(outs)), [chosen, *operands], {}, *kinds)
    tensors = [tracer.fresh(v) for v in made[: len(outs)]]
    through = sorted({*sides[0].through, *sides[1].through})
    if any(side.refused for side in sides):
        edges = {id(edge): edge for side in sides for edge in side.ends}
        recorded(_NoWay("while_loop"), tensors, [k in through for k in range(len(outs))], list(edges.values()), ())
    elif any(side.ends for side in sides):
        way = _Fork(pred, sides, through, made[len(outs) :])
        recorded(way, tensors, [k in through for k in range(len(outs))], way.ends, ())
    return tensors


def _numbered(part: Part, number: dict[Value, int], more: Sequence[tuple[Value, int]], results: Sequence[Value]) -> Any:
    graph = part.graph([], results)
    for inner, position in (*more, *((inner, number[v]) for v, inner in (*part.operands.items(), *part.saved.items()))):
        inner.node.op.position = position
    return graph


class _Fork:
    """The operation of the tape's node for a condition: the way back through the branch that was taken."""

    title = "Cond"

    def __init__(self, pred: Tensor, sides: list[_Side], through: list[int], saved: Sequence[Value]) -> None:
        self.pred, self.version, self.through = pred, pred._version, through
        self.branches = [side.branch for side in sides]
        metas = {id(e): (e, m) for side in sides if side.ends for e, m in zip(side.ends, side.metas, strict=True)}
        self.ends, self.metas = [e for e, _ in metas.values()], [m for _, m in metas.values()]
        self.chosen = mode.interpreter.value(pred)
        named = dict(zip((v for side in sides for v in side.saved), saved, strict=True))
        outer = list(dict.fromkeys(v for side in sides for v in (*side.behind.saved, *side.behind.operands)))
        number = {v: 1 + len(through) + k for k, v in enumerate(outer)}
        self.inputs = [named.get(v, v) for v in outer]
        bodies = []
        for side in sides:
            found = dict(zip(map(id, side.ends), side.grads, strict=True))
            results = [found.get(id(e)) for e in self.ends]
            results = [
                side.behind.zero(tuple(m.shape), m.dtype.np) if v is None else v
                for v, m in zip(results, self.metas, strict=True)
            ]
            seeds = [(v, 1 + through.index(k)) for k, v in zip(side.through, side.seeds, strict=True)]
            bodies.append(_numbered(side.behind, number, seeds, results))
        self.op = Branch((bodies[0], bodies[1]), len(self.ends))

    def pull(self, node: TapeNode, g: Sequence[Tensor | None], useful: Any = None) -> list[Tensor]:
        seeds, levels = filled([g[k] for k in self.through], [node.outputs[k] for k in self.through]), batches_of(g)
        if mode.grad or levels:
            _check_versions([(self.pred, self.version)])
            back = lambda branch: lambda: self._pulled_again(branch, seeds)
            with entered(levels):
                return functions.cond(self.pred, *map(back, self.branches))
        tracer = mode.interpreter
        kinds = [(tuple(m.shape), m.dtype.np) for m in self.metas]
        inputs = [self.chosen, *(tracer.value(x) for x in seeds), *self.inputs]
        return [tracer.fresh(v) for v in tracer.add(self.op, inputs, {}, *kinds)]

    def _pulled_again(self, branch: Callable[[], list[Tensor]], seeds: list[Tensor]) -> list[Tensor]:
        order, create_graph = next(counter), mode.grad
        with enable_grad():
            outs = branch()
        pairs = [(outs[k], seed) for k, seed in zip(self.through, seeds, strict=True) if outs[k]._needs_grad]
        outs, seeds = [x for x, _ in pairs], [seed for _, seed in pairs]
        return filled(partials(outs, seeds, (), self.ends, order, create_graph)[1], self.metas)


# -------------------------------------------------------------------------------------------- while_loop


class _NoWay:
    """The operation of the tape's node for such a loop."""

    def __init__(self, name: str) -> None:
        self.name, self.title = name, "While"

    def pull(self, node: TapeNode, g: Any, useful: Any = None) -> list[Tensor]:
        raise NoWayBack(
            f"backward: {self.name} in a compiled function stops where its values tell, and keeps nothing for gradients; "
            "use fori_loop with Python integers as bounds, or scan, or call it outside of compiled functions"
        )


def while_loop(
    tracer: Any, name: str, test: Callable[[list[Tensor]], Tensor], step: Callable, init: list[Tensor]
) -> list[Tensor]:
    """The loop of `weft.while_loop` as one node."""
    first = [tracer.value(x) for x in init]
    parts, results, edges, given = [], [], {}, []
    for function in (lambda carry: [test(carry)], step):
        with Scope(tracer, name) as scope:
            carried = [
                scope.argument(v.shape, v.dtype, mode.grad and x._needs_grad) for v, x in zip(first, init, strict=True)
            ]
            outs = function(carried)
            values = [tracer.value(x) for x in outs]
            given.append([tracer.value(x) for x in carried])
            if scope.drawn():
                raise TraceError(
                    f"compile: at {user_line()} random numbers are drawn in {name}, whose length only the run tells, and "
                    "with it the place in the stream; use fori_loop or scan, or draw before"
                )
        edges = {key: edge for key, edge in history(outs, scope.order)[1].items() if key not in map(id, carried)}
        parts.append(Part(scope.cut(hoist=True)))
        results.append([parts[-1](v) for v in values])
    operands = list(dict.fromkeys(v for part in parts for v in part.operands))
    number = {v: len(init) + k for k, v in enumerate(operands)}
    graphs = [
        _numbered(part, number, [(v, k) for k, v in enumerate(inner)], values)
        for part, inner, values in zip(parts, given, results, strict=True)
    ]
    _append(graphs[1], graphs[0], len(init))
    made = tracer.add(While(*graphs, len(init)), [*first, *operands], {}, *((v.shape, v.dtype) for v in first))
    tensors = [tracer.fresh(v) for v in made]
    own = [edge_if_needed(x) for x in init]
    if mode.grad and (edges or any(edge is not None for edge in own)):
        flags = [v.dtype.kind in "fcV" for v in first]
        recorded(_NoWay(name), tensors, flags, [*own, *edges.values()], ())
    return tensors


def _append(body: Graph, test: Graph, carried: int) -> None:
    """Let the body end with the test of what it has computed."""
    known = dict(enumerate(body.outputs[:carried]))
    known |= {
        node.op.position: node.output
        for node in body.nodes
        if isinstance(node.op, Argument) and node.op.position >= carried
    }
    values: dict[Value, Value] = {}
    for node in test.nodes:
        position = node.op.position if isinstance(node.op, Argument) else None
        if position in known:
            values[node.output] = known[position]
            continue
        copy = body.add(node.op, [values[v] for v in node.inputs], node.params, node.line)
        values.update(zip(node.outputs, copy.make(*((v.shape, v.dtype) for v in node.outputs)), strict=True))
    body.outputs += [values[v] for v in test.outputs]
