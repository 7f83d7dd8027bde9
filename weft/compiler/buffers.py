"""Memory of a plan: one block in which temporary values share places when their lives do not meet."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

ALIGN = 64
HUGE_PAGE = 2 << 20


@dataclass
class Life:
    """How long some bytes are needed: from phase `first` to phase `last`, both included."""

    size: int
    first: int
    last: int


def plan_memory(lives: Mapping[Hashable, Life], share: bool = True) -> tuple[dict[Hashable, int], int]:
    """An offset for every key, and the size of the block. Largest first, each at the lowest place that is free."""
    offsets: dict[Hashable, int] = {}
    placed: list[tuple[int, int, Life]] = []
    total = 0
    for key, life in sorted(lives.items(), key=lambda item: -item[1].size):
        size = -(-max(life.size, 1) // ALIGN) * ALIGN
        at = 0
        taken = sorted(
            (start, end)
            for start, end, other in placed
            if not share or (other.first <= life.last and life.first <= other.last)
        )
        for start, end in taken:
            if at + size <= start:
                break
            at = max(at, end)
        offsets[key] = at
        placed.append((at, at + size, life))
        total = max(total, at + size)
    return offsets, total


def aligned(size: int) -> np.ndarray:
    """Zeroed bytes that start at a multiple of ALIGN, or of a huge page where they fill one."""
    align = ALIGN if size < HUGE_PAGE else HUGE_PAGE
    block = np.zeros(size + align, np.uint8) if align == ALIGN else _huge_pages(size + align)
    start = -address(block) % align
    return block[start : start + size]


def _huge_pages(size: int) -> np.ndarray:
    """Zeroed bytes for which the system is asked for huge pages, as far as it has them: fewer addresses to look up."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return np.zeros(size, np.uint8)
    block = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):
        block.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(block, np.uint8)


def _slow_address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


_HEAD = object.__basicsize__  # an array begins with what every object has, then the address of its data


def _quick_address(array: np.ndarray) -> int:
    return ctypes.c_int64.from_address(id(array) + _HEAD).value


_probe = np.zeros(3)
address = _slow_address  # of the first element
if sys.implementation.name == "cpython" and _quick_address(_probe) == _slow_address(_probe):
    address = _quick_address  # ten times faster


def lives_of(slots: Sequence, keep: set) -> dict:
    """The lives of everything that slots write or read, by root; those in `keep` last to the end."""
    lives: dict = {}
    end = slots[-1].phase if slots else 0
    for slot in slots:
        for root in slot.step.reads | slot.step.writes:
            life = lives.get(root)
            if life is None:
                lives[root] = Life(root.nbytes, slot.phase, end if root in keep else slot.phase)
            else:
                life.last = max(life.last, slot.phase)
    return lives
