"""A graph with what is known of its nodes and edges: what sources read, `synthetic` draws and `augment` changes.

`weft.graphs` has what is done with graphs; its `Data` is this class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError, EntryError, ShapeError
from ..tape.modes import mode
from ..tensor import Tensor, wrap
from ..utils.pytree import register_pytree_node

if TYPE_CHECKING:
    from .graph_batch import Batch

__all__ = ["Graph"]

NODES, EDGES, GRAPHS = "nodes", "edges", "graphs"


class Graph:
    """A graph of N nodes and E directed edges: PyTorch Geometric's `Data`.

    Self-loops, repeated edges and nodes without edges are allowed; an undirected edge is there in both directions.
    Any further attribute may be given or set: it belongs to nodes if it has N rows, to edges if it has E (where N = E,
    to edges if its name has "edge" in it), else to the graph. One whose name has "index" in it holds node numbers in
    its last dimension. Attributes that are not there are None for the names below.

    x: (N, F) features of nodes; edge_index: (2, E) int64, sources above targets
    edge_attr: (E, D) features of edges; edge_weight: (E,) their weights, 1 where there are none
    y: classes or values of nodes (N, …) or of graphs (1, …); pos: (N, D) places in space
    train_mask, val_mask, test_mask: (N,) bool
    batch: (N,) int64, the number of the graph that a node belongs to, where several lie side by side (`Batch`)
    num_nodes: N where it is not that of x, pos, batch or a mask, nor one more than the largest number in edge_index

    >>> graph = Graph(edge_index=weft.tensor([[0, 1], [1, 0]]), y=weft.tensor([5, 6, 7]), num_nodes=3, name="pair")
    >>> graph.subgraph(weft.tensor([True, False, True])).y.tolist(), graph.name
    ([5, 7], 'pair')
    """

    x: Tensor | None
    edge_index: Tensor
    edge_attr: Tensor | None
    edge_weight: Tensor | None
    y: Tensor | None
    pos: Tensor | None
    train_mask: Tensor | None
    val_mask: Tensor | None
    test_mask: Tensor | None
    batch: Tensor | None

    def __init__(
        self,
        x: Tensor | None = None,
        edge_index: Tensor | None = None,
        edge_attr: Tensor | None = None,
        y: Tensor | None = None,
        pos: Tensor | None = None,
        *,
        edge_weight: Tensor | None = None,
        train_mask: Tensor | None = None,
        val_mask: Tensor | None = None,
        test_mask: Tensor | None = None,
        batch: Tensor | None = None,
        num_nodes: int | None = None,
        **attributes: Any,
    ) -> None:
        self.x, self.y, self.pos, self.batch = x, y, pos, batch
        self.edge_index = wrap(np.zeros((2, 0), np.int64)) if edge_index is None else edge_index
        self.edge_attr, self.edge_weight = edge_attr, edge_weight
        self.train_mask, self.val_mask, self.test_mask = train_mask, val_mask, test_mask
        self._num_nodes = num_nodes
        for name, value in attributes.items():
            setattr(self, name, value)
        self.validate()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "num_nodes" and hasattr(type(self), name):
            raise ArgumentError(f"Graph: an attribute cannot be called {name!r}, which graphs have as a method")
        super().__setattr__(name, value)

    # ------------------------------------------------------------------------------------------ sizes
    @property
    def num_nodes(self) -> int:
        """N."""
        if self._num_nodes is not None:
            return self._num_nodes
        for name in ("x", "pos", "batch", "train_mask", "val_mask", "test_mask"):
            if (part := getattr(self, name)) is not None:
                return part.shape[0]
        return int(self.edge_index.array.max(initial=-1)) + 1

    @num_nodes.setter
    def num_nodes(self, count: int | None) -> None:
        self._num_nodes = count

    @property
    def num_edges(self) -> int:
        """How many directed edges there are: twice the number of undirected ones."""
        return self.edge_index.shape[1]

    @property
    def num_features(self) -> int:
        """The columns of x; 0 without it."""
        return 0 if self.x is None else self.x.shape[1] if self.x.ndim > 1 else 1

    num_node_features = num_features

    @property
    def num_edge_features(self) -> int:
        """The columns of edge_attr; 0 without it."""
        part = self.edge_attr
        return 0 if part is None else part.shape[1] if part.ndim > 1 else 1

    # ------------------------------------------------------------------------------------------ attributes
    def keys(self) -> list[str]:
        """The names of all attributes that are there."""
        return [name for name, value in vars(self).items() if value is not None and not name.startswith("_")]

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names and attributes."""
        return ((name, getattr(self, name)) for name in self.keys())

    def to_dict(self) -> dict[str, Any]:
        """The attributes by name."""
        return dict(self.items())

    def __contains__(self, name: str) -> bool:
        return name in self.keys()

    def __iter__(self) -> Iterator[Any]:
        return self.items()

    def __getitem__(self, name: str) -> Any:
        if name not in self.keys():
            raise EntryError(f"Graph: there is no attribute {name!r}; it has {', '.join(self.keys())}")
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def attr_kind(self, name: str) -> str:
        """Whose an attribute is: of "nodes", of "edges" or of "graphs"."""
        value = getattr(self, name)
        if name == "edge_index":
            return EDGES
        if not isinstance(value, Tensor) or value.ndim == 0 or holds_nodes(name) or name == "edge_label":
            return GRAPHS  # edge_label is of the pairs in edge_label_index
        rows, nodes, edges = value.shape[0], self.num_nodes, self.num_edges
        named = "edge" in name or name == "e_id"
        if rows == edges and (named or rows != nodes):
            return EDGES
        return NODES if rows == nodes and not named else GRAPHS

    def is_node_attr(self, name: str) -> bool:
        """Whether an attribute has an entry for each node."""
        return self.attr_kind(name) == NODES

    def is_edge_attr(self, name: str) -> bool:
        """Whether an attribute has an entry for each edge."""
        return self.attr_kind(name) == EDGES

    def of_nodes(self) -> dict[str, Tensor]:
        """The parts that have an entry for each node, by name."""
        return {name: value for name, value in self.items() if self.attr_kind(name) == NODES}

    def of_edges(self) -> dict[str, Tensor]:
        """The parts that have an entry for each edge, by name, edge_index left out."""
        return {name: value for name, value in self.items() if name != "edge_index" and self.attr_kind(name) == EDGES}

    def replace(self, **changes: Any) -> Graph:
        """The same graph with some attributes changed; the others are shared."""
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        for name, value in changes.items():
            setattr(made, name, value)
        made.validate()
        return made

    def apply(self, func: Callable[[Tensor], Tensor], *names: str) -> Graph:
        """The same graph with a function of its tensors, or of those with these names."""
        chosen = names or self.keys()
        return self.replace(**{name: func(v) for name, v in self.items() if name in chosen and isinstance(v, Tensor)})

    def clone(self) -> Graph:
        """The same graph with memory of its own."""
        return self.apply(Tensor.clone)

    def to(self, device: Any, *names: str) -> Graph:
        """The same graph with its tensors, or some of them, on a device."""
        return self.apply(lambda value: value.to(device), *names)

    def cpu(self, *names: str) -> Graph:
        """The same graph with its tensors in the memory of the processor."""
        return self.to("cpu", *names)

    # ------------------------------------------------------------------------------------------ properties
    def validate(self) -> None:
        """Raise an error if sizes do not fit each other or edges join nodes that are not there."""
        if not isinstance(self.edge_index, Tensor) or self.edge_index.ndim != 2 or self.edge_index.shape[0] != 2:
            shape = getattr(self.edge_index, "shape", type(self.edge_index).__name__)
            raise ShapeError(f"Graph: edge_index must be a tensor (2, E), got {shape}")
        edges, count = self.edge_index.array, self.num_nodes
        if edges.dtype.kind not in "iu":
            raise ShapeError(f"Graph: edge_index must hold whole numbers, got {self.edge_index.dtype}")
        known = mode.interpreter is None  # while a function is compiled there are no values to look at
        if known and edges.size and not 0 <= edges.min() <= edges.max() < count:
            raise ShapeError(f"Graph: edges join nodes {edges.min()}..{edges.max()} of {count}")
        for names, rows in ((("x", "pos", "batch"), count), (("edge_attr", "edge_weight"), edges.shape[1])):
            for name in names:
                part = getattr(self, name)
                if part is not None and part.shape[:1] != (rows,):
                    raise ShapeError(f"Graph: {name} must have {rows} rows, got {tuple(part.shape)}")

    def is_undirected(self) -> bool:
        """Whether every edge is there in both directions, as often and with the same weight."""
        source, target = self.edge_index.array
        weight = np.zeros(source.shape) if self.edge_weight is None else self.edge_weight.array
        there, back = np.lexsort((weight, target, source)), np.lexsort((weight, source, target))
        pairs = ((source, target), (target, source), (weight, weight))
        return all(np.array_equal(a[there], b[back]) for a, b in pairs)

    def is_directed(self) -> bool:
        """Whether some edge is there in one direction only."""
        return not self.is_undirected()

    def has_self_loops(self) -> bool:
        """Whether an edge joins a node to itself."""
        source, target = self.edge_index.array
        return bool((source == target).any())

    def has_isolated_nodes(self) -> bool:
        """Whether some node has no edge but loops."""
        source, target = self.edge_index.array
        return len(np.unique(self.edge_index.array[:, source != target])) < self.num_nodes

    def is_coalesced(self) -> bool:
        """Whether edges are in order of their source and then target, each once."""
        source, target = self.edge_index.array
        return bool((np.diff(source.astype(np.int64) * max(self.num_nodes, 1) + target) > 0).all())

    # ------------------------------------------------------------------------------------------ parts of it
    def subgraph(self, subset: Tensor) -> Graph:
        """The graph on some nodes with the edges between them, numbered anew.

        subset: (N,) bool, or the numbers of nodes in the order that they shall have, each once
        """
        given = subset.array
        if given.dtype == np.bool_:
            if given.shape != (self.num_nodes,):
                raise ShapeError(f"subgraph: expected a bool for each of {self.num_nodes} nodes, got {given.shape}")
            given = np.flatnonzero(given)
        _check_subset(given, self.num_nodes)
        number = np.full(self.num_nodes, -1, np.int64)
        number[given] = np.arange(len(given))
        edges = number[self.edge_index.array]
        inside = (edges >= 0).all(0)
        parts = {name: value[wrap(given.astype(np.int64))] for name, value in self.of_nodes().items()}
        parts |= {name: value[wrap(inside)] for name, value in self.of_edges().items()}
        return self.replace(edge_index=wrap(edges[:, inside]), num_nodes=len(given), **parts)

    def with_edges(self, kept: Tensor) -> Graph:
        """The graph with some of its edges: (E,) bool, or their numbers in order."""
        parts = {name: value[kept] for name, value in self.of_edges().items()}
        return self.replace(edge_index=self.edge_index[:, kept], num_nodes=self.num_nodes, **parts)

    edge_subgraph = with_edges

    @staticmethod
    def join(graphs: Sequence[Graph]) -> Batch:
        """Several graphs as one without edges between them; `batch` says which node is whose.

        To be used as `collate_fn` of a DataLoader. The same as `Batch.from_data_list(graphs)`.
        """
        from .graph_batch import Batch

        return Batch.from_data_list(graphs)

    def __repr__(self) -> str:
        shown = [f"{n}={tuple(v.shape) if isinstance(v, Tensor) else repr(v)}" for n, v in self.items()]
        return f"{type(self).__name__}({self.num_nodes} nodes, {', '.join(shown)})"


def holds_nodes(name: str) -> bool:
    """Whether an attribute of this name holds numbers of nodes, side by side in its last dimension."""
    return "index" in name


def _check_subset(nodes: np.ndarray, count: int) -> None:
    if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
        raise ShapeError(
            f"subgraph: expected a bool for each of {count} nodes, or the numbers of nodes (K,), got {nodes.dtype} "
            f"{nodes.shape}"
        )
    if nodes.size and not 0 <= nodes.min() <= nodes.max() < count:
        raise ShapeError(f"subgraph: expected nodes of 0..{count - 1}, got {nodes.min()}..{nodes.max()}")
    if len(np.unique(nodes)) != len(nodes):
        raise ShapeError("subgraph: expected each node once, got some repeatedly")


def register(kind: type[Graph]) -> None:
    """Let compiled functions take graphs of a class apart, and put them together without looking at values."""

    def flatten(graph: Graph) -> tuple[list[Any], Any]:
        public = {name: value for name, value in vars(graph).items() if not name.startswith("_")}
        rest = tuple((name, value) for name, value in vars(graph).items() if name not in public)
        return list(public.values()), (tuple(public), rest)

    def unflatten(children: Any, context: Any) -> Graph:
        names, rest = context
        made = object.__new__(kind)
        vars(made).update(rest)
        vars(made).update(zip(names, children, strict=True))
        return made

    register_pytree_node(kind, flatten, unflatten)


register(Graph)
