"""Parts of matrix kernels: copying operands into panels that vector loads can read, and sums of the lanes of many vectors.

A panel holds `depth` rows of `width` elements each, one row for each k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .llvm import BITS, Function, Val


def transpose(f: Function, rows: Sequence[Val]) -> list[Val]:
    """The columns of a square of as many vectors as they have lanes."""
    lanes = len(rows)
    for _ in range(lanes.bit_length() - 1):
        half = lanes // 2
        low = [x for i in range(half) for x in (i, lanes + i)]
        high = [x for i in range(half, lanes) for x in (i, lanes + i)]
        pairs = [(rows[i], rows[i + half]) for i in range(half)]
        rows = [f.shuffle(x, y, order) for x, y in pairs for order in (low, high)]
    return list(rows)


def load_transposed(f: Function, row: Callable[[int], tuple[Val, Any]], kind: str, lanes: int) -> list[Val]:
    """Columns of the square whose row r begins at `row(r)` = (pointer, index): quarters of vectors are put together
    while loading, so that shuffles stay within 16 bytes."""
    short = 128 // BITS[kind]
    parts = lanes // short
    columns: list[Val] = []
    for start in range(0, lanes, short):
        wide = []
        for s in range(short):
            pieces = []
            for part in range(parts):
                pointer, index = row(part * short + s)
                pieces.append(f.load(pointer, index + start, kind, short))
            while len(pieces) > 1:
                size = 2 * pieces[0].lanes
                pieces = [f.shuffle(x, y, range(size)) for x, y in zip(pieces[::2], pieces[1::2], strict=True)]
            wide.append(pieces[0])
        columns += _transpose_within(f, wide, short)
    return columns


def _transpose_within(f: Function, rows: list[Val], short: int) -> list[Val]:
    """Each group of `short` lanes of `short` vectors transposed."""
    lanes, half = rows[0].lanes, short // 2
    for _ in range(short.bit_length() - 1):
        orders = [
            [g + x for g in range(0, lanes, short) for i in range(base, base + half) for x in (i, lanes + i)]
            for base in (0, half)
        ]
        rows = [f.shuffle(rows[i], rows[i + half], order) for i in range(half) for order in orders]
    return rows
