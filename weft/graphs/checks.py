"""Detectors of faults that figures do not show: layers that depend on the numbers of nodes, tests that training has seen.

A detector returns what it measured, and raises a `ConditionError` that says where the promise is broken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft

from ..data.graph import Graph
from ..data.synthetic.common import stream
from ..errors import ConditionError
from ..tensor import Tensor, wrap
from .negatives import keys_of

__all__ = ["check_equivariant", "check_split", "permuted"]


def permuted(graph: Graph, order: Tensor) -> Graph:
    """The same graph with its nodes in another order, and so numbered: node i is what order[i] was.

    >>> weft.graphs.permuted(weft.graphs.path(3), weft.tensor([1, 0, 2])).edge_index.tolist()
    [[1, 0, 0, 2], [0, 1, 2, 0]]
    """
    return graph.subgraph(order)


@weft.no_grad()
def check_equivariant(
    function: Callable[[Graph], Tensor],
    graph: Graph,
    *,
    invariant: bool = False,
    trials: int = 3,
    tolerance: float = 1e-5,
    generator: weft.Generator | None = None,
) -> float:
    """max |f(P G) − P f(G)| over random orders P of nodes (and of edges), relative to max |f(G)| if that is above 1.

    function: a graph → (N, …), one row for each node; a model in evaluation mode
    invariant: the result has no rows of nodes and must not change at all: f(P G) = f(G)
    tolerance: more than this raises

    >>> mean = lambda graph: weft.graphs.adjacency(graph) @ graph.x
    >>> weft.graphs.check_equivariant(mean, weft.graphs.path(4).replace(x=weft.ones(4, 2)))
    0.0
    """
    random = stream("check_equivariant", None, generator)
    before = function(graph).detach()
    scale, worst = max(1.0, before.abs().max().item() if before.numel() else 0.0), 0.0
    for _ in range(trials):
        order = wrap(random.permutation(graph.num_nodes))
        other = permuted(graph, order)
        other = other.with_edges(wrap(random.permutation(graph.num_edges)))
        after, expected = function(other).detach(), before if invariant else before[order]
        if after.shape != expected.shape:
            raise ConditionError(
                f"check_equivariant: the result was {before.shape}, and {after.shape} in another order"
            )
        gap = (after - expected).abs()
        worst = max(worst, gap.max().item() / scale if gap.numel() else 0.0)
        if not worst <= tolerance:
            where = "" if invariant or not gap.numel() else f", first at node {int(order[_row(gap)])}"
            raise ConditionError(
                f"check_equivariant: with nodes in another order the result changes by {worst:.3g} of its size "
                f"(± {tolerance:g}){where}; it depends on how nodes are numbered"
            )
    return worst


def _row(gap: Tensor) -> int:
    return int(gap.reshape(len(gap), -1).array.max(1).argmax())


def check_split(train: Graph, val: Graph | None = None, test: Graph | None = None) -> dict[str, int]:
    """Raise if a test could have been seen in training; how many pairs or nodes were compared, by name.

    Of three graphs with `edge_label_index` (`RandomLinkSplit`): no link of validation or test, in either direction of an
    undirected graph, is one that messages of training go along or that is trained with, nor is one of test in the
    edge_index of validation or test itself; no pair is in two parts; no pair with label 0 is an edge of any of them.
    Of one graph with masks: no node is in two.

    >>> train, val, test = weft.graphs.RandomLinkSplit(0.1, 0.2)(weft.graphs.ring(20))
    >>> weft.graphs.check_split(train, val, test)["test links"]
    4
    """
    if val is None or test is None:
        return _check_masks(train)
    parts = {"train": train, "val": val, "test": test}
    whole = [edge for part in parts.values() for edge in (part.edge_index.array,)]
    undirected = all(part.replace(edge_weight=None).is_undirected() for part in parts.values())
    count = max(part.num_nodes for part in parts.values())
    keys = lambda edges: np.unique(keys_of(edges, count, undirected))
    links, others = ({name: keys(_labelled(p, label)) for name, p in parts.items()} for label in (True, False))
    for later, earlier in (("val", "train"), ("test", "train"), ("test", "val")):
        _apart(links[later], links[earlier], f"links of {later}", f"links of {earlier}", count)
        _apart(others[later], others[earlier], f"other pairs of {later}", f"those of {earlier}", count)
        _apart(
            links[later], keys(parts[earlier].edge_index.array), f"links of {later}", f"edge_index of {earlier}", count
        )
    for name in ("val", "test"):
        _apart(links[name], keys(parts[name].edge_index.array), f"links of {name}", "its own edge_index", count)
    joined = np.concatenate([keys(np.concatenate(whole, 1)), *links.values()])
    for name, pairs in others.items():
        _apart(pairs, joined, f"pairs of {name} with label 0", "edges", count)
    return {
        f"{name} {kind}": len(table[name]) for kind, table in (("links", links), ("others", others)) for name in parts
    }


def _labelled(graph: Graph, linked: bool) -> np.ndarray:
    pairs, label = graph.edge_label_index.array, graph.edge_label.array
    return pairs[:, (label > 0) == linked]


def _apart(one: np.ndarray, two: np.ndarray, name: str, other: str, count: int) -> None:
    common = np.intersect1d(one, two)
    if len(common):
        source, target = divmod(int(common[0]), max(count, 1))
        raise ConditionError(
            f"check_split: {len(common)} {name} are among the {other}, {source} – {target} for one: what is tested has "
            "been seen"
        )


def _check_masks(graph: Graph) -> dict[str, int]:
    named: dict[str, Any] = {
        name: mask.array
        for name in ("train_mask", "val_mask", "test_mask")
        if (mask := getattr(graph, name)) is not None
    }
    if len(named) < 2:
        raise ConditionError("check_split: expected three graphs with edge_label_index, or one with masks")
    names = list(named)
    for i, one in enumerate(names):
        for two in names[i + 1 :]:
            both = named[one] & named[two]
            if both.any():
                raise ConditionError(
                    f"check_split: {int(both.sum())} nodes are both in {one} and {two}, {np.argwhere(both)[0][0]} for one"
                )
    return {name: int(mask.sum()) for name, mask in named.items()}
