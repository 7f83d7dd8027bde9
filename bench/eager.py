"""What one small operation costs: Weft against PyTorch, eager, in turns.

Each library lives in its own process of one group with two threads; the driver lets them run in turns
and prints medians and the ratio Weft / PyTorch (below 1: Weft is faster).

    python bench/eager.py [--rounds 41] [--json FILE]
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

SIZE = 8  # the chains work on 8 × 8 float32
LENGTH = 200  # operations in a chain
REPEATS = 8  # chains in one timing


def chains(library: Any) -> dict[str, Callable[[], Any]]:
    """The programs to be timed, written once for both libraries."""
    library.manual_seed(0)
    plain = library.randn(SIZE, SIZE)
    other = library.randn(SIZE, SIZE)
    leaf = library.randn(SIZE, SIZE).requires_grad_()

    def scalars(x: Any) -> Any:
        for _ in range(LENGTH // 2):
            x = x * 1.01 + 0.1
        return x.sum()

    def tensors(x: Any) -> Any:
        for _ in range(LENGTH // 4):
            x = (x * other + other).tanh() - plain
        return x.sum()

    def layers(x: Any) -> Any:
        for _ in range(LENGTH // 4):
            x = (x @ other * 0.2 + plain).relu()
        return x.sum()

    def backward(chain: Callable[[Any], Any]) -> Callable[[], Any]:
        def run() -> None:
            leaf.grad = None
            chain(leaf).backward()

        return run

    programs: dict[str, Callable[[], Any]] = {}
    for name, chain in (("scalars", scalars), ("tensors", tensors), ("layers", layers)):
        programs[f"{name}: forward, no gradient"] = lambda chain=chain: chain(plain)
        programs[f"{name}: forward"] = lambda chain=chain: chain(leaf)
        programs[f"{name}: forward + backward"] = backward(chain)
    return programs


def worker(name: str, connection: Any) -> None:
    """Time the programs that the driver asks for, until it hangs up."""
    library = importlib.import_module(name)
    library.set_num_threads(2)
    programs = chains(library)
    connection.send(list(programs))
    for program in programs.values():
        program()
    while (asked := connection.recv()) is not None:
        start = time.perf_counter()
        for _ in range(REPEATS):
            programs[asked]()
        connection.send((time.perf_counter() - start) / REPEATS)


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Median seconds of every program for both libraries, timed in turns."""
    context = multiprocessing.get_context("spawn")
    peers = {}
    for name in ("weft", "torch"):
        ours, theirs = context.Pipe()
        process = context.Process(target=worker, args=(name, theirs), daemon=True)
        process.start()
        peers[name] = (ours, process, ours.recv())
    programs = peers["weft"][2]
    times: dict[str, dict[str, list[float]]] = {p: {"weft": [], "torch": []} for p in programs}
    for _ in range(rounds):
        for program in programs:
            for name, (connection, _, _) in peers.items():
                connection.send(program)
                times[program][name].append(connection.recv())
    for connection, process, _ in peers.values():
        connection.send(None)
        process.join()
    return {p: {n: statistics.median(t) for n, t in by_name.items()} for p, by_name in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--json", help="write the medians to this file")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    medians = measure(options.rounds)
    print(f"{'chain of ' + str(LENGTH) + ' operations':<34}{'weft µs':>10}{'torch µs':>10}{'ratio':>8}")
    for program, by_name in medians.items():
        weft, torch = by_name["weft"] * 1e6, by_name["torch"] * 1e6
        print(f"{program:<34}{weft:>10.0f}{torch:>10.0f}{weft / torch:>8.2f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(medians, file, indent=1)


if __name__ == "__main__":
    main()
