"""Gamma variates that know how they move with their concentration: implicit reparameterisation.

A draw z of Gamma(α, 1) is the quantile of some probability u: F(z; α) = u. Holding u and moving α gives

    dz/dα = −(∂F/∂α) / f(z; α),        d log z / dα = (1/z) dz/dα

(Figurnov, Mohamed and Mnih 2018). The derivative is computed in float64 by one of three formulas whose terms all
have one sign, so that nothing cancels; samples come as logarithms, because Gamma(α) underflows for small α.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...dtypes import FLOAT, finfo
from ...errors import DtypeError
from ...runtime.lazy import LazyModule
from ...tensor import Tensor
from ..core.pointwise import Elementwise
from ..core.primitive import PRIMITIVES, register_module
from ..create.sample import draw
from .elementwise import where

sp = LazyModule("scipy.special")

SERIES_BELOW = 30.0  # largest concentration for which the power series needs few terms
SERIES_TERMS, NODES = 80, 64

# ------------------------------------------------------------------------------------ the derivative


def log_gamma_slope(concentration: np.ndarray, log_sample: np.ndarray) -> np.ndarray:
    """d log z / dα of a Gamma(α, 1) variate z at fixed probability, in float64, element by element."""
    alpha, log_z = np.broadcast_arrays(np.asarray(concentration, np.float64), np.asarray(log_sample, np.float64))
    slope = np.empty(alpha.shape)
    low = log_z <= sp.psi(alpha + 1)
    small = alpha < SERIES_BELOW
    for chosen, formula in ((low & small, _series), (low & ~small, _lower_integral), (~low, _upper_integral)):
        if chosen.any():
            slope[chosen] = formula(alpha[chosen], log_z[chosen])
    return slope


def _series(alpha: np.ndarray, log_z: np.ndarray) -> np.ndarray:
    """(1/α) Σₙ tₙ (ψ(α+1) − log z + hₙ) with tₙ = zⁿ / (α+1)…(α+n) and hₙ = Σₖ 1/(α+k), k ≤ n."""
    z, gap = np.exp(log_z), sp.psi(alpha + 1) - log_z
    term, harmonic, total = np.ones_like(z), np.zeros_like(z), gap.copy()
    for n in range(1, SERIES_TERMS):
        term *= z / (alpha + n)
        harmonic += 1 / (alpha + n)
        total += term * (gap + harmonic)
    return total / alpha


def _lower_integral(alpha: np.ndarray, log_z: np.ndarray) -> np.ndarray:
    """∫₀^∞ (ψ(α) − log z + y) exp(−αy + z(1 − e⁻ʸ)) dy, from F's integral with t = z e⁻ʸ."""
    z, gap = np.exp(log_z), sp.psi(alpha) - log_z
    reach = np.where(alpha > 111, np.sqrt(111 / alpha), 1.6 + 37 / alpha)
    reach = np.minimum(reach, 40 / np.maximum(alpha - z, 1e-9))
    return _integrate(lambda y: (gap + y) * np.exp(-alpha * y - z * np.expm1(-y)), reach)


def _upper_integral(alpha: np.ndarray, log_z: np.ndarray) -> np.ndarray:
    """∫₀^∞ (log z − ψ(α) + y) exp(αy − z(eʸ − 1)) dy, from 1 − F's integral with t = z eʸ."""
    z, gap = np.exp(log_z), log_z - sp.psi(alpha)
    reach = np.minimum(np.sqrt(74 / z), np.log1p(74 / z) + 1)
    reach = np.minimum(reach, 40 / np.maximum(z - alpha, 1e-9))
    return _integrate(lambda y: (gap + y) * np.exp(alpha * y - z * np.expm1(y)), reach)


def _integrate(integrand: Any, reach: np.ndarray) -> np.ndarray:
    """∫ over [0, reach] by Gauss and Legendre's rule, the same nodes for all elements."""
    total = np.zeros_like(reach)
    for node, weight in zip(*_legendre(), strict=True):
        total += weight * integrand(node * reach)
    return total * reach


@cache
def _legendre() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return (nodes + 1) / 2, weights / 2


# ------------------------------------------------------------------------------------- the primitives


class LogGammaSlope(Elementwise):
    """d log z / dα of the Gamma(α, 1) variate with logarithm log z; has no derivative of its own."""

    public, categories, differentiable, cost = False, (FLOAT, FLOAT), False, 3000

    def reference(self, alpha, log_z):
        return log_gamma_slope(alpha, log_z).astype(np.result_type(alpha, log_z))

    def lower(self, f, alpha, log_z):
        return f.log_gamma_slope(alpha, log_z, _legendre())


class LogGammaPath(Elementwise):
    """log z, as a function of the concentration α that moves with slope d log z / dα."""

    public, categories = False, (FLOAT, FLOAT)

    def reference(self, alpha, log_z):
        return np.broadcast_arrays(alpha, log_z)[1].copy()

    def lower(self, f, alpha, log_z):
        return log_z

    def vjp(self, g, y, alpha, log_z):
        return lambda: g * LOG_GAMMA_SLOPE(alpha, log_z), lambda: g


register_module(__name__)
LOG_GAMMA_SLOPE, LOG_GAMMA_PATH = PRIMITIVES["LogGammaSlope"], PRIMITIVES["LogGammaPath"]


def log_standard_gamma(concentration: Tensor, generator: Any = None) -> Tensor:
    """log z of one draw z ~ Gamma(α, 1) for each element, differentiable in α; exact for any small α.

    z = z′ u^(1/α) with z′ ~ Gamma(α + 1, 1) and u uniform, in logarithms and float64. Shape: as α.
    """
    if not concentration.is_floating_point():
        raise DtypeError(f"log_standard_gamma: expected a floating-point concentration, got {concentration.dtype}")
    alpha = concentration.detach().double()
    boosted = draw("log_standard_gamma", "gamma", generator, alpha + 1, dtype=np.dtype(np.float64))
    uniform = draw("log_standard_gamma", "uniform", generator, tuple(alpha.shape), np.dtype(np.float64))
    log_z = boosted.log() + (-uniform).log1p() / alpha
    return LOG_GAMMA_PATH(concentration.double(), log_z)


def standard_gamma(concentration: Tensor) -> Tensor:
    """One draw of Gamma(α, 1) for each element, differentiable in α, at least the smallest normal number."""
    value = log_standard_gamma(concentration).exp()
    tiny = finfo(concentration.dtype).tiny
    return where(value < tiny, tiny, value).to(concentration.dtype)


__all__ = ["log_gamma_slope", "log_standard_gamma", "standard_gamma"]
