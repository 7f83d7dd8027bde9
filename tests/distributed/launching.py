"""Jobs of several ranks for tests: one start of processes does many checks, since each costs about a second."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
SECONDS = 240


def environment(**more: str) -> dict[str, str]:
    """That of the tests, with one thread for each rank and nothing of a launcher around us."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI_COMM_", "MPI_", "SLURM_"))}
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        kept.pop(name, None)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "WEFT_NUM_THREADS"), "1")
    return kept | threads | {"PYTHONPATH": str(ROOT), "WEFT_DISTRIBUTED_TIMEOUT": "60"} | more


def mpiexec(size: int, *command: str) -> list[str]:
    return [str(pathlib.Path(sys.executable).with_name("mpiexec")), "-n", str(size), sys.executable, *command]


def run_job(size: int, name: str, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A file of this folder on so many ranks."""
    command = mpiexec(size, str(HERE / name), *args) if size > 1 else [sys.executable, str(HERE / name), *args]
    return subprocess.run(
        command, env=environment(**more), capture_output=True, text=True, timeout=SECONDS, check=False, cwd=ROOT
    )


def rows_of(job: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The JSON lines that a job printed; a job that failed shows what it said."""
    assert job.returncode == 0, job.stdout[-3000:] + job.stderr[-3000:]
    found, at, decoder = [], 0, json.JSONDecoder()
    while (at := job.stdout.find("{", at)) >= 0:  # mpiexec may join lines of two ranks
        row, at = decoder.raw_decode(job.stdout, at)
        found.append(row)
    return found
