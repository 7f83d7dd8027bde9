"""Cross entropies: losses for the probabilities of two classes and of many."""

from __future__ import annotations

from typing import Any

import weft

from ...dtypes import int64, uint8
from ...errors import DtypeError, IndexRangeError, InvalidValueError, OptionError, ShapeError
from ...ops.core.casting import raised
from ...ops.core.together import together
from ...ops.index.places import check_places
from ...ops.layers.fused import CLASS_ENTROPY
from ...tape.interpreter import interpreter_of
from ...tape.modes import mode, switches
from ...tensor import Tensor
from ._common import (
    any_true,
    chosen_reduction,
    common_type,
    log1pexp,
    reduced,
    require_float,
    require_tensor,
    value_range,
    widened,
)
from .attention import linear

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "linear_cross_entropy",
    "nll_loss",
]

# ------------------------------------------------------------------------------------- two classes


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """−w (t log p + (1 − t) log(1 − p)), the logarithms bounded by −100, for probabilities p in [0, 1].

    Shape: (*), (*), weight broadcasting to it → () or (*)
    """
    name = "binary_cross_entropy"
    reduction = chosen_reduction(name, reduction, size_average, reduce)
    require_tensor(input, name)
    require_float(input, name)
    if target.shape != input.shape:
        raise ShapeError(
            f"{name}: using a target size {tuple(target.shape)} that is different to the input size "
            f"{tuple(input.shape)}; please ensure they have the same size"
        )
    if target.dtype is not input.dtype:
        raise DtypeError(f"{name}: found target of {target.dtype} but expected {input.dtype}; convert it with .to(...)")
    if any_true((input < 0) | (input > 1)):
        raise OptionError(
            f"{name}: all elements of input should be between 0 and 1; apply sigmoid, or use the _with_logits form"
        )
    p, t = widened(input, target)
    loss = (t - 1) * _bounded_log(1 - p) - t * _bounded_log(p)
    if weight is not None:
        loss = loss * weight
    return reduced(loss, reduction).to(input.dtype)


def _bounded_log(p: Tensor) -> Tensor:
    """max(log p, −100) with slope 1 / max(p, 1e−12): finite at 0 and still pointing away from it."""
    value = p.detach()
    logarithm = (p + (value.clamp(min=1e-12) - value)).log()
    return logarithm + (value.log().clamp(min=-100) - logarithm.detach())


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """−w (c t log σ(x) + (1 − t) log(1 − σ(x))) for logits x, without overflow; c = pos_weight.

    Computed as w ((1 − t) x + (1 + (c − 1) t) log(1 + e⁻ˣ)). Shape: (*), (*) → () or (*)
    """
    name = "binary_cross_entropy_with_logits"
    reduction = chosen_reduction(name, reduction, size_average, reduce)
    require_tensor(input, name)
    if switches.casting:
        input, target = raised(input, target)
    require_float(input, name)
    if target.shape != input.shape:
        raise ShapeError(
            f"{name}: target size {tuple(target.shape)} must be the same as input size {tuple(input.shape)}"
        )
    if not target.is_floating_point():
        raise DtypeError(
            f"{name}: expected a floating-point target, got {target.dtype}; convert it with .to(input.dtype)"
        )
    x, t = widened(input, target)
    if pos_weight is None and weight is None:
        loss = together(lambda x, t: reduced((1 - t) * x + log1pexp(-x), reduction), x, t)
        return loss.to(common_type(input, target))
    soft = log1pexp(-x)
    if pos_weight is not None:
        soft = soft * ((pos_weight - 1) * t + 1)
    loss = (1 - t) * x + soft
    if weight is not None:
        loss = loss * weight
    return reduced(loss, reduction).to(common_type(input, target))


# ----------------------------------------------------------------------------------------- many classes


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """−Σ_c w_c q_c log softmax(x)_c, with q the target: a class number, or a probability for each class.

    Class numbers equal to `ignore_index` count nothing; the mean is weighted by w. Label smoothing ε
    replaces q by (1 − ε) q + ε / C.
    Shape: (C,), (N, C) or (N, C, *) with target (), (N,), (N, *), or probabilities of the input's shape
    """
    name = "cross_entropy"
    reduction = chosen_reduction(name, reduction, size_average, reduce)
    require_tensor(input, name)
    require_tensor(target, name, "target")
    if switches.casting:
        input, weight = raised(input, weight)
    if not 0.0 <= label_smoothing <= 1.0:
        raise InvalidValueError(f"{name}: label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    probabilities = target.shape == input.shape
    if probabilities:
        _check_probabilities(name, input, target, weight, ignore_index)
    else:
        _check_classes(name, input, target, weight)
    dim = 0 if input.ndim == 1 else 1
    x, w = widened(input, weight)
    if not probabilities and not label_smoothing and _every_row_counts(target, input.shape[dim], ignore_index):
        return _row_loss(x, target.long(), w, reduction, dim).to(input.dtype)
    scores = x.log_softmax(dim)
    if probabilities:
        loss = _expected_loss(scores, *widened(target), w, reduction, label_smoothing, dim)
        return loss.to(common_type(input, target))
    return _class_loss(name, scores, target, w, ignore_index, reduction, label_smoothing, dim).to(input.dtype)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """cross_entropy(x Wᵀ + b, target): the last layer and its loss in one call.

    `options` (PyTorch's settings for computing it in pieces) is accepted and changes nothing.
    Shape: (N, in) or (in,), linear_weight (C, *, in), linear_bias (C, *); target as in `cross_entropy`
    """
    name = "linear_cross_entropy"
    if linear_weight.ndim < 2 or input.ndim not in (1, 2) or input.shape[-1] != linear_weight.shape[-1]:
        raise ShapeError(
            f"{name}: expected input (N, in) or (in,) and linear_weight (C, *, in), got {tuple(input.shape)} and "
            f"{tuple(linear_weight.shape)}"
        )
    if linear_weight.ndim > 2 and input.ndim == 1:
        raise ShapeError(f"{name}: linear_weight {tuple(linear_weight.shape)} needs a batched input (N, in)")
    if linear_bias is not None and linear_bias.shape != linear_weight.shape[:-1]:
        raise ShapeError(
            f"{name}: linear_bias {tuple(linear_bias.shape)} does not fit linear_weight {tuple(linear_weight.shape)}"
        )
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight.reshape(-1, input.shape[-1]), bias)
    logits = logits.reshape(*input.shape[:-1], *linear_weight.shape[:-1])  # (N, C, *)
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """−w_t x_t for log probabilities x and class numbers t; the mean is weighted by w.

    Shape: (C,), (N, C) or (N, C, *) with target (), (N,) or (N, *) → () or the target's
    """
    reduction = chosen_reduction("nll_loss", reduction, size_average, reduce)
    require_tensor(input, "nll_loss")
    require_tensor(target, "nll_loss", "target")
    _check_classes("nll_loss", input, target, weight)
    dim = 0 if input.ndim == 1 else 1
    x, w = widened(input, weight)
    return _class_loss("nll_loss", x, target, w, ignore_index, reduction, 0.0, dim).to(input.dtype)


def _class_loss(
    name: str,
    scores: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    smoothing: float,
    dim: int,
) -> Tensor:
    """The negative log probability of each target class, reduced with the weights of the classes."""
    target = target.long()
    if mode.interpreter is not None:
        check_places(target, scores.shape[dim], dim, f"{name}: a target is no class number", skip=ignore_index)
    index = target.unsqueeze(dim) if target.ndim < scores.ndim else target  # (N, 1, *): the class dimension stays
    ignored = index == ignore_index
    index = index.masked_fill(ignored, 0)
    loss = -_picked(name, scores, index, dim)
    if weight is None:
        loss = loss.masked_fill(ignored, 0)
        total = (~ignored).sum(dtype=scores.dtype) if reduction == "mean" else None
    else:
        kept = weight.index_select(0, index.reshape(-1)).reshape(index.shape).masked_fill(ignored, 0)
        loss = loss.masked_fill(ignored, 0) * kept
        total = kept.sum() if reduction == "mean" else None
    if smoothing:
        weighted = scores if weight is None else scores * _along(weight, scores, dim)
        spread = weighted.sum(dim, keepdim=True).masked_fill(ignored, 0)
        loss = (1 - smoothing) * loss - (smoothing / scores.shape[dim]) * spread
    if reduction == "none":
        return loss.squeeze(dim)
    return loss.sum() / total if reduction == "mean" else loss.sum()


def _every_row_counts(target: Tensor, classes: int, ignore_index: int) -> bool:
    """Whether every target is known to be a class number and none is to be ignored."""
    if interpreter_of(target) is not None or target.numel() == 0:
        return False
    low, high = value_range(target)
    if low < 0 or high >= classes:
        return False
    return not low <= ignore_index <= high or not any_true(target == ignore_index)


def _row_loss(x: Tensor, target: Tensor, weight: Tensor | None, reduction: str, dim: int) -> Tensor:
    """Cross entropy with class numbers, one primitive for all rows."""
    classes, shape = x.shape[dim], target.shape
    if x.ndim != 2:
        x = (x if dim == 0 else x.movedim(1, -1)).reshape(-1, classes)  # (N, C, *) → (N·*, C)
        target = target.reshape(-1)
    if reduction == "mean" and weight is None:
        return CLASS_ENTROPY(x, target, mean=True)[0]
    loss = CLASS_ENTROPY(x, target, mean=False)[0]
    if weight is not None:
        kept = weight.index_select(0, target)
        loss = loss * kept
        if reduction == "mean":
            return loss.sum() / kept.sum()
    return reduced(loss, reduction) if reduction != "none" else loss.reshape(shape if dim else ())


def _picked(name: str, scores: Tensor, index: Tensor, dim: int) -> Tensor:
    if mode.interpreter is not None:  # compared class by class, which fuses with what stands around it
        numbers = weft.arange(scores.shape[dim], dtype=weft.int32)
        numbers = numbers.reshape(-1, *(1,) * (scores.ndim - 1 - dim % scores.ndim))
        return weft.where(numbers == index.to(weft.int32), scores, 0).sum(dim, keepdim=True)
    try:
        return scores.gather(dim, index)
    except IndexRangeError as error:
        raise IndexRangeError(
            f"{name}: a target is out of bounds, expected class numbers in [0, {scores.shape[dim]}) ({error})"
        ) from None


def _expected_loss(
    scores: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float, dim: int
) -> Tensor:
    """−Σ_c w_c q_c log p_c; its mean is over everything but the classes."""
    if smoothing:
        target = target * (1 - smoothing) + smoothing / scores.shape[dim]
    if weight is not None:
        target = target * _along(weight, scores, dim)
    loss = -(scores * target).sum(dim)
    return reduced(loss, reduction)


def _along(weight: Tensor, x: Tensor, dim: int) -> Tensor:
    """(C,) → (C, 1, …), to be broadcast along dimension `dim` of x."""
    return weight.reshape(-1, *(1,) * (x.ndim - dim - 1))


def _check_weight(name: str, input: Tensor, weight: Tensor | None) -> None:
    classes = input.shape[0] if input.ndim == 1 else input.shape[1]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise ShapeError(
            f"{name}: weight tensor should be defined either for all {classes} classes or no classes but got weight "
            f"tensor of shape: {list(weight.shape)}"
        )
    if weight is not None and weight.dtype is not input.dtype:
        raise DtypeError(
            f"{name}: expected weight of type {input.dtype} but found {weight.dtype}; convert it with .to(...)"
        )


def _check_probabilities(name: str, input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int) -> None:
    if not target.is_floating_point():
        raise DtypeError(
            f"{name}: expected floating point type for target with class probabilities (same shape as the input, "
            f"{tuple(input.shape)}), got {target.dtype}"
        )
    if ignore_index >= 0:
        raise InvalidValueError(f"{name}: ignore_index is not supported for floating point target, got {ignore_index}")
    require_float(input, name)
    if input.ndim == 0:
        raise ShapeError(f"{name}: expected an input with 1 or more dimensions (got 0)")
    _check_weight(name, input, weight)


def _check_classes(name: str, input: Tensor, target: Tensor, weight: Tensor | None) -> None:
    require_float(input, name)
    if input.ndim == 0:
        raise ShapeError(f"{name}: expected an input with 1 or more dimensions (got 0)")
    if target.dtype not in (int64, uint8):
        raise DtypeError(f"{name}: expected target dtype to be int64 or uint8, but got {target.dtype}; use .long()")
    if input.ndim > 1 and target.ndim and input.shape[0] != target.shape[0]:
        raise ShapeError(
            f"{name}: expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0]})"
        )
    expected = (*input.shape[:1], *input.shape[2:]) if input.ndim > 1 else ()
    if tuple(target.shape) != expected and not (input.ndim == 1 and tuple(target.shape) == (1,)):
        raise ShapeError(
            f"{name}: expected target size {list(expected)} for input {list(input.shape)}, got {list(target.shape)}; "
            "the target has one class number for each place, without the class dimension"
        )
    _check_weight(name, input, weight)
