"""Which processes there are: told by the launcher's environment, then by MPI; alone, nothing is imported.

An error that nobody catches ends the whole job (MPI's abort), so that no other process waits for one that is gone.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
from types import TracebackType
from typing import Any, NoReturn

from ...errors import DistributedError
from ..extras import extra
from ..switches import switch

__all__ = ["abort", "launched_size", "local_rank", "mpi", "seconds_to_wait", "start", "world_rank"]

# What launchers tell a process: its rank, the number of processes, its number on this machine.
SRUN = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")  # an sbatch script alone has no step of several
LAUNCHERS = (
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),  # mpiexec of MPICH, Intel MPI
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
    SRUN,
)


def _launcher() -> tuple[str, str, str] | None:
    """The variables of the launcher that has started this process; None without one."""
    return next((names for names in LAUNCHERS if names[0] in os.environ and names[1] in os.environ), None)


def _told(number: int, default: int) -> int:
    """What the launcher says: 0 the rank, 1 the number of processes, 2 the number on this machine."""
    names = _launcher()
    return default if names is None else int(os.environ.get(names[number], default))


def launched_size() -> int:
    """How many processes the launcher says there are; 1 without a launcher."""
    return _told(1, 1)


def world_rank() -> int:
    """The number of this process, as the launcher says; 0 without one."""
    return _told(0, 0)


def local_rank() -> int:
    """The number of this process on its machine; under `srun --mpi=pmi2` the rank is told as by MPICH, this by SLURM alone."""
    own = str(world_rank())
    by_slurm = os.environ.get("SLURM_LOCALID", "0") if os.environ.get("SLURM_PROCID") == own else "0"
    return _told(2, int(by_slurm))


def seconds_to_wait() -> float:
    """How long a process waits for others before it says who is missing."""
    text = switch("WEFT_DISTRIBUTED_TIMEOUT")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise DistributedError(f"WEFT_DISTRIBUTED_TIMEOUT: expected a number of seconds above 0, got {text!r}")
    return seconds


_started: list[Any] = []  # the module mpi4py.MPI


def mpi() -> Any:
    """The module mpi4py.MPI, imported and started when it is first asked for."""
    return _started[0] if _started else start()


def start() -> Any:
    """Import MPI; from here on an error that nobody catches ends all processes."""
    os.environ.setdefault("MPIR_CVAR_ENABLE_GPU", "0")
    package = extra("mpi4py", "several processes need")
    package.rc.finalize = False
    library = extra("mpi4py.MPI", "several processes need")
    told, found = launched_size(), library.COMM_WORLD.Get_size()
    if told != found:
        name = library.Get_library_version().split(chr(10))[0].strip()
        by_srun = _launcher() == SRUN
        why = "srun was told of no MPI, or of another" if by_srun else "mpiexec belongs to another MPI"
        how = "`srun --mpi=pmi2` (pmix for Open MPI)" if by_srun else "the mpiexec of that library"
        raise DistributedError(
            f"init_process_group: the launcher speaks of {told} processes, MPI of {found}: {why} than mpi4py's "
            f"({name}); start with `weft launch -n {told}`, or with {how}"
        )
    _started.append(library)
    sys.excepthook = _Ending(sys.excepthook)
    sys.exit = _leave
    atexit.register(_finalise)
    return library


def _leave(code: Any = None) -> NoReturn:
    """`sys.exit`, remembered: a rank that leaves with an error takes the others along."""
    _codes.append(code)
    raise SystemExit(code)


_codes: list[Any] = []  # of `sys.exit`


class _Ending:
    """Shows an error as before, then ends all processes: the others would wait for this one."""

    def __init__(self, before: Any) -> None:
        self.before = before

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self.before(kind, error, trace)
        abort(1)


def abort(code: int) -> None:
    """End all processes of the job now, and say whose doing it is."""
    with contextlib.suppress(Exception):
        print(f"weft launch: rank {world_rank()} ended with exit code {code}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        time.sleep(0.2)  # for who passes the line on
    if _started and not _started[0].Is_finalized():
        _started[0].COMM_WORLD.Abort(code)
    os._exit(code)


def _finalise() -> None:
    """Leave MPI together with the others; if they do not come, end the job instead of waiting for ever."""
    library = _started[0]
    if library.Is_finalized():
        return
    from .waiting import polled

    code = _codes[-1] if _codes else None
    patience = min(60.0, seconds_to_wait()) if code in (None, 0) else 3.0  # others that fail alike come as well
    request = library.COMM_WORLD.Ibarrier()
    if not polled(request.Test, patience):
        abort(code if isinstance(code, int) and code else 1)
    library.Finalize()
