"""Images read at places that are themselves computed: `grid_sample`, and the grids of affine maps."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np

from ...dtypes import FLOAT
from ...errors import DtypeError, InvalidValueError, ShapeError, UnsupportedError
from ...tensor import Tensor, wrap
from ._arguments import spatial, total

__all__ = ["affine_grid", "grid_sample"]

CUBIC = -0.75  # the parameter of Keys' kernel


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """The image at the places given by `grid`, whose last dimension is (x, y) or (x, y, z) in [−1, 1].

    (N, C, H, W), (N, H′, W′, 2) → (N, C, H′, W′); (N, C, D, H, W), (N, D′, H′, W′, 3) → (N, C, D′, H′, W′).
    mode: bilinear, nearest, bicubic (images only); padding_mode: what lies outside (zeros, border, reflection);
    align_corners: whether −1 and 1 are the centers of the outermost elements, or their outer edges.
    """
    _check_grid(input, grid, mode, padding_mode)
    n = input.ndim - 2
    align = bool(align_corners)
    lengths = spatial(input, n)
    places = grid.unbind(-1)[::-1]  # from (x, y, z) to the order of the dimensions
    places = [_in_elements(p, length, align) for p, length in zip(places, lengths, strict=True)]
    moved = functools.partial(_moved_inside, padding_mode=padding_mode, align=align)
    if mode != "bicubic":
        places = [moved(p, length) for p, length in zip(places, lengths, strict=True)]
    if mode == "nearest":
        return _read(input, [p.round() for p in places])
    floors = [p.detach().floor() for p in places]
    parts = [p - f for p, f in zip(places, floors, strict=True)]
    if mode == "bilinear":
        near = [[(f, 1 - t), (f + 1, t)] for f, t in zip(floors, parts, strict=True)]
    else:
        near = [
            [(moved(f + k, length), w) for k, w in zip(range(-1, 3), _cubic_weights(t), strict=True)]
            for f, t, length in zip(floors, parts, lengths, strict=True)
        ]
    terms = []
    for corner in itertools.product(*near):
        weight = functools.reduce(Tensor.mul, (w for _, w in corner))
        terms.append(_read(input, [p for p, _ in corner]) * weight.unsqueeze(1))
    return functools.reduce(Tensor.add, terms)


def _check_grid(input: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise InvalidValueError(f"grid_sample: mode must be 'bilinear', 'nearest' or 'bicubic', but got: {mode!r}")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise InvalidValueError(
            f"grid_sample: padding_mode must be 'zeros', 'border', or 'reflection', but got: {padding_mode!r}"
        )
    if input.dtype is not grid.dtype or input.dtype.category != FLOAT:
        raise DtypeError(
            f"grid_sample: expected input and grid of one floating-point type, but got {input.dtype} and {grid.dtype}"
        )
    n = input.ndim - 2
    if n not in (2, 3) or grid.ndim != input.ndim:
        raise ShapeError(
            f"grid_sample: expected 4D or 5D input and grid with the same number of dimensions, but got input with "
            f"sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if grid.shape[0] != input.shape[0] or grid.shape[-1] != n:
        raise ShapeError(
            f"grid_sample: expected grid with batch size {input.shape[0]} and size {n} in the last dimension for input "
            f"with sizes {list(input.shape)}, but got grid with sizes {list(grid.shape)}"
        )
    if 0 in input.shape[2:]:
        raise ShapeError(f"grid_sample: expected input to have non-empty spatial dimensions, got {list(input.shape)}")
    if mode == "bicubic" and n != 2:
        raise ShapeError(f"grid_sample: bicubic interpolation only supports 4D input, got {list(input.shape)}")


def _in_elements(place: Tensor, length: int, align: bool) -> Tensor:
    """From [−1, 1] to element numbers."""
    return (place + 1) * ((length - 1) / 2) if align else ((place + 1) * length - 1) / 2


def _moved_inside(place: Tensor, length: int, padding_mode: str, align: bool) -> Tensor:
    """Places outside moved to the border, or mirrored at the edges until they are inside."""
    if padding_mode == "zeros":
        return place
    if padding_mode == "reflection":
        place = _mirrored(place, 0.0, length - 1.0) if align else _mirrored(place, -0.5, float(length))
    inside = (place > 0) & (place < length - 1)
    held = place.detach().nan_to_num(0.0).clamp(0, length - 1)  # at the border and beyond: no gradient
    return place.where(inside, held)


def _mirrored(place: Tensor, low: float, span: float) -> Tensor:
    """Reflect at `low` and `low + span` as often as needed."""
    if span <= 0:
        return place * 0
    distance = (place - low).abs()
    rest = distance.fmod(span)
    flipped = (distance.detach() / span).floor().remainder(2) == 1
    return (span - rest).where(flipped, rest) + low


def _read(input: Tensor, places: Sequence[Tensor]) -> Tensor:
    """The elements at whole-number places (…, one tensor for each dimension), 0 where they are outside."""
    n = len(places)
    lengths = spatial(input, n)
    valid = functools.reduce(
        Tensor.logical_and, ((p >= 0) & (p < length) for p, length in zip(places, lengths, strict=True))
    )
    index = None
    for place, length in zip(places, lengths, strict=True):
        whole = place.detach().masked_fill(~valid, 0).long()
        index = whole if index is None else index * length + whole
    batch, channels = input.shape[:2]
    count = total(index.shape[1:])
    flat = input.reshape(batch, channels, total(lengths))
    found = flat.gather(2, index.reshape(batch, 1, count).expand(batch, channels, count))
    return found.reshape(batch, channels, *index.shape[1:]).masked_fill(~valid.unsqueeze(1), 0)


def _cubic_weights(t: Tensor) -> list[Tensor]:
    """Keys' weights of the four elements around a place that lies t behind the second."""

    def near(x: Tensor) -> Tensor:
        return ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((CUBIC * x - 5 * CUBIC) * x + 8 * CUBIC) * x - 4 * CUBIC

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid of an affine map for `grid_sample`: theta (N, 2, 3) or (N, 3, 4) → (N, *size[2:], 2 or 3).

    grid[n, p] = theta[n] · (p, 1), with p = (x, y) or (x, y, z) running over [−1, 1] in each dimension.
    """
    size = tuple(size)
    n = len(size) - 2
    if theta.dtype.category != FLOAT:
        raise DtypeError(f"affine_grid: Expected theta to have floating point type, but got {theta.dtype}")
    if n not in (2, 3):
        raise UnsupportedError(f"affine_grid: only supports 4D and 5D sizes, for 2D and 3D grids, got size {size}")
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (n, n + 1) or theta.shape[0] != size[0]:
        raise ShapeError(
            f"affine_grid: Expected a batch of {size[0]} affine matrices of shape {n}x{n + 1} for size {size}. Got "
            f"{tuple(theta.shape)}."
        )
    if any(s <= 0 for s in size):
        raise ShapeError(f"affine_grid: Expected non-zero, positive output size. Got {size}")
    axes = [_axis(length, bool(align_corners)) for length in size[2:]]
    mesh = np.meshgrid(*axes, indexing="ij")[::-1]  # x first
    points = np.stack([*mesh, np.ones(size[2:])], -1).reshape(-1, n + 1).astype(theta.dtype.np)
    return (wrap(points) @ theta.transpose(1, 2)).reshape(size[0], *size[2:], n)


def _axis(length: int, align: bool) -> np.ndarray:
    """Places of the elements of a line in [−1, 1]."""
    if length <= 1:
        return np.zeros(length)
    ends = np.linspace(-1, 1, length)
    return ends if align else ends * ((length - 1) / length)
