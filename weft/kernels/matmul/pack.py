"""Pieces of matrix kernels: panels copied or transposed into scratch memory, and sums over the lanes of many vectors.

A panel holds one row of `width` elements for each k, so that the innermost loop reads it straight through.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from ..llvm.builder import Function
from ..llvm.values import BITS, Val

__all__ = ["fetch", "hide", "load_transposed", "pack", "pack_panels", "pack_rows", "totals"]


def fetch(f: Function, place: Val, near: bool = True) -> None:
    """Ask for the cache line at an address before it is needed; any address is allowed."""
    f.declarations["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
    f.do(f"call void @llvm.prefetch.p0({place.typed}, i32 0, i32 {3 if near else 2}, i32 1)")


def hide(f: Function, x: Val) -> Val:
    """The same value, opaque to LLVM's rewriting of loops, which costs more time than everything else together when it
    sees the many addresses of a tile through several loops."""
    return f.emit(f"freeze {x.typed}", x.kind, x.lanes)


def pack(
    f: Function,
    source: Val,
    strides: tuple[int, int],
    shape: tuple[int, Any],
    kind: str,
    lanes: int,
    to: Val,
    width: int,
) -> None:
    """Copy the (depth, columns) = `shape` part of a matrix with `strides` into a panel; lanes past the end hold anything.

    `columns` may be a value of at most `width`, `depth` one of at least `lanes`.
    """
    depth, columns = shape
    down, across = strides
    if across != 1 and down == 1 and (isinstance(depth, Val) or depth >= lanes):
        return _pack_transposed(f, source, across, shape, kind, lanes, to, width)
    if isinstance(columns, int) and columns % lanes == 0:  # row by row: a row may lie on a page of its own
        with f.loop(0, depth) as k:
            for column in range(0, columns, lanes):
                vector = f.load(source, k.i * down + column * across, kind, lanes, None, across)
                f.store(vector, to, k.i * width + column)
        return
    with f.loop(0, columns, lanes) as column:
        mask = f.tail_mask(lanes, columns - column.i)
        with f.loop(0, depth) as k:
            vector = f.load(source, column.i * across + k.i * down, kind, lanes, mask, across)
            f.store(vector, to, k.i * width + column.i)


def _pack_transposed(
    f: Function, source: Val, across: int, shape: tuple[int, Any], kind: str, lanes: int, to: Val, width: int
) -> None:
    """Squares of the matrix are transposed in registers; the last ones overlap those before."""
    depth, columns = shape
    exact = isinstance(columns, int) and columns % lanes == 0
    with f.loop(0, columns, lanes) as column, f.loop(0, depth, lanes) as k:
        start = _within(f, k.i, depth, lanes)
        corner = hide(f, f.offset(source, column.i * across + start, kind))

        def row(r: int) -> Any:
            return r * across if exact else f.intrinsic("smin", f.index(columns) - 1 - column.i, r) * across

        square = load_transposed(f, corner, row, kind, lanes)
        place = hide(f, f.offset(to, start * width + column.i, kind))
        for r, vector in enumerate(square):
            f.store(vector, place, r * width)


def pack_panels(
    f: Function,
    source: Val,
    strides: tuple[int, int],
    shape: tuple[Any, Val, Val],
    kind: str,
    lanes: int,
    to: Val,
    panel: tuple[int, int],
) -> None:
    """Copy panels `first` … `end` of the matrix, (depth, first, end) = `shape`; `panel` = (columns, elements from panel to
    panel). Rows that lie in one piece are read in one piece."""
    depth, first, end = shape
    down, across = strides
    width, pitch = panel
    if across == 1:
        with f.loop(0, depth) as k:
            line, place = f.offset(source, k.i * down, kind), f.offset(to, k.i * width, kind)
            with f.loop(first, end) as number:
                for column in range(0, width, lanes):
                    vector = f.load(line, number.i * width + column, kind, lanes)
                    f.store(vector, place, number.i * pitch + column)
        return
    with f.loop(first, end) as number:
        corner = f.offset(source, number.i * (width * across), kind)
        pack(f, corner, strides, (depth, width), kind, lanes, f.offset(to, number.i * pitch, kind), width)


def _within(f: Function, start: Val, depth: Any, lanes: int) -> Val:
    """Where the square that begins at `start` may begin so as not to end after `depth`."""
    exact = isinstance(depth, int) and depth % lanes == 0
    return start if exact else f.intrinsic("smin", start, f.index(depth) - lanes)


def pack_rows(
    f: Function,
    source: Val,
    strides: tuple[int, int],
    shape: tuple[Val, Any],
    kind: str,
    tile: tuple[int, int],
    lanes: int,
    to: Val,
) -> None:
    """Copy the (rows, depth) = `shape` part of a matrix with `strides`, `tile` = (rows, elements from tile to tile): for each
    k the rows of a tile lie side by side. Vectors may be longer than that, so each is written over the end of the one before.

    `depth` may be a value of at least `lanes`. What lies past the last row holds anything; past the end of a tile there must
    be room for one vector.
    """
    rows, depth = shape
    down, along = strides
    tall, pitch = tile
    if along == 1 and (isinstance(depth, Val) or depth >= lanes):
        return _pack_rows_transposed(f, source, down, shape, kind, tile, lanes, to)
    short = 1 << (tall - 1).bit_length()
    whole = f.intrinsic("smax", rows - short + tall, 0) // tall  # tiles that can be read without looking where rows end
    tiles = (rows + tall - 1) // tall
    with f.loop(0, depth) as k:
        line, place = f.offset(source, k.i * along, kind), f.offset(to, k.i * tall, kind)
        with f.loop(0, whole) as t:
            f.store(f.load(line, t.i * (tall * down), kind, short, None, down), place, t.i * pitch)
        with f.loop(whole, tiles) as t:
            mask = f.tail_mask(short, rows - t.i * tall)
            f.store(f.load(line, t.i * (tall * down), kind, short, mask, down), place, t.i * pitch)


def _pack_rows_transposed(
    f: Function, source: Val, down: int, shape: tuple[Val, Any], kind: str, tile: tuple[int, int], lanes: int, to: Val
) -> None:
    """Squares of the matrix are transposed in registers; the last ones overlap those before."""
    rows, depth = shape
    tall, pitch = tile
    with f.loop(0, (rows + tall - 1) // tall) as t, f.loop(0, depth, lanes) as k:
        start = _within(f, k.i, depth, lanes)
        corner = hide(f, f.offset(source, t.i * (tall * down) + start, kind))
        last = hide(f, rows - 1 - t.i * tall)
        squares = []
        for top in range(0, tall, lanes):

            def row(r: int, top: int = top) -> Any:
                return f.intrinsic("smin", last, min(top + r, tall - 1)) * down

            squares.append(load_transposed(f, corner, row, kind, lanes))
        place = hide(f, f.offset(to, t.i * pitch + start * tall, kind))
        for c in range(lanes):
            for number, square in enumerate(squares):
                f.store(square[c], place, c * tall + number * lanes)


def load_transposed(f: Function, corner: Val, row: Callable[[int], Any], kind: str, lanes: int) -> list[Val]:
    """The columns of the square of `lanes` rows, row r beginning `row(r)` elements after the corner.

    Pieces of 16 bytes are put together while loading, so that all shuffles stay within 16 bytes.
    """
    short = 128 // BITS[kind]
    places = [f.offset(corner, row(r), kind) for r in range(lanes)]
    columns: list[Val] = []
    for start in range(0, lanes, short):
        wide = []
        for s in range(short):
            pieces = [f.load(place, start, kind, short) for place in places[s::short]]
            while len(pieces) > 1:
                size = 2 * pieces[0].lanes
                pieces = [f.shuffle(x, y, range(size)) for x, y in zip(pieces[::2], pieces[1::2], strict=True)]
            wide.append(pieces[0])
        columns += _transpose_pieces(f, wide, short)
    return columns


def _transpose_pieces(f: Function, rows: list[Val], short: int) -> list[Val]:
    """Each group of `short` lanes of `short` vectors transposed, by interleaving halves."""
    lanes, half = rows[0].lanes, short // 2
    orders = [
        [g + x for g in range(0, lanes, short) for i in range(base, base + half) for x in (i, lanes + i)]
        for base in (0, half)
    ]
    for _ in range(short.bit_length() - 1):
        rows = [f.shuffle(rows[i], rows[i + half], order) for i in range(half) for order in orders]
    return rows


def totals(f: Function, vectors: Sequence[Val], combine: Callable[[Val, Val], Val] = operator.add) -> Val:
    """One vector whose lane j is the lanes of vector j combined; as many vectors as lanes, a power of two."""
    lanes = width = len(vectors)
    rows = list(vectors)
    while len(rows) > 1:
        half, width = len(rows) // 2, width // 2
        low = [g + i for g in range(0, lanes, 2 * width) for i in range(width)]
        order_low = _beside(low, lanes, width)
        order_high = _beside([i + width for i in low], lanes, width)
        pairs = [(rows[j], rows[j + half]) for j in range(half)]
        rows = [combine(f.shuffle(x, y, order_low), f.shuffle(x, y, order_high)) for x, y in pairs]
    return rows[0]


def _beside(chosen: list[int], lanes: int, width: int) -> list[int]:
    """Groups of `width` chosen lanes, alternately of the first vector and of the second."""
    groups = [chosen[i : i + width] for i in range(0, len(chosen), width)]
    return [x for group in groups for x in group + [lanes + i for i in group]]
