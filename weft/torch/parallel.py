"""`torch.nn.parallel`'s parts: a batch cut for several cards, and what they return put together. All runs here, in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft

__all__ = ["gather", "parallel_apply", "replicate", "scatter", "scatter_kwargs"]


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """A part of a tensor, or of a tree of tensors, for each card."""
    if isinstance(inputs, weft.Tensor):
        return list(inputs.chunk(len(target_gpus), dim))
    if isinstance(inputs, (list, tuple)) and inputs:
        rows = zip(*(scatter(x, target_gpus, dim) for x in inputs), strict=False)
        return [type(inputs)(row) for row in rows]
    if isinstance(inputs, dict) and inputs:
        rows = zip(*(scatter(x, target_gpus, dim) for x in inputs.values()), strict=False)
        return [type(inputs)(zip(inputs, row, strict=True)) for row in rows]
    return [inputs for _ in target_gpus]


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Sequence[Any], dim: int = 0) -> tuple[Any, Any]:
    """`scatter` of arguments by position and by name, as many of the one as of the other."""
    rows = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(rows), len(named))
    return tuple(rows + [()] * (count - len(rows))), tuple(named + [{} for _ in range(count - len(named))])


def gather(outputs: Sequence[Any], target_device: Any = None, dim: int = 0) -> Any:
    """The parts put together along `dim`; numbers become a vector."""
    first = outputs[0]
    if isinstance(first, weft.Tensor):
        return weft.cat(list(outputs), dim) if first.ndim else weft.stack(list(outputs))
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)((key, gather([out[key] for out in outputs], target_device, dim)) for key in first)
    return type(first)(gather(row, target_device, dim) for row in zip(*outputs, strict=True))


def replicate(network: Any, devices: Sequence[Any], detach: bool = False) -> list[Any]:
    """The module itself, once for each card."""
    return [network for _ in devices]


def parallel_apply(
    modules: Sequence[Any], inputs: Sequence[Any], kwargs_tup: Any = None, devices: Any = None
) -> list[Any]:
    """Each module of its own input."""
    named = kwargs_tup or [{} for _ in modules]
    rows = [x if isinstance(x, (list, tuple)) else (x,) for x in inputs]
    return [module(*x, **kwargs) for module, x, kwargs in zip(modules, rows, named, strict=True)]
