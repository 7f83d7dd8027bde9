"""word2vec: vectors of words from the words around them (Mikolov et al. 2013a, b; N2 §4.5).

Skip-gram predicts each word of a window from the one in its middle, CBOW the middle from the mean of the others. The
softmax over all words is replaced by a few drawn ones (negative sampling) or by a walk down a Huffman tree.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...nn.beyond.sampled_softmax import FixedProposal, SampledScores, negative_sampling_loss
from ...nn.beyond.softmax_tree import HierarchicalSoftmax, huffman_tree
from ...tensor import Tensor, wrap

__all__ = ["Word2Vec", "cbow_windows", "keep_probabilities", "skipgram_pairs", "subsample"]

F = nn.functional
PADDING = -1  # where a window reaches over the end of a sentence


class Word2Vec(nn.Module):
    """v_w for every word w (`vectors`), trained to predict words from v, or from the mean of several v.

        "negative"       −log σ(u_o·v) − Σ_{k drawn} log σ(−u_k·v), k ~ counts^¾, drawn anew for each example
        "hierarchical"   −log Π over the path to o of σ(±u_node·v), the tree of Huffman over the counts

    counts: how often each word occurs, (V,). Skip-gram: given (B,); CBOW: given (B, C), −1 at missing places.
    Shape: given (B,) or (B, C), target (B,) → loss ()

    >>> model = Word2Vec([5, 3, 2, 1], 8)
    >>> loss = model(weft.tensor([0, 1]), weft.tensor([1, 2]))
    """

    def __init__(
        self, counts: Sequence[int] | Tensor, dim: int = 100, *, loss: str = "negative", negatives: int = 5
    ) -> None:
        super().__init__()
        counts = weft.as_tensor(counts)
        if loss not in ("negative", "hierarchical"):
            raise OptionError(f"Word2Vec: loss must be 'negative' or 'hierarchical', got {loss!r}")
        self.negatives, size = negatives, len(counts)
        self.vectors = nn.Embedding(size, dim)
        nn.init.uniform_(self.vectors.weight, -0.5 / dim, 0.5 / dim)
        self.tree = HierarchicalSoftmax(dim, huffman_tree(counts), bias=False) if loss == "hierarchical" else None
        self.outputs = nn.Embedding(size, dim) if loss == "negative" else None
        if self.outputs is not None:
            self.proposal = FixedProposal(size, counts, power=0.75)
        nn.init.zeros_(self.outputs.weight if self.tree is None else self.tree.weight)

    def forward(self, given: Tensor, target: Tensor) -> Tensor:
        v = self.hidden(given)
        if self.tree is not None:
            return self.tree(v, target).loss
        drawn = self.proposal.draw(len(target) * self.negatives).reshape(len(target), self.negatives)
        return self.negative_loss(v, target, drawn)

    def hidden(self, given: Tensor) -> Tensor:
        """v of a word, or the mean over the words of a window. Shape: (B,) or (B, C) → (B, D)"""
        if given.ndim == 1:
            return self.vectors(given)
        real = (given != PADDING).unsqueeze(-1)  # (B, C, 1)
        total = (self.vectors(given.clamp(min=0)) * real).sum(1)
        return total / real.sum(1).clamp(min=1)

    def negative_loss(self, v: Tensor, target: Tensor, drawn: Tensor) -> Tensor:
        """The loss for given negatives; those that are the target do not count. Shape: (B, D), (B,), (B, K) → ()"""
        right = (v * self.outputs(target)).sum(-1)  # (B,)
        wrong = (self.outputs(drawn) @ v.unsqueeze(-1)).squeeze(-1)  # (B, K, D) @ (B, D, 1) → (B, K)
        log_q = self.proposal.log_prob
        hit = drawn == target.unsqueeze(-1)
        return negative_sampling_loss(SampledScores(right, wrong, log_q(target), log_q(drawn), hit)).mean()

    def log_prob(self, given: Tensor) -> Tensor:
        """ln P(· | given) over all words: by the tree, or the softmax of u·v. Shape: (B,) or (B, C) → (B, V)"""
        v = self.hidden(given)
        return F.linear(v, self.outputs.weight).log_softmax(-1) if self.tree is None else self.tree.log_prob(v)


# ------------------------------------------------------------------------------------------- examples from text


def keep_probabilities(counts: NDArray, threshold: float = 1e-3) -> NDArray[np.float64]:
    """min(1, √(t / f)), f the share of a word in the text: frequent words are left out most of the time (eq. 5 of b)."""
    share = np.asarray(counts, np.float64) / max(np.sum(counts), 1)
    with np.errstate(divide="ignore"):
        return np.minimum(1.0, np.sqrt(threshold / share))


def subsample(tokens: NDArray, counts: NDArray, threshold: float, generator: weft.Generator) -> NDArray[np.int64]:
    """The text without some of its frequent words. Shape: (N,) → (≤ N,)"""
    tokens = np.asarray(tokens, np.int64)
    kept = generator.uniform((len(tokens),), np.float64) < keep_probabilities(counts, threshold)[tokens]
    return tokens[kept]


def skipgram_pairs(tokens: NDArray, window: int, generator: weft.Generator | None = None) -> tuple[Tensor, Tensor]:
    """All pairs (middle, word near it). With a generator each middle draws its reach from 1 … window, so that near
    words come more often. Shape: (N,) → centers (P,), targets (P,)

    >>> [x.tolist() for x in skipgram_pairs([7, 8, 9], 1)]
    [[7, 8, 8, 9], [8, 7, 9, 8]]
    """
    around = _around(tokens, window, generator)
    rows, places = np.nonzero(around != PADDING)
    return wrap(np.asarray(tokens, np.int64)[rows]), wrap(around[rows, places])


def cbow_windows(tokens: NDArray, window: int, generator: weft.Generator | None = None) -> tuple[Tensor, Tensor]:
    """The words around each, −1 where there are none, and the one in the middle. Shape: (N,) → (N, 2 window), (N,)

    >>> [x.tolist() for x in cbow_windows([7, 8, 9], 1)]
    [[[-1, 8], [7, 9], [8, -1]], [7, 8, 9]]
    """
    return wrap(_around(tokens, window, generator)), wrap(np.array(tokens, np.int64))


def _around(tokens: NDArray, window: int, generator: weft.Generator | None) -> NDArray[np.int64]:
    """Row t: tokens[t − window … t − 1], tokens[t + 1 … t + window], −1 outside the text or the drawn reach."""
    tokens = np.asarray(tokens, np.int64)
    if tokens.ndim != 1 or window < 1:
        raise ShapeError(f"word2vec: expected tokens (N,) and window ≥ 1, got {tokens.shape} and {window}")
    reach = np.full(len(tokens), window) if generator is None else generator.integers(1, window + 1, (len(tokens),))
    steps = np.concatenate([np.arange(-window, 0), np.arange(1, window + 1)])
    padded = np.pad(tokens, window, constant_values=PADDING)
    around = padded[np.arange(len(tokens))[:, None] + window + steps]  # (N, 2 window)
    return np.where(np.abs(steps) <= reach[:, None], around, PADDING)
