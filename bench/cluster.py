"""Several processes beside one: python bench/cluster.py [--folder ../shared/bench] [--rounds 5] [--tasks resnet18_cifar gpt_medium]

For each task, at the same joined batch: 1 process × 2 threads, 2 ranks × 1 thread, the same ranks without calls (no_sync) and the
calls alone, which together show how much of the calls is hidden; the overhead of DistributedDataParallel in one process; bytes of
parameters, gradients and optimiser state a rank holds under each strategy, beside the formula. Contestants take turns, figures are
medians over rounds; `others` is how many cores other programs used meanwhile: above 0.2 the times mean little.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STEPS = 6


def model_and_batch(task: str, rank: int, size: int) -> tuple[Any, Any, Any, Any]:
    """The model of a task, this rank's rows of its batch, and an optimiser for it."""
    import tasks
    import weft_tasks

    import weft

    c = tasks.TASKS[task]
    data = {name: weft.from_numpy(array) for name, array in tasks.inputs(task).items()}
    weft.manual_seed(0)
    model = weft_tasks.GPT(c) if task.startswith("gpt") else weft_tasks.ResNet18(c["classes"])
    rows = len(data["x"]) // size
    x, y = (data[name][rank * rows : (rank + 1) * rows].clone() for name in ("x", "y"))
    return model, x, y, lambda parameters: weft_tasks.optimiser(c, parameters)


def timed(run: Any) -> float:
    """The median of some calls after two that compile and warm up."""
    seconds = []
    for _ in range(STEPS + 2):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[2:])


def step_of(model: Any, x: Any, y: Any, optimizer: Any) -> Any:
    import weft
    from weft.nn import functional as F

    def step() -> Any:
        out = model(x)
        loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return weft.compile(step)


def job(task: str) -> dict[str, Any]:
    """What every rank runs."""
    import weft.distributed as dist
    from weft.distributed.optim import ZeroRedundancyOptimizer
    from weft.nn.parallel import DistributedDataParallel, fully_shard
    from weft.nn.parallel.distributed import average_gradients

    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    model, x, y, make = model_and_batch(task, rank, size)
    row: dict[str, Any] = {"ranks": size, "plain": timed(step_of(model, x, y, make(model.parameters())))}
    wrapped = DistributedDataParallel(model)
    row["ddp"] = timed(step_of(wrapped, x, y, make(wrapped.parameters())))
    if size > 1:
        for p in model.parameters():
            p.grad = p.detach() * 0
        row["calls"] = timed(lambda: average_gradients(list(model.parameters()), dist.group.WORLD))
    row["elements"] = sum(p.numel() for p in model.parameters())
    held = {}
    for strategy in ("ddp", "zero1", "zero3"):
        net = model_and_batch(task, rank, size)[0]
        if strategy == "zero3":
            fully_shard(net)
        rule = make(net.parameters())
        if strategy == "zero1":
            rule = ZeroRedundancyOptimizer(net.parameters(), type(rule), lr=1e-3)
        for p in net.parameters():
            p.grad = p.detach() * 0
        rule.step()
        state = [v for entry in rule.state.values() for v in entry.values() if hasattr(v, "nbytes") and v.ndim]
        held[strategy] = sum(p.nbytes + p.grad.nbytes for p in net.parameters()) + sum(v.nbytes for v in state)
    row["held"], row["state_per_element"] = held, (held["ddp"] - 8 * row["elements"]) / row["elements"]
    dist.destroy_process_group()
    return row if rank == 0 else {}


def started(task: str, ranks: int, threads: int, folder: Path) -> dict[str, Any]:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    path = os.pathsep.join([str(HERE.parent), str(HERE), str(folder.resolve())])
    launcher = [str(Path(sys.executable).with_name("mpiexec")), "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run(
        [*launcher, sys.executable, __file__, "--job", task],
        env=os.environ | dict.fromkeys(names, str(threads)) | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return next(json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))


def busy() -> tuple[float, float]:
    """Seconds that all cores have worked since the machine started, and those of this process and its children."""
    fields = [float(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    ours = sum(os.times()[:4])
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK"), ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=HERE.parent.parent / "shared" / "bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", nargs="+", default=["resnet18_cifar", "gpt_medium"])
    parser.add_argument("--job")
    options = parser.parse_args()
    if options.job:
        row = job(options.job)
        if row:
            print(json.dumps(row), flush=True)
        return
    for task in options.tasks:
        before, begin = busy(), time.perf_counter()
        rounds = [
            (started(task, 1, 2, options.folder), started(task, 2, 1, options.folder)) for _ in range(options.rounds)
        ]
        after, wall = busy(), time.perf_counter() - begin
        median = lambda which, key, rounds=rounds: statistics.median(pair[which][key] for pair in rounds)
        one, two, compute, calls = median(0, "plain"), median(1, "ddp"), median(1, "plain"), median(1, "calls")
        print(
            f"{task}: 1 × 2 threads {one * 1e3:.1f} ms, 2 × 1 thread {two * 1e3:.1f} ms, ratio {two / one:.2f} (goal 1.1)"
        )
        print(
            f"  compute {compute * 1e3:.1f} ms + calls {calls * 1e3:.1f} ms apart; hidden {(compute + calls - two) / calls:.0%}"
        )
        print(f"  overhead in one process {median(0, 'ddp') / one - 1:+.1%} (goal 1 %)")
        last = rounds[-1][1]
        p, s, n = 4 * last["elements"], last["state_per_element"] * last["elements"], last["ranks"]
        formula = {"ddp": 2 * p + s, "zero1": 2 * p + s / n, "zero3": (2 * p + s) / n}
        told = ", ".join(f"{k} {v / 1e6:.1f} MB (formula {formula[k] / 1e6:.1f})" for k, v in last["held"].items())
        print(f"  held by a rank of {n}: {told}")
        others = (after[0] - before[0] - (after[1] - before[1])) / wall
        print(f"  others: {others:.2f} cores")


if __name__ == "__main__":
    main()
