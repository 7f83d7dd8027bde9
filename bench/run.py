"""Whole training steps: Weft compiled and eager, PyTorch eager, torch.compile and JAX on fifteen tasks.

    python bench/run.py [--tasks mlp_small,lstm] [--peers weft,torch] [--repeat 3] [--quick] [--out build/bench]

Every measurement is a process of its own with the same number of threads; the peers take turns. Compiled code is cached
in a folder that is empty when a peer meets a task for the first time: that first step is the cold one, the first step
of another process is the warm one. The tasks and the programs of the other libraries are read from a folder, the
yardstick (`--yardstick` or WEFT_YARDSTICK; `../shared/bench` beside this repository by default).

Writes table.txt, results.json and ratios.png to the folder `--out`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import machine

HERE = Path(__file__).resolve().parent
PEERS = {  # name in the table: module and variant
    "weft": ("weft_tasks", "compile"),
    "weft_eager": ("weft_tasks", "eager"),
    "torch": ("torch_tasks", "eager"),
    "torch_compile": ("torch_tasks", "compile"),
    "jax": ("jax_tasks", "jit"),
}
COMPILING = ("weft", "torch_compile", "jax")
NEEDED = ("tasks.py", "torch_tasks.py", "jax_tasks.py")


def find_yardstick(given: str | None) -> Path:
    """The folder with the tasks, or an end with a message that says what is missing."""
    folder = Path(given or os.environ.get("WEFT_YARDSTICK") or HERE.parent.parent / "shared" / "bench").resolve()
    missing = [name for name in NEEDED if not (folder / name).is_file()]
    if missing:
        raise SystemExit(
            f"bench: {folder} does not hold {', '.join(missing)}: the tasks and the programs of the other libraries are "
            "read from a folder apart from this repository; name it with --yardstick or WEFT_YARDSTICK"
        )
    return folder


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="all", help="names with commas between them")
    parser.add_argument("--peers", default="all", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--repeat", type=int, default=3, help="processes for each peer and task")
    parser.add_argument("--quick", action="store_true", help="one process each, shorter timing, no waiting for quiet")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--min-steps", type=int, default=30)
    parser.add_argument("--min-time", type=float, default=1.0, help="seconds timed at least")
    parser.add_argument("--max-time", type=float, default=3.0, help="seconds after which timing ends")
    parser.add_argument("--patience", type=float, default=15.0, help="seconds to wait for a quiet machine")
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds for one process")
    parser.add_argument("--out", type=Path, default=HERE.parent / "build" / "bench", help="folder for the results")
    parser.add_argument("--yardstick", help="folder with the tasks")
    options = parser.parse_args()
    if options.quick:
        options.repeat, options.min_steps, options.min_time, options.max_time, options.patience = 1, 10, 0.3, 1.5, 0.0
    return options


def chosen(given: str, known: list[str], kind: str) -> list[str]:
    names = known if given == "all" else given.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"bench: no {kind} {', '.join(unknown)}; there are {', '.join(known)}")
    return names


def measure(peer: str, task: str, options: argparse.Namespace, cache: Path, only_first: bool = False) -> dict[str, Any]:
    """What the child says about a peer on a task, or the error that ended it."""
    asked = {key: getattr(options, key) for key in ("min_steps", "min_time", "max_time", "patience")}
    command = [
        sys.executable,
        str(HERE / "child.py"),
        *PEERS[peer],
        task,
        json.dumps(asked | {"only_first": only_first}),
    ]
    variables = machine.environment(options.threads, cache)
    variables["PYTHONPATH"] = os.pathsep.join([str(HERE), str(options.folder), variables.get("PYTHONPATH", "")])
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        return {"error": f"no result after {options.timeout:g} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode == 0 and lines:
        return json.loads(lines[-1])
    said = [line for line in done.stderr.splitlines() if line.strip()] or [f"ended with {done.returncode}"]
    return {"error": next((line for line in reversed(said) if "Error" in line), said[-1]).strip()}


def measurements(
    tasks: list[str], peers: list[str], options: argparse.Namespace, cache: Path
) -> Iterator[dict[str, Any]]:
    """Every measurement in turn; the peer that begins changes, and one that failed on a task is not asked again."""
    failed = set()
    for repeat in range(options.repeat):
        for number, task in enumerate(tasks):
            first = (number + repeat) % len(peers)
            for peer in peers[first:] + peers[:first]:
                if (peer, task) in failed:
                    continue
                folder = cache / peer / task
                folder.mkdir(parents=True, exist_ok=True)
                found = measure(peer, task, options, folder)
                found.update(peer=peer, task=task, repeat=repeat)
                if "error" in found:
                    failed.add((peer, task))
                elif repeat == 0 and peer in COMPILING:
                    found["warm_s"] = measure(peer, task, options, folder, only_first=True).get("first_s")
                yield found


def progress(found: dict[str, Any]) -> str:
    said = (
        found.get("error")
        or f"{found['median_ms']:10.3f} ms, first step {found['first_s']:.2f} s, loss {found['loss']:.5g}"
    )
    return f"[{found['repeat']}] {found['task']:15} {found['peer']:14} {said}"


def main() -> None:
    options = arguments()
    options.folder = find_yardstick(options.yardstick)
    sys.path.insert(0, str(options.folder))
    import report
    import tasks

    names = chosen(options.tasks, tasks.NAMES, "task")
    peers = chosen(options.peers, list(PEERS), "peer")
    options.out.mkdir(parents=True, exist_ok=True)
    runs: list[dict[str, Any]] = []
    peaks = [machine.peaks(options.threads, options.patience)]
    about = {"threads": options.threads, "started": time.strftime("%Y-%m-%d %H:%M"), "peaks": peaks, "runs": runs}
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as cache:
        for found in measurements(names, peers, options, Path(cache)):
            runs.append(found)
            print(progress(found), file=sys.stderr, flush=True)
            (options.out / "results.json").write_text(json.dumps(about, indent=1))
    peaks.append(machine.peaks(options.threads, options.patience))
    print(report.write(about, options.out))


if __name__ == "__main__":
    main()
