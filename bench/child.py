"""One peer on one task in a process of its own; prints what it measured as one line of JSON.

    python bench/child.py MODULE VARIANT TASK '{"min_steps": 30, "min_time": 1, "max_time": 3, "patience": 15}'

MODULE has `build(task, variant)`, `value(loss)` and `version()`. `"only_first": true` stops after the first step,
which is what compiling costs.
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

from machine import QUIET, busy_seconds, own_seconds, peak_memory, wait_quiet

ATTEMPTS = 3  # a program that takes a core away spoils a measurement: wait, and measure again


def clock(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def timed(step: Callable[[], Any], options: dict[str, float]) -> list[float]:
    """Seconds of single steps: `min_steps` and `min_time` at least, `max_time` at most."""
    times: list[float] = []
    passed = 0.0
    while passed < options["max_time"] and (len(times) < options["min_steps"] or passed < options["min_time"]):
        times.append(clock(step))
        passed += times[-1]
    return times


def measured(step: Callable[[], Any], options: dict[str, float]) -> dict[str, float]:
    """Median and best step, and how many cores were used by this process and by others meanwhile."""
    busy, own, start = busy_seconds(), own_seconds(), time.perf_counter()
    times = timed(step, options)
    wall = time.perf_counter() - start
    ours = own_seconds() - own
    return {
        "steps": len(times),
        "median_ms": 1e3 * statistics.median(times),
        "best_ms": 1e3 * min(times),
        "cores": ours / wall,
        "others": max(0.0, (busy_seconds() - busy - ours) / wall),
    }


def run(module: str, variant: str, task: str, options: dict[str, float]) -> dict[str, Any]:
    """Import, build, first step, the task's warm-up to its loss, then timed steps."""
    import tasks  # the yardstick's

    start = time.perf_counter()
    peer = importlib.import_module(module)
    found: dict[str, Any] = {"import_s": time.perf_counter() - start, "version": peer.version()}
    found["import_mb"] = peak_memory()
    step, parts = peer.build(task, variant)
    wait_quiet(options["patience"])
    found["first_s"] = clock(lambda: peer.value(step()))
    if options.get("only_first"):
        return found
    warm_up = tasks.TASKS[task]["steps"] - 1
    for _ in range(warm_up):
        loss = step()
    found["loss"] = peer.value(loss)
    tries = []
    while len(tries) < ATTEMPTS and all(t["others"] >= QUIET for t in tries):
        wait_quiet(options["patience"])
        tries.append(measured(step, options))
    found.update(min(tries, key=lambda t: t["others"]))
    found["parts_ms"] = {name: 1e3 * statistics.median(timed(part, options)) for name, part in parts.items()}
    found["peak_mb"] = peak_memory()
    return found


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:4], json.loads(sys.argv[4]))), flush=True)
    os._exit(0)  # some peers take long to shut down
