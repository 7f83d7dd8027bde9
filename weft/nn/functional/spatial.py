"""Moving elements between channels and space, padding, and normalisation across channels."""

from __future__ import annotations

from ...errors import ShapeError
from ...ops.shape.join import pad
from ...tensor import Tensor
from .pool import window_sums

__all__ = [
    "channel_shuffle",
    "local_response_norm",
    "native_channel_shuffle",
    "pad",
    "pixel_shuffle",
    "pixel_unshuffle",
]


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels spread over space: (…, C·r², H, W) → (…, C, H·r, W·r)."""
    _check_image(input, "pixel_shuffle")
    r = _positive(upscale_factor, "pixel_shuffle", "upscale_factor")
    *rest, channels, height, width = input.shape
    if channels % (r * r):
        raise ShapeError(
            f"pixel_shuffle: expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    split = input.reshape(*rest, channels // (r * r), r, r, height, width)
    first = len(rest)
    moved = split.permute(*range(first + 1), first + 3, first + 1, first + 4, first + 2)  # (…, C, H, r, W, r)
    return moved.reshape(*rest, channels // (r * r), height * r, width * r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Space gathered into channels, the inverse of `pixel_shuffle`: (…, C, H·r, W·r) → (…, C·r², H, W)."""
    _check_image(input, "pixel_unshuffle")
    r = _positive(downscale_factor, "pixel_unshuffle", "downscale_factor")
    *rest, channels, height, width = input.shape
    if height % r or width % r:
        raise ShapeError(
            f"pixel_unshuffle: expects height and width to be divisible by downscale_factor, but input of size "
            f"{list(input.shape)} is not divisible by {r}"
        )
    split = input.reshape(*rest, channels, height // r, r, width // r, r)
    first = len(rest)
    moved = split.permute(*range(first + 1), first + 2, first + 4, first + 1, first + 3)  # (…, C, r, r, H, W)
    return moved.reshape(*rest, channels * r * r, height // r, width // r)


def _check_image(input: Tensor, name: str) -> None:
    if input.ndim < 3:
        raise ShapeError(f"{name}: expects input to have at least 3 dimensions, but got {list(input.shape)}")


def _positive(value: int, name: str, what: str) -> int:
    if value <= 0:
        raise ShapeError(f"{name}: expects a positive {what}, but got {value}")
    return value


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels interleaved across groups: channel g·k + i of (N, groups·k, …) goes to i·groups + g."""
    _check_image(input, "channel_shuffle")
    _positive(groups, "channel_shuffle", "number of groups")
    batch, channels, *rest = input.shape
    if channels % groups:
        raise ShapeError(
            f"channel_shuffle: Number of channels must be divisible by groups. Got {channels} channels and "
            f"{groups} groups."
        )
    return input.reshape(batch, groups, channels // groups, *rest).transpose(1, 2).reshape(input.shape)


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """`channel_shuffle` under its other name."""
    return channel_shuffle(input, groups)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x[c] / (k + alpha/size · Σ x[c′]²)^beta, c′ over `size` channels around c: (N, C, …) → the same."""
    if input.ndim < 3:
        raise ShapeError(
            f"local_response_norm: Expected 3D or higher dimensionality input (got {input.ndim} dimensions)"
        )
    if input.numel() == 0:
        return input
    batch, channels = input.shape[:2]
    squares = (input * input).reshape(batch, channels, -1)  # (N, C, positions)
    squares = pad(squares, (0, 0, size // 2, (size - 1) // 2))
    sums = window_sums(squares, (size, 1), (1, 1), (0, 0), (channels, squares.shape[2]))
    return input / (sums * (alpha / size) + k).pow(beta).reshape(input.shape)
