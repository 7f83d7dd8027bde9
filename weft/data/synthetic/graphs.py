"""Random graphs with communities: the stochastic block model (Holland, Laskey and Leinhardt, 1983)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

import weft

from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..graph import Graph
from .common import check_count, check_noise, classes_of, real, stream

__all__ = ["Graph", "sbm", "stochastic_block_model"]


def sbm(
    n: int = 100,
    noise: float = 1.0,
    *,
    classes: int = 2,
    p_in: float = 0.2,
    p_out: float = 0.02,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> Graph:
    """n nodes in equal communities: edges with probability p_in inside one and p_out between two.

    Node features are the one-hot community plus noise · N(0, 1); labels are the communities (sorted). Each edge is
    listed in both directions. A `weft.data.Graph` with x (n, classes), edge_index (2, E), y (n,).

    Example:
        >>> from weft.data.synthetic import sbm
        >>> graph = sbm(6, classes=3, p_in=1.0, p_out=0.0)
        >>> graph.edge_index.tolist(), graph.y.tolist()
        ([[0, 1, 2, 3, 4, 5], [1, 0, 3, 2, 5, 4]], [0, 0, 1, 1, 2, 2])
    """
    check_count("sbm", n=n)
    check_count("sbm", 1, classes=classes)
    check_noise("sbm", noise)
    generator = stream("sbm", seed, generator)
    sizes = [n // classes + (k < n % classes) for k in range(classes)]
    p = np.full((classes, classes), p_out) + (p_in - p_out) * np.eye(classes)
    edge_index, labels = stochastic_block_model(sizes, p, generator=generator)
    features = np.eye(classes)[np.asarray(labels)] + generator.normal((n, classes), np.float64, std=noise)
    return Graph(real(features), edge_index, y=labels)


def stochastic_block_model(
    sizes: Sequence[int],
    p: ArrayLike,
    *,
    directed: bool = False,
    selfloops: bool = False,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Each pair of nodes (i, j) is an edge with probability p[block of i, block of j], independently.

    Undirected graphs (p symmetric) list each edge in both directions, a self-loop once. Edges are sorted. Time and
    memory are in proportion to the edges: the gaps between them are geometric (Batagelj and Brandes, 2005).
    Shape: sizes (K,), p (K, K) → edge_index (2, E), labels (Σ sizes,)

    Example:
        >>> from weft.data.synthetic import stochastic_block_model
        >>> edges, labels = stochastic_block_model([1, 2], [[0, 1], [1, 0]])
        >>> edges.tolist(), labels.tolist()
        ([[0, 0, 1, 2], [1, 2, 0, 0]], [0, 1, 1])
    """
    check_count("stochastic_block_model", **{f"sizes[{k}]": size for k, size in enumerate(sizes)})
    p = _checked_probabilities(p, len(sizes), directed)
    generator = stream("stochastic_block_model", seed, generator)
    starts = np.cumsum([0, *sizes])
    pairs = [np.zeros((2, 0), np.int64)]
    for a in range(len(sizes)):
        for b in range(0 if directed else a, len(sizes)):
            chosen = _chosen(sizes[a] * sizes[b], p[a, b], generator)
            pairs.append(np.stack(np.divmod(chosen, sizes[b] or 1)) + starts[[a, b]].reshape(2, 1))
    return weft.as_tensor(_arranged(np.concatenate(pairs, 1), directed, selfloops)), weft.as_tensor(classes_of(*sizes))


def _chosen(count: int, p: float, generator: weft.Generator) -> NDArray[np.int64]:
    """Numbers below `count`, each with probability p, in rising order: the sums of geometric gaps."""
    if p in (0.0, 1.0):
        return np.arange(count if p else 0)
    found, last = [], -1
    while last < count:
        expected = (count - last) * p
        gaps = generator.geometric(p, (int(expected + 4 * math.sqrt(expected)) + 1,), np.int64)
        found.append(last + np.cumsum(np.minimum(gaps, count + 1)))
        last = int(found[-1][-1])
    places = np.concatenate(found)
    return places[places < count]


def _arranged(pairs: NDArray[np.int64], directed: bool, selfloops: bool) -> NDArray[np.int64]:
    """The pairs without those that the kind of graph excludes, mirrored if undirected, sorted. (2, E)"""
    if not selfloops:
        pairs = pairs[:, pairs[0] != pairs[1]]
    if not directed:
        pairs = pairs[:, pairs[0] <= pairs[1]]  # inside a block both (i, j) and (j, i) were drawn
        pairs = np.concatenate([pairs, pairs[::-1, pairs[0] != pairs[1]]], 1)
    return np.ascontiguousarray(pairs[:, np.lexsort(pairs[::-1])])


def _checked_probabilities(p: ArrayLike, blocks: int, directed: bool) -> NDArray:
    p = np.asarray(p, np.float64)
    if p.shape != (blocks, blocks):
        raise ShapeError(f"stochastic_block_model: expected p of shape ({blocks}, {blocks}), got {p.shape}")
    if not np.all((p >= 0) & (p <= 1)):
        raise OptionError(f"stochastic_block_model: expected probabilities in [0, 1], got {p.tolist()}")
    if not directed and not np.array_equal(p, p.T):
        raise OptionError("stochastic_block_model: expected a symmetric p, got another; pass directed=True")
    return p
