"""Backpropagation through convolution and pooling written out, without the tape.

A convolution is linear, so its gradients are the same sums read the other way round; average pooling is linear, too;
max pooling is linear piece by piece: each window hands its gradient to its largest element.
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import ShapeError
from ..tensor import Tensor

__all__ = ["ConvolutionGradients", "backprop_avg_pool2d", "backprop_conv2d", "backprop_max_pool2d"]


class ConvolutionGradients(NamedTuple):
    """Gradients by the input (B, C, H, W), the kernels (F, C, P, Q) and the bias (F,), summed over the batch."""

    input: Tensor
    weight: Tensor
    bias: Tensor


def backprop_conv2d(
    x: Tensor, weight: Tensor, delta: Tensor, stride: int | tuple[int, int] = 1, padding: int | tuple[int, int] = 0
) -> ConvolutionGradients:
    """What δ = ∂E/∂Z (B, F, I, J) is for x, K and b of Z_fij = Σ_c Σ_pq X_c,si+p,sj+q K_fcpq + b_f.

        ∂E/∂K_fcpq = Σ_n Σ_ij δ_nfij X_nc,si+p,sj+q
        ∂E/∂X_ncuv = Σ_f Σ_pq δ_nfij K_fcpq          over all i, j, p, q with si + p = u and sj + q = v
        ∂E/∂b_f    = Σ_n Σ_ij δ_nfij

    X stands for x with zeros around it, `padding` of them on each side.

    >>> import weft
    >>> x, kernel = weft.arange(9.0).reshape(1, 1, 3, 3), weft.ones(1, 1, 2, 2)
    >>> backprop_conv2d(x, kernel, weft.ones(1, 1, 2, 2)).weight
    tensor([[[[ 8., 12.],
              [20., 24.]]]])
    """
    (down, right), (top, left) = _pair(stride), _pair(padding)
    batch, channels, height, width = x.shape
    kernels, _, rows, columns = weight.shape
    _check_delta(
        delta,
        (batch, kernels, (height + 2 * top - rows) // down + 1, (width + 2 * left - columns) // right + 1),
        "backprop_conv2d",
    )
    wide = x.new_zeros((batch, channels, height + 2 * top, width + 2 * left))
    wide[:, :, top : top + height, left : left + width] = x
    at_input, at_weight = x.new_zeros(wide.shape), weight.new_zeros(weight.shape)
    flat = delta.permute(1, 0, 2, 3).reshape(kernels, -1)  # (F, B·I·J)
    for p in range(rows):
        for q in range(columns):
            window = _window(p, q, delta.shape[2:], (down, right))
            seen = wide[window].permute(0, 2, 3, 1).reshape(-1, channels)  # (B·I·J, C)
            at_weight[:, :, p, q] = flat @ seen
            back = (flat.mT @ weight[:, :, p, q]).reshape(batch, *delta.shape[2:], channels)  # (B, I, J, C)
            at_input[window] += back.permute(0, 3, 1, 2)
    inner = at_input[:, :, top : top + height, left : left + width]
    return ConvolutionGradients(inner.contiguous(), at_weight, delta.sum((0, 2, 3)))


def backprop_avg_pool2d(
    x: Tensor, delta: Tensor, kernel_size: int | tuple[int, int], stride: int | tuple[int, int] | None = None
) -> Tensor:
    """∂E/∂x of average pooling from δ (B, C, I, J): each element of a P × Q window gets δ / PQ."""
    (rows, columns), step = _pair(kernel_size), _pair(kernel_size if stride is None else stride)
    _check_pooled(x, delta, (rows, columns), step, "backprop_avg_pool2d")
    found = x.new_zeros(x.shape)
    for p in range(rows):
        for q in range(columns):
            found[_window(p, q, delta.shape[2:], step)] += delta / (rows * columns)
    return found


def backprop_max_pool2d(
    x: Tensor, delta: Tensor, kernel_size: int | tuple[int, int], stride: int | tuple[int, int] | None = None
) -> Tensor:
    """∂E/∂x of max pooling from δ (B, C, I, J): all of it to the largest element of each window, the first if several are."""
    (rows, columns), step = _pair(kernel_size), _pair(kernel_size if stride is None else stride)
    _check_pooled(x, delta, (rows, columns), step, "backprop_max_pool2d")
    places = [(p, q) for p in range(rows) for q in range(columns)]
    windows = [_window(p, q, delta.shape[2:], step) for p, q in places]
    largest, winner = x[windows[0]], x[windows[0]].new_zeros(delta.shape)
    for number, window in enumerate(windows):
        larger = x[window] > largest
        largest, winner = largest.where(~larger, x[window]), winner.masked_fill(larger, number)
    found = x.new_zeros(x.shape)
    for number, window in enumerate(windows):
        found[window] += delta * (winner == number).to(delta.dtype)
    return found


def _window(p: int, q: int, count: tuple[int, ...], step: tuple[int, int]) -> tuple[slice, ...]:
    """Where element (p, q) of every window lies: x[…, si + p, sj + q] for i, j below `count`."""
    (i, j), (down, right) = count, step
    return (slice(None), slice(None), slice(p, p + down * (i - 1) + 1, down), slice(q, q + right * (j - 1) + 1, right))


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def _check_pooled(x: Tensor, delta: Tensor, size: tuple[int, int], step: tuple[int, int], name: str) -> None:
    counts = [(n - k) // s + 1 for n, k, s in zip(x.shape[2:], size, step, strict=True)]
    _check_delta(delta, (*x.shape[:2], *counts), name)


def _check_delta(delta: Tensor, expected: tuple[int, ...], name: str) -> None:
    if tuple(delta.shape) != expected:
        raise ShapeError(f"{name}: delta has shape {tuple(delta.shape)}; the layer's output has {expected}")
