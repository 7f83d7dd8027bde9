"""Many short sequences in rows of one length: hardly any padding, and masks that keep them apart.

A row holds several segments side by side. segments numbers them 1, 2, …, 0 is padding; positions count from 0 in each.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import weft

from ...errors import OptionError, ShapeError
from ...nn.beyond.sparse_attention import causal_mask
from ...tensor import Tensor
from .padding import as_tensors

__all__ = ["PackedRows", "next_token_targets", "pack_rows", "segment_mask", "unpack_rows"]


class PackedRows(NamedTuple):
    """data, segments, positions (R, T); sources: for each row the numbers of the sequences in it, in order."""

    data: Tensor
    segments: Tensor
    positions: Tensor
    sources: list[list[int]]


def pack_rows(sequences: Sequence[Any], length: int, padding_value: int = 0, order: str = "best_fit") -> PackedRows:
    """Sequences of at most `length` tokens, none cut, side by side in rows.

    order: "best_fit" puts the longest first, each into the fullest row that has room (best-fit decreasing: for many
    sequences at most 11/9 of the fewest rows); "in_order" keeps the order of the sequences and starts a row whenever the next does not fit.
    Empty sequences take no place.
    Shape: N of (Lᵢ,) → data, segments, positions (R, length)

    Example:
        >>> from weft.data.text import pack_rows
        >>> rows = pack_rows([[1, 2, 3], [4], [5, 6]], length=4)
        >>> rows.data.tolist(), rows.segments.tolist(), rows.sources
        ([[1, 2, 3, 4], [5, 6, 0, 0]], [[1, 1, 1, 2], [1, 1, 0, 0]], [[0, 1], [2]])
    """
    if order not in ORDERS:
        raise OptionError(f"pack_rows: expected order to be one of {', '.join(ORDERS)}, got {order!r}")
    arrays = [np.asarray(row) for row in as_tensors(sequences)] if len(sequences) else []
    lengths = [len(array) for array in arrays]
    _check(arrays, lengths, length)
    sources = ORDERS[order](lengths, length)
    data = np.full((len(sources), length), padding_value, arrays[0].dtype if arrays else np.int64)
    segments, positions = np.zeros((2, len(sources), length), np.int64)
    for row, numbers in enumerate(sources):
        taken = [lengths[number] for number in numbers]
        used = slice(sum(taken))
        data[row, used] = np.concatenate([arrays[number] for number in numbers])
        segments[row, used] = np.repeat(np.arange(1, len(taken) + 1), taken)
        positions[row, used] = np.concatenate([np.arange(size) for size in taken])
    return PackedRows(weft.as_tensor(data), weft.as_tensor(segments), weft.as_tensor(positions), sources)


def unpack_rows(data: Tensor, segments: Tensor, sources: list[list[int]]) -> list[Tensor]:
    """What belongs to each packed sequence, in the order before packing: `pack_rows` undone, also for outputs.

    Shape: data (R, T, *), segments (R, T) → N of (Lᵢ, *); sequences that were empty have no source and are left out

    Example:
        >>> from weft.data.text import pack_rows, unpack_rows
        >>> rows = pack_rows([[1, 2, 3], [4], [5, 6]], length=4)
        >>> [row.tolist() for row in unpack_rows(rows.data, rows.segments, rows.sources)]
        [[1, 2, 3], [4], [5, 6]]
    """
    found: dict[int, Tensor] = {}
    for row, numbers in enumerate(sources):
        start = 0
        counts = np.bincount(np.asarray(segments[row]), minlength=len(numbers) + 1)
        for number, size in zip(numbers, counts[1:].tolist(), strict=True):
            found[number] = data[row, start : start + size]
            start += size
    return [found[number] for number in sorted(found)]


def segment_mask(segments: Tensor, causal: bool = False) -> Tensor:
    """Which pairs may attend: equal segments, none of them padding, and with `causal` no key ahead of its query.

    True takes part, as in `scaled_dot_product_attention`; unsqueeze(1) for heads. Rows of padding see nothing.
    Shape: (R, T) → (R, T, T), queries × keys

    Example:
        >>> import weft
        >>> from weft.data.text import segment_mask
        >>> segment_mask(weft.tensor([[1, 1, 2, 0]]), causal=True).int().tolist()
        [[[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]]
    """
    if segments.ndim != 2:
        raise ShapeError(f"segment_mask: expected segments of shape (R, T), got {tuple(segments.shape)}")
    same = (segments.unsqueeze(2) == segments.unsqueeze(1)) & (segments != 0).unsqueeze(1)  # (R, T, T)
    return same & causal_mask(segments.shape[1]) if causal else same


def next_token_targets(data: Tensor, segments: Tensor, ignore_index: int = -100) -> Tensor:
    """The next token of the same segment; `ignore_index` at the end of each and at padding. Shape: (R, T) → (R, T)

    Example:
        >>> import weft
        >>> from weft.data.text import next_token_targets
        >>> next_token_targets(weft.tensor([[5, 6, 7, 0]]), weft.tensor([[1, 1, 2, 0]])).tolist()
        [[6, -100, -100, -100]]
    """
    if data.shape != segments.shape:
        raise ShapeError(f"next_token_targets: data {tuple(data.shape)} and segments {tuple(segments.shape)} differ")
    goes_on = (segments[:, 1:] == segments[:, :-1]) & (segments[:, 1:] != 0)  # (R, T − 1)
    nothing = weft.full_like(data, ignore_index)
    return weft.cat([weft.where(goes_on, data[:, 1:], nothing[:, 1:]), nothing[:, :1]], 1)[:, : data.shape[1]]


def _best_fit(lengths: list[int], length: int) -> list[list[int]]:
    """Rows of sequence numbers: the longest first, each into the row with the least room that is enough."""
    rows: list[list[int]] = []
    spaces: list[tuple[int, int]] = []  # (room left, row), sorted
    for number in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        size = lengths[number]
        if not size:
            break
        place = bisect.bisect_left(spaces, (size, 0))
        room, row = spaces.pop(place) if place < len(spaces) else (length, len(rows))
        if row == len(rows):
            rows.append([])
        rows[row].append(number)
        bisect.insort(spaces, (room - size, row))
    return rows


def _in_order(lengths: list[int], length: int) -> list[list[int]]:
    """Rows of sequence numbers: a new row whenever the next sequence does not fit."""
    rows: list[list[int]] = []
    room = 0
    for number, size in enumerate(lengths):
        if not size:
            continue
        if size > room:
            rows.append([])
            room = length
        rows[-1].append(number)
        room -= size
    return rows


ORDERS: dict[str, Callable[[list[int], int], list[list[int]]]] = {"best_fit": _best_fit, "in_order": _in_order}


def _check(arrays: list[np.ndarray], lengths: list[int], length: int) -> None:
    if length < 1:
        raise OptionError(f"pack_rows: expected length to be at least 1, got {length}")
    if any(array.ndim != 1 for array in arrays):
        raise ShapeError("pack_rows: expected sequences of shape (L,)")
    if lengths and max(lengths) > length:
        raise ShapeError(
            f"pack_rows: sequence {lengths.index(max(lengths))} has {max(lengths)} tokens, a row has {length}; cut it "
            "(tokenizer.encode(text, max_length=…)) or choose longer rows"
        )
