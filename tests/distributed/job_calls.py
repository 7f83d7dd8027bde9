"""Every call of all ranks against what NumPy says of the tensors of all ranks, which each rank can make itself."""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Callable

import numpy as np

import weft
import weft.distributed as dist
from weft.errors import DistributedError, DistributedTimeoutError
from weft.ops.collective.exchange import exchanged

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
RANK, SIZE = dist.get_rank(), dist.get_world_size()
FIGURES: dict[str, object] = {}


def drawn(rank: int, *shape: int, kind: weft.dtype = weft.float32) -> weft.Tensor:
    weft.manual_seed(1000 + rank)
    return (weft.randn(shape, dtype=weft.float64) * 3).to(kind)


def in_order(parts: list[weft.Tensor]) -> np.ndarray:
    """The sum in the order of ranks."""
    total = parts[0].numpy().copy()
    for part in parts[1:]:
        total += part.numpy()
    return total


def sums() -> None:
    """Small and large, of every type, contiguous or not; the sum in the order of ranks, bit for bit on all."""
    for shape in ((), (1,), (3, 4), (0,), (7001,), (33, 1000), (5, 300_001)):
        parts = [drawn(r, *shape) for r in range(SIZE)]
        x = parts[RANK].clone()
        dist.all_reduce(x)
        assert x.numpy().tobytes() == in_order(parts).tobytes(), shape
        y = parts[RANK].clone()
        handle = dist.all_reduce(y, async_op=True)
        assert handle.wait() and handle.is_completed() and weft.equal(x, y)
    x = drawn(RANK, 40, 300).T
    dist.all_reduce(x)
    assert np.array_equal(x.numpy(), in_order([drawn(r, 40, 300).T for r in range(SIZE)]))
    for kind, op, join in (
        (weft.float64, dist.ReduceOp.AVG, lambda rows: sum(rows[1:], rows[0]) / SIZE),
        (weft.float32, dist.ReduceOp.MIN, lambda rows: np.min(rows, 0)),
        (weft.int64, dist.ReduceOp.MAX, lambda rows: np.max(rows, 0)),
        (weft.int32, dist.ReduceOp.PRODUCT, lambda rows: np.prod(rows, 0)),
        (weft.uint8, dist.ReduceOp.BOR, lambda rows: np.bitwise_or.reduce(rows)),
        (weft.int16, dist.ReduceOp.BXOR, lambda rows: np.bitwise_xor.reduce(rows)),
    ):
        rows = [(drawn(r, 5000).abs() + 1).to(kind) for r in range(SIZE)]
        x = rows[RANK].clone()
        dist.all_reduce(x, op)
        assert np.array_equal(x.numpy(), join([row.numpy() for row in rows])), op
    rows = [drawn(r, 9000, kind=weft.bfloat16) for r in range(SIZE)]
    x = rows[RANK].clone()
    dist.all_reduce(x)
    assert weft.equal(x, weft.tensor(in_order([row.float() for row in rows])).to(weft.bfloat16))


def copies() -> None:
    """What goes from one rank to all, from all to one, and from each to each."""
    last = SIZE - 1
    for shape in ((3,), (5000, 2)):
        every = [drawn(r, *shape) for r in range(SIZE)]
        x = every[RANK].clone()
        dist.broadcast(x, src=last)
        assert weft.equal(x, every[last])
        x = every[RANK].clone()
        dist.reduce(x, dst=0)
        assert np.array_equal(x.numpy(), in_order(every) if RANK == 0 else every[RANK].numpy())
        found = [weft.empty(*shape) for _ in range(SIZE)]
        dist.all_gather(found, every[RANK])
        assert all(map(weft.equal, found, every))
        joined, stacked = weft.empty(SIZE * shape[0], *shape[1:]), weft.empty(SIZE, *shape)
        dist.all_gather_into_tensor(joined, every[RANK])
        dist.all_gather_into_tensor(stacked, every[RANK])
        assert weft.equal(joined, weft.cat(every)) and weft.equal(stacked, weft.stack(every))
        found = [weft.empty(*shape) for _ in range(SIZE)] if RANK == last else None
        dist.gather(every[RANK], found, dst=last)
        assert found is None or all(map(weft.equal, found, every))
        x = weft.empty(*shape)
        dist.scatter(x, [e * 2 for e in every] if RANK == 0 else None, src=0)
        assert weft.equal(x, every[RANK] * 2)
        x, whole = weft.empty(*shape), [[e + k for k in range(SIZE)] for e in every]
        dist.reduce_scatter(x, whole[RANK])
        assert np.array_equal(x.numpy(), in_order([row[RANK] for row in whole]))
        y = weft.empty(*shape)
        dist.reduce_scatter_tensor(y, weft.cat(whole[RANK]))
        assert weft.equal(x, y)
    sent = [[weft.full((a + b,), 10.0 * a + b) for b in range(SIZE)] for a in range(SIZE)]
    found = [weft.empty(k + RANK) for k in range(SIZE)]
    dist.all_to_all(found, sent[RANK])
    assert all(weft.equal(x, sent[k][RANK]) for k, x in enumerate(found))
    x = weft.empty(SIZE, 2)
    dist.all_to_all_single(x, weft.full((SIZE, 2), float(RANK)))
    assert x[:, 0].tolist() == [float(k) for k in range(SIZE)]


def messages() -> None:
    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    x = weft.empty(3)
    work = [dist.isend(weft.full((3,), float(RANK)), right, tag=7), dist.irecv(x, left, tag=7)]
    assert all(w.wait() for w in work) and x.tolist() == [float(left)] * 3
    if RANK == 0:
        assert sorted(dist.recv(weft.empty(2)) for _ in range(SIZE - 1)) == list(range(1, SIZE))
    else:
        dist.send(weft.ones(2), 0)


def objects() -> None:
    found = [None] * SIZE
    dist.all_gather_object(found, {"rank": RANK, "text": "x" * RANK})
    assert found == [{"rank": k, "text": "x" * k} for k in range(SIZE)]
    row = [RANK, "a"] if RANK == 1 else [None, None]
    dist.broadcast_object_list(row, src=1)
    assert row == [1, "a"]
    one = [None]
    dist.scatter_object_list(one, [f"for {k}" for k in range(SIZE)] if RANK == 0 else None, src=0)
    assert one == [f"for {RANK}"]


def groups() -> None:
    """The even ranks sum among themselves; the others are not in that group."""
    even = [r for r in range(SIZE) if r % 2 == 0]
    group = dist.new_group(even)
    assert (group is None) == (RANK not in even)
    if group is not None:
        x = weft.tensor([float(RANK)])
        dist.all_reduce(x, group=group)
        assert x.item() == sum(even) and dist.get_process_group_ranks(group) == even
        assert dist.get_global_rank(group, dist.get_rank(group)) == RANK


def compiled() -> None:
    """In a compiled function calls come in their order, at every run, also those whose result nobody reads."""

    def f(x: weft.Tensor) -> weft.Tensor:
        y = x * 2
        dist.all_reduce(y)
        unread = x + 1
        dist.all_reduce(unread)
        handle = dist.all_reduce(z := y + 1, op=dist.ReduceOp.MAX, async_op=True)
        w = x.sum() + 0 * x
        handle.wait()
        dist.broadcast(w, src=1)
        return z + w

    native = weft.compile(f)
    for k in range(3):
        x = drawn(RANK, 50) + k
        assert weft.allclose(native(x), f(x), atol=1e-5)
    assert native.host_work() == {}


def natively() -> None:
    """What ranks of one machine do without Python: every call, bit for bit what Python between native parts gives."""
    world = dist.group.WORLD

    def f(x: weft.Tensor, rows: weft.Tensor, whole: weft.Tensor) -> list[weft.Tensor]:
        sums = [exchanged(t, "all_reduce", world, op) for t in (x, whole) for op in ("sum", "min", "max", "product")]
        copies = [exchanged(x, "broadcast", world, SIZE - 1), exchanged(x.T, "all_gather", world)]
        return [
            *sums,
            *copies,
            exchanged(x, "all_reduce", world, "avg"),
            *(exchanged(rows, "reduce_scatter", world, op) for op in ("sum", "avg")),
            exchanged(rows, "all_to_all", world),
        ]

    native, host = weft.compile(f), weft.compile(f, without=("ranks",))
    for kind in (weft.float32, weft.float64):
        for _ in range(3):
            given = drawn(RANK, 41, 7, kind=kind), drawn(RANK, SIZE, 5, 101, kind=kind), drawn(RANK, 33).long()
            for one, other, third in zip(native(*given), host(*given), f(*given), strict=True):
                assert one.numpy().tobytes() == other.numpy().tobytes() == third.numpy().tobytes()
    tables = {len(bound.plan.segments) for bounds in native.plans.values() for bound in bounds}
    assert tables == {1}, "one table, no Python between"


def gradients_natively() -> None:
    """Σ over ranks of |Σ x|² has the gradient 2 N Σ x on every rank, also where the sum is a step of a plan."""

    def slope(x: weft.Tensor) -> weft.Tensor:
        return weft.func.grad(lambda y: exchanged(y, "all_reduce", dist.group.WORLD, "sum").square().sum())(x)

    total = sum(drawn(r, 20) for r in range(SIZE))
    assert weft.allclose(weft.compile(slope)(drawn(RANK, 20)), 2 * SIZE * total, rtol=1e-5)


def profiled() -> None:
    """The steps of a plan with calls are timed where all ranks ask for it; what it writes is put back, and it runs on."""
    total = weft.zeros(300)

    @weft.compile
    def add(x: weft.Tensor) -> weft.Tensor:
        total.add_(exchanged(x, "all_reduce", dist.group.WORLD, "sum"))
        return total.sum()

    x = weft.full((300,), RANK + 1.0)
    every = SIZE * (SIZE + 1) / 2
    assert add(x).item() == 300 * every
    kernels = [step.kernel for step in add.profile(x).steps]
    assert {"Publish", "Await"} <= set(kernels), kernels
    assert add(x).item() == 600 * every and total[7].item() == 2 * every


def summed(group: object) -> Callable[[weft.Tensor], weft.Tensor]:
    return weft.compile(lambda x: exchanged(x, "all_reduce", group, "sum"))


def errors_natively() -> None:
    """Inside of native code as well calls that differ are named."""
    try:
        summed(dist.group.WORLD)(weft.zeros(13 if RANK else 14))
    except DistributedError as error:
        FIGURES["native_sizes"] = str(error)
    group = dist.new_group()
    summed(group)(weft.ones(3))
    try:
        dist.barrier(group) if RANK == 1 else summed(group)(weft.ones(3))
    except DistributedError as error:
        FIGURES["native_calls"] = str(error)


def errors() -> None:
    """Sizes, types and calls that differ are named with their ranks, on every rank."""

    def refused(function: object, *args: object) -> str:
        try:
            function(*args)
        except DistributedError as error:
            return str(error)
        raise AssertionError("nothing was refused")

    FIGURES["sizes"] = refused(dist.all_reduce, weft.zeros(13 if RANK else 14))
    FIGURES["types"] = refused(dist.all_reduce, weft.zeros(15, dtype=weft.float64 if RANK else weft.float32))
    FIGURES["pairs"] = refused(
        dist.all_to_all, [weft.empty(2)] * SIZE, [weft.ones(3 if (RANK, k) == (1, 0) else 2) for k in range(SIZE)]
    )
    group = dist.new_group()
    dist.all_reduce(weft.zeros(1), group=group)
    dist.barrier(group)
    begin = time.monotonic()
    FIGURES["calls"] = refused(lambda: dist.barrier(group) if RANK else dist.all_reduce(weft.zeros(1), group=group))
    FIGURES["calls_seconds"] = time.monotonic() - begin
    assert "given up" in refused(dist.barrier, group)
    waits, native = dist.new_group(timeout=1), dist.new_group(timeout=0.5)
    dist.barrier(waits)
    call = summed(native)
    call(weft.ones(3))
    if RANK == 1:
        time.sleep(3)
        return
    for name, run in (("hung", lambda: dist.barrier(waits)), ("native_hung", lambda: call(weft.ones(3)))):
        try:
            run()
        except DistributedTimeoutError as error:
            FIGURES[name] = str(error)


def apart(*checks: Callable[[], None]) -> None:
    """The same as between machines: no memory is seen by two ranks."""
    world = dist.group.WORLD
    window, world.window = world.window, None
    for check in checks:
        check()
    world.window = window


def large() -> None:
    """Arrays of more bytes than the memory that ranks see together, sent in pieces; a size that grows."""
    for count in (5000, 50_000, (20 << 20) + 3):
        x = weft.arange(count, dtype=weft.int32) + RANK
        dist.all_reduce(x)
        assert weft.equal(x, SIZE * weft.arange(count, dtype=weft.int32) + SIZE * (SIZE - 1) // 2)


assert dist.group.WORLD.window is not None, "all ranks are on this machine"
for check in (
    sums,
    copies,
    large,
    messages,
    objects,
    groups,
    compiled,
    natively,
    gradients_natively,
    profiled,
    errors_natively,
    errors,
):
    check()
apart(sums, copies)
dist.barrier()
print(json.dumps({"rank": RANK, "world": os.environ["WORLD_SIZE"], **FIGURES}), flush=True)
dist.destroy_process_group()
