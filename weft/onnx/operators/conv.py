"""Convolutions: plain, transposed, deformable, and of columns put back into images."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft

from ...errors import UnsupportedError
from ...nn import functional as F
from ...tensor import Tensor
from .registry import ints, rule

__all__ = ["conv", "paddings"]

_CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED: dict[int, Callable[..., Tensor]] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def paddings(
    auto_pad: str,
    pads: Sequence[int] | None,
    lengths: Sequence[int],
    size: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[list[int], list[int]]:
    """What is put before and after every line; SAME gives ⌈length / stride⌉ windows."""
    n = len(lengths)
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [
            max(0, (-(-length // s) - 1) * s + (k - 1) * d + 1 - length)
            for length, k, s, d in zip(lengths, size, strides, dilations, strict=True)
        ]
        less, more = [w // 2 for w in wanted], [w - w // 2 for w in wanted]
        return (less, more) if auto_pad == "SAME_UPPER" else (more, less)
    if auto_pad == "VALID" or pads is None:
        return [0] * n, [0] * n
    return list(pads[:n]), list(pads[n:])


def around(x: Tensor, before: Sequence[int], after: Sequence[int], value: Any = 0) -> Tensor:
    """x with these widths around its last dimensions; negative ones cut."""
    widths = [w for pair in zip(reversed(before), reversed(after), strict=True) for w in pair]
    return F.pad(x, widths, value=value) if any(widths) else x


@rule("Conv")
def conv(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
    pad_mode: str = "zeros",
) -> Tensor:
    n = x.ndim - 2
    if n not in _CONVOLUTIONS:
        raise UnsupportedError(f"Conv: over {n} dimensions; 1, 2 and 3 are there")
    stride, dilation = strides or [1] * n, dilations or [1] * n
    before, after = paddings(auto_pad, pads, x.shape[2:], w.shape[2:], stride, dilation)
    if before != after:
        x, before = around(x, before, after), [0] * n
    return _CONVOLUTIONS[n](x, w, b, tuple(stride), tuple(before), tuple(dilation), group)


@rule("ConvTranspose")
def conv_transpose(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    output_padding: list[int] | None = None,
    output_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """The whole transposed convolution, then cut to what was asked for."""
    n = x.ndim - 2
    stride, dilation, extra = strides or [1] * n, dilations or [1] * n, output_padding or [0] * n
    whole = [
        (length - 1) * s + (k - 1) * d + 1
        for length, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation, strict=True)
    ]
    if output_shape is None and auto_pad.startswith("SAME"):
        output_shape = [length * s for length, s in zip(x.shape[2:], stride, strict=True)]
    if output_shape is None:
        before, after = paddings("NOTSET", pads, x.shape[2:], w.shape[2:], stride, dilation)
    else:
        cut = [m + e - wanted for m, e, wanted in zip(whole, extra, output_shape[-n:], strict=True)]
        less, more = [c // 2 for c in cut], [c - c // 2 for c in cut]
        before, after = (less, more) if auto_pad == "SAME_UPPER" else (more, less)
    if (
        before == after
        and all(p >= 0 for p in before)
        and all(e < max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True))
    ):
        return _TRANSPOSED[n](x, w, b, tuple(stride), tuple(before), tuple(extra), group, tuple(dilation))
    y = _TRANSPOSED[n](x, w, None, tuple(stride), 0, 0, group, tuple(dilation))
    y = around(y, [-p for p in before], [e - p for e, p in zip(extra, after, strict=True)])
    return y if b is None else y + b.reshape([-1, *[1] * n])


@rule("DeformConv")
def deform_conv(
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    b: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    offset_group: int = 1,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Every tap of the kernel reads at its place moved by `offset`, between pixels by weights of the four around."""
    (batch, _, height, width), (kh, kw) = x.shape, w.shape[2:]
    stride, dilation, pad = strides or [1, 1], dilations or [1, 1], pads or [0] * 4
    oh, ow = offset.shape[2:]
    moved = offset.reshape(batch, offset_group, kh * kw, 2, oh, ow)
    tap = weft.arange(kh * kw)
    rows = weft.arange(oh).reshape(-1, 1) * stride[0] - pad[0] + (tap // kw * dilation[0]).reshape(-1, 1, 1)
    columns = weft.arange(ow) * stride[1] - pad[1] + (tap % kw * dilation[1]).reshape(-1, 1, 1)
    y, z = rows + moved.select(3, 0), columns + moved.select(3, 1)  # (B, offset groups, taps, oh, ow)
    taken = _between(x.reshape(batch, offset_group, -1, height, width), y, z)
    if mask is not None:
        taken = taken * mask.reshape(batch, offset_group, 1, kh * kw, oh, ow)
    columns_of = taken.reshape(batch, group, -1, oh * ow)  # (B, G, C/G · taps, places)
    product = w.reshape(group, w.shape[0] // group, -1) @ columns_of
    found = product.reshape(batch, w.shape[0], oh, ow)
    return found if b is None else found + b.reshape(-1, 1, 1)


def _between(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """x (B, G, C, H, W) at fractional places (B, G, taps, h, w), zero outside: (B, G, C, taps, h, w)."""
    batch, groups, channels, height, width = x.shape
    flat, total = x.reshape(batch, groups, channels, height * width), 0
    top, left = y.floor(), z.floor()
    for down, right in itertools.product((0, 1), (0, 1)):
        row, column = top + down, left + right
        weight = (1 - (y - row).abs()) * (1 - (z - column).abs())
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        place = (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).to(weft.int64)
        index = place.reshape(batch, groups, 1, -1).expand(batch, groups, channels, -1)
        taken = flat.gather(3, index).reshape(batch, groups, channels, *y.shape[2:])
        total = total + taken * (weight * inside).unsqueeze(2)
    return total  # type: ignore[return-value]


@rule("Col2Im", numbers=(1, 2))
def col2im(
    x: Tensor,
    image_shape: np.ndarray,
    block_shape: np.ndarray,
    *,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Columns added back to the windows that they were taken from, over any number of dimensions."""
    sizes, block = ints(image_shape), ints(block_shape)
    n = len(sizes)
    stride, dilation, pad = strides or [1] * n, dilations or [1] * n, pads or [0] * (2 * n)
    batch, channels = x.shape[0], x.shape[1] // math.prod(block)
    lengths = [size + pad[k] + pad[n + k] for k, size in enumerate(sizes)]
    counts = [(m - (k - 1) * d - 1) // s + 1 for m, k, d, s in zip(lengths, block, dilation, stride, strict=True)]
    places = np.zeros([1] * (2 * n), np.int64)
    for k in range(n):  # (*block, *counts): the flat place in the padded image
        along = np.arange(block[k])[:, None] * dilation[k] + np.arange(counts[k]) * stride[k]
        form = [1] * (2 * n)
        form[k], form[n + k] = along.shape
        places = places * lengths[k] + along.reshape(form)
    flat = weft.zeros(batch, channels, math.prod(lengths), dtype=x.dtype)
    index = weft.from_numpy(places.reshape(-1)).expand(batch, channels, -1)
    image = flat.scatter_add(2, index, x.reshape(batch, channels, -1)).reshape(batch, channels, *lengths)
    return around(image, [-p for p in pad[:n]], [-p for p in pad[n:]])


@rule("CausalConvWithState")
def causal_conv_with_state(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    state: Tensor | None = None,
    *,
    activation: str = "none",
    group: int | None = None,
) -> tuple[Tensor, Tensor]:
    """A convolution of every channel over the past, and the last inputs for the next call."""
    kept = w.shape[-1] - 1
    past = weft.zeros(x.shape[0], x.shape[1], kept, dtype=x.dtype) if state is None else state
    whole = weft.cat([past.to(x.dtype), x], -1)
    y = F.conv1d(whole, w, b, groups=x.shape[1])
    y = F.silu(y) if activation in ("silu", "swish") else y
    return y, whole.narrow(-1, whole.shape[-1] - kept, kept)
