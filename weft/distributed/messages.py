"""Tensors from one rank to another."""

from __future__ import annotations

import numpy as np

from ..errors import StateError
from ..runtime.cluster import messages
from ..runtime.cluster.group import Group
from ..tape.modes import no_grad
from ..tensor import Tensor, wrap
from .groups import place_in, require_group
from .work import Work

__all__ = ["irecv", "isend", "recv", "send"]


def _other(group: Group, rank: int, name: str) -> int:
    place = place_in(group, rank, name)
    if place == group.rank:
        raise StateError(f"{name}: rank {rank} is this process; a message goes to another one")
    return place


def isend(tensor: Tensor, dst: int, group: Group | None = None, tag: int = 0) -> Work:
    """Start to send a tensor to rank `dst`; it must stay as it is until the handle was waited for."""
    meant = require_group(group, "isend")
    return Work(messages.send(meant, tensor.detach().array, _other(meant, dst, "isend"), tag))


def irecv(tensor: Tensor, src: int | None = None, group: Group | None = None, tag: int = 0) -> Work:
    """Start to take a tensor from rank `src` (None: any); it is there when the handle was waited for."""
    meant = require_group(group, "irecv")
    place = None if src is None else _other(meant, src, "irecv")
    if meant.size == 1:
        raise StateError("irecv: there is one process, nobody sends")
    array = np.empty(tuple(tensor.shape), tensor.detach().array.dtype)

    def finish(sender: int) -> None:
        with no_grad():
            tensor.copy_(wrap(array))

    return Work(messages.receive(meant, array, place, tag), finish)


def send(tensor: Tensor, dst: int, group: Group | None = None, tag: int = 0) -> None:
    """Send a tensor to rank `dst`."""
    isend(tensor, dst, group, tag).wait()


def recv(tensor: Tensor, src: int | None = None, group: Group | None = None, tag: int = 0) -> int:
    """Take a tensor from rank `src` (None: any); the rank it came from."""
    work = irecv(tensor, src, group, tag)
    work.wait()
    return require_group(group, "recv").ranks[work.value]
