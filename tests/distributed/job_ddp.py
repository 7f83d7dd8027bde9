"""DistributedDataParallel apart from whole trainings: accumulation, unused parameters, buffers, models that differ, overlap."""

from __future__ import annotations

import json
import threading
import time
import weakref
from collections.abc import Callable

import numpy as np

import weft
import weft.distributed as dist
from weft import nn
from weft.errors import DistributedError, StateError
from weft.nn.parallel import DistributedDataParallel, distributed, fully_shard
from weft.runtime.cluster.board import SLOTS

dist.init_process_group()
RANK, SIZE = dist.get_rank(), dist.get_world_size()
FIGURES: dict[str, object] = {}


def batch(rank: int) -> weft.Tensor:
    weft.manual_seed(50 + rank)
    return weft.randn(4, 6)


def accumulation() -> None:
    """Two backward passes, one of them under no_sync: the mean over ranks of the sums, and nothing sent before."""
    model = DistributedDataParallel(nn.Linear(6, 3))
    with model.no_sync():
        model(batch(RANK)).square().mean().backward()
    local = model.module.weight.grad.clone()
    model(batch(RANK) * 2).square().mean().backward()
    alone = nn.Linear(6, 3)
    alone.load_state_dict(model.module.state_dict())
    for rank in range(SIZE):
        for scale in (1, 2):
            (alone(batch(rank) * scale).square().mean() / SIZE).backward()
    assert weft.allclose(model.module.weight.grad, alone.weight.grad, atol=1e-6)
    assert not weft.allclose(local, alone.weight.grad, atol=1e-3)


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(6, 2), nn.Linear(6, 2)

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return self.used(x)


def unused() -> None:
    model = DistributedDataParallel(Branches())
    model(batch(RANK)).sum().backward()
    try:
        model(batch(RANK))
    except StateError as error:
        FIGURES["unused"] = str(error)
    model = DistributedDataParallel(Branches(), find_unused_parameters=True)
    for _ in range(2):
        model(batch(RANK)).sum().backward()
    whole = sum(batch(rank).sum(0) for rank in range(SIZE)) / SIZE * 2
    assert weft.allclose(model.module.used.weight.grad[0], whole, atol=1e-5)
    assert not model.module.unused.weight.grad.any()


def buffers() -> None:
    """Running statistics are those of rank 0 before each forward pass in training, of each rank alone without that."""
    for share in (True, False):
        model = DistributedDataParallel(nn.BatchNorm1d(6), broadcast_buffers=share)
        model(batch(RANK))
        first = model.module.running_mean.clone()
        model(batch(RANK))
        found = [None] * SIZE
        dist.all_gather_object(found, (first.tolist(), model.module.running_mean.tolist()))
        start = weft.tensor(found[0 if share else RANK][0])
        expected = start * 0.9 + 0.1 * batch(RANK).mean(0)
        assert weft.allclose(weft.tensor(found[RANK][1]), expected, atol=1e-6)


class Tied(nn.Module):
    """The first gradient that is made is of the parameter registered last, and a shared one is whole only at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.shared = nn.Linear(6, 6), nn.Parameter(weft.eye(6))

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return self.last((x @ self.shared).tanh()) @ self.shared


def order() -> None:
    """Buckets follow the order in which gradients are whole; the mean is that of the joined batch."""
    weft.manual_seed(3)
    model = DistributedDataParallel(Tied(), bucket_cap_mb=1e-4)
    sent: list[int] = []
    average = distributed.average_buckets

    def noted(buckets: list, group: object) -> None:
        sent.extend(number for bucket in buckets for number, _ in bucket)
        average(buckets, group)

    distributed.average_buckets = noted
    model(batch(RANK)).square().mean().backward()
    distributed.average_buckets = average
    names = [name for name, _ in model.module.named_parameters()]
    FIGURES["order"] = [names[number] for number in sent]
    alone = Tied()
    alone.load_state_dict(model.module.state_dict())
    for rank in range(SIZE):
        (alone(batch(rank)).square().mean() / SIZE).backward()
    for one, other in zip(model.parameters(), alone.parameters(), strict=True):
        assert weft.allclose(one.grad, other.grad, atol=1e-6)


def differing() -> None:
    try:
        DistributedDataParallel(nn.Linear(6, 3 + RANK))
    except DistributedError as error:
        FIGURES["differing"] = str(error)


def clipping() -> None:
    """The norm of gradients that are cut over ranks is that of the whole gradient."""
    weft.manual_seed(1)
    whole, cut = nn.Linear(6, 5), nn.Linear(6, 5)
    cut.load_state_dict(whole.state_dict())
    fully_shard(cut)
    for model in (whole, cut):
        model(batch(0)).square().sum().backward()
    for kind in (2.0, 3.0, float("inf")):
        norms = [nn.utils.clip_grad_norm_(model.parameters(), 1e6, kind).item() for model in (whole, cut)]
        assert abs(norms[0] - norms[1]) < 1e-4 * norms[0], norms


def let_go() -> None:
    """Under fully_shard whole parameters live from call to call only: not from the forward to the backward pass, unless asked."""
    found = {}
    for again in (True, False):
        weft.manual_seed(4)
        model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(128, 128), nn.Tanh())))
        wholes: list[weakref.ref] = []
        look = lambda layer, _, seen=wholes: seen.append(weakref.ref(layer.weight.array))
        looks = []
        for layer in model[::2]:
            fully_shard(layer, reshard_after_forward=again)
            looks.append(layer.register_forward_pre_hook(look))
        loss = model(weft.ones(4, 128)).sum()
        alive = sum(whole() is not None for whole in wholes)
        loss.backward()
        for each in looks:
            each.remove()
        step = plain_step(model)
        for _ in range(3):
            step(batch(RANK).repeat(1, 22)[:, :128])
        found[again] = alive, plan_of(step).memory.nbytes, model[0].weight.detach().numpy().copy()
    assert found[True][0] == 0 and found[False][0] == 3  # the first layer's input has no gradient
    assert found[False][1] - found[True][1] >= 2 * 4 * 128 * 128
    assert (found[True][2] == found[False][2]).all()


def overlap() -> None:
    """In a compiled step the first bucket is with all ranks while gradients of earlier layers are still computed.

    On one machine all of it is one native table; as between machines, calls stand between native parts.
    """
    steps, group = [], dist.group.WORLD
    x = weft.randn(256, 256)
    for board in (group.board, None):
        kept, group.board = group.board, board
        step = trained_in_buckets()
        for _ in range(3):
            step(x)
        steps.append(step)
        group.board = kept
    native, host = ([slot.step for slot in plan_of(step).slots] for step in steps)
    FIGURES["segments"] = len(plan_of(steps[0]).segments)
    names = [type(s.kernel).__name__ for s in native]
    first, last, wait = names.index("Publish"), len(names) - 1 - names[::-1].index("Publish"), names.index("Await")
    FIGURES["published"], FIGURES["before_last"] = (
        names.count("Publish"),
        last - first - names[first:last].count("Publish"),
    )
    assert names.count("Await") == names.count("Publish") and wait > last
    names = [s.node.op.name if hasattr(s, "node") else "kernel" for s in host]
    starts = [k for k, name in enumerate(names) if name == "start_exchange"]
    waits = [k for k, name in enumerate(names) if name == "wait_exchange"]
    FIGURES["buckets"] = len(starts)
    FIGURES["between"] = sum(name == "kernel" for name in names[starts[0] : waits[0]])
    assert len(waits) == len(starts) and max(starts) < min(waits)
    FIGURES["seen_early"] = max(seen_before_the_last(lambda: steps[0](x)) for _ in range(10))


def trained_in_buckets() -> Callable[[weft.Tensor], weft.Tensor]:
    weft.manual_seed(0)
    return plain_step(
        DistributedDataParallel(nn.Sequential(*(nn.Linear(256, 256) for _ in range(6))), bucket_cap_mb=0.3)
    )


def plain_step(model: nn.Module) -> Callable[[weft.Tensor], weft.Tensor]:
    optimizer = weft.optim.SGD(model.parameters(), lr=0.01)

    def step(x: weft.Tensor) -> weft.Tensor:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return weft.compile(step)


def plan_of(step: object) -> object:
    """The plan of the one signature that was called."""
    ((bound,),) = step.plans.values()
    return bound.plan


def seen_before_the_last(run: Callable[[], object]) -> int:
    """At how many looks, by the clock, some buckets of this rank were put up and others not yet."""
    board, seen, over = dist.group.WORLD.board, [], threading.Event()
    slots = board.parts[RANK][64 : 64 + 8 * SLOTS].view(np.int64)
    first = board.calls

    def look() -> None:
        while not over.is_set():
            seen.append(sum(int(slots[n % SLOTS]) >> 32 == n for n in range(first, first + 6)))
            time.sleep(1e-4)

    looker = threading.Thread(target=look)
    looker.start()
    run()
    over.set()
    looker.join()
    return sum(0 < count < 6 for count in seen)


for check in (accumulation, unused, buffers, order, differing, clipping, let_go, overlap):
    check()
dist.destroy_process_group()
print(json.dumps({"rank": RANK, **FIGURES}), flush=True)
