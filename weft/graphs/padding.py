"""Batches of graphs filled up to sizes that do not change, so that a compiled step is traced once for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import weft

from ..data.graph import EDGES, NODES, Graph, holds_nodes
from ..data.graph_batch import Batch
from ..errors import OptionError, ShapeError
from ..tensor import Tensor, wrap

__all__ = ["PaddedBatches", "padded", "rounded_size"]

STEPS = 4  # sizes between a power of two and the next


def rounded_size(count: int) -> int:
    """The next of 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20 …: four sizes to a doubling, at most a quarter more than needed.

    >>> [weft.graphs.rounded_size(n) for n in (0, 3, 9, 17, 33)]
    [1, 3, 10, 20, 40]
    """
    step = 1 << max(0, (max(count, 1) - 1).bit_length() - STEPS.bit_length())
    return max(1, -(-count // step) * step)


def padded(
    graph: Graph, num_nodes: int | None = None, num_edges: int | None = None, num_graphs: int | None = None
) -> Graph:
    """A graph, or several as a `Batch`, with nodes, edges and graphs added that stand for nothing.

    Their attributes are 0. New edges are loops at the last node, which is new; new nodes belong to the last graph, which is new.
    So nothing comes to nodes that were there, sums over them are the same, and one compiled step serves all batches of these
    sizes. Losses and averages have to leave out what was added: attributes `node_mask` (num_nodes,), `edge_mask` (num_edges,)
    and, of a batch, `graph_mask` (num_graphs,) are True for what was there. Of a batch of `NeighborLoader` the nodes whose
    loss counts are `input_mask`. What is neither of nodes, edges nor graphs is left out.

    num_nodes, num_edges, num_graphs: the sizes; by default `rounded_size` of one more than there are, so that batches of a
        loader have few different sizes

    >>> batch = weft.graphs.Batch.from_data_list([weft.graphs.ring(3), weft.graphs.ring(4)])
    >>> full = weft.graphs.padded(batch, 10, 20, 3)
    >>> full.batch.tolist(), full.node_mask.sum().item(), full.edge_index[:, -1].tolist()
    ([0, 0, 0, 1, 1, 1, 1, 2, 2, 2], 7, [9, 9])
    """
    count = graph.num_graphs if isinstance(graph, Batch) else None
    have = {"nodes": graph.num_nodes, "edges": graph.num_edges, "graphs": count or 0}
    given = {"nodes": num_nodes, "edges": num_edges, "graphs": num_graphs}
    more = {"nodes": 1, "edges": 0, "graphs": 1}
    sizes = {name: given[name] or rounded_size(have[name] + more[name]) for name in have}
    for name, size in sizes.items():
        if size < have[name] + more[name] and not (name == "graphs" and count is None):
            raise OptionError(
                f"padded: {have[name]} {name} need num_{name} of at least {have[name] + more[name]}, got {size}"
            )
    parts = dict(_parts(graph, have, sizes))
    parts["edge_index"] = _with_loops(graph.edge_index, sizes)
    parts["node_mask"] = wrap(np.arange(sizes["nodes"]) < have["nodes"])
    parts["edge_mask"] = wrap(np.arange(sizes["edges"]) < have["edges"])
    if count is not None:
        parts["batch"] = _filled(graph.batch, sizes["nodes"], sizes["graphs"] - 1)
        parts["graph_mask"] = wrap(np.arange(sizes["graphs"]) < count)
    if isinstance(getattr(graph, "batch_size", None), int) and count is None:
        parts["input_mask"] = wrap(np.arange(sizes["nodes"]) < graph.batch_size)
    made = Graph(**parts, num_nodes=sizes["nodes"])
    if count is not None:
        made.num_graphs = sizes["graphs"]
    return made


def _parts(graph: Graph, have: dict[str, int], sizes: dict[str, int]) -> Iterator[tuple[str, Tensor]]:
    """Attributes with a row for each node, edge or graph, with rows of zeros added."""
    for name, value in graph.items():
        if not isinstance(value, Tensor) or value.ndim == 0 or holds_nodes(name) or name in ("edge_index", "batch"):
            continue
        kind = graph.attr_kind(name)
        kind = kind if kind in (NODES, EDGES) else "graphs"
        if value.shape[0] == have[kind]:
            yield name, _filled(value, sizes[kind], 0)


def _filled(value: Tensor, size: int, number: int) -> Tensor:
    return weft.cat([value, value.new_full((size - value.shape[0], *value.shape[1:]), number)])


def _with_loops(edges: Tensor, sizes: dict[str, int]) -> Tensor:
    missing = sizes["edges"] - edges.shape[1]
    return weft.cat([edges, weft.full((2, missing), sizes["nodes"] - 1, dtype=edges.dtype)], 1)


class PaddedBatches:
    """Batches of graphs of one size for all: as many graphs to a batch as have room there, `padded`.

    graphs: in a list or a set; batch_size: graphs to a batch, at most
    room: nodes and edges have room for so many times those of `batch_size` graphs of average size, and for the largest graph
    shuffle: in a new order in every pass, drawn by `generator`, a NumPy generator

    >>> loader = weft.graphs.PaddedBatches([weft.graphs.ring(n) for n in (3, 4, 5, 6)], batch_size=2)
    >>> [(batch.num_nodes, batch.num_edges, int(batch.graph_mask.sum())) for batch in loader]
    [(12, 22, 2), (12, 22, 2)]
    """

    def __init__(
        self,
        graphs: Sequence[Graph],
        batch_size: int,
        room: float = 1.2,
        shuffle: bool = False,
        generator: Any = None,
    ) -> None:
        if batch_size < 1 or room < 1 or not len(graphs):
            raise OptionError(
                f"PaddedBatches: expected graphs, batch_size ≥ 1 and room ≥ 1, got {len(graphs)}, {batch_size}, {room}"
            )
        self.graphs, self.batch_size, self.shuffle = graphs, batch_size, shuffle
        self.generator = np.random.default_rng() if generator is None else generator
        counts = np.array([(graph.num_nodes, graph.num_edges) for graph in graphs])
        wanted = np.maximum(np.ceil(room * batch_size * counts.mean(0)).astype(int), counts.max(0))
        self.counts, self.sizes = counts, (int(wanted[0]) + 1, int(wanted[1]), batch_size + 1)

    def __iter__(self) -> Iterator[Graph]:
        return self.of(self.generator.permutation(len(self.graphs)) if self.shuffle else np.arange(len(self.graphs)))

    def of(self, numbers: np.ndarray) -> Iterator[Graph]:
        """Batches of the graphs with these numbers, in this order."""
        for chosen in self._groups(np.asarray(numbers)):
            yield padded(Batch.from_data_list([self.graphs[int(i)] for i in chosen]), *self.sizes)

    def _groups(self, order: np.ndarray) -> Iterator[np.ndarray]:
        first, most = 0, np.array(self.sizes[:2]) - (1, 0)
        while first < len(order):
            total = self.counts[order[first : first + self.batch_size]].cumsum(0)
            fit = int((total <= most).all(1).sum())
            if not fit:
                raise ShapeError(f"PaddedBatches: a graph of {total[0].tolist()} nodes and edges has no room in {most}")
            yield order[first : first + fit]
            first += fit
