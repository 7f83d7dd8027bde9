"""Dropout: random zeros in training, whole channels at a time or element by element."""

from __future__ import annotations

import math
import warnings

import weft

from ...errors import DtypeError, InvalidValueError, ShapeError
from ...ops.core.primitive import update
from ...tensor import Tensor
from ._common import require_tensor

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]

NEGATIVE_LIMIT = -1.7580993408473766  # selu(−∞) = −λα, the value that alpha dropout puts for dropped elements


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training each element is set to 0 with probability p, the others are divided by 1 − p.

    Shape: any → the same
    """
    _check("dropout", input, p)
    return _dropped("dropout", input, p, training, inplace, input.shape)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels. Shape: (N, C, L) or (C, L) → the same."""
    _check("dropout1d", input, p)
    if input.ndim not in (2, 3):
        raise ShapeError(f"dropout1d: expected 2D (C, L) or 3D (N, C, L) input, got shape {tuple(input.shape)}")
    return _dropped("dropout1d", input, p, training, inplace, _channels(input, 1))


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels. Shape: (N, C, H, W) → the same; a 3D input is read as (N, C, L)."""
    _check("dropout2d", input, p)
    if input.ndim not in (3, 4):
        warnings.warn(f"dropout2d: received a {input.ndim}-D input; expected (N, C, H, W) or (N, C, L)", stacklevel=2)
    _require_channels("dropout2d", input)
    return _dropped("dropout2d", input, p, training, inplace, _batched_channels(input))


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels. Shape: (N, C, D, H, W) or (C, D, H, W) → the same."""
    _check("dropout3d", input, p)
    if input.ndim not in (4, 5):
        warnings.warn(f"dropout3d: received a {input.ndim}-D input; expected 4D or 5D", stacklevel=2)
    _require_channels("dropout3d", input)
    shape = _channels(input, 3) if input.ndim == 4 else _batched_channels(input)
    return _dropped("dropout3d", input, p, training, inplace, shape)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout for selu networks: dropped elements become selu(−∞), then mean and variance are restored.

    y = a · x + b (or a · selu(−∞) + b where dropped), a = ((1 − p)(1 + p α'²))^(−1/2), b = −a p α',
    α' = selu(−∞). Shape: any → the same
    """
    _check("alpha_dropout", input, p)
    return _alpha_dropped("alpha_dropout", input, p, training, inplace, input.shape)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels. Shape: (N, C, *) → the same."""
    _check("feature_alpha_dropout", input, p)
    if training:
        _require_channels("feature_alpha_dropout", input)
    return _alpha_dropped("feature_alpha_dropout", input, p, training, inplace, _batched_channels(input))


# -------------------------------------------------------------------------------------------- helpers


def _check(name: str, input: Tensor, p: float) -> None:
    require_tensor(input, name)
    if not 0.0 <= p <= 1.0:
        raise InvalidValueError(f"{name}: dropout probability has to be between 0 and 1, but got {p}")


def _require_channels(name: str, input: Tensor) -> None:
    if input.ndim < 2:
        raise ShapeError(f"{name}: feature dropout requires at least 2 dimensions, got shape {tuple(input.shape)}")


def _batched_channels(input: Tensor) -> tuple[int, ...]:
    """The shape of one decision for each channel: (N, C, *) → (N, C, 1, …)."""
    return (*input.shape[:2], *(1,) * (input.ndim - 2))


def _channels(input: Tensor, spatial: int) -> tuple[int, ...]:
    """The shape of one decision for each channel, `spatial` dimensions behind it: (…, C, 1, …)."""
    return (*input.shape[: input.ndim - spatial], *(1,) * spatial)


def _kept(x: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
    """A random mask of `shape`, true with probability 1 − p."""
    pattern = x.detach() if tuple(shape) == tuple(x.shape) else x.detach()[_firsts(x, shape)]
    return weft.rand_like(pattern, dtype=weft.float32) >= p


def _firsts(x: Tensor, shape: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(0, 1) if wanted == 1 else slice(None) for wanted in shape)


def _dropped(name: str, input: Tensor, p: float, training: bool, inplace: bool, shape: tuple[int, ...]) -> Tensor:
    if not training or p == 0 or input.numel() == 0:
        return input
    if not (input.is_floating_point() or input.is_complex()):
        raise DtypeError(f"{name}: expected a floating-point tensor, got {input.dtype}; convert it with .float()")

    def body(x: Tensor) -> Tensor:
        return x * 0.0 if p == 1 else x * (_kept(x, p, shape).to(x.dtype) * (1 / (1 - p)))

    return update(input, body, (), {}, name + "_") if inplace else body(input)


def _alpha_dropped(name: str, input: Tensor, p: float, training: bool, inplace: bool, shape: tuple[int, ...]) -> Tensor:
    if not training or p == 0 or input.numel() == 0:
        return input
    if not input.is_floating_point():
        raise DtypeError(f"{name}: expected a floating-point tensor, got {input.dtype}; convert it with .float()")
    a = 0.0 if p == 1 else 1 / math.sqrt((1 - p) * (1 + p * NEGATIVE_LIMIT**2))
    b = -a * p * NEGATIVE_LIMIT

    def body(x: Tensor) -> Tensor:
        if p == 1:
            return x * 0.0
        kept = _kept(x, p, shape).to(x.dtype)
        return x * (kept * a) + ((1 - kept) * (a * NEGATIVE_LIMIT) + b)

    return update(input, body, (), {}, name + "_") if inplace else body(input)
