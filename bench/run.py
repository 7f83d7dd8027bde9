"""Whole training steps: Weft compiled and eager, PyTorch eager, torch.compile and JAX on fifteen tasks.

    python bench/run.py [--tasks mlp_small,lstm] [--peers weft,torch] [--rounds 9] [--quick] [--out build/bench]

Every peer is a process of its own with the same number of threads. In each round every peer in turn, the others asleep,
times steps for a short while: the speed of a machine that is shared changes from second to second, so only times of the
same round are compared. With one thread, seconds of the processor are. Compiled code is cached in a folder that is empty when a peer meets a task: its first step is
the cold one, the first step of other processes (the median of three) is the warm one. The tasks and the programs of the
other libraries are read from a folder, the yardstick (`--yardstick` or WEFT_YARDSTICK; `../shared/bench` beside this repository by default).

Writes table.txt, results.json and ratios.png to the folder `--out`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
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
WARM = 3  # processes that meet a filled cache; memory that the system has to find anew makes single ones slow
REST = 0.05  # seconds after which idle threads of the peer before sleep
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
    parser.add_argument("--rounds", type=int, default=9, help="times that every peer is timed on a task")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long a peer is timed in a round")
    parser.add_argument("--quick", action="store_true", help="few rounds, no waiting for quiet")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warm", type=int, default=WARM, help="processes that meet a filled cache")
    parser.add_argument("--patience", type=float, default=5.0, help="seconds to wait for a quiet machine")
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds for one answer")
    parser.add_argument("--out", type=Path, default=HERE.parent / "build" / "bench", help="folder for the results")
    parser.add_argument("--yardstick", help="folder with the tasks")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds, options.patience = 3, 0.3, 0.0
    return options


def chosen(given: str, known: list[str], kind: str) -> list[str]:
    names = known if given == "all" else given.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"bench: no {kind} {', '.join(unknown)}; there are {', '.join(known)}")
    return names


class Peer:
    """A process that answers: a line of JSON when it is ready, and one for every line that it is sent."""

    def __init__(
        self, name: str, task: str, options: argparse.Namespace, cache: Path, only_first: bool = False
    ) -> None:
        asked = {"seconds": options.seconds, "patience": options.patience, "threads": options.threads}
        asked["only_first"] = only_first
        command = [sys.executable, str(HERE / "child.py"), *PEERS[name], task, json.dumps(asked)]
        variables = machine.environment(options.threads, cache)
        variables["PYTHONPATH"] = os.pathsep.join([str(HERE), str(options.folder), variables.get("PYTHONPATH", "")])
        self.errors = tempfile.TemporaryFile("w+")
        self.timeout = options.timeout
        self.process = subprocess.Popen(
            command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        self.found = self.answer()

    def ask(self, line: str) -> dict[str, Any]:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next line of JSON, or the error that ended the process."""
        guard = threading.Timer(self.timeout, self.process.kill)
        guard.start()
        try:
            for line in self.process.stdout:
                if line.startswith("{"):
                    return json.loads(line)
        finally:
            guard.cancel()
        self.process.wait()
        self.errors.seek(0)
        said = [line for line in self.errors.read().splitlines() if line.strip()]
        said = said or [f"ended with {self.process.returncode}"]
        return {"error": next((line for line in reversed(said) if "Error" in line), said[-1]).strip()}

    def end(self) -> dict[str, Any]:
        found = self.ask("end")
        self.process.wait()
        return found


def compare(task: str, names: list[str], options: argparse.Namespace, cache: Path) -> list[dict[str, Any]]:
    """What every peer says about a task; `windows` holds its rounds."""
    runs, peers = [], {}
    for name in names:
        folder = cache / name / task
        folder.mkdir(parents=True, exist_ok=True)
        peer = Peer(name, task, options, folder)
        runs.append(peer.found | {"task": task, "peer": name, "windows": []})
        if "error" in peer.found:
            continue
        peers[name] = peer, runs[-1]
        if name in COMPILING and options.warm:
            again = range(options.warm)
            warm = [Peer(name, task, options, folder, only_first=True).found.get("first_s") for _ in again]
            runs[-1]["warm_s"] = statistics.median(warm) if None not in warm else None
            runs[-1]["warm_all_s"] = warm
    for round in range(options.rounds):
        order = list(peers.values())
        first = round % max(1, len(order))
        for peer, run in order[first:] + order[:first]:
            time.sleep(REST)
            run["windows"].append(peer.ask("go"))
    for peer, run in peers.values():
        run.update(peer.end())
        run.update(next((w for w in run["windows"] if "error" in w), {}))
    return runs


def progress(found: dict[str, Any]) -> str:
    said = found.get("error")
    if not said:
        middle = statistics.median(window["median_ms"] for window in found["windows"])
        said = f"{middle:10.3f} ms, first step {found['first_s']:.2f} s, loss {found['loss']:.5g}"
    return f"{found['task']:15} {found['peer']:14} {said}"


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
    about = {"threads": options.threads, "lanes": machine.lanes(), "started": time.strftime("%Y-%m-%d %H:%M")}
    about |= {"peaks": peaks, "runs": runs}
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as cache:
        for task in names:
            for found in compare(task, peers, options, Path(cache)):
                runs.append(found)
                print(progress(found), file=sys.stderr, flush=True)
            (options.out / "results.json").write_text(json.dumps(about, indent=1))
    peaks.append(machine.peaks(options.threads, options.patience))
    print(report.write(about, options.out))


if __name__ == "__main__":
    main()
