"""Graphs side by side as one without edges between them, and taken apart again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import weft

from ..errors import IndexRangeError, OptionError
from ..tensor import Tensor, wrap
from .graph import GRAPHS, NODES, Graph, holds_nodes, register

__all__ = ["Batch"]


class Batch(Graph):
    """Graphs as one whose adjacency matrix is block-diagonal: A = diag(A₁, …, A_B).

    Made by `Batch.from_data_list`. `batch` (N,) has the number of the graph that each node belongs to; `ptr` (B + 1,)
    where the nodes of each begin. Attributes of nodes, edges and graphs are joined along their first dimension, those
    with node numbers (…_index) along their last, with the nodes before added.

    >>> a = Graph(x=weft.ones(2, 1), edge_index=weft.tensor([[0], [1]]), y=weft.tensor([3]))
    >>> batch = Batch.from_data_list([a, a])
    >>> batch.edge_index.tolist(), batch.ptr.tolist(), batch.y.tolist()
    ([[0, 2], [1, 3]], [0, 2, 4], [3, 3])
    >>> batch[1].edge_index.tolist()
    [[0], [1]]
    """

    _num_graphs: int
    _kinds: tuple[tuple[str, str], ...]  # attribute → whose it is
    _borders: tuple[tuple[str, tuple[int, ...]], ...]  # attribute of graphs → where the part of each begins

    @classmethod
    def from_data_list(cls, data_list: Sequence[Graph]) -> Batch:
        """The graphs as one; only attributes that all of them have are kept."""
        if not data_list:
            raise OptionError("Batch.from_data_list: at least one graph is needed, got none")
        counts = np.array([graph.num_nodes for graph in data_list], np.int64)
        starts = np.cumsum(counts) - counts
        names = [n for n in data_list[0].keys() if n != "batch" and all(n in graph for graph in data_list)]
        kinds = {name: _kind_in_all(name, data_list) for name in names}
        made = object.__new__(cls)
        vars(made).update(dict.fromkeys(vars(Graph()), None))
        vars(made).update({name: _joined(name, data_list, starts) for name in names})
        made.batch = wrap(np.repeat(np.arange(len(data_list)), counts))
        made._num_nodes, made._num_graphs = int(counts.sum()), len(data_list)
        made._kinds = tuple({**kinds, "batch": NODES}.items())
        own = (name for name, kind in kinds.items() if kind == GRAPHS)
        made._borders = tuple((name, _borders_of(name, data_list)) for name in own)
        return made

    @property
    def num_graphs(self) -> int:
        """B."""
        return self._num_graphs

    batch_size = num_graphs

    @property
    def ptr(self) -> Tensor:
        """(B + 1,) int64: the nodes of graph i are ptr[i] .. ptr[i + 1] − 1."""
        return weft.searchsorted(self.batch, weft.arange(self._num_graphs + 1))

    def attr_kind(self, name: str) -> str:
        """Whose an attribute is: as it was in the graphs that were joined."""
        known = dict(self._kinds)
        return known[name] if name in known else Graph.attr_kind(self, name)

    def __len__(self) -> int:
        return self._num_graphs

    def __getitem__(self, index: int | str) -> Any:
        return Graph.__getitem__(self, index) if isinstance(index, str) else self.get_example(index)

    def __iter__(self) -> Iterator[Graph]:
        return iter(self.to_data_list())

    def get_example(self, idx: int) -> Graph:
        """The graph with this number as it was, with views of the memory of the batch."""
        if not -self._num_graphs <= idx < self._num_graphs:
            raise IndexRangeError(f"Batch: expected a number below {self._num_graphs}, got {idx}")
        return self._cut(idx % self._num_graphs, self.ptr.array, self._edge_borders())

    def to_data_list(self) -> list[Graph]:
        """The graphs that were joined."""
        nodes, edges = self.ptr.array, self._edge_borders()
        return [self._cut(number, nodes, edges) for number in range(self._num_graphs)]

    def _edge_borders(self) -> np.ndarray:
        """Where the edges of each graph begin: they lie side by side, in the order of the graphs."""
        owner = self.batch.array[self.edge_index.array[0]]
        return np.searchsorted(owner, np.arange(self._num_graphs + 1))

    def _cut(self, number: int, nodes: np.ndarray, edges: np.ndarray) -> Graph:
        first, own = int(nodes[number]), dict(self._borders)
        count, parts = int(nodes[number + 1]) - first, {}
        for name, value in self.items():
            if name == "batch":
                continue
            kind = self.attr_kind(name)
            borders = own.get(name) if kind == GRAPHS else nodes if kind == NODES else edges
            if borders is None:
                parts[name] = value
                continue
            part = slice(int(borders[number]), int(borders[number + 1]))
            along_last = isinstance(value, Tensor) and holds_nodes(name)
            parts[name] = value[..., part] - first if along_last else value[part]
        unwrapped = {name: v[0] for name, v in parts.items() if isinstance(v, list) and name in own}
        return Graph(**{**parts, **unwrapped}, num_nodes=count)


def _kind_in_all(name: str, graphs: Sequence[Graph]) -> str:
    """Of nodes or edges only if it is so in each graph."""
    found = {graph.attr_kind(name) for graph in graphs}
    return found.pop() if len(found) == 1 else GRAPHS


def _joined(name: str, graphs: Sequence[Graph], starts: np.ndarray) -> Any:
    values = [getattr(graph, name) for graph in graphs]
    if all(isinstance(value, (bool, int, float)) for value in values):
        return weft.tensor(values)
    if not all(isinstance(value, Tensor) for value in values):
        return values
    if holds_nodes(name):
        return weft.cat([value + int(start) for value, start in zip(values, starts, strict=True)], -1)
    return weft.cat([value.reshape(1) if value.ndim == 0 else value for value in values])


def _borders_of(name: str, graphs: Sequence[Graph]) -> tuple[int, ...]:
    ends, total = [0], 0
    for graph in graphs:
        value = getattr(graph, name)
        has_rows = isinstance(value, Tensor) and value.ndim > 0
        total += value.shape[-1 if holds_nodes(name) else 0] if has_rows else 1
        ends.append(total)
    return tuple(ends)


register(Batch)
