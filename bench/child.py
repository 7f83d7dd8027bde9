"""One peer on one task, in a process of its own: `child.py MODULE VARIANT TASK OPTIONS`, started by `run.py`.

Says what it did as lines of JSON: first the first step (and, unless only that is asked for, the task's loss), then for
every line it is sent either a window of timed steps (`go`) or the end: the most memory it had, the times of parts.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from machine import busy_seconds, clock, own_seconds, peak_memory, wait_quiet

Clock = Callable[[], float]


def taken(function: Callable[[], Any], now: Clock = time.perf_counter) -> float:
    start = now()
    function()
    return now() - start


def timed(step: Callable[[], Any], seconds: float, now: Clock) -> list[float]:
    """Seconds of single steps, as many as fit into the given time but one at least; one more comes before them."""
    step()
    times: list[float] = []
    passed = 0.0
    while not times or passed + times[-1] < seconds:
        times.append(taken(step, now))
        passed += times[-1]
    return times


def window(step: Callable[[], Any], seconds: float, now: Clock) -> dict[str, float]:
    """Median and best step, and how many cores were used by this process and by others meanwhile."""
    busy, own, start = busy_seconds(), own_seconds(), time.perf_counter()
    times = timed(step, seconds, now)
    wall = time.perf_counter() - start
    ours = own_seconds() - own
    return {
        "median_ms": 1e3 * statistics.median(times),
        "best_ms": 1e3 * min(times),
        "cores": ours / wall,
        "others": max(0.0, (busy_seconds() - busy - ours) / wall),
    }


def say(found: dict[str, Any]) -> None:
    print(json.dumps(found), flush=True)


def serve(module: str, variant: str, task: str, options: dict[str, float]) -> None:
    """Import, build, first step, the task's steps to its loss; then windows as long as they are asked for."""
    import tasks  # the yardstick's

    start = time.perf_counter()
    peer = importlib.import_module(module)
    found: dict[str, Any] = {"import_s": time.perf_counter() - start, "version": peer.version()}
    step, parts = peer.build(task, variant)
    wait_quiet(options["patience"])
    found["first_s"] = taken(lambda: peer.value(step()))
    if options["only_first"]:
        return say(found)
    for _ in range(tasks.TASKS[task]["steps"] - 1):
        loss = step()
    say(found | {"loss": peer.value(loss)})
    now = clock(int(options["threads"]))
    for line in sys.stdin:
        if line.strip() != "go":
            break
        say(window(step, options["seconds"], now))
    peak = peak_memory()
    say(
        {
            "peak_mb": peak,
            "parts_ms": {
                name: 1e3 * statistics.median(timed(part, options["seconds"], now)) for name, part in parts.items()
            },
        }
    )


if __name__ == "__main__":
    serve(*sys.argv[1:4], json.loads(sys.argv[4]))
    os._exit(0)  # some peers take long to shut down
