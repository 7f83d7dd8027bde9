"""Neural spline flow: couplings or autoregressive maps whose elements go through rational-quadratic splines (Durkan et al. 2019)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...errors import OptionError
from .base import Flow
from .bijector import Bijector
from .coupling import RowCoupling
from .linear import LULinear
from .maf import MAF
from .noise import Noise, UniformNoise
from .spline import CircularSpline, RationalQuadraticSpline

__all__ = ["CircularSplineFlow", "NeuralSplineFlow"]


class NeuralSplineFlow(Flow):
    """Splines between linear maps; outside of [−bound, bound] only the linear maps act.

    kind: "coupling" (both directions one pass) or "autoregressive" (quick densities, D passes to draw)

    >>> import weft
    >>> NeuralSplineFlow(2, (16,), transforms=2).log_prob(weft.tensor([[0.0, 100.0]])).isfinite()
    tensor([True])
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int] = (64, 64),
        transforms: int = 4,
        *,
        bins: int = 8,
        bound: float = 3.0,
        kind: str = "coupling",
        noise: Noise | None = None,
        context: int = 0,
        dtype: Any = None,
    ) -> None:
        if kind not in ("coupling", "autoregressive"):
            raise OptionError(f"NeuralSplineFlow: kind is 'coupling' or 'autoregressive', got {kind!r}")
        maps: list[Bijector] = []
        for number in range(transforms):
            spline, options = RationalQuadraticSpline(bins, bound), {"context": context, "dtype": dtype}
            if kind == "coupling":
                maps.append(RowCoupling(features, hidden, spline, swap=bool(number % 2), **options))
            else:
                maps.append(MAF(features, hidden, spline, order="reversed" if number % 2 else "natural", **options))
            maps.append(LULinear(features, dtype=dtype))
        super().__init__(maps, features if noise is None else noise, context=context, dtype=dtype)


class CircularSplineFlow(Flow):
    """Densities on a torus, x ∈ [−π, π)ᵈ: uniform noise through circular splines, each angle given those before it.

    Networks see cosines and sines, splines close to circles: the density has no seam at ±π.
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int] = (64, 64),
        transforms: int = 2,
        *,
        bins: int = 8,
        context: int = 0,
        dtype: Any = None,
    ) -> None:
        options = {"angles": True, "context": context, "dtype": dtype}
        orders = ["reversed" if number % 2 else "natural" for number in range(transforms)]
        maps = [MAF(features, hidden, CircularSpline(bins), order=order, **options) for order in orders]
        super().__init__(maps, UniformNoise(features, -math.pi, math.pi, dtype), context=context)
