"""Noise that a denoising autoencoder must undo (Vincent et al. 2010; N1 §7.1): it sees x̃, and x is what it should say.

Each is a function (x, generator) → x̃ for `Autoencoder(…, noise=…)`; drawn anew at every step, in the compiled plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import weft

from ...errors import OptionError
from ...tensor import Tensor

__all__ = ["GaussianNoise", "Masking", "SaltAndPepper"]


@dataclass(frozen=True)
class Masking:
    """A share ν of the elements, each on its own, is set to 0; the others stay as they are (they are not scaled up)."""

    share: float

    def __post_init__(self) -> None:
        _check_share(self)

    def __call__(self, x: Tensor, generator: Any = None) -> Tensor:
        return weft.where(_uniform(x, generator) < self.share, 0.0, x)


@dataclass(frozen=True)
class GaussianNoise:
    """x̃ = x + σ ε. With squared errors the best answer is E[x | x̃], and (r(x) − x) / σ² the score of the noisy data."""

    std: float

    def __post_init__(self) -> None:
        if not self.std > 0:
            raise OptionError(f"GaussianNoise: the standard deviation must be > 0, got {self.std}")

    def __call__(self, x: Tensor, generator: Any = None) -> Tensor:
        return x + self.std * weft.randn(x.shape, dtype=x.dtype, generator=generator)


@dataclass(frozen=True)
class SaltAndPepper:
    """A share ν of the elements becomes the least or the greatest value, either as often."""

    share: float
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        _check_share(self)

    def __call__(self, x: Tensor, generator: Any = None) -> Tensor:
        u = _uniform(x, generator)
        return weft.where(u < self.share / 2, self.low, weft.where(u < self.share, self.high, x))


def _uniform(x: Tensor, generator: Any) -> Tensor:
    return weft.rand(x.shape, dtype=x.dtype, generator=generator)


def _check_share(noise: Masking | SaltAndPepper) -> None:
    if not 0 <= noise.share <= 1:
        raise OptionError(f"{type(noise).__name__}: the share must lie in [0, 1], got {noise.share}")
