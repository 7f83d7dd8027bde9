"""The words of a random stream, as a pure function of key and place: Philox4x64-10 (see `weft/random/__init__.py`)."""

import threading

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK", "FOLD", "Key", "words"]

Key = tuple[int, int]

BLOCK = 4  # words of one Philox block
STREAM, FOLD = 0, 1  # domains: the last word of the counter
WORD = 2**64 - 1


class _Engine(threading.local):
    """NumPy's Philox, one a thread: setting its state is five times faster than making a new one."""

    def __init__(self) -> None:
        self.philox = np.random.Philox(key=0)


_engine = _Engine()


def words(key: Key, offset: int, count: int, lane: int = 0, domain: int = STREAM) -> NDArray[np.uint64]:
    """Words offset … offset + count - 1 of a stream: a pure function, whatever the pieces it is asked for in.

    >>> hex(int(words((0, 0), 0, 1)[0]))
    '0x16554d9eca36314c'
    """
    block, skip = divmod(offset, BLOCK)
    before = (block + (lane << 128) + (domain << 192) - 1) % 2**256  # NumPy counts up before each block
    philox = _engine.philox
    philox.state = {
        "bit_generator": "Philox",
        "state": {"counter": [before >> shift & WORD for shift in (0, 64, 128, 192)], "key": key},
        "buffer": (0, 0, 0, 0),
        "buffer_pos": BLOCK,
        "has_uint32": 0,
        "uinteger": 0,
    }
    return philox.random_raw(skip + count)[skip:]
