"""Sequences of different lengths: padded into one tensor, or packed without padding.

A packed sequence holds, time step by time step, one row for each sequence that is still alive, the sequences sorted by
falling length; `batch_sizes` counts the living. Recurrent layers take it and return it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

import weft

from ...errors import ArgumentError, InvalidValueError, OptionError, ShapeError
from ...tensor import Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class PackedFields(NamedTuple):
    """The four fields of a `PackedSequence`."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedFields):
    """data (ΣB_t, *), batch_sizes (T,) falling, and the permutation that sorted the sequences, both ways."""

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, (tuple, list)) and len(data) == 2):
                raise ArgumentError("PackedSequence: expected data and batch_sizes, or one pair of the two")
            data, batch_sizes = data
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same sequences with data of another type or device; itself if nothing changes."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else type(self)(data, *self[1:])

    def _cast(self, kind: Any) -> PackedSequence:
        return self.to(kind)

    def double(self) -> PackedSequence:
        return self._cast(weft.float64)

    def float(self) -> PackedSequence:
        return self._cast(weft.float32)

    def half(self) -> PackedSequence:
        return self._cast(weft.float16)

    def long(self) -> PackedSequence:
        return self._cast(weft.int64)

    def int(self) -> PackedSequence:
        return self._cast(weft.int32)

    def short(self) -> PackedSequence:
        return self._cast(weft.int16)

    def char(self) -> PackedSequence:
        return self._cast(weft.int8)

    def byte(self) -> PackedSequence:
        return self._cast(weft.uint8)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        return self

    def pin_memory(self) -> PackedSequence:
        return self

    def is_pinned(self) -> bool:
        return False

    @property
    def is_cuda(self) -> bool:
        return False


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation q with q[p[i]] = i. Shape: (N,) → (N,)."""
    if permutation is None:
        return None
    order = weft.arange(permutation.numel(), dtype=permutation.dtype)
    return weft.empty_like(permutation).scatter(0, permutation, order)


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch; with enforce_sorted=False it is sorted first, and unsorted when padded again.

    Shape: (T, N, *), or (N, T, *) with batch_first; lengths (N,) → data (Σ lengths, *)
    """
    lengths = weft.as_tensor(lengths, dtype=weft.int64)
    order = None
    if not enforce_sorted:
        lengths, order = lengths.sort(descending=True)
        input = input.index_select(0 if batch_first else 1, order)
    if batch_first:
        input = input.transpose(0, 1)
    sizes = _batch_sizes(lengths.tolist(), *input.shape[:2])
    data = weft.cat([input[t, :alive] for t, alive in enumerate(sizes)])
    return PackedSequence(data, weft.tensor(sizes, dtype=weft.int64), order)


def _batch_sizes(lengths: list[int], steps: int, examples: int) -> list[int]:
    """How many sequences are alive at each time step."""
    if len(lengths) != examples:
        raise ShapeError(f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} and {examples}")
    if not lengths or min(lengths) <= 0:
        raise ShapeError(
            f"Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0: {lengths}"
        )
    if any(a < b for a, b in pairwise(lengths)):
        raise ShapeError(
            f"`lengths` array must be sorted in decreasing order when `enforce_sorted` is True, got {lengths}; you can "
            "pass `enforce_sorted=False`"
        )
    if lengths[0] > steps:
        raise ShapeError(f"pack_padded_sequence: a length of {lengths[0]} exceeds the {steps} time steps of the input")
    return [sum(length > t for length in lengths) for t in range(lengths[0])]


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded batch of a packed sequence, and the lengths, both in the order before packing.

    Shape: data (ΣB_t, *) → (T, N, *) or (N, T, *), lengths (N,)
    """
    sizes = sequence.batch_sizes.tolist()
    steps, examples = len(sizes), sizes[0]
    if total_length is not None:
        if total_length < steps:
            raise ShapeError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    rows, alive = sequence.data, weft.tensor(sizes, dtype=weft.int64)
    numbers = weft.arange(examples)
    there = numbers < weft.cat([alive, weft.zeros(steps - len(sizes), dtype=weft.int64)]).unsqueeze(1)  # (T, N)
    places = there.reshape(-1).nonzero().squeeze(1)  # (ΣB_t,), in the order of the rows
    padded = weft.full((steps * examples, *rows.shape[1:]), padding_value, dtype=rows.dtype).index_copy(0, places, rows)
    padded = padded.reshape(steps, examples, *rows.shape[1:])
    lengths = there.sum(0)
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        lengths = lengths.index_select(0, sequence.unsorted_indices)
    return (padded.transpose(0, 1) if batch_first else padded), lengths


def pad_sequence(
    sequences: Tensor | Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack sequences of different lengths, filled up with `padding_value` at one side.

    Shape: N of (L_i, *) → (max L, N, *), or (N, max L, *) with batch_first
    """
    if padding_side not in ("left", "right"):
        raise InvalidValueError(f"pad_sequence: expected padding_side to be 'left' or 'right', got {padding_side!r}")
    sequences = list(sequences.unbind(0) if isinstance(sequences, Tensor) else sequences)
    if not sequences:
        raise OptionError("received an empty list of sequences")
    lengths = np.array([x.shape[0] for x in sequences])
    count, longest = len(sequences), int(lengths.max())
    steps, first = np.arange(longest), (longest - lengths if padding_side == "left" else 0 * lengths)[:, None]
    which, when = np.nonzero((steps >= first) & (steps < first + lengths[:, None]))  # (N, T) → two of (Σ L_i,)
    places = which * longest + when if batch_first else when * count + which
    rows = weft.cat(sequences)  # (Σ L_i, *)
    padded = weft.full((count * longest, *rows.shape[1:]), padding_value, dtype=rows.dtype)
    shape = (count, longest) if batch_first else (longest, count)
    return padded.index_copy(0, weft.from_numpy(places), rows).reshape(*shape, *rows.shape[1:])


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded batch, each with its own length. Shape: (T, N, *) → N of (L_i, *)."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [x[:length] for x, length in zip(padded_sequences.unbind(0), lengths.tolist(), strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences of different lengths. Shape: N of (L_i, *) → data (Σ L_i, *)."""
    lengths = weft.tensor([x.shape[0] for x in sequences], dtype=weft.int64)
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed one, in the order before packing. Shape: data (Σ L_i, *) → N of (L_i, *)."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
