"""Several processes beside one: python bench/cluster.py [--folder ../shared/bench] [--rounds 40] [--seconds 60]

For each task, at the same joined batch: 1 process × 2 threads, 2 ranks × 1 thread, the same with calls that Python makes
between native parts (as between machines), with ZeRO's first stage, the same ranks without calls, and those calls alone, which
together show how much of the calls is hidden; what DistributedDataParallel costs in one process; bytes of
parameters, gradients and optimiser state a rank holds under each strategy, beside the formula. All processes are there from the
start, and contestants take turns of a few steps while the others sleep; a figure is the median over rounds of the median of a turn,
in brackets of its shortest step, and a ratio that of the ratios within a round; no round is begun after `--seconds`. Of the rounds those
count during which other programs used up to 0.2 cores (`others`), or where these are few, the quietest quarter.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TURNS = 3  # steps that count in a turn; the first one, with cold caches, does not
QUIET = 0.2  # cores that other programs may use
LEAST = 5  # rounds


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


def contestants(task: str) -> dict[str, Callable[[], Any]]:
    """What a rank runs, by name; alone, that is the model itself and what DistributedDataParallel makes of it."""
    import weft.distributed as dist
    from weft.distributed.optim import ZeroRedundancyOptimizer
    from weft.nn.parallel import DistributedDataParallel
    from weft.nn.parallel.distributed import average_gradients

    rank, size = dist.get_rank(), dist.get_world_size()

    def trained(wrapped: bool, cut: bool = False, without: tuple[str, ...] = ()) -> Callable[[], Any]:
        model, x, y, make = model_and_batch(task, rank, size)
        net, rule = DistributedDataParallel(model) if wrapped else model, make(model.parameters())
        if cut:
            rule = ZeroRedundancyOptimizer(model.parameters(), type(rule), **rule.defaults)
        return step_of(net, x, y, rule, without)

    found = {"plain": trained(False), "ddp": trained(True)}
    if size > 1:
        found |= {"zero1": trained(True, cut=True), "python": trained(True, without=("ranks",))}
        model, x, y, make = model_and_batch(task, rank, size)
        step_of(model, x, y, make(model.parameters()))()
        parameters = list(model.parameters())
        found["calls"] = lambda: average_gradients(parameters, dist.group.WORLD)
    return found


def job(task: str, address: str) -> None:
    """What every rank does: run what it is told to, and tell the seconds of each step and those of the processor."""
    import weft.distributed as dist

    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    steps = contestants(task)
    with Client(address) as connection:
        connection.send((size, held(task, rank, size) if size > 1 else {}))
        while (name := connection.recv()) is not None:
            told: list[tuple[float, float]] = []
            for _ in range(TURNS + 1):
                begin, worked = time.perf_counter(), time.process_time()
                steps[name]()
                told.append((time.perf_counter() - begin, time.process_time() - worked))
            connection.send(told)
    dist.destroy_process_group()


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


def start(task: str, ranks: int, threads: int, folder: Path, address: str) -> subprocess.Popen[bytes]:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    path = os.pathsep.join([str(HERE.parent), str(HERE), str(folder.resolve()), os.environ.get("PYTHONPATH", "")])
    beside = Path(sys.executable).with_name("mpiexec")
    launcher = [str(beside) if beside.exists() else "mpiexec", "-n", str(ranks)] if ranks > 1 else []
    return subprocess.Popen(
        [*launcher, sys.executable, __file__, "--job", task, address],
        env=os.environ | dict.fromkeys(names, str(threads)) | {"PYTHONPATH": path},
    )


def busy() -> float:
    """Seconds that all cores have worked since the machine started."""
    fields = [float(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


ORDER = [
    (1, "plain"),
    (2, "ddp"),
    (1, "ddp"),
    (2, "plain"),
    (2, "zero1"),
    (2, "calls"),
    (2, "python"),
]  # ranks, contestant
Round = dict[tuple[int, str], tuple[float, float, float]]  # median and shortest step, median of the processor's time


class Field:
    """The processes of a task, asleep until they are told to run."""

    def __init__(self, task: str, folder: Path) -> None:
        self.ranks: dict[int, list[Connection]] = {1: [], 2: []}
        self.held: dict[str, Any] = {}
        with tempfile.TemporaryDirectory() as place, Listener(f"{place}/door") as listener:
            self.processes = [start(task, ranks, 3 - ranks, folder, str(listener.address)) for ranks in (1, 2)]
            for _ in range(3):
                connection = listener.accept()
                size, held = connection.recv()
                self.ranks[size].append(connection)
                self.held = held or self.held

    def turn(self, ranks: int, name: str) -> list[tuple[float, float]]:
        """Seconds of the steps of one contestant, and of its processors; those of the slowest rank."""
        for connection in self.ranks[ranks]:
            connection.send(name)
        told = [connection.recv() for connection in self.ranks[ranks]]
        return [(max(t for t, _ in step), sum(p for _, p in step)) for step in zip(*told, strict=True)]

    def round(self) -> tuple[float, Round]:
        """(cores that other programs used, figures): every contestant has its turn."""
        found: Round = {}
        before, begin, ours = busy(), time.perf_counter(), 0.0
        for place in ORDER:
            steps = self.turn(*place)
            ours += sum(worked for _, worked in steps)
            clock, worked = zip(*steps[1:], strict=True)
            found[place] = statistics.median(clock), min(clock), statistics.median(worked)
        return (busy() - before - ours) / (time.perf_counter() - begin), found

    def close(self) -> None:
        for connection in (c for every in self.ranks.values() for c in every):
            connection.send(None)
        for process in self.processes:
            process.wait()


def shown(task: str, every: list[tuple[float, Round]], last: dict[str, Any]) -> None:
    """The figures of a task, each beside its goal."""
    order = sorted(every, key=lambda pair: pair[0])
    quiet = [found for others, found in order if others <= QUIET]
    rounds = quiet if len(quiet) >= LEAST else [found for _, found in order[: max(LEAST, len(order) // 4)]]
    median = lambda figure: statistics.median(figure(found) for found in rounds)
    one, ddp, plain, zero, calls = (1, "plain"), (2, "ddp"), (2, "plain"), (2, "zero1"), (2, "calls")

    def told(place: tuple[int, str]) -> str:
        return f"{median(lambda r: r[place][0]) * 1e3:.1f} ({median(lambda r: r[place][1]) * 1e3:.1f}) ms"

    def ratio(place: tuple[int, str]) -> str:
        return f"{median(lambda r: r[place][0] / r[one][0]):.2f} ({median(lambda r: r[place][1] / r[one][1]):.2f})"

    print(f"{task}: 1 × 2 threads {told(one)}, 2 × 1 thread {told(ddp)}, ratio {ratio(ddp)}, goal ≤ 1.1")
    print(f"  without calls {told(plain)}, ratio {ratio(plain)}; zero1 {told(zero)}, ratio {ratio(zero)}")
    hidden = median(lambda r: (r[plain][0] + r[calls][0] - r[ddp][0]) / r[calls][0])
    print(
        f"  calls apart {told(calls)}: hidden {hidden:.0%}; calls from Python {told((2, 'python'))}, ratio {ratio((2, 'python'))}"
    )
    cost = median(lambda r: r[1, "ddp"][2] / r[one][2] - 1)
    print(f"  overhead in one process {cost:+.1%} of processor time (goal ≤ 1 %)")
    p, n, s = 4 * last["elements"], 2, last["held"]["ddp"] - 8 * last["elements"]
    formula = {"ddp": 2 * p + s, "zero1": 2 * p + s / n, "zero3": (2 * p + s) / n}
    bytes_told = ", ".join(f"{k} {v / 1e6:.1f} MB (formula {formula[k] / 1e6:.1f})" for k, v in last["held"].items())
    print(f"  held by a rank of {n}: {bytes_told}")
    used = [others for others, _ in order]
    print(
        f"  {len(rounds)} of {len(every)} rounds; others {used[0]:.2f} to {used[len(rounds) - 1]:.2f} cores in these",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=HERE.parent.parent / "shared" / "bench")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=60, help="for each task")
    parser.add_argument("--tasks", nargs="+", default=["resnet18_cifar", "gpt_medium"])
    parser.add_argument("--job", nargs=2)
    options = parser.parse_args()
    if options.job:
        job(*options.job)
        return
    for task in options.tasks:
        field, rounds = Field(task, options.folder), []
        field.round()  # compiles
        begin = time.perf_counter()
        while len(rounds) < options.rounds and (len(rounds) < LEAST or time.perf_counter() - begin < options.seconds):
            rounds.append(field.round())
        field.close()
        shown(task, rounds, field.held)


if __name__ == "__main__":
    main()
