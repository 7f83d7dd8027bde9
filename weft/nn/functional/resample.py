"""Images in other sizes: interpolation as weighted sums along one dimension after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...dtypes import FLOAT, float64, uint8
from ...errors import DtypeError, InvalidValueError, ShapeError, UnsupportedError
from ...ops.core.operands import python_int
from ...ops.layers.sliding import RESAMPLE, Taps
from ...tensor import Tensor
from ._arguments import spatial
from .pool import _adaptive_avg_pool

__all__ = ["interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]

RANK = {"linear": 3, "bilinear": 4, "bicubic": 4, "lanczos": 4, "trilinear": 5}  # dimensions that a mode needs
SMOOTH = ("linear", "bilinear", "bicubic", "trilinear")
NEAREST = ("nearest", "nearest-exact")

# ------------------------------------------------------------------------------------------- weights


def _triangle(x: np.ndarray) -> np.ndarray:
    return np.maximum(0, 1 - np.abs(x))


def _cubic(x: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic kernel with parameter a."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _lanczos(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


FILTERS: dict[str, tuple[Callable, int]] = {  # a kernel and half its width
    "bilinear": (_triangle, 1),
    "bicubic": (functools.partial(_cubic, a=-0.5), 2),
    "lanczos": (_lanczos, 3),
}


def _step(length: int, count: int, scale: float | None, align_corners: bool, real: Any) -> Any:
    """How far one output lies from the next, in inputs."""
    if align_corners:
        return real(length - 1) / real(count - 1) if count > 1 else real(0)
    return real(1 / scale) if scale else real(length) / real(count)


def _sources(length: int, count: int, scale: float | None, align_corners: bool, real: Any) -> np.ndarray:
    """Where each output lies among the inputs: corners, or else edges, of the two grids coincide."""
    step, at = _step(length, count, scale, align_corners, real), np.arange(count, dtype=real)
    return step * at if align_corners else step * (at + real(0.5)) - real(0.5)


@functools.lru_cache(maxsize=1024)
def taps_for(
    mode: str, length: int, count: int, scale: float | None, align_corners: bool, antialias: bool, wide: bool
) -> Taps:
    """The weights that resample a line of `length` to `count`, positions computed as PyTorch does."""
    real = np.float64 if wide else np.float32
    if mode in NEAREST:
        return _nearest_taps(length, count, scale, mode == "nearest-exact")
    if antialias:
        return _filtered_taps(mode, length, count, float(_step(length, count, scale, align_corners, real)))
    source = _sources(length, count, scale, align_corners, real)
    if mode == "bicubic":
        first = np.floor(source)
        index = first[:, None].astype(np.int64) + np.arange(-1, 3)
        weight = _cubic((source - first)[:, None] - np.arange(-1, 3), -0.75)
        return Taps(index.clip(0, length - 1), weight, length)
    source = np.maximum(source, 0)
    first = np.minimum(np.floor(source).astype(np.int64), length - 1)
    part = np.minimum(source - first, 1)
    index = np.stack([first, np.minimum(first + 1, length - 1)], 1)
    return Taps(index, np.stack([1 - part, part], 1), length)


@functools.lru_cache(maxsize=1024)
def byte_taps(mode: str, length: int, count: int, scale: float | None, align_corners: bool, antialias: bool) -> Taps:
    """`taps_for` with every weight a signed 16-bit integer times one power of two, the finest that holds them all."""
    taps = taps_for(mode, length, count, scale, align_corners, antialias, True)
    same = taps.index[:, :, None] == taps.index[:, None, :]  # taps that the edge has put on one element are one
    weight = np.where(np.tril(same, -1).any(2), 0, (same * taps.weight[:, None, :]).sum(2))
    digits = next((d for d in range(22) if int(0.5 + weight.max() * 2 ** (d + 1)) >= 1 << 15), 22)
    whole = np.trunc(weight * 2.0**digits + np.copysign(0.5, weight))
    return Taps(taps.index, whole / 2.0**digits, length)


def _nearest_taps(length: int, count: int, scale: float | None, exact: bool) -> Taps:
    step = _step(length, count, scale, False, np.float32)
    at = np.arange(count, dtype=np.float32) + np.float32(0.5 if exact else 0)
    index = np.minimum(np.floor(at * step).astype(np.int64), length - 1)
    return Taps(index[:, None], np.ones((count, 1)), length)


def _filtered_taps(mode: str, length: int, count: int, step: float) -> Taps:
    """Weights of a filter that is widened to cover `step` inputs when the line shrinks (antialiasing)."""
    kernel, half = FILTERS[mode]
    stretch = max(step, 1.0)
    center = step * (np.arange(count) + 0.5)
    start = np.maximum((center - half * stretch + 0.5).astype(np.int64), 0)
    stop = np.minimum((center + half * stretch + 0.5).astype(np.int64), length)
    offset = start[:, None] + np.arange(int((stop - start).max(initial=1)))
    inside = offset < stop[:, None]
    weight = np.where(inside, kernel((offset - center[:, None] + 0.5) / stretch), 0)
    return Taps(np.where(inside, offset, start[:, None]), weight / weight.sum(1, keepdims=True), length)


# -------------------------------------------------------------------------------------- public functions


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """A line, image or volume in another size: (N, C, *lengths) → (N, C, *size).

    Modes: nearest, nearest-exact and area for any rank; linear (3-D input), bilinear and bicubic (4-D),
    trilinear (5-D); lanczos with `antialias`, which bilinear and bicubic can also have. Give `size`, or
    `scale_factor` (one number or one for each dimension).
    """
    _check_mode(input, mode, align_corners, antialias)
    sizes, scales = _wanted(input, size, scale_factor, recompute_scale_factor)
    n = input.ndim - 2
    if any(s < 1 for s in (*sizes, *spatial(input, n))):
        raise ShapeError(
            f"interpolate: Input and output sizes should be greater than 0, but got input {spatial(input, n)} and "
            f"output {sizes}"
        )
    if input.shape[1] == 0:
        raise ShapeError(f"interpolate: Non-empty {input.ndim}D data tensor expected but got sizes {list(input.shape)}")
    if mode == "area":
        return _adaptive_avg_pool(f"adaptive_avg_pool{n}d", n, input, sizes)
    if mode in NEAREST and n == 2 and sizes == spatial(input, 2):
        return input.clone()
    if input.dtype.category != FLOAT and input.dtype is not uint8:
        raise DtypeError(f'interpolate: "upsample" not implemented for {input.dtype}; convert the input with .float()')
    if input.dtype is uint8 and mode not in NEAREST:
        return _resampled_bytes(input, sizes, scales, mode, bool(align_corners), antialias)
    x = input
    for dim in reversed(range(2, input.ndim)):
        scale, wide = scales[dim - 2], input.dtype is float64
        taps = taps_for(mode, input.shape[dim], sizes[dim - 2], scale, bool(align_corners), antialias, wide)
        x = RESAMPLE(x, dim=dim, taps=taps, transposed=False)
    return x


def _resampled_bytes(input: Tensor, sizes: Any, scales: Any, mode: str, align_corners: bool, antialias: bool) -> Tensor:
    """A picture of bytes as PyTorch has it: weights of 16 bits, rounded after each dimension; equal sizes are left."""
    x = input.double()
    for dim in reversed(range(2, input.ndim)):
        length, count = input.shape[dim], sizes[dim - 2]
        if length != count:
            taps = byte_taps(mode, length, count, scales[dim - 2], align_corners, antialias)
            x = (RESAMPLE(x, dim=dim, taps=taps, transposed=False) + 0.5).floor().clamp(0, 255)
    return x.byte()


def _check_mode(input: Tensor, mode: str, align_corners: bool | None, antialias: bool) -> None:
    known = (*NEAREST, "area", *RANK)
    if not 3 <= input.ndim <= 5 or mode not in known:
        raise UnsupportedError(
            f"interpolate: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: "
            f"{' | '.join(known)} (got {mode})"
        )
    if mode in RANK and RANK[mode] != input.ndim:
        raise UnsupportedError(f"interpolate: Got {input.ndim}D input, but {mode} mode needs {RANK[mode]}D input")
    if align_corners is not None and mode not in SMOOTH:
        raise InvalidValueError(
            "interpolate: align_corners option can only be set with the interpolating modes: " + " | ".join(SMOOTH)
        )
    if antialias and mode not in FILTERS:
        raise InvalidValueError(
            f"interpolate: Anti-alias option is restricted to {', '.join(FILTERS)} modes and a 4-D input, got {mode}"
        )
    if mode == "lanczos" and not antialias:
        raise InvalidValueError("interpolate: Lanczos mode requires antialias=True")


def _wanted(
    input: Tensor, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """The output sizes, and the scale to use for each dimension (None: the ratio of the sizes)."""
    n = input.ndim - 2
    if size is not None and scale_factor is not None:
        raise InvalidValueError("interpolate: only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise InvalidValueError("interpolate: either size or scale_factor should be defined")
    given, what = (size, "output size") if size is not None else (scale_factor, "scale_factor")
    values = tuple(given) if isinstance(given, (tuple, list)) else (given,) * n
    if len(values) != n:
        raise InvalidValueError(
            f"interpolate: Input and {what} must have the same number of spatial dimensions, but got input with "
            f"spatial dimensions of {list(spatial(input, n))} and {what} of {values}"
        )
    if size is not None:
        if recompute:
            raise InvalidValueError("interpolate: recompute_scale_factor is not meaningful with an explicit size.")
        return tuple(python_int(v, "interpolate") for v in values), (None,) * n
    factors = tuple(float(v) for v in values)
    sizes = tuple(int(length * factor) for length, factor in zip(spatial(input, n), factors, strict=True))
    return sizes, (None,) * n if recompute else tuple(f if f > 0 else None for f in factors)


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """The older name of `interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode='nearest'."""
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode='bilinear' and align_corners=True."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
