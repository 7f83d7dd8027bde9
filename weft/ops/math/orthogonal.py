"""Orthogonal polynomials: Chebyshev's four kinds (also shifted to [0, 1]), Hermite, Laguerre, Legendre.

Each is p_n(x) for a tensor x and an order n, a number or a tensor; a negative order gives 0. They are
not differentiable, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import OptionError
from ...refusal import need_bounded
from ...runtime.lazy import LazyModule
from ...tape.modes import mode, switches
from ...tensor import Tensor
from ..core import base
from ..core.operands import kept_copy
from ..core.pointwise import Elementwise
from ..core.primitive import PRIMITIVES, register_module
from .division import CheckFlags
from .special import SpecialOnly

sp = LazyModule("scipy.special")
MANY_TERMS = 1 << 20


class Polynomial(SpecialOnly, abstract=True):
    """p_n(x), or p_n(2x − 1) if `shifted`: `value(x, n)` states it for whole n ≥ 0; p₀ = 1 whatever x is."""

    differentiable, cost = False, 60
    recurrence: str  # the name of p in native code
    shifted = False

    def __call__(self, x: Any, n: Any) -> Tensor:
        if switches.interpreting and mode.interpreter is not None:
            if isinstance(n, Tensor):
                CHECK_ORDER(n > MANY_TERMS, self.name)
            else:
                need_bounded(n, self.name, "the order", MANY_TERMS)
        return Elementwise.__call__(self, x, n)

    def evaluate(self, inputs: Sequence[Any], params: dict[str, Any]) -> Tensor:
        order = inputs[1]
        if isinstance(order, Tensor) and order.array.size >= base.LARGE:  # a native plan would not look
            _check_orders(order.array, self.name)
        return Elementwise.evaluate(self, inputs, params)

    def reference(self, x, n):
        order = _check_orders(n, self.name)
        p = self.value(kept_copy(x, np.dtype(np.float64)), np.maximum(order, 0))
        return np.where(order < 0, 0, np.where(order == 0, 1, p)).astype(x.dtype)

    def lower(self, f, x, n):
        return f.orthogonal(self.recurrence, 2.0 * f.cast(x, "f64") - 1.0 if self.shifted else x, n)


def _check_orders(n: np.ndarray, name: str) -> np.ndarray:
    order = n.astype(np.int64)
    need_bounded(int(order.max(initial=0)), name, "the order", MANY_TERMS)
    return order


class CheckOrder(CheckFlags):
    """An error where an order is absurd: its terms are added up one by one."""

    error = OptionError

    def message(self, index: int, *, name: str, **_: Any) -> str:
        return f"{name}: the order is absurd; at most {MANY_TERMS} is taken"


class ChebyshevPolynomialT(Polynomial):
    """T_n(x) = cos(n arccos x), the first kind."""

    recurrence = "chebyshev_t"

    def value(self, x, n):
        return sp.eval_chebyt(n, x)


class ChebyshevPolynomialU(Polynomial):
    """U_n(x) = sin((n + 1) θ) / sin θ with x = cos θ, the second kind."""

    recurrence = "chebyshev_u"

    def value(self, x, n):
        return sp.eval_chebyu(n, x)


class ChebyshevPolynomialV(Polynomial):
    """V_n(x) = cos((n + ½) θ) / cos(θ/2) = U_n(x) − U_{n−1}(x), the third kind."""

    recurrence = "chebyshev_v"

    def value(self, x, n):
        return sp.eval_chebyu(n, x) - sp.eval_chebyu(np.maximum(n - 1, 0), x)


class ChebyshevPolynomialW(Polynomial):
    """W_n(x) = sin((n + ½) θ) / sin(θ/2) = U_n(x) + U_{n−1}(x), the fourth kind."""

    recurrence = "chebyshev_w"

    def value(self, x, n):
        return sp.eval_chebyu(n, x) + sp.eval_chebyu(np.maximum(n - 1, 0), x)


class ShiftedChebyshevPolynomialT(Polynomial):
    """T_n(2x − 1), orthogonal on [0, 1]."""

    recurrence, shifted = "chebyshev_t", True

    def value(self, x, n):
        return CHEBYSHEV_T.value(2 * x - 1, n)


class ShiftedChebyshevPolynomialU(Polynomial):
    """U_n(2x − 1), orthogonal on [0, 1]."""

    recurrence, shifted = "chebyshev_u", True

    def value(self, x, n):
        return CHEBYSHEV_U.value(2 * x - 1, n)


class ShiftedChebyshevPolynomialV(Polynomial):
    """V_n(2x − 1), orthogonal on [0, 1]."""

    recurrence, shifted = "chebyshev_v", True

    def value(self, x, n):
        return CHEBYSHEV_V.value(2 * x - 1, n)


class ShiftedChebyshevPolynomialW(Polynomial):
    """W_n(2x − 1), orthogonal on [0, 1]."""

    recurrence, shifted = "chebyshev_w", True

    def value(self, x, n):
        return CHEBYSHEV_W.value(2 * x - 1, n)


class HermitePolynomialH(Polynomial):
    """H_n(x), orthogonal under exp(−x²) (the physicists')."""

    recurrence = "hermite_h"

    def value(self, x, n):
        return sp.eval_hermite(n, x)


class HermitePolynomialHe(Polynomial):
    """He_n(x), orthogonal under exp(−x²/2) (the probabilists')."""

    recurrence = "hermite_he"

    def value(self, x, n):
        return sp.eval_hermitenorm(n, x)


class LaguerrePolynomialL(Polynomial):
    """L_n(x), orthogonal under exp(−x) on [0, ∞)."""

    recurrence = "laguerre"

    def value(self, x, n):
        return sp.eval_laguerre(n, x)


class LegendrePolynomialP(Polynomial):
    """P_n(x), orthogonal on [−1, 1]."""

    recurrence = "legendre"

    def value(self, x, n):
        return sp.eval_legendre(n, x)


register_module(__name__)
CHEBYSHEV_T, CHEBYSHEV_U = PRIMITIVES["ChebyshevPolynomialT"], PRIMITIVES["ChebyshevPolynomialU"]
CHECK_ORDER = CheckOrder()
CHEBYSHEV_V, CHEBYSHEV_W = PRIMITIVES["ChebyshevPolynomialV"], PRIMITIVES["ChebyshevPolynomialW"]
