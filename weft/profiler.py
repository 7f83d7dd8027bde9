"""What a program spends its time on: operations of NumPy's, native kernels and named ranges, with their times.

    >>> from weft.profiler import profile, record_function
    >>> with profile() as prof, record_function("product"):
    ...     y = weft.randn(50, 50) @ weft.randn(50, 50)
    >>> "product" in prof.key_averages().table()
    True

`export_chrome_trace` writes a file for chrome://tracing or Perfetto. Kernels are those of compiled functions and of large
eager operations, timed on the thread that called; the rest of the eager work is timed where it enters NumPy. Times count the
profiler's own work, a microsecond or so for each event.
"""

from __future__ import annotations

import functools
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from .errors import OptionError
from .runtime import timing
from .runtime.lazy import later as _later
from .tape.modes import mode

__all__ = [
    "Event",
    "EventAverage",
    "EventList",
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "tensorboard_trace_handler",
]


class ProfilerActivity(Enum):
    """What to listen to; there is only the CPU."""

    CPU, CUDA, XPU, MTIA = range(4)


class ProfilerAction(Enum):
    """What a profiler does in a step."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


@dataclass(frozen=True)
class Event:
    """Something that ran: its name, its kind ('numpy', 'kernel' or 'range'), begin and length in microseconds."""

    name: str
    kind: str
    begin: float
    length: float
    thread: int

    @property
    def key(self) -> str:
        """Its name."""
        return self.name

    @property
    def cpu_time(self) -> float:
        """Its length."""
        return self.length


@dataclass
class EventAverage:
    """All events of one name."""

    key: str
    kind: str
    count: int = 0
    cpu_time_total: float = 0.0  # microseconds

    @property
    def cpu_time(self) -> float:
        """Microseconds on average."""
        return self.cpu_time_total / self.count

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds in all: events of a kind do not contain each other."""
        return self.cpu_time_total


class EventList(list):
    """Averages by name; `table()` prints them."""

    def table(self, sort_by: str | None = None, row_limit: int = 100, **_: Any) -> str:
        """A line for each name, the longest first unless `sort_by` is 'count' or 'cpu_time'."""
        key = {None: "cpu_time_total", "count": "count", "cpu_time": "cpu_time", "cpu_time_avg": "cpu_time"}
        order = key.get(sort_by, "cpu_time_total")
        whole = sum(row.cpu_time_total for row in self if row.kind != "range") or 1.0
        rows = sorted(self, key=lambda row: -getattr(row, order))[:row_limit]
        width = max([4, *(len(row.key) for row in rows)])
        head = f"{'name':<{width}}  {'kind':<6} {'share':>6} {'total µs':>12} {'mean µs':>10} {'calls':>7}"
        lines = [
            f"{row.key:<{width}}  {row.kind:<6} {'' if row.kind == 'range' else f'{row.cpu_time_total / whole:6.1%}':>6} "
            f"{row.cpu_time_total:12.1f} {row.cpu_time:10.2f} {row.count:7d}"
            for row in rows
        ]
        return "\n".join([head, "-" * len(head), *lines, f"self CPU time total: {whole / 1000:.3f} ms"])

    def total_average(self) -> EventAverage:
        """All of them as one."""
        timed = [row for row in self if row.kind != "range"]
        return EventAverage("Total", "all", sum(r.count for r in timed), sum(r.cpu_time_total for r in timed))

    __str__ = table


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, **_: Any
) -> Callable[[int], ProfilerAction]:
    """Which steps are recorded: after `skip_first`, again and again `wait` idle, `warmup` and `active` steps."""
    cycle = wait + warmup + active
    if active < 1:
        raise OptionError(f"schedule: at least one step must be active, got {active}")

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0 or (repeat and step >= repeat * cycle):
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == cycle - 1 else ProfilerAction.RECORD

    return action


class profile:  # PyTorch spells it in lower case
    """Listens to what runs within it.

    activities, record_shapes, profile_memory, with_stack, with_flops: taken for PyTorch's sake
    schedule: which steps (ended by `step()`) are recorded; without one, all that runs
    on_trace_ready: called with the profiler when a recorded stretch has ended
    """

    def __init__(
        self,
        activities: Iterable[Any] | None = None,
        *args: Any,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        enabled: bool = True,
        **options: Any,
    ) -> None:
        self.schedule, self.on_trace_ready, self.enabled = schedule, on_trace_ready, enabled
        self.step_num, self._events, self._plain = 0, [], None
        self._action = ProfilerAction.RECORD if schedule is None else schedule(0)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to listen."""
        if not self.enabled:
            return
        timing.listeners.append(self._heard)
        self._plain = mode._compute
        mode._compute = _timed(self._plain)
        if mode.interpreter is None:
            mode.run = mode._compute

    def stop(self) -> None:
        """Listen no longer."""
        if self._plain is None:
            return
        timing.listeners.remove(self._heard)
        mode._compute, self._plain = self._plain, None
        if mode.interpreter is None:
            mode.run = mode._compute
        if self.on_trace_ready is not None and (self.schedule is None or self._recording()):
            self.on_trace_ready(self)

    def step(self) -> None:
        """A step of the program has ended."""
        if self._action is ProfilerAction.RECORD_AND_SAVE and self.on_trace_ready is not None:
            self.on_trace_ready(self)
        self.step_num += 1
        if self.schedule is not None:
            before, self._action = self._action, self.schedule(self.step_num)
            if before is ProfilerAction.RECORD_AND_SAVE and self._recording():
                self._events = []

    def _recording(self) -> bool:
        return self._action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)

    def _heard(self, name: str, kind: str, begin: int, length: int) -> None:
        if self._recording():
            self._events.append(Event(name, kind, begin / 1000, length / 1000, threading.get_ident()))

    def events(self) -> list[Event]:
        """Everything that was heard, in the order of its end."""
        return list(self._events)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The events of each name together."""
        found: dict[tuple[str, str], EventAverage] = {}
        for event in self._events:
            row = found.setdefault((event.name, event.kind), EventAverage(event.name, event.kind))
            row.count += 1
            row.cpu_time_total += event.length
        return EventList(found.values())

    def table(self, *args: Any, **options: Any) -> str:
        """`key_averages().table(…)`."""
        return self.key_averages().table(*args, **options)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write what was heard for chrome://tracing and Perfetto."""
        threads = {ident: i for i, ident in enumerate(dict.fromkeys(event.thread for event in self._events))}
        rows = [
            {
                "name": e.name,
                "cat": e.kind,
                "ph": "X",
                "ts": e.begin,
                "dur": e.length,
                "pid": os.getpid(),
                "tid": threads[e.thread],
            }
            for e in self._events
        ]
        Path(path).write_text(json.dumps({"traceEvents": rows, "displayTimeUnit": "ms"}), encoding="utf-8")


def _timed(compute: Callable) -> Callable:
    """`mode.run`, with its time told."""

    def run(function: Callable, *arrays: Any, **params: Any) -> Any:
        begin = time.perf_counter_ns()
        result = compute(function, *arrays, **params)
        owner = getattr(function, "__self__", None)
        name = getattr(owner, "name", None) or getattr(function, "__name__", type(function).__name__)
        timing.tell(str(name), "numpy", begin, time.perf_counter_ns() - begin)
        return result

    return run


class record_function:  # PyTorch spells it in lower case
    """A named range: `with record_function("forward"):`, or as a decorator."""

    def __init__(self, name: str, args: Any = None) -> None:
        self.name, self.begins = name, []

    def __enter__(self) -> record_function:
        self.begins.append(time.perf_counter_ns())
        return self

    def __exit__(self, *_: object) -> None:
        begin = self.begins.pop()
        timing.tell(self.name, "range", begin, time.perf_counter_ns() - begin)

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return within


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """For `on_trace_ready`: each stretch becomes a trace in a folder."""
    numbers: Iterator[int] = iter(range(1 << 62))

    def write(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        prof.export_chrome_trace(Path(dir_name, f"{worker_name or os.getpid()}.{next(numbers)}.pt.trace.json"))

    return write


__getattr__, __dir__ = _later(__name__)
