"""Graphs: what they are, their matrices and spectra, classical methods on them, tasks and samples for training.

Names are PyTorch Geometric's where it has the thing. An edge_index is (2, E): sources above targets; the matrix A of a
graph has the weight of i → j at A[i, j]. Message passing layers are in `weft.graphs.nn`, models in `weft.models.graphs`.

    >>> graph = weft.graphs.Data(edge_index=weft.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    >>> weft.graphs.degree(graph.edge_index[0]).tolist()
    [1.0, 2.0, 1.0]
"""

from ..data.graph import Graph
from ..data.graph_batch import Batch
from ..runtime.lazy import later as _later

Data = Graph

_NAMES: dict[str, tuple[str, ...]] = {
    "edges": (
        *("add_remaining_self_loops", "add_self_loops", "coalesce", "degree", "k_hop_subgraph", "remove_self_loops"),
        *("subgraph", "to_undirected"),
    ),
    "loader": ("DataLoader",),
}

__all__ = ["Batch", "Data", "Graph", *(name for names in _NAMES.values() for name in names)]

__getattr__, __dir__ = _later(__name__, ("segment",), _NAMES)
