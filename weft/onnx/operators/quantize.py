"""Numbers as few bits with a scale and a zero point, and products of such numbers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import weft

from ...tensor import Tensor
from ..tensors import ELEMENT_TYPES
from .conv import conv
from .registry import as_array, as_tensor, rule
from .types import converted


def _aligned(x: Any, scale: Any, axis: int, block: int) -> Any:
    """Scales so that they broadcast over x: one for all, one for each slice along `axis`, or one for each block."""
    if scale.ndim == 0 or (scale.ndim == 1 and scale.shape[0] == 1):
        return scale.reshape(())
    if block:
        wide = (
            np.repeat(as_array(scale), block, axis)
            if not isinstance(scale, Tensor)
            else scale.repeat_interleave(block, axis)
        )
        return wide[tuple(slice(0, n) for n in x.shape)]
    form = [1] * len(x.shape)
    form[axis] = scale.shape[0]
    return scale.reshape(form)


def _limits(kind: np.dtype) -> tuple[int, int]:
    info = ml_dtypes.iinfo(kind)
    return int(info.min), int(info.max)


def _whole(kind: np.dtype) -> bool:
    return "int" in kind.name


@rule("QuantizeLinear", raw=True, fixed=(1, 2))
def quantize_linear(
    x: Any,
    scale: Any,
    zero: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Any:
    """round(x / scale) + zero, cut to the range of the type."""
    kind = _kind_of(zero) if zero is not None else ELEMENT_TYPES[output_dtype] if output_dtype else np.dtype(np.uint8)
    tensor = isinstance(x, Tensor)
    x, step = as_tensor(x), converted(as_tensor(scale), np.dtype(np.float32))
    axis = axis % x.ndim if x.ndim else 0
    ratio = x.to(weft.float32) / _aligned(x, step, axis, block_size)
    shift = 0 if zero is None else converted(zero, np.dtype(np.float32))
    if zero is not None:
        shift = _aligned(x, as_tensor(shift), axis, block_size)
    if not _whole(kind):
        return converted(ratio + shift, kind, bool(saturate))
    low, high = _limits(kind)
    found = (weft.round(ratio) + shift).clamp(low, high)
    found = found.to(weft.int32)
    made = converted(found, kind)
    return made if tensor or not isinstance(made, Tensor) else made.array


def _kind_of(x: Any) -> np.dtype:
    return x.dtype.np if isinstance(x, Tensor) else x.dtype


@rule("DequantizeLinear", raw=True, fixed=(0, 1, 2))
def dequantize_linear(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Any:
    """(x − zero) · scale."""
    kind = ELEMENT_TYPES[output_dtype] if output_dtype else _kind_of(scale)
    exact = np.dtype(np.float32)
    wide = as_tensor(converted(x, exact))
    axis = axis % wide.ndim if wide.ndim else 0
    step = _aligned(wide, as_tensor(converted(scale, exact)), axis, block_size)
    if zero is not None:
        wide = wide - _aligned(wide, as_tensor(converted(zero, exact)), axis, block_size)
    return converted(wide * step, kind)


@rule("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """8 bits for the range of x, which 0 belongs to."""
    low, high = weft.minimum(x.min(), weft.zeros(())), weft.maximum(x.max(), weft.zeros(()))
    scale = (high - low) / 255
    zero = weft.round((-low / weft.where(scale == 0, weft.ones(()), scale)).clamp(0, 255)).to(weft.uint8)
    y = (weft.round(x / weft.where(scale == 0, weft.ones(()), scale)) + zero.to(weft.float32)).clamp(0, 255)
    return y.to(weft.uint8), scale, zero


def _less_zero(x: Tensor, zero: Tensor | None, per_row: bool = False) -> Tensor:
    """x − zero exactly; 24 bits of float64 products hold sums of 2³⁶ of them."""
    wide = x.to(weft.float64)
    if zero is None:
        return wide
    shift = zero.to(weft.float64)
    return wide - (shift.reshape(-1, 1) if per_row and shift.ndim == 1 and shift.shape[0] > 1 else shift)


@rule("MatMulInteger")
def matmul_integer(a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:
    return (_less_zero(a, a_zero, True) @ _less_zero(b, b_zero)).to(weft.int32)


@rule("QLinearMatMul", raw=True, fixed=(1, 2, 4, 5, 6, 7))
def qlinear_matmul(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, scale: Any, zero: Any) -> Any:
    """The product of what the numbers stand for, in few bits again."""
    exact = np.dtype(np.float64)
    wide = [as_tensor(converted(x, exact)) for x in (a, a_zero, b, b_zero, a_scale, b_scale, scale)]
    product = (wide[0] - wide[1]) @ (wide[2] - wide[3])
    return _requantized(product * (wide[4] * wide[5] / wide[6]), zero)


def _requantized(x: Tensor, zero: Any) -> Any:
    kind = _kind_of(zero)
    shift = as_tensor(converted(zero, np.dtype(np.float64)))
    if not _whole(kind):
        return converted(x + shift, kind)
    return converted((weft.round(x) + shift).clamp(*_limits(kind)).to(weft.int32), kind)


@rule("ConvInteger")
def conv_integer(
    x: Tensor,
    w: Tensor,
    x_zero: Tensor | None = None,
    w_zero: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    geometry = dict(auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)
    weight = _less_zero(w, None if w_zero is None else w_zero.reshape([-1, *[1] * (w.ndim - 1)]))
    return conv(_less_zero(x, x_zero), weight, **geometry).to(weft.int32)


@rule("QLinearConv", raw=True, fixed=(1, 2, 4, 5, 6, 7))
def qlinear_conv(
    x: Any,
    x_scale: Any,
    x_zero: Any,
    w: Any,
    w_scale: Any,
    w_zero: Any,
    scale: Any,
    zero: Any,
    bias: Any = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Any:
    exact = np.dtype(np.float64)
    wide = [as_tensor(converted(t, exact)) for t in (x, x_zero, w, w_zero, x_scale, w_scale, scale)]
    each = lambda t: t.reshape([-1, *[1] * (wide[2].ndim - 1)]) if t.ndim else t
    geometry = dict(auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)
    y = conv(
        wide[0] - wide[1],
        wide[2] - each(wide[3]),
        None if bias is None else as_tensor(converted(bias, exact)),
        **geometry,
    )
    by_channel = lambda t: t.reshape([-1, *[1] * (y.ndim - 2)]) if t.ndim else t
    return _requantized(y * (by_channel(wide[4] * wide[5]) / wide[6]), zero)
