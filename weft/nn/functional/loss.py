"""Losses for regression and classification: squared and absolute errors, likelihoods, cross entropies.

All take `reduction` ('none', 'mean', 'sum') and PyTorch's old flags `size_average` and `reduce`.
Margins and distances are in margin.py, the loss of unaligned sequences in ctc.py.
"""

from __future__ import annotations

import math
import warnings

import weft

from ...dtype import FLOAT, dtype, int64, result_dtype, uint8
from ...errors import DtypeError, IndexRangeError, ShapeError
from ...tensor import Tensor
from ._common import any_true, chosen_reduction, reduced, require_float, require_tensor, widened

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "gaussian_nll_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
]

# ------------------------------------------------------------------------------------------- regression


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(x − t)²; with weights w the mean is Σ w (x − t)² / Σ w. Shape: (*), (*) → () or (*)."""
    reduction = chosen_reduction("mse_loss", reduction, size_average, reduce)
    x, t = _pair("mse_loss", input, target, floating=True)
    return _weighted("mse_loss", (x - t).square(), weight, reduction, input, target)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """|x − t|; with weights w the mean is Σ w |x − t| / Σ w. Shape: (*), (*) → () or (*)."""
    reduction = chosen_reduction("l1_loss", reduction, size_average, reduce)
    x, t = _pair("l1_loss", input, target)
    return _weighted("l1_loss", (x - t).abs(), weight, reduction, input, target)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """d² / (2β) where |d| < β, else |d| − β/2, for d = x − t. Shape: (*), (*) → () or (*)."""
    reduction = chosen_reduction("smooth_l1_loss", reduction, size_average, reduce)
    if beta < 0:
        raise ValueError(f"smooth_l1_loss: does not support negative values for beta, got {beta}")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    x, t = _pair("smooth_l1_loss", input, target, floating=True)
    size = (x - t).abs()
    loss = weft.where(size < beta, size * size * (0.5 / beta), size - 0.5 * beta)
    return reduced(loss, reduction).to(_common_type(input, target))


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """d² / 2 where |d| ≤ δ, else δ (|d| − δ/2), for d = x − t; times the weights if given.

    Shape: (*), (*) → () or (*)
    """
    reduction = chosen_reduction("huber_loss", reduction)
    if delta <= 0:
        raise ValueError(f"huber_loss: does not support non-positive values for delta, got {delta}")
    x, t = _pair("huber_loss", input, target, floating=True)
    size = (x - t).abs()
    loss = weft.where(size <= delta, size * size * 0.5, (size - 0.5 * delta) * delta)
    if weight is not None:
        loss = loss * _fitting_weight("huber_loss", weight, input)
    return reduced(loss, reduction).to(_common_type(input, target))


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """½ (log v + (x − t)² / v), v = max(var, ε); with `full` plus ½ log 2π.

    The gradient of var passes the clamp. Shape: (*, D), (*, D), var (*, D), (*, 1), (*) or a number
    """
    name = "gaussian_nll_loss"
    reduction = chosen_reduction(name, reduction)
    x, t = _pair(name, input, target, warn=False)
    if isinstance(var, Tensor):
        var = _fitting_variance(name, input, *widened(var))
        if any_true(var < 0):
            raise ValueError(f"{name}: var has negative entry/entries, the smallest is {float(var.min())}")
        var = var + (var.detach().clamp(min=eps) - var.detach())
        logarithm = var.log()
    elif var < 0:
        raise ValueError(f"{name}: var has negative entry/entries: {var}")
    else:
        var = max(var, eps)
        logarithm = math.log(var)
    loss = 0.5 * (logarithm + (x - t).square() / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction).to(_common_type(input, target))


def _fitting_variance(name: str, input: Tensor, var: Tensor) -> Tensor:
    """var as (*, D) or (*, 1) beside an input (*, D)."""
    if var.shape == input.shape:
        return var
    if var.shape == input.shape[:-1]:
        return var.unsqueeze(-1)
    if tuple(input.shape[:-1]) == tuple(var.shape[:-1]) and var.ndim == input.ndim and var.shape[-1] == 1:
        return var
    raise ShapeError(
        f"{name}: var is of incorrect size {tuple(var.shape)} for input {tuple(input.shape)}; it may have that shape, "
        "or lack the last dimension, or have size 1 there"
    )


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """eˣ − t x for a log rate x, or x − t log(x + ε) for a rate x (log_input=False).

    `full` adds Stirling's t log t − t + ½ log 2πt where t > 1. Shape: (*), (*) → () or (*)
    """
    reduction = chosen_reduction("poisson_nll_loss", reduction, size_average, reduce)
    x, t = _pair("poisson_nll_loss", input, target, warn=False)
    loss = x.exp() - t * x if log_input else x - t * (x + eps).log()
    if full:
        large = t > 1
        safe = t.masked_fill(~large, 1)
        stirling = safe * safe.log() - safe + 0.5 * (2 * math.pi * safe).log()
        loss = loss + stirling.masked_fill(~large, 0)
    result = reduced(loss, reduction)
    return result.to(_common_type(input, target)) if _common_type(input, target).category >= FLOAT else result


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """t (log t − x) with x = input a log probability, t a probability; eᵗ (t − x) with log_target.

    `reduction='batchmean'` divides the sum by the size of dimension 0, which makes it the divergence
    Σ t log(t / p). Shape: (*), (*) → () or (*)
    """
    batch_mean = reduction == "batchmean"
    reduction = chosen_reduction("kl_div", "sum" if batch_mean else reduction, size_average, reduce)
    if reduction == "mean" and size_average is None and reduce is None:
        warnings.warn(
            "kl_div: reduction: 'mean' divides the total loss by both the batch size and the support size; "
            "'batchmean' divides only by the batch size, and aligns with the KL math definition",
            stacklevel=2,
        )
    x, t = _pair("kl_div", input, target, warn=False)
    if x.dtype.category < FLOAT or t.dtype.category < FLOAT:
        raise DtypeError(f"kl_div: integral inputs not supported, got {input.dtype} and {target.dtype}; use .float()")
    loss = t.exp() * (t - x) if log_target else t.xlogy(t) - t * x
    loss = reduced(loss, reduction)
    if batch_mean and input.ndim:
        loss = loss / input.shape[0]
    return loss.to(_common_type(input, target))


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
        raise ValueError(
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
    soft = (-x).logaddexp(0.0)
    if pos_weight is not None:
        soft = soft * ((pos_weight - 1) * t + 1)
    loss = (1 - t) * x + soft
    if weight is not None:
        loss = loss * weight
    return reduced(loss, reduction).to(_common_type(input, target))


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
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"{name}: label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    probabilities = target.shape == input.shape
    if probabilities:
        _check_probabilities(name, input, target, weight, ignore_index)
    else:
        _check_classes(name, input, target, weight)
    dim = 0 if input.ndim == 1 else 1
    x, w = widened(input, weight)
    scores = x.log_softmax(dim)
    if probabilities:
        loss = _expected_loss(scores, *widened(target), w, reduction, label_smoothing, dim)
        return loss.to(_common_type(input, target))
    return _class_loss(name, scores, target, w, ignore_index, reduction, label_smoothing, dim).to(input.dtype)


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


def _picked(name: str, scores: Tensor, index: Tensor, dim: int) -> Tensor:
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
        raise ValueError(f"{name}: ignore_index is not supported for floating point target, got {ignore_index}")
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


# ------------------------------------------------------------------------------------------------ shared


def _pair(name: str, input: Tensor, target: Tensor, floating: bool = False, warn: bool = True) -> tuple[Tensor, Tensor]:
    """Both as tensors to compute with, after PyTorch's warning about different sizes."""
    require_tensor(input, name)
    require_tensor(target, name, "target")
    if warn and target.shape != input.shape:
        warnings.warn(
            f"{name}: using a target size ({tuple(target.shape)}) that is different to the input size "
            f"({tuple(input.shape)}); this will likely lead to incorrect results due to broadcasting",
            stacklevel=3,
        )
    if floating and not _common_type(input, target).is_floating_point:
        raise DtypeError(f"{name}: not implemented for {input.dtype} and {target.dtype}; convert them with .float()")
    return widened(input, target)


def _common_type(input: Tensor, target: Tensor) -> dtype:
    return input.dtype if input.dtype is target.dtype else result_dtype((input, target))


def _fitting_weight(name: str, weight: Tensor, input: Tensor) -> Tensor:
    if weight.shape != input.shape:
        raise ShapeError(
            f"{name}: weights and input must have the same size, got {tuple(weight.shape)} and {tuple(input.shape)}"
        )
    return weight


def _weighted(name: str, loss: Tensor, weight: Tensor | None, reduction: str, input: Tensor, target: Tensor) -> Tensor:
    """The loss reduced; a mean with weights is divided by their sum."""
    kind = _common_type(input, target).to_real()
    if weight is None:
        result = reduced(loss, reduction)
    else:
        weight = _fitting_weight(name, weight, input)
        loss = loss * weight
        result = loss.sum() / weight.sum() if reduction == "mean" else reduced(loss, reduction)
    return result if result.dtype is kind else result.to(kind)
