"""Walks along edges: of one step after the other, or with a memory of the step before (node2vec)."""

from __future__ import annotations

import numpy as np

import weft

from ..data.graph import Graph
from ..data.synthetic.common import stream
from ..errors import OptionError
from ..tensor import Tensor, wrap
from .edges import chosen_nodes
from .matrices import weights_of

__all__ = ["RandomWalk", "random_walk"]

ROUNDS = 32  # of drawing steps that may be refused, before all neighbours are looked at


class RandomWalk:
    """Walks on one graph, all of a call at once; edges are put in order when it is made.

    P(v → x) ∝ w_vx, times, for a walk that came to v from t (Grover and Leskovec 2016):
        1/p  if x = t        1  if t and x are joined (t → x)        1/q  else
    A walk stays where no edge leads on.

    graph: with edge_weight or without
    p: large values keep walks from going back; q: large values keep them near, small ones send them far

    >>> walk = weft.graphs.RandomWalk(weft.graphs.ring(5, directed=True))
    >>> walk(weft.tensor([0, 3]), 3).tolist()
    [[0, 1, 2, 3], [3, 4, 0, 1]]
    """

    def __init__(self, graph: Graph, p: float = 1.0, q: float = 1.0) -> None:
        if not (p > 0 and q > 0):
            raise OptionError(f"RandomWalk: expected p and q above 0, got {p} and {q}")
        self.p, self.q, self.count = p, q, graph.num_nodes
        source, target = graph.edge_index.array
        keys = source.astype(np.int64) * max(self.count, 1) + target
        order = np.argsort(keys, kind="stable")
        self.keys, self.targets = keys[order], target[order].astype(np.int64)
        self.starts = np.searchsorted(source[order], np.arange(self.count + 1))
        self.reach: np.ndarray | None = None
        if graph.edge_weight is not None:
            weight = weights_of(graph).array.astype(np.float64)[order]
            if not (weight >= 0).all():
                raise OptionError(f"RandomWalk: expected weights of at least 0, got {weight.min()}")
            self.reach = np.concatenate([[0.0], np.cumsum(weight)])

    def __call__(self, start: Tensor, walk_length: int, *, generator: weft.Generator | None = None) -> Tensor:
        """Walks of so many steps from nodes (B,): (B, walk_length + 1) int64."""
        now = chosen_nodes(start).astype(np.int64)
        if walk_length < 0 or (now.size and now.max() >= self.count):
            raise OptionError(
                f"RandomWalk: expected nodes below {self.count} and a length of at least 0, got {now.max(initial=0)} and "
                f"{walk_length}"
            )
        random = stream("RandomWalk", None, generator)
        path = np.empty((walk_length + 1, len(now)), np.int64)
        path[0] = now
        plain = self.p == self.q == 1
        for step in range(walk_length):
            if plain or step == 0:
                path[step + 1] = self._next(path[step], random)
            else:
                path[step + 1] = self._remembering(path[step - 1], path[step], random)
        return wrap(np.ascontiguousarray(path.T))

    def _next(self, nodes: np.ndarray, random: weft.Generator) -> np.ndarray:
        """A neighbour of each, in proportion to weights."""
        first, last = self.starts[nodes], self.starts[nodes + 1]
        u = random.uniform(len(nodes), np.float64)
        if self.reach is None:
            place, stuck = first + (u * (last - first)).astype(np.int64), first == last
        else:
            low, high = self.reach[first], self.reach[last]
            place = np.searchsorted(self.reach, low + u * (high - low), side="right") - 1
            place, stuck = np.minimum(place, last - 1), high == low
        return np.where(stuck, nodes, self.targets[np.where(stuck, 0, place)]) if len(self.targets) else nodes

    def _remembering(self, before: np.ndarray, nodes: np.ndarray, random: weft.Generator) -> np.ndarray:
        """Neighbours are drawn and kept with probability in proportion to 1/p, 1 or 1/q, until one is."""
        result, open_ = nodes.copy(), np.arange(len(nodes))
        most = max(1 / self.p, 1.0, 1 / self.q)
        for _ in range(ROUNDS):
            drawn = self._next(nodes[open_], random)
            share = np.where(self._joined(before[open_], drawn), 1.0, 1 / self.q)
            share = np.where(drawn == before[open_], 1 / self.p, share)
            stuck = self.starts[nodes[open_]] == self.starts[nodes[open_] + 1]
            kept = (random.uniform(len(open_), np.float64) * most < share) | stuck
            result[open_[kept]] = drawn[kept]
            open_ = open_[~kept]
            if not len(open_):
                break
        for number in open_:
            result[number] = self._one(before[number], nodes[number], random)
        return result

    def _one(self, before: int, node: int, random: weft.Generator) -> int:
        """One step with all neighbours looked at: for walks that hardly any draw suits."""
        part = slice(self.starts[node], self.starts[node + 1])
        near = self.targets[part]
        weight = np.ones(len(near)) if self.reach is None else np.diff(self.reach[part.start : part.stop + 1])
        share = np.where(self._joined(np.full(len(near), before), near), 1.0, 1 / self.q)
        weight = weight * np.where(near == before, 1 / self.p, share)
        total = np.cumsum(weight)
        return int(near[np.searchsorted(total, random.uniform((), np.float64) * total[-1], side="right")])

    def _joined(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        keys = source * max(self.count, 1) + target
        place = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        return self.keys[place] == keys if len(self.keys) else np.zeros(len(keys), bool)


def random_walk(
    graph: Graph,
    start: Tensor,
    walk_length: int,
    p: float = 1.0,
    q: float = 1.0,
    *,
    generator: weft.Generator | None = None,
) -> Tensor:
    """Walks from nodes (B,) along `walk_length` edges: (B, walk_length + 1); `RandomWalk` explains p and q.

    >>> weft.graphs.random_walk(weft.graphs.ring(3, directed=True), weft.tensor([1]), 2).tolist()
    [[1, 2, 0]]
    """
    return RandomWalk(graph, p, q)(start, walk_length, generator=generator)
