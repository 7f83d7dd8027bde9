"""Normalisation: subtract a mean, divide by a standard deviation, scale and shift.

The functions differ in what the mean and variance are taken over: the batch (batch_norm), the last
dimensions (layer_norm), groups of channels (group_norm), one channel of one example (instance_norm);
rms_norm divides by the root mean square alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import weft

from ...dtypes import LOW_PRECISION, finfo, float32
from ...errors import ArgumentError, DtypeError, InvalidValueError, ShapeError
from ...ops.layers.fused import CHANNEL_NORMALIZE, ROW_NORMALIZE
from ...tape.modes import mode
from ...tensor import Tensor
from ._common import require_float, require_tensor, widened

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """y = (x − μ) / √(σ² + ε) · weight + bias, one μ and σ² for each channel (dimension 1).

    In training μ and the biased σ² are those of the batch, and the running statistics move towards
    them in place: r ← (1 − momentum) · r + momentum · new (with the unbiased variance). Otherwise the
    running statistics are used. Shape: (N, C, *), statistics and parameters (C,) → (N, C, *)
    """
    _check_batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if input.ndim < 2:  # nothing in it
        return input.clone()
    x, mean, variance, scale, shift = widened(input, running_mean, running_var, weight, bias)
    if not training:
        y = _normalized_by(x, mean, variance, scale, shift, eps).to(input.dtype)
        return y if y.ndim > 3 and y.movedim(1, -1).is_contiguous() else y.contiguous()
    y, mean, variance = _channels_normalized(x, scale, shift, 0, eps)
    count = input.numel() // max(input.shape[1], 1)
    if running_mean is not None and count:
        _move_statistics(running_mean, running_var, mean.reshape(-1), variance.reshape(-1), momentum, count)
    return y.to(input.dtype)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`batch_norm` with one mean and variance for each channel of each example.

    The running statistics move towards the averages over the examples; `use_input_stats=False` uses
    them. Shape: (N, C, *), statistics and parameters (C,) → (N, C, *)
    """
    name = "instance_norm"
    _check_input(name, input)
    _check_statistics(name, running_mean, running_var)
    if not use_input_stats:
        if running_mean is None:
            raise ShapeError(
                f"{name}: expected running_mean and running_var to be defined when use_input_stats is false"
            )
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    count = input.shape[2:].numel() if input.ndim > 2 else 1
    if count == 1:
        raise ShapeError(
            f"{name}: expected more than 1 spatial element when training, got input size {tuple(input.shape)}"
        )
    named = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    _check_channels(name, input, named)
    x, scale, shift = widened(input, weight, bias)
    y, mean, variance = _channels_normalized(x, scale, shift, input.shape[1], eps)
    if running_mean is not None:
        _move_statistics(running_mean, running_var, mean.mean(0), variance.mean(0), momentum, count)
    return y.to(input.dtype)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """y = (x − μ) / √(σ² + ε) · weight + bias, μ and σ² over the last dimensions, of `normalized_shape`.

    Shape: (*, normalized_shape), parameters normalized_shape → the same as the input
    """
    _check_input("layer_norm", input)
    width = _last_sizes("layer_norm", input, normalized_shape, {"weight": weight, "bias": bias})
    _check_types("layer_norm", input, {"weight": weight, "bias": bias})
    x, scale, shift = widened(input, weight, bias)
    y = ROW_NORMALIZE(x, *_given(scale, shift), width=width, eps=eps, centre=True)[0]
    if scale is None and shift is not None:
        y = y + shift
    return y if y.dtype is input.dtype else y.to(input.dtype)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """y = x / √(mean(x²) + ε) · weight, the mean over the last dimensions, of `normalized_shape`.

    ε defaults to the machine epsilon of the type computed in. Shape: as in `layer_norm`
    """
    require_tensor(input, "rms_norm")
    require_float(input, "rms_norm", complex_too=True)
    width = _last_sizes("rms_norm", input, normalized_shape, {"weight": weight})
    x, scale = widened(input, weight)
    if eps is None:
        eps = finfo(x.dtype).eps
    if not x.is_complex() and (scale is None or scale.dtype is x.dtype):
        return ROW_NORMALIZE(x, *_given(scale, None), width=width, eps=eps, centre=False)[0].to(input.dtype)
    dims = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    y = x * (x.square().mean(dims, keepdim=True) + eps).rsqrt()
    return (y if scale is None else y * scale).to(input.dtype)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """y = (x − μ) / √(σ² + ε) · weight + bias, μ and σ² over each of `num_groups` groups of channels.

    Shape: (N, C, *), parameters (C,) → (N, C, *)
    """
    name = "group_norm"
    _check_input(name, input)
    if input.ndim < 2:
        raise ShapeError(f"{name}: expected at least 2 dimensions for input tensor but received {input.ndim}")
    examples, channels = input.shape[:2]
    if num_groups <= 0:
        raise InvalidValueError(f"{name}: expected num groups to be greater than 0, got {num_groups}")
    if channels % num_groups:
        raise ShapeError(
            f"{name}: expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={num_groups}"
        )
    if examples * channels // num_groups * input.shape[2:].numel() == 1:
        raise ShapeError(f"{name}: expected more than 1 value per channel when training, got input {list(input.shape)}")
    _check_channels(name, input, {"weight": weight, "bias": bias})
    x, scale, shift = widened(input, weight, bias)
    return _channels_normalized(x, scale, shift, num_groups, eps)[0].to(input.dtype)


# -------------------------------------------------------------------------------------------- arithmetic


def _channels_normalized(
    x: Tensor, scale: Tensor | None, shift: Tensor | None, groups: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """x normalised, scaled and shifted; the means and biased variances, (1, C) for groups = 0 (the batch), else (N, C)."""
    y, mean, variance = CHANNEL_NORMALIZE(x, *_given(scale, shift), groups=groups, eps=eps)
    if scale is None and shift is not None:
        y = y + _per_channel(shift, x)
    return y, mean, variance


def _given(scale: Tensor | None, shift: Tensor | None) -> tuple[Tensor, ...]:
    """The parameters that a primitive takes: a shift only behind a scale."""
    return () if scale is None else (scale,) if shift is None else (scale, shift)


def _per_channel(parameter: Tensor | None, x: Tensor) -> Tensor | None:
    """(C,) → (C, 1, …), to be broadcast against (N, C, *)."""
    if parameter is None or (x.ndim == 2 and parameter.ndim == 1):
        return parameter
    return parameter.reshape(-1, *(1,) * (x.ndim - 2))


def _normalized_by(
    x: Tensor, mean: Tensor, variance: Tensor, scale: Tensor | None, shift: Tensor | None, eps: float
) -> Tensor:
    """(x − μ) / √(σ² + ε) · scale + shift as one product and one sum of the size of x."""
    factor = (variance + eps).rsqrt()
    if scale is not None:
        factor = factor * scale.reshape(-1)
    offset = -mean * factor
    if shift is not None:
        offset = offset + shift.reshape(-1)
    return x * _per_channel(factor, x) + _per_channel(offset, x)


def _move_statistics(
    running_mean: Tensor, running_var: Tensor, mean: Tensor, variance: Tensor, momentum: float, count: int
) -> None:
    """r ← (1 − momentum) · r + momentum · new, in place and outside the graph."""
    with weft.no_grad():
        unbiased = variance.detach() * (momentum * count / (count - 1) if count > 1 else float("nan"))
        running_mean.mul_(1 - momentum).add_((mean.detach() * momentum).to(running_mean.dtype))
        running_var.mul_(1 - momentum).add_(unbiased.to(running_var.dtype))


# ------------------------------------------------------------------------------------------------ checks


def _check_input(name: str, input: Tensor) -> None:
    require_tensor(input, name)
    require_float(input, name)


def _check_statistics(name: str, running_mean: Tensor | None, running_var: Tensor | None) -> None:
    if (running_mean is None) != (running_var is None):
        raise ShapeError(f"{name}: running_mean and running_var must either both be None or neither be None")


def _check_batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> None:
    name = "batch_norm"
    _check_input(name, input)
    if not isinstance(momentum, (int, float)) and mode.interpreter is None:
        raise ArgumentError(
            f"{name}: argument 'momentum' must be float, not {type(momentum).__name__}; for a cumulative average pass "
            "1 / number of batches seen"
        )
    if eps < 0 or (training and eps == 0):
        raise InvalidValueError(
            f"{name}: eps must be {'positive during training' if training else 'non-negative'}, but got {eps}"
        )
    _check_statistics(name, running_mean, running_var)
    if not training and running_mean is None:
        raise ShapeError(f"{name}: running_mean must be defined in evaluation mode; pass it, or training=True")
    if input.ndim < 2 and input.numel():
        raise ShapeError(
            f"{name}: expected input of shape (N, C, *), got {tuple(input.shape)}; add the batch dimension"
        )
    if input.ndim < 2:
        return
    if training and input.shape[0] * input.shape[2:].numel() == 1:
        raise ShapeError(
            f"{name}: expected more than 1 value per channel when training, got input {tuple(input.shape)}"
        )
    named = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    _check_channels(name, input, named)


def _check_channels(name: str, input: Tensor, parameters: dict[str, Tensor | None]) -> None:
    for what, parameter in parameters.items():
        if parameter is not None and parameter.numel() != input.shape[1]:
            raise ShapeError(
                f"{name}: {what} should contain {input.shape[1]} elements not {parameter.numel()}, one for each "
                f"channel of the input of shape {list(input.shape)}"
            )
    _check_types(name, input, parameters)


def _check_types(name: str, input: Tensor, parameters: dict[str, Tensor | None]) -> None:
    """Parameters have the type of the input, or float32 beside float16 and bfloat16."""
    for what, parameter in parameters.items():
        if parameter is None or parameter.dtype is input.dtype:
            continue
        if not (input.dtype in LOW_PRECISION and parameter.dtype is float32):
            raise DtypeError(
                f"{name}: mixed dtype: input is {input.dtype}, {what} is {parameter.dtype}; convert one with .to(...)"
            )


def _last_sizes(name: str, input: Tensor, normalized_shape: Sequence[int], parameters: dict[str, Tensor | None]) -> int:
    """The number of elements that `normalized_shape` covers, after checking that the last dimensions have its sizes."""
    if isinstance(normalized_shape, int):
        raise ArgumentError(
            f"{name}: argument 'normalized_shape' must be tuple of ints, not int; write ({normalized_shape},)"
        )
    shape = tuple(normalized_shape)
    if not shape:
        raise ShapeError(f"{name}: expected normalized_shape to be at least 1-dimensional, but got {list(shape)}")
    for what, parameter in parameters.items():
        if parameter is not None and tuple(parameter.shape) != shape:
            raise ShapeError(
                f"{name}: expected {what} to be of same shape as normalized_shape, but got {list(parameter.shape)} and "
                f"normalized_shape = {list(shape)}"
            )
    if tuple(input.shape[-len(shape) :]) != shape:
        raise ShapeError(
            f"{name}: given normalized_shape={list(shape)}, expected input with shape [*, {str(list(shape))[1:-1]}], "
            f"but got input of size {list(input.shape)}"
        )
    return math.prod(shape)
