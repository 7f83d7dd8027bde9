"""Linear regions of rectifier networks, found one by one (N0 §1.6–1.7, N2 §2.4.10).

A network of affine layers and rectifiers is affine wherever no unit changes side. On a line these pieces are
intervals, on a plane convex polygons. Layer by layer every piece carries the affine map h = c + A u of the units on it;
the zeros of the pre-activations cut it. Nothing is sampled: a piece is found however small it is, down to rounding
in float64.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...nn.module import Module
from ...tensor import wrap
from ..drawing import COLOURS, Picture, array_of, blank, scatter
from ..observe import chain
from .bounds import RegionBounds, region_bounds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LineRegions", "PlaneRegions", "line_regions", "plane_regions", "plane_through"]

Array = NDArray[np.float64]
NEGLIGIBLE = 1e-10  # relative size below which a pre-activation is zero, and a distance between zeros none


@dataclasses.dataclass(frozen=True)
class LineRegions(Picture):
    """The pieces of a network along a line x = start + t · direction, from left to right.

    edges (R + 1,): ends of the pieces, ±∞ where the line is unbounded; slopes, offsets (R, M): the outputs on piece r
    are slopes[r] t + offsets[r]; patterns (R, H): which hidden units are on; bounds: for networks of these widths
    """

    edges: Array
    slopes: Array
    offsets: Array
    patterns: NDArray[np.bool_]
    bounds: RegionBounds

    @property
    def count(self) -> int:
        """Pieces with different patterns."""
        return len(self.slopes)

    @property
    def linear_count(self) -> int:
        """Pieces after neighbours with the same outputs are joined (a unit that nothing listens to cuts nothing)."""
        maps = np.concatenate([self.slopes, self.offsets], 1)
        size = np.abs(maps).max(initial=1.0)
        return 1 + int((np.abs(np.diff(maps, axis=0)).max(1) > 1e-9 * size).sum())

    def figure(self) -> Figure:
        """The outputs over t, with a mark at every joint."""
        figure, axes = blank(width=6.4)
        axis, inner = axes[0, 0], self.edges[1:-1]
        middle, reach = (inner.mean(), np.ptp(inner)) if len(inner) else (0.0, 0.0)
        reach = reach or 1.0
        ends = [middle - 0.65 * reach, *inner, middle + 0.65 * reach]
        ends[0] = self.edges[0] if np.isfinite(self.edges[0]) else ends[0]
        ends[-1] = self.edges[-1] if np.isfinite(self.edges[-1]) else ends[-1]
        for r, (low, high) in enumerate(itertools.pairwise(ends)):
            t = np.array([low, high])
            axis.plot(t, np.outer(t, self.slopes[r]) + self.offsets[r], color=COLOURS[r % 2], lw=1.6)
        if len(inner) < 200:
            joints = self.slopes[1:] * inner[:, None] + self.offsets[1:]
            axis.plot(np.repeat(inner, joints.shape[1]), joints.ravel(), "o", color="black", ms=2.5)
        axis.set(xlabel="t", ylabel="f", title=f"{self.count} linear regions (at most {self.bounds.at_most:,})")
        return figure


@dataclasses.dataclass(frozen=True)
class PlaneRegions(Picture):
    """The pieces of a network on a rectangle of a plane x = origin + u · directions[0] + v · directions[1].

    polygons: R arrays (V, 2) of corners (u, v); slopes (R, M, 2), offsets (R, M): the outputs are slopes u + offsets;
    patterns (R, H): which hidden units are on; bounds: for networks of two inputs and these widths
    """

    polygons: list[Array]
    slopes: Array
    offsets: Array
    patterns: NDArray[np.bool_]
    bounds: RegionBounds

    @property
    def count(self) -> int:
        return len(self.polygons)

    @property
    def areas(self) -> Array:
        return np.array([_area(polygon) for polygon in self.polygons])

    def figure(self, points: Any = None, labels: Any = None) -> Figure:
        """Every region in a pale colour of its own; points (N, 2) in the coordinates (u, v) on top."""
        from matplotlib import colormaps
        from matplotlib.collections import PolyCollection

        corners = np.concatenate(self.polygons)
        (left, low), (right, high) = corners.min(0), corners.max(0)
        figure, axes = blank(width=5.6, height=0.9 + 4.9 * min(2.0, (high - low) / (right - left)))
        axis = axes[0, 0]
        tones = 0.35 + 0.65 * colormaps["Pastel1"](np.random.default_rng(0).permutation(self.count) % 9)
        axis.add_collection(PolyCollection(self.polygons, facecolors=tones, edgecolors="#666666", linewidths=0.35))
        if points is not None:
            scatter(axis, array_of(points), labels)
        axis.set(xlim=(left, right), ylim=(low, high), xlabel="u", ylabel="v", aspect="equal")
        axis.set_title(f"{self.count:,} linear regions (at most {self.bounds.at_most:,})")
        return figure


def line_regions(
    model: Module, start: Any = None, direction: Any = None, low: float = -np.inf, high: float = np.inf
) -> LineRegions:
    """The linear regions of a rectifier network along a line; of a network with one input, along its input.

    One hidden layer of D units with different zeros gives D + 1 (N0 §1.6). The model is a chain of affine modules
    (Linear, Conv, BatchNorm in evaluation, AvgPool …) and rectifiers (ReLU, LeakyReLU, PReLU).

    >>> line_regions(zigzag_network(3, 4)).count
    256
    """
    if not low < high:
        raise OptionError(f"line_regions: expected low < high, got {low} and {high}")
    start = np.zeros(1) if start is None else array_of(start)
    direction = np.ones_like(start) if direction is None else array_of(direction)
    stages = _stages(model, start, "line_regions")
    edges = np.array([low, high], np.float64)
    maps, seen, widths = _start(start, direction[None], "line_regions"), [], []
    for stage in stages:
        if isinstance(stage, _Affine):
            maps = stage(maps)
            continue
        edges, parents = _cut_intervals(edges, maps)
        t = _inside(edges)
        h = maps[parents, 0] + maps[parents, 1] * t[:, None]  # (R, n)
        maps, seen = stage(maps[parents], h > 0), [old[parents] for old in seen] + [h > 0]
        widths.append(h.shape[1])
    return LineRegions(edges, maps[:, 1], maps[:, 0], _together(seen, len(maps)), region_bounds(1, widths))


def plane_regions(
    model: Module,
    extent: tuple[float, float, float, float] = (-1, 1, -1, 1),
    origin: Any = None,
    directions: Any = None,
) -> PlaneRegions:
    """The linear regions of a rectifier network on the rectangle (left, right, bottom, top) of a plane.

    Without origin and directions the model has two inputs, which are the coordinates.

    >>> plane_regions(MLP(2, [8, 8], 1), (-2, 2, -2, 2)).count
    """
    left, right, bottom, top = extent
    if not (left < right and bottom < top) or not np.isfinite(extent).all():
        raise OptionError(f"plane_regions: expected a finite extent (left, right, bottom, top), got {extent}")
    origin = np.zeros(2) if origin is None else array_of(origin)
    directions = np.eye(2) if directions is None else np.stack([array_of(d) for d in directions])
    stages = _stages(model, origin, "plane_regions")
    polygons = [np.array([(left, bottom), (right, bottom), (right, top), (left, top)], np.float64)]
    maps, seen, widths = _start(origin, directions, "plane_regions"), [], []
    for stage in stages:
        if isinstance(stage, _Affine):
            maps = stage(maps)
            continue
        polygons, parents = _cut_polygons(polygons, maps)
        middle = np.array([polygon.mean(0) for polygon in polygons])
        h = maps[parents, 0] + np.einsum("rdn,rd->rn", maps[parents, 1:], middle)
        maps, seen = stage(maps[parents], h > 0), [old[parents] for old in seen] + [h > 0]
        widths.append(h.shape[1])
    slopes = maps[:, 1:].swapaxes(1, 2)  # (R, 2, M) → (R, M, 2)
    return PlaneRegions(polygons, slopes, maps[:, 0], _together(seen, len(maps)), region_bounds(2, widths))


def plane_through(a: Any, b: Any, c: Any) -> tuple[Array, Array]:
    """Origin and directions of the plane through three points: a at (0, 0), b at (1, 0), c at (0, 1)."""
    a, b, c = (array_of(point).astype(np.float64) for point in (a, b, c))
    return a, np.stack([b - a, c - a])


# ------------------------------------------------------------------------- affine maps on pieces


def _start(origin: NDArray, directions: NDArray, name: str) -> Array:
    """The maps of the input itself, for one piece: (1, 1 + d, n), the offset c and the columns of A."""
    if directions.shape[1:] != origin.shape or (len(directions) != 2) == (name == "plane_regions"):
        raise ShapeError(f"{name}: directions {directions.shape} do not fit a start of shape {origin.shape}")
    rows = np.concatenate([origin[None], directions]).astype(np.float64)
    return rows.reshape(1, len(rows), -1)  # (1 + d, *shape) → (1, 1 + d, n)


class _Affine:
    """An affine module, applied to the maps of all pieces at once."""

    def __init__(self, module: Module, shape: tuple[int, ...]) -> None:
        self.module, self.shape = module, shape
        self.bias = self.run(np.zeros((1, int(np.prod(shape)))))  # (1, m)

    def run(self, rows: Array) -> Array:
        with weft.no_grad():
            made = self.module(wrap(np.ascontiguousarray(rows).reshape(-1, *self.shape)))  # (N, n) → (N, *shape)
        return made.array.reshape(len(rows), -1)  # (N, *shape') → (N, m)

    def __call__(self, maps: Array) -> Array:
        R, d, n = maps.shape
        made = self.run(maps.reshape(R * d, n)).reshape(R, d, -1)  # (R, 1 + d, n) → (R, 1 + d, m)
        made[:, 1:] -= self.bias  # directions know no bias
        return made


class _Rectifier:
    """max(x, slope · x) with the sides already known."""

    def __init__(self, slope: NDArray) -> None:
        self.slope = slope

    def __call__(self, maps: Array, on: NDArray[np.bool_]) -> Array:
        return maps * np.where(on, 1.0, self.slope)[:, None]


AFFINE = tuple(
    getattr(nn, name)
    for name in (
        "Linear Conv1d Conv2d Conv3d BatchNorm1d BatchNorm2d BatchNorm3d AvgPool1d AvgPool2d AvgPool3d "
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d Flatten Unflatten Identity Dropout Dropout1d Dropout2d"
    ).split()
)
RECTIFIERS: tuple[tuple[type, Callable[[Any, tuple[int, ...]], Any]], ...] = (
    (nn.ReLU, lambda m, shape: 0.0),
    (nn.LeakyReLU, lambda m, shape: m.negative_slope),
    (nn.PReLU, lambda m, shape: m.weight.array.reshape(-1, *(1,) * (len(shape) - 1)) if shape else m.weight.array),
)


def _stages(model: Module, origin: NDArray, name: str) -> list[_Affine | _Rectifier]:
    """The layers of a copy of the model in float64, in the order of their calls."""
    model = copy.deepcopy(model).double().eval()
    found = chain(model, wrap(origin.astype(np.float64)[None]), name)
    return [_stage(call.module, tuple(call.input.shape[1:]), name) for call in found]


def _stage(module: Module, shape: tuple[int, ...], name: str) -> _Affine | _Rectifier:
    if isinstance(module, AFFINE):
        return _Affine(module, shape)
    for kind, slope in RECTIFIERS:
        if isinstance(module, kind):
            return _Rectifier(np.broadcast_to(slope(module, shape), shape).ravel())
    known = ", ".join(kind.__name__ for kind, _ in RECTIFIERS)
    raise OptionError(
        f"{name}: expected affine layers and rectifiers ({known}), got {type(module).__name__}; "
        f"its function is not piecewise linear, or its pieces are not half spaces"
    )


def _together(seen: list[NDArray[np.bool_]], count: int) -> NDArray[np.bool_]:
    return np.concatenate(seen, 1) if seen else np.zeros((count, 0), bool)


# ------------------------------------------------------------------------- cutting


def _cut_intervals(edges: Array, maps: Array) -> tuple[Array, NDArray[np.int64]]:
    """New edges where a unit of its piece is zero, and the old piece of each new one."""
    made, parents = [edges[:1]], []
    for r, (low, high) in enumerate(itertools.pairwise(edges)):
        c, a = maps[r]
        steep = np.abs(a) > NEGLIGIBLE * np.abs(a).max(initial=0.0)
        zeros = np.unique(-c[steep] / a[steep])
        zeros = zeros[(zeros > low + _gap(low)) & (zeros < high - _gap(high))]
        zeros = zeros[np.diff(zeros, prepend=-np.inf) > _gap(zeros)]
        made += [zeros, [high]]
        parents += [r] * (len(zeros) + 1)
    return np.concatenate(made), np.array(parents)


def _gap(t: Any) -> Any:
    return np.where(np.isfinite(t), NEGLIGIBLE * (1e-3 + np.abs(t)), 0.0)


def _inside(edges: Array) -> Array:
    """A point of every interval."""
    low, high = edges[:-1], edges[1:]
    reach = 1 + np.abs(edges[np.isfinite(edges)]).max(initial=0.0)
    return (np.where(np.isfinite(low), low, high - reach) + np.where(np.isfinite(high), high, low + reach)) / 2


def _cut_polygons(polygons: list[Array], maps: Array) -> tuple[list[Array], NDArray[np.int64]]:
    """Polygons cut along the zeros of the units on them, and the old polygon of each new one."""
    made, parents = [], []
    for r, polygon in enumerate(polygons):
        h = maps[r, 0] + polygon @ maps[r, 1:]  # (V, n)
        rounding = NEGLIGIBLE * (np.abs(maps[r, 0]) + np.abs(polygon) @ np.abs(maps[r, 1:])).max(0)
        parts = [np.concatenate([polygon, h], 1)]  # the units' values travel with the corners
        for unit in np.flatnonzero((h.max(0) > rounding) & (h.min(0) < -rounding)):
            parts = [piece for part in parts for piece in _split(part, part[:, 2 + unit], rounding[unit])]
        made += [part[:, :2] for part in parts]
        parents += [r] * len(parts)
    return made, np.array(parents)


def _split(corners: Array, value: Array, rounding: float) -> list[Array]:
    """The parts of a convex polygon where an affine function, given at its corners, is positive and negative."""
    value = np.where(np.abs(value) <= rounding, 0.0, value)
    if value.max() <= 0 or value.min() >= 0:
        return [corners]
    following, other = np.roll(corners, -1, 0), np.roll(value, -1)
    crossing = value * other < 0
    share = np.where(crossing, value / np.where(crossing, value - other, 1.0), 0.0)[:, None]
    both = np.stack([corners, corners + share * (following - corners)], 1).reshape(-1, corners.shape[1])
    side = np.stack([value, np.where(crossing, 0.0, np.nan)], 1).ravel()
    return [both[side >= 0], both[side <= 0]]


def _area(polygon: Array) -> float:
    x, y = polygon.T
    return 0.5 * abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1)))
