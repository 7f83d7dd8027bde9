"""Connectionist temporal classification: the likelihood of a label sequence, summed over alignments."""

from __future__ import annotations

from typing import Any

import weft

from ...dtypes import FLOAT, float16
from ...errors import DtypeError, IndexRangeError, InvalidValueError, ShapeError
from ...tape.interpreter import interpreter_of
from ...tensor import Tensor
from ._common import any_true, chosen_reduction, require_float, require_tensor

__all__ = ["ctc_loss"]

LOG_ZERO = -1e30  # stands for log 0: finite, so that gradients stay numbers, yet no sum of steps reaches it
IMPOSSIBLE = -1e29


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """−log Σ_π Π_t p_t(π_t) over all paths π that give the target when repeats and blanks are removed.

    With the target l spread to l′ = (blank, l₁, blank, l₂, …, blank), the forward recursion is
    α_t(s) = p_t(l′_s) · (α_{t−1}(s) + α_{t−1}(s−1) + [l′_s is a label ≠ l′_{s−2}] α_{t−1}(s−2)), in logs.
    A target that no path gives (too few steps) has an infinite loss; its gradient is 0, and so is the
    loss with `zero_infinity`. The mean divides each loss by its target length first. As in PyTorch the
    gradient is the one for `log_probs` that are normalised (come from log_softmax).

    Shape: log_probs (T, N, C) or (T, C); targets (N, S) padded, or (sum of lengths,) one after the
    other; lengths (N,) or () → () or (N,)
    """
    reduction = chosen_reduction("ctc_loss", reduction)
    require_tensor(log_probs, "ctc_loss", "log_probs")
    require_tensor(targets, "ctc_loss", "targets")
    require_float(log_probs, "ctc_loss")
    batched = log_probs.ndim == 3
    if log_probs.ndim not in (2, 3):
        raise ShapeError(f"ctc_loss: expected log_probs (T, N, C) or (T, C), got shape {tuple(log_probs.shape)}")
    scores = log_probs if batched else log_probs.unsqueeze(1)
    steps = _lengths("input_lengths", input_lengths, scores.shape[1])
    sizes = _lengths("target_lengths", target_lengths, scores.shape[1])
    labels = _padded_targets(targets.long(), sizes, scores.shape[1])
    _check(scores, labels, steps, sizes, blank)
    labels = _cleared(labels, sizes, scores.shape[2])
    loss = _losses(scores, labels, steps, sizes, blank, zero_infinity)
    if reduction == "mean":
        return (loss / sizes.clamp(min=1)).mean()
    if reduction == "sum":
        return loss.sum()
    return loss if batched else loss.squeeze(0)


def _losses(scores: Tensor, labels: Tensor, steps: Tensor, sizes: Tensor, blank: int, zero_infinity: bool) -> Tensor:
    """The negative log likelihood of each example: (N,)."""
    bounded = scores.clamp(min=LOG_ZERO)
    forward = _forward(bounded, labels, steps, blank)  # (N, 2S + 1)
    last = 2 * sizes.unsqueeze(-1)
    ends = forward.gather(1, last).squeeze(-1)
    before = forward.gather(1, (last - 1).clamp(min=0)).squeeze(-1).masked_fill(sizes == 0, LOG_ZERO)
    likelihood = ends.logaddexp(before)
    impossible = likelihood < IMPOSSIBLE
    time = weft.arange(scores.shape[0]).unsqueeze(-1)  # (T, 1)
    within = (time < steps) & ~impossible  # (T, N)
    # Σ_c p_c is 1 for normalised inputs: a constant in value, whose slope p_c PyTorch's gradient contains
    mass = bounded.exp().sum(-1).masked_fill(~within, 0).sum(0)
    loss = -likelihood + (mass - mass.detach())
    return loss.masked_fill(impossible, 0.0 if zero_infinity else float("inf"))


def _forward(scores: Tensor, labels: Tensor, steps: Tensor, blank: int) -> Tensor:
    """log α at the last step of each example: (N, 2S + 1)."""
    examples, size = labels.shape
    blanks = weft.full_like(labels, blank)
    spread = weft.stack([blanks, labels], -1).reshape(examples, 2 * size)
    spread = weft.cat([spread, weft.full((examples, 1), blank, dtype=weft.int64)], 1)  # (N, 2S + 1)
    emitted = scores.gather(2, spread.expand(scores.shape[0], *spread.shape))  # (T, N, 2S + 1)
    place = weft.arange(2 * size + 1)
    two_back = weft.cat([weft.full((examples, 2), blank, dtype=weft.int64), spread], 1)[:, : 2 * size + 1]
    no_skip = (place % 2 == 0) | (spread == two_back) | (place < 2)  # even places hold blanks
    nothing = weft.full((examples, 2), LOG_ZERO, dtype=scores.dtype)
    # before the first step all mass lies on the first blank, from where the first label can also be reached
    alpha = weft.where(place == 0, 0.0, weft.full((examples, 2 * size + 1), LOG_ZERO, dtype=scores.dtype))
    for t, emission in enumerate(emitted.unbind(0)):
        shifted = weft.cat([nothing, alpha], 1)  # (N, 2S + 3): shifted[:, s + 2] = α(s)
        by_one = alpha.logaddexp(shifted[:, 1:-1])
        by_two = shifted[:, :-2].masked_fill(no_skip, LOG_ZERO)
        following = by_one.logaddexp(by_two) + emission
        alpha = weft.where((t < steps).unsqueeze(-1), following, alpha)
    return alpha


# ---------------------------------------------------------------------------------------- arguments


def _lengths(what: str, lengths: Any, examples: int) -> Tensor:
    """Lengths given as a number, a sequence or a tensor: (N,) of int64."""
    if not isinstance(lengths, Tensor):
        lengths = weft.tensor(lengths, dtype=weft.int64 if len(lengths) == 0 else None)
    if lengths.dtype.category >= FLOAT:
        raise DtypeError(f"ctc_loss: {what} must be integral, got {lengths.dtype}")
    lengths = lengths.reshape(-1).long()
    if lengths.shape[0] != examples:
        raise ShapeError(f"ctc_loss: {what} must be of size batch_size, {examples}, got {lengths.shape[0]}")
    if any_true(lengths < 0):
        raise InvalidValueError(
            f"ctc_loss: expected {what} to have value at least 0, but got value {int(lengths.min())}"
        )
    return lengths


def _padded_targets(targets: Tensor, sizes: Tensor, examples: int) -> Tensor:
    """Targets as (N, S), from that shape or from one line in which they follow each other."""
    if targets.ndim == 2:
        if targets.shape[0] != examples:
            raise ShapeError(f"ctc_loss: expected targets for {examples} examples, got shape {tuple(targets.shape)}")
        return targets
    if targets.ndim != 1:
        raise ShapeError(f"ctc_loss: targets must be 1D or 2D, got shape {tuple(targets.shape)}")
    if interpreter_of(sizes) is not None:  # the lengths are not known: none is longer than all together
        total = longest = targets.shape[0]
    else:
        total, longest = int(sizes.sum()), int(sizes.max()) if examples else 0
    if targets.shape[0] != total:
        raise ShapeError(
            f"ctc_loss: expected targets of size {total} (the sum of target_lengths), but got size {targets.shape[0]}"
        )
    if longest == 0:
        return targets.reshape(examples, 0)
    begin = sizes.cumsum(0) - sizes
    place = weft.arange(longest)
    index = (begin.unsqueeze(-1) + place).masked_fill(place >= sizes.unsqueeze(-1), 0)
    return targets[index]


def _cleared(labels: Tensor, sizes: Tensor, classes: int) -> Tensor:
    """The labels with 0 in place of the padding, which may hold anything."""
    labels = labels.masked_fill(weft.arange(labels.shape[1]) >= sizes.unsqueeze(-1), 0)
    if any_true((labels < 0) | (labels >= classes)):
        raise IndexRangeError(
            f"ctc_loss: targets must be labels in [0, {classes}), got values from "
            f"{int(labels.min())} to {int(labels.max())}"
        )
    return labels


def _check(scores: Tensor, labels: Tensor, steps: Tensor, sizes: Tensor, blank: int) -> None:
    time, examples, classes = scores.shape
    if examples == 0 or scores.numel() == 0:
        raise ShapeError(f"ctc_loss: log_probs tensor must not be empty, got shape {tuple(scores.shape)}")
    if not 0 <= blank < classes:
        raise InvalidValueError(f"ctc_loss: blank must be in label range [0, {classes}), got {blank}")
    if any_true(steps > time):
        raise ShapeError(
            f"ctc_loss: expected input_lengths to have value at most {time}, but got value {int(steps.max())}"
        )
    if any_true(sizes > labels.shape[1]):
        raise ShapeError(
            f"ctc_loss: expected targets to have size at least {int(sizes.max())} (the longest target) at dimension 1, "
            f"but got size {labels.shape[1]}"
        )
    if float16 is scores.dtype:
        raise DtypeError("ctc_loss: not implemented for float16; use float32 log probabilities")
