"""Graphs that are made: regular ones, and random ones drawn from Weft's generators.

All are undirected (each edge in both directions, in order) unless said otherwise. `stochastic_block_model` and `sbm`
are those of `weft.data.synthetic`, as a `Graph`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

import weft

from ..data import synthetic
from ..data.graph import Graph
from ..data.synthetic.common import check_count, stream
from ..errors import OptionError
from ..tensor import wrap
from .edges import to_undirected

__all__ = [
    "barabasi_albert",
    "complete",
    "erdos_renyi",
    "grid",
    "path",
    "ring",
    "stochastic_block_model",
    "watts_strogatz",
]


def _undirected(pairs: np.ndarray, count: int, **parts: weft.Tensor) -> Graph:
    """The graph with these edges in both directions, (2, E) each once."""
    edges = to_undirected(wrap(np.ascontiguousarray(pairs, np.int64)), num_nodes=count)
    return Graph(edge_index=edges, num_nodes=count, **parts)


# ------------------------------------------------------------------------------------------ regular
def path(n: int) -> Graph:
    """Nodes in a row: 0 – 1 – … – n−1. Its Laplacian has the eigenvalues 2 − 2cos(πk/n).

    >>> weft.graphs.path(3).edge_index.tolist()
    [[0, 1, 1, 2], [1, 0, 2, 1]]
    """
    check_count("path", n=n)
    return _undirected(np.stack([np.arange(n - 1), np.arange(1, n)]) if n > 1 else np.zeros((2, 0)), n)


def ring(n: int, directed: bool = False) -> Graph:
    """Nodes in a circle. Its Laplacian has the eigenvalues 2 − 2cos(2πk/n); the DFT is its Fourier transform.

    directed: only the edges i → i + 1 mod n

    >>> weft.graphs.ring(3, directed=True).edge_index.tolist()
    [[0, 1, 2], [1, 2, 0]]
    """
    check_count("ring", 3, n=n)
    pairs = np.stack([np.arange(n), (np.arange(n) + 1) % n])
    return Graph(edge_index=wrap(pairs), num_nodes=n) if directed else _undirected(pairs, n)


def complete(n: int) -> Graph:
    """Each node joined to each other one. Its Laplacian has the eigenvalues 0 and n − 1 times n.

    >>> weft.graphs.complete(4).num_edges
    12
    """
    check_count("complete", n=n)
    return _undirected(np.stack(np.triu_indices(n, 1)), n)


def grid(height: int, width: int, periodic: bool = False) -> Graph:
    """Nodes in rows and columns, node r · width + c joined to those beside, above and below; `pos` has (c, r).

    periodic: the last column is beside the first one and the last row above the first (a torus)

    >>> weft.graphs.grid(2, 2).edge_index.tolist()
    [[0, 0, 1, 1, 2, 2, 3, 3], [1, 2, 0, 3, 0, 3, 1, 2]]
    """
    check_count("grid", height=height, width=width)
    node = np.arange(height * width).reshape(height, width)
    pairs = [(node[:, :-1], node[:, 1:]), (node[:-1], node[1:])]
    if periodic:
        pairs += [(node[:, -1:], node[:, :1]), (node[-1:], node[:1])]
    joined = np.concatenate([np.stack([a.ravel(), b.ravel()]) for a, b in pairs], 1)
    joined = joined[:, joined[0] != joined[1]]
    row, column = np.divmod(node.ravel(), max(width, 1))
    return _undirected(joined, height * width, pos=wrap(np.stack([column, row], 1).astype(np.float32)))


# ------------------------------------------------------------------------------------------ random
def erdos_renyi(
    n: int, p: float, *, directed: bool = False, seed: int | None = None, generator: weft.Generator | None = None
) -> Graph:
    """G(n, p): each pair of nodes is an edge with probability p, independently (Erdős and Rényi 1959, Gilbert 1959).

    Time and memory are in proportion to the edges.

    >>> weft.graphs.erdos_renyi(5, 1.0).num_edges
    20
    """
    return stochastic_block_model([n], [[p]], directed=directed, seed=seed, generator=generator).replace(y=None)


def stochastic_block_model(
    sizes: Sequence[int],
    p: ArrayLike,
    *,
    directed: bool = False,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> Graph:
    """Communities of these sizes; i and j are joined with probability p[community of i, community of j].

    y has the communities. (Holland, Laskey and Leinhardt 1983)

    >>> weft.graphs.stochastic_block_model([2, 1], [[0, 1], [1, 0]]).edge_index.tolist()
    [[0, 1, 2, 2], [2, 2, 0, 1]]
    """
    edges, labels = synthetic.stochastic_block_model(sizes, p, directed=directed, seed=seed, generator=generator)
    return Graph(edge_index=edges, y=labels, num_nodes=len(labels))


def barabasi_albert(n: int, m: int, *, seed: int | None = None, generator: weft.Generator | None = None) -> Graph:
    """A graph that grows: each new node is joined to m others, with probability in proportion to their degrees.

    It begins with a star of m + 1 nodes and has m (n − m) undirected edges; degrees follow a power law with exponent 3.
    (Barabási and Albert 1999)

    >>> weft.graphs.barabasi_albert(100, 2, seed=0).num_edges
    392
    """
    check_count("barabasi_albert", 1, n=n, m=m)
    if not m < n:
        raise OptionError(f"barabasi_albert: expected m below n, got m={m} and n={n}")
    draws = stream("barabasi_albert", seed, generator).uniform((n, 4 * m), np.float64)
    ends = np.zeros(
        2 * m * (n - m), np.int64
    )  # every node as often as it has edges: a uniform entry is a weighted node
    ends[: 2 * m : 2], ends[1 : 2 * m : 2] = m, np.arange(m)
    for node in range(m + 1, n):
        filled = 2 * m * (node - m)
        found = list(dict.fromkeys(ends[(draws[node] * filled).astype(np.int64)].tolist()))[:m]
        if len(found) < m:
            found = _topped_up(found, ends[:filled], m)
        ends[filled : filled + 2 * m : 2], ends[filled + 1 : filled + 2 * m : 2] = node, found
    return _undirected(ends.reshape(-1, 2).T, n)


def _topped_up(found: list[int], ends: np.ndarray, m: int) -> list[int]:
    """m different nodes where the draws gave fewer: the rest in order of their degrees."""
    others = np.argsort(-np.bincount(ends), kind="stable").tolist()
    return list(dict.fromkeys([*found, *others]))[:m]


def watts_strogatz(
    n: int, k: int, p: float, *, seed: int | None = None, generator: weft.Generator | None = None
) -> Graph:
    """A ring in which each node is joined to its k nearest, each edge with probability p led to a random other node.

    No loops and no edges twice: a new end that would be one is drawn again. There are n ⌊k/2⌋ undirected edges.
    (Watts and Strogatz 1998)

    >>> weft.graphs.watts_strogatz(10, 4, 0.0).num_edges
    40
    """
    check_count("watts_strogatz", 1, n=n)
    if not 0 <= k < n or not 0 <= p <= 1:
        raise OptionError(f"watts_strogatz: expected 0 ≤ k < n and p in [0, 1], got k={k}, n={n}, p={p}")
    random = stream("watts_strogatz", seed, generator)
    source = np.tile(np.arange(n), k // 2)
    target = (source + np.repeat(np.arange(1, k // 2 + 1), n)) % n
    moving = (random.uniform(len(source), np.float64) < p) & (k < n - 1)
    for _ in range(64):  # a new end is refused with probability of about k / n
        drawn = np.where(moving, random.integers(0, n, len(source)), target)
        keys = np.minimum(source, drawn) * n + np.maximum(source, drawn)
        order = np.lexsort((moving, keys))
        twice = np.zeros(len(keys), bool)
        twice[order[1:]] = keys[order[1:]] == keys[order[:-1]]
        good = moving & (drawn != source) & ~twice
        target, moving = np.where(good, drawn, target), moving & ~good
        if not moving.any():
            break
    return _undirected(np.stack([source, target]), n)
