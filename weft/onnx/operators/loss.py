"""Losses of classifiers."""

from __future__ import annotations

import weft

from ...tensor import Tensor
from .registry import rule


def _loss(scores: Tensor, labels: Tensor, weight: Tensor | None, reduction: str, ignored: int | None) -> Tensor:
    """−weight[y] · scores[y], where the classes lie along dimension 1."""
    labels = labels.to(weft.int64)
    counted = weft.ones_like(labels, dtype=scores.dtype)
    if ignored is not None:
        kept = labels != ignored
        counted, labels = kept.to(scores.dtype), weft.where(kept, labels, weft.zeros_like(labels))
    if weight is not None:
        counted = counted * weight[labels]
    losses = -scores.gather(1, labels.unsqueeze(1)).squeeze(1) * counted
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / counted.sum()


@rule("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int | None = None, reduction: str = "mean"
) -> Tensor:
    return _loss(x, target, weight, reduction, ignore_index)


@rule("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
    outputs: int = 1,
) -> tuple[Tensor, ...]:
    logs = weft.log_softmax(x, 1)
    return (_loss(logs, target, weight, reduction, ignore_index), logs)[: max(outputs, 1)]
