"""NICE: additive couplings, which keep volumes, and one scaling at the end (Dinh, Krueger and Bengio 2015, N1 def. 10.4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import weft

from ...errors import ShapeError
from ...tensor import Tensor
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

    @weft.no_grad()
    def start(self, x: Tensor) -> Self:
        """Begin where every element has its own scale and mean, those of data x: (N, features).

        sᵢ = std(xᵢ) / std(noise), and the last biases of the two couplings next to the data are the means of xᵢ / sᵢ. From
        s = 1 an optimiser whose steps are of size lr would need thousands of them for elements that hardly vary.
        """
        first, second, scaling = list(self.bijector.parts)[-3:]
        if x.ndim != 2 or x.shape[1] != len(scaling.log_scale) or len(x) < 2:
            raise ShapeError(f"NICE.start: expected x of shape (N > 1, {len(scaling.log_scale)}), got {tuple(x.shape)}")
        spread = math.pi / math.sqrt(3) if isinstance(self.noise, LogisticNoise) else 1.0
        scale = (x.std(0) / spread).clamp(min=1e-6)
        scaling.log_scale.copy_(scale.log())
        for coupling in (first, second):
            coupling.net.last.bias.copy_(coupling.parted((x.mean(0) / scale).unsqueeze(0))[1].squeeze(0))
        return self
