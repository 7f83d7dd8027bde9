"""`weft launch`: start ranks that train together, watch them, stop all when one fails, and start again from a checkpoint."""

from __future__ import annotations

import collections
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from .guard import MARK
from .output import DONE, FAILED, MISSED, TERMINATED, Misuse
from .starters import machines, mpiexec

__all__: list[str] = []

ENDING = 5.0  # seconds that the other ranks have once one has failed
GRACE = 30.0  # seconds for the last step and its checkpoint after SIGTERM


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}
    app.command(rich_help_panel="Training", context_settings=settings)(launch)


def launch(
    command: Annotated[list[str], typer.Argument(help="A script (train.py …), -m MODULE …, or words of weft: train …")],
    ranks: Annotated[int, typer.Option("-n", "--ranks", min=1, help="How many processes.")] = 1,
    hosts: Annotated[
        Path | None, typer.Option(help="File with the names of machines, one a line (name:ranks).")
    ] = None,
    max_restarts: Annotated[int, typer.Option(min=0, help="How often to start again after a failure.")] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of each rank.", show_default="cores / ranks")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds that a rank waits for another.", show_default="300")
    ] = None,
) -> int:
    """Start several processes that train together (over MPI), with their rank before each line they print.

    When one fails its rank is named and the others are stopped; --max-restarts starts all of them again, and trainings
    resume at the last checkpoint. SIGTERM and Ctrl-C let all ranks end their step and save.

    Examples:

      weft launch -n 4 train.py --epochs 3

      weft launch -n 2 --max-restarts 3 train digits-mlp --name pair

      weft launch -n 16 --hosts machines.txt train.py
    """
    places = [] if hosts is None else machines(hosts, ranks)
    words, name = _named(command)
    more = {} if timeout is None else {"WEFT_DISTRIBUTED_TIMEOUT": str(timeout)}
    for attempt in range(max_restarts + 1):
        told = {"WEFT_RESTARTS": str(attempt)} | more
        program = _program(words if attempt == 0 else _resumed(words, name), threads or 0)
        job = Job(mpiexec(ranks, places, told) + program)
        code = job.run(told)
        if code in (DONE, MISSED) or job.draining:
            return code
        left = max_restarts - attempt
        told = job.failure or f"the job ended with exit code {code}"
        _say(f"{told}; the others were stopped after {job.stopping:.1f} s; {left} restarts left")
    return FAILED


def _say(text: str) -> None:
    sys.stderr.write(f"{MARK} {text}\n")
    sys.stderr.flush()


def _named(command: Sequence[str]) -> tuple[list[str], str | None]:
    """Words of `weft train` with a name for the run's folder, which all ranks and restarts must know."""
    words = list(command)
    if not words or words[0] != "train":
        return words, None
    if "--name" in words:
        return words, words[words.index("--name") + 1]
    name = f"{words[1] if len(words) > 1 else 'run'}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    return [*words, "--name", name], name


def _resumed(words: list[str], name: str | None) -> list[str]:
    """The same words for a start after a failure: a run that has left a checkpoint goes on."""
    if name is None:
        return words
    from ..runtime.places import runs_folder

    given = words[words.index("--runs") + 1] if "--runs" in words else runs_folder()
    folder = Path(given) / name
    if not any((folder / "checkpoints").glob("*.weft")):
        return words
    at = words.index("--name")
    kept = [w for i, w in enumerate(words[2:], 2) if i not in (at, at + 1)]
    return ["train", "--resume", str(folder), *kept]


def _program(words: Sequence[str], threads: int) -> list[str]:
    """What each rank runs, under its guard."""
    guard = [sys.executable, "-I", "-S", str(Path(__file__).with_name("guard.py")), str(threads)]
    if words[0] == "-m":
        return [*guard, sys.executable, *words]
    if words[0].endswith(".py"):
        if not Path(words[0]).is_file():
            raise Misuse(f"launch: there is no script {words[0]}")
        return [*guard, sys.executable, *words]
    return [*guard, sys.executable, "-m", "weft", *words]


class Job:
    """One start of all ranks: their lines are passed on, the first that fails is remembered."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.failure: str | None = None
        self.failed_at = self.stopping = 0.0  # when the first rank failed, and seconds until all had ended
        self.draining = False
        self.guards: list[int] = []  # processes of ranks on this machine
        self.started, self.others = False, collections.deque(maxlen=20)  # lines of MPI's launcher itself

    def run(self, more: dict[str, str]) -> int:
        """Until all ranks have ended; the exit code."""
        self.process = subprocess.Popen(
            self.command,
            env=os.environ | more,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        pairs = ((self.process.stdout, sys.stdout), (self.process.stderr, sys.stderr))
        readers = [threading.Thread(target=self._read, args=pair, daemon=True) for pair in pairs]
        for reader in readers:
            reader.start()
        before = {number: signal.signal(number, self._drain) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            code = self._wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._stop()
        for reader in readers:
            reader.join(timeout=2)
        if code and not self.started:
            sys.stderr.writelines(self.others)  # no rank has come to say anything
        self.stopping = time.monotonic() - self.failed_at if self.failure else 0.0
        if self.draining:
            return TERMINATED
        return code if code == MISSED or (code == DONE and self.failure is None) else max(code, FAILED)

    def _wait(self) -> int:
        drained_at = None
        while True:
            try:
                return self.process.wait(timeout=0.1)
            except subprocess.TimeoutExpired:
                now = time.monotonic()
            if self.draining and drained_at is None:
                drained_at = now
            late = self.failure is not None and now - self.failed_at > ENDING
            if late or (drained_at is not None and now - drained_at > GRACE):
                self._stop()

    def _read(self, source: IO[bytes], target: IO[str]) -> None:
        """Pass lines of ranks on; what MPI's launcher says of one that fails is said better by its guard."""
        for raw in source:
            line = raw.decode(errors="replace")
            told = re.match(rf"(?:\[\d+\] )?{MARK} (rank \d+ (.*))", line)
            process = told and re.match(r"is process (\d+) on (\S+)", told[2])
            self.started = self.started or process is not None
            if process:
                self.guards += [int(process[1])] if process[2] == socket.gethostname() else []
            elif told:
                self._note(told[1])
            elif re.match(r"\[\d+\]", line):
                target.write(line)
                target.flush()
            else:
                self.others.append(line)

    def _note(self, failure: str) -> None:
        if self.failure is None and not self.draining:
            self.failure, self.failed_at = failure, time.monotonic()

    def _drain(self, number: int, frame: Any) -> None:
        """Ask the ranks to end their step and save; a second signal ends them."""
        if self.draining:
            self._stop()
            return
        self.draining = True
        _say(f"{signal.Signals(number).name}: the ranks end their step and save")
        for guard in self.guards:
            try:
                os.kill(guard, signal.SIGTERM)
            except ProcessLookupError:
                continue

    def _stop(self) -> None:
        """End whatever of this job still runs."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is not None:
                return
            os.killpg(self.process.pid, number)
            try:
                self.process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                continue
