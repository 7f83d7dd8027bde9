"""Rows of a table by number: one by one (`embedding`), or summed up in bags (`embedding_bag`)."""

from __future__ import annotations

import weft

from ...dtypes import int32, int64
from ...errors import DtypeError, IndexRangeError, InvalidValueError, ShapeError
from ...ops.index.places import check_places
from ...tape.interpreter import interpreter_of
from ...tensor import Tensor
from ._common import any_true, require_tensor, widened
from .sparse_rows import sparse_rows_of, takes_sparse_gradient

__all__ = ["embedding", "embedding_bag"]


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """y[*] = weight[input[*]].

    Row `padding_idx` gets no gradient. `max_norm` first scales the rows that are looked up, in place,
    to a norm (of order norm_type) of at most max_norm. `scale_grad_by_freq` divides the gradient of a
    row by how often it occurs. With `sparse` the gradient of a leaf `weight` holds only the rows in use (`SparseRows`).
    Shape: (*) of int64 or int32, (V, D) → (*, D)
    """
    _check_lookup("embedding", input, weight)
    padding_idx = _row_number("embedding", padding_idx, weight)
    if max_norm is not None:
        _renormalize(weight, input, max_norm, norm_type)
    if sparse and takes_sparse_gradient(weight):
        _check_sparse("embedding", scale_grad_by_freq)
        return sparse_rows_of(weight, input.reshape(-1), padding_idx).reshape(*input.shape, weight.shape[1])
    rows = _rows(weight, input, scale_grad_by_freq)
    if padding_idx is not None:
        rows = weft.where((input == padding_idx).unsqueeze(-1), rows.detach(), rows)
    return rows


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of the rows weight[i] over each bag of numbers i.

    A 2-D input holds one bag in each row. A 1-D input holds bags one after the other, which begin at
    `offsets` (with include_last_offset the last entry is the end). Entries equal to `padding_idx` are
    left out; an empty bag gives 0. Shape: (B, L), or (N,) with offsets (B,); weight (V, D) → (B, D)
    """
    _check_bag(input, weight, offsets, mode, sparse, scale_grad_by_freq, per_sample_weights)
    padding_idx = _row_number("embedding_bag", padding_idx, weight)
    if max_norm is not None:
        _renormalize(weight, input, max_norm, norm_type)
    if input.ndim == 2:
        starts, ends = None, None
    else:
        starts, ends = _bag_limits(input, offsets, include_last_offset)
    if mode == "max":
        return _bag_maximum(input, weight, starts, ends, padding_idx)
    if sparse and takes_sparse_gradient(weight):
        _check_sparse("embedding_bag", scale_grad_by_freq)
        rows = sparse_rows_of(weight, input.reshape(-1), padding_idx).reshape(*input.shape, weight.shape[1])
    else:
        rows = _rows(weight, input, scale_grad_by_freq)
    (rows,) = widened(rows)
    kept = None if padding_idx is None else (input != padding_idx).unsqueeze(-1)
    if per_sample_weights is not None:
        rows = rows * widened(per_sample_weights)[0].unsqueeze(-1)
    if kept is not None:
        rows = rows.masked_fill(~kept, 0)
    total, count = _bag_sums(rows, kept, starts, ends)
    return (total if mode == "sum" else total / count).to(weight.dtype)


# ------------------------------------------------------------------------------------------------- rows


def _rows(weight: Tensor, input: Tensor, by_frequency: bool) -> Tensor:
    """weight[input]: (*) → (*, D), with gradients divided by how often a row occurs if asked."""
    flat = input.reshape(-1)
    rows = weight.index_select(0, flat)  # (n, D)
    if by_frequency:
        ones = weft.ones_like(flat, dtype=weight.dtype)
        count = weft.zeros(weight.shape[0], dtype=weight.dtype).index_add(0, flat, ones).index_select(0, flat)
        scaled = rows / count.unsqueeze(-1)
        rows = rows.detach() + (scaled - scaled.detach())  # the value of one, the gradient of the other
    return rows.reshape(*input.shape, weight.shape[1])


def _check_sparse(name: str, by_frequency: bool) -> None:
    if by_frequency:
        raise InvalidValueError(
            f"{name}: scale_grad_by_freq is not supported with sparse gradients; use one of the two"
        )


def _renormalize(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are looked up, in place, so that no norm exceeds max_norm."""
    with weft.no_grad():
        index = input.reshape(-1)
        rows = weight.detach().index_select(0, index)
        norm = rows.norm(norm_type, -1, keepdim=True)
        scaled = rows * (max_norm / (norm + 1e-7))
        weight.index_copy_(0, index.long(), weft.where(norm > max_norm, scaled, rows))


# ------------------------------------------------------------------------------------------------- bags


def _bag_limits(input: Tensor, offsets: Tensor, include_last: bool) -> tuple[Tensor, Tensor]:
    """Where each bag begins and ends in a 1-D input."""
    offsets = offsets.long()
    length = input.shape[0]
    if include_last and offsets.shape[0] == 0:
        raise ShapeError("embedding_bag: include_last_offset: number of offsets should be at least 1")
    if offsets.shape[0]:
        if any_true(offsets[0] != 0):
            raise ShapeError(
                "embedding_bag: offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
                f"position 0, got {int(offsets[0])}"
            )
        if any_true(offsets[-1] > length):
            raise ShapeError(
                f"embedding_bag: offsets[-1] can not be greater than input's length {length} but got {int(offsets[-1])}"
            )
    if include_last:
        return offsets[:-1], offsets[1:]
    return offsets, weft.cat([offsets[1:], weft.full_like(offsets[:1], length)])


def _bag_sums(rows: Tensor, kept: Tensor | None, starts: Tensor | None, ends: Tensor | None) -> tuple[Tensor, Tensor]:
    """The sum over each bag, (B, D), and how many entries it has (at least 1), broadcasting against it."""
    if starts is None:  # rows (B, L, D)
        count = rows.shape[1] if kept is None else kept.sum(1)
        total = rows.sum(1)
    else:  # rows (n, D)
        place = weft.arange(rows.shape[0])
        bag = weft.searchsorted(starts, place, right=True) - 1
        inside = place < ends.index_select(0, bag) if len(starts) else place < 0
        weights = inside.unsqueeze(-1) if kept is None else kept & inside.unsqueeze(-1)
        bags = max(starts.shape[0], 1)
        rows = rows.masked_fill(~inside.unsqueeze(-1), 0)
        total = weft.zeros(bags, rows.shape[1], dtype=rows.dtype).index_add(0, bag.clamp(min=0), rows)[: len(starts)]
        count = weft.zeros(bags, 1, dtype=weft.int64).index_add(0, bag.clamp(min=0), weights.long())[: len(starts)]
    return total, count.clamp(min=1) if isinstance(count, Tensor) else max(count, 1)


def _bag_maximum(
    input: Tensor, weight: Tensor, starts: Tensor | None, ends: Tensor | None, padding_idx: int | None
) -> Tensor:
    """The elementwise maximum over each bag: the bags side by side in a matrix, padded with −∞."""
    if starts is not None:
        longest = int((ends - starts).max()) if len(starts) else 0
        place = starts.unsqueeze(-1) + weft.arange(max(longest, 0))  # (B, L)
        inside = place < ends.unsqueeze(-1)
        input = input[place.masked_fill(~inside, 0)]
    else:
        inside = weft.ones_like(input, dtype=weft.bool)
    if padding_idx is not None:
        inside = inside & (input != padding_idx)
    if input.shape[1] == 0:
        return weft.zeros(input.shape[0], weight.shape[1], dtype=weight.dtype)
    rows = _rows(weight, input, False).masked_fill(~inside.unsqueeze(-1), float("-inf"))  # (B, L, D)
    largest = rows.max(1).values
    return largest.masked_fill(~inside.any(1, keepdim=True), 0)


# ----------------------------------------------------------------------------------------------- checks


def _check_lookup(name: str, input: Tensor, weight: Tensor) -> None:
    require_tensor(input, name)
    require_tensor(weight, name, "weight")
    if input.dtype not in (int64, int32):
        raise DtypeError(
            f"{name}: expected 'input' (the row numbers) to have one of the types int64, int32; but got {input.dtype}; "
            "convert it with .long()"
        )
    if weight.ndim != 2:
        raise ShapeError(f"{name}: 'weight' must be 2-D (rows, features), got shape {tuple(weight.shape)}")
    rows = weight.shape[0]
    if interpreter_of(input) is not None:
        check_places(input, rows, 0, name)
    elif any_true((input < 0) | (input >= rows)):
        worst = int(input.min()) if int(input.min()) < 0 else int(input.max())
        raise IndexRangeError(f"{name}: index out of range in self: {worst} is not in the valid range [0, {rows})")


def _row_number(name: str, padding_idx: int | None, weight: Tensor) -> int | None:
    if padding_idx is None:
        return None
    rows = weight.shape[0]
    if not -rows <= padding_idx < rows:
        raise IndexRangeError(
            f"{name}: padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, but got "
            f"{padding_idx}"
        )
    return padding_idx % rows


def _check_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None,
    mode: str,
    sparse: bool,
    by_frequency: bool,
    per_sample_weights: Tensor | None,
) -> None:
    name = "embedding_bag"
    require_tensor(input, name)
    if mode not in ("sum", "mean", "max"):
        raise InvalidValueError(f"{name}: mode has to be one of sum, mean or max, got {mode!r}")
    if input.ndim == 2 and offsets is not None:
        raise ShapeError(f"{name}: if input is 2D, then offsets has to be None: each row {tuple(input.shape)} is a bag")
    if input.ndim == 1 and (offsets is None or offsets.ndim != 1):
        found = None if offsets is None else tuple(offsets.shape)
        raise ShapeError(f"{name}: offsets has to be a 1D Tensor for a 1D input, but got {found}")
    if input.ndim not in (1, 2):
        raise ShapeError(f"{name}: input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if per_sample_weights is not None:
        if mode != "sum":
            raise InvalidValueError(f"{name}: per_sample_weights is only supported for mode='sum' (got mode='{mode}')")
        if per_sample_weights.shape != input.shape:
            raise ShapeError(
                f"{name}: per_sample_weights {tuple(per_sample_weights.shape)} must have the same shape as the input "
                f"{tuple(input.shape)}"
            )
        if per_sample_weights.dtype is not weight.dtype:
            raise DtypeError(
                f"{name}: expected per_sample_weights to have the type of weight, {weight.dtype}, got "
                f"{per_sample_weights.dtype}"
            )
    if mode == "max" and (sparse or by_frequency):
        what = "sparse weights" if sparse else "scaling the gradient by the frequency"
        raise InvalidValueError(f"{name}: max mode does not support {what}")
    _check_lookup(name, input, weight)
