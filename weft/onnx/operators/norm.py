"""Normalisation: over batches, instances, groups, layers, neighbours."""

from __future__ import annotations

import weft

from ...nn import functional as F
from ...tensor import Tensor
from .registry import rule


@rule("BatchNormalization", fixed=(3, 4))
def batch_normalization(
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
    outputs: int = 1,
) -> Tensor | tuple[Tensor, ...]:
    """Running statistics are used, unless training is asked for: then they come back moved."""
    if not training_mode:
        return F.batch_norm(x, mean, var, scale, shift, False, 0.0, epsilon)
    places = (0, *range(2, x.ndim))
    now, spread = x.mean(places), x.var(places, unbiased=False)
    y = F.batch_norm(x, now, spread, scale, shift, False, 0.0, epsilon)
    return (y, mean * momentum + now * (1 - momentum), var * momentum + spread * (1 - momentum))[: max(outputs, 1)]


@rule("InstanceNormalization")
def instance_normalization(x: Tensor, scale: Tensor, shift: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    return F.instance_norm(x, None, None, scale, shift, True, 0.1, epsilon)


@rule("GroupNormalization", 18)
def group_normalization_by_group(
    x: Tensor, scale: Tensor, shift: Tensor, *, epsilon: float = 1e-5, num_groups: int
) -> Tensor:
    """With one scale and shift for every group."""
    each = x.shape[1] // num_groups
    return F.group_norm(x, num_groups, scale.repeat_interleave(each), shift.repeat_interleave(each), epsilon)


@rule("GroupNormalization", 21)
def group_normalization(
    x: Tensor, scale: Tensor, shift: Tensor, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Tensor:
    return F.group_norm(x, num_groups, scale, shift, epsilon)


@rule("LayerNormalization")
def layer_normalization(
    x: Tensor,
    scale: Tensor,
    shift: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    outputs: int = 1,
) -> Tensor | tuple[Tensor, ...]:
    """Over all dimensions from `axis` on; the other outputs are the mean and 1 / standard deviation."""
    axis %= x.ndim
    sizes = tuple(x.shape[axis:])
    fits = tuple(scale.shape) == sizes and (shift is None or tuple(shift.shape) == sizes)
    y = F.layer_norm(x, sizes, scale if fits else None, shift if fits else None, epsilon)
    y = y if fits else y * scale if shift is None else y * scale + shift
    if outputs < 2:
        return y
    along = tuple(range(axis, x.ndim))
    mean = x.mean(along, keepdim=True)
    spread = ((x - mean) ** 2).mean(along, keepdim=True)
    return (y, mean, (spread + epsilon).rsqrt())[:outputs]


@rule("RMSNormalization")
def rms_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """x / √(mean x² + ε) · scale over all dimensions from `axis` on."""
    sizes = tuple(x.shape[axis % x.ndim :])
    if tuple(scale.shape) == sizes:
        return F.rms_norm(x, sizes, scale, epsilon)
    return F.rms_norm(x, sizes, None, epsilon) * scale


@rule("LpNormalization")
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """x / ‖x‖ₚ along an axis; where all is zero it stays zero."""
    norm = x.abs().sum(axis, keepdim=True) if p == 1 else (x * x).sum(axis, keepdim=True).sqrt()
    return x / weft.where(norm == 0, weft.ones_like(norm), norm)


@rule("LRN")
def lrn(x: Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int) -> Tensor:
    """x / (bias + α/size · Σ x² over neighbouring channels)^β."""
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    squares = F.pad(x * x, [0, 0] * (x.ndim - 2) + [before, after])
    total = squares.narrow(1, 0, x.shape[1])
    for k in range(1, size):
        total = total + squares.narrow(1, k, x.shape[1])
    return x / (bias + alpha / size * total) ** beta


@rule("MeanVarianceNormalization")
def mean_variance_normalization(x: Tensor, *, axes: list[int] | None = None) -> Tensor:
    along = tuple(axes or (0, 2, 3))
    mean = x.mean(along, keepdim=True)
    spread = ((x * x).mean(along, keepdim=True) - mean * mean).sqrt()
    return (x - mean) / (spread + 1e-9)
