"""Maximum-inner-product search: the k class vectors w_c with the largest ⟨w_c, z⟩ (N2 §4.5.3).

Exactly, by all products; or approximately, by an index that looks at a few clusters of vectors. Vectors and queries are
searched, not differentiated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

import weft

from ...errors import OptionError, ShapeError
from ...tensor import Tensor

__all__ = [
    "InnerProductIndex",
    "SearchPoint",
    "SearchResult",
    "as_cosine_problem",
    "recall_curve",
    "top_inner_products",
]


class SearchResult(NamedTuple):
    """The largest inner products, in descending order, and the numbers of their vectors. Shapes: (B, k)"""

    values: Tensor
    indices: Tensor


class SearchPoint(NamedTuple):
    """One point of a recall/speed curve, against exact search over the same queries."""

    probes: int
    recall: float
    fraction_scanned: float
    seconds: float
    speedup: float


def top_inner_products(vectors: Tensor, queries: Tensor, k: int, block: int = 65536) -> SearchResult:
    """Exact search: the k largest ⟨w_c, z⟩, by all C products, `block` vectors at a time (N2 §4.5.3).

    Shape: vectors (C, D), queries (B, D) → values and indices (B, k)
    """
    _check(vectors, queries, k)
    w, z = _array(vectors), _array(queries)
    values, indices = np.empty((len(z), 0), w.dtype), np.empty((len(z), 0), np.int64)
    for start in range(0, len(w), block):
        products = z @ w[start : start + block].T  # (B, block)
        numbers = np.broadcast_to(np.arange(start, start + products.shape[1]), products.shape)
        values = np.concatenate([values, products], 1)
        values, indices = _largest(values, np.concatenate([indices, numbers], 1), k)
    return SearchResult(weft.from_numpy(values), weft.from_numpy(indices))


def as_cosine_problem(vectors: Tensor) -> Tensor:
    """w ↦ (w, √(M² − ‖w‖²)) / M, M = max ‖w‖: unit vectors whose cosines with (z, 0) order as ⟨w, z⟩ do.

    So that maximum inner products become nearest neighbours (N2 §4.5.3). Shape: (C, D) → (C, D + 1)
    """
    w = _array(vectors)
    squared = np.square(w).sum(1)
    largest = squared.max(initial=0) or 1.0
    height = np.sqrt(np.maximum(largest - squared, 0))
    return weft.from_numpy(np.concatenate([w, height[:, None]], 1) / np.sqrt(largest).astype(w.dtype))


class InnerProductIndex:
    """Approximate search: vectors in clusters of similar direction, of which a query visits a few (N2 §4.5.3).

    The vectors, made unit by `as_cosine_problem`, are clustered by spherical k-means into inverted lists. A query computes
    the inner products with the centres, visits the `probes` best lists, and ranks their members exactly. More probes: more
    recall, more time; probes = lists is exact.

    vectors: (C, D), what is searched
    lists: the number of clusters; about √C by default
    rounds: the rounds of k-means
    seed: of its first centres

    >>> vectors = weft.randn(500, 8)
    >>> index = nn.InnerProductIndex(vectors, lists=10)
    >>> found = index.search(vectors[:2], k=3, probes=10)
    >>> (found.indices == nn.top_inner_products(vectors, vectors[:2], 3).indices).all()
    tensor(True)
    """

    def __init__(self, vectors: Tensor, lists: int | None = None, rounds: int = 10, seed: int = 0) -> None:
        if vectors.ndim != 2 or not vectors.shape[0]:
            raise ShapeError(f"InnerProductIndex: expected vectors (C, D), C ≥ 1, got {tuple(vectors.shape)}")
        count, self.width = vectors.shape
        self.lists = min(count, round(np.sqrt(count)) if lists is None else lists)
        if self.lists < 1:
            raise OptionError(f"InnerProductIndex: lists must be at least 1, got {lists}")
        unit = _array(as_cosine_problem(vectors))
        self._centres, member = _spherical_means(unit, self.lists, rounds, np.random.default_rng(seed))
        self._numbers = np.argsort(member, kind="stable")  # vectors, list after list
        self._vectors = _array(vectors)[self._numbers]
        self._bounds = np.searchsorted(member[self._numbers], np.arange(self.lists + 1))

    def search(self, queries: Tensor, k: int, probes: int = 8) -> SearchResult:
        """The k best members of the visited lists; −∞ and −1 where they hold fewer. Shape: (B, D) → (B, k)"""
        z = self._queries(queries)
        visited = self._visited(z, probes)
        lengths = np.diff(self._bounds)[visited]  # (B, probes)
        place = np.cumsum(lengths, 1) - lengths
        size = max(int(lengths.sum(1).max(initial=0)), k)
        values = np.full((len(z), size), -np.inf, self._vectors.dtype)
        indices = np.full((len(z), size), -1)
        for number in np.unique(visited):
            members = slice(self._bounds[number], self._bounds[number + 1])
            rows, slots = np.nonzero(visited == number)
            columns = place[rows, slots][:, None] + np.arange(members.stop - members.start)
            values[rows[:, None], columns] = z[rows] @ self._vectors[members].T
            indices[rows[:, None], columns] = self._numbers[members]
        return SearchResult(*map(weft.from_numpy, _largest(values, indices, k)))

    def fraction_scanned(self, queries: Tensor, probes: int) -> float:
        """The share of inner products computed, centres included, in those of exact search."""
        members = np.diff(self._bounds)[self._visited(self._queries(queries), probes)].sum(1).mean()
        return float((members + self.lists) / len(self._numbers))

    def _queries(self, queries: Tensor) -> np.ndarray:
        if queries.ndim != 2 or queries.shape[1] != self.width:
            raise ShapeError(f"InnerProductIndex: expected queries (B, {self.width}), got {tuple(queries.shape)}")
        return _array(queries)

    def _visited(self, z: np.ndarray, probes: int) -> np.ndarray:
        """The lists whose centres have the largest cosine with (z, 0). Shape: (B, D) → (B, probes)"""
        if not 1 <= probes <= self.lists:
            raise OptionError(f"InnerProductIndex: probes must lie in 1…{self.lists}, got {probes}")
        cosines = z @ self._centres[:, :-1].T
        return np.argpartition(-cosines, probes - 1, 1)[:, :probes]


def recall_curve(
    vectors: Tensor,
    queries: Tensor,
    k: int = 10,
    probes: Iterable[int] = (1, 2, 4, 8, 16),
    repeats: int = 3,
    index: InnerProductIndex | None = None,
) -> list[SearchPoint]:
    """What approximate search gains and loses: recall, share of products, seconds, speed-up for each number of probes.

    Recall is the share of the exact k best that is found (N2 §4.5.3); times are the best of `repeats`. The index is
    built with its defaults unless given. Shape: vectors (C, D), queries (B, D)
    """
    index = InnerProductIndex(vectors) if index is None else index
    exact, exact_seconds = _timed(lambda: top_inner_products(vectors, queries, k), repeats)
    truth = _array(exact.indices)[:, :, None]  # (B, k, 1)
    points = []
    for count in probes:
        found, seconds = _timed(lambda count=count: index.search(queries, k, count), repeats)
        recall = float((truth == _array(found.indices)[:, None]).any(-1).mean())
        scanned = index.fraction_scanned(queries, count)
        points.append(SearchPoint(count, recall, scanned, seconds, exact_seconds / seconds))
    return points


# ---------------------------------------------------------------------------------------------- helpers


def _array(x: Tensor) -> np.ndarray:
    return x.detach().numpy()


def _check(vectors: Tensor, queries: Tensor, k: int) -> None:
    if vectors.ndim != 2 or queries.ndim != 2 or vectors.shape[1] != queries.shape[1]:
        raise ShapeError(
            f"top_inner_products: expected vectors (C, D) and queries (B, D), got {tuple(vectors.shape)} and "
            f"{tuple(queries.shape)}"
        )
    if not 0 < k <= vectors.shape[0]:
        raise OptionError(f"top_inner_products: k must lie in 1…{vectors.shape[0]}, got {k}")


def _largest(values: np.ndarray, indices: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k largest of every row, in descending order. Shape: (B, N) twice → (B, k) twice"""
    if values.shape[1] > k:
        best = np.argpartition(-values, k - 1, 1)[:, :k]
        values, indices = np.take_along_axis(values, best, 1), np.take_along_axis(indices, best, 1)
    order = np.argsort(-values, 1, kind="stable")
    return np.take_along_axis(values, order, 1), np.take_along_axis(indices, order, 1)


def _spherical_means(
    unit: np.ndarray, lists: int, rounds: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """k-means by cosine: unit centres, and the number of the nearest centre of every vector.

    A centre that loses all its members moves to a vector chosen at random.
    """
    centres = unit[random.choice(len(unit), lists, replace=False)]
    for _ in range(rounds):
        member = (unit @ centres.T).argmax(1)
        sums = np.zeros_like(centres)
        np.add.at(sums, member, unit)
        empty = ~np.bincount(member, minlength=lists).astype(bool)
        sums[empty] = unit[random.choice(len(unit), int(empty.sum()))]
        centres = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), np.finfo(sums.dtype).tiny)
    return centres, (unit @ centres.T).argmax(1)


def _timed(fn: Callable[[], SearchResult], repeats: int) -> tuple[SearchResult, float]:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = fn()
        times.append(time.perf_counter() - start)
    return result, min(times)
