"""Calls of all ranks of a group on tensors, with PyTorch's names and arguments.

Results are written into the tensors given. Sums are made in the order of ranks and are equal bit for bit everywhere. The
calls stand in eager code and in compiled functions alike; gradients do not pass through them (nn.parallel has what trains).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence

from ..errors import ArgumentError, DtypeError, OptionError, ShapeError
from ..ops.collective.exchange import Started, exchanged, started
from ..ops.shape.join import stack
from ..runtime.cluster import exchange as arrays
from ..runtime.cluster.group import Group, courier
from ..tape.modes import no_grad
from ..tensor import Tensor
from .groups import ReduceOp, place_in, require_group
from .work import Work

__all__ = [
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
]


def _op(op: ReduceOp, tensor: Tensor, name: str) -> str:
    if not isinstance(op, ReduceOp):
        raise ArgumentError(f"{name}: op must be a ReduceOp, got {op!r}")
    floating = tensor.is_floating_point() or tensor.is_complex()
    if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR) and floating:
        raise DtypeError(f"{name}: {op} is for integers and truth values, got {tensor.dtype}")
    if op in (ReduceOp.MIN, ReduceOp.MAX) and tensor.is_complex():
        raise DtypeError(f"{name}: complex numbers have no order, got {tensor.dtype} with {op}")
    return op.value


def _tensor(x: Tensor, name: str) -> Tensor:
    if not isinstance(x, Tensor):
        raise ArgumentError(f"{name}: expected a tensor, got {type(x).__name__}")
    return x


def _check_list(
    tensors: Sequence[Tensor] | None, count: int, like: Tensor | None, name: str, group: Group
) -> list[Tensor]:
    """As many tensors as ranks, all with the size and type of one."""
    found = [] if tensors is None else [_tensor(x, name) for x in tensors]
    if len(found) != count:
        raise ShapeError(
            f"{name}: rank {group.ranks[group.rank]} gave {len(found)} tensors, the group has {count} ranks"
        )
    for number, x in enumerate(found if like is not None else ()):
        if x.shape != like.shape or x.dtype is not like.dtype:
            raise ShapeError(
                f"{name}: rank {group.ranks[group.rank]}: tensor {number} of the list is {x.dtype} {tuple(x.shape)}, expected "
                f"{like.dtype} {tuple(like.shape)}"
            )
    return found


def _done(call: Started, finish: Callable[[Tensor], None], async_op: bool) -> Work | None:
    """Write the result, now or when it is waited for."""

    def write(found: Tensor) -> None:
        with no_grad():
            finish(found)

    work = Work(call, write)
    if async_op:
        return work
    work.wait()
    return None


def _called(x: Tensor, call: str, group: Group, option: object, finish: Callable, async_op: bool) -> Work | None:
    if async_op:
        return _done(started(x, call, group, option), finish, True)
    with no_grad():
        finish(exchanged(x.detach(), call, group, option))
    return None


def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Group | None = None, async_op: bool = False
) -> Work | None:
    """tensor ← the sum (or other `op`) of the tensors of all ranks.

    >>> import weft.distributed as dist
    >>> dist.init_process_group()
    >>> x = weft.ones(2)
    >>> dist.all_reduce(x)
    >>> x.tolist()
    [1.0, 1.0]
    >>> dist.destroy_process_group()
    """
    meant = require_group(group, "all_reduce")
    kind = _op(op, _tensor(tensor, "all_reduce"), "all_reduce")
    if meant.size == 1:
        return Work(None) if async_op else None
    return _called(tensor, "all_reduce", meant, kind, tensor.copy_, async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Group | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """tensor ← the tensor of rank `src` (a rank of the world; `group_src`: of the group)."""
    meant = require_group(group, "broadcast")
    place = _root(meant, src, group_src, "broadcast")
    _tensor(tensor, "broadcast")
    if meant.size == 1:
        return Work(None) if async_op else None
    return _called(tensor, "broadcast", meant, place, tensor.copy_, async_op)


def _root(group: Group, rank: int | None, place: int | None, name: str) -> int:
    if (rank is None) == (place is None):
        raise OptionError(f"{name}: name one rank, by its number in the world or in the group")
    if place is None:
        return place_in(group, rank, name)
    if not 0 <= place < group.size:
        raise OptionError(f"{name}: group rank {place} is not in {group!r}")
    return place


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: Group | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """On rank `dst`, tensor ← the sum of the tensors of all ranks; the others keep theirs."""
    meant = require_group(group, "reduce")
    place = _root(meant, dst, group_dst, "reduce")
    kind = _op(op, _tensor(tensor, "reduce"), "reduce")
    if meant.size == 1:
        return Work(None) if async_op else None
    finish = tensor.copy_ if meant.rank == place else lambda found: None
    return _called(tensor, "all_reduce", meant, kind, finish, async_op)


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: Group | None = None, async_op: bool = False
) -> Work | None:
    """tensor_list[k] ← the tensor of rank k, on all ranks; all have one size."""
    meant = require_group(group, "all_gather")
    results = _check_list(tensor_list, meant.size, _tensor(tensor, "all_gather"), "all_gather", meant)

    def finish(rows: Tensor) -> None:
        for result, row in zip(results, rows, strict=True):
            result.copy_(row)

    return _called(tensor, "all_gather", meant, None, finish, async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Group | None = None, async_op: bool = False
) -> Work | None:
    """output ← the inputs of all ranks, joined along the first dimension or stacked, as the output's size says."""
    meant, name = require_group(group, "all_gather_into_tensor"), "all_gather_into_tensor"
    shape = tuple(_tensor(input_tensor, name).shape)
    joined = (meant.size * shape[0], *shape[1:]) if shape else (meant.size,)
    if tuple(_tensor(output_tensor, name).shape) not in (joined, (meant.size, *shape)):
        raise ShapeError(
            f"{name}: rank {meant.ranks[meant.rank]}: the output has shape {tuple(output_tensor.shape)}, expected {joined} "
            f"or {(meant.size, *shape)}"
        )
    finish = lambda rows: output_tensor.copy_(rows.reshape(output_tensor.shape))
    return _called(input_tensor, "all_gather", meant, None, finish, async_op)


def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int | None = None,
    group: Group | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """On rank `dst` (0 by default), gather_list[k] ← the tensor of rank k."""
    meant = require_group(group, "gather")
    place = _root(meant, meant.ranks[0] if dst is None and group_dst is None else dst, group_dst, "gather")
    own = meant.rank == place
    if not own and gather_list:
        raise OptionError(
            f"gather: only rank {meant.ranks[place]} gives a gather_list, rank {meant.ranks[meant.rank]} did"
        )
    results = _check_list(gather_list, meant.size, _tensor(tensor, "gather"), "gather", meant) if own else []
    rows = (
        tensor.detach().array[None]
        if meant.size == 1
        else courier.run(lambda: arrays.gather(meant, tensor.array, place))
    )
    with no_grad():
        for number, result in enumerate(results):
            result.copy_(_as_tensor(rows[number]))
    return Work(None) if async_op else None


def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int | None = None,
    group: Group | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """tensor ← scatter_list[k] of rank `src` (0 by default), on rank k."""
    meant = require_group(group, "scatter")
    place = _root(meant, meant.ranks[0] if src is None and group_src is None else src, group_src, "scatter")
    own = meant.rank == place
    if not own and scatter_list:
        raise OptionError(
            f"scatter: only rank {meant.ranks[place]} gives a scatter_list, rank {meant.ranks[meant.rank]} did"
        )
    parts = _check_list(scatter_list, meant.size, _tensor(tensor, "scatter"), "scatter", meant) if own else []
    with no_grad():
        rows = stack(parts).array if own else None
        if meant.size == 1:
            tensor.copy_(parts[0])
        else:
            tensor.copy_(_as_tensor(courier.run(lambda: arrays.scatter(meant, rows, tensor.array, place))))
    return Work(None) if async_op else None


def _as_tensor(array: object) -> Tensor:
    from ..tensor import wrap

    return wrap(array)


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Group | None = None,
    async_op: bool = False,
) -> Work | None:
    """On rank k, output ← the sum of input_list[k] over all ranks."""
    meant = require_group(group, "reduce_scatter")
    parts = _check_list(input_list, meant.size, _tensor(output, "reduce_scatter"), "reduce_scatter", meant)
    kind = _op(op, output, "reduce_scatter")
    with no_grad():
        rows = stack([part.detach() for part in parts])
    return _called(rows, "reduce_scatter", meant, kind, output.copy_, async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: Group | None = None, async_op: bool = False
) -> Work | None:
    """On rank k, output ← part k of the sum of the inputs, which are N outputs joined or stacked."""
    meant, name = require_group(group, "reduce_scatter_tensor"), "reduce_scatter_tensor"
    shape = tuple(_tensor(output, name).shape)
    joined = (meant.size * shape[0], *shape[1:]) if shape else (meant.size,)
    if tuple(_tensor(input, name).shape) not in (joined, (meant.size, *shape)) or input.dtype is not output.dtype:
        raise ShapeError(
            f"{name}: rank {meant.ranks[meant.rank]}: the input is {input.dtype} {tuple(input.shape)}, expected "
            f"{output.dtype} {joined} or {(meant.size, *shape)}"
        )
    rows = input.detach().reshape(meant.size, *shape)
    return _called(rows, "reduce_scatter", meant, _op(op, output, name), output.copy_, async_op)


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Group | None = None,
    async_op: bool = False,
) -> Work | None:
    """On rank j, output_tensor_list[k] ← input_tensor_list[j] of rank k; sizes may differ from pair to pair."""
    meant = require_group(group, "all_to_all")
    outputs = _check_list(output_tensor_list, meant.size, None, "all_to_all", meant)
    inputs = _check_list(input_tensor_list, meant.size, None, "all_to_all", meant)
    with no_grad():
        if meant.size == 1:
            outputs[0].copy_(inputs[0])
        else:
            results = [x.array.copy() for x in outputs]
            courier.run(lambda: arrays.all_to_all(meant, [x.array for x in inputs], results))
            for output, result in zip(outputs, results, strict=True):
                output.copy_(_as_tensor(result))
    return Work(None) if async_op else None


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group | None = None,
    async_op: bool = False,
) -> Work | None:
    """`all_to_all` with parts along the first dimension of one tensor: equal ones, or of the sizes given."""
    meant = require_group(group, "all_to_all_single")
    cut = lambda x, sizes: list(x.detach().split(list(sizes) if sizes else max(x.shape[0] // meant.size, 1)))
    return all_to_all(cut(output, output_split_sizes), cut(input, input_split_sizes), meant, async_op)


def barrier(group: Group | None = None, async_op: bool = False, device_ids: object = None) -> Work | None:
    """Until all ranks are here."""
    meant = require_group(group, "barrier")
    if meant.size > 1:
        courier.run(lambda: arrays.barrier(meant))
    return Work(None) if async_op else None


def monitored_barrier(
    group: Group | None = None, timeout: datetime.timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """`barrier` with a time of its own; the error names the ranks that did not come."""
    meant = require_group(group, "monitored_barrier")
    if meant.size > 1:
        courier.run(lambda: arrays.barrier(meant, None if timeout is None else timeout.total_seconds()))
