"""`weft bench --scaling`: a step on 1, 2 and 4 ranks measured, a model of latency, bandwidth and compute, and what it predicts.

    T(N) = c + max(0, t(N) − o c),     t(N) = a (N − 1) + 2 n (N − 1) / (N b)

c: seconds of a step on one rank; n: bytes of gradients; a: seconds a message; b: bytes a second between ranks; o: share of a step
(its backward pass) beside which gradients travel. a and b are fitted to all_reduce calls of several sizes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["fitted", "measured", "predicted"]

SIZES = (1 << 10, 1 << 16, 1 << 20, 1 << 22, 1 << 24)  # bytes
REPEATS, OVERLAP = 9, 0.5
MEASURED, MORE, PREDICTED = (1, 2, 4), (8, 16, 32), (64, 1024)  # MORE where there are so many cores
ASSUMED = (
    "every rank has a core of its own (here ranks beyond the cores share them: figures of 4 ranks on 2 cores are pessimistic)",
    "messages between machines cost what they cost here between processes; put your network's a and b in their place",
    "a and b are those of messages; the measured steps, of ranks on one machine, exchange through memory and take less",
    "each rank has the same batch as alone (weak scaling), all ranks are equally fast, and data arrive in time",
    "gradients travel beside the backward pass, taken as half of a step",
)


def fitted(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """a and b of t(N, n) = a (N − 1) + 2 n (N − 1) / (N b), by least squares of relative errors, both at least 0."""
    from scipy.optimize import nnls

    calls = [(row["ranks"], int(n), t) for row in rows if row["ranks"] > 1 for n, t in row["calls"].items()]
    matrix = np.array([[(k - 1) / t, 2 * n * (k - 1) / k / t] for k, n, t in calls])
    (a, inverse), _ = nnls(matrix, np.ones(len(calls)))
    return {"latency": float(a), "bandwidth": float(1 / inverse) if inverse else float("inf")}


def predicted(ranks: int, step: float, nbytes: int, latency: float, bandwidth: float) -> dict[str, float]:
    """Seconds of a step and efficiency on so many ranks."""
    travel = latency * (ranks - 1) + 2 * nbytes * (ranks - 1) / ranks / bandwidth if ranks > 1 else 0.0
    total = step + max(0.0, travel - OVERLAP * step)
    return {"ranks": ranks, "communication": travel, "step": total, "efficiency": step / total}


def measured() -> list[dict[str, Any]]:
    """The job on 1, 2, 4 ranks of this machine and more where it has the cores, one thread each."""
    from ..runtime.processor import available_cores

    return [_job(ranks) for ranks in (*MEASURED, *(n for n in MORE if n <= available_cores()))]


def _job(ranks: int) -> dict[str, Any]:
    from .starters import mpiexec

    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    start = mpiexec(ranks) if ranks > 1 else []
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
    done = subprocess.run(
        [*start, sys.executable, "-m", "weft.app.scaling"],
        env=os.environ | threads | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return next(json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))


def _main() -> None:
    """What each rank does: calls of several sizes, and compiled steps of one network."""
    import time

    import weft
    import weft.distributed as dist
    from weft import nn

    dist.init_process_group()
    world = dist.group.WORLD
    window, world.window = world.window, None  # messages, as between machines
    calls = {}
    for size in SIZES:
        x, times = weft.ones(size // 4), []
        for _ in range(REPEATS if dist.get_world_size() > 1 else 0):
            dist.barrier()
            begin = time.perf_counter()
            dist.all_reduce(x, dist.ReduceOp.AVG)
            times.append(time.perf_counter() - begin)
        calls[size] = float(np.median(times)) if times else 0.0
    world.window = window
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    )
    optimizer = weft.optim.SGD(model.parameters(), lr=0.01)

    @weft.compile
    def step(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    x, y, times = weft.randn(256, 512), weft.randint(0, 10, (256,)), []
    for _ in range(REPEATS + 2):
        begin = time.perf_counter()
        step(x, y)
        times.append(time.perf_counter() - begin)
    nbytes = sum(p.numel() * 4 for p in model.parameters())
    if dist.get_rank() == 0:
        row = {"ranks": dist.get_world_size(), "calls": calls, "step": float(np.median(times[2:])), "bytes": nbytes}
        print(json.dumps(row), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    _main()
