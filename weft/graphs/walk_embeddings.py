"""Vectors of nodes from walks, read as if they were sentences: DeepWalk and node2vec."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft

from .. import optim
from ..data.graph import Graph
from ..data.synthetic.common import stream
from ..errors import OptionError
from ..models.text.word2vec import Word2Vec
from ..tensor import Tensor, wrap
from .walks import RandomWalk

__all__ = ["deepwalk", "node2vec"]


def deepwalk(graph: Graph, dim: int = 128, **options: Any) -> Tensor:
    """Skip-gram with a Huffman tree of nodes over plain walks: (N, dim) float32 (Perozzi et al. 2014).

    options: those of `node2vec` but p and q

    >>> weft.graphs.deepwalk(weft.graphs.ring(6), 4, walks_per_node=1, walk_length=4, context_size=2).shape
    weft.Size([6, 4])
    """
    return _embedded(graph, dim, "hierarchical", **options)


def node2vec(graph: Graph, dim: int = 128, p: float = 1.0, q: float = 1.0, **options: Any) -> Tensor:
    """Skip-gram with negative samples over walks with a memory: (N, dim) float32 (Grover and Leskovec 2016).

    max Σ over walks, v in them and u at most `context_size` steps away: log σ(u·v) + Σ_k log σ(−u_k·v)

    p, q: of `RandomWalk`
    walks_per_node, walk_length, context_size: 10 walks of 80 steps from each node, windows of 10 to each side
    num_negative_samples: 5; epochs: 1 over fresh walks; batch_size: 4096 pairs; lr: 0.025, falling to 0
    generator: of walks and pairs; initial vectors and negatives come from Weft's own (`weft.manual_seed`)

    >>> weft.graphs.node2vec(weft.graphs.ring(6), 4, walks_per_node=1, walk_length=4, context_size=2).shape
    weft.Size([6, 4])
    """
    return _embedded(graph, dim, "negative", p, q, **options)


def _embedded(
    graph: Graph,
    dim: int,
    loss: str,
    p: float = 1.0,
    q: float = 1.0,
    *,
    walks_per_node: int = 10,
    walk_length: int = 80,
    context_size: int = 10,
    num_negative_samples: int = 5,
    epochs: int = 1,
    batch_size: int = 4096,
    lr: float = 0.025,
    generator: weft.Generator | None = None,
) -> Tensor:
    if min(dim, walks_per_node, walk_length, context_size, epochs, batch_size) < 1:
        raise OptionError("node2vec, deepwalk: expected sizes, numbers of walks and epochs of at least 1")
    if not graph.num_nodes:
        return weft.zeros(0, dim)
    random, walk = stream("node2vec", None, generator), RandomWalk(graph, p, q)
    begin = wrap(np.tile(np.arange(graph.num_nodes), walks_per_node))
    walks = walk(begin, walk_length, generator=random).array
    counts = np.bincount(walks.ravel(), minlength=graph.num_nodes)
    model = Word2Vec(wrap(counts), dim, loss=loss, negatives=num_negative_samples)
    optimizer = optim.Adam(model.parameters(), lr=lr)

    @weft.compile
    def step(given: Tensor, target: Tensor) -> Tensor:
        optimizer.zero_grad()
        cost = model(given, target)
        cost.backward()
        optimizer.step()
        return cost

    for epoch in range(epochs):
        walks = walks if epoch == 0 else walk(begin, walk_length, generator=random).array
        given, target = pairs_of(walks, context_size, random)
        batches = len(given) // batch_size or 1
        for number in range(batches):
            optimizer.param_groups[0]["lr"] = lr * (1 - (epoch * batches + number) / (epochs * batches))
            part = slice(number * batch_size, (number + 1) * batch_size)
            step(wrap(given[part]), wrap(target[part]))
    return model.vectors.weight.detach()


def pairs_of(walks: np.ndarray, window: int, random: weft.Generator) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of nodes of a walk at most `window` steps apart, in random order: (P,) and (P,)."""
    steps = range(1, min(window, walks.shape[1] - 1) + 1)
    one = np.concatenate([walks[:, :-step].ravel() for step in steps])
    two = np.concatenate([walks[:, step:].ravel() for step in steps])
    order = random.permutation(2 * len(one))
    return np.concatenate([one, two])[order], np.concatenate([two, one])[order]
