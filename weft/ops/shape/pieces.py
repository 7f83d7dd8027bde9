"""Pieces of a tensor along a dimension: split, chunk, tensor_split and their relatives, all as views."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from ... import dtypes
from ...errors import ArgumentError, ShapeError
from ...refusal import need_bounded
from ...sizes import wrap_dim
from ...tensor import Tensor
from ..core.operands import python_int
from ..core.primitive import operation
from .reshape import sizes_from
from .shape import ALL
from .view import SLICE, SPLIT

MOST_PIECES = 1 << 20  # each is a tensor, also where nothing is in it


@operation(method=False, aliases=("unsafe_split",))
def split(tensor: Tensor, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None) -> Any:
    """Consecutive pieces along `dim`: of one size (the last may be smaller), or of the sizes listed."""
    sections = split_size if split_size_or_sections is None else split_size_or_sections
    if isinstance(sections, (tuple, list)):
        return split_with_sizes(tensor, sections, dim)
    if tensor.ndim == 0:
        raise ShapeError("split: expects at least a 1-dimensional tensor")
    size, d = python_int(sections, "split"), wrap_dim(dim, tensor.ndim, "split")
    length = tensor.shape[d]
    if size < 0:
        raise ShapeError(f"split: expects split_size be non-negative, but got split_size={size}")
    if size == 0 and length:
        raise ShapeError(f"split: split_size can only be 0 if dimension size is 0, but got dimension size of {length}")
    count = builtins.max(-(-length // size), 1) if size else 1
    return SPLIT(tensor, sizes=(size,) * (count - 1) + (length - size * (count - 1),), dim=d)


Tensor.split = Tensor.unsafe_split = split


@operation(aliases=("unsafe_split_with_sizes",))
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Consecutive pieces of the given sizes along `dim`."""
    if input.ndim == 0:
        raise ShapeError("split: expects at least a 1-dimensional tensor")
    sizes, d = sizes_from((split_sizes,), "split_with_sizes"), wrap_dim(dim, input.ndim, "split_with_sizes")
    if any(s < 0 for s in sizes) or builtins.sum(sizes) != input.shape[d]:
        raise ShapeError(
            f"split_with_sizes: expects split_sizes to be non-negative and to sum exactly to {input.shape[d]} (input "
            f"tensor's size at dimension {d}), but got split_sizes={list(sizes)}"
        )
    return SPLIT(input, sizes=sizes, dim=d) if sizes else ()


@operation(aliases=("unsafe_chunk",))
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` consecutive pieces of equal size (the last may be smaller)."""
    if input.ndim == 0:
        raise ShapeError("chunk: expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise ShapeError(f"chunk: expects `chunks` to be greater than 0, got: {chunks}")
    d = wrap_dim(dim, input.ndim, "chunk")
    length = input.shape[d]
    if length == 0:
        return SPLIT(input, sizes=(0,) * need_bounded(chunks, "chunk", "chunks", MOST_PIECES), dim=d)
    return split(input, -(-length // chunks), d)


def _bounds(indices_or_sections: Any, length: int, name: str) -> list[tuple[int, int]]:
    """Start and end of every piece that `tensor_split` takes from a dimension."""
    if isinstance(indices_or_sections, Tensor):
        if indices_or_sections.ndim > 1 or indices_or_sections.dtype is not dtypes.int64:
            raise ShapeError(
                f"{name}: tensor_indices_or_sections must be a zero-dimensional or one-dimensional long tensor, got "
                f"{indices_or_sections.dtype} of shape {tuple(indices_or_sections.shape)}"
            )
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, (tuple, list)):
        cuts = [python_int(i, name) for i in indices_or_sections]
        starts, ends = [0, *cuts], [*cuts, length]
        ranges = [slice(a, b).indices(length)[:2] for a, b in zip(starts, ends, strict=True)]
        return [(a, builtins.max(a, b)) for a, b in ranges]
    sections = need_bounded(python_int(indices_or_sections, name), name, "the number of sections", MOST_PIECES)
    if sections <= 0:
        raise ShapeError(f"{name}: number of sections must be larger than 0, got {sections}")
    small, extra = divmod(length, sections)
    ends = [small * (i + 1) + builtins.min(i + 1, extra) for i in range(sections)]
    return list(zip([0, *ends[:-1]], ends, strict=True))


@operation()
def tensor_split(input: Tensor, indices_or_sections: Any = None, dim: int = 0, **names: Any) -> tuple[Tensor, ...]:
    """Pieces of nearly equal size, or between the given indices, along `dim`."""
    for name in ("indices", "sections", "tensor_indices_or_sections"):
        indices_or_sections = names.pop(name, indices_or_sections)
    if names or indices_or_sections is None:
        raise ArgumentError(f"tensor_split: expected indices_or_sections and dim, got also {sorted(names)}")
    return _split_at(input, indices_or_sections, dim, "tensor_split")


def _split_at(x: Tensor, indices_or_sections: Any, dim: int, name: str) -> tuple[Tensor, ...]:
    if x.ndim == 0:
        raise ShapeError(f"{name}: expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    d = wrap_dim(dim, x.ndim, name)
    bounds = _bounds(indices_or_sections, x.shape[d], name)
    return tuple(SLICE(x, index=(ALL,) * d + ((start, end, 1),)) for start, end in bounds)


def _axis_split(name: str, rank: int, axis: int) -> Callable:
    def function(input: Tensor, indices_or_sections: Any = None, **names: Any) -> tuple[Tensor, ...]:
        for other in ("indices", "sections"):
            indices_or_sections = names.pop(other, indices_or_sections)
        if input.ndim < rank:
            raise ShapeError(
                f"{name}: requires a tensor with at least {rank} dimension(s), but got a tensor with {input.ndim}"
            )
        d = 0 if input.ndim == 1 else axis
        sections = indices_or_sections
        if not isinstance(sections, (tuple, list)) and (sections < 1 or input.shape[d] % sections):
            raise ShapeError(
                f"{name}: attempted to split along dimension {d}, but the size of the dimension {input.shape[d]} is "
                f"not divisible by the split_size {sections}!"
            )
        return _split_at(input, sections, d, name)

    function.__name__ = name
    function.__doc__ = f"Equal pieces, or pieces between the given indices, along dimension {axis}."
    return operation()(function)


hsplit, vsplit, dsplit = _axis_split("hsplit", 1, 1), _axis_split("vsplit", 2, 0), _axis_split("dsplit", 3, 2)


@operation(out=True)
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`length` consecutive slices from `start` along `dim`, copied."""
    return input.narrow(dim, start, length).clone(memory_format="contiguous_format")
