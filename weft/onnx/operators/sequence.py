"""Sequences and optional values: Python's lists, and None."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft

from .registry import as_array, as_tensor, ints, rule


@rule("SequenceEmpty", raw=True)
def sequence_empty(*, dtype: int = 1) -> list[Any]:
    return []


@rule("SequenceConstruct", raw=True)
def sequence_construct(*values: Any) -> list[Any]:
    return list(values)


@rule("SequenceInsert", raw=True)
def sequence_insert(values: list[Any], value: Any, place: Any = None) -> list[Any]:
    at = len(values) if place is None else ints(place)[0]
    at = at + len(values) if at < 0 else at
    return [*values[:at], value, *values[at:]]


@rule("SequenceErase", raw=True)
def sequence_erase(values: list[Any], place: Any = None) -> list[Any]:
    at = (-1 if place is None else ints(place)[0]) % len(values)
    return [*values[:at], *values[at + 1 :]]


@rule("SequenceAt", raw=True)
def sequence_at(values: list[Any], place: Any) -> Any:
    return values[ints(place)[0]]


@rule("SequenceLength", raw=True)
def sequence_length(values: list[Any]) -> np.ndarray:
    return np.array(len(values), np.int64)


@rule("SequenceMap", raw=True)
def sequence_map(values: list[Any], *more: Any, body: Callable[[Sequence[Any]], tuple[Any, ...]]) -> tuple[Any, ...]:
    """The body over the elements of the first sequence, with those of the others or whole tensors beside."""
    found = [
        body([value, *(other[k] if isinstance(other, list) else other for other in more)])
        for k, value in enumerate(values)
    ]
    return tuple(list(column) for column in zip(*found, strict=True))


@rule("ConcatFromSequence", raw=True)
def concat_from_sequence(values: list[Any], *, axis: int, new_axis: int = 0) -> Any:
    tensors = [as_tensor(v) for v in values]
    return weft.stack(tensors, axis) if new_axis else weft.cat(tensors, axis)


@rule("SplitToSequence", raw=True)
def split_to_sequence(x: Any, sizes: Any = None, *, axis: int = 0, keepdims: int = 1) -> list[Any]:
    x = as_tensor(x)
    if sizes is None:
        parts = weft.split(x, 1, axis)
        return [p if keepdims else p.squeeze(axis) for p in parts]
    lengths = ints(sizes)
    return list(weft.split(x, lengths[0] if as_array(sizes).ndim == 0 else lengths, axis))


@rule("Optional", raw=True)
def optional(value: Any = None, *, type: Any = None) -> Any:
    return value


@rule("OptionalHasElement", raw=True)
def optional_has_element(value: Any = None) -> np.ndarray:
    return np.array(value is not None)


@rule("OptionalGetElement", raw=True)
def optional_get_element(value: Any) -> Any:
    return value
