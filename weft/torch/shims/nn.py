"""Names inside of `torch.nn` that libraries reach for: base classes, tuples, hints for types."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any

from ... import nn
from ...nn import LocalResponseNorm
from ...nn.modules import batchnorm, conv, dropout, loss, pool
from ...tape.holders import global_hooks

__all__ = ["SDPBackend", "consume_prefix_in_state_dict_if_present", "sdpa_kernel"]

_BatchNorm, _NormBase, _InstanceNorm = batchnorm.BatchNorm, batchnorm.RunningNorm, batchnorm.InstanceNorm
_Loss, _WeightedLoss = loss.Loss, loss.WeightedLoss
_DropoutNd = dropout.RandomlyDropped
_ConvNd, _ConvTransposeNd = conv._ConvNd, conv._ConvTranspose
_MaxPoolNd, _AvgPoolNd = pool._MaxPool, (pool._AvgPool, nn.AvgPool1d)
_AdaptiveAvgPoolNd, _AdaptiveMaxPoolNd = pool._AdaptiveAvgPool, pool._AdaptiveMaxPool
_global_forward_hooks = global_hooks.setdefault("forward", {})
_global_forward_pre_hooks = global_hooks.setdefault("forward_pre", {})

# Hints for types: sizes that may be one number or several.
_size_any_t = _size_1_t = _size_2_t = _size_3_t = _size_4_t = _size_5_t = _size_6_t = Any
_size_any_opt_t = _size_2_opt_t = _size_3_opt_t = _ratio_2_t = _ratio_3_t = _ratio_any_t = _tensor_list_t = Any
_maybe_indices_t = Any


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


CrossMapLRN2d = LocalResponseNorm  # the same formula, written in C in the first PyTorch


_single, _pair, _triple, _quadruple = (
    _ntuple(n, name) for n, name in enumerate(("_single", "_pair", "_triple", "_quadruple"), 1)
)


def _reverse_repeat_tuple(t: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size: Any, defaults: list[int]) -> Any:
    if isinstance(out_size, int):
        return out_size
    return [v if v is not None else d for v, d in zip(out_size, defaults[-len(out_size) :], strict=True)]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix such as 'module.' off the keys of a state dict, in place."""
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    for key in [key for key in metadata or () if key]:
        value = metadata.pop(key)
        if key != prefix.removesuffix("."):
            metadata[key.removeprefix(prefix)] = value


class SDPBackend(enum.IntEnum):
    """PyTorch's ways to compute attention; Weft has one."""

    ERROR, MATH, FLASH_ATTENTION, EFFICIENT_ATTENTION, CUDNN_ATTENTION, OVERRIDEABLE = range(-1, 5)


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Nothing changes: attention is computed block by block."""
    yield


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[None]:
    """The same under its older name."""
    yield


_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


def get_enum(reduction: str) -> int:
    """The number of a kind of reduction."""
    return {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}[reduction]
