"""Graphs whose nodes and edges are of several types, each with attributes of its own: property graphs (N2 §7.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft

from ...data.graph import Graph
from ...errors import ArgumentError, EntryError, ShapeError
from ...tensor import Tensor, wrap

__all__ = ["HeteroData", "Store"]

EdgeType = tuple[str, str, str]  # type of sources, relation, type of targets


class Store:
    """The attributes of one type of nodes or edges: any key with any value."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def __getattr__(self, name: str) -> Any:
        raise EntryError(f"HeteroData: there is no attribute {name!r}; there are {', '.join(vars(self)) or 'none'}")

    def items(self) -> dict[str, Any]:
        """The attributes by name."""
        return dict(vars(self))

    def __repr__(self) -> str:
        shown = (f"{n}={tuple(v.shape) if isinstance(v, Tensor) else v!r}" for n, v in vars(self).items())
        return f"Store({', '.join(shown)})"


class HeteroData:
    """A graph with types, PyTorch Geometric's `HeteroData`: data["author"].x, data["author", "writes", "paper"].edge_index.

    Nodes of each type are numbered from 0; edge_index (2, E) of a type of edges has numbers of its sources above those of its
    targets. A type has num_nodes, or as many nodes as its x has rows.

    >>> data = weft.graphs.HeteroData()
    >>> data["author"].x, data["paper"].num_nodes = weft.ones(2, 3), 4
    >>> data["author", "writes", "paper"].edge_index = weft.tensor([[0, 1], [3, 0]])
    >>> whole = data.to_homogeneous()
    >>> whole.edge_index.tolist(), whole.node_type.tolist()
    ([[0, 1], [5, 2]], [0, 0, 1, 1, 1, 1])
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Store] = {}
        self._edges: dict[EdgeType, Store] = {}

    def __getitem__(self, key: str | EdgeType | tuple[str, str]) -> Store:
        """The store of a type, made where there is none; (sources, targets) names the relation "to"."""
        if isinstance(key, str):
            return self._nodes.setdefault(key, Store())
        kind = (key[0], "to", key[1]) if len(key) == 2 else key
        if len(kind) != 3:
            raise ArgumentError(f"HeteroData: a type of edges is (sources, relation, targets), got {key}")
        return self._edges.setdefault(kind, Store())

    @property
    def node_types(self) -> list[str]:
        """The types of nodes, in the order in which they came."""
        return list(self._nodes)

    @property
    def edge_types(self) -> list[EdgeType]:
        """The types of edges, in the order in which they came."""
        return list(self._edges)

    def metadata(self) -> tuple[list[str], list[EdgeType]]:
        """Types of nodes and types of edges."""
        return self.node_types, self.edge_types

    def collect(self, name: str) -> dict[Any, Any]:
        """An attribute of all types that have it, by type."""
        return {kind: vars(s)[name] for kind, s in (*self._nodes.items(), *self._edges.items()) if name in vars(s)}

    @property
    def x_dict(self) -> dict[str, Tensor]:
        """Features by type of nodes."""
        return self.collect("x")

    @property
    def edge_index_dict(self) -> dict[EdgeType, Tensor]:
        """Edges by type of edges."""
        return self.collect("edge_index")

    def num_nodes(self, kind: str) -> int:
        """How many nodes of a type there are."""
        known = vars(self._nodes.get(kind, Store()))
        if "num_nodes" in known:
            return int(known["num_nodes"])
        rows = [value.shape[0] for value in known.values() if isinstance(value, Tensor) and value.ndim]
        if not rows:
            raise ShapeError(f"HeteroData: nodes of type {kind!r} have no attributes; set data[{kind!r}].num_nodes")
        return rows[0]

    def validate(self) -> None:
        """Raise if edges join nodes that are not there."""
        for (source, relation, target), store in self._edges.items():
            ends = store.edge_index.array
            for row, kind in zip(ends, (source, target), strict=True):
                if row.size and not 0 <= row.min() <= row.max() < self.num_nodes(kind):
                    raise ShapeError(
                        f"HeteroData: {(source, relation, target)} joins nodes {row.min()}..{row.max()} "
                        f"of {self.num_nodes(kind)} of type {kind!r}"
                    )

    def to_homogeneous(self) -> Graph:
        """One graph with all nodes, type after type, and all edges; node_type (N,) and edge_type (E,) number the types.

        Attributes that all types of nodes, or all of edges, have in equal widths are joined.
        """
        self.validate()
        counts = [self.num_nodes(kind) for kind in self._nodes]
        starts = dict(zip(self._nodes, np.cumsum([0, *counts]), strict=False))
        shifted = [
            store.edge_index.array + np.array([[starts[source]], [starts[target]]])
            for (source, _, target), store in self._edges.items()
        ]
        edges = np.concatenate(shifted, 1).astype(np.int64) if shifted else np.zeros((2, 0), np.int64)
        kinds = {
            "node_type": np.repeat(np.arange(len(counts)), counts),
            "edge_type": np.repeat(np.arange(len(shifted)), [part.shape[1] for part in shifted]),
        }
        joined = _joined(self._nodes.values()) | _joined(self._edges.values())
        types = {name: wrap(value.astype(np.int64)) for name, value in kinds.items()}
        return Graph(edge_index=wrap(edges), num_nodes=sum(counts), **joined, **types)

    def __repr__(self) -> str:
        parts = (f"{kind!r}: {store!r}" for kind, store in (*self._nodes.items(), *self._edges.items()))
        return f"HeteroData({', '.join(parts)})"


def _joined(stores: Any) -> dict[str, Tensor]:
    """Attributes with a row for each node or edge that all stores have alike."""
    held = [vars(store) for store in stores]
    names = [name for name in (held[0] if held else {}) if name != "edge_index" and all(name in part for part in held)]
    found = {}
    for name in names:
        values = [part[name] for part in held]
        same = all(isinstance(v, Tensor) and v.ndim and v.shape[1:] == values[0].shape[1:] for v in values)
        if same:
            found[name] = weft.cat(values)
    return found
