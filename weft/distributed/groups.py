"""The processes: when they begin to work together, who they are, and smaller groups of them."""

from __future__ import annotations

import datetime
import enum
import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import DistributedError, OptionError, StateError
from ..runtime.cluster import world
from ..runtime.cluster.exchange import barrier
from ..runtime.cluster.group import Group

__all__ = [
    "GroupMember",
    "ProcessGroup",
    "ReduceOp",
    "destroy_process_group",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "new_group",
]

ProcessGroup = Group
BACKENDS = ("mpi", "gloo", "nccl", "cpu:gloo,cuda:nccl", "undefined")


class ReduceOp(enum.Enum):
    """How the tensors of all ranks become one. AVG is the sum over the number of ranks; 16-bit sums are made in float32."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


class GroupMember:
    """`GroupMember.NON_GROUP_MEMBER` is what `new_group` gives to ranks that are not in it."""

    NON_GROUP_MEMBER = None

    class _World:
        def __get__(self, instance: Any, owner: Any) -> Group | None:
            return _state.world

    WORLD = _World()


group = GroupMember


@dataclass
class _State:
    world: Group | None = None
    groups: int = 0  # made so far, for their labels
    variables: dict[str, str] = field(default_factory=dict)  # of the environment, set by init_process_group


_state = _State()


def is_available() -> bool:
    """Always: a process alone is a group of one."""
    return True


def is_mpi_available() -> bool:
    """Whether mpi4py can be imported."""
    return importlib.util.find_spec("mpi4py") is not None


def is_gloo_available() -> bool:
    return False


def is_nccl_available() -> bool:
    return False


def is_torchelastic_launched() -> bool:
    return False


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return _state.world is not None


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: datetime.timedelta | float | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Begin to work together with the other processes that the launcher has started; all of them call it.

    backend: None or 'mpi'; 'gloo' and 'nccl' are taken for the sake of PyTorch's scripts, MPI carries everything
    timeout: seconds (or a timedelta) that a rank waits for the others before it says which is missing; 300, or
    WEFT_DISTRIBUTED_TIMEOUT
    world_size, rank: may repeat what the launcher says; another number is refused

    >>> import weft.distributed as dist
    >>> dist.init_process_group()
    >>> dist.get_rank(), dist.get_world_size()
    (0, 1)
    >>> dist.destroy_process_group()
    """
    if is_initialized():
        raise StateError("init_process_group: called twice; destroy_process_group() comes between")
    if backend is not None and str(backend).lower() not in BACKENDS:
        raise OptionError(f"init_process_group: backend must be 'mpi' (or None), got {backend!r}")
    size, own = world.launched_size(), world.world_rank()
    told = int(os.environ.get("WORLD_SIZE", size)) if world_size in (-1, None) else world_size
    if told != size:
        raise DistributedError(
            f"init_process_group: {told} processes are meant (world_size, or WORLD_SIZE in the environment), but this one was "
            f"started as one of {size}; start with `weft launch -n {told} script.py` or `mpiexec -n {told} python script.py`"
        )
    if rank not in (-1, None, own):
        raise DistributedError(f"init_process_group: rank={rank}, but the launcher has made this rank {own}")
    seconds = _seconds(timeout)
    channel = world.mpi().COMM_WORLD.Dup() if size > 1 else None
    _state.world = Group(range(size), own, channel, seconds)
    read = {"WORLD_SIZE": size, "RANK": own, "LOCAL_RANK": world.local_rank()}  # by scripts of PyTorch's kind
    _state.variables = {name: str(number) for name, number in read.items() if name not in os.environ}
    os.environ.update(_state.variables)
    if size > 1:
        barrier(_state.world)


def _seconds(timeout: datetime.timedelta | float | None) -> float:
    if timeout is None:
        return world.seconds_to_wait()
    seconds = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else float(timeout)
    if not seconds > 0:
        raise OptionError(f"timeout: expected seconds above 0 or a timedelta, got {timeout!r}")
    return seconds


def destroy_process_group(group: Group | None = None) -> None:
    """End working together: of all ranks, or of one group. Ranks that are still at work are waited for."""
    ended = require_group(group, "destroy_process_group")
    if ended is not None and ended.communicator is not None and ended.watch.broken is None:
        barrier(ended)
        ended.close()
    if ended is _state.world:
        _state.world = None
        for name, value in _state.variables.items():
            if os.environ.get(name) == value:
                del os.environ[name]


def require_group(group: Group | None, name: str) -> Group:
    """The group meant: None is all ranks. A rank that is not in it is refused."""
    if group is None:
        if _state.world is None:
            raise StateError(
                f"{name}: the process group is not there yet; call weft.distributed.init_process_group() first"
            )
        return _state.world
    if not isinstance(group, Group):
        raise OptionError(f"{name}: expected a group of new_group(), got {type(group).__name__}")
    return group


def place_in(group: Group, rank: int, name: str) -> int:
    """Where a rank of the world stands in a group."""
    if rank not in group.ranks:
        raise OptionError(f"{name}: rank {rank} is not in {group!r}")
    return group.ranks.index(rank)


def get_rank(group: Group | None = None) -> int:
    """The number of this process: in the group, or among all."""
    return require_group(group, "get_rank").rank


def get_world_size(group: Group | None = None) -> int:
    """How many processes there are."""
    return require_group(group, "get_world_size").size


def get_backend(group: Group | None = None) -> str:
    """'mpi'."""
    require_group(group, "get_backend")
    return "mpi"


def get_process_group_ranks(group: Group | None = None) -> list[int]:
    """The ranks of the world that are in a group."""
    return list(require_group(group, "get_process_group_ranks").ranks)


def get_global_rank(group: Group, group_rank: int) -> int:
    """The rank in the world of a rank of a group."""
    ranks = require_group(group, "get_global_rank").ranks
    if not 0 <= group_rank < len(ranks):
        raise OptionError(f"get_global_rank: group rank {group_rank} is not in {group!r}")
    return ranks[group_rank]


def get_group_rank(group: Group, global_rank: int) -> int:
    """The rank in a group of a rank of the world."""
    return place_in(require_group(group, "get_group_rank"), global_rank, "get_group_rank")


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: datetime.timedelta | float | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
) -> Group | None:
    """A group of some ranks; all ranks of the world make it together. None where this rank is not in it."""
    everybody = require_group(None, "new_group")
    members = list(everybody.ranks) if ranks is None else sorted(int(r) for r in ranks)
    if len(set(members)) != len(members) or not set(members) <= set(everybody.ranks) or not members:
        raise OptionError(f"new_group: ranks must be different ranks of 0 … {everybody.size - 1}, got {list(members)}")
    _state.groups += 1
    label = group_desc or f"group {_state.groups}"
    seconds = everybody.seconds if timeout is None else _seconds(timeout)
    own = members.index(everybody.rank) if everybody.rank in members else None
    if everybody.size == 1:
        return Group(members, 0, None, seconds, label)
    everybody.call(f"new_group {members}", lambda channel: channel.Ibarrier())
    undefined = world.mpi().UNDEFINED
    channel = everybody.communicator.Split(undefined if own is None else 0, everybody.rank)
    if own is None:
        return GroupMember.NON_GROUP_MEMBER
    return Group(members, own, channel if len(members) > 1 else None, seconds, label)
