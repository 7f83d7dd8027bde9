"""NICE: additive couplings, which keep volumes, and one scaling at the end (Dinh, Krueger and Bengio 2015, N1 def. 10.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .base import Flow
from .bijector import Bijector
from .coupling import RowCoupling
from .linear import Scaling
from .noise import GaussianNoise, LogisticNoise, Noise
from .univariate import Shift

__all__ = ["NICE"]


class NICE(Flow):
    """x = s ⊙ f(z), f of additive couplings between even and odd elements in turn; log|det| = Σ log s.

    noise: "logistic" (as for images in the paper) or "gaussian"

    >>> import weft
    >>> NICE(4, (8,)).log_prob(weft.zeros(2, 4)).shape
    weft.Size([2])
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int] = (1000, 1000, 1000, 1000, 1000),
        couplings: int = 4,
        noise: str | Noise = "logistic",
        *,
        context: int = 0,
        dtype: Any = None,
    ) -> None:
        kinds = {"logistic": LogisticNoise, "gaussian": GaussianNoise}
        maps: list[Bijector] = [
            RowCoupling(
                features, hidden, Shift(), pattern="alternate", swap=bool(number % 2), context=context, dtype=dtype
            )
            for number in range(couplings)
        ]
        start = noise if isinstance(noise, Noise) else kinds[noise](features, dtype=dtype)
        super().__init__([*maps, Scaling(features, dtype=dtype)], start, context=context)
