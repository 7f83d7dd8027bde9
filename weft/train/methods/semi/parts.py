"""What the methods share: ramps, sharpened and aligned predictions, mixtures, distances of predictions, what is watched."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft

from ....errors import OptionError
from ....metrics.base import Metric, State
from ....nn import functional as F
from ....nn.module import Module
from ....nn.modules.batchnorm import BatchNorm
from ....tensor import Tensor

__all__ = [
    "PseudoLabelQuality",
    "Ramp",
    "beta_shares",
    "consistency",
    "entropy",
    "kl_divergence",
    "mixed",
    "sharpen",
    "soft_cross_entropy",
    "statistics_kept",
]


@dataclass(frozen=True)
class Ramp:
    """A weight that goes from 0 to 1 within `steps` steps, after `start` steps at 0.

    kind: "linear", t; or "sigmoid", exp(−5 (1 − t)²) (Laine and Aila 2017), where t is the share of the way that is done

    >>> ramp = Ramp(10)
    >>> [ramp(weft.tensor(step)).item() for step in (0, 5, 10, 20)]
    [0.0, 0.5, 1.0, 1.0]
    """

    steps: int
    kind: str = "linear"
    start: int = 0

    def __post_init__(self) -> None:
        if self.steps < 0 or self.start < 0 or self.kind not in ("linear", "sigmoid"):
            raise OptionError(
                f"Ramp: expected steps ≥ 0, start ≥ 0, kind 'linear' or 'sigmoid'; "
                f"got {self.steps}, {self.start}, {self.kind!r}"
            )

    def __call__(self, step: Tensor) -> Tensor:
        """The weight at a step, counted from 0: () → () float32"""
        done = ((step - self.start).float() / max(self.steps, 1)).clamp(0, 1)
        if self.steps == 0:
            done = (step >= self.start).float()
        return done if self.kind == "linear" else (-5 * (1 - done) ** 2).exp() * (step >= self.start).float()


def sharpen(p: Tensor, T: float) -> Tensor:
    """pᵢ^(1/T) / Σⱼ pⱼ^(1/T): T = 1 leaves p, T → 0 puts all on the largest. (…, C) → (…, C)

    >>> sharpen(weft.tensor([0.6, 0.4]), 0.5).round(decimals=4).tolist()
    [0.6923, 0.3077]
    """
    if T <= 0:
        raise OptionError(f"sharpen: expected a temperature T above 0, got {T}")
    return (p.clamp(min=1e-30).log() / T).softmax(-1)


def mixed(x: Tensor, other: Tensor, share: Tensor) -> Tensor:
    """λ x + (1 − λ) x′ with one λ a row (mixup; Zhang et al. 2018). (B, …), (B, …), (B) → (B, …)"""
    share = share.reshape(-1, *[1] * (x.ndim - 1))  # (B) → (B, 1, …)
    return share * x + (1 - share) * other


def beta_shares(alpha: float, count: int) -> Tensor:
    """max(λ, 1 − λ) for λ ~ Beta(α, α), as MixMatch draws them: (count)

    W ~ Beta(α + 1, α + 1) is ½ + ½ √(1 − U^(2 / (2α + 1))) cos 2πV (Ulrich 1984), and λ = W A / (W A + (1 − W) B) with
    A, B = U^(1/α): uniform draws alone, so that a compiled step keeps its native code.
    """
    if alpha <= 0:
        raise OptionError(f"beta_shares: expected alpha above 0, got {alpha}")
    radius, angle, first, second = weft.rand(4, count)
    w = 0.5 + 0.5 * (1 - radius ** (2 / (2 * alpha + 1))).sqrt() * (2 * math.pi * angle).cos()
    odds = w.clamp(min=1e-30).log() - (1 - w).clamp(min=1e-30).log()
    odds = odds + (first.clamp(min=1e-30).log() - second.clamp(min=1e-30).log()) / alpha
    return odds.abs().sigmoid()  # max(σ(a), 1 − σ(a)) = σ(|a|)


def entropy(logits: Tensor) -> Tensor:
    """−Σ p log p of softmax predictions, mean over rows: (B, C) → ()"""
    return -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1).mean()


def kl_divergence(p_logits: Tensor, q_logits: Tensor) -> Tensor:
    """KL(p ‖ q) = Σ p (log p − log q) of each row: (B, C), (B, C) → (B)"""
    p = p_logits.log_softmax(-1)
    return (p.exp() * (p - q_logits.log_softmax(-1))).sum(-1)


def soft_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """−Σ target log softmax(logits) of each row: (B, C), (B, C) → (B)"""
    return -(target * logits.log_softmax(-1)).sum(-1)


def consistency(logits: Tensor, target: Tensor) -> Tensor:
    """Mean squared distance of predictions to target probabilities: (B, C), (B, C) → ()"""
    return F.mse_loss(logits.softmax(-1), target)


@contextlib.contextmanager
def statistics_kept(model: Module) -> Iterator[None]:
    """Inside, batch normalisation normalises by batches as ever, and its running statistics stay as they are."""
    layers = [part for part in model.modules() if isinstance(part, BatchNorm) and part.track_running_stats]
    for layer in layers:
        layer.track_running_stats = False
    try:
        yield
    finally:
        for layer in layers:
            layer.track_running_stats = True


class PseudoLabelQuality(Metric):
    """Of pseudo-labels that were used: the share that is right, where the truth is known, and how many were used.

    Updates: pseudo-labels (M), weights or a mask (M), true labels (M) with −1 for unknown. `compute` gives a dict with
    'accuracy' (NaN while none was used) and 'utilisation'.

    >>> quality = PseudoLabelQuality()
    >>> quality.update(weft.tensor([0, 1, 1, 1]), weft.tensor([1.0, 1.0, 0.0, 0.0]), weft.tensor([0, 0, 1, -1]))
    >>> quality.compute()
    {'accuracy': 0.5, 'utilisation': 0.5}
    """

    fields = ("count", "used", "judged", "right")

    def measure(self, *batch: Any) -> State:
        said, mask, truth = (np.asarray(part.array if isinstance(part, Tensor) else part) for part in batch)
        mask, known = mask.astype(np.float64), truth >= 0
        sums = (mask.sum(), (mask * known).sum(), (mask * (known & (said == truth))).sum())
        return {"count": len(said), **{name: np.float64(x) for name, x in zip(self.fields[1:], sums, strict=True)}}

    def summarise(self, state: State) -> dict[str, float]:
        judged = float(state["judged"])
        accuracy = float(state["right"]) / judged if judged else math.nan
        return {"accuracy": accuracy, "utilisation": float(state["used"]) / float(state["count"])}
