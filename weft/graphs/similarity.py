"""Graphs of points: each joined to its nearest, to all that are near, or to all others (N2 §7)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..data.graph import Graph
from ..errors import OptionError, ShapeError
from ..runtime.lazy import LazyModule
from ..tensor import Tensor, wrap
from .edges import to_undirected

__all__ = ["knn_graph", "radius_graph", "similarity_graph"]

spatial = LazyModule("scipy.spatial")
ROWS = 1 << 22  # distances that are in memory at once


def knn_graph(
    x: Tensor, k: int, *, mutual: bool | None = False, sigma: float | None = None, loop: bool = False
) -> Graph:
    """Each point joined to its k nearest in Euclidean distance.

    mutual: False joins i and j if one is among the nearest of the other, True if each is; None has directed edges,
        each neighbour → the point (as in PyTorch Geometric)
    sigma: weights exp(−‖xᵢ − xⱼ‖² / 2σ²); without it there are none
    loop: count a point among its own nearest
    Shape: (N, D) → a graph with x and pos = x

    >>> weft.graphs.knn_graph(weft.tensor([[0.0], [1.0], [5.0]]), 1).edge_index.tolist()
    [[0, 1, 1, 2], [1, 0, 2, 1]]
    """
    points = _points(x, "knn_graph")
    count = len(points)
    if not 0 < k < count + loop:
        raise OptionError(f"knn_graph: expected k of 1..{count - 1 + loop} for {count} points, got {k}")
    near = _nearest(points, k, loop)  # (N, k)
    pairs = np.stack([near.ravel(), np.repeat(np.arange(count), k)])
    if mutual is None:
        return _weighted(pairs, points, x, sigma)
    if mutual:
        keys, back = pairs[0] * count + pairs[1], pairs[1] * count + pairs[0]
        pairs = pairs[:, np.isin(keys, back)]
    edges = to_undirected(wrap(pairs), num_nodes=count).array
    return _weighted(edges, points, x, sigma)


def radius_graph(x: Tensor, r: float, *, sigma: float | None = None, loop: bool = False) -> Graph:
    """The ε-graph: points at a distance of at most r joined to each other.

    sigma, loop: as in `knn_graph`

    >>> weft.graphs.radius_graph(weft.tensor([[0.0], [1.0], [5.0]]), 1.0).edge_index.tolist()
    [[0, 1], [1, 0]]
    """
    points = _points(x, "radius_graph")
    if not r >= 0:
        raise OptionError(f"radius_graph: expected a radius of at least 0, got {r}")
    pairs = spatial.cKDTree(points).query_pairs(r, output_type="ndarray").astype(np.int64).reshape(-1, 2).T
    loops = np.tile(np.arange(len(points) if loop else 0), (2, 1))
    edges = to_undirected(wrap(np.concatenate([pairs, loops], 1)), num_nodes=len(points)).array
    return _weighted(edges, points, x, sigma)


def similarity_graph(x: Tensor, sigma: float = 1.0) -> Graph:
    """All points joined to all others with weights exp(−‖xᵢ − xⱼ‖² / 2σ²).

    >>> weft.graphs.similarity_graph(weft.tensor([[0.0], [2.0]])).edge_weight.tolist()
    [0.1353352814912796, 0.1353352814912796]
    """
    points = _points(x, "similarity_graph")
    source, target = np.nonzero(~np.eye(len(points), dtype=bool))
    return _weighted(np.stack([source, target]), points, x, sigma)


def _points(x: Any, name: str) -> np.ndarray:
    if not isinstance(x, Tensor) or x.ndim != 2:
        raise ShapeError(f"{name}: expected points (N, D), got {getattr(x, 'shape', type(x).__name__)}")
    points = x.array.astype(np.float64)
    if not np.isfinite(points).all():
        raise OptionError(f"{name}: expected finite points, got NaN or infinity")
    return points - np.round(points.mean(0)) if len(points) else points  # less cancels in the squares of distances


def _nearest(points: np.ndarray, k: int, loop: bool) -> np.ndarray:
    """The k nearest of each point, near ones first, of equally near ones those with lower numbers: (N, k)."""
    count, found = len(points), []
    square = (points**2).sum(1)
    rows = max(1, ROWS // max(count, 1))
    for first in range(0, count, rows):
        own = np.arange(first, min(first + rows, count))
        distance = np.maximum(square[own, None] - 2 * points[own] @ points.T + square, 0)
        distance[np.arange(len(own)), own] = -1 if loop else math.inf
        if k < count - 1:
            border = np.partition(distance, k - 1, 1)[:, k - 1 : k]
            distance = np.where(distance <= border, distance, math.inf)
        found.append(np.argsort(distance, 1, kind="stable")[:, :k])
    return np.concatenate(found) if found else np.zeros((0, k), np.int64)


def _weighted(edges: np.ndarray, points: np.ndarray, x: Tensor, sigma: float | None) -> Graph:
    weight = None
    if sigma is not None:
        if not sigma > 0:
            raise OptionError(f"expected sigma above 0, got {sigma}")
        square = ((points[edges[0]] - points[edges[1]]) ** 2).sum(1)
        kind = x.array.dtype if x.array.dtype.kind == "f" else np.float32
        weight = wrap(np.exp(-square / (2 * sigma**2)).astype(kind))
    return Graph(x, wrap(np.ascontiguousarray(edges)), edge_weight=weight, pos=x)
