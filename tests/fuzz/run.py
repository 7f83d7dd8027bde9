"""Random calls in child processes for a while, then the rates: `make fuzz`, or

python -m tests.fuzz.run --seconds 600          calls of new seeds for ten minutes
python -m tests.fuzz.run --extremes             every number of every known call at its extremes, once
python -m tests.fuzz.run --replay 12345         one seed again, with its traceback
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

STUCK = (
    60  # seconds of processor time without progress after which a process is ended: it hangs where no signal reaches
)
WAITING = 900  # seconds by the clock, for one that waits forever; a busy machine may well make a call take minutes
LIMIT = 0.002  # the share of foreign errors


@dataclass
class Tally:
    """What came of the calls so far."""

    verdicts: collections.Counter = field(default_factory=collections.Counter)
    foreign: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: collections.defaultdict(list))
    fatal: list[str] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return sum(self.verdicts.values())

    @property
    def rate(self) -> float:
        return self.verdicts["foreign"] / max(self.calls, 1)

    @property
    def sound(self) -> bool:
        return not self.fatal and self.rate <= LIMIT

    def read(self, path: Path) -> int | None:
        """Count what a process wrote; the seed at which it ended without a verdict, if any."""
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        for asked, found in zip(lines[::2], lines[1::2], strict=False):
            self.verdicts[found["is"]] += 1
            if found["is"] == "foreign":
                self.foreign[found["what"]].append((asked["seed"], asked["name"]))
            elif found["is"] in ("hang", "differs"):
                self.fatal.append(f"{found['is']}: seed {asked['seed']}, {asked['name']} {found.get('what', '')}")
        return lines[-1]["seed"] if len(lines) % 2 else None

    def report(self, worst: int) -> str:
        calls = max(self.calls, 1)
        parts = ", ".join(f"{n} {verdict} ({n / calls:.2%})" for verdict, n in self.verdicts.most_common())
        lines = [f"{self.calls} calls: {parts}", *self.fatal]
        for what, seeds in sorted(self.foreign.items(), key=lambda item: -len(item[1]))[:worst]:
            lines.append(f"  {len(seeds):4d} × {what}  (seed {seeds[0][0]}, {seeds[0][1]})")
        return "\n".join(lines)


def fuzz(seconds: float, first: int, processes: int = 1, count: int | None = None, source: str = "targets") -> Tally:
    """Calls of the seeds first, first + 1, … in child processes, each started anew when it dies."""
    tally, end = Tally(), time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        running = [_Worker(source, Path(folder), first + k, processes, end, count) for k in range(processes)]
        while running:
            time.sleep(0.2)
            running = [worker for worker in running if worker.goes_on(tally)]
    return tally


class _Worker:
    """One child process at a time over its share of the seeds."""

    def __init__(self, source: str, folder: Path, first: int, step: int, end: float, count: int | None) -> None:
        self.source, self.folder, self.step, self.end, self.runs = source, folder, step, end, 0
        self.last = None if count is None else first + step * count
        self.start(first)

    def start(self, first: int) -> None:
        self.runs += 1
        self.path = self.folder / f"{first}-{self.runs}.jsonl"
        left = [] if self.last is None else [str(max((self.last - first) // self.step, 0))]
        seconds = max(self.end - time.monotonic(), 0)
        command = [
            sys.executable,
            "-m",
            "tests.fuzz.child",
            self.source,
            str(self.path),
            str(first),
            str(self.step),
            str(seconds),
            *left,
        ]
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "WEFT_THREADS"), "1")
        self.process = subprocess.Popen(command, env={**os.environ, **one_thread}, stdout=subprocess.DEVNULL)
        self.seen, self.since, self.used = -1, time.monotonic(), processor_seconds(self.process.pid)

    def goes_on(self, tally: Tally) -> bool:
        size = self.path.stat().st_size if self.path.exists() else 0
        if size != self.seen:
            self.seen, self.since, self.used = size, time.monotonic(), processor_seconds(self.process.pid)
        code = self.process.poll()
        if code is None and not self.stuck():
            return True
        if code is None:
            self.process.kill()
            self.process.wait()
        seed = tally.read(self.path) if self.path.exists() else None
        if seed is not None:
            tally.fatal.append(f"{'stuck' if code is None else f'crash ({code})'}: seed {seed}")
        elif code:
            tally.fatal.append(f"the process ended with {code} between calls")
            return False
        if seed is None or time.monotonic() > self.end:
            return False
        self.start(seed + self.step)
        return True

    def stuck(self) -> bool:
        used = processor_seconds(self.process.pid) - self.used
        return used > STUCK or time.monotonic() - self.since > WAITING


def processor_seconds(process: int) -> float:
    """The processor time that a process has used; where no system tells, the clock takes its place."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # in user and in system code


def replay(source: str, seed: int) -> None:
    name, call = importlib.import_module(f"tests.fuzz.{source}").make(seed)
    print(name)
    print(call())


def _listed() -> int:
    from . import extremes

    return len(extremes.cases())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=None, help="the first seed; by default the time")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--worst", type=int, default=40, help="how many kinds of foreign errors to list")
    parser.add_argument("--extremes", action="store_true", help="the listed calls instead, each once from --seed on")
    parser.add_argument("--replay", type=int, help="make the call of one seed, here")
    options = parser.parse_args()
    source = "extremes" if options.extremes else "targets"
    if options.replay is not None:
        replay(source, options.replay)
        return 0
    if options.extremes:
        first, count = options.seed or 0, -(-_listed() // options.processes)
    else:
        first, count = int(time.time()) * 1000 if options.seed is None else options.seed, None
    tally = fuzz(options.seconds, first, options.processes, count, source)
    print(tally.report(options.worst))
    print(f"foreign errors: {tally.rate:.3%} of calls (at most {LIMIT:.1%}): {'sound' if tally.sound else 'NOT SOUND'}")
    return 0 if tally.sound else 1


if __name__ == "__main__":
    sys.exit(main())
