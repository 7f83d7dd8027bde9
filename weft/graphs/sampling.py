"""Batches of a large graph: some nodes, and of those around them as many as a layer may look at (Hamilton et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import weft

from ..data.dataset import TensorDataset
from ..data.graph import Graph
from ..data.loader import DataLoader as Loader
from ..errors import OptionError
from ..tensor import Tensor, wrap
from .edges import chosen_nodes
from .padding import padded as filled_up
from .stored import StoredGraph

__all__ = ["NeighborLoader", "sample_neighbors"]


class NeighborLoader(Loader):
    """Batches for networks of as many layers as `num_neighbors` is long: a `Graph` of what the first nodes see.

    Its first `batch_size` nodes are those of the batch: a loss is of `out[:batch.batch_size]`. Nodes one step away come
    next, and so on; of each node that is reached, at most so many of the edges that end there are taken. Further
    attributes: n_id and e_id (the numbers that nodes and edges have in the whole graph), input_id (which of the input
    nodes these are), num_sampled_nodes and num_sampled_edges (how many came with each step).
    With −1 everywhere the result for these nodes is that of the whole graph.

    data: a graph, or a `StoredGraph` that is larger than memory
    num_neighbors: edges into a node that are taken, for each step; −1 takes all
    input_nodes: numbers of nodes or a mask; all nodes if not given
    batch_size: how many input nodes to a batch; shuffle: in a new order in every epoch
    replace: draw with replacement
    padded: all batches of one size, so that a compiled step is traced once: of (nodes, edges), or with True of the most that
        a batch can have. As of `weft.graphs.padded`: what was added is what `node_mask` and `edge_mask` say. The nodes of the
        batch are those of `input_mask`, the last batch may have fewer; input_id goes on with −1; `sizes` says the size
    options: what else `weft.data.DataLoader` takes; with a seed, the same batches on any number of workers

    >>> loader = weft.graphs.NeighborLoader(weft.graphs.ring(8), [1, 1], weft.tensor([3]))
    >>> batch = next(iter(loader))
    >>> batch.n_id[0].item(), batch.batch_size, batch.num_edges <= 2
    (3, 1, True)
    >>> loader = weft.graphs.NeighborLoader(weft.graphs.ring(8), [2], batch_size=3, padded=True)
    >>> [(batch.num_nodes, batch.num_edges, batch.input_id.tolist()) for batch in loader]
    [(9, 6, [0, 1, 2]), (9, 6, [3, 4, 5]), (9, 6, [6, 7, -1])]
    """

    def __init__(
        self,
        data: Graph | StoredGraph,
        num_neighbors: Sequence[int],
        input_nodes: Tensor | Sequence[int] | None = None,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        replace: bool = False,
        padded: bool | tuple[int, int] = False,
        **options: Any,
    ) -> None:
        if not len(num_neighbors) or min(num_neighbors) < -1:
            raise OptionError(f"NeighborLoader: expected numbers of edges of at least 0, or −1, got {num_neighbors}")
        nodes = np.arange(data.num_nodes) if input_nodes is None else chosen_nodes(input_nodes).astype(np.int64)
        if nodes.size and nodes.max() >= data.num_nodes:
            raise OptionError(f"NeighborLoader: expected input nodes below {data.num_nodes}, got {nodes.max()}")
        seeds = TensorDataset(wrap(nodes), wrap(np.arange(len(nodes))))
        self.sizes = _most(data, num_neighbors, batch_size) if padded is True else padded or None
        held, wanted = _Held(data) if isinstance(data, Graph) else data, (tuple(num_neighbors), replace)
        transform = _Sampled(held, *wanted, self.sizes and (*self.sizes, batch_size))
        super().__init__(seeds, batch_size, shuffle, batch_transform=transform, **options)


def _most(data: Graph | StoredGraph, fanouts: Sequence[int], batch_size: int) -> tuple[int, int]:
    """Nodes and edges that no batch exceeds, one node more for the padding; a node's edges are looked at once."""
    front = nodes = min(batch_size, data.num_nodes)
    edges = 0
    for fanout in fanouts:
        found = front * fanout if fanout >= 0 else data.num_edges
        edges += found
        front = min(found, data.num_nodes)
        nodes += front
    every = data.num_edges if min(fanouts) < 0 else data.num_nodes * max(fanouts)
    return min(nodes, data.num_nodes) + 1, max(min(edges, every), 1)


class _Sampled:
    """What turns a batch of node numbers into a graph; sizes: nodes, edges and input nodes that it is filled up to."""

    def __init__(
        self, data: _Held | StoredGraph, fanouts: tuple[int, ...], replace: bool, sizes: tuple[int, int, int] | None
    ) -> None:
        self.data, self.fanouts, self.replace, self.sizes = data, fanouts, replace, sizes

    def __call__(self, batch: Any, generator: weft.Generator) -> Graph:
        nodes, places = (part.array for part in batch)
        made = _subgraph(self.data, nodes, self.fanouts, self.replace, generator)
        if self.sizes is None:
            made.input_id = wrap(places.copy())
            return made
        made, rows = filled_up(made, *self.sizes[:2]), np.full(self.sizes[2], -1)
        rows[: len(places)] = places
        made.input_id = wrap(rows)
        return made


def sample_neighbors(
    data: Graph | StoredGraph,
    nodes: Tensor,
    num_neighbors: Sequence[int],
    replace: bool = False,
    *,
    generator: weft.Generator | None = None,
) -> Graph:
    """One batch of `NeighborLoader` around different nodes (B,).

    >>> batch = weft.graphs.sample_neighbors(weft.graphs.ring(5, directed=True), weft.tensor([0]), [-1, -1])
    >>> batch.n_id.tolist(), batch.edge_index.tolist()
    ([0, 4, 3], [[1, 2], [0, 1]])
    """
    held = _Held(data) if isinstance(data, Graph) else data
    random = weft.default_generator if generator is None else generator
    return _subgraph(held, chosen_nodes(nodes).astype(np.int64), num_neighbors, replace, random)


class _Held:
    """A graph in memory, with its edges in the order of their targets."""

    def __init__(self, graph: Graph) -> None:
        source, target = graph.edge_index.array
        self.order = np.argsort(target, kind="stable")
        self.sources = source[self.order].astype(np.int64)
        self.ptr = np.searchsorted(target[self.order], np.arange(graph.num_nodes + 1))
        self.nodes, self.edges = graph.of_nodes(), graph.of_edges()

    def ends(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.ptr[nodes], self.ptr[nodes + 1]

    def sources_at(self, places: np.ndarray) -> np.ndarray:
        return self.sources[places]

    def numbers(self, places: np.ndarray) -> np.ndarray:
        return self.order[places]

    def parts(self, nodes: np.ndarray, edges: np.ndarray) -> dict[str, Tensor]:
        found = {name: value[wrap(nodes)] for name, value in self.nodes.items()}
        return found | {name: value[wrap(edges)] for name, value in self.edges.items()}


def _subgraph(
    data: _Held | StoredGraph, nodes: np.ndarray, fanouts: Sequence[int], replace: bool, random: weft.Generator
) -> Graph:
    if len(np.unique(nodes)) != len(nodes):
        raise OptionError("NeighborLoader: expected different nodes in a batch, got one repeatedly")
    known, front = nodes, nodes
    sources, targets, places = [], [], []
    counts = [len(nodes)]
    for fanout in fanouts:
        place, owner = _places(*data.ends(front), fanout, replace, random)
        source = data.sources_at(place)
        sources.append(source)
        targets.append(front[owner])
        places.append(place)
        first = np.sort(np.unique(source, return_index=True)[1])
        fresh = source[first]
        front = fresh[~np.isin(fresh, known)]
        known = np.concatenate([known, front])
        counts.append(len(front))
    order = np.argsort(known, kind="stable")
    local = lambda numbers: order[np.searchsorted(known, numbers, sorter=order)]
    edges = (
        np.stack([local(np.concatenate(sources)), local(np.concatenate(targets))])
        if len(known)
        else np.zeros((2, 0), np.int64)
    )
    number = data.numbers(np.concatenate(places))
    return Graph(
        edge_index=wrap(edges),
        num_nodes=len(known),
        n_id=wrap(known),
        e_id=wrap(number),
        batch_size=len(nodes),
        num_sampled_nodes=counts,
        num_sampled_edges=[len(place) for place in places],
        **data.parts(known, number),
    )


def _places(
    first: np.ndarray, last: np.ndarray, fanout: int, replace: bool, random: weft.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Places of edges between first and last, at most `fanout` for each; and whose they are."""
    count = last - first
    if replace and fanout >= 0:
        some = np.flatnonzero(count > 0)
        drawn = (random.uniform((len(some), fanout), np.float64) * count[some, None]).astype(np.int64)
        return (first[some, None] + drawn).ravel(), np.repeat(some, fanout)
    whole = count <= fanout if fanout >= 0 else np.ones(len(count), bool)
    large = np.flatnonzero(~whole)
    taken = np.where(whole, count, fanout)
    owner = np.repeat(np.arange(len(count)), taken)
    step = np.arange(len(owner)) - np.repeat(np.cumsum(taken) - taken, taken)
    if len(large) and fanout:
        step[np.isin(owner, large)] = _different(count[large], fanout, random).ravel()
    return first[owner] + step, owner


def _different(counts: np.ndarray, k: int, random: weft.Generator) -> np.ndarray:
    """k different numbers below each count, uniformly: Floyd's algorithm in all rows at once. (rows, k), in order."""
    chosen = np.full((len(counts), k), -1, np.int64)
    u = random.uniform((len(counts), k), np.float64)
    for column in range(k):
        top = counts - k + column
        drawn = (u[:, column] * (top + 1)).astype(np.int64)
        twice = (chosen[:, :column] == drawn[:, None]).any(1)
        chosen[:, column] = np.where(twice, top, drawn)
    return np.sort(chosen, 1)
