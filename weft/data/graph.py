"""A graph with what is known of its nodes and edges: what sources read, `synthetic` draws and `augment` changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from ..errors import OptionError, ShapeError
from ..tensor import Tensor, wrap

__all__ = ["Graph"]


@dataclass(eq=False)
class Graph:
    """A graph of N nodes and E directed edges, or several of them side by side (`batch`).

    edge_index: (2, E) int64; x: (N, F) features of nodes; y: classes of nodes (N,) or of graphs (1,)
    edge_attr: (E, D); masks: (N,) bool; batch: (N,) int64, the number of the graph that a node belongs to

    >>> graph = Graph(weft.tensor([[0, 1], [1, 0]]), y=weft.tensor([5, 6, 7]), num_nodes=3)
    >>> graph.subgraph(weft.tensor([True, False, True])).y.tolist()
    [5, 7]
    """

    edge_index: Tensor
    x: Tensor | None = None
    y: Tensor | None = None
    edge_attr: Tensor | None = None
    train_mask: Tensor | None = None
    val_mask: Tensor | None = None
    test_mask: Tensor | None = None
    batch: Tensor | None = None
    num_nodes: int = -1

    def __post_init__(self) -> None:
        edges = self.edge_index.array
        if edges.ndim != 2 or edges.shape[0] != 2:
            raise ShapeError(f"Graph: edge_index must be (2, E), got {tuple(edges.shape)}")
        if self.num_nodes < 0:
            self.num_nodes = self.x.shape[0] if self.x is not None else int(edges.max(initial=-1)) + 1
        if edges.size and not 0 <= edges.min() <= edges.max() < self.num_nodes:
            raise ShapeError(f"Graph: edges join nodes {edges.min()}..{edges.max()} of {self.num_nodes}")

    @property
    def num_edges(self) -> int:
        """How many directed edges there are: twice the number of undirected ones."""
        return self.edge_index.shape[1]

    @property
    def num_features(self) -> int:
        return 0 if self.x is None else self.x.shape[1]

    def is_undirected(self) -> bool:
        """Whether every edge is there in both directions."""
        pairs = set(map(tuple, self.edge_index.array.T.tolist()))
        return all((target, source) in pairs for source, target in pairs)

    def of_nodes(self) -> dict[str, Tensor]:
        """The parts that have an entry for each node, by name; y is one unless it has an entry for each graph."""
        names = ["x", "train_mask", "val_mask", "test_mask", "batch"]
        if self.y is not None and len(self.y) == self.num_nodes and not self._labels_graphs():
            names.append("y")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def _labels_graphs(self) -> bool:
        return self.batch is not None and len(self.y) == int(self.batch.array.max(initial=-1)) + 1

    def subgraph(self, kept: Tensor) -> Graph:
        """The graph on the nodes kept, (N,) bool, with the edges between them, numbered anew."""
        nodes = kept.array
        if nodes.dtype != np.bool_ or nodes.shape != (self.num_nodes,):
            raise ShapeError(
                f"subgraph: expected a bool for each of {self.num_nodes} nodes, got {kept.dtype} {nodes.shape}"
            )
        edges = self.edge_index.array
        inside = nodes[edges].all(0)
        number = np.cumsum(nodes) - 1
        parts = {name: wrap(value.array[nodes]) for name, value in self.of_nodes().items()}
        return replace(
            self.with_edges(wrap(inside)),
            edge_index=wrap(number[edges[:, inside]].astype(edges.dtype).reshape(2, -1)),
            num_nodes=int(nodes.sum()),
            **parts,
        )

    def with_edges(self, kept: Tensor) -> Graph:
        """The graph with some of its edges, (E,) bool."""
        attributes = None if self.edge_attr is None else wrap(self.edge_attr.array[kept.array])
        return replace(self, edge_index=wrap(self.edge_index.array[:, kept.array]), edge_attr=attributes)

    @staticmethod
    def join(graphs: Sequence[Graph]) -> Graph:
        """Several graphs as one without edges between them; `batch` says which node is whose.

        To be used as `collate_fn` of a DataLoader.
        """
        if not graphs:
            raise OptionError("Graph.join: at least one graph is needed")
        counts = np.array([graph.num_nodes for graph in graphs])
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        edges = [graph.edge_index.array + start for graph, start in zip(graphs, starts, strict=True)]
        joined = {name: _joined([getattr(graph, name) for graph in graphs]) for name in _PARTS}
        owner = wrap(np.repeat(np.arange(len(graphs)), counts))
        return Graph(wrap(np.concatenate(edges, 1)), batch=owner, num_nodes=int(counts.sum()), **joined)

    def __repr__(self) -> str:
        shown = [f"{f.name}={tuple(v.shape)}" for f in fields(self) if isinstance(v := getattr(self, f.name), Tensor)]
        return f"Graph({self.num_nodes} nodes, {', '.join(shown)})"


_PARTS = ("x", "y", "edge_attr", "train_mask", "val_mask", "test_mask")


def _joined(parts: Sequence[Tensor | None]) -> Tensor | None:
    if any(part is None for part in parts):
        return None
    return wrap(np.concatenate([part.array for part in parts]))
