"""PyTorch's own entry points below `nn.functional`, as traced and ported programs call them (`weft.native_layer_norm`).

Each computes what its public function does, with the arguments in ATen's order and the statistics or masks beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import weft

from ...errors import OptionError, ShapeError
from ...ops.create.sample import bernoulli_mask
from ...tensor import Tensor
from ._common import require_float, require_tensor, widened
from .grid import affine_grid, grid_sample
from .norm import batch_norm, group_norm, layer_norm

__all__ = [
    *("affine_grid_generator", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "native_batch_norm"),
    *("native_dropout", "native_group_norm", "native_layer_norm"),
]

INTERPOLATION_MODES = ("bilinear", "nearest", "bicubic")  # by PyTorch's numbers
PADDING_MODES = ("zeros", "border", "reflection")


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`layer_norm` with the means and the factors 1/√(σ² + ε) it used, which carry no gradient.

    Shape: (*, normalized_shape) → the same, (*, 1, …), (*, 1, …)
    """
    y = layer_norm(input, normalized_shape, weight, bias, eps)
    dims = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    return y, *_statistics(input.detach(), dims, eps, keepdim=True)


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`group_norm` with the means and the factors 1/√(σ² + ε) of each group; N, C and HxW are the sizes of the input.

    Shape: (N, C, *) → (N, C, *), (N, group), (N, group)
    """
    require_tensor(input, "native_group_norm")
    if tuple(input.shape[:2]) != (N, C) or math.prod(input.shape[2:]) != HxW:
        raise ShapeError(
            f"native_group_norm: input of shape {tuple(input.shape)} does not have N={N}, C={C} and HxW={HxW} elements "
            "of each channel"
        )
    y = group_norm(input, group, weight, bias, eps)
    return y, *_statistics(input.reshape(N, group, C // group * HxW), (2,), eps, keepdim=False)


def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """`batch_norm` with the means and the factors 1/√(σ² + ε) of the batch; both are empty outside of training.

    Shape: (N, C, *) → (N, C, *), (C,), (C,)
    """
    y = batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return y, input.new_zeros(0), input.new_zeros(0)
    dims = (0, *range(2, input.ndim))
    return y, *_statistics(input.detach(), dims, eps, keepdim=False)


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """`dropout` with the mask of what was kept; outside of training (train=False) everything is.

    Shape: any → the same, twice
    """
    require_tensor(input, "native_dropout")
    if not 0 <= p <= 1:
        raise OptionError(f"native_dropout: dropout probability has to be between 0 and 1, but got {p}")
    if train is False or p == 0:
        return input.clone(), weft.ones(input.shape, dtype=weft.bool)
    require_float(input, "native_dropout")
    mask = bernoulli_mask(input.shape, 1 - p)
    return input * mask * (0.0 if p == 1 else 1 / (1 - p)), mask


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sample` with its modes by number: bilinear 0, nearest 1, bicubic 2; zeros 0, border 1, reflection 2."""
    mode = _by_number("interpolation_mode", interpolation_mode, INTERPOLATION_MODES)
    return grid_sample(input, grid, mode, _by_number("padding_mode", padding_mode, PADDING_MODES), align_corners)


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler` of images. Shape: (N, C, H, W), (N, H′, W′, 2) → (N, C, H′, W′)."""
    _check_dimensions("grid_sampler_2d", input, 4)
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler` of volumes. Shape: (N, C, D, H, W), (N, D′, H′, W′, 3) → (N, C, D′, H′, W′)."""
    _check_dimensions("grid_sampler_3d", input, 5)
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """`affine_grid` with every argument given."""
    return affine_grid(theta, size, align_corners)


# ----------------------------------------------------------------------------------------------- helpers


def _statistics(x: Tensor, dims: tuple[int, ...], eps: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Mean and 1/√(σ² + ε) over some dimensions, by way of float32 at least."""
    (wide,) = widened(x)
    mean, variance = wide.mean(dims, keepdim=keepdim), wide.var(dims, correction=0, keepdim=keepdim)
    return mean.to(x.dtype), (variance + eps).rsqrt().to(x.dtype)


def _by_number(argument: str, number: int, names: tuple[str, ...]) -> str:
    if number not in range(len(names)):
        meant = ", ".join(f"{k} ({name})" for k, name in enumerate(names))
        raise OptionError(f"grid_sampler: {argument} must be one of {meant}, got {number!r}")
    return names[number]


def _check_dimensions(name: str, input: Tensor, wanted: int) -> None:
    require_tensor(input, name)
    if input.ndim != wanted:
        raise ShapeError(f"{name}: expected {wanted}D input, got shape {tuple(input.shape)}")
