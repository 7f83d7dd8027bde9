"""The order of kernels: what runs when, what may run side by side, and what is written in place.

Kernels between two barriers form a *phase*: none of them reads or writes what another one of the phase writes, unless
one thread runs both. Small kernels are run by one thread alone, and those that depend on each other by the same one.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...kernels.anchor import Whole
from ..fuse.group import Group
from ..fuse.groups import Fuser
from ..fuse.kinds import merged, windows
from ..fuse.loops import HostCall, Launch
from ..graph.geometry import Region, common_factors, contiguous_strides, is_view, squeezed, strides_over
from ..graph.graph import Captured, Graph, Node, State, Value
from ..passes.checks import may_fail

__all__ = ["Places", "Slot", "arrange", "copy_back", "place"]

LOOKAHEAD = 48  # how many ready kernels are tried for the phase that is being filled


@dataclass
class Places:
    """Where final values and outputs go.

    `homes`: final values that are written straight into the memory of their states; `closing`: states that are copied
    at the end instead; `late`: numbers of outputs that nobody writes before the last error can have come. `order` has
    pairs of groups of which the first must come before the second, for all that to hold.
    """

    homes: dict[Value, Region]
    order: list[tuple[Group, Group]]
    closing: list[State]
    late: set[int]

    def told(self, graph: Graph) -> str:
        """Which states are written where they lie."""
        copied = {id(state) for state in self.closing}
        how = lambda state: "copied to" if id(state) in copied else "written over"
        return "\n".join(f"  {state.final!r} {how(state)} {state.value!r}" for state in _written(graph))


def place(graph: Graph, fuser: Fuser) -> Places:
    """Values written where they end, as far as possible: into states, and into the windows of assemblies."""
    places = in_place(graph, fuser)
    beside(graph, fuser, places.homes)
    return places


def copy_back(graph: Graph, fuser: Fuser) -> Places:
    """No value written where it ends: all are copied there when everything is computed."""
    return Places({}, [], _written(graph), set())


def _written(graph: Graph) -> list[State]:
    return [state for state in graph.states if state.final is not None]


def in_place(graph: Graph, fuser: Fuser) -> Places:
    """Which final values can be written straight into the memory of their states.

    Nobody may read the old value too late, and nothing may be written before an error.
    """
    homes: dict[Value, Region] = {}
    order: list[tuple[Group, Group]] = []
    closing: list[State] = []
    readers: dict[Value, set[Group]] = {}
    fails = lambda group, node: group.kind == "host" or node.op.shared or may_fail(node)
    failing = [g for g in fuser.groups if any(fails(g, node) for node in g.nodes)]
    first = 0  # bits of the groups that must have run when the last error can come
    for group in failing:
        first |= group.before | 1 << group.number
    for group in fuser.groups:
        for node in group.nodes:
            for v in node.inputs:
                root = fuser.geometry(v).root
                if isinstance(root.node.op, Captured):
                    readers.setdefault(root, set()).add(group)
    returned = {fuser.geometry(v).root for v in graph.outputs}
    waits = _Order(fuser)
    for state in graph.states:
        final = state.final
        if final is None:
            continue
        writer = fuser.home.get(final.node)
        old = state.value
        possible = (
            writer is not None
            and isinstance(old.node.op, Captured)
            and final not in homes
            and old not in returned
            and final.dtype == old.dtype
            and final.shape == old.shape
            and fuser.geometry(old).strides == contiguous_strides(old.shape, old.dtype.itemsize)
            and not first >> writer.number & 1
            and _reads_alike(fuser, writer, old)
        )
        others = [g for g in readers.get(old, ()) if g is not writer]
        if possible and waits.allows(others, writer):
            homes[final] = Region(old, 0, fuser.geometry(old).strides)
            order += [(g, writer) for g in (*failing, *others)]
        else:
            closing.append(state)
    late: set[int] = set()
    for number, value in enumerate(graph.outputs):
        writer = fuser.home.get(value.node)
        if writer is not None and writer.kind != "assembly" and not first >> writer.number & 1:
            late.add(number)
            order += [(g, writer) for g in failing]
    return Places(homes, order, closing, late)


def beside(graph: Graph, fuser: Fuser, homes: dict[Value, Region]) -> None:
    """Let operands of assemblies be written straight into their windows, where nothing else needs them."""
    users, results = graph.users(), set(graph.results)
    for group in fuser.groups:
        if group.kind != "assembly" or not group.nodes:
            continue
        (node,) = group.nodes
        fill, places = windows(node, fuser.geometry)
        if fill is not None or node.output in homes:
            continue
        if places and places[0][0].nbytes == node.output.nbytes:  # the others are written over the first
            del places[1:]
        for v, offset, strides in places:
            if node.inputs.count(v) > 1:
                continue
            v, strides, reader = _unflattened(fuser, v, strides, node, users)
            maker = fuser.home.get(v.node)
            if maker is None or users[v] != [reader] or v in results or v in homes:
                continue
            if maker.kind == "sweep" or (maker.kind == "anchor" and _addressable(maker, v, strides)):
                homes[v] = Region(node.output, offset, strides)


def _unflattened(
    fuser: Fuser, v: Value, strides: tuple[int, ...], reader: Node, users: dict[Value, list[Node]]
) -> tuple[Value, tuple[int, ...], Node]:
    """Of a value that renames the elements of another in order, for one reader: that one, its strides there, who reads it."""
    dense = lambda x: contiguous_strides(x.shape, x.dtype.itemsize)
    while is_view(v) and users[v] == [reader] and strides == dense(v):
        before = v.node.inputs[0]
        if before.nbytes != v.nbytes or any(fuser.geometry(x).strides != dense(x) for x in (before, v)):
            break
        v, strides, reader = before, dense(before), v.node
    return v, strides, reader


def _addressable(group: Group, value: Value, strides: tuple[int, ...]) -> bool:
    if isinstance(group.anchor, Whole):
        return False
    factors = common_factors(group.space, squeezed(value.shape))
    return merged(strides_over(value.shape, strides, value.shape, factors), factors, group.space) is not None


def _reads_alike(fuser: Fuser, group: Group, old: Value) -> bool:
    """Whether a group reads an old value only at the index where it writes the new one."""
    if group.kind == "host":  # computed whole before it is copied, but for loops
        (node,) = group.nodes
        return not node.op.bodies or all(fuser.geometry(v).root is not old for v in node.inputs)
    for node in group.nodes:
        for v in node.inputs:
            view = fuser.geometry(v)
            if view.root is not old:
                continue
            alone = group.anchor is not None and v is group.anchor.taken_over and node.inputs.count(v) == 1
            if (
                group.anchor is not None
                and not alone
                and (isinstance(group.anchor, Whole) or v in group.anchor.operands)
            ):
                return False
            if view.offset or v.shape != old.shape or view.strides != fuser.geometry(old).strides:
                return False
            if v.shape != node.output.shape:
                return False
            if group.rows is not None and all(group.masks[node.output]):
                return False  # a later pass over the row would read what an earlier one has written
    return True


class _Order:
    """Which groups can be told to run before others without a circle.

    In the order of their last nodes, as far as data allow it, what updates parameters comes after all that reads them:
    what agrees with that order is always possible. The rest is looked at pair by pair.
    """

    def __init__(self, fuser: Fuser) -> None:
        self.groups = {g.number: g for g in fuser.groups}
        self.place = {g: n for n, g in enumerate(_by_last_node(fuser))}
        self.after: dict[int, int] = {}  # bits of groups that come before a group because of what was allowed
        self.agrees = True

    def allows(self, first: Sequence[Group], second: Group) -> bool:
        """Whether groups can all come before another; if so, they will."""
        agrees = all(self.place[g] < self.place[second] for g in first)
        if not (agrees and self.agrees) and any(self._waits(g, second) for g in first):
            return False
        self.agrees = self.agrees and agrees
        for g in first:
            self.after[second.number] = self.after.get(second.number, 0) | 1 << g.number
        return True

    def _waits(self, group: Group, writer: Group) -> bool:
        """Whether `group` can only run after `writer`."""
        seen, pending = set(), [group.number]
        while pending:
            number = pending.pop()
            if number in seen:
                continue
            seen.add(number)
            bits = self.groups[number].before | self.after.get(number, 0)
            if bits >> writer.number & 1:
                return True
            pending.extend(n for n in self.after if bits >> n & 1)
        return False


def _by_last_node(fuser: Fuser) -> list[Group]:
    """The groups ordered by the place of their last node in the graph, but none before what it reads."""
    makers = fuser.makers()
    waiting = {g: len(needs) for g, needs in makers.items()}
    followers: dict[Group, list[Group]] = {}
    for group, needs in makers.items():
        for maker in needs:
            followers.setdefault(maker, []).append(group)
    entry = lambda g: (max(node.number for node in g.nodes), g.number, g)
    ready = [entry(g) for g, count in waiting.items() if not count]
    heapq.heapify(ready)
    found = []
    while ready:
        found.append(heapq.heappop(ready)[2])
        for group in followers.get(found[-1], ()):
            waiting[group] -= 1
            if not waiting[group]:
                heapq.heappush(ready, entry(group))
    return found


@dataclass
class Slot:
    """One step of the plan: a kernel or host call, its phase, and the thread that runs it alone (None: all); or the first
    of `group` threads that run it."""

    step: Launch | HostCall
    phase: int
    only: int | None = None
    group: int = 1

    @property
    def alone(self) -> int | None:
        """The thread that runs the step alone; None if several do."""
        return self.only if self.group == 1 else None


@dataclass
class _Phase:
    readers: dict[Value, set[int | None]] = field(default_factory=dict)
    writers: dict[Value, list[tuple[int | None, Any]]] = field(default_factory=dict)
    slots: list[Slot] = field(default_factory=list)
    turn: int = 0
    checks: set[Group] = field(default_factory=set)  # which may end the plan behind the phase

    def owner(self, step: Launch, before: set[Group]) -> tuple[bool, int | None]:
        """Whether the step, which waits for others, can join the phase, and the thread that must run it (None: any)."""
        if self.checks and not self.checks.isdisjoint(before):
            return False, None
        touching: set[int | None] = set()
        for root in step.reads | step.writes:
            for only, part in self.writers.get(root, ()):
                if root in step.reads or part is None or step.parts.get(root, part) is part:
                    touching.add(only)
        for root in step.writes:
            touching |= self.readers.get(root, set())
        if not touching:
            return True, None
        if len(touching) == 1 and None not in touching and step.kernel.serial:
            return True, next(iter(touching))
        return False, None

    def enter(self, step: Launch, only: int | None) -> None:
        if step.kernel.halts:
            self.checks.add(step.group)
        for root in step.reads:
            self.readers.setdefault(root, set()).add(only)
        for root in step.writes:
            self.writers.setdefault(root, []).append((only, step.parts.get(root)))


def arrange(
    steps: Sequence[Launch | HostCall], before: dict[Group, set[Group]], threads: int, reorder: bool = True
) -> list[Slot]:
    """Put steps, given in a possible order, into phases."""
    position = {s.group: n for n, s in enumerate(steps)}
    waiting = {n: {position[g] for g in before.get(s.group, ()) if g in position} for n, s in enumerate(steps)}
    users: dict[int, list[int]] = {}
    for n, needs in waiting.items():
        for m in needs:
            users.setdefault(m, []).append(n)
    ready = sorted(n for n, needs in waiting.items() if not needs)
    slots: list[Slot] = []
    phase, number = _Phase(), 0

    def done(n: int) -> None:
        del ready[bisect.bisect_left(ready, n)]
        for user in users.get(n, ()):
            waiting[user].discard(n)
            if not waiting[user]:
                bisect.insort(ready, user)

    while ready:
        picked = None
        urgent = next((n for n in ready if steps[n].group.nodes[0].op.urgent), None)
        if urgent is not None:
            if phase.writers or phase.checks:
                phase, number = _Phase(), number + 1
            slots.append(Slot(steps[urgent], number))
            number += 1
            done(urgent)
            continue
        for n in ready[: LOOKAHEAD if reorder else 1]:
            step = steps[n]
            if isinstance(step, HostCall) or step.kernel.meeting:
                continue
            fits, only = phase.owner(step, before.get(step.group, set()))
            if fits:
                picked = n
                break
        if picked is None:
            if phase.writers or phase.checks:
                phase, number = _Phase(), number + 1
                continue
            waits = lambda n: isinstance(steps[n], Launch)  # for other ranks: as late as possible
            picked = min(ready, key=lambda n: (waits(n), n))  # a host call first
            slots.append(Slot(steps[picked], number))
            number += 1
            done(picked)
            continue
        step = steps[picked]
        slot = Slot(step, number, only)
        if only is None and (step.kernel.serial or 0 < step.kernel.most_threads < threads):
            slot.only, slot.group = phase.turn % threads, 1 if step.kernel.serial else step.kernel.most_threads
            phase.turn += slot.group
        phase.enter(step, slot.alone)
        slots.append(slot)
        done(picked)
    return slots
