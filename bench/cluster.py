"""Several processes beside one: python bench/cluster.py [--folder ../shared/bench] [--rounds 5] [--seconds 220]

For each task, at the same joined batch: 1 process × 2 threads, 2 ranks × 1 thread, the same with calls that Python makes
between native parts (as between machines), the same ranks without calls, and those calls alone, which together show how
much of the calls is hidden; what DistributedDataParallel costs in one process; bytes of
parameters, gradients and optimiser state a rank holds under each strategy, beside the formula. Contestants take turns step by
step; figures are medians over rounds of the median, and in brackets of the shortest step; no round is begun that would end
after `--seconds`. Of the rounds those count during which other programs used up to 0.2 cores (`others`), or where there is none, the
quietest: then times mean little. In one process the two also run as processor time, which others disturb less.
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
TURNS = 5
QUIET = 0.2  # cores that other programs may use


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


def in_turns(*steps: Any) -> tuple[list[float], list[float], list[float]]:
    """Median seconds of each, by the clock and of the processor, and the fewest, after two runs that compile and warm up."""
    seconds: list[list[tuple[float, float]]] = [[] for _ in steps]
    for number in range(TURNS + 2):
        for step, found in zip(steps, seconds, strict=True):
            begin, worked = time.perf_counter(), time.process_time()
            step()
            if number >= 2:
                found.append((time.perf_counter() - begin, time.process_time() - worked))
    medians = ([statistics.median(pair[k] for pair in found) for found in seconds] for k in (0, 1))
    return *medians, [min(pair[0] for pair in found) for found in seconds]


def step_of(model: Any, x: Any, y: Any, optimizer: Any, without: tuple[str, ...] = ()) -> Any:
    import weft
    from weft.nn import functional as F

    def step() -> Any:
        out = model(x)
        loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return weft.compile(step, without=without)


def job(task: str, memory: bool) -> dict[str, Any]:
    """What every rank runs."""
    import weft.distributed as dist
    from weft.nn.parallel import DistributedDataParallel
    from weft.nn.parallel.distributed import average_gradients

    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    model, x, y, make = model_and_batch(task, rank, size)
    wrapped = DistributedDataParallel(model_and_batch(task, rank, size)[0])
    steps = [step_of(net, x, y, make(net.parameters())) for net in (model, wrapped)]
    if size > 1:
        third = DistributedDataParallel(model_and_batch(task, rank, size)[0])
        steps.append(step_of(third, x, y, make(third.parameters()), ("ranks",)))
    clock, worked, fewest = in_turns(*steps)
    row: dict[str, Any] = {"ranks": size, "cost": worked[1] / worked[0] - 1}
    row |= {name: pair for name, *pair in zip(("plain", "ddp", "python"), clock, fewest, strict=False)}
    if size > 1:
        parameters = list(model.parameters())
        clock, _, fewest = in_turns(lambda: average_gradients(parameters, dist.group.WORLD))
        row["calls"] = [clock[0], fewest[0]]
    if memory:
        row |= held(task, rank, size)
    every: list[Any] = [0.0] * size
    dist.all_gather_object(every, time.process_time())
    row["worked"] = sum(every)
    dist.destroy_process_group()
    return row if rank == 0 else {}


def held(task: str, rank: int, size: int) -> dict[str, Any]:
    """Bytes of parameters, gradients and optimiser state on this rank, by strategy; how many elements there are."""
    from weft.distributed.optim import ZeroRedundancyOptimizer
    from weft.nn.parallel import fully_shard

    found, elements = {}, 0
    for strategy in ("ddp", "zero1", "zero3"):
        net, _, _, make = model_and_batch(task, rank, size)
        elements = elements or sum(p.numel() for p in net.parameters())
        if strategy == "zero3":
            fully_shard(net)
        rule = make(net.parameters())
        if strategy == "zero1":
            rule = ZeroRedundancyOptimizer(net.parameters(), type(rule), **rule.defaults)
        for p in net.parameters():
            p.grad = p.detach() * 0
        rule.step()
        state = [v for entry in rule.state.values() for v in entry.values() if hasattr(v, "nbytes") and v.ndim]
        found[strategy] = sum(p.nbytes + p.grad.nbytes for p in net.parameters()) + sum(v.nbytes for v in state)
    return {"held": found, "elements": elements}


def started(task: str, ranks: int, threads: int, folder: Path, memory: bool) -> dict[str, Any]:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    path = os.pathsep.join([str(HERE.parent), str(HERE), str(folder.resolve())])
    launcher = [str(Path(sys.executable).with_name("mpiexec")), "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run(
        [*launcher, sys.executable, __file__, "--job", task, *(["--memory"] if memory else [])],
        env=os.environ | dict.fromkeys(names, str(threads)) | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return next(json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))


def busy() -> float:
    """Seconds that all cores have worked since the machine started."""
    fields = [float(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


FIGURES = ((0, "plain"), (1, "ddp"), (1, "plain"), (1, "calls"), (1, "python"))  # number of ranks less 1, contestant


def shown(task: str, every: list[tuple[float, dict[str, Any], dict[str, Any]]]) -> None:
    """The figures of a task, each beside its goal."""
    quietest = min(others for others, *_ in every)
    rounds = [pair for others, *pair in every if others <= max(QUIET, quietest)]
    median = lambda which, key, best: statistics.median(pair[which][key][best] for pair in rounds)
    each = [[median(*place, best) for place in FIGURES] for best in (0, 1)]
    told = [f"{m * 1e3:.1f} ({f * 1e3:.1f}) ms" for m, f in zip(*each, strict=True)]
    ratio = [two / one for one, two, *_ in each]
    hidden = [(compute + calls - two) / calls for _, two, compute, calls, _ in each]
    print(f"{task}: 1 × 2 threads {told[0]}, 2 × 1 thread {told[1]}, ratio {ratio[0]:.2f} ({ratio[1]:.2f}), goal ≤ 1.1")
    print(
        f"  compute {told[2]} and calls {told[3]} apart: hidden {hidden[0]:.0%} ({hidden[1]:.0%}); calls from Python {told[4]}"
    )
    cost = statistics.median(pair[0]["cost"] for pair in rounds)
    print(f"  overhead in one process {cost:+.1%} of processor time (goal ≤ 1 %)")
    last = every[0][2]
    p, n = 4 * last["elements"], last["ranks"]
    s = last["held"]["ddp"] - 2 * p
    formula = {"ddp": 2 * p + s, "zero1": 2 * p + s / n, "zero3": (2 * p + s) / n}
    bytes_told = ", ".join(f"{k} {v / 1e6:.1f} MB (formula {formula[k] / 1e6:.1f})" for k, v in last["held"].items())
    print(f"  held by a rank of {n}: {bytes_told}")
    told = ", ".join(f"{others:.2f}" for others, *_ in every)
    print(f"  {len(rounds)} of {len(every)} rounds; others: {told} cores", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=HERE.parent.parent / "shared" / "bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=220)
    parser.add_argument("--tasks", nargs="+", default=["resnet18_cifar", "gpt_medium"])
    parser.add_argument("--job")
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    if options.job:
        row = job(options.job, options.memory)
        if row:
            print(json.dumps(row), flush=True)
        return
    for task in options.tasks:
        begin, rounds, longest = time.perf_counter(), [], 0.0
        share = options.seconds / len(options.tasks)
        while len(rounds) < options.rounds and (not rounds or time.perf_counter() - begin + longest < share):
            before, start = busy(), time.perf_counter()
            pair = [started(task, ranks, 3 - ranks, options.folder, ranks > 1 and not rounds) for ranks in (1, 2)]
            wall = time.perf_counter() - start
            others = (busy() - before - sum(row["worked"] for row in pair)) / wall
            rounds.append((others, *pair))
            longest = max(longest, wall)
        shown(task, rounds)


if __name__ == "__main__":
    main()
