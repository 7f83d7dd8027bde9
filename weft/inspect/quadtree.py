"""The Barnes–Hut approximation of sums over all pairs: far points act as one, at their centre of mass.

Points are sorted along a Z-curve, on which the cells of a quadtree (octree) are ranges; the tree is walked for all
points at once, level by level, as arrays of (point, cell) pairs.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

__all__ = ["repulsion", "tree"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
BITS = {1: 24, 2: 24, 3: 20}  # levels of the tree, by dimension


@dataclasses.dataclass(frozen=True)
class Level:
    """Cells of one size: ranges [start, stop) of the sorted points, centres of mass, and their parts one level down."""

    side: float
    start: Ints
    stop: Ints
    centre: Array
    first: Ints  # the first part of each cell; cell c has parts first[c] … first[c + 1] − 1


def tree(points: Array) -> tuple[Ints, list[Level]]:
    """The order of points along the Z-curve, and the levels from the root to cells of one place each."""
    N, d = points.shape
    low, side = points.min(0), max(float(np.ptp(points, axis=0).max()), 1e-300) * (1 + 1e-9)
    bits = BITS[d]
    code = _interleaved(((points - low) / side * 2**bits).astype(np.int64), bits)
    order = np.argsort(code, kind="stable")
    code, sums = code[order], np.concatenate([np.zeros((1, d)), np.cumsum(points[order] - low, 0)])
    starts = [np.flatnonzero(np.diff(code >> d * (bits - level), prepend=-1)) for level in range(bits + 1)]
    levels = []
    for level, start in enumerate(starts):
        stop = np.append(start[1:], N)
        centre = low + (sums[stop] - sums[start]) / (stop - start)[:, None]
        below = starts[level + 1] if level < bits else start
        levels.append(Level(side / 2**level, start, stop, centre, np.append(np.searchsorted(below, start), len(below))))
        if len(start) == N:
            break  # every point has a cell of its own
    return order, levels


def _interleaved(cells: Ints, bits: int) -> Ints:
    """Bit b of coordinate i becomes bit b · d + i: cells that share leading bits lie in one larger cell."""
    d = cells.shape[1]
    code = np.zeros(len(cells), np.int64)
    for bit in range(bits):
        for i in range(d):
            code |= ((cells[:, i] >> bit) & 1) << (bit * d + i)
    return code


def repulsion(points: Array, theta: float = 0.5) -> tuple[Array, float]:
    """Σ_j w² (yᵢ − yⱼ) for every i, and Σ_{i ≠ j} w, with w = 1 / (1 + ‖yᵢ − yⱼ‖²). Shape: (N, d) → (N, d), number

    A cell of side s at distance r counts as one point of its mass where s < θ r; θ = 0 is exact.
    """
    order, levels = tree(points)
    y, N = points[order], len(points)
    force, total = np.zeros_like(y), 0.0
    point, cell = np.arange(N), np.zeros(N, np.int64)
    for depth, level in enumerate(levels):
        away = y[point] - level.centre[cell]
        square = np.einsum("nd,nd->n", away, away)
        count = level.stop[cell] - level.start[cell]
        final = (count == 1) | (level.side**2 < theta**2 * square)
        if depth == len(levels) - 1:
            final[:] = True
        i, c = point[final], cell[final]
        own = (level.start[c] <= i) & (i < level.stop[c])
        w = 1 / (1 + square[final])
        mass = (count[final] - own) * w
        total += float(mass.sum())
        for axis in range(y.shape[1]):
            force[:, axis] += np.bincount(i, mass * w * away[final, axis], N)
        point, cell = _opened(point[~final], cell[~final], level)
        if len(point) == 0:
            break
    back = np.empty_like(force)
    back[order] = force
    return back, total


def _opened(point: Ints, cell: Ints, level: Level) -> tuple[Ints, Ints]:
    """Every pair (point, cell) replaced by those with the parts of the cell."""
    parts = level.first[cell + 1] - level.first[cell]
    within = np.arange(int(parts.sum())) - np.repeat(np.cumsum(parts) - parts, parts)
    return np.repeat(point, parts), np.repeat(level.first[cell], parts) + within
