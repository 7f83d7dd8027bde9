"""Whole training steps in float32 and under autocast in bfloat16: Weft compiled and PyTorch in turns, and losses side by side.

    python bench/precision.py [--only gpt_medium] [--rounds 7] [--threads 1] [--losses 200] [--json FILE]

Tasks and PyTorch's programs are those of run.py, read from the yardstick's folder. A library takes its steps in both
precisions in one process, one after the other, so that what else the machine does meets both alike; with one thread,
seconds of the processor are compared. `--losses` trains so many steps in both precisions from the same parameters and prints the losses, which are to
agree within 1 %.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import run as yardstick

TASKS = ("gpt_medium", "vit_tiny")
GOALS = {"faster than float32": 1.5, "faster than PyTorch's autocast": 1.0}
Step = Callable[[], Any]


def steps_of(library: str, task: str, threads: int) -> dict[str, Step]:
    """The training step in both precisions, each with parameters of its own."""
    if library == "weft":
        import weft_tasks

        import weft

        weft.set_num_threads(threads)
        autocast, kind = weft.amp.autocast, weft.bfloat16
        make = lambda: weft_tasks.build(task, "eager")[0]
        finish = weft.compile
    else:
        import torch
        import torch_tasks

        torch.set_num_threads(threads)
        autocast, kind = torch.autocast, torch.bfloat16
        make = lambda: torch_tasks.build(task, "fused")[0]
        finish = lambda step: step
    inner = make()

    def narrow() -> Any:
        with autocast("cpu", kind):
            return inner()

    return {"float32": finish(make()), "bfloat16": finish(narrow)}


def serve(library: str, task: str, threads: int, losses: int) -> None:
    """Warm up, or train for the losses; then a line of times for every line of input."""
    steps = steps_of(library, task, threads)
    curves = {name: [float(step()) for _ in range(max(3, losses))] for name, step in steps.items()}
    print(json.dumps(curves), flush=True)
    clock = time.process_time if threads == 1 else time.perf_counter
    for _ in sys.stdin:
        taken = {}
        for name, step in steps.items():
            step()
            begin = clock()
            step()
            taken[name] = clock() - begin
        print(json.dumps(taken), flush=True)


def peer(library: str, task: str, options: argparse.Namespace, folder: Path) -> subprocess.Popen[str]:
    """A process that serves one library."""
    here = Path(__file__).resolve()
    paths = os.pathsep.join(map(str, (here.parent.parent, here.parent, folder)))
    count = str(options.threads)
    extra = {"PYTHONPATH": paths, "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count}
    command = [sys.executable, str(here), "--serve", library, "--only", task, "--threads", count]
    command += ["--losses", str(options.losses if library == "weft" else 0)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=os.environ | extra)


def asked(process: subprocess.Popen[str]) -> dict[str, float]:
    """One round of a peer."""
    assert process.stdin and process.stdout
    process.stdin.write("go\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def measure(task: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Medians of seconds by library and precision, of ratios within rounds, and the losses of Weft."""
    peers = {library: peer(library, task, options, folder) for library in ("weft", "torch")}
    curves = {library: json.loads(process.stdout.readline()) for library, process in peers.items()}
    rounds = []
    for _ in range(options.rounds):
        found = {library: asked(process) for library, process in peers.items()}
        rounds.append({f"{library} {name}": t for library, times in found.items() for name, t in times.items()})
    for process in peers.values():
        process.stdin.close()
        process.wait()
    ratio = lambda over, under: statistics.median(r[over] / r[under] for r in rounds)
    far = [abs(x / y - 1) for x, y in zip(curves["weft"]["bfloat16"], curves["weft"]["float32"], strict=True)]
    return {
        "task": task,
        "ms": {name: 1e3 * statistics.median(r[name] for r in rounds) for name in rounds[0]},
        "faster than float32": ratio("weft float32", "weft bfloat16"),
        "faster than PyTorch's autocast": ratio("torch bfloat16", "weft bfloat16"),
        "PyTorch's autocast faster than its float32": ratio("torch float32", "torch bfloat16"),
        "steps": len(far),
        "losses apart at most": max(far),
        "losses apart on average": statistics.mean(far),
        "last losses": {f"{library} {name}": c[-1] for library, by in curves.items() for name, c in by.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(TASKS), help="names of tasks with commas between them")
    parser.add_argument("--rounds", type=int, default=7, help="times that every program is timed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--losses", type=int, default=0, help="steps whose losses are compared")
    parser.add_argument("--yardstick", default=None, help="folder of the tasks")
    parser.add_argument("--json", default=None, help="file for the results")
    parser.add_argument("--serve", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve, options.only, options.threads, options.losses)
    folder, results = yardstick.find_yardstick(options.yardstick), []
    for task in options.only.split(","):
        results.append(measure(task, options, folder))
        for name, value in results[-1].items():
            goal = f"   goal {GOALS[name]}: {'met' if value >= GOALS[name] else 'MISSED'}" if name in GOALS else ""
            print(f"{name}: {value}{goal}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
