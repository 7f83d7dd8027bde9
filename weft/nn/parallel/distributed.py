"""DistributedDataParallel: every rank has the whole model and a part of the batch; gradients are averaged over ranks."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from ...distributed.groups import require_group
from ...distributed.objects import _gathered
from ...errors import DistributedError, OptionError, StateError
from ...ops.collective.exchange import exchanged, started
from ...ops.shape.join import cat
from ...runtime.cluster.group import Group
from ...tape.modes import is_grad_enabled, no_grad
from ...tape.tape import edge_of, leaves
from ...tensor import Tensor
from ...utils.pytree import tree_leaves
from ..module import Module

__all__ = ["DistributedDataParallel", "average_gradients", "buckets_of", "write_parts"]

FIRST_BUCKET = 1 << 20  # bytes: the first gradients are sent early


class DistributedDataParallel(Module):
    """Trains `module` on all ranks of a group: the gradient of each parameter becomes its mean over ranks.

    Parameters and buffers begin as those of rank 0. Gradients are joined into buckets of about `bucket_cap_mb` MiB in the order
    in which the backward pass makes them, and each bucket is averaged over ranks as soon as it is full: in a compiled step while
    the rest of the backward pass goes on, in eager code after it. The mean is made in the order of ranks, so parameters stay
    equal bit for bit. With losses that are means over equal parts of a batch the step is that of the whole batch.

    broadcast_buffers: whether buffers (running statistics) become those of rank 0 before each forward pass in training
    find_unused_parameters: whether parameters that the loss does not reach count as having a gradient of 0; without it
    they are named in an error
    device_ids, output_device, static_graph, gradient_as_bucket_view, check_reduction: accepted for PyTorch's sake

    >>> import weft.distributed as dist
    >>> dist.init_process_group()
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    >>> model(weft.ones(3, 2)).sum().backward()
    >>> model.module.weight.grad.tolist()
    [[3.0, 3.0]]
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Group | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
    ) -> None:
        super().__init__()
        self.module = module
        self.process_group = require_group(process_group, "DistributedDataParallel")
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.require_backward_grad_sync = True
        cap = 25.0 if bucket_cap_mb is None else bucket_cap_mb
        if not cap > 0:
            raise OptionError(f"DistributedDataParallel: bucket_cap_mb must be above 0, got {bucket_cap_mb}")
        names = {id(p): name for name, p in module.named_parameters() if p.requires_grad}
        parameters = [p for p in module.parameters() if p.requires_grad]
        if not parameters:
            raise StateError("DistributedDataParallel: the module has no parameter that requires a gradient")
        self._names = tuple(names[id(p)] for p in parameters)
        self._trained, self._capacity = tuple(parameters), int(cap * (1 << 20))
        self._arrived: dict[int, bool] = {}  # gradients of the present backward pass, by the number of the parameter
        self._unused: tuple[int, ...] = ()
        if self.process_group.size > 1:
            check_alike(module, self.process_group)
            if init_sync:
                share_from_first([*module.parameters(), *module.buffers()], self.process_group)
            for number, parameter in enumerate(parameters):
                parameter.register_post_accumulate_grad_hook(_Arrival(self, number))

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        group = self.process_group
        if group.size == 1:
            return self.module(*inputs, **kwargs)
        if self._arrived and is_grad_enabled() and self.require_backward_grad_sync:
            self._refuse_unfinished()
        if self.broadcast_buffers and self.training and self.require_backward_grad_sync:
            share_from_first(list(self.module.buffers()), group)
        found = self.module(*inputs, **kwargs)
        self._unused = ()
        if self.find_unused_parameters and is_grad_enabled() and self.require_backward_grad_sync:
            self._find_unused(found)
        return found

    def _find_unused(self, found: Any) -> None:
        roots = [edge_of(x) for x in tree_leaves(found) if isinstance(x, Tensor) and x.requires_grad]
        reached = leaves(roots)
        self._unused = tuple(n for n, p in enumerate(self._trained) if id(p) not in reached)

    def _refuse_unfinished(self) -> None:
        missing = [name for number, name in enumerate(self._names) if number not in self._arrived]
        self._arrived.clear()
        raise StateError(
            "DistributedDataParallel: the last backward pass gave no gradient to "
            f"{', '.join(missing[:5])}{' …' if len(missing) > 5 else ''}, so nothing was averaged; if the loss does not depend on "
            "them, pass find_unused_parameters=True"
        )

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes inside add up gradients of this rank only; the first one after it averages the sums."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def _take(self, number: int) -> None:
        """A gradient is there; with the last one all buckets are averaged."""
        if not self.require_backward_grad_sync:
            return
        self._arrived[number] = True
        if len(self._arrived) + sum(n not in self._arrived for n in self._unused) < len(self._names):
            return
        order = list(self._arrived)
        self._arrived.clear()
        if self.find_unused_parameters:  # what arrives, and when, differs from rank to rank
            order = list(reversed(range(len(self._trained))))
        numbered = [(number, self._trained[number]) for number in order]
        average_buckets(buckets_of(numbered, self._capacity), self.process_group)


class _Arrival:
    """Tells the model that a parameter has its gradient."""

    def __init__(self, owner: DistributedDataParallel, number: int) -> None:
        self.owner, self.number = owner, number

    def __call__(self, parameter: Tensor) -> None:
        self.owner._take(self.number)

    def __deepcopy__(self, memo: Any) -> _Arrival:
        return self


def buckets_of(numbered: Sequence[tuple[int, Tensor]], capacity: int) -> list[list[tuple[int, Tensor]]]:
    """Parameters with their numbers, in their order, in buckets of one type and about `capacity` bytes."""
    buckets: list[list[tuple[int, Tensor]]] = []
    size, limit = 0, min(FIRST_BUCKET, capacity)
    for number, parameter in numbered:
        nbytes = parameter.numel() * parameter.element_size()
        if not buckets or parameter.dtype is not buckets[-1][-1][1].dtype or size + nbytes > limit:
            size, limit = 0, capacity if buckets else limit
            buckets.append([])
        buckets[-1].append((number, parameter))
        size += nbytes
    return buckets


def average_gradients(parameters: Sequence[Tensor], group: Group, capacity: int = 25 << 20) -> None:
    """Make the gradient of every parameter its mean over ranks, last ones first; one that is missing counts as 0."""
    average_buckets(buckets_of(list(enumerate(parameters))[::-1], capacity), group)


@no_grad()
def average_buckets(buckets: Sequence[Sequence[tuple[int, Tensor]]], group: Group) -> None:
    """Start the mean of every bucket, in their order; then wait for each, and write the parts back.

    Which parameters a bucket has is part of its call, so that ranks whose gradients come in another order are told so.
    """
    calls = []
    for bucket in buckets:
        for _, parameter in bucket:
            if parameter.grad is None:
                parameter.grad = parameter.detach() * 0
        flat = cat([p.grad.reshape(-1) for _, p in bucket])  # (elements of the bucket,)
        names = f"{len(bucket)} gradients {zlib.crc32(repr([number for number, _ in bucket]).encode()):08x}"
        calls.append(started(flat, "all_reduce", group, f"avg of {names}"))
    for bucket, call in zip(buckets, calls, strict=True):
        write_parts(call.wait(), [p.grad for _, p in bucket])


def write_parts(flat: Tensor, targets: Sequence[Tensor]) -> None:
    """Cut a flat tensor into the sizes of others, and write the parts into them."""
    start = 0
    for target in targets:
        part = flat[start : start + target.numel()]
        target.copy_(part.reshape(target.shape))
        start += target.numel()


def share_from_first(tensors: Sequence[Tensor], group: Group) -> None:
    """All tensors become those of the first rank: one message for each element type."""
    kinds: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault(tensor.dtype, []).append(tensor)
    with no_grad():
        for same in kinds.values():
            flat = cat([x.detach().reshape(-1) for x in same])
            write_parts(exchanged(flat, "broadcast", group, 0), [x.detach() for x in same])


def check_alike(module: Module, group: Group) -> None:
    """Refuse models that differ from rank to rank, with the first tensor that does."""
    own = [(name, str(x.dtype), tuple(x.shape)) for name, x in (*module.named_parameters(), *module.named_buffers())]
    found = _gathered(own, group)
    for rank, theirs in zip(group.ranks, found, strict=True):
        if theirs != found[0]:
            pairs = zip(found[0], theirs, strict=False)
            first, other = next(((a, b) for a, b in pairs if a != b), (len(found[0]), len(theirs)))
            raise DistributedError(
                f"DistributedDataParallel: the model of rank {rank} is another than that of rank {group.ranks[0]}: {other} "
                f"where that has {first}; all ranks make the same model"
            )
