"""Where a vertex is: eigenvectors of the Laplacian, whose signs mean nothing, and returns of random walks, which have none."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import weft

from ... import nn
from ...errors import OptionError
from ...runtime.lazy import LazyModule
from ...tensor import Tensor, wrap

__all__ = ["SignInvariant", "laplacian_positions", "random_signs", "random_walk_positions"]

sparse = LazyModule("scipy.sparse")
eigen = LazyModule("scipy.sparse.linalg")

DENSE = 512  # vertices up to which all eigenvectors are computed


def laplacian_positions(
    edge_index: Tensor, k: int, num_nodes: int | None = None, batch: Tensor | None = None
) -> Tensor:
    """The k eigenvectors of L_sym = I − D^-½AD^-½ after the first, of each graph by itself, lowest frequencies first.

    Edges count in both directions and loops do not. Graphs with fewer than k + 1 vertices get columns of 0. An eigenvector's sign is
    arbitrary: here the entry that is largest in magnitude is positive, which settles it except where two entries tie, and a network
    should not rely on it: flip signs at random while training (`random_signs`), or read them by `SignInvariant`. Where eigenvalues
    coincide any basis of their space may come out.

    Shape: (2, E) → (N, k) float32

    >>> laplacian_positions(weft.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), k=1).abs().round(decimals=1).squeeze(1)
    tensor([0.7000, 0.0000, 0.7000])
    """
    edges, count, owner = _parts(edge_index, k, num_nodes, batch)
    found = np.zeros((count, k), np.float32)
    for vertices, inside in _graphs(edges, owner, count):
        found[vertices] = _eigenvectors(inside, len(vertices), k)
    return wrap(found)


def random_walk_positions(
    edge_index: Tensor, k: int, num_nodes: int | None = None, batch: Tensor | None = None
) -> Tensor:
    """How likely a random walk from a vertex is back after 1, 2, … k steps: the diagonals of P, P², … with P = D^-1 A.

    Numbers of the structure around a vertex, without signs or bases to choose (Dwivedi et al. 2022). Vertices that no edge leaves
    get 0.

    Shape: (2, E) → (N, k) float32

    >>> random_walk_positions(weft.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), k=2).tolist()
    [[0.0, 0.5], [0.0, 1.0], [0.0, 0.5]]
    """
    edges, count, owner = _parts(edge_index, k, num_nodes, batch)
    found = np.zeros((count, k), np.float32)
    for vertices, inside in _graphs(edges, owner, count):
        size = len(vertices)
        matrix = sparse.csr_array((np.ones(inside.shape[1]), tuple(inside)), shape=(size, size))
        degree = matrix.sum(1)
        step = (
            sparse.dia_array((np.divide(1.0, degree, out=np.zeros(size), where=degree > 0)[None], [0]), (size, size))
            @ matrix
        )
        power = step.toarray() if size <= DENSE else step
        for column in range(k):
            found[vertices, column] = power.diagonal()
            power = power @ step if column + 1 < k else power
    return wrap(found)


def random_signs(positions: Tensor, generator: weft.Generator | None = None) -> Tensor:
    """The columns of positions times +1 or −1, at random: (N, k) → (N, k).

    >>> random_signs(weft.ones(2, 3)).abs().tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    signs = weft.randint(0, 2, (positions.shape[1],), generator=generator) * 2 - 1
    return positions * signs.to(positions.dtype)


class SignInvariant(nn.Module):
    """ρ(φ(v_1) + φ(−v_1), …, φ(v_k) + φ(−v_k)): a map of eigenvectors that no flip of a sign changes (Lim et al. 2023).

    φ sees one number of a vertex at a time, ρ all of them.

    Shape: (N, k) → (N, out_channels)

    >>> encoder, v = SignInvariant(3, 8, 4), weft.ones(5, 3)
    >>> weft.allclose(encoder(v), encoder(v * weft.tensor([1.0, -1.0, 1.0])))
    True
    """

    def __init__(self, k: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(1, hidden_channels), nn.ReLU(), nn.Linear(hidden_channels, hidden_channels))
        self.rho = nn.Sequential(
            nn.Linear(k * hidden_channels, hidden_channels), nn.ReLU(), nn.Linear(hidden_channels, out_channels)
        )

    def forward(self, positions: Tensor) -> Tensor:
        each = positions.unsqueeze(-1)  # (N, k, 1)
        return self.rho((self.phi(each) + self.phi(-each)).flatten(1))  # (N, k · hidden)


def _parts(
    edge_index: Tensor, k: int, num_nodes: int | None, batch: Tensor | None
) -> tuple[np.ndarray, int, np.ndarray]:
    if k < 1:
        raise OptionError(f"positions: k must be at least 1, got {k}")
    edges = edge_index.numpy()
    known = None if batch is None else batch.shape[0]
    count = num_nodes if num_nodes is not None else known if known is not None else int(edges.max(initial=-1)) + 1
    return edges, count, np.zeros(count, np.int64) if batch is None else batch.numpy()


def _graphs(edges: np.ndarray, owner: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The vertices of each graph, and its edges with vertices numbered from 0."""
    order = np.argsort(owner, kind="stable")
    borders = np.flatnonzero(np.diff(owner[order], prepend=-1, append=-1)) if count else np.zeros(1, int)
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count)
    by_graph = np.argsort(rank[edges[0]], kind="stable")
    at = rank[edges[:, by_graph]]
    found = []
    for start, end in pairwise(borders):
        first, last = np.searchsorted(at[0], [start, end])
        found.append((order[start:end], at[:, first:last] - start))
    return found


def _eigenvectors(edges: np.ndarray, size: int, k: int) -> np.ndarray:
    edges = edges[:, edges[0] != edges[1]]
    both = np.unique(np.concatenate([edges, edges[::-1]], 1), axis=1)
    matrix = sparse.csr_array((np.ones(both.shape[1]), tuple(both)), shape=(size, size))
    degree = matrix.sum(1)
    scale = np.divide(1.0, np.sqrt(degree), out=np.zeros(size), where=degree > 0)
    smooth = (
        sparse.dia_array((scale[None], [0]), (size, size)) @ matrix @ sparse.dia_array((scale[None], [0]), (size, size))
    )
    wanted = min(k, max(size - 1, 0))
    if size <= max(DENSE, k + 2):
        values, vectors = np.linalg.eigh(np.diag((degree > 0).astype(float)) - smooth.toarray())
        vectors = vectors[:, 1 : wanted + 1]
    else:  # the lowest frequencies of L are the largest eigenvalues of I − L
        laplacian = sparse.dia_array(((degree > 0).astype(float)[None], [0]), (size, size)) - smooth
        shifted = 2 * sparse.eye_array(size) - laplacian
        values, vectors = eigen.eigsh(shifted.tocsr(), k=wanted + 1, which="LA", v0=np.ones(size))
        vectors = vectors[:, np.argsort(-values, kind="stable")][:, 1 : wanted + 1]
    largest = vectors[np.abs(vectors).argmax(0), np.arange(vectors.shape[1])]
    vectors = vectors * np.where(largest < 0, -1.0, 1.0)
    return np.pad(vectors, ((0, 0), (0, k - vectors.shape[1])))
