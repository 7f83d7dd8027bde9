"""Weights of edges by the degrees at their ends, and loops: what layers do to a graph before messages pass.

All of it keeps to fixed sizes (E edges become E + N, whatever loops there were), so that it can be compiled.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np

import weft

from ...errors import ShapeError
from ...sparse import COO, SparseTensor, ordered
from ...tensor import Tensor, wrap
from ..segment import scatter

__all__ = ["check_edges", "gcn_matrix", "gcn_norm", "looped", "transposed"]


@overload
def gcn_norm(edge_index: SparseTensor, **options: Any) -> SparseTensor: ...
@overload
def gcn_norm(edge_index: Tensor, edge_weight: Tensor | None = None, **options: Any) -> tuple[Tensor, Tensor]: ...
def gcn_norm(
    edge_index: Any,
    edge_weight: Tensor | None = None,
    num_nodes: int | None = None,
    improved: bool = False,
    add_self_loops: bool = True,
    flow: str = "source_to_target",
    dtype: Any = None,
) -> Any:
    """D̃^-½ Ã D̃^-½ with Ã = A + I, as edges and their weights (Kipf and Welling 2017).

    d̃_i is the sum of the weights that come to i. A vertex that has a loop keeps it and gets no other; improved: the weight of
    a new loop is 2. Vertices without edges and loops get 0, not infinity. Of a sparse matrix comes a sparse matrix.

    Shape: (2, E), (E,) → (2, E + N), (E + N,)

    >>> edges, weights = gcn_norm(weft.tensor([[0, 1], [1, 0]]))
    >>> weights
    tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    if isinstance(edge_index, SparseTensor):
        return _matrix_norm(edge_index, improved, add_self_loops)
    check_edges(edge_index, "gcn_norm")
    weight = _weights(edge_index, edge_weight, dtype)
    count = num_nodes if num_nodes is not None else _count(edge_index)
    if add_self_loops:
        edge_index, weight = _remaining_loops(edge_index, weight, count, 2.0 if improved else 1.0)
    source, target = edge_index[0], edge_index[1]
    degree = scatter(weight, target if flow == "source_to_target" else source, 0, count)
    scale = weft.where(degree > 0, degree.clamp(min=1e-30) ** -0.5, 0.0)
    return edge_index, scale[source] * weight * scale[target]


def gcn_matrix(
    edge_index: Tensor, edge_weight: Tensor | None = None, num_nodes: int | None = None, **options: Any
) -> SparseTensor:
    """`gcn_norm` as a sparse matrix, rows of which are targets: layers multiply by it, which is quicker than messages.

    >>> gcn_matrix(weft.tensor([[0, 1], [1, 0]])).to_dense()
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """
    count = num_nodes if num_nodes is not None else _count(edge_index)
    edges, weight = gcn_norm(edge_index, edge_weight, count, **options)
    return transposed(edges, weight, count)


def transposed(edge_index: Tensor, weight: Tensor, count: int) -> SparseTensor:
    """The matrix of edges: row i, column j holds the weight of j → i, those of several edges added up."""
    sources, targets = edge_index.array
    return ordered(targets, sources, weight, (count, count), COO).to_sparse_csr()


def looped(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Edges with a loop at every vertex at the end, and which of all of them count: earlier loops do not.

    Shape: (2, E) → (2, E + N), (E + N,) bool
    """
    check_edges(edge_index, "graph layer")
    new = weft.arange(num_nodes, dtype=edge_index.dtype)
    alive = weft.cat([edge_index[0] != edge_index[1], weft.ones(num_nodes, dtype=weft.bool)])
    return weft.cat([edge_index, weft.stack([new, new])], 1), alive


def _remaining_loops(edge_index: Tensor, weight: Tensor, count: int, fill: float) -> tuple[Tensor, Tensor]:
    """A loop of weight `fill` at each vertex without one, and of weight 0 at the others."""
    loops = (edge_index[0] == edge_index[1]).to(weight.dtype)
    had = scatter(loops, edge_index[0], 0, count)
    new = weft.arange(count, dtype=edge_index.dtype)
    return weft.cat([edge_index, weft.stack([new, new])], 1), weft.cat([weight, fill * (had == 0).to(weight.dtype)])


def _matrix_norm(adj_t: SparseTensor, improved: bool, add_self_loops: bool) -> SparseTensor:
    found = adj_t.coalesce()
    targets, sources = found._pattern.places()
    edges = wrap(np.stack([sources, targets]).astype(np.int64))
    return gcn_matrix(edges, found._values(), found.shape[0], improved=improved, add_self_loops=add_self_loops)


def _weights(edge_index: Tensor, edge_weight: Tensor | None, dtype: Any) -> Tensor:
    if edge_weight is None:
        return weft.ones(edge_index.shape[1], dtype=dtype)
    weight = edge_weight.squeeze(-1) if edge_weight.ndim == 2 and edge_weight.shape[1] == 1 else edge_weight
    return weight if dtype is None else weight.to(dtype)


def _count(edge_index: Tensor) -> int:
    return int(edge_index.max()) + 1 if edge_index.shape[1] else 0


def check_edges(edge_index: Any, who: str) -> None:
    """Raise unless these are (2, E) integers."""
    if not isinstance(edge_index, Tensor) or edge_index.ndim != 2 or edge_index.shape[0] != 2:
        shape = tuple(edge_index.shape) if isinstance(edge_index, Tensor) else type(edge_index).__name__
        raise ShapeError(f"{who}: edge_index must be (2, E) numbers of vertices or a sparse matrix, got {shape}")
    if edge_index.dtype.is_floating_point or edge_index.dtype.name == "bool":
        raise ShapeError(f"{who}: edge_index holds numbers of vertices, which are integers; got {edge_index.dtype}")
