"""One rank of `weft launch`: starts the program, puts the rank before its lines, and says how it ended.

Run as a file, without Weft: it must start quickly and outlive whatever the program does. The program dies with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import IO, Any

__all__ = ["MARK"]

MARK = "weft launch:"
DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux


def told(*names: str) -> int:
    """The first of these variables that is there, as a number."""
    return int(next((os.environ[name] for name in names if name in os.environ), "0"))


def surroundings(threads: int) -> dict[str, str]:
    """What the program is told: its rank, and how many threads it has; 0: its share of the cores."""
    rank = told("PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
    size = told("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS") or 1
    place = told("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")
    here = told("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE") or size
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    known = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": place, "LOCAL_WORLD_SIZE": here}
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {name: str(number) for name, number in known.items()} | dict.fromkeys(
        names, str(threads or max(1, cores // here))
    )


def copy_lines(source: IO[bytes], target: Any, prefix: bytes) -> None:
    """Whole lines, with the rank before each."""
    for line in source:
        target.write(prefix + line.rstrip(b"\n") + b"\n")
        target.flush()


def die_with_parent() -> None:
    """A program whose guard is killed ends as well (Linux)."""
    import ctypes

    ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)


def ended(rank: str, code: int) -> str:
    if code < 0:
        return f"{MARK} rank {rank} was ended by {signal.Signals(-code).name} (signal {-code})"
    return f"{MARK} rank {rank} ended with exit code {code}"


def main(threads: str, *command: str) -> None:
    added = surroundings(int(threads))
    rank = added["RANK"]
    linux = sys.platform.startswith("linux")
    program = subprocess.Popen(
        command,
        env=os.environ | added,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        close_fds=False,  # MPI's launcher speaks to the program through a descriptor
        preexec_fn=die_with_parent if linux else None,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: program.send_signal(number))
    print(f"{MARK} rank {rank} is process {os.getpid()} on {os.uname().nodename}", file=sys.stderr, flush=True)
    pairs = ((program.stdout, sys.stdout.buffer), (program.stderr, sys.stderr.buffer))
    threads = [threading.Thread(target=copy_lines, args=(*pair, f"[{rank}] ".encode())) for pair in pairs]
    for thread in threads:
        thread.start()
    code = program.wait()
    if code:
        print(ended(rank, code), file=sys.stderr, flush=True)
    for thread in threads:
        thread.join(timeout=2)
    os._exit(128 - code if code < 0 else code)


if __name__ == "__main__":
    main(*sys.argv[1:])
