"""Losses that move points of an embedding together and apart: pairs, triplets, and one against many."""

from __future__ import annotations

from collections.abc import Callable

import weft

from ...errors import InvalidValueError, ShapeError
from ...tensor import Tensor
from .. import functional as F
from ..functional._common import reduced
from .distance import PairwiseDistance
from .loss import Loss

__all__ = [
    "ContrastiveLoss",
    "CosineEmbeddingLoss",
    "HingeEmbeddingLoss",
    "InfoNCE",
    "MarginRankingLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class MarginLoss(Loss):
    """A loss whose first option is a margin."""

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class HingeEmbeddingLoss(MarginLoss):
    """x where t = 1, max(0, margin − x) where t = −1. Shape: (*), (*) → () or (*).

    margin: how far apart unlike pairs should be

    >>> nn.HingeEmbeddingLoss(reduction="none")(weft.tensor([0.3, 0.3]), weft.tensor([1, -1]))
    tensor([0.3000, 0.7000])
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(margin, size_average, reduce, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(MarginLoss):
    """1 − cos(x₁, x₂) where t = 1, max(0, cos(x₁, x₂) − margin) where t = −1. Shape: (N, D), (N, D), (N,).

    margin: the similarity that unlike pairs may have, in [−1, 1]

    >>> nn.CosineEmbeddingLoss()(weft.tensor([[1.0, 0.0]]), weft.tensor([[0.0, 1.0]]), weft.tensor([1]))
    tensor(1.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(MarginLoss):
    """max(0, −t (x₁ − x₂) + margin), t = ±1: which of the two should be larger. Shape: (*), (*), (*) → () or (*).

    margin: by how much

    >>> nn.MarginRankingLoss(margin=0.5)(weft.tensor([2.0]), weft.tensor([1.75]), weft.tensor([1]))
    tensor(0.2500)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class TripletMarginLoss(Loss):
    """max(0, ‖a − p‖ − ‖a − n‖ + margin) for anchor, positive and negative. Shape: (N, D) × 3 → () or (N,).

    margin: by how much the negative should be farther away
    p: the order of the norms
    eps: added to the differences, which keeps slopes finite
    swap: take the distance of the negative from the positive where that is smaller (Balntas et al. 2016)

    >>> a, n = weft.zeros(1, 2), weft.tensor([[0.25, 0.0]])
    >>> nn.TripletMarginLoss()(a, a, n)
    tensor(0.7500)
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        _check_margin(margin)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(Loss):
    """`TripletMarginLoss` with any distance of two tensors.

    distance_function: it; by default `PairwiseDistance`
    margin: by how much the negative should be farther away
    swap: take the distance of the negative from the positive where that is smaller

    >>> loss = nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().sum(-1))
    >>> loss(weft.zeros(1, 2), weft.ones(1, 2), weft.tensor([[0.0, 3.0]]))
    tensor(0.)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        _check_margin(margin)
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


def _check_margin(margin: float) -> None:
    if margin <= 0:
        raise InvalidValueError(f"margin must be greater than 0, got {margin}")


class ContrastiveLoss(MarginLoss):
    """t d² + (1 − t) max(0, margin − d)² for d = ‖x₁ − x₂‖, t = 1 for similar pairs and 0 for others (N2 §8.5.4).

    The loss of Siamese networks (Hadsell, Chopra, LeCun 2006, without its factor ½).
    Shape: (N, D), (N, D), (N,) → () or (N,)

    margin: from which distance on dissimilar pairs cost nothing

    >>> nn.ContrastiveLoss()(weft.zeros(1, 2), weft.tensor([[0.0, 0.5]]), weft.tensor([0]))
    tensor(0.2500)
    """

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(margin, reduction=reduction)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        distance = F.pairwise_distance(input1, input2, eps=0.0)
        near, far = distance.square(), (self.margin - distance).relu().square()
        return reduced(weft.where(target == 1, near, far), self.reduction)


class InfoNCE(Loss):
    """−log (exp(s₊/τ) / Σⱼ exp(sⱼ/τ)), s the cosine similarity of a query with its positive and with the others.

    Without `negatives` in the call the others are the positives of the rest of the batch (N2 §8.5.4; van den Oord et al.
    2018). Log N − loss is a lower bound of mutual information.
    Shape: query (N, D), positive (N, D), negatives (M, D) or (N, M, D) → () or (N,)

    temperature: τ; the smaller, the more the hardest negatives count
    symmetric: average the loss over both directions

    >>> x = weft.eye(4)
    >>> float(nn.InfoNCE()(x, x)) < 0.01
    True
    """

    def __init__(self, temperature: float = 0.1, symmetric: bool = False, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        if not temperature > 0:
            raise InvalidValueError(f"InfoNCE: temperature must be positive, got {temperature}")
        self.temperature, self.symmetric = temperature, symmetric

    def forward(self, query: Tensor, positive: Tensor, negatives: Tensor | None = None) -> Tensor:
        if query.ndim != 2 or query.shape != positive.shape:
            raise ShapeError(
                f"InfoNCE: expected query and positive of one shape (N, D), got {tuple(query.shape)} and "
                f"{tuple(positive.shape)}"
            )
        query, positive = F.normalize(query, dim=-1), F.normalize(positive, dim=-1)
        if negatives is not None:
            return self._against(query, positive, F.normalize(negatives, dim=-1))
        scores = query @ positive.mT / self.temperature  # (N, N), the positives on the diagonal
        numbers = weft.arange(scores.shape[0])
        loss = F.cross_entropy(scores, numbers, reduction=self.reduction)
        return (loss + F.cross_entropy(scores.mT, numbers, reduction=self.reduction)) / 2 if self.symmetric else loss

    def _against(self, query: Tensor, positive: Tensor, negatives: Tensor) -> Tensor:
        own = (query * positive).sum(-1, keepdim=True)  # (N, 1)
        if negatives.ndim == 2:
            others = query @ negatives.mT  # (N, M)
        else:
            others = (negatives @ query.unsqueeze(-1)).squeeze(-1)  # (N, M, D) @ (N, D, 1) → (N, M)
        scores = weft.cat([own, others], -1) / self.temperature
        return F.cross_entropy(scores, weft.zeros(len(scores), dtype=weft.int64), reduction=self.reduction)
