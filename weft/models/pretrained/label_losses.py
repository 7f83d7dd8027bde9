"""The losses that models compute when they are given labels: those of transformers, −100 being no label."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor

__all__ = ["class_loss", "next_token_loss", "replaced_loss", "span_loss", "token_loss"]

F = nn.functional
IGNORED = -100
PROBLEMS = ("regression", "single_label_classification", "multi_label_classification")


def token_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy over the places with a label. Shape: (B, T, V), (B, T) → ()"""
    if tuple(labels.shape) != tuple(logits.shape[:-1]):
        raise ShapeError(f"labels: expected {tuple(logits.shape[:-1])}, one for each token, got {tuple(labels.shape)}")
    if logits.dtype in (weft.float16, weft.bfloat16):
        logits = logits.float()  # sums over a vocabulary need more digits
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED)


def next_token_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy of place t with label t + 1: labels are mostly the tokens themselves. (B, T, V), (B, T) → ()"""
    if labels.ndim != 2:
        raise ShapeError(f"labels: expected (B, T), one for each token, got {tuple(labels.shape)}")
    shifted = weft.cat([labels[:, 1:], labels.new_full((len(labels), 1), IGNORED)], 1)  # nothing follows the last
    return token_loss(logits, shifted)


def class_loss(logits: Tensor, labels: Tensor, config: Any) -> Tensor:
    """What config.problem_type names: mean squared error, cross entropy, or binary cross entropy for every class.

    Unless given: regression for one class, cross entropy for integer labels, else many labels at once. (B, K), labels → ()
    """
    kind = config.problem_type
    if kind is None:
        integers = not (labels.is_floating_point() or labels.dtype is weft.bool)
        kind = PROBLEMS[0] if config.num_labels == 1 else PROBLEMS[1] if integers else PROBLEMS[2]
    if kind == "regression":
        return F.mse_loss(logits.reshape(labels.shape), labels)
    if kind == "single_label_classification":
        return F.cross_entropy(logits.reshape(-1, config.num_labels), labels.reshape(-1), ignore_index=IGNORED)
    if kind == "multi_label_classification":
        return F.binary_cross_entropy_with_logits(logits, labels)
    raise OptionError(f"problem_type: expected one of {', '.join(PROBLEMS)}, got {kind!r}")


def span_loss(start_logits: Tensor, end_logits: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """The mean of two cross entropies; places beyond the text do not count. Shape: (B, T) twice, (B,) twice → ()"""
    length = start_logits.shape[1]
    pairs = ((start_logits, starts), (end_logits, ends))
    losses = [F.cross_entropy(x, y.reshape(-1).clamp(0, length), ignore_index=length) for x, y in pairs]
    return (losses[0] + losses[1]) / 2


def replaced_loss(logits: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
    """Mean binary cross entropy over the tokens that are no padding. Shape: (B, T) three times → ()"""
    losses = F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
    if mask is None:
        return losses.mean()
    counts = (mask == 1).to(losses.dtype)
    return (losses * counts).sum() / counts.sum()
