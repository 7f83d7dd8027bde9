"""Sequences of different lengths as one batch, and the masks that say which places count.

Two conventions meet here, both PyTorch's: in `length_mask`, `segment_mask` and `causal_mask` True means "takes part", as
in `scaled_dot_product_attention`; in `padding_mask` True means "ignore", as in `key_padding_mask` of
`MultiheadAttention` and the transformer layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import weft

from ...errors import OptionError, ShapeError
from ...nn.beyond.sparse_attention import causal_mask
from ...nn.utils.rnn import pad_sequence
from ...tensor import Tensor

__all__ = ["PaddedBatch", "causal_mask", "length_mask", "pad_batch", "padding_mask"]


class PaddedBatch(NamedTuple):
    """data (B, T, *), lengths (B,) int64, mask (B, T) bool, True where data are and not padding."""

    data: Tensor
    lengths: Tensor
    mask: Tensor


def pad_batch(
    sequences: Sequence[Any],
    padding_value: float = 0,
    *,
    multiple: int = 1,
    max_length: int | None = None,
    padding_side: str = "right",
) -> PaddedBatch:
    """Sequences (lists, arrays, tensors) filled up to the longest, and further to a multiple of `multiple`.

    max_length: longer ones are cut first, at the end. Few different T keep compiled steps from being built anew:
    multiple=16 or so is worth its padding.
    Shape: B of (Lᵢ, *) → data (B, T, *), lengths (B,), mask (B, T)

    Example:
        >>> from weft.data.text import pad_batch
        >>> batch = pad_batch([[5, 6, 7], [8]], multiple=4)
        >>> batch.data.tolist(), batch.lengths.tolist(), batch.mask.sum().item()
        ([[5, 6, 7, 0], [8, 0, 0, 0]], [3, 1], 4)
    """
    if multiple < 1:
        raise OptionError(f"pad_batch: expected multiple to be at least 1, got {multiple}")
    if max_length is not None and max_length < 0:
        raise OptionError(f"pad_batch: expected max_length to be at least 0, got {max_length}")
    rows = as_tensors(sequences)
    if max_length is not None:
        rows = [row[:max_length] for row in rows]
    lengths = weft.tensor([len(row) for row in rows], dtype=weft.int64)
    longest = max(len(row) for row in rows)
    filler = rows[0].new_empty((-(-longest // multiple) * multiple, *rows[0].shape[1:]))
    data = pad_sequence([*rows, filler], True, padding_value, padding_side)[:-1]  # the filler only sets T
    mask = length_mask(lengths, data.shape[1])
    return PaddedBatch(data, lengths, mask if padding_side == "right" else mask.flip(1))


def length_mask(lengths: Tensor | Sequence[int], size: int | None = None) -> Tensor:
    """t < lengths[b]: True inside each sequence. Shape: (B,) → (B, T), T = size or the longest

    Example:
        >>> from weft.data.text import length_mask
        >>> length_mask([1, 3]).tolist()
        [[True, False, False], [True, True, True]]
    """
    lengths = weft.as_tensor(lengths, dtype=weft.int64)
    if lengths.ndim != 1:
        raise ShapeError(f"length_mask: expected lengths of shape (B,), got {tuple(lengths.shape)}")
    if size is None:
        size = int(lengths.max()) if len(lengths) else 0
    return weft.arange(size) < lengths.unsqueeze(1)


def padding_mask(lengths: Tensor | Sequence[int], size: int | None = None) -> Tensor:
    """t ≥ lengths[b]: True at padding, for `key_padding_mask`. Shape: (B,) → (B, T), T = size or the longest"""
    return ~length_mask(lengths, size)


def as_tensors(sequences: Sequence[Any]) -> list[Tensor]:
    """Every sequence as a tensor; an empty list takes the type of the others, int64 if there are none."""
    if not len(sequences):
        raise ShapeError("pad_batch: expected at least one sequence, got none")
    rows = [row if isinstance(row, (Tensor, np.ndarray)) or len(row) else None for row in sequences]
    made = [None if row is None else weft.as_tensor(row) for row in rows]
    like = next((row for row in made if row is not None), weft.zeros(0, dtype=weft.int64))
    made = [like[:0] if row is None else row for row in made]
    if any(row.ndim == 0 or row.shape[1:] != like.shape[1:] for row in made):
        shapes = sorted({tuple(row.shape) for row in made})
        raise ShapeError(f"pad_batch: expected sequences (L, *) that differ in L alone, got shapes {shapes}")
    return made
