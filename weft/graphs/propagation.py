"""Labels that spread along edges: classes of all nodes from those of a few, without features and weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.graph import Graph
from ..errors import OptionError, ShapeError
from ..runtime.lazy import LazyModule
from ..tensor import Tensor, wrap
from .matrices import check_undirected, scipy_adjacency, scipy_laplacian

__all__ = ["harmonic_labels", "label_propagation"]

sparse = LazyModule("scipy.sparse")
csgraph = LazyModule("scipy.sparse.csgraph")
solvers = LazyModule("scipy.sparse.linalg")


def label_propagation(
    graph: Graph,
    y: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    alpha: float = 0.9,
    num_layers: int | None = 50,
    num_classes: int | None = None,
) -> Tensor:
    """F ← α D^-½ A D^-½ F + (1 − α) Y, from F = Y: (N, C) float64, whose largest entries are the classes.

    Y has a 1 at the class of each known node and is 0 elsewhere (Zhou et al. 2004).
    y, mask: classes (N,) and which are known (N,) bool, those of the graph (`y`, `train_mask`) if not given
    num_layers: how many steps; None solves for what many of them would lead to, (1 − α) (I − α D^-½ A D^-½)⁻¹ Y

    >>> path = weft.graphs.path(4)
    >>> y, known = weft.tensor([0, 0, 0, 1]), weft.tensor([True, False, False, True])
    >>> weft.graphs.label_propagation(path, y, known).argmax(1).tolist()
    [0, 0, 1, 1]
    """
    if not 0 <= alpha < 1:
        raise OptionError(f"label_propagation: expected alpha in [0, 1), got {alpha}")
    start = _known(graph, y, mask, num_classes, "label_propagation")
    check_undirected(graph, "label_propagation")
    smooth = _normalised(scipy_adjacency(graph))
    if num_layers is None:
        system = (sparse.eye_array(graph.num_nodes) - alpha * smooth).tocsc()
        return wrap((1 - alpha) * solvers.splu(system).solve(start))
    found = start
    for _ in range(num_layers):
        found = alpha * (smooth @ found) + (1 - alpha) * start
    return wrap(found)


def harmonic_labels(
    graph: Graph, y: Tensor | None = None, mask: Tensor | None = None, *, num_classes: int | None = None
) -> Tensor:
    """F with L F = 0 at unknown nodes and F = Y at known ones: each unknown row is the mean of its neighbours'.

    F_vc is the probability that a walk from v meets class c before any other: (N, C) float64, rows of sum 1. Nodes from
    which no known one is reached have 1/C everywhere. (Zhu, Ghahramani and Lafferty 2003)

    >>> path = weft.graphs.path(3)
    >>> weft.graphs.harmonic_labels(path, weft.tensor([0, 0, 1]), weft.tensor([True, False, True])).tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    """
    known = _known(graph, y, mask, num_classes, "harmonic_labels")
    check_undirected(graph, "harmonic_labels")
    given = known.any(1)
    _, part = csgraph.connected_components(scipy_adjacency(graph), directed=False)
    reached = np.isin(part, np.unique(part[given]))
    free, result = np.flatnonzero(reached & ~given), known
    result[~reached] = 1 / known.shape[1]
    if len(free):
        L = scipy_laplacian(graph)[free]
        right = -(L[:, np.flatnonzero(given)] @ known[given])
        result[free] = solvers.splu(L[:, free].tocsc()).solve(right)
    return wrap(result)


def _known(graph: Graph, y: Tensor | None, mask: Tensor | None, classes: int | None, name: str) -> np.ndarray:
    """Y (N, C)."""
    y = graph.y if y is None else y
    mask = graph.train_mask if mask is None else mask
    if y is None or mask is None:
        raise OptionError(f"{name}: expected y and mask, or a graph with y and train_mask")
    count = graph.num_nodes
    if y.shape != (count,) or mask.shape != (count,) or mask.array.dtype != np.bool_ or y.array.dtype.kind not in "iu":
        raise ShapeError(
            f"{name}: expected classes and bools for {count} nodes, got {y.dtype} {tuple(y.shape)} and {mask.dtype} "
            f"{tuple(mask.shape)}"
        )
    if not mask.array.any():
        raise OptionError(f"{name}: expected at least one known node, got none")
    codes = y.array[mask.array]
    width = int(y.array.max()) + 1 if classes is None else classes
    if codes.min() < 0 or codes.max() >= width:
        raise OptionError(f"{name}: expected classes of 0..{width - 1}, got {codes.min()}..{codes.max()}")
    table = np.zeros((count, width))
    table[np.flatnonzero(mask.array), codes] = 1
    return table


def _normalised(matrix: Any) -> Any:
    """D^-½ A D^-½; rows of nodes without edges are 0."""
    d = np.asarray(matrix.sum(1)).ravel()
    root = np.divide(1, np.sqrt(d), out=np.zeros_like(d), where=d > 0)
    return matrix.multiply(root[:, None]).multiply(root[None, :]).tocsr()
