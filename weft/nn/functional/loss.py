"""Losses for regression and densities: squared and absolute errors, Gaussian and Poisson likelihoods, divergence.

All take `reduction` ('none', 'mean', 'sum') and PyTorch's old flags `size_average` and `reduce`.
Classes are in entropy.py, margins and distances in margin.py, unaligned sequences in ctc.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import weft

from ...dtypes import FLOAT
from ...errors import DtypeError, InvalidValueError, ShapeError
from ...ops.core.together import together
from ...tensor import Tensor
from ._common import any_true, chosen_reduction, common_type, reduced, require_tensor, widened

__all__ = [
    "gaussian_nll_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
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
    return _weighted("mse_loss", lambda x, t: (x - t).square(), x, t, weight, reduction, input, target)


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
    return _weighted("l1_loss", lambda x, t: (x - t).abs(), x, t, weight, reduction, input, target)


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
        raise InvalidValueError(f"smooth_l1_loss: does not support negative values for beta, got {beta}")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    x, t = _pair("smooth_l1_loss", input, target, floating=True)

    def distance(x: Tensor, t: Tensor) -> Tensor:
        size = (x - t).abs()
        return weft.where(size < beta, size * size * (0.5 / beta), size - 0.5 * beta)

    return _reduced_distance(distance, x, t, reduction).to(common_type(input, target))


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """d² / 2 where |d| ≤ δ, else δ (|d| − δ/2), for d = x − t; times the weights if given.

    Shape: (*), (*) → () or (*)
    """
    reduction = chosen_reduction("huber_loss", reduction)
    if delta <= 0:
        raise InvalidValueError(f"huber_loss: does not support non-positive values for delta, got {delta}")
    x, t = _pair("huber_loss", input, target, floating=True)

    def distance(x: Tensor, t: Tensor) -> Tensor:
        size = (x - t).abs()
        return weft.where(size <= delta, size * size * 0.5, (size - 0.5 * delta) * delta)

    if weight is None:
        loss = _reduced_distance(distance, x, t, reduction)
    else:
        loss = reduced(distance(x, t) * _fitting_weight("huber_loss", weight, input), reduction)
    return loss.to(common_type(input, target))


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """½ (log v + (x − t)² / v), v = max(var, ε); with `full` plus ½ log 2π.

    The gradient of var passes the clamp. Shape: (*, D), (*, D), var (*, D), (*), (*, D) with one size 1, or a number
    """
    name = "gaussian_nll_loss"
    reduction = chosen_reduction(name, reduction)
    x, t = _pair(name, input, target, warn=False)
    if isinstance(var, Tensor):
        var = _fitting_variance(name, input, *widened(var))
        if any_true(var < 0):
            raise InvalidValueError(f"{name}: var has negative entry/entries, the smallest is {float(var.min())}")
        var = var + (var.detach().clamp(min=eps) - var.detach())
        logarithm = var.log()
    elif var < 0:
        raise InvalidValueError(f"{name}: var has negative entry/entries: {var}")
    else:
        var = max(var, eps)
        logarithm = math.log(var)
    loss = 0.5 * (logarithm + (x - t).square() / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction).to(common_type(input, target))


def _fitting_variance(name: str, input: Tensor, var: Tensor) -> Tensor:
    """var as (*, D), or with one dimension of size 1, beside an input (*, D)."""
    if var.shape == input.shape:
        return var
    if var.shape == input.shape[:-1]:
        return var.unsqueeze(-1)
    if var.ndim == input.ndim and [v for v, size in zip(var.shape, input.shape, strict=True) if v != size] == [1]:
        return var
    raise ShapeError(
        f"{name}: var is of incorrect size {tuple(var.shape)} for input {tuple(input.shape)}; it may have that shape, "
        "or lack the last dimension, or have size 1 in one dimension"
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
    return result.to(common_type(input, target)) if common_type(input, target).category >= FLOAT else result


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
    return loss.to(common_type(input, target))


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
    if floating and not common_type(input, target).is_floating_point:
        raise DtypeError(f"{name}: not implemented for {input.dtype} and {target.dtype}; convert them with .float()")
    return widened(input, target)


def _fitting_weight(name: str, weight: Tensor, input: Tensor) -> Tensor:
    if weight.shape != input.shape:
        raise ShapeError(
            f"{name}: weights and input must have the same size, got {tuple(weight.shape)} and {tuple(input.shape)}"
        )
    return weight


def _reduced_distance(distance: Callable[[Tensor, Tensor], Tensor], x: Tensor, t: Tensor, reduction: str) -> Tensor:
    return together(lambda x, t: reduced(distance(x, t), reduction), x, t)


def _weighted(
    name: str,
    distance: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    t: Tensor,
    weight: Tensor | None,
    reduction: str,
    input: Tensor,
    target: Tensor,
) -> Tensor:
    """The distance of x from t reduced; a mean with weights is divided by their sum."""
    kind = common_type(input, target).to_real()
    if weight is None:
        result = _reduced_distance(distance, x, t, reduction)
    else:
        weight = _fitting_weight(name, weight, input)
        loss = distance(x, t) * weight
        result = loss.sum() / weight.sum() if reduction == "mean" else reduced(loss, reduction)
    return result if result.dtype is kind else result.to(kind)
