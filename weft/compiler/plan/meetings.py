"""Calls of other ranks inside a plan: where their data lie at each run, and what is done when somebody does not come.

What a rank sends is computed, where that is possible, straight into the memory that all ranks see; what ranks have sent is read
there. Both lie elsewhere at each run (runtime/cluster/board.py), so argument words are written anew.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...kernels.memory.ranks import Await, Publish
from ...runtime import native
from ...runtime.cluster.board import SLOTS, mark_of
from ..fuse.loops import Launch, Lowering
from ..graph.geometry import contiguous_strides
from ..graph.graph import Source, Value
from .buffers import address

__all__ = ["Meetings", "is_await", "lying_elsewhere", "rest_of"]

ALIGN = 64


def is_await(step: Any) -> bool:
    return isinstance(step, Launch) and isinstance(step.kernel, Await)


def lying_elsewhere(slots: Sequence[Any], lowering: Lowering, others: Collection[Value]) -> set[Value]:
    """Roots in memory that ranks see: all that is awaited; what is published, unless it must lie in `others` or stays."""
    found = {root for slot in slots if is_await(slot.step) for root in slot.step.writes}
    last = {root: slot.phase for slot in slots for root in slot.step.writes}
    for slot in slots:
        if isinstance(slot.step, Launch) and isinstance(slot.step.kernel, Publish):
            x = slot.step.group.nodes[0].inputs[0]
            view = lowering.window(x)
            root = view.root
            fresh = root not in found and root not in others and not isinstance(root.node.op, Source)
            if fresh and root.nbytes == x.nbytes and last.get(root, slot.phase) < slot.phase and _in_order(x, lowering):
                found.add(root)
    return found


def _in_order(x: Value, lowering: Lowering) -> bool:
    return lowering.window(x).strides == contiguous_strides(x.shape, x.dtype.itemsize)


@dataclass
class _Calls:
    """The calls of one group in a plan. Words are given as (numbers, offsets or calls)."""

    group: Any
    forms: list[str] = field(default_factory=list)
    sums: Any = field(default_factory=list)  # checksums of forms
    offsets: list[int] = field(default_factory=list)  # of data, for each call
    nbytes: int = 0
    data: Any = field(default_factory=list)  # by rank: words that hold addresses in its data
    slots: Any = field(default_factory=list)  # by rank: those that hold addresses of slots
    marks: Any = field(default_factory=list)  # what slots will hold
    roots: list[tuple[Value, int, int]] = field(default_factory=list)  # (root, rank, offset)
    turn: Any = None

    def __post_init__(self) -> None:
        self.data, self.slots = ([[] for _ in range(self.group.size)] for _ in range(2))


class Meetings:
    """The calls of a plan. `begin` and `end` stand around each run, `wait` looks after an end before the end."""

    def __init__(self, plan: Any, starts: Sequence[int]) -> None:
        self.words, self.told = plan.words, np.zeros(1, np.int64)
        self.calls: dict[Any, _Calls] = {}
        self.numbers: dict[Value, tuple[_Calls, int]] = {}  # the call, by `sent`
        self.awaited: dict[int, tuple[_Calls, int]] = {}  # the same, by the number of the slot
        for number, slot in enumerate(plan.slots):
            if isinstance(slot.step, Launch) and isinstance(slot.step.kernel, Publish):
                self._add_publish(plan, slot.step, starts[number])
        for number, slot in enumerate(plan.slots):
            if is_await(slot.step):
                self._add_await(plan, slot.step, starts[number], number)
        for calls in self.calls.values():
            for table in (calls.data, calls.slots):
                table[:] = [np.array(pairs, np.int64).reshape(-1, 2).T for pairs in table]
            calls.marks = np.array(calls.marks, np.int64).reshape(-1, 2).T
            calls.sums = np.array(calls.sums, np.int64)

    def _add_publish(self, plan: Any, step: Launch, start: int) -> None:
        node = step.group.nodes[0]
        group, x = node.params["group"], node.inputs[0]
        calls = self.calls.setdefault(group, _Calls(group))
        call, at = len(calls.forms), start + len(step.words)
        calls.forms.append(node.params["form"])
        calls.sums.append(zlib.crc32(node.params["form"].encode()))
        calls.offsets.append(calls.nbytes)
        calls.nbytes += -(-x.nbytes // ALIGN) * ALIGN
        self.numbers[node.output] = calls, call
        calls.data[group.rank].append((at, calls.offsets[call]))
        calls.slots[group.rank].append((at + 1, call))
        calls.marks.append((at + 2, call))
        self._lend(plan, plan.lowering.window(x).root, calls, group.rank, call)

    def _add_await(self, plan: Any, step: Launch, start: int, number: int) -> None:
        node, at = step.group.nodes[0], start + len(step.words)
        calls, call = self.awaited[number] = self.numbers[node.inputs[0]]
        size = calls.group.size
        for rank in range(size):
            calls.slots[rank].append((at + rank, call))
            self._lend(plan, node.outputs[rank], calls, rank, call)
        calls.marks.append((at + size, call))
        self.words[at + size + 1 : at + size + 4] = native.napping().wait, address(self.told), number + 1

    def _lend(self, plan: Any, root: Value, calls: _Calls, rank: int, call: int) -> None:
        """A root lies where a rank has, or will have, its data of a call."""
        if root not in plan.elsewhere or any(root is known for known, _, _ in calls.roots):
            return
        offset = calls.offsets[call]
        calls.roots.append((root, rank, offset))
        for numbers, offsets in plan.places(root):
            calls.data[rank] += [(int(n), offset + int(more)) for n, more in zip(numbers, offsets, strict=True)]

    def begin(self, arrays: dict[Value, np.ndarray]) -> None:
        """Room for the calls of this run, and its addresses."""
        self.told[0] = 0
        for group, calls in self.calls.items():
            board = group.board
            group.check_whole()
            calls.turn = turn = board.begin(group, len(calls.forms), calls.nbytes, calls.forms[0])
            numbers = turn.first + np.arange(len(calls.forms))
            for rank, (words, offsets) in enumerate(calls.data):
                self.words[words] = turn.data[rank] + offsets
            for start, (words, which) in zip(board.slots, calls.slots, strict=True):
                self.words[words] = start + 8 * (numbers[which] % SLOTS)
            words, which = calls.marks
            self.words[words] = mark_of(numbers[which], calls.sums[which])
            for root, rank, offset in calls.roots:
                at = turn.data[rank] + offset - board.starts[rank]
                arrays[root] = np.ndarray(root.shape, root.dtype, board.parts[rank], at)

    def end(self) -> None:
        for group, calls in self.calls.items():
            if calls.turn is not None:
                group.board.end()
                calls.turn = None

    def late(self) -> int | None:
        """The number of the slot in which the plan ended because somebody has not come."""
        number, self.told[0] = int(self.told[0]) - 1, 0
        return None if number < 0 else number

    def wait(self, number: int) -> None:
        """Until everybody has come to the call of that slot."""
        calls, call = self.awaited[number]
        board, which = calls.group.board, calls.turn.first + call
        board.wait(calls.group, which, mark_of(which, int(calls.sums[call])), calls.forms[call])


def rest_of(table: np.ndarray, number: int) -> np.ndarray:
    """The table of a plan from a slot on."""
    rows = table[1:].reshape(-1, 4)
    first = int(np.argmax(rows[:, 3] == number))
    return np.array([len(rows) - first, *rows[first:].ravel()], np.int64)
