"""Nodes and links for training, validation and test, so that none of a test is seen in training."""

from __future__ import annotations

import numpy as np

import weft

from ..data.graph import Graph
from ..data.synthetic.common import stream
from ..errors import OptionError
from ..tensor import Tensor, wrap
from .negatives import keys_of, pairs_without

__all__ = ["RandomLinkSplit", "RandomNodeSplit"]


class RandomLinkSplit:
    """Links for training, validation and test: three graphs on the same nodes, with PyTorch Geometric's attributes.

    edge_index has the edges that messages go along: those of training in the first two graphs, in the third also those
    of validation. `edge_label_index` (2, L) has the pairs that are to be told apart, `edge_label` (L,) 1 for links and 0
    for others. What makes it honest (`check_split` proves it):
        both directions of an undirected edge, and all copies of a repeated one, are in the same part;
        pairs that are no links are edges in no direction, and each is in one part only;
        loops are no links: they are in every edge_index.

    num_val, num_test: numbers of edges, or shares (below 1); undirected ones count once
    is_undirected: whether directions mean nothing; found out if not given
    neg_sampling_ratio: how many other pairs come with each link
    add_negative_train_samples: also in training; without, they may be drawn anew in every step (`negative_sampling`)
    disjoint_train_ratio: the share of training links that messages do not go along
    generator: what they are drawn from

    >>> train, val, test = weft.graphs.RandomLinkSplit(0.1, 0.2)(weft.graphs.ring(10))
    >>> train.num_edges, test.num_edges, test.edge_label.tolist()
    (14, 16, [1.0, 1.0, 0.0, 0.0])
    """

    def __init__(
        self,
        num_val: int | float = 0.1,
        num_test: int | float = 0.2,
        is_undirected: bool | None = None,
        *,
        neg_sampling_ratio: float = 1.0,
        add_negative_train_samples: bool = True,
        disjoint_train_ratio: float = 0.0,
        generator: weft.Generator | None = None,
    ) -> None:
        if neg_sampling_ratio < 0 or not 0 <= disjoint_train_ratio < 1:
            raise OptionError(
                f"RandomLinkSplit: expected neg_sampling_ratio of at least 0 and disjoint_train_ratio in [0, 1), got "
                f"{neg_sampling_ratio} and {disjoint_train_ratio}"
            )
        self.num_val, self.num_test, self.is_undirected = num_val, num_test, is_undirected
        self.ratio, self.train_negatives = neg_sampling_ratio, add_negative_train_samples
        self.disjoint, self.generator = disjoint_train_ratio, generator

    def __call__(self, graph: Graph) -> tuple[Graph, Graph, Graph]:
        """The graphs for training, validation and test."""
        undirected = self._direction(graph)
        random = stream("RandomLinkSplit", None, self.generator)
        edges = graph.edge_index.array
        proper = edges[0] != edges[1]
        links, first, link = np.unique(
            keys_of(edges[:, proper], graph.num_nodes, undirected), return_index=True, return_inverse=True
        )
        val, test = (_number(n, len(links), "RandomLinkSplit") for n in (self.num_val, self.num_test))
        if val + test >= len(links):
            raise OptionError(
                f"RandomLinkSplit: expected links to be left for training, {val} and {test} of {len(links)} are taken"
            )
        part = np.empty(len(links), np.int64)  # 0 message and training, 1 training alone, 2 validation, 3 test
        order = random.permutation(len(links))
        train = len(links) - val - test
        apart = int(self.disjoint * train)
        part[order] = np.repeat([0, 1, 2, 3], [train - apart, apart, val, test])
        of_edge = np.zeros(edges.shape[1], np.int64)
        of_edge[proper] = part[link]
        pairs = edges[:, np.flatnonzero(proper)[first]]
        pairs = np.sort(pairs, 0) if undirected else pairs
        told = [part <= 1 if not apart else part == 1, part == 2, part == 3]
        others = self._others(graph, [int(t.sum()) for t in told], undirected, random)
        seen = [of_edge == 0, of_edge <= 1, of_edge <= 2]
        return tuple(
            _told(graph.with_edges(wrap(s)), pairs[:, t], o) for s, t, o in zip(seen, told, others, strict=True)
        )

    def _direction(self, graph: Graph) -> bool:
        found = graph.replace(edge_weight=None).is_undirected()
        if self.is_undirected and not found:
            raise OptionError(
                "RandomLinkSplit: expected an undirected graph, some edges are there in one direction only"
            )
        return found if self.is_undirected is None else self.is_undirected

    def _others(self, graph: Graph, counts: list[int], undirected: bool, random: weft.Generator) -> list[np.ndarray]:
        """Pairs that are not joined, drawn at once so that none is in two parts."""
        wanted = [round(self.ratio * count) for count in counts]
        wanted[0] = wanted[0] if self.train_negatives else 0
        drawn = pairs_without(graph.edge_index.array, graph.num_nodes, sum(wanted), undirected, random)
        if drawn.shape[1] < sum(wanted):
            raise OptionError(
                f"RandomLinkSplit: expected {sum(wanted)} pairs that are not joined, the graph has {drawn.shape[1]}; "
                "lower neg_sampling_ratio"
            )
        return np.split(drawn, np.cumsum(wanted)[:-1], 1)


def _told(graph: Graph, links: np.ndarray, others: np.ndarray) -> Graph:
    label = np.repeat(np.array([1, 0], np.float32), [links.shape[1], others.shape[1]])
    pairs = np.ascontiguousarray(np.concatenate([links, others], 1))
    return graph.replace(edge_label_index=wrap(pairs), edge_label=wrap(label))


def _number(given: int | float, total: int, name: str) -> int:
    if given < 0 or (isinstance(given, float) and given >= 1):
        raise OptionError(f"{name}: expected a number of at least 0, or a share below 1, got {given}")
    return int(given * total) if isinstance(given, float) else given


class RandomNodeSplit:
    """A graph with new train_mask, val_mask and test_mask, drawn at random; no node is in two.

        "train_rest"   num_val and num_test nodes, the rest for training
        "test_rest"    num_train_per_class nodes of each class, num_val of the others, the rest for test
        "random"       num_train_per_class, num_val and num_test; the rest in no mask

    split: one of these; num_splits: more than one gives masks (N, num_splits)
    num_train_per_class, num_val, num_test: numbers of nodes, the last two also shares (below 1)
    generator: what they are drawn from

    >>> graph = weft.graphs.stochastic_block_model([6, 6], [[0.5, 0.1], [0.1, 0.5]], seed=0)
    >>> split = weft.graphs.RandomNodeSplit("random", num_train_per_class=2, num_val=2, num_test=4)(graph)
    >>> [int(mask.sum()) for mask in (split.train_mask, split.val_mask, split.test_mask)]
    [4, 2, 4]
    """

    def __init__(
        self,
        split: str = "train_rest",
        num_splits: int = 1,
        num_train_per_class: int = 20,
        num_val: int | float = 500,
        num_test: int | float = 1000,
        *,
        generator: weft.Generator | None = None,
    ) -> None:
        if split not in ("train_rest", "test_rest", "random"):
            raise OptionError(f"RandomNodeSplit: split must be 'train_rest', 'test_rest' or 'random', got {split!r}")
        if num_splits < 1 or num_train_per_class < 0:
            raise OptionError(
                f"RandomNodeSplit: expected at least one split and no negative number, got {num_splits} and "
                f"{num_train_per_class}"
            )
        self.split, self.num_splits, self.per_class = split, num_splits, num_train_per_class
        self.num_val, self.num_test, self.generator = num_val, num_test, generator

    def __call__(self, graph: Graph) -> Graph:
        """The graph with its masks."""
        random = stream("RandomNodeSplit", None, self.generator)
        drawn = [self._drawn(graph, random) for _ in range(self.num_splits)]  # each (3, N)
        masks = drawn[0] if self.num_splits == 1 else np.stack(drawn, -1)
        train, val, test = (wrap(np.ascontiguousarray(mask)) for mask in masks)
        return graph.replace(num_nodes=graph.num_nodes, train_mask=train, val_mask=val, test_mask=test)

    def _drawn(self, graph: Graph, random: weft.Generator) -> np.ndarray:
        count = graph.num_nodes
        order = random.permutation(count)
        val, test = (_number(n, count, "RandomNodeSplit") for n in (self.num_val, self.num_test))
        train = np.zeros(0, np.int64)
        if self.split != "train_rest":
            train = self._of_each_class(graph.y, order, count)
            order = order[~np.isin(order, train)]
        test = len(order) - val if self.split == "test_rest" else test
        if test < 0 or val + test > len(order):
            raise OptionError(f"RandomNodeSplit: {val} and {test} nodes are wanted of {len(order)} of {count}")
        masks = np.zeros((3, count), bool)
        masks[1, order[:val]], masks[2, order[val : val + test]] = True, True
        masks[0, order[val + test :] if self.split == "train_rest" else train] = True
        return masks

    def _of_each_class(self, y: Tensor | None, order: np.ndarray, count: int) -> np.ndarray:
        if y is None or y.shape != (count,):
            raise OptionError(f"RandomNodeSplit: {self.split!r} needs a class for each of {count} nodes in y")
        codes = y.array[order]
        chosen = [order[codes == kind][: self.per_class] for kind in np.unique(codes)]
        if any(len(part) < self.per_class for part in chosen):
            raise OptionError(f"RandomNodeSplit: expected {self.per_class} nodes of each class, some have fewer")
        return np.concatenate(chosen)
