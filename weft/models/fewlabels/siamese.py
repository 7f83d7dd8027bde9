"""Siamese networks for one-shot learning (Koch, Zemel and Salakhutdinov 2015): are two examples of one class? (N2 §8.5.4)"""

from __future__ import annotations

import weft

from ... import nn
from ...errors import ShapeError
from ...tensor import Tensor

__all__ = ["SiameseNetwork"]


class SiameseNetwork(nn.Module):
    """p(same class | a, b) = σ(w · |f(a) − f(b)| + b₀): one network reads both, so the order does not matter.

    (`nn.ContrastiveLoss` on distances of f is the older way to train such a pair.)
    encoder: f: (N, *event) → (N, dim); dim: its features
    Shape: (N, *event), (N, *event) → logits (N,)

    >>> model = SiameseNetwork(nn.Linear(2, 3), 3)
    >>> a, b = weft.randn(4, 2), weft.randn(4, 2)
    >>> bool((model(a, b) == model(b, a)).all())
    True
    """

    def __init__(self, encoder: nn.Module, dim: int) -> None:
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(dim, 1)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        first, second = self.encoder(weft.cat([a, b])).chunk(2)
        return self.compared(first, second)

    def compared(self, first: Tensor, second: Tensor) -> Tensor:
        """The same of features that are there already: (*, dim), (*, dim) → (*)"""
        return self.head((first - second).abs()).squeeze(-1)

    def loss(self, a: Tensor, b: Tensor, same: Tensor) -> Tensor:
        """Cross entropy of whether pairs are of one class: same (N,) of 0 and 1 → ()"""
        logits = self(a, b)
        return nn.functional.binary_cross_entropy_with_logits(logits, same.to(logits.dtype))

    def one_shot(self, support: Tensor, query: Tensor) -> Tensor:
        """Logits of being of the class of each example of a support: (K, *event), (N, *event) → (N, K); the largest counts.

        With several shots of a class their logits may be averaged.
        """
        if not len(support):
            raise ShapeError("SiameseNetwork: expected a support of one example or more, got none")
        known, asked = self.encoder(support), self.encoder(query)
        return self.compared(asked.unsqueeze(1), known)  # (N, 1, D) against (K, D)
