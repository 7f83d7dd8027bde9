"""Pairs of nodes that no edge joins: what links are told from."""

from __future__ import annotations

import numpy as np

import weft

from ..data.synthetic.common import stream
from ..errors import OptionError
from ..tensor import Tensor, wrap
from .edges import node_count

__all__ = ["negative_sampling"]

ENUMERATED = 1 << 22  # pairs up to which all that are not joined are listed


def negative_sampling(
    edge_index: Tensor,
    num_nodes: int | None = None,
    num_neg_samples: int | None = None,
    force_undirected: bool = False,
    *,
    generator: weft.Generator | None = None,
) -> Tensor:
    """Different pairs i → j, i ≠ j, that are no edges, uniformly among all of them: (2, K) int64.

    num_neg_samples: K, as many as there are edges if not given; where the graph has fewer such pairs, all of them come
    force_undirected: pairs come in both directions and are no edges in either; K counts directions

    >>> weft.graphs.negative_sampling(weft.tensor([[0, 1], [1, 2]]), num_neg_samples=99).shape
    weft.Size([2, 4])
    """
    count = node_count(edge_index, num_nodes)
    wanted = edge_index.shape[1] if num_neg_samples is None else num_neg_samples
    if wanted < 0:
        raise OptionError(f"negative_sampling: expected at least 0 samples, got {wanted}")
    random = stream("negative_sampling", None, generator)
    if not force_undirected:
        return wrap(pairs_without(edge_index.array, count, wanted, False, random))
    half = pairs_without(edge_index.array, count, -(-wanted // 2), True, random)
    return wrap(np.concatenate([half, half[::-1]], 1))


def pairs_without(edges: np.ndarray, count: int, wanted: int, undirected: bool, random: weft.Generator) -> np.ndarray:
    """At most `wanted` different pairs that are no edges, i < j if undirected: (2, K) in random order."""
    taken = np.unique(keys_of(edges[:, edges[0] != edges[1]], count, undirected))
    pairs = count * (count - 1) // (2 if undirected else 1)
    free = pairs - len(taken)
    if wanted >= free or (pairs <= ENUMERATED and wanted > free // 2):
        return _listed(taken, count, wanted, undirected, random)
    found = np.zeros(0, np.int64)
    while len(found) < wanted:
        drawn = random.integers(0, count, (2, 2 * (wanted - len(found)) + 16))
        keys = keys_of(drawn[:, drawn[0] != drawn[1]], count, undirected)
        keys = keys[~_among(keys, taken)]
        merged = np.concatenate([found, keys])
        found = merged[np.sort(np.unique(merged, return_index=True)[1])]  # those that came first
    return np.stack(np.divmod(found[:wanted], count))


def keys_of(edges: np.ndarray, count: int, undirected: bool) -> np.ndarray:
    """A number for each pair, the same for both directions of it if undirected."""
    source, target = edges.astype(np.int64)
    if undirected:
        source, target = np.minimum(source, target), np.maximum(source, target)
    return source * max(count, 1) + target


def _among(keys: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    if not len(ordered):
        return np.zeros(len(keys), bool)
    return ordered[np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)] == keys


def _listed(taken: np.ndarray, count: int, wanted: int, undirected: bool, random: weft.Generator) -> np.ndarray:
    pairs = np.stack(np.triu_indices(count, 1) if undirected else np.nonzero(~np.eye(count, dtype=bool)))
    pairs = pairs[:, ~_among(keys_of(pairs, count, undirected), taken)]
    return pairs[:, random.permutation(pairs.shape[1])[:wanted]].astype(np.int64)
