"""From samples to a batch: `default_collate` stacks, `default_convert` only makes tensors of arrays."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from ..dtypes import dtype
from ..errors import ArgumentError, ShapeError
from ..ops.create.create import tensor
from ..ops.shape.join import stack
from ..tensor import Tensor, wrap

__all__ = ["default_collate", "default_convert"]


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples joined along a new first axis, inside the containers they have in common.

    Tensors, arrays and NumPy scalars are stacked; floats become float64, integers int64; strings and bytes stay lists.
    Mappings keep their type, tuples become lists, named tuples stay what they are, all with collated parts.

    >>> default_collate([(1, 0.5), (2, 1.5)])
    [tensor([1, 2]), tensor([0.5000, 1.5000], dtype=weft.float64)]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return _stacked_tensors(batch)
    if isinstance(first, (np.ndarray, np.generic)) and not isinstance(first, (np.str_, np.bytes_)):
        return _stacked_arrays(batch)
    if isinstance(first, float):
        return tensor(list(batch), dtype=dtype.by_name["float64"])
    if isinstance(first, int):
        return tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _like_mapping(first, {key: default_collate([sample[key] for sample in batch]) for key in first})
    if isinstance(first, Sequence):
        return _collated_sequences(batch)
    raise ArgumentError(_cannot(type(first)))


def default_convert(data: Any) -> Any:
    """The same structure with NumPy arrays as tensors; everything else stays as it is."""
    if isinstance(data, (np.ndarray, np.generic)) and np.asarray(data).dtype in dtype.by_numpy:
        return wrap(np.asarray(data))
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(part) for key, part in data.items()})
    if isinstance(data, tuple):
        parts = [default_convert(part) for part in data]
        return type(data)(*parts) if hasattr(data, "_fields") else parts
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like_sequence(data, [default_convert(part) for part in data])
    return data


def _stacked_tensors(batch: Sequence[Tensor]) -> Tensor:
    if any(x._needs_grad for x in batch):
        return stack(list(batch))
    return wrap(_stack([x.array for x in batch]))


def _stacked_arrays(batch: Sequence[Any]) -> Tensor:
    arrays = [np.asarray(x) for x in batch]
    if arrays[0].dtype not in dtype.by_numpy:
        raise ArgumentError(_cannot(arrays[0].dtype))
    return wrap(_stack(arrays))


def _stack(arrays: list[np.ndarray]) -> np.ndarray:
    if len({array.shape for array in arrays}) > 1:
        shapes = sorted({array.shape for array in arrays})
        raise ShapeError(
            f"default_collate: stack expects each element to be of equal size, got shapes {shapes}; pad the samples, "
            "or give the loader a collate_fn"
        )
    return np.stack(arrays)


def _collated_sequences(batch: Sequence[Sequence[Any]]) -> Any:
    first = batch[0]
    if any(len(sample) != len(first) for sample in batch):
        lengths = sorted({len(sample) for sample in batch})
        raise ShapeError(
            f"default_collate: each element in list of batch should be of equal size, got lengths {lengths}; pad the "
            "samples, or give the loader a collate_fn"
        )
    parts = [default_collate(column) for column in zip(*batch, strict=True)]
    if isinstance(first, tuple):
        return type(first)(*parts) if hasattr(first, "_fields") else parts
    return _like_sequence(first, parts)


def _like_mapping(like: Mapping, parts: dict[Any, Any]) -> Any:
    """The parts in a mapping of the same type; a plain dictionary where the type cannot be made so."""
    if type(like) is dict:
        return parts
    try:
        if isinstance(like, MutableMapping):
            made = copy.copy(like)  # keeps what else the type holds, such as the factory of a defaultdict
            made.update(parts)
            return made
        return type(like)(parts)
    except TypeError:
        return parts


def _like_sequence(like: Sequence, parts: list[Any]) -> Any:
    if type(like) is list or isinstance(like, range):
        return parts
    try:
        if isinstance(like, MutableSequence):
            made = copy.copy(like)
            made[:] = parts
            return made
        return type(like)(parts)
    except TypeError:
        return parts


def _cannot(kind: Any) -> str:
    return (
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {kind}; give the "
        "loader a collate_fn"
    )
