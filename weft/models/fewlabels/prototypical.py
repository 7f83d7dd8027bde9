"""Prototypical networks (Snell, Swersky and Zemel 2017): a class is the mean of its few examples, in a space that was learned."""

from __future__ import annotations

import weft

from ... import nn
from ...errors import ShapeError
from ...tensor import Tensor

__all__ = ["PrototypicalNetwork"]


class PrototypicalNetwork(nn.Module):
    """p(class k | x) = softmax_k(−‖f(x) − c_k‖²), c_k the mean of f over the shots of class k.

    encoder: f: (N, *event) → (N, D)
    Shape: support (ways, shots, *event), query (ways, queries, *event) or (N, *event) → logits (N, ways)

    >>> model = PrototypicalNetwork(nn.Identity())
    >>> support = weft.tensor([[[0.0, 0.0], [0.0, 2.0]], [[4.0, 1.0], [4.0, 1.0]]])
    >>> model(support, weft.tensor([[1.0, 1.0]])).tolist()
    [[-1.0, -9.0]]
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def prototypes(self, support: Tensor) -> Tensor:
        """c: (ways, shots, *event) → (ways, D)"""
        if support.ndim < 3:
            raise ShapeError(
                f"PrototypicalNetwork: expected a support (ways, shots, *event), got {tuple(support.shape)}"
            )
        return self.encoder(support.flatten(0, 1)).unflatten(0, tuple(support.shape[:2])).mean(1)

    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        flat = query.flatten(0, 1) if query.ndim == support.ndim else query
        return -squared_distances(self.encoder(flat), self.prototypes(support))

    def outputs(self, support: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        """Mean cross entropy of the queries of an episode, (), and their share that is told right, ()."""
        logits = self(support, query)
        labels = weft.arange(query.shape[0]).repeat_interleave(query.shape[1])
        return nn.functional.cross_entropy(logits, labels), (logits.argmax(1) == labels).double().mean()

    def loss(self, support: Tensor, query: Tensor) -> Tensor:
        """Mean cross entropy of the queries of an episode: (ways, shots, *event), (ways, queries, *event) → ()"""
        return self.outputs(support, query)[0]


def squared_distances(x: Tensor, c: Tensor) -> Tensor:
    """‖x_n − c_k‖²: (N, D), (K, D) → (N, K)"""
    return ((x.unsqueeze(1) - c) ** 2).sum(-1)
