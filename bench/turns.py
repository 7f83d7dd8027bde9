"""Weft and PyTorch timed in turns: each in a process of its own, one program after the other, medians of many rounds.

A benchmark gives `run` a function that makes its programs for a library; everything else is here.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from machine import clock

Programs = Callable[[Any], dict[str, Callable[[], Any]]]


def worker(
    name: str, programs: Programs, only: str, threads: int, seconds: float, processor: bool, connection: Any
) -> None:
    """Time the programs that the driver asks for, until it hangs up; a short one is repeated to last `seconds`."""
    library = importlib.import_module(name)
    library.set_num_threads(threads)
    now = clock(threads) if processor else time.perf_counter
    made = {key: program for key, program in programs(library).items() if only in key}
    repeats = {key: _repeats(program, seconds) for key, program in made.items()}
    connection.send(list(made))
    while (asked := connection.recv()) is not None:
        program = made[asked]
        start = now()
        for _ in range(repeats[asked]):
            program()
        connection.send((now() - start) / repeats[asked])


def _repeats(program: Callable[[], Any], seconds: float) -> int:
    """How often a program must run to last `seconds`, from its fastest of three runs after a first one."""
    times = []
    for _ in range(4):
        start = time.perf_counter()
        program()
        times.append(time.perf_counter() - start)
    return max(1, round(seconds / min(times[1:])))


def measure(
    programs: Programs, only: str, rounds: int, threads: int, seconds: float, processor: bool = False
) -> dict[str, dict[str, float]]:
    """Median seconds of every program for both libraries."""
    context = multiprocessing.get_context("spawn")
    peers = {}
    for name in ("weft", "torch"):
        ours, theirs = context.Pipe()
        told = (name, programs, only, threads, seconds, processor, theirs)
        process = context.Process(target=worker, args=told, daemon=True)
        process.start()
        theirs.close()  # so that a worker that dies is noticed
        peers[name] = (ours, process, ours.recv())
    keys = peers["weft"][2]
    times: dict[str, dict[str, list[float]]] = {key: {"weft": [], "torch": []} for key in keys}
    for _ in range(rounds):
        for key in keys:
            for name, (connection, _, _) in peers.items():
                time.sleep(0.005)  # what the other one left running comes to rest
                connection.send(key)
                times[key][name].append(connection.recv())
    for connection, process, _ in peers.values():
        connection.send(None)
        process.join()
    return {key: {n: statistics.median(t) for n, t in by_name.items()} for key, by_name in times.items()}


def run(
    title: str,
    description: str,
    programs: Programs,
    rounds: int = 41,
    seconds: float = 0.01,
    processor: bool = False,
) -> None:
    """The command line of a benchmark: measure, print medians and ratios, perhaps write them to a file.

    processor: on one thread time is that of the processor, so that waiting for other programs is left out
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--threads", type=int, default=1 if processor else 2)
    parser.add_argument("--only", default="", help="only the programs with this in their name")
    parser.add_argument("--json", help="write the medians to this file")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    # Idle worker threads sleep within a millisecond: those of one library must not spin on the cores of the other.
    os.environ.update(GOMP_SPINCOUNT="100000", OPENBLAS_THREAD_TIMEOUT="20")
    medians = measure(programs, options.only, options.rounds, options.threads, seconds, processor)
    print(f"{title:<44}{'weft µs':>10}{'torch µs':>10}{'ratio':>8}")
    for key, by_name in medians.items():
        weft, torch = by_name["weft"] * 1e6, by_name["torch"] * 1e6
        print(f"{key:<44}{weft:>10.0f}{torch:>10.0f}{weft / torch:>8.2f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(medians, file, indent=1)
