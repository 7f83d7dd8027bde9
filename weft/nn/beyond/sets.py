"""Categories in and out: embeddings of sets of categories (N2 §4.1, §4.4), and the softmax layer seen as similarity
(N2 §4.3)."""

from __future__ import annotations

import math
from typing import Any

import weft

from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import Parameter

__all__ = ["SetEmbedding", "SimilaritySoftmax"]


class SetEmbedding(Module):
    """z = Σ_{v ∈ S} E[v], or its mean over S: one vector for a set of categories, whatever their order.

    The composition of CBOW (N2 §4.4); Eᵀ m for the multi-hot m of the set. `mask` of the call is false at places that are
    padding; the empty set gives 0. Numbers that occur twice count twice, as in a bag of words.
    Shape: (*, L) of int64, mask (*, L) → (*, D); weight (V, D) from N(0, 1)

    num_embeddings, embedding_dim: V and D
    mode: 'mean' or 'sum'

    >>> nn.SetEmbedding(10, 4)(weft.tensor([[1, 5, 2], [0, 0, 3]])).shape
    weft.Size([2, 4])
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, mode: str = "mean", device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        if mode not in ("mean", "sum"):
            raise OptionError(f"SetEmbedding: mode must be 'mean' or 'sum', got {mode!r}")
        self.num_embeddings, self.embedding_dim, self.mode = num_embeddings, embedding_dim, mode
        self.weight = Parameter(weft.empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.normal_(self.weight)

    def forward(self, input: Tensor, mask: Tensor | None = None) -> Tensor:
        mask = weft.ones(input.shape, dtype=weft.bool) if mask is None else mask
        if mask.shape != input.shape:
            raise ShapeError(f"SetEmbedding: input {tuple(input.shape)} and mask {tuple(mask.shape)} must be equal")
        rows = F.embedding(input.masked_fill(~mask, 0), self.weight)  # (*, L, D)
        total = (rows * mask.unsqueeze(-1)).sum(-2)
        return total if self.mode == "sum" else total / mask.sum(-1, keepdim=True).clamp(min=1)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"


class SimilaritySoftmax(Module):
    """p(c | z) = exp(s η_c) / Σ_c′ exp(s η_c′), η_c = ⟨w_c, z⟩: how similar z is to each class vector (N2 §4.3).

    Shape: (*, D) → (*, C); weight (C, D) from U(±1/√D), one class vector a row, as in an embedding

    in_features: D
    num_classes: C
    cosine: whether η_c = ⟨w_c, z⟩ / (‖w_c‖ ‖z‖), so that angles count and lengths do not
    scale: s

    >>> nn.SimilaritySoftmax(8, 3)(weft.randn(5, 8)).sum(-1).round(decimals=4)
    tensor([1., 1., 1., 1., 1.], grad_fn=<DivBackward0>)
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        cosine: bool = False,
        scale: float = 1.0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features, self.num_classes, self.cosine, self.scale = in_features, num_classes, cosine, scale
        self.weight = Parameter(weft.empty(num_classes, in_features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.in_features)
        init.uniform_(self.weight, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return self.scores(input).softmax(-1)

    def scores(self, input: Tensor) -> Tensor:
        """s η, the input of `cross_entropy`. Shape: (*, D) → (*, C)"""
        return self.scale * F.linear(self._measured(input), self._measured(self.weight))

    def similar(self, number: int, k: int = 10) -> tuple[Tensor, Tensor]:
        """The k classes whose vectors have the largest cosine with that of class `number`, itself left out."""
        unit = F.normalize(self.weight.detach(), dim=-1)
        cosines = unit @ unit[number]
        cosines[number] = -math.inf
        values, indices = cosines.topk(k)
        return values, indices

    def _measured(self, vectors: Tensor) -> Tensor:
        return F.normalize(vectors, dim=-1) if self.cosine else vectors

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, num_classes={self.num_classes}, cosine={self.cosine}, scale={self.scale}"
        )
