"""A compiled graph: kernels with their argument words, memory, and what Python does before and after each run."""

from __future__ import annotations

import collections
import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...kernels.llvm import jit
from ...kernels.memory.ranks import Meet
from ...kernels.pool import get_pool
from ...runtime import native, timing
from ..fuse.loops import HostCall, Launch, Lowering
from ..graph.bodies import Repeat
from ..graph.geometry import Region, empty
from ..graph.graph import Argument, Captured, Constant, Fetched, Graph, Source, Value
from ..passes.checks import has_checks, wrong_index
from .buffers import Layout, address, aligned
from .meetings import Meetings, is_await, rest_of
from .schedule import Places, Slot

__all__ = ["Plan", "told_host_work"]

BARRIER, STOP = 1, 2  # bits of a step's flags


class Plan:
    """Runs a graph natively. `run(arguments)` gives the outputs; states are written in place."""

    def __init__(
        self,
        graph: Graph,
        slots: Sequence[Slot],
        lowering: Lowering,
        places: Places,
        threads: int,
        layout: Layout,
    ) -> None:
        self.graph, self.slots, self.lowering, self.threads = graph, list(slots), lowering, threads
        self.closing, self.late = places.closing, places.late
        self.outputs, self.lives, self.offsets = layout.outputs, layout.lives, layout.offsets
        self.elsewhere = layout.elsewhere
        self.memory = aligned(layout.total)
        self._build()
        self._bind_sources()

    def _build(self) -> None:
        """Compile the kernels and write the tables."""
        keys = self._compile()
        counts = [_count_of_words(slot.step) for slot in self.slots]
        self.words = np.zeros(max(sum(counts), 1), np.int64)
        self.checked, self.flag = np.zeros((2, 3), np.int64)  # where an index is out of range: (1 + node, index, size)
        self.flags: list[tuple[np.ndarray, Graph]] = []  # those in use, and those of loops
        self.patches: dict[Value, list[tuple[int, int]]] = {}
        self.spans: dict[Value, list[tuple[np.ndarray, np.ndarray]]] = {}  # the same for loops, many words at once
        self._write_segments(keys, counts)
        self._write_tables()
        self._find_flags()
        starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        meets = any(isinstance(slot.step, Launch) and slot.step.kernel.meeting for slot in self.slots)
        self.meetings = Meetings(self, starts) if meets else None
        alone = all((table[3::4] >> 8 == 1).all() for table in self.native_tables)
        self.workers = 1 if alone else self.threads  # nobody is called to watch thread 0

    def _compile(self) -> dict[int, str]:
        """Make the kernels; their keys by the number of the slot."""
        target, barrier = jit.Target.host(), native.barrier_ir()
        texts: dict[str, Any] = {}
        keys: dict[int, str] = {}
        for number, slot in enumerate(self.slots):
            if isinstance(slot.step, Launch):
                key = keys[number] = slot.step.kernel.key()
                texts.setdefault(key, functools.partial(slot.step.kernel.text, jit.symbol(key), target, barrier))
        if any(is_await(slot.step) for slot in self.slots):
            meet = Meet()
            texts.setdefault(meet.key(), functools.partial(meet.text, jit.symbol(meet.key()), target, barrier))
        self.handles = jit.build(texts)
        return keys

    def _write_segments(self, keys: dict[int, str], counts: Sequence[int]) -> None:
        """Argument words and rows of the tables, step by step; a host call stands between two tables."""
        last_check = max((slot.phase for slot in self.slots if _halts(slot.step)), default=-1)
        start, at = address(self.words), 0
        self.segments: list[Any] = []
        rows: list[Any] = []
        for number, slot in enumerate(self.slots):
            step = slot.step
            if isinstance(step, HostCall) and not isinstance(step, Repeat):
                self.segments.append(step)
                rows = []
                continue
            if not rows:
                self.segments.append(rows)
            stop = STOP if slot.phase == last_check or is_await(step) else 0
            if isinstance(step, Repeat):
                self._write_loop(step, at)
                several = step.rows(start + 8 * at, number)
                several[-1, 2] |= stop
                rows.append(several)
            else:
                self._write_launch(step, at, number)
                last = number + 1 == len(self.slots) or self.slots[number + 1].phase != slot.phase
                flags = (BARRIER | stop if last else 0) | native.step_flags(slot.only, slot.group)
                rows.append([self.handles[keys[number]].address, start + 8 * at, flags, number])
                if is_await(step):  # all threads have asked whether the plan ends here before one can end it further on
                    rows.append([self.handles[Meet().key()].address, 0, BARRIER, number])
            at += counts[number]

    def _write_launch(self, step: Launch, at: int, number: int) -> None:
        """The argument words of a kernel, from word `at` on."""
        base = address(self.memory)
        for n, (root, offset) in enumerate(step.words):
            if root in self.offsets:
                self.words[at + n] = base + self.offsets[root] + offset
            else:
                self.patches.setdefault(root, []).append((at + n, offset))
        for name, word in extra_words(step):
            if name == "meeting":  # filled at each run
                continue
            flag = self.checked if step.kernel.halts else self.flag
            known = {"flag": address(flag), "who": step.group.nodes[0].number + 1}
            self.words[at + word] = known[name] if name in known else base + self.offsets[name, number]

    def _write_tables(self) -> None:
        """The rows of each segment as one array: their number, then four words each."""
        self.native_tables = []
        for n, segment in enumerate(self.segments):
            if isinstance(segment, list):
                rows = np.concatenate([np.reshape(row, (-1, 4)) for row in segment])
                table = np.array([len(rows), *rows.ravel()], np.int64)
                self.native_tables.append(table)
                self.segments[n] = address(table)

    def _find_flags(self) -> None:
        """Which of the flags for indices out of range some kernel may set."""
        kernels = [slot.step.kernel for slot in self.slots if isinstance(slot.step, Launch)]
        for flag, halts in ((self.flag, False), (self.checked, True)):
            if any(k.flag is not None and k.halts == halts for k in kernels):
                self.flags.insert(0, (flag, self.graph))  # a check knows what it is a check of

    def _write_loop(self, step: Repeat, at: int) -> None:
        """The argument words of a loop, from word `at` on."""
        words, places = step.arguments()
        self.flags += step.plan.flags
        self.words[at : at + step.count] = words
        for root, numbers, offsets in places:
            if root in self.offsets:
                self.words[at + numbers] = address(self.memory) + self.offsets[root] + offsets
            else:
                self.spans.setdefault(root, []).append((at + numbers, offsets))

    def places(self, root: Value) -> list[tuple[np.ndarray, np.ndarray]]:
        """The argument words that hold addresses in the memory of a source or output, with their offsets."""
        single = np.array(self.patches.get(root, ()), np.int64).reshape(-1, 2)
        return [(single[:, 0], single[:, 1]), *self.spans.get(root, ())]

    @property
    def is_native(self) -> bool:
        """Whether Python has nothing to do but to say where arguments and results lie."""
        alone = len(self.segments) == 1 and isinstance(self.segments[0], int) and self.meetings is None
        return alone and not (self.fetched or self.captured)

    def host_work(self) -> collections.Counter[str]:
        """What Python computes at each run: operations by name, and how often; those of a loop's body once."""
        found: collections.Counter[str] = collections.Counter()
        for slot in self.slots:
            if isinstance(slot.step, HostCall):
                node = slot.step.node
                works = not (isinstance(slot.step, Repeat) or node.op.shared) and any(v.size for v in node.outputs)
                found.update({node.op.name: 1} if works else {})
                for inner in slot.step.plans:
                    found.update(inner.host_work())
        return found

    # ------------------------------------------------------------------------------------- sources
    def _bind_sources(self) -> None:
        """Find out which words each source goes to, and fill in those that stay."""
        self.arrays: dict[Value, np.ndarray] = {}
        self.arguments: list[tuple[int, Value]] = []
        self.fetched: list[tuple[Any, np.ndarray]] = []
        self.captured: list[Value] = []
        written = (state.value.node for state in self.graph.states if state.final is not None)  # perhaps never read
        for node in dict.fromkeys((*self.graph.nodes, *written)):
            if not isinstance(node.op, Source):
                continue
            value, op = node.output, node.op
            if isinstance(op, Constant):
                self._point(value, np.ascontiguousarray(op.array).reshape(value.shape))
            elif isinstance(op, Fetched):
                array = np.zeros(value.shape, value.dtype)
                self.fetched.append((op.fetch, array))
                self._point(value, array)
            elif isinstance(op, Argument):
                self.arguments.append((op.position, value))
            elif isinstance(op, Captured):
                self.captured.append(value)
        self.passing = [*(value for _, value in self.arguments), *self.outputs]
        self.rebind()
        self._find_places()
        self.small = sum(int(table[0]) for table in self.native_tables) < 4 and self.meetings is None

    def _find_places(self) -> None:
        """What a run looks up for every argument and output, beside each other in memory: runs come when caches are cold.

        Where nothing but native code reads them (`alone`), their arrays need not be known.
        """
        self.memory_of_words = memoryview(self.words)
        native = all(isinstance(x, int) for x in self.segments) and self.meetings is None
        self.alone = native and not (self.closing or self.spans)
        place = lambda value: tuple(self.patches.get(value, ())) if self.alone else None
        self.entering = tuple((at, v.node.op.strides is None, place(v), v) for at, v in self.arguments)
        orders = self.graph.orders
        self.leaving = tuple((v.shape, v.dtype, orders.get(n), place(v), v) for n, v in enumerate(self.outputs))

    def _enter(self, root: Value, places: tuple[tuple[int, int], ...] | None, array: np.ndarray) -> None:
        """As `_point`, by what `_find_places` has found."""
        if places is None:
            self._point(root, array)
            return
        start, words = address(array), self.memory_of_words
        for word, offset in places:
            words[word] = start + offset

    def rebind(self) -> None:
        """Look up anew where the captured tensors lie."""
        for value in self.captured:
            self._point(value, value.node.op.tensor.array)

    def _point(self, root: Value, array: np.ndarray) -> None:
        self.arrays[root] = array
        start = address(array)
        for word, offset in self.patches.get(root, ()):
            self.words[word] = start + offset
        for numbers, offsets in self.spans.get(root, ()):
            self.words[numbers] = start + offsets

    def array_of(self, value: Value) -> np.ndarray:
        """A value's memory as an array, for host calls."""
        view: Region = self.lowering.window(value)
        if view.root in self.offsets:
            at = self.offsets[view.root] + view.offset
            return np.ndarray(value.shape, value.dtype, self.memory, at, view.strides)
        array = self.arrays[view.root]
        if value is view.root:
            return array
        if view.offset == 0 and array.shape == value.shape and array.strides == view.strides:
            return array
        return np.lib.stride_tricks.as_strided(_at_offset(array, view.offset, value.dtype), value.shape, view.strides)

    # --------------------------------------------------------------------------------------- running
    @property
    def may_fail(self) -> bool:
        """Whether a run can end with an error of the operations in it."""
        host = not all(isinstance(segment, int) for segment in self.segments)
        return bool(self.flags) or host or self.meetings is not None

    def run(self, arguments: Sequence[np.ndarray], memory: Mapping[int, np.ndarray] = {}) -> list[np.ndarray]:
        """The outputs for these arguments, made in `memory` where it has their number; states are written in place.

        If there is an error, states are as they were, and so is the memory of outputs that are `late`.
        """
        try:
            return self._run(arguments, memory)
        finally:
            if not self.alone:
                for value in self.passing:  # so that memory ends with the tensors that the caller drops
                    self.arrays.pop(value, None)
            if self.meetings is not None:
                self.meetings.end()

    def _run(
        self,
        arguments: Sequence[np.ndarray],
        memory: Mapping[int, np.ndarray] = {},
        held: list[np.ndarray] | None = None,
    ) -> list[np.ndarray]:
        """As `run`; copies of arguments come into `held`, for as long as native code reads them."""
        held = [] if held is None else held
        for position, dense, places, value in self.entering:
            array = arguments[position]
            if dense and not array.flags.c_contiguous:
                array = np.ascontiguousarray(array)
                held.append(array)
            self._enter(value, places, array)
        for fetch, array in self.fetched:
            array[...] = fetch()
        results = []
        for number, (shape, kind, order, places, value) in enumerate(self.leaving):
            array = memory.get(number)
            if array is None:
                array = empty(shape, kind, order)
            self._enter(value, places, array)
            results.append(array)
        if self.meetings is not None:
            self.meetings.begin(self.arrays)
        pool = get_pool(self.workers)
        for segment in self.segments:
            if isinstance(segment, int):
                if timing.listeners:
                    self._run_told(pool, segment)
                else:
                    pool.run(segment, self.small)
                if self.meetings is not None:
                    self._meet(pool, segment)
                self.check_indices()
            else:
                self._call_host(segment)
        for state in self.closing:
            op = state.value.node.op
            target = arguments[op.position] if isinstance(op, Argument) else state.tensor.array
            np.copyto(target, self.array_of(state.final))
        return results

    def _meet(self, pool: Any, segment: int) -> None:
        """While a table has ended because other ranks have not come: wait for them, and run the rest."""
        while (number := self.meetings.late()) is not None:
            self.check_indices()
            self.meetings.wait(number)
            rest = rest_of(next(t for t in self.native_tables if address(t) == segment), number)
            pool.run(address(rest))

    def _run_told(self, pool: Any, segment: int) -> None:
        """Run a table of kernels and tell listeners the time of each."""
        table = next(t for t in self.native_tables if address(t) == segment)
        times = np.zeros(int(table[0]), np.int64)
        begin = time.perf_counter_ns()
        pool.run_timed(segment, address(times))
        for number, taken in zip(table[4::4].tolist(), times.tolist(), strict=True):
            step = self.slots[number].step
            operations = "+".join(dict.fromkeys(node.op.name for node in step.group.nodes))
            timing.tell(f"{type(step.kernel).__name__}: {operations}", "kernel", begin, taken)
            begin += taken

    def _call_host(self, step: HostCall) -> None:
        found = step.compute([self.array_of(v) for v in step.node.inputs])
        for value, array in zip(step.node.outputs, found, strict=True):
            if array is not None:
                np.copyto(self.array_of(value), array, casting="unsafe")

    def measure(self, arguments: Sequence[np.ndarray]) -> list[float]:
        """Run once, then again for the microseconds of each step; other ranks that the plan calls do the same."""
        held: list[np.ndarray] = []
        try:
            held += self._run(arguments, held=held)
            if self.meetings is not None:
                self.meetings.end()
                self.meetings.begin(self.arrays)
            return self._measured()
        finally:
            if self.meetings is not None:
                self.meetings.end()

    def _measured(self) -> list[float]:
        pool, found = get_pool(self.workers), np.zeros(len(self.slots))
        numbers = {id(slot.step): number for number, slot in enumerate(self.slots)}
        for segment in self.segments:
            if not isinstance(segment, int):
                begin = time.perf_counter()
                self._call_host(segment)
                found[numbers[id(segment)]] = (time.perf_counter() - begin) * 1e6
                continue
            table = next(t for t in self.native_tables if address(t) == segment)
            times = np.zeros(int(table[0]), np.int64)
            pool.run_timed(segment, address(times))
            np.add.at(found, table[4::4], times / 1000)
            if self.meetings is not None:
                self._meet(pool, segment)
        return found.tolist()

    def check_indices(self) -> None:
        """If an index was out of range: say which, and be ready for the next run."""
        for flag, graph in self.flags:
            if flag[0]:
                who, index, size = (int(n) for n in flag)
                for one, _ in self.flags:
                    one[:] = 0
                raise wrong_index(next(n for n in graph.nodes if n.number == who - 1), index, size)


def told_host_work(work: Mapping[str, int]) -> str:
    """Operations with their counts, the most frequent first."""
    rows = sorted(work.items(), key=lambda row: (-row[1], row[0]))
    return ", ".join(name if count == 1 else f"{count} × {name}" for name, count in rows)


def _count_of_words(step: Launch | HostCall) -> int:
    """How many argument words a step has."""
    if isinstance(step, Launch):
        return max([len(step.words), *(at + 1 for _, at in extra_words(step))])
    return step.count


def _halts(step: Launch | HostCall) -> bool:
    return step.kernel.halts if isinstance(step, Launch) else isinstance(step, Repeat) and has_checks(step.plan.graph)


def extra_words(step: Launch) -> list[tuple[str, int]]:
    """The argument words of the memory that a kernel asks for: those it names, or the ones after its operands."""
    found, at, kernel = [], len(step.words), step.kernel
    if kernel.flag is not None:
        found += [("flag", kernel.flag), ("who", kernel.flag + 1)]
        at += 2
    asked = ("workspace", kernel.workspace, kernel.workspace_word), ("scratch", kernel.scratch, kernel.scratch_word)
    for name, size, word in asked:
        if size:
            found.append((name, at if word is None else word))
            at += 1
    return found + [("meeting", at + k) for k in range(kernel.meeting)]


def _at_offset(array: np.ndarray, offset: int, dtype: np.dtype) -> np.ndarray:
    """A 0-d array at some bytes from the start of another one's data, keeping it alive."""
    interface = dict(array.__array_interface__)
    interface["data"] = (interface["data"][0] + offset, False)
    interface["shape"], interface["strides"] = (), None
    interface["typestr"], interface["descr"] = dtype.str, [("", dtype.str)]
    return np.asarray(_Interface(interface, array)).view(dtype)  # types that the interface does not name


class _Interface:
    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__, self.owner = interface, owner
