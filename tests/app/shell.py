"""The `weft` command as a process: in a pipe, and in a pseudo-terminal."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

COMMAND = (sys.executable, "-m", "weft.app.cli")
UNSET = (
    "MAKEFLAGS",
    "MAKELEVEL",
    "MFLAGS",
    "COLUMNS",
    "NO_COLOR",
    "FORCE_COLOR",
    "WEFT_RUNS",
    "WEFT_DATA",
    "WEFT_DEBUG",
    "WEFT_TRUST_DATA",
    "TTY_COMPATIBLE",
)
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Done:
    """A process that has ended."""

    code: int
    out: str
    err: str = ""
    parts: tuple[str, ...] = ()  # of the output, as they came

    @property
    def text(self) -> str:
        """What a person reads: without escape sequences, every line ended by a newline alone."""
        return ESCAPE.sub("", self.out).replace("\r\n", "\n")


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in UNSET}
    return {**kept, "OMP_NUM_THREADS": "1", "TERM": "xterm-256color", **more}


def in_pipe(*arguments: str, cwd: Path, timeout: float = 120, **more: str) -> Done:
    """Run with pipes in the place of a terminal."""
    done = subprocess.run(
        [*COMMAND, *arguments], cwd=cwd, env=environment(**more), capture_output=True, text=True, timeout=timeout
    )
    return Done(done.returncode, done.stdout, done.stderr)


def in_terminal(*arguments: str, cwd: Path, interrupt_at: str | None = None, width: int = 100, **more: str) -> Done:
    """Run weft in a pseudo-terminal; press Ctrl-C when `interrupt_at` appears."""
    return typed([*COMMAND, *arguments], cwd, environment(**more), interrupt_at, width)


def typed(
    command: Sequence[str], cwd: Path, env: dict[str, str], interrupt_at: str | None = None, width: int = 80
) -> Done:
    """Run a command in a pseudo-terminal of its own; press Ctrl-C when `interrupt_at` appears."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C comes as a signal
    )
    os.close(theirs)
    try:
        parts = _read(ours, process, interrupt_at)
        return Done(process.wait(60), "".join(parts), parts=parts)
    finally:
        os.close(ours)
        if process.poll() is None:
            process.kill()
            process.wait()


def _read(ours: int, process: subprocess.Popen, interrupt_at: str | None) -> tuple[str, ...]:
    seen, parts = "", []
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux: the other side is closed
            part = b""
        if not part:
            return tuple(parts)
        parts.append(decoder.decode(part))
        seen += parts[-1]
        if interrupt_at and interrupt_at in seen:
            os.write(ours, b"\x03")
            interrupt_at = None


def begun(arguments: Sequence[str], cwd: Path) -> subprocess.Popen:
    """A process that is still running, without output."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([*COMMAND, *arguments], cwd=cwd, env=environment(), **quiet)
