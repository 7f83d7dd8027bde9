"""Penalties for sparse codes: small sums, or units that are seldom on (N1 §7.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import weft

from ...errors import OptionError
from ...tensor import Tensor

if TYPE_CHECKING:
    from .autoencoder import Autoencoder

__all__ = ["KLSparsity", "L1Sparsity"]


@dataclass(frozen=True)
class L1Sparsity:
    """λ · mean over rows of Σⱼ |zⱼ|. The decoder's weights must be kept from growing, or codes shrink for nothing."""

    weight: float

    def __call__(self, model: Autoencoder, x: Tensor, z: Tensor, generator: Any = None) -> Tensor:
        return self.weight * z.abs().flatten(1).sum(1).mean()


@dataclass(frozen=True)
class KLSparsity:
    """β Σⱼ KL(ρ ‖ ρ̂ⱼ) = β Σⱼ ρ log ρ/ρ̂ⱼ + (1 − ρ) log (1 − ρ)/(1 − ρ̂ⱼ), ρ̂ⱼ the mean of unit j over the batch.

    For codes in (0, 1), as sigmoid units have; small batches make ρ̂ noisy.
    share: ρ, how often a unit should be on
    """

    weight: float
    share: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise OptionError(f"KLSparsity: the share must lie in (0, 1), got {self.share}")

    def __call__(self, model: Autoencoder, x: Tensor, z: Tensor, generator: Any = None) -> Tensor:
        on = z.mean(0)
        asked = weft.full_like(on, self.share)
        terms = weft.xlogy(asked, asked / on) + weft.xlogy(1 - asked, (1 - asked) / (1 - on))
        return self.weight * terms.sum()
