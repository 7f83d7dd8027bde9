"""Memory of a plan: one block in which temporary values share places when their lives do not meet."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..fuse.loops import Launch, Lowering
from ..graph.graph import Graph, Source, Value

__all__ = ["Layout", "address", "aligned", "lay_out"]

ALIGN = 64
HUGE_PAGE = 2 << 20


@dataclass
class Life:
    """How long some bytes are needed: from phase `first` to phase `last`, both included."""

    size: int
    first: int
    last: int


@dataclass
class Layout:
    """Where the temporary values of a plan lie in its block of memory, and the roots of its outputs, which lie elsewhere."""

    outputs: list[Value]
    lives: dict[Hashable, Life]
    offsets: dict[Hashable, int]
    total: int  # bytes
    elsewhere: set[Value] = field(default_factory=set)  # roots in memory that other processes see

    def __str__(self) -> str:
        lines = []
        for key, life in sorted(self.lives.items(), key=lambda item: (self.offsets[item[0]], item[1].first)):
            what = f"{key[0]} of step {key[1]}" if isinstance(key, tuple) else repr(key)
            lines.append(f"  {self.offsets[key]:>10} + {life.size:<10} phases {life.first}–{life.last}: {what}")
        return "\n".join(lines)


def lay_out(
    graph: Graph, slots: Sequence[Any], lowering: Lowering, places: Any, threads: int, share: bool = True
) -> Layout:
    """A place for every value that is only needed during a run, and for the memory that kernels need beside."""
    from .meetings import lying_elsewhere

    window = lowering.window
    kept = {window(state.final).root for state in places.closing}
    outputs = [window(v).root for v in graph.outputs]
    lives = lives_of(slots, kept)
    elsewhere = lying_elsewhere(slots, lowering, kept.union(outputs))
    ours = lambda r: not isinstance(r.node.op, Source) and r not in outputs and r not in elsewhere
    lives = {r: life for r, life in lives.items() if ours(r)}
    for number, slot in enumerate(slots):
        if isinstance(slot.step, Launch):
            kernel = slot.step.kernel
            sizes = {"scratch": kernel.scratch * (1 if kernel.serial else threads), "workspace": kernel.workspace}
            for name, size in sizes.items():
                if size:
                    lives[name, number] = Life(size, slot.phase, slot.phase)
    return Layout(outputs, lives, *place_lives(lives, share), elsewhere)


def place_lives(lives: Mapping[Hashable, Life], share: bool = True) -> tuple[dict[Hashable, int], int]:
    """An offset for every key, and the size of the block. Largest first, each at the lowest place that is free."""
    offsets: dict[Hashable, int] = {}
    starts, ends, firsts, lasts = placed = np.zeros((4, len(lives)), np.int64)
    total = 0
    for n, (key, life) in enumerate(sorted(lives.items(), key=lambda item: -item[1].size)):
        size = -(-max(life.size, 1) // ALIGN) * ALIGN
        meets = (firsts[:n] <= life.last) & (lasts[:n] >= life.first) if share else slice(n)
        at = _lowest_gap(starts[:n][meets], ends[:n][meets], size)
        offsets[key] = at
        placed[:, n] = at, at + size, life.first, life.last
        total = max(total, at + size)
    return offsets, total


def _lowest_gap(starts: np.ndarray, ends: np.ndarray, size: int) -> int:
    """The lowest place for so many bytes beside those that are taken."""
    if not len(starts):
        return 0
    order = np.argsort(starts, kind="stable")
    free = np.maximum.accumulate(np.concatenate([[0], ends[order]]))  # from where on nothing is taken, so far
    fits = np.flatnonzero(free[:-1] + size <= starts[order])
    return int(free[fits[0]] if len(fits) else free[-1])


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
