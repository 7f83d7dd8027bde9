"""Incomplete beta function and quantiles that distributions need: SciPy's functions with their derivatives.

Derivatives are with respect to the argument (the density) or the probability (its reciprocal); the quantile of the
gamma distribution also has one in its shape (see `implicit_gamma.py`).
"""

from __future__ import annotations

import numpy as np

from ...dtypes import FLOAT
from ...runtime.lazy import LazyModule
from ...tensor import Tensor
from ..core.pointwise import Elementwise
from ..core.primitive import PRIMITIVES, register_module
from .implicit_gamma import LOG_GAMMA_SLOPE
from .special import no_slope

sp = LazyModule("scipy.special")


class Quantile(Elementwise, abstract=True):
    """A function of floating-point tensors without a public name of its own."""

    public, categories = False, (FLOAT, FLOAT)


class Betainc(Quantile):
    """I(a, b, x) = ∫₀ˣ tᵃ⁻¹ (1 − t)ᵇ⁻¹ dt / B(a, b): the distribution function of the beta distribution."""

    def reference(self, a, b, x):
        return np.asarray(sp.betainc(a, b, x))

    def vjp(self, g, y, a, b, x):
        return (
            lambda: no_slope("betainc", "a"),
            lambda: no_slope("betainc", "b"),
            lambda: g * beta_density(a, b, x),
        )


class Betaincinv(Quantile):
    """The x with I(a, b, x) = p: the quantile of the beta distribution."""

    def reference(self, a, b, p):
        return np.asarray(sp.betaincinv(a, b, p))

    def vjp(self, g, y, a, b, p):
        return (
            lambda: no_slope("betaincinv", "a"),
            lambda: no_slope("betaincinv", "b"),
            lambda: g / beta_density(a, b, y),
        )


class Gammaincinv(Quantile):
    """The x with P(a, x) = p: the quantile of the gamma distribution of rate 1."""

    def reference(self, a, p):
        return np.asarray(sp.gammaincinv(a, p))

    def vjp(self, g, y, a, p):
        return lambda: g * y * LOG_GAMMA_SLOPE(a, y.log()), lambda: g / gamma_density(a, y)


def beta_density(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """xᵃ⁻¹ (1 − x)ᵇ⁻¹ / B(a, b)."""
    normaliser = a.lgamma() + b.lgamma() - (a + b).lgamma()
    return ((a - 1) * x.log() + (b - 1) * (-x).log1p() - normaliser).exp()


def gamma_density(a: Tensor, x: Tensor) -> Tensor:
    """xᵃ⁻¹ e⁻ˣ / Γ(a)."""
    return ((a - 1) * x.log() - x - a.lgamma()).exp()


register_module(__name__)
betainc, betaincinv, gammaincinv = (PRIMITIVES[name] for name in ("Betainc", "Betaincinv", "Gammaincinv"))
__all__ = ["betainc", "betaincinv", "gammaincinv"]
