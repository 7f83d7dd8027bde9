"""Objects from one process to another, their arrays through shared memory.

An object is pickled with its arrays left out (pickle protocol 5). Small arrays travel beside the pickle; large ones are
copied once into a slot: a file without a name (memfd) whose descriptor is handed over a socket. Memory without a name
cannot be left behind: it is gone when the last process that maps it is, however that ended.

`Outbox` is the sending side, `Inbox` the receiving one. Received arrays are windows on the slot, which goes back to the
sender when the last of them is gone.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import socket
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import dtype
from ..protocols import _rebuild
from ..tensor import Tensor

__all__ = ["Inbox", "Outbox", "Parcel"]

SMALL = 32 << 10  # bytes of arrays below which the pipe is quicker than a slot
ALIGNMENT = 64
CAN_SHARE = hasattr(socket, "send_fds")


class SharedPlace(NamedTuple):
    """Where arrays lie: in slot `number`, of which the receiver has yet to take the descriptor if it is `fresh`."""

    number: int
    size: int
    fresh: bool
    replaces: int | None
    spans: list[tuple[int, int]]  # first byte and length of each array


class Parcel(NamedTuple):
    """A pickle and the memory of its arrays: the bytes themselves, or a slot."""

    body: bytes
    arrays: list[bytearray] | SharedPlace


class Outbox:
    """Packs objects; `free(slots)` says which slots the receiver has given back."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel, self._slots, self._free, self._made = channel, {}, [], 0

    def free(self, slots: Iterable[int]) -> None:
        self._free.extend(slots)

    def pack(self, obj: Any) -> Parcel:
        buffers: list[pickle.PickleBuffer] = []
        body = _dumped(obj, buffers.append)
        raw = [buffer.raw() for buffer in buffers]
        ends = np.cumsum([0, *(-(-part.nbytes // ALIGNMENT) * ALIGNMENT for part in raw)]).tolist()
        slot = self._slot(ends[-1]) if CAN_SHARE and ends[-1] >= SMALL else None
        if slot is None:
            return Parcel(body, [bytearray(part) for part in raw])
        memory = self._slots[slot.number]
        for begin, part in zip(ends, raw, strict=False):
            memory[begin : begin + part.nbytes] = part
            slot.spans.append((begin, part.nbytes))
        return Parcel(body, slot)

    def _slot(self, size: int) -> SharedPlace | None:
        """A free slot that is large enough, or a new one; None if the system gives no memory."""
        for number in self._free:
            if len(self._slots[number]) >= size:
                self._free.remove(number)
                return SharedPlace(number, len(self._slots[number]), False, None, [])
        replaces = self._free.pop() if self._free else None
        if replaces is not None:
            del self._slots[replaces]
        try:
            return self._new_slot(size + size // 8, replaces)
        except OSError:
            return None

    def _new_slot(self, size: int, replaces: int | None) -> SharedPlace:
        descriptor = _nameless_file(size)
        try:
            memory = mmap.mmap(descriptor, size)
            socket.send_fds(self._channel, [b"\0"], [descriptor])
        finally:
            os.close(descriptor)
        number, self._made = self._made, self._made + 1
        self._slots[number] = memory
        return SharedPlace(number, size, True, replaces, [])


class Inbox:
    """Unpacks parcels. `most` slots may be in use by the receiver at once; the arrays of further ones are copied."""

    def __init__(self, channel: socket.socket, most: int) -> None:
        self._channel, self._most = channel, most
        self._memory: dict[int, mmap.mmap] = {}
        self._held: set[int] = set()
        self._given_back: deque[int] = deque()

    def unpack(self, parcel: Parcel) -> Any:
        if isinstance(parcel.arrays, list):
            return pickle.loads(parcel.body, buffers=parcel.arrays)
        slot = parcel.arrays
        window = np.frombuffer(self._map(slot), np.uint8)  # what every array of this parcel keeps alive
        pieces = [window[begin : begin + length] for begin, length in slot.spans]
        if len(self._held) < self._most:
            self._held.add(slot.number)
            weakref.finalize(window, self._give_back, slot.number).atexit = False
        else:
            pieces = [piece.copy() for piece in pieces]
            self._given_back.append(slot.number)
        return pickle.loads(parcel.body, buffers=pieces)

    def drop(self, parcel: Parcel) -> None:
        """Take a parcel that nobody wants."""
        if isinstance(parcel.arrays, SharedPlace):
            self._map(parcel.arrays)
            self._given_back.append(parcel.arrays.number)

    def given_back(self) -> list[int]:
        """The slots that became free since the last call."""
        return [self._given_back.popleft() for _ in range(len(self._given_back))]

    def _map(self, slot: SharedPlace) -> mmap.mmap:
        if slot.replaces is not None:
            self._memory.pop(slot.replaces, None)
        if slot.fresh:
            _, (descriptor,), _, _ = socket.recv_fds(self._channel, 1, 1)
            self._memory[slot.number] = mmap.mmap(descriptor, slot.size)
            os.close(descriptor)
        return self._memory[slot.number]

    def _give_back(self, number: int) -> None:
        self._held.discard(number)
        self._given_back.append(number)


def _nameless_file(size: int) -> int:
    """The descriptor of memory that can be mapped by several processes."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("weft-batch")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        os.truncate(descriptor, size)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


# ------------------------------------------------------------------------------------------- pickling


def _dumped(obj: Any, callback: Callable[[pickle.PickleBuffer], Any]) -> bytes:
    file = io.BytesIO()
    _Pickler(file, protocol=5, buffer_callback=callback).dump(obj)
    return file.getvalue()


class _Pickler(pickle.Pickler):
    """Leaves the memory of tensors and arrays out without copying it first."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is Tensor and obj.node is None:
            return _rebuild, (Tensor, _contiguous(obj.array), obj._needs_grad, obj._user_attributes())
        if type(obj) is np.ndarray and obj.dtype.kind == "V" and obj.dtype in dtype.by_numpy:  # bfloat16: no buffers
            return _retyped, (_contiguous(obj).view(np.uint16), obj.dtype.name)
        return NotImplemented


def _contiguous(array: np.ndarray) -> np.ndarray:
    return array if array.flags.c_contiguous else np.array(array, order="C")


def _retyped(array: np.ndarray, name: str) -> np.ndarray:
    return array.view(dtype.by_name[name].np)
