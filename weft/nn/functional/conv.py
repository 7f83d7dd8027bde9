"""Convolutions and their transposes in one, two and three dimensions, and windows as columns (unfold, fold)."""

from __future__ import annotations

from typing import Any

from ...dtypes import bool_
from ...errors import DtypeError, ShapeError
from ...ops.core.casting import lowered
from ...ops.core.operands import python_int
from ...ops.layers.sliding import CONVOLVE, CONVOLVE_TRANSPOSED, FOLD, WINDOWS, window_counts
from ...ops.shape.join import pad
from ...tape.modes import switches
from ...tensor import Tensor
from ._arguments import batched, per_dimension, same_dtype, spatial, total

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "fold",
    "unfold",
]

# ---------------------------------------------------------------------------------------- convolution


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """y[n, c, t] = b[c] + Σ_{i,k} w[c, i, k] · x[n, i, t·stride + k·dilation − padding].

    (N, I, L) or (I, L), weight (C, I / groups, K) → (N, C, L′). `padding` may be 'same' or 'valid'.
    """
    return _convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """`conv1d` over two dimensions: (N, I, H, W) or (I, H, W), weight (C, I / groups, K, L) → (N, C, H′, W′)."""
    return _convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """`conv1d` over three dimensions: (N, I, D, H, W) or (I, D, H, W) → (N, C, D′, H′, W′)."""
    return _convolve("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def _convolve(
    name: str,
    n: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Tensor:
    if switches.casting:
        input, weight, bias = lowered(input, weight, bias)
    x, single = batched(input, n, name)
    stride = per_dimension(stride, n, name, "stride", 1)
    dilation = per_dimension(dilation, n, name, "dilation", 1)
    groups = _checked(name, n, x, weight, bias, groups)
    if x.shape[1] != weight.shape[1] * groups:
        raise ShapeError(
            f"{name}: Given groups={groups}, weight of size {list(weight.shape)}, expected input{list(x.shape)} to "
            f"have {weight.shape[1] * groups} channels, but got {x.shape[1]} channels instead"
        )
    if weight.shape[0] % groups:
        raise ShapeError(
            f"{name}: Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got "
            f"weight of size {list(weight.shape)} instead"
        )
    size = spatial(weight, n)
    if isinstance(padding, str):
        x, padding = _named_padding(name, x, padding, size, stride, dilation)
    padding = per_dimension(padding, n, name, "padding", 0)
    lengths = tuple(length + 2 * p for length, p in zip(spatial(x, n), padding, strict=True))
    if any(count < 1 for count in window_counts(lengths, size, stride, dilation)):
        reach = tuple(d * (k - 1) + 1 for d, k in zip(dilation, size, strict=True))
        raise ShapeError(
            f"{name}: Calculated padded input size per channel: {lengths}. Kernel size: {reach}. Kernel size can't be "
            "greater than actual input size; add padding or use a smaller kernel"
        )
    y = CONVOLVE(x, weight, stride=stride, padding=padding, dilation=dilation, groups=groups)
    return _finished(name, y, bias, n, single)


def _checked(name: str, n: int, x: Tensor, weight: Tensor, bias: Tensor | None, groups: Any) -> int:
    """What convolution and its transpose ask of their weights; returns the number of groups."""
    groups = python_int(groups, name)
    if groups < 1:
        raise ShapeError(f"{name}: expected groups to be greater than 0, but got groups={groups}")
    if weight.ndim != n + 2:
        raise ShapeError(
            f"{name}: expected {n + 2}D weight (out, in / groups, kernel) for {n} spatial dimensions, but got weight "
            f"of size {list(weight.shape)}"
        )
    if 0 in spatial(weight, n):
        raise ShapeError(
            f"{name}: kernel size should be greater than zero, but got weight of size {list(weight.shape)}"
        )
    same_dtype(name, x, weight=weight, bias=bias)
    if x.dtype is bool_:
        raise DtypeError(f'{name}: "{name}" not implemented for {x.dtype}; convert the input with .float()')
    return groups


def _named_padding(
    name: str, x: Tensor, padding: str, size: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[Tensor, tuple[int, ...]]:
    """'valid': none. 'same': outputs as many as inputs; an odd rest is padded behind, beforehand."""
    if padding == "valid":
        return x, (0,) * len(size)
    if padding != "same":
        raise ShapeError(f"{name}: Invalid padding string {padding!r}: should be one of 'valid', 'same'")
    if any(s != 1 for s in stride):
        raise ShapeError(f"{name}: padding='same' is not supported for strided convolutions, got stride={stride}")
    needed = [d * (k - 1) for d, k in zip(dilation, size, strict=True)]
    if any(total % 2 for total in needed):
        x = pad(x, [side for total in reversed(needed) for side in (0, total % 2)])
    return x, tuple(total // 2 for total in needed)


def _finished(name: str, y: Tensor, bias: Tensor | None, n: int, single: bool) -> Tensor:
    """Add the bias, drop a batch dimension that the input did not have."""
    if bias is not None:
        if bias.ndim != 1 or bias.shape[0] != y.shape[1]:
            raise ShapeError(
                f"{name}: expected bias to be 1-dimensional with {y.shape[1]} elements, but got bias of size "
                f"{list(bias.shape)} instead"
            )
        y = y + bias.reshape(bias.shape[0], *(1,) * n)
    return y.squeeze(0) if single else y


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution over the first dimension: (T, B, I), weight (K, I, C), bias (C) → (T′, B, C)."""
    if input.ndim != 3 or weight.ndim != 3:
        raise ShapeError(f"conv_tbc: expects 3D input and weight, got {list(input.shape)} and {list(weight.shape)}")
    y = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)  # (B, C, T′)
    return y.permute(2, 0, 1).contiguous()


# --------------------------------------------------------------------------- transposed convolution


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """y[n, c, t·stride + k·dilation − padding] = b[c] + Σ_i w[i, c, k] · x[n, i, t]: the adjoint of `conv1d`.

    (N, I, L) or (I, L), weight (I, C / groups, K) → (N, C, (L − 1)·stride − 2·padding + dilation·(K − 1) +
    output_padding + 1).
    """
    return _transposed("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """`conv_transpose1d` over two dimensions: (N, I, H, W), weight (I, C / groups, K, L) → (N, C, H′, W′)."""
    return _transposed("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """`conv_transpose1d` over three dimensions: (N, I, D, H, W) → (N, C, D′, H′, W′)."""
    return _transposed("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def _transposed(
    name: str,
    n: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Tensor:
    if switches.casting:
        input, weight, bias = lowered(input, weight, bias)
    x, single = batched(input, n, name)
    stride = per_dimension(stride, n, name, "stride", 1)
    padding = per_dimension(padding, n, name, "padding", 0)
    extra = per_dimension(output_padding, n, name, "output_padding", 0)
    dilation = per_dimension(dilation, n, name, "dilation", 1)
    groups = _checked(name, n, x, weight, bias, groups)
    if x.shape[1] != weight.shape[0] or weight.shape[0] % groups:
        raise ShapeError(
            f"{name}: Given transposed=1, weight of size {list(weight.shape)} and groups={groups}, expected "
            f"input{list(x.shape)} to have {weight.shape[0]} channels (a multiple of groups), but got {x.shape[1]}"
        )
    if any(e >= s and e >= d for e, s, d in zip(extra, stride, dilation, strict=True)):
        raise ShapeError(
            f"{name}: output padding must be smaller than either stride or dilation, but got output_padding={extra}, "
            f"stride={stride}, dilation={dilation}"
        )
    full = tuple(
        (length - 1) * s + d * (k - 1) + 1
        for length, s, d, k in zip(spatial(x, n), stride, dilation, spatial(weight, n), strict=True)
    )
    lengths = tuple(f - 2 * p + e for f, p, e in zip(full, padding, extra, strict=True))
    if any(length < 1 for length in lengths):
        raise ShapeError(
            f"{name}: Given input size per channel: {spatial(x, n)}. Calculated output size: {lengths} is too small"
        )
    geometry = dict(stride=stride, dilation=dilation, groups=groups)
    if all(e < s for e, s in zip(extra, stride, strict=True)):
        y = CONVOLVE_TRANSPOSED(x, weight, lengths=lengths, padding=padding, **geometry)
    else:  # room for more windows than there are: cut the whole result out instead
        y = CONVOLVE_TRANSPOSED(x, weight, lengths=full, padding=(0,) * n, **geometry)
        y = pad(y, [side for p, e in zip(reversed(padding), reversed(extra), strict=True) for side in (-p, e - p)])
    return _finished(name, y, bias, n, single)


# ---------------------------------------------------------------------------------- windows as columns


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of an image as columns: (N, C, H, W) → (N, C·∏kernel_size, windows); also without N."""
    kernel_size = per_dimension(kernel_size, 2, "unfold", "kernel_size", 1)
    dilation = per_dimension(dilation, 2, "unfold", "dilation", 1)
    padding = per_dimension(padding, 2, "unfold", "padding", 0)
    stride = per_dimension(stride, 2, "unfold", "stride", 1)
    x, single = batched(input, 2, "unfold")
    if 0 in x.shape[1:]:
        raise ShapeError(f"unfold: expected a tensor with non-zero sizes after the batch, got {list(input.shape)}")
    x = pad(x, (padding[1], padding[1], padding[0], padding[0])) if any(padding) else x
    count = window_counts(spatial(x, 2), kernel_size, stride, dilation)
    if any(c < 1 for c in count):
        raise ShapeError(
            f"unfold: Given input with padded size {spatial(x, 2)}, kernel_size={kernel_size}, dilation={dilation}, "
            f"stride={stride}, calculated shape of the array of sliding blocks as {count}, but its components must "
            "be at least one"
        )
    windows = WINDOWS(x, size=kernel_size, stride=stride, dilation=dilation)  # (N, C, H′, W′, K, L)
    columns = windows.permute(0, 1, 4, 5, 2, 3).clone()  # own memory: windows show that of the input
    columns = columns.reshape(x.shape[0], x.shape[1] * total(kernel_size), total(count))
    return columns.squeeze(0) if single else columns


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Columns added back into an image, the adjoint of `unfold`: (N, C·∏kernel_size, windows) → (N, C, H, W)."""
    output_size = per_dimension(output_size, 2, "fold", "output_size", 1)
    kernel_size = per_dimension(kernel_size, 2, "fold", "kernel_size", 1)
    dilation = per_dimension(dilation, 2, "fold", "dilation", 1)
    padding = per_dimension(padding, 2, "fold", "padding", 0)
    stride = per_dimension(stride, 2, "fold", "stride", 1)
    x, single = batched(input, 1, "fold")
    lengths = tuple(length + 2 * p for length, p in zip(output_size, padding, strict=True))
    count = window_counts(lengths, kernel_size, stride, dilation)
    taken = total(kernel_size)
    if 0 in x.shape[1:] or x.shape[1] % taken:
        raise ShapeError(
            f"fold: Expected size of input's dimension 1 to be divisible by the product of kernel_size {taken}, but "
            f"got input of size {list(input.shape)}"
        )
    if any(c < 1 for c in count) or x.shape[2] != total(count):
        raise ShapeError(
            f"fold: Given output_size={output_size}, kernel_size={kernel_size}, dilation={dilation}, "
            f"padding={padding}, stride={stride}, expected size of input's dimension 2 to match the calculated "
            f"number of sliding blocks {' * '.join(map(str, count))} = {total(count)}, but got {x.shape[2]}"
        )
    windows = x.reshape(x.shape[0], x.shape[1] // taken, *kernel_size, *count).permute(0, 1, 4, 5, 2, 3)
    image = FOLD(windows, lengths=lengths, stride=stride, dilation=dilation)
    if any(padding):
        image = image.narrow(2, padding[0], output_size[0]).narrow(3, padding[1], output_size[1]).contiguous()
    return image.squeeze(0) if single else image
