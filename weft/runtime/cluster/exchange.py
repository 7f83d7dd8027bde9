"""Arrays that travel: every function is one call of all ranks of a group, with results that are equal bit for bit.

Sums are made in the order of ranks, each element at one place: part k of an array goes to rank k, which adds the parts of
ranks 0, 1, … in this order and sends the sum to all, 2 (N − 1) / N of the array in and out. Small arrays go to all at once.
On one machine arrays are not sent: each rank writes its own into memory that all see, and reads there (`_beside`).
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import DistributedError
from .group import Group
from .window import LARGEST
from .world import mpi

__all__ = [
    "all_gather",
    "all_gather_objects",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "combined",
    "gather",
    "reduce_scatter",
    "scatter",
]

SMALL = 1 << 14  # bytes: up to here one round of messages is better than two
COMBINE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "sum": np.add,
    "avg": np.add,
    "product": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}


def combined(rows: Sequence[np.ndarray], op: str) -> np.ndarray:
    """The rows put together in their order; 16-bit numbers in float32, rounded once; truth values stay so."""
    kind, combine = rows[0].dtype, COMBINE[op]
    wide = np.dtype(np.float32) if kind.itemsize == 2 and kind.kind in "fV" else kind
    if kind == np.bool_ and op == "sum":
        combine = np.logical_or
    total = np.array(rows[0], wide, order="C")
    for row in rows[1:]:
        combine(total, row.astype(wide, copy=False), out=total)
    if op == "avg":
        total = total / len(rows) if wide.kind in "fc" else total // len(rows)
    return total.astype(kind, copy=False)


def _bytes(array: np.ndarray) -> list[Any]:
    return [array.reshape(-1).view(np.uint8), mpi().BYTE]


def _form(name: str, array: np.ndarray, *more: Any) -> str:
    shape = ", ".join(map(str, array.shape))
    return " ".join(str(part) for part in (name, array.dtype, f"({shape})", *more) if part != "")


def barrier(group: Group, seconds: float | None = None) -> None:
    group.call("barrier", lambda channel: channel.Ibarrier(), seconds)


def all_gather(group: Group, array: np.ndarray, name: str = "all_gather", more: str = "") -> np.ndarray:
    """(N, *shape): the arrays of all ranks."""
    array = np.asarray(array, order="C")
    rows = np.empty((group.size, *array.shape), array.dtype)
    if (near := _beside(group, array, _form(name, array, more))) is not None:
        for row, other in zip(rows.reshape(group.size, -1), near, strict=True):
            row[:] = other
        return rows
    group.call(_form(name, array, more), lambda channel: channel.Iallgather(_bytes(array), _bytes(rows)))
    return rows


def all_reduce(group: Group, array: np.ndarray, op: str) -> np.ndarray:
    """The arrays of all ranks put together, on all of them. What follows the first word of `op` is for the name of the call."""
    form, (op, _, more) = _form("all_reduce", array, op), op.partition(" ")
    if array.nbytes <= SMALL or array.size < group.size:
        return combined(all_gather(group, array, "all_reduce", f"{op} {more}".rstrip()), op)
    flat = np.asarray(array, order="C").reshape(-1)
    if group.window is not None:
        return _summed_beside(group, flat, op, form).reshape(array.shape)
    own = _reduced_part(group, flat, op, form)
    total = np.empty_like(flat)
    counts, starts = _parts(flat, group.size)
    group.call(
        _form("all_reduce, second half", array, op),
        lambda channel: channel.Iallgatherv(_bytes(own), [total.view(np.uint8), (counts, starts), mpi().BYTE]),
    )
    return total.reshape(array.shape)


def _beside(group: Group, array: np.ndarray, form: str) -> list[np.ndarray] | None:
    """The arrays of all ranks of one machine, flat and in memory that all see; None for small, huge or distant ones."""
    if array.nbytes <= SMALL or (parts := group.parts(array.nbytes, form)) is None:
        return None
    views = [part.view(array.dtype) for part in parts]
    views[group.rank][:] = array.reshape(-1)
    group.meet(form)
    return views


def _summed_beside(group: Group, flat: np.ndarray, op: str, form: str) -> np.ndarray:
    """The sum of what all ranks of one machine have: rank k adds part k, where only it reads it, and all take it there."""
    total, count = np.empty_like(flat), -(-flat.nbytes // LARGEST)
    cuts = [len(flat) * k // count for k in range(count + 1)]
    for start, end in itertools.pairwise(cuts):
        views = _beside(group, flat[start:end], form)
        edges = [(end - start) * k // group.size for k in range(group.size + 1)]
        own = slice(edges[group.rank], edges[group.rank + 1])
        views[group.rank][own] = combined([view[own] for view in views], op)
        group.meet(f"{form}, second half")
        for view, (low, high) in zip(views, itertools.pairwise(edges), strict=True):
            total[start + low : start + high] = view[low:high]
    return total


def _parts(flat: np.ndarray, size: int) -> tuple[list[int], list[int]]:
    """Bytes and first byte of each rank's part."""
    edges = [len(flat) * k // size * flat.itemsize for k in range(size + 1)]
    return [b - a for a, b in itertools.pairwise(edges)], edges[:-1]


def _reduced_part(group: Group, flat: np.ndarray, op: str, form: str) -> np.ndarray:
    """This rank's part of the sum of all ranks' arrays."""
    size, byte = group.size, mpi().BYTE
    counts, starts = _parts(flat, size)
    own = counts[group.rank]
    rows = np.empty((size, own // flat.itemsize), flat.dtype)
    taken = [own] * size, [own * k for k in range(size)]
    group.call(
        form,
        lambda channel: channel.Ialltoallv(
            [flat.view(np.uint8), (counts, starts), byte], [rows.reshape(-1).view(np.uint8), taken, byte]
        ),
    )
    return combined(rows, op)


def reduce_scatter(group: Group, array: np.ndarray, op: str) -> np.ndarray:
    """(N, *shape) → (*shape): row k of the sum of all ranks' arrays, on rank k."""
    array, form = np.asarray(array, order="C"), _form("reduce_scatter", array, op)
    if (near := _beside(group, array, form)) is not None:
        return combined([view.reshape(array.shape)[group.rank] for view in near], op)
    return _reduced_part(group, array.reshape(-1), op, form).reshape(array.shape[1:])


def broadcast(group: Group, array: np.ndarray, source: int) -> np.ndarray:
    """The array of one rank (by its place in the group), on all."""
    taken, form = np.array(array, order="C"), _form("broadcast", array, f"from {source}")
    if (near := _beside(group, taken, form)) is not None:
        return near[source].reshape(taken.shape).copy()
    group.call(form, lambda channel: channel.Ibcast(_bytes(taken), root=source))
    return taken


def gather(group: Group, array: np.ndarray, target: int) -> np.ndarray | None:
    """(N, *shape) on one rank, None on the others."""
    array = np.asarray(array, order="C")
    rows = np.empty((group.size, *array.shape), array.dtype) if group.rank == target else None
    group.call(
        _form("gather", array, f"to {target}"),
        lambda channel: channel.Igather(_bytes(array), None if rows is None else _bytes(rows), root=target),
    )
    return rows


def scatter(group: Group, rows: np.ndarray | None, like: np.ndarray, source: int) -> np.ndarray:
    """Row k of what one rank has, on rank k."""
    own = np.empty(like.shape, like.dtype)
    rows = None if rows is None else np.asarray(rows, order="C")
    group.call(
        _form("scatter", like, f"from {source}"),
        lambda channel: channel.Iscatter(None if rows is None else _bytes(rows), _bytes(own), root=source),
    )
    return own


def all_to_all(group: Group, parts: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
    """Part k of this rank goes to rank k; what rank k has for this one is put into results[k]. Sizes may differ."""
    byte = mpi().BYTE
    sends = [np.asarray(part, order="C") for part in parts]
    takes = [result if result.flags.c_contiguous else np.empty(result.shape, result.dtype) for result in results]
    sizes = np.array([[a.nbytes for a in sends], [a.nbytes for a in takes]], np.int64)
    _check_pairs(group, all_gather(group, sizes, "all_to_all"))

    def start(channel: Any) -> list[Any]:
        came = [group.checks.Irecv([a.reshape(-1).view(np.uint8), byte], source=k) for k, a in enumerate(takes)]
        went = [group.checks.Isend([a.reshape(-1).view(np.uint8), byte], dest=k) for k, a in enumerate(sends)]
        return came + went

    group.call("all_to_all, second half", start)
    for result, taken in zip(results, takes, strict=True):
        if taken is not result:
            np.copyto(result, taken)


def _check_pairs(group: Group, sizes: np.ndarray) -> None:
    """What each rank sends to each must be what that one expects; `sizes` (N, 2, N) are bytes sent and taken."""
    for a, b in np.argwhere(sizes[:, 0] != sizes[:, 1].T):
        sent, taken = sizes[a, 0, b], sizes[b, 1, a]
        raise DistributedError(
            f"all_to_all: rank {group.ranks[a]} sends {sent} bytes to rank {group.ranks[b]}, which expects {taken}; "
            "the output list there must have the sizes and types of what comes"
        )


def all_gather_objects(group: Group, value: Any) -> list[Any]:
    """Python objects of all ranks: pickled, since all ranks run the same trusted program."""
    raw = np.frombuffer(pickle.dumps(value), np.uint8)
    counts = [int(n) for n in all_gather(group, np.array(len(raw), np.int64), "all_gather_object")]
    starts = [sum(counts[:k]) for k in range(group.size)]
    joined = np.empty(sum(counts), np.uint8)
    group.call(
        "all_gather_object, second half",
        lambda channel: channel.Iallgatherv([raw, mpi().BYTE], [joined, (counts, starts), mpi().BYTE]),
    )
    return [pickle.loads(joined[a : a + n].tobytes()) for a, n in zip(starts, counts, strict=True)]
