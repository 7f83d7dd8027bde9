"""How the mpiexec of each MPI is asked for ranks: MPICH's and Intel's (Hydra), and Open MPI's.

Hydra takes machines as name:ranks, passes the environment on, and lets ranks run on any core. Open MPI takes a line for
each rank (two names of one machine may not both have a number), sends variables to other machines only by name, refuses more ranks
than cores, and binds each to one core, where its threads would share it: it is asked to do as Hydra does.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from .output import Misuse

__all__ = ["machines", "mpiexec"]

PASSED_ON = "WEFT_"  # how variables begin that other machines are told, and these:
ALSO = ("PYTHONPATH", "HF_HOME")


def mpiexec(ranks: int, hosts: Sequence[tuple[str, int]] = (), more: Collection[str] = ()) -> list[str]:
    """The words that start so many ranks of what follows; `more` are variables that will be set for it."""
    from ..runtime.extras import missing

    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise missing("mpi4py", "launch needs mpiexec of an MPI, as in the package mpich, and")
    return _open_mpi(found, ranks, hosts, more) if _is_open_mpi(found) else _hydra(found, ranks, hosts)


def _is_open_mpi(program: str) -> bool:
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=30)
    return re.search(r"Open MPI|OpenRTE|\bprte", told.stdout + told.stderr, re.IGNORECASE) is not None


def _hydra(program: str, ranks: int, hosts: Sequence[tuple[str, int]]) -> list[str]:
    return [program, "-n", str(ranks), *(["-f", _file(f"{name}:{places}" for name, places in hosts)] if hosts else [])]


def _open_mpi(program: str, ranks: int, hosts: Sequence[tuple[str, int]], more: Collection[str]) -> list[str]:
    words = [program, "-n", str(ranks), "--bind-to", "none"]
    if not hosts:
        return [*words, "--oversubscribe"]
    words += ["--hostfile", _file(name for name, places in hosts for _ in range(places))]
    names = {name for name in os.environ if name.startswith(PASSED_ON) or name in ALSO} | set(more)
    return [*words, *(word for name in sorted(names) for word in ("-x", name))]


def _file(lines: Collection[str]) -> str:
    """A file with these lines that is there until this process ends."""
    with tempfile.NamedTemporaryFile("w", suffix=".hosts", delete=False, encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    atexit.register(Path(file.name).unlink, missing_ok=True)
    return file.name


def machines(file: Path, ranks: int) -> list[tuple[str, int]]:
    """Names of machines and the ranks each takes (1 where the line has no number); a file that is misread is refused."""
    if not file.is_file():
        raise Misuse(f"launch: there is no file {file} with the names of machines")
    rows = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        found = re.fullmatch(r"([A-Za-z0-9][\w.-]*)(?::(\d+))?", text)
        if found is None or found[2] == "0":
            raise Misuse(f"launch: {file}, line {number}: expected name or name:ranks, got {text!r}")
        rows.append((found[1], int(found[2] or 1)))
    places = sum(count for _, count in rows)
    if places < ranks:
        raise Misuse(f"launch: {file} has places for {places} ranks, -n asks for {ranks}; write name:ranks")
    return rows
