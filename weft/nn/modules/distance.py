"""Similarity and distance of pairs as modules."""

from __future__ import annotations

from ...tensor import Tensor
from .. import functional as F
from ..module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class CosineSimilarity(Module):
    """x₁ · x₂ / (max(‖x₁‖, ε) · max(‖x₂‖, ε)) along `dim`. Shape: (*, D, *), (*, D, *) → (*, *).

    dim: the dimension of the vectors
    eps: ε, below which a length counts as ε

    >>> nn.CosineSimilarity(dim=0)(weft.tensor([1.0, 0.0]), weft.tensor([1.0, 1.0]))
    tensor(0.7071)
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """‖x₁ − x₂ + ε‖ₚ along the last dimension. Shape: (N, D), (N, D) → (N,), or (N, 1) with keepdim.

    p: the order of the norm
    eps: ε, which keeps the slope finite where the two agree
    keepdim: whether the last dimension stays, with size 1

    >>> nn.PairwiseDistance()(weft.zeros(1, 2), weft.tensor([[3.0, 4.0]]))
    tensor([5.0000])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
