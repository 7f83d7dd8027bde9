"""`torch.distributed` beyond `weft.distributed`: batches of messages, meshes of ranks, words of launchers."""

from __future__ import annotations

import datetime
import math
import os
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft
from weft import distributed as dist

from ...errors import OptionError

__all__ = [
    "Backend",
    "DeviceMesh",
    "P2POp",
    "batch_isend_irecv",
    "default_pg_timeout",
    "get_node_local_rank",
    "init_device_mesh",
    "record",
    "recv_object_list",
    "send_object_list",
]

dist.ReduceOp.RedOpType = dist.ReduceOp  # type: ignore[attr-defined]  PyTorch's members are of a class inside of it
default_pg_timeout = datetime.timedelta(minutes=5)


class Backend(str):
    """The words for backends; MPI carries everything."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"

    def __new__(cls, name: str) -> Backend:
        return super().__new__(cls, name.lower())


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process on its machine."""
    return int(os.environ.get("LOCAL_RANK", fallback_rank or 0))


class P2POp:
    """One message of a batch: `dist.isend` or `dist.irecv`, the tensor, and the other rank."""

    def __init__(
        self,
        op: Callable,
        tensor: Any,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: Any = None,
    ) -> None:
        if op not in (dist.isend, dist.irecv):
            raise OptionError("P2POp: op is torch.distributed.isend or torch.distributed.irecv")
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag
        if peer is None:
            self.peer = dist.get_global_rank(group or dist.group.WORLD, group_peer)


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Any]:
    """Start all messages; a handle for each."""
    return [one.op(one.tensor, one.peer, one.group, one.tag) for one in p2p_op_list]


def send_object_list(object_list: Sequence[Any], dst: int, group: Any = None, **options: Any) -> None:
    """Send Python objects to rank `dst`, which calls `recv_object_list`."""
    content = np.frombuffer(pickle.dumps(list(object_list)), np.uint8)
    dist.send(weft.tensor([len(content)]), dst, group)
    dist.send(weft.from_numpy(content.copy()), dst, group)


def recv_object_list(object_list: list[Any], src: int | None = None, group: Any = None, **options: Any) -> int:
    """The entries of the list ← what a rank has sent; its number."""
    size = weft.empty(1, dtype=weft.int64)
    sender = dist.recv(size, src, group)
    content = weft.empty(int(size), dtype=weft.uint8)
    dist.recv(content, sender, group)
    object_list[:] = pickle.loads(content.numpy().tobytes())
    return sender


def record(fn: Callable | None = None, error_handler: Any = None) -> Any:
    """The function as it is: `weft launch` names the rank whose error ends the job."""
    return fn if fn is not None else lambda fn: fn


class DeviceMesh:
    """Ranks in a grid, with a group for each line of it: `mesh['dp'].get_group()`."""

    def __init__(self, device_type: str, mesh: Any, *, mesh_dim_names: Sequence[str] | None = None) -> None:
        self.device_type, self.mesh = device_type, weft.as_tensor(mesh)
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        grid, own = self.mesh.numpy(), dist.get_rank()
        self._groups = []
        for d in range(grid.ndim):
            lines = np.moveaxis(grid, d, -1).reshape(-1, grid.shape[d])
            made = {tuple(line.tolist()): dist.new_group(line.tolist()) for line in lines}  # all ranks make all groups
            self._groups.append(next((group for line, group in made.items() if own in line), None))
        self._place = np.argwhere(grid == own)

    ndim = property(lambda self: self.mesh.ndim)
    shape = property(lambda self: tuple(self.mesh.shape))

    def _dimension(self, name: int | str | None) -> int:
        if name is None and self.ndim == 1:
            return 0
        if isinstance(name, int) and 0 <= name < self.ndim:
            return name
        if self.mesh_dim_names is None or name not in self.mesh_dim_names:
            raise OptionError(
                f"DeviceMesh: there is no dimension {name!r}; there are {self.mesh_dim_names or self.shape}"
            )
        return self.mesh_dim_names.index(name)

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The group of this rank along a dimension."""
        return self._groups[self._dimension(mesh_dim)]

    def size(self, mesh_dim: int | None = None) -> int:
        """How many ranks there are, or along a dimension."""
        return math.prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """The place of this rank along a dimension."""
        return int(self._place[0, self._dimension(mesh_dim)])

    get_rank = staticmethod(dist.get_rank)

    def __getitem__(self, name: str) -> DeviceMesh:
        """The line through this rank along a dimension, as a mesh of one dimension."""
        d, line = self._dimension(name), object.__new__(DeviceMesh)
        index = [slice(None) if k == d else int(self._place[0, k]) for k in range(self.ndim)]
        line.device_type, line.mesh, line.mesh_dim_names = self.device_type, self.mesh[tuple(index)], (name,)
        line._groups, line._place = [self._groups[d]], self._place[:, d : d + 1]
        return line


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None, **options: Any
) -> DeviceMesh:
    """All ranks in a grid of this shape, the last dimension the densest."""
    if not dist.is_initialized():
        dist.init_process_group()
    if math.prod(mesh_shape) != dist.get_world_size():
        raise OptionError(f"init_device_mesh: {tuple(mesh_shape)} is not a grid of {dist.get_world_size()} ranks")
    grid = weft.arange(math.prod(mesh_shape)).reshape(list(mesh_shape))
    return DeviceMesh(device_type, grid, mesh_dim_names=mesh_dim_names)
