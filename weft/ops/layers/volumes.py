"""Convolutions over volumes as convolutions over images, for compiled code.

The slices of a volume that lie under one place of the kernel along its depth become channels of one image, and the
places along the depth become samples: (N, C, D, H, W) → (N·D′, C·K, H, W). Memory holds the channels densest, as kernels
for images want them. Groups stay together: channels are ordered (group, tap, channel of the group).
"""

from __future__ import annotations

from typing import Any

from ...tensor import Tensor
from ..shape.join import pad
from ..shape.view import FOLD_LINE
from .sliding import CONVOLVE, CONVOLVE_KERNEL, CONVOLVE_TRANSPOSED, FOLD, WINDOWS

__all__ = ["images_of"]

Sizes = tuple[int, ...]


def convolve(x: Tensor, w: Tensor, *, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int) -> Tensor:
    """`Convolve` of x (N, groups·I, D, H, W) with w (groups·C, I, K, L, M)."""
    count = (x.shape[2] + 2 * padding[0] - dilation[0] * (w.shape[2] - 1) - 1) // stride[0] + 1
    images = _stacked(x, w.shape[2], count, stride[0], padding[0], dilation[0], groups)
    weights = w.permute(0, 2, 1, 3, 4).reshape(w.shape[0], w.shape[2] * w.shape[1], *w.shape[3:])  # (…, K·I, L, M)
    y = CONVOLVE(images, weights, **_flat(stride, padding, dilation, groups))
    return volumes_of(y, count)


def transposed(
    y: Tensor, w: Tensor, *, lengths: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Tensor:
    """`ConvolveTransposed` of y (N, groups·C, D′, H′, W′) with w (groups·C, I, K, L, M)."""
    geometry = dict(lengths=lengths[1:], **_flat(stride, padding, dilation, groups))
    channels, inputs, depth, *size = w.shape
    split = w.reshape(groups, channels // groups, inputs, depth, *size)
    if stride[0] == 1:  # along the depth it is a convolution with the kernel turned round
        images = _stacked(y, depth, lengths[0], 1, dilation[0] * (depth - 1) - padding[0], dilation[0], groups)
        turned = split.flip(3).permute(0, 3, 1, 2, 4, 5).reshape(channels * depth, inputs, *size)  # (g·K·C, I, L, M)
        return volumes_of(CONVOLVE_TRANSPOSED(images, turned, **geometry), lengths[0])
    weights = w.permute(0, 2, 1, 3, 4).reshape(channels, depth * inputs, *size)
    slices = CONVOLVE_TRANSPOSED(images_of(y), weights, **geometry)  # (N·D′, g·K·I, H, W)
    parts = slices.permute(0, 2, 3, 1).reshape(*y.shape[:1], y.shape[2], *lengths[1:], groups, depth, inputs)
    full = max((y.shape[2] - 1) * stride[0] + dilation[0] * (depth - 1) + 1, padding[0] + lengths[0])
    x = _added(parts.transpose(5, 6), full, stride[0], dilation[0])  # (N, D, H, W, g, I)
    x = x.narrow(1, padding[0], lengths[0])
    return x.reshape(y.shape[0], *lengths, groups * inputs).permute(0, 4, 1, 2, 3)


def kernel(x: Tensor, y: Tensor, *, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int) -> Tensor:
    """`ConvolveKernel` of x (N, groups·I, D, H, W) and y (N, groups·C, D′, H′, W′)."""
    images = _stacked(x, size[0], y.shape[2], stride[0], padding[0], dilation[0], groups)
    w = CONVOLVE_KERNEL(images, images_of(y), size=size[1:], **_flat(stride, padding, dilation, groups))
    return w.reshape(y.shape[1], size[0], x.shape[1] // groups, *size[1:]).transpose(1, 2)  # (g·C, K, I, …) turned


def _flat(stride: Sizes, padding: Sizes, dilation: Sizes, groups: int) -> dict[str, Any]:
    return dict(stride=stride[1:], padding=padding[1:], dilation=dilation[1:], groups=groups)


def _stacked(x: Tensor, size: int, count: int, stride: int, before: int, dilation: int, groups: int) -> Tensor:
    """(N, g·I, D, H, W) → (N·count, g·size·I, H, W): slice o·stride + k·dilation − before as channels k of sample o."""
    samples, channels, depth, *image = x.shape
    behind = (count - 1) * stride + dilation * (size - 1) + 1 - before - depth
    deep = x.permute(0, 2, 3, 4, 1)  # (N, D, H, W, C)
    deep = pad(deep, (0, 0, 0, 0, 0, 0, before, behind)) if before or behind else deep
    deep = deep.contiguous()
    windows = WINDOWS(deep.permute(0, 2, 3, 4, 1), size=(size,), stride=(stride,), dilation=(dilation,))
    windows = windows.permute(0, 4, 1, 2, 3, 5)  # (N, count, H, W, C, size)
    split = windows.reshape(samples, count, *image, groups, channels // groups, size).transpose(5, 6)
    return split.reshape(samples * count, *image, channels * size).permute(0, 3, 1, 2)


def images_of(x: Tensor) -> Tensor:
    """(N, C, D, H, W) → (N·D, C, H, W)."""
    samples, channels, depth, *image = x.shape
    deep = x.permute(0, 2, 3, 4, 1).contiguous()  # (N, D, H, W, C)
    return deep.reshape(samples * depth, *image, channels).permute(0, 3, 1, 2)


def volumes_of(y: Tensor, depth: int) -> Tensor:
    """(N·D, C, H, W) → (N, C, D, H, W)."""
    return y.reshape(y.shape[0] // depth, depth, *y.shape[1:]).transpose(1, 2)


def _added(parts: Tensor, length: int, stride: int, dilation: int) -> Tensor:
    """(N, D′, …, K) → (N, length, …): slice k of sample o added at o·stride + k·dilation."""
    if dilation == 1:
        return FOLD_LINE(parts, dim=1, size=parts.shape[-1], step=stride, length=length)
    behind = parts.movedim(1, -2)  # (N, …, D′, K)
    return FOLD(behind, lengths=(length,), stride=(stride,), dilation=(dilation,)).movedim(-1, 1)
