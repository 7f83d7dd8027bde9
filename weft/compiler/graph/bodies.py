"""Loops and branches as operations of a graph: each holds the graphs of its bodies.

The arguments of a body are inputs of the node, by number. A loop whose body is native as a whole is native itself: the
steps of the body stand in the plan once for each iteration, with addresses that move on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...kernels.operation import NativeForm
from ...kernels.pool import get_pool
from ...runtime.native import for_one_thread
from ..fuse.loops import HostCall, Lowering
from ..passes.simplify import MOVE, remove_dead
from ..plan.buffers import address, aligned
from .geometry import Geometry, contiguous_strides
from .graph import Argument, Graph, Node, Value

__all__ = ["BodyCall", "Branch", "Loop", "Repeat", "While", "copied", "lowered", "prune", "straighten"]

MOST_ROWS = 1 << 20  # steps of an unrolled loop: longer ones run iteration by iteration
Arrays = Sequence[np.ndarray]


class Loop(NativeForm):
    """(carried…, stacked…, summed…): `body(carried…, scanned…, operands…)` gives the next carried values, one row of each
    stack, and what is added to each sum. The inputs of the node are the first carried values, stacks of scanned rows, and
    operands."""

    name = "scan"

    def __init__(self, body: Graph, carried: int, scanned: int, length: int, reverse: bool, summed: int = 0) -> None:
        self.bodies, self.carried, self.scanned, self.summed = (body,), carried, scanned, summed
        self.length, self.reverse = length, reverse

    def kinds(self) -> list[tuple[tuple[int, ...], np.dtype]]:
        """Shapes and types of the results."""
        outs = self.bodies[0].outputs
        stacked = range(self.carried, len(outs) - self.summed)
        return [((self.length, *v.shape) if k in stacked else v.shape, v.dtype) for k, v in enumerate(outs)]

    def rows(self) -> np.ndarray:
        """The rows of scanned inputs and stacks in the order of iterations."""
        return np.arange(self.length)[:: -1 if self.reverse else 1]

    def run(self, plans: Sequence[Any], inputs: Arrays) -> tuple[np.ndarray, ...]:
        (plan,) = plans
        first = self.carried + self.scanned
        carried, scanned, operands = inputs[: self.carried], inputs[self.carried : first], inputs[first:]
        made = [np.zeros(shape, kind) for shape, kind in self.kinds()[self.carried :]]
        last = len(made) - self.summed
        for row in self.rows():
            found = plan.run([*carried, *(x[row, ...] for x in scanned), *operands])
            carried = found[: self.carried]
            for number, (whole, y) in enumerate(zip(made, found[self.carried :], strict=True)):
                if number < last:
                    whole[row] = y
                else:
                    whole += y
        return (*carried, *made)


class While(NativeForm):
    """carried… = `body(carried…, operands…)` as long as `test` of the same is true. The last result of the body is the
    test of its others."""

    name = "while_loop"

    def __init__(self, test: Graph, body: Graph, carried: int) -> None:
        self.bodies, self.carried = (test, body), carried

    def run(self, plans: Sequence[Any], inputs: Arrays) -> tuple[np.ndarray, ...]:
        test, body = plans
        carried, operands = list(inputs[: self.carried]), inputs[self.carried :]
        (goes_on,) = test.run(inputs)
        while goes_on.item():
            *carried, goes_on = body.run([*carried, *operands])
        return tuple(carried)


class Branch(NativeForm):
    """One of two bodies, by the first input. The results are `common` ones of both, then those that each alone has."""

    name = "cond"

    def __init__(self, bodies: tuple[Graph, Graph], common: int) -> None:
        self.bodies, self.common = bodies, common

    def run(self, plans: Sequence[Any], inputs: Arrays) -> tuple[np.ndarray | None, ...]:
        """Results of the other body are None: nobody reads them."""
        chosen = 0 if inputs[0].item() else 1
        found = plans[chosen].run(inputs)
        own = [(None,) * (len(body.outputs) - self.common) for body in self.bodies]
        own[chosen] = tuple(found[self.common :])
        return (*found[: self.common], *own[0], *own[1])


def copied(graph: Graph) -> Graph:
    """A graph that passes may change, equal to another."""
    known: dict[Value, Value] = {}
    made = Graph()
    for node in graph.nodes:
        copy = made.add(node.op, [known[v] for v in node.inputs], node.params, node.line)
        known.update(zip(node.outputs, copy.make(*((v.shape, v.dtype) for v in node.outputs)), strict=True))
    made.outputs = [known[v] for v in graph.outputs]
    return made


# --------------------------------------------------------------------------------- what is not needed


def prune(graph: Graph) -> None:
    """Take out of loops and branches what nobody reads, and of loops the carried values that never change."""
    live, changes = set(graph.results), {}
    for node in reversed(graph.nodes):
        if live.isdisjoint(node.outputs) and not node.op.checks:
            continue
        if node.op.bodies:
            bodies = [copied(body) for body in node.op.bodies]
            for body in bodies:
                prune(body)
            shrunk = _SHRINK[type(node.op)](node, bodies, [v in live for v in node.outputs])
            changes.update(shrunk)
            live.update(shrunk.values())
        live.update(node.inputs)
    graph.replace(changes)
    remove_dead(graph)


def _keep_outputs(node: Node, wanted: Iterable[int]) -> None:
    node.outputs = tuple(node.outputs[k] for k in wanted)
    for index, v in enumerate(node.outputs):
        v.index = index


def _keep_inputs(node: Node, bodies: Sequence[Graph], first: Iterable[int]) -> list[int]:
    """Drop inputs that no body reads, all but those in `first`; numbers of those that stay, in order."""
    for body in bodies:
        remove_dead(body)
    arguments = [n for body in bodies for n in body.nodes if isinstance(n.op, Argument)]
    kept = sorted({n.op.position for n in arguments} | set(first))
    place = {old: now for now, old in enumerate(kept)}
    for n in arguments:
        n.op = Argument(place[n.op.position])
    node.inputs = tuple(node.inputs[k] for k in kept)
    return kept


def _read(body: Graph, results: Sequence[Value]) -> set[int]:
    """The arguments that some results need."""
    probe = Graph()
    probe.nodes, probe.outputs = body.nodes, list(results)
    return {n.op.position for n in probe.live() if isinstance(n.op, Argument)}


def _needed(body: Graph, carried: int, wanted: set[int], stacked: Sequence[int], more: set[int]) -> list[int]:
    """The carried values that are wanted, or that what is wanted needs."""
    while True:
        read = _read(body, [body.outputs[k] for k in (*wanted, *stacked)]) | more
        found = wanted | {k for k in read if k < carried}
        if found == wanted:
            return sorted(found)
        wanted = found


def _still(body: Graph, carried: Iterable[int]) -> set[int]:
    """The carried values that a body hands on as they are."""
    same = lambda v, k: isinstance(v.node.op, Argument) and v.node.op.position == k
    return {k for k in carried if same(body.outputs[k], k)}


def _shrink_loop(node: Node, bodies: list[Graph], live: list[bool]) -> dict[Value, Value]:
    op, (body,) = node.op, bodies
    stacked = [k for k in range(op.carried, len(live)) if live[k]]  # and sums
    summed = sum(live[len(live) - op.summed :])
    carried = _needed(body, op.carried, {k for k in range(op.carried) if live[k]}, stacked, set())
    still = _still(body, carried)
    changes = {node.outputs[k]: node.inputs[k] for k in still if live[k]}
    moving = [k for k in carried if k not in still]
    body.outputs = [body.outputs[k] for k in (*moving, *stacked)]
    _keep_outputs(node, (*moving, *stacked))
    order = [*moving, *range(op.carried, op.carried + op.scanned), *still]
    order += [k for k in range(len(node.inputs)) if k not in order]
    _reorder(node, body, order)
    kept = _keep_inputs(node, bodies, range(len(moving)))
    scanned = sum(len(moving) <= k < len(moving) + op.scanned for k in kept)
    node.op = Loop(body, len(moving), scanned, op.length, op.reverse, summed)
    return changes


def _reorder(node: Node, body: Graph, order: Sequence[int]) -> None:
    """Put the inputs of a node into another order."""
    place = {old: now for now, old in enumerate(order)}
    for n in body.nodes:
        if isinstance(n.op, Argument):
            n.op = Argument(place[n.op.position])
    node.inputs = tuple(node.inputs[k] for k in order)


def _shrink_while(node: Node, bodies: list[Graph], live: list[bool]) -> dict[Value, Value]:
    op, (test, body) = node.op, bodies
    asked = _read(test, test.outputs)
    carried = _needed(body, op.carried, {k for k in range(op.carried) if live[k]}, (op.carried,), asked)
    body.outputs = [body.outputs[k] for k in (*carried, op.carried)]
    _keep_outputs(node, carried)
    _keep_inputs(node, bodies, carried)
    node.op = While(test, body, len(carried))
    return {}


def _shrink_branch(node: Node, bodies: list[Graph], live: list[bool]) -> dict[Value, Value]:
    op = node.op
    common = [k for k in range(op.common) if live[k]]
    kept, start = list(common), op.common
    for body in bodies:
        own = [k for k in range(op.common, len(body.outputs)) if live[start + k - op.common]]
        kept += [start + k - op.common for k in own]
        start += len(body.outputs) - op.common
        body.outputs = [body.outputs[k] for k in (*common, *own)]
    _keep_outputs(node, kept)
    _keep_inputs(node, bodies, (0,))
    node.op = Branch((bodies[0], bodies[1]), len(common))
    return {}


_SHRINK: dict[type, Callable] = {Loop: _shrink_loop, While: _shrink_while, Branch: _shrink_branch}


def straighten(graph: Graph, geometry: Geometry) -> None:
    """Copy inputs of loops whose rows or elements do not follow each other in memory."""
    for node in list(graph.nodes):
        if not isinstance(node.op, Loop):
            continue
        for number, v in enumerate(node.inputs):
            rows = node.op.carried <= number < node.op.carried + node.op.scanned
            if not _is_dense(v.shape[rows:], geometry(v).strides[rows:], v.dtype.itemsize):
                copy = Node(MOVE, (v,), line=node.line)
                graph.nodes.insert(graph.nodes.index(node), copy)
                inputs = list(node.inputs)
                inputs[number] = copy.make((v.shape, v.dtype))[0]
                node.inputs = tuple(inputs)
    graph.renumber()


def _is_dense(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    wanted = contiguous_strides(shape, itemsize)
    return all(a == b or n <= 1 for a, b, n in zip(strides, wanted, shape, strict=True))


# ------------------------------------------------------------------------------------------ in plans


class BodyCall(HostCall):
    """A loop or branch whose bodies are plans that Python runs."""

    def __init__(self, call: HostCall, plans: Sequence[Any]) -> None:
        super().__init__(call.node, call.group, call.reads, call.writes)
        self.plans = plans

    def compute(self, inputs: Arrays) -> tuple[np.ndarray | None, ...]:
        return self.node.op.run(self.plans, inputs)


class Repeat(BodyCall):
    """A loop as a part of the native plan: the steps of its body once for each iteration."""

    def __init__(self, call: HostCall, plan: Any, lowering: Lowering) -> None:
        super().__init__(call, [plan])
        self.plan, self.window = plan, lowering.window
        self.steps = plan.native_tables[0][1:].reshape(-1, 4)
        self.count = len(plan.words) * self.node.op.length  # of argument words

    def arguments(self) -> tuple[np.ndarray, list[tuple[Value, np.ndarray, np.ndarray]]]:
        """The argument words of all iterations, and those that depend on where a root lies: (root, words, offsets)."""
        op, plan = self.node.op, self.plan
        length, times, rows = op.length, np.arange(op.length), op.rows()
        words = np.tile(plan.words, length)
        found: list[tuple[Value, np.ndarray, np.ndarray]] = []

        def point(inner: Value, times: np.ndarray, root: Value | None, start: Any) -> None:
            """In these iterations a value of the body lies at `start` (one, or one for each) in the memory of a root."""
            for at, offset in plan.places(inner):
                places = (len(plan.words) * times[:, None] + at).ravel()
                starts = (np.broadcast_to(start, times.shape)[:, None] + offset).ravel()
                if root is None:
                    words[places] = starts
                else:
                    found.append((root, places, starts))

        inputs, outputs = [self.window(v) for v in self.node.inputs], [self.window(v) for v in self.node.outputs]
        moving = lambda view: view.offset + view.strides[0] * rows
        for position, inner in plan.arguments:
            view = inputs[position]
            if position < op.carried:
                point(inner, times[:1], view.root, view.offset)
            else:
                point(inner, times, view.root, moving(view) if position < op.carried + op.scanned else view.offset)
        given = dict(plan.arguments)
        turns = (
            times[::-1] % 2 == 0,
            times[::-1] % 2 == 1,
        )  # the last results go to the output, those before beside it
        self.beside = [aligned(max(v.nbytes, 1)) for v in self.node.outputs[: op.carried]] if length > 1 else []
        for number, (inner, view) in enumerate(zip(plan.outputs, outputs, strict=True)):
            if number >= op.carried:
                point(inner, times, view.root, moving(view))
                continue
            spare = address(self.beside[number]) if self.beside else 0
            for chosen, root, start in ((turns[0], view.root, view.offset), (turns[1], None, spare)):
                point(inner, times[chosen], root, start)
                if number in given:
                    point(given[number], times[chosen][times[chosen] + 1 < length] + 1, root, start)
        return words, found

    def rows(self, start: int, label: int) -> np.ndarray:
        """The rows of the table, for argument words that start at this address."""
        length = self.node.op.length
        rows = np.tile(self.steps, (length, 1))
        first = start + 8 * len(self.plan.words) * np.arange(length) - address(self.plan.words)
        rows[:, 1] += np.repeat(first, len(self.steps))
        rows[:, 3] = label
        if for_one_thread(rows[:, 2]):  # let one do all, without waiting
            rows[:, 2] = 1 << 8
            rows[-1, 2] |= 1
        return rows


class Turns(BodyCall):
    """A loop of unknown length whose body is native: two tables, from one place of the carried values to the other and
    back, between which Python looks at the test."""

    def __init__(self, call: HostCall, plans: Sequence[Any]) -> None:
        super().__init__(call, plans)
        self.test, self.plan = plans
        carried, plan = self.node.op.carried, self.plan
        rows = plan.native_tables[0][1:].reshape(-1, 4)
        self.words = np.tile(plan.words, 2)
        self.places = [[np.zeros(v.shape, v.dtype) for v in self.node.outputs] for _ in range(2)]
        self.goes_on = np.zeros(plan.outputs[-1].shape, np.bool_)
        self.tables = []
        for turn in range(2):
            for position, inner in plan.arguments:
                if position < carried:
                    self._point(inner, self.places[turn][position], [turn])
            for inner, array in zip(plan.outputs, (*self.places[1 - turn], self.goes_on), strict=True):
                self._point(inner, array, [turn])
            moved = address(self.words) + 8 * turn * len(plan.words) - address(plan.words)
            self.tables.append(np.concatenate([[len(rows)], (rows + np.array([0, moved, 0, 0])).ravel()]))
        self.operands = [(position, inner) for position, inner in plan.arguments if position >= carried]
        self.workers = 1 if for_one_thread(rows[:, 2]) else plan.workers

    def _point(self, inner: Value, array: np.ndarray, turns: Sequence[int]) -> None:
        for at, offset in self.plan.places(inner):
            for turn in turns:
                self.words[turn * len(self.plan.words) + at] = address(array) + offset

    def compute(self, inputs: Arrays) -> tuple[np.ndarray | None, ...]:
        if not self.test.run(inputs)[0].item():
            return tuple(inputs[: self.node.op.carried])
        inputs = [np.ascontiguousarray(x) for x in inputs]
        for place, x in zip(self.places[0], inputs, strict=False):
            np.copyto(place, x)
        for position, inner in self.operands:
            self._point(inner, inputs[position], (0, 1))
        run, small, turn, tables = get_pool(self.workers).run, self.plan.small, 0, list(map(address, self.tables))
        self.goes_on[...] = True
        while self.goes_on.item():
            run(tables[turn], small)
            turn = 1 - turn
            self.plan.check_indices()
        return tuple(self.places[turn])


def lowered(call: HostCall, lowering: Lowering, build: Callable[[Graph], Any]) -> HostCall:
    """The step of a plan for a node with bodies."""
    op = call.node.op
    plans = [build(copied(body)) for body in op.bodies]
    if isinstance(op, Loop) and plans[0].is_native and op.length * len(plans[0].native_tables[0]) // 4 <= MOST_ROWS:
        return Repeat(call, plans[0], lowering)
    return Turns(call, plans) if isinstance(op, While) and plans[1].is_native else BodyCall(call, plans)
