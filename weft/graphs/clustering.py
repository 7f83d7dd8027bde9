"""Nodes in groups: what a cut costs, and groups with a small one by eigenvectors (N2 §7.4.3, 7.5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.graph import Graph
from ..errors import OptionError, ShapeError
from ..models.classical.clustering import kmeans
from ..tensor import Tensor, wrap
from .matrices import check_undirected, scipy_adjacency
from .spectra import spectrum

__all__ = [
    "conductance",
    "cut_size",
    "eigengap",
    "modularity",
    "normalized_cut",
    "ratio_cut",
    "spectral_clustering",
]


# ------------------------------------------------------------------------------------------ what a cut costs
def _between(graph: Graph, labels: Tensor, name: str) -> np.ndarray:
    """The weights of edges from each cluster to each other one, (K, K); inside a cluster both directions count."""
    check_undirected(graph, name)
    codes = labels.array
    if codes.shape != (graph.num_nodes,) or codes.dtype.kind not in "iub":
        raise ShapeError(
            f"{name}: expected a cluster for each of {graph.num_nodes} nodes, got {codes.dtype} {codes.shape}"
        )
    kinds, codes = np.unique(codes, return_inverse=True)
    matrix = scipy_adjacency(graph).tocoo()
    total = np.zeros((len(kinds), len(kinds)))
    np.add.at(total, (codes[matrix.row], codes[matrix.col]), matrix.data)
    return total


def cut_size(graph: Graph, labels: Tensor) -> float:
    """Σ of the weights of edges between different clusters, each once.

    >>> weft.graphs.cut_size(weft.graphs.path(4), weft.tensor([0, 0, 1, 1]))
    1.0
    """
    total = _between(graph, labels, "cut_size")
    return float((total.sum() - np.trace(total)) / 2)


def ratio_cut(graph: Graph, labels: Tensor) -> float:
    """Σ_k cut(C_k, rest) / |C_k|. Eigenvectors of L minimise it where they may have any values.

    >>> weft.graphs.ratio_cut(weft.graphs.path(4), weft.tensor([0, 0, 1, 1]))
    1.0
    """
    total = _between(graph, labels, "ratio_cut")
    return float(((total.sum(1) - np.diag(total)) / np.unique(labels.array, return_counts=True)[1]).sum())


def normalized_cut(graph: Graph, labels: Tensor) -> float:
    """Σ_k cut(C_k, rest) / vol(C_k), vol the sum of degrees (Shi and Malik 2000). Those of L_rw minimise it so.

    >>> weft.graphs.normalized_cut(weft.graphs.path(4), weft.tensor([0, 0, 1, 1]))
    0.6666666666666666
    """
    total = _between(graph, labels, "normalized_cut")
    volume = total.sum(1)
    if (volume == 0).any():
        raise OptionError("normalized_cut: expected clusters with edges, got one whose nodes have none")
    return float(((volume - np.diag(total)) / volume).sum())


def conductance(graph: Graph, labels: Tensor) -> float:
    """max_k cut(C_k, rest) / min(vol(C_k), vol(rest)).

    >>> weft.graphs.conductance(weft.graphs.path(4), weft.tensor([0, 0, 1, 1]))
    0.3333333333333333
    """
    total = _between(graph, labels, "conductance")
    volume = total.sum(1)
    smaller = np.minimum(volume, volume.sum() - volume)
    if (smaller == 0).any():
        raise OptionError("conductance: expected at least two clusters with edges in each")
    return float(((volume - np.diag(total)) / smaller).max())


def modularity(graph: Graph, labels: Tensor, resolution: float = 1.0) -> float:
    """Σ_k (inside_k / 2m − γ (vol_k / 2m)²): edges inside of clusters beyond what degrees alone would give.

    2m = Σ d, inside_k counts both directions; γ is the resolution. (Newman and Girvan 2004)

    >>> weft.graphs.modularity(weft.graphs.path(4), weft.tensor([0, 0, 1, 1]))
    0.16666666666666663
    """
    total = _between(graph, labels, "modularity")
    if not total.sum():
        raise OptionError("modularity: expected a graph with edges, got none")
    share = total / total.sum()
    return float(np.trace(share) - resolution * (share.sum(1) ** 2).sum())


# ------------------------------------------------------------------------------------------ clusters
def eigengap(eigenvalues: Tensor, most: int | None = None) -> int:
    """How many clusters there seem to be: the k ≥ 1 with the largest gap λ_{k+1} − λ_k.

    most: the largest k that is considered

    >>> weft.graphs.eigengap(weft.tensor([0.0, 0.01, 0.02, 0.9, 1.0]))
    3
    """
    gaps = np.diff(eigenvalues.array)[:most]
    if not gaps.size:
        raise OptionError(f"eigengap: expected at least two eigenvalues, got {len(eigenvalues)}")
    return int(gaps.argmax()) + 1


def spectral_clustering(
    graph: Graph,
    n_clusters: int | None = None,
    normalization: str | None = "rw",
    *,
    most: int = 20,
    restarts: int = 10,
    generator: Any = None,
) -> Tensor:
    """k-means of the rows of the first k eigenvectors of the Laplacian: (N,) int64.

        None    those of L: the ratio cut, relaxed
        "rw"    those of L_rw: the normalised cut, relaxed (Shi and Malik 2000)
        "sym"   those of L_sym with rows of length 1 (Ng, Jordan and Weiss 2002)

    n_clusters: k; without it the eigengap among the first `most` eigenvalues chooses
    restarts, generator: of k-means

    >>> two = weft.graphs.stochastic_block_model([5, 5], [[1.0, 0.0], [0.0, 1.0]])
    >>> labels = weft.graphs.spectral_clustering(two, 2)
    >>> len(set(labels[:5].tolist())), len(set(labels.tolist()))
    (1, 2)
    """
    if n_clusters is None:
        n_clusters = eigengap(spectrum(graph, min(most + 1, graph.num_nodes), normalization).eigenvalues)
    if not 1 <= n_clusters <= graph.num_nodes:
        raise OptionError(f"spectral_clustering: expected 1..{graph.num_nodes} clusters, got {n_clusters}")
    rows = spectrum(graph, n_clusters, normalization).eigenvectors
    if normalization == "sym":
        length = np.linalg.norm(rows.array, axis=1, keepdims=True)
        rows = wrap(rows.array / np.where(length > 0, length, 1))
    return kmeans(rows, n_clusters, restarts=restarts, generator=generator).labels
