"""Softmax over many classes as a walk down a tree: one small softmax at each interior vertex (N2 §4.5.1).

A tree is nested tuples whose leaves are the classes 0…C−1, such as ((0, 1), (2, 3)); any number of children is
possible. `flat_tree`, `balanced_tree` and `huffman_tree` build the three of the notes.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import weft

from ...errors import IndexRangeError, OptionError, ShapeError
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..functional._common import any_true
from ..module import Module
from ..parameter import Parameter

__all__ = [
    "HierarchicalSoftmax",
    "balanced_tree",
    "expected_path_length",
    "flat_tree",
    "huffman_tree",
    "path_lengths",
]

Tree = int | tuple["Tree", ...]


# ------------------------------------------------------------------------------------------------- trees


def flat_tree(num_classes: int) -> Tree:
    """One vertex with all classes as children: the plain softmax, and as slow (N2 §4.5.1)."""
    return tuple(range(num_classes))


def balanced_tree(num_classes: int, arity: int = 2) -> Tree:
    """Classes in order, depths differing by at most one: ⌈log C⌉ decisions to the base `arity` (N2 §4.5.1)."""
    return _halved(0, num_classes, arity)


def _halved(first: int, count: int, arity: int) -> Tree:
    """Classes first…first + count − 1 in `arity` parts of nearly equal size."""
    if count <= arity:
        return tuple(range(first, first + count)) if count > 1 else first
    bounds = [first + count * part // arity for part in range(arity + 1)]
    return tuple(_halved(start, stop - start, arity) for start, stop in itertools.pairwise(bounds))


def huffman_tree(frequencies: Sequence[float] | Tensor, arity: int = 2) -> Tree:
    """The tree with the least expected path length Σ_c f_c · depth_c (N2 §4.5.1): frequent classes near the root.

    Again and again the `arity` lightest trees become children of one new vertex; the first time fewer, so that the
    root is full. For binary trees and probabilities f: H(f) ≤ length < H(f) + 1, H the entropy in bits.
    """
    weights = [float(f) for f in frequencies]
    if arity < 2 or len(weights) < 2 or min(weights) < 0:
        raise OptionError(
            f"huffman_tree: needs at least two classes of frequency ≥ 0 and arity ≥ 2, got {len(weights)} and {arity}"
        )
    order = itertools.count()  # breaks ties by age: the shallower tree first
    heap: list[tuple[float, int, Tree]] = [(weight, next(order), label) for label, weight in enumerate(weights)]
    heapq.heapify(heap)
    take = (len(weights) - 2) % (arity - 1) + 2
    while len(heap) > 1:
        lightest = [heapq.heappop(heap) for _ in range(take)]
        merged = tuple(subtree for _, _, subtree in lightest)
        heapq.heappush(heap, (sum(weight for weight, _, _ in lightest), next(order), merged))
        take = arity
    return heap[0][2]


def path_lengths(tree: Tree) -> list[int]:
    """The number of decisions on the way to each class."""
    return [len(path) for path in _paths(tree)[0]]


def expected_path_length(tree: Tree, frequencies: Sequence[float] | Tensor) -> float:
    """Σ_c f_c · depth_c / Σ_c f_c (N2 §4.5.1)."""
    weights = [float(f) for f in frequencies]
    return sum(f * depth for f, depth in zip(weights, path_lengths(tree), strict=True)) / sum(weights)


def _paths(tree: Tree) -> tuple[list[list[tuple[int, int]]], list[int]]:
    """For each class its path of (vertex, child) pairs, and for each vertex its number of children; the root is 0."""
    paths: dict[int, list[tuple[int, int]]] = {}
    children: list[int] = []
    waiting: list[tuple[Tree, list[tuple[int, int]]]] = [(tree, [])]
    for subtree, path in waiting:  # grows while it is walked: vertices in order of depth
        if isinstance(subtree, int):
            if subtree in paths:
                raise OptionError(f"tree of classes: class {subtree} occurs twice")
            paths[subtree] = path
            continue
        if len(subtree) < 2:
            raise OptionError(f"tree of classes: a vertex needs at least two children, got {subtree!r}")
        vertex = len(children)
        children.append(len(subtree))
        waiting += [(child, [*path, (vertex, number)]) for number, child in enumerate(subtree)]
    if sorted(paths) != list(range(len(paths))) or not children:
        raise OptionError("tree of classes: the leaves must be the classes 0…C−1, with C ≥ 2, each once")
    return [paths[label] for label in range(len(paths))], children


# ------------------------------------------------------------------------------------------------- layer


class TreeOutput(NamedTuple):
    """What `HierarchicalSoftmax` returns: log-probabilities of the targets, and the negative of their mean."""

    output: Tensor
    loss: Tensor


class HierarchicalSoftmax(Module):
    """p(y | z) = Π over the path to y of S(0, W_v z + b_v)_child: one softmax a vertex (N2 §4.5.1).

    The first child of a vertex has score 0, so a vertex with m children owns m − 1 rows of `weight`, and every tree
    over C classes has C − 1 rows. Called on inputs and targets it touches only the rows of the paths: log₂ C of them
    for a balanced binary tree. `log_prob` gives all classes, `predict` the likeliest, as in
    AdaptiveLogSoftmaxWithLoss. Shape: (B, D), (B,) → output (B,), loss (); unbatched (D,), () too;
    weight (C − 1, D), bias (C − 1,), both from U(±1/√D)

    in_features: D
    tree: nested lists of class numbers, as `balanced_tree` and `huffman_tree` make them
    bias: whether there is a b

    >>> layer = nn.HierarchicalSoftmax(8, nn.balanced_tree(100))
    >>> layer(weft.randn(5, 8), weft.arange(5)).output.shape
    weft.Size([5])
    >>> layer.log_prob(weft.randn(5, 8)).exp().sum(1).round(decimals=4)
    tensor([1., 1., 1., 1., 1.], grad_fn=<DivBackward0>)
    """

    def __init__(self, in_features: int, tree: Tree, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        paths, children = _paths(tree)
        self.in_features, self.num_classes = in_features, len(paths)
        self.root_children, self.depth = children[0], max(len(path) for path in paths)
        for name, table in _tables(paths, children).items():
            self.register_buffer(name, weft.tensor(table), persistent=False)
        self.weight = Parameter(weft.empty(self.num_classes - 1, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(weft.empty(self.num_classes - 1, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.in_features)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, input: Tensor, target: Tensor) -> TreeOutput:
        self._check(input, target)
        z, y = input.reshape(-1, self.in_features), target.reshape(-1)
        output = (self._at_root(z, y) + self._below_root(z, y)).reshape(target.shape)
        return TreeOutput(output, -output.mean())

    def _at_root(self, z: Tensor, y: Tensor) -> Tensor:
        """log S(0, W₀ z + b₀)_child for the first step, which all paths share. Shape: (B, D), (B,) → (B,)"""
        rows = slice(0, self.root_children - 1)
        scores = F.linear(z, self.weight[rows], None if self.bias is None else self.bias[rows])
        return _log_choice(scores, self.path_child[y, 0])

    def _below_root(self, z: Tensor, y: Tensor) -> Tensor:
        """The sum of log S(0, W_v z + b_v)_child over the rest of each path. Shape: (B, D), (B,) → (B,)"""
        if self.depth == 1:
            return weft.zeros(z.shape[0], dtype=z.dtype)
        vertex = self.path_vertex[y, 1:]  # (B, K)
        rows, real = self.vertex_rows[vertex], self.vertex_real[vertex]  # (B, K, m)
        scores = (F.embedding(rows, self.weight) @ z.reshape(-1, 1, self.in_features, 1)).squeeze(-1)
        if self.bias is not None:
            scores = scores + self.bias[rows]
        return _log_choice(scores.masked_fill(~real, float("-inf")), self.path_child[y, 1:]).sum(-1)

    def log_prob(self, input: Tensor) -> Tensor:
        """log p of every class, in O(C). Shape: (*, D) → (*, C)"""
        self._check(input, None)
        scores = F.linear(input, self.weight, self.bias)  # (*, C − 1)
        root = _with_zero(scores[..., : self.root_children - 1]).log_softmax(-1)
        below = scores[..., self.vertex_rows].masked_fill(~self.vertex_real, float("-inf"))  # (*, V, m)
        edges = weft.cat([root, _with_zero(below).log_softmax(-1).flatten(-2)], -1)
        return edges[..., self.path_edge].sum(-1)  # (*, C, K) → (*, C)

    def predict(self, input: Tensor) -> Tensor:
        """The likeliest class. Shape: (*, D) → (*)"""
        return self.log_prob(input).argmax(-1)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, num_classes={self.num_classes}, depth={self.depth}"

    def _check(self, input: Tensor, target: Tensor | None) -> None:
        if input.shape[-1:] != (self.in_features,) or (target is not None and input.shape[:-1] != target.shape):
            found = tuple(input.shape) if target is None else (tuple(input.shape), tuple(target.shape))
            raise ShapeError(f"HierarchicalSoftmax: expected (*, {self.in_features}) and targets (*), got {found}")
        if target is not None and any_true((target < 0) | (target >= self.num_classes)):
            raise IndexRangeError(
                f"HierarchicalSoftmax: targets must lie in 0…{self.num_classes - 1}, got values from "
                f"{int(target.min())} to {int(target.max())}"
            )


def _with_zero(scores: Tensor) -> Tensor:
    """The score 0 of the first child before the others. Shape: (*, m) → (*, m + 1)"""
    return F.pad(scores, (1, 0))


def _log_choice(scores: Tensor, child: Tensor) -> Tensor:
    """log S(0, scores)_child. Shape: (*, m), (*) → (*)"""
    return _with_zero(scores).log_softmax(-1).gather(-1, child.unsqueeze(-1)).squeeze(-1)


def _tables(paths: list[list[tuple[int, int]]], children: list[int]) -> dict[str, np.ndarray]:
    """Paths and vertices as padded arrays.

    A path that has ended goes on through vertex 0 by child 0. Below the root that vertex has one child, whose
    log-probability is 0. Edges are numbered: those of the root first, then m + 1 for each vertex.
    """
    depth, below = max(map(len, paths)), max(children[1:], default=1) - 1
    path = np.zeros((len(paths), depth, 2), np.int64)
    for label, steps in enumerate(paths):
        path[label, : len(steps)] = steps
    vertex, child = path[..., 0], path[..., 1]
    own = np.array([1, *children[1:]]) - 1  # rows of each vertex; the root's are not looked up
    first = np.concatenate([[0], np.cumsum(np.array(children) - 1)[:-1]])
    real = np.arange(below) < own[:, None]
    edge = children[0] + vertex * (below + 1) + child
    edge[:, 0] = child[:, 0]
    return {
        "path_vertex": vertex,  # (C, K)
        "path_child": child,  # (C, K)
        "path_edge": edge,  # (C, K)
        "vertex_rows": np.where(real, first[:, None] + np.arange(below), 0),  # (V, m)
        "vertex_real": real,  # (V, m)
    }
