"""Distances, and the losses that push them apart: hinges, rankings, triplets."""

from __future__ import annotations

from collections.abc import Callable

import weft

from ...dtypes import FLOAT, get_default_dtype, int64, result_dtype
from ...errors import DtypeError, IndexRangeError, InvalidValueError, ShapeError
from ...tensor import Tensor
from ._common import any_true, chosen_reduction, log1pexp, reduced, require_float, require_tensor, widened
from .activation import logsigmoid

__all__ = [
    "cosine_embedding_loss",
    "cosine_similarity",
    "hinge_embedding_loss",
    "hinge_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "pairwise_distance",
    "pdist",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]

# --------------------------------------------------------------------------------------------- distances


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x₁ · x₂ / (max(‖x₁‖, ε) · max(‖x₂‖, ε)) along `dim`, broadcasting. Shape: (*, D, *) → (*, *)."""
    kind = result_dtype((x1, x2))
    if not kind.is_floating_point:
        raise DtypeError(f"cosine_similarity: expected common dtype to be floating point, yet common dtype is {kind}")
    a, b = weft.broadcast_tensors(*widened(x1.to(kind), x2.to(kind)))
    return (_unit(a, dim, eps) * _unit(b, dim, eps)).sum(dim).to(kind)


def _unit(x: Tensor, dim: int, eps: float) -> Tensor:
    """x / max(‖x‖, ε); the gradient passes the bound."""
    norm = x.norm(2, dim, keepdim=True)
    value = norm.detach()
    return x / (norm + (value.clamp(min=eps) - value))


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """‖x₁ − x₂ + ε‖ₚ along the last dimension, row by row. Shape: (N, D), (N, D) → (N,)."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


def pdist(input: Tensor, p: float = 2) -> Tensor:
    """‖xᵢ − xⱼ‖ₚ for every pair i < j of rows, in order. Shape: (N, D) → (N (N − 1) / 2,)."""
    require_tensor(input, "pdist")
    if input.ndim != 2:
        raise ShapeError(f"pdist: only supports 2D tensors, got: {input.ndim}D of shape {tuple(input.shape)}")
    require_float(input, "pdist")
    if p < 0:
        raise InvalidValueError(f"pdist: only supports non-negative p values, got {p}")
    first, second = weft.triu_indices(input.shape[0], input.shape[0], 1).unbind(0)
    difference = input.index_select(0, first) - input.index_select(0, second)  # (pairs, D)
    if input.shape[1] == 0:
        return difference.sum(-1)
    return difference.norm(p, -1)


# ------------------------------------------------------------------------------------- two embeddings


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """x where t = 1, max(0, margin − x) where t = −1. Shape: (*), (*) → () or (*)."""
    reduction = chosen_reduction("hinge_embedding_loss", reduction, size_average, reduce)
    near = weft.where(target != -1, input, 0)
    far = weft.where(target != 1, (margin - input).clamp(min=0), 0)
    return reduced(near + far, reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 − cos(x₁, x₂) where t = 1, max(0, cos(x₁, x₂) − margin) where t = −1.

    Shape: (N, D), (N, D), (N,), or (D,), (D,), () → () or the target's
    """
    name = "cosine_embedding_loss"
    reduction = chosen_reduction(name, reduction, size_average, reduce)
    if target.ndim > 1:
        raise ShapeError(f"{name}: 0D or 1D target tensor expected, got shape {tuple(target.shape)}")
    if input1.ndim != target.ndim + 1 or input2.ndim != target.ndim + 1:
        raise ShapeError(
            f"{name}: {target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs with "
            f"sizes {list(input1.shape)} and {list(input2.shape)}"
        )
    a, b = widened(*(x if x.dtype.category >= FLOAT else x.to(get_default_dtype()) for x in (input1, input2)))
    tiny = 1e-12
    inner = (a * b).sum(-1)
    cosine = inner / ((a.square().sum(-1) + tiny) * (b.square().sum(-1) + tiny)).sqrt()
    alike = weft.where(target == 1, 1 - cosine, 0)
    unlike = weft.where(target == -1, (cosine - margin).clamp(min=0), 0)
    kind = result_dtype((input1, input2))
    return reduced(alike + unlike, reduction).to(kind if kind.category >= FLOAT else get_default_dtype())


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, −t (x₁ − x₂) + margin), t = ±1: which of the two should be larger. Shape: (*) × 3 → () or (*)."""
    name = "margin_ranking_loss"
    reduction = chosen_reduction(name, reduction, size_average, reduce)
    if not input1.ndim == input2.ndim == target.ndim:
        raise ShapeError(
            f"{name}: all input tensors should have same dimension but got sizes: input1: {tuple(input1.shape)}, "
            f"input2: {tuple(input2.shape)}, target: {tuple(target.shape)}"
        )
    return reduced((-target * (input1 - input2) + float(margin)).clamp(min=0), reduction)


def hinge_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """max(0, margin − t x) for scores x and classes t = ±1, the loss of support vector machines (not in PyTorch).

    Its slope at the kink is 0. Shape: (*), (*) → () or (*)
    """
    require_tensor(input, "hinge_loss")
    require_float(input, "hinge_loss")
    require_tensor(target, "hinge_loss", "target")
    reduction = chosen_reduction("hinge_loss", reduction)
    if target.shape != input.shape:
        raise ShapeError(f"hinge_loss: input {tuple(input.shape)} and target {tuple(target.shape)} must have one shape")
    if any_true((target != 1) & (target != -1)):
        raise InvalidValueError("hinge_loss: targets must be 1 or -1; of classes 0 and 1 make them with 2 * target - 1")
    return reduced((margin - target * input).relu(), reduction)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + e^(−t x)), t = ±1, without overflow. Shape: (*), (*) → () or (*)."""
    reduction = chosen_reduction("soft_margin_loss", reduction, size_average, reduce)
    x, t = widened(input, target)
    return reduced(log1pexp(-t * x), reduction).to(result_dtype((input, target)))


# ------------------------------------------------------------------------------------------- many classes


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Σ_{i≠t} w_t max(0, margin − x_t + x_i)ᵖ / C for class numbers t, p = 1 or 2.

    Shape: (N, C), (N,) or (C,), () → () or the target's
    """
    name = "multi_margin_loss"
    reduction = chosen_reduction(name, reduction, size_average, reduce)
    _check_multi_margin(name, input, target, p, weight)
    x = input.reshape(-1, input.shape[-1] if input.ndim else 1)  # (N, C)
    classes = x.shape[1]
    index = target.reshape(-1, 1)
    if any_true((index < 0) | (index >= classes)):
        raise IndexRangeError(f"{name}: target out of range, expected class numbers in [0, {classes})")
    violation = (margin - x.gather(1, index) + x).relu()
    if p == 2:
        violation = violation.square()
    if weight is not None:
        violation = violation * weight.index_select(0, index.reshape(-1)).unsqueeze(-1)
    others = index != weft.arange(classes)
    loss = violation.masked_fill(~others, 0).sum(1) / classes
    return reduced(loss.reshape(target.shape), reduction)


def _check_multi_margin(name: str, input: Tensor, target: Tensor, p: int, weight: Tensor | None) -> None:
    require_float(input, name)
    if p not in (1, 2):
        raise InvalidValueError(f"{name}: only p == 1 and p == 2 supported, got {p}")
    if input.ndim > 2 or 0 in input.shape[-1:]:
        raise ShapeError(
            f"{name}: expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )
    examples = input.shape[0] if input.ndim == 2 else 1
    if target.ndim > 1 or target.numel() != examples:
        raise ShapeError(
            f"{name}: target tensor should be 1-D with size equal to the number of input samples. Expected target size "
            f"[{examples}], but got {list(target.shape)}. Input has shape {list(input.shape)}"
        )
    if target.dtype is not int64:
        raise DtypeError(f"{name}: expected target of type int64, got {target.dtype}; convert it with .long()")
    classes = input.shape[-1] if input.ndim else 1
    if weight is not None and (weight.ndim > 1 or weight.numel() != classes):
        raise ShapeError(f"{name}: inconsistent weight size, expected {classes} but got {list(weight.shape)}")


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Σ_{j∈T} Σ_{i∉T} max(0, 1 − x_j + x_i) / C, with T the class numbers of the target before its first −1.

    Shape: (N, C), (N, C) or (C,), (C,) → () or (N,)
    """
    name = "multilabel_margin_loss"
    reduction = chosen_reduction(name, reduction, size_average, reduce)
    require_float(input, name)
    if input.ndim > 2 or 0 in input.shape[-1:]:
        raise ShapeError(
            f"{name}: expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )
    if target.shape != input.shape and not (input.ndim < 2 and target.numel() == input.numel()):
        raise ShapeError(
            f"{name}: inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    if target.dtype is not int64:
        raise DtypeError(f"{name}: expected target of type int64, got {target.dtype}; convert it with .long()")
    classes = input.shape[-1] if input.ndim else 1
    if any_true((target < -1) | (target >= classes)):
        raise IndexRangeError(f"{name}: target is out of range, expected class numbers in [0, {classes}), then -1")
    x, t = input.reshape(-1, classes), target.reshape(-1, classes)  # (N, C)
    listed = (t >= 0).long().cumprod(1).bool()
    index = t.masked_fill(~listed, 0)
    is_target = ((index.unsqueeze(-1) == weft.arange(classes)) & listed.unsqueeze(-1)).any(1)  # (N, C)
    violation = (1 - x.gather(1, index).unsqueeze(-1) + x.unsqueeze(1)).relu()  # (N, targets, classes)
    counted = listed.unsqueeze(-1) & ~is_target.unsqueeze(1)
    loss = violation.masked_fill(~counted, 0).sum((1, 2)) / classes
    return reduced(loss.reshape(input.shape[:-1]), reduction)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """−Σ_c w_c (t_c log σ(x_c) + (1 − t_c) log σ(−x_c)) / C. Shape: (*, C), (*, C) → () or (*)."""
    reduction = chosen_reduction("multilabel_soft_margin_loss", reduction, size_average, reduce)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.mean(-1), reduction)


# --------------------------------------------------------------------------------------------- triplets


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(a, p) − d(a, n) + margin), d the p-norm of the difference; `swap`: min(d(a, n), d(p, n)).

    Shape: (N, D) × 3 or (D,) × 3 → () or (N,)
    """
    reduction = chosen_reduction("triplet_margin_loss", reduction, size_average, reduce)
    distance = lambda x, y: pairwise_distance(x, y, p, eps)
    return _triplet("triplet_margin_loss", anchor, positive, negative, distance, margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with any distance function of two tensors (by default `pairwise_distance`)."""
    name = "triplet_margin_with_distance_loss"
    reduction = chosen_reduction(name, reduction)
    return _triplet(name, anchor, positive, negative, distance_function or pairwise_distance, margin, swap, reduction)


def _triplet(
    name: str,
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    if margin <= 0:
        raise InvalidValueError(f"{name}: margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ShapeError(
            f"{name}: the anchor, positive, and negative tensors are expected to have the same number of dimensions, "
            f"but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((near - far + margin).clamp(min=0), reduction)
