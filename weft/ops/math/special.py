"""Special functions: error, gamma and zeta functions and their relatives, over scipy.special.

Most are elementwise primitives whose class states SciPy's function and the derivative. What
`torch.special` calls by another name, and functions that are formulas over others, stand at the end.
Bessel functions are in `bessel.py`, polynomials in `orthogonal.py`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ... import dtypes
from ...dtypes import BOOL, FLOAT
from ...errors import ArgumentError, AutogradError, DtypeError, ShapeError
from ...refusal import need_bounded
from ...runtime.lazy import LazyModule
from ...tensor import Tensor
from ..core.inplace import in_place
from ..core.operands import is_number
from ..core.pointwise import Elementwise
from ..core.primitive import OPERATIONS, PRIMITIVES, Opaque, operation, register_module
from ..core.results import named_result
from . import compare, curves, operators  # noqa: F401  their functions get further names at the end
from .complex_numbers import complex_from
from .elementwise import where

__all__ = ["Special", "SpecialOnly", "also", "no_slope"]

sp = LazyModule("scipy.special")

REAL = (BOOL, FLOAT)
ROOT_PI = math.sqrt(math.pi)
ROOT_2_PI = math.sqrt(2 * math.pi)


class Special(Elementwise, abstract=True):
    """A function of real numbers; integers become the default float."""

    result, categories, cost = "float", REAL, 40

    def compute_dtype(self, inputs):
        if not any(isinstance(x, Tensor) for x in inputs):
            found = ", ".join(type(x).__name__ for x in inputs)
            raise ArgumentError(
                f"{self.name}: at least one argument must be a Tensor, got {found}; use weft.tensor(...)"
            )
        return super().compute_dtype(inputs)


class SpecialOnly(Special, abstract=True):
    """A function that lives in `weft.special` and has no method."""

    namespace, inplace = "special.", False


def no_slope(name: str, argument: str) -> Tensor:
    """There is no formula for this derivative, here or in PyTorch: say so when it is asked for."""
    raise AutogradError(
        f"{name}: the derivative for '{argument}' is not implemented (it has no closed form); detach that argument"
    )


# -------------------------------------------------------------------------------- error functions


class Erf(Special):
    """2/√π ∫₀ˣ exp(−t²) dt."""

    cost = 16
    reference, aliases = sp.erf, ("special.erf",)

    def lower(self, f, x):
        return f.erf(x)

    def vjp(self, g, y, x):
        return (g * (2 / ROOT_PI) * (-x * x).exp(),)


class Erfc(Special):
    """1 − erf x, accurate for large x."""

    reference, aliases = sp.erfc, ("special.erfc",)

    def lower(self, f, x):
        return f.erfc(x)

    def vjp(self, g, y, x):
        return (g * (-2 / ROOT_PI) * (-x * x).exp(),)


class Erfinv(Special):
    """The x with erf x = y, for y in [−1, 1]."""

    reference, aliases, domain = sp.erfinv, ("special.erfinv",), (-0.9, 0.9)

    def lower(self, f, x):
        return f.erfinv(x)

    def vjp(self, g, y, x):
        return (g * (ROOT_PI / 2) * (y * y).exp(),)


class Erfcx(SpecialOnly):
    """exp(x²) · erfc x."""

    reference = sp.erfcx

    def lower(self, f, x):
        return f.erfcx(x)

    def vjp(self, g, y, x):
        return (g * (2 * x * y - 2 / ROOT_PI),)


class Ndtr(SpecialOnly):
    """The standard normal distribution function, ½ erfc(−x/√2)."""

    reference = sp.ndtr

    def lower(self, f, x):
        return f.ndtr(x)

    def vjp(self, g, y, x):
        return (g * (x * x / -2).exp() / ROOT_2_PI,)


class LogNdtr(SpecialOnly):
    """log of the standard normal distribution function, accurate far to the left."""

    cost = 80
    reference = sp.log_ndtr

    def lower(self, f, x):
        return f.log_ndtr(x)

    def vjp(self, g, y, x):
        return (g * (math.sqrt(2 / math.pi) / ERFCX(x * -math.sqrt(0.5))),)


class Ndtri(SpecialOnly):
    """The quantile of the standard normal distribution."""

    reference, domain = sp.ndtri, (0.1, 0.9)

    def lower(self, f, x):
        return f.ndtri(x)

    def vjp(self, g, y, x):
        return (g * ROOT_2_PI * (y * y / 2).exp(),)


# ------------------------------------------------------------------------- gamma and zeta functions


class Lgamma(Special):
    """log |Γ(x)|."""

    cost = 120
    domain = (0.3, 4.0)

    def reference(self, x):
        return np.where(x == -np.inf, x.dtype.type(np.inf), sp.gammaln(x))

    def lower(self, f, x):
        return f.lgamma(x)

    def vjp(self, g, y, x):
        return (g * x.digamma(),)


class Digamma(Special):
    """ψ(x) = d log Γ(x) / dx."""

    cost = 100
    reference, aliases, domain = sp.psi, ("special.digamma",), (0.3, 4.0)

    def lower(self, f, x):
        return f.digamma(x)

    def vjp(self, g, y, x):
        return (g * POLYGAMMA(x, n=1),)


class Polygamma(Special):
    """ψ⁽ⁿ⁾(x), the n-th derivative of ψ."""

    cost = 80
    public, domain = False, (0.3, 4.0)

    def reference(self, x, *, n):
        return sp.psi(x) if n == 0 else (-1.0) ** (n + 1) * sp.gamma(n + 1.0) * sp.zeta(n + 1.0, x)

    def lower(self, f, x, *, n):
        return f.polygamma(x, n)

    def vjp(self, g, y, x, *, n):
        return (g * POLYGAMMA(x, n=n + 1),)


class Igamma(Special):
    """P(a, x) = 1/Γ(a) ∫₀ˣ tᵃ⁻¹ e⁻ᵗ dt, the lower incomplete gamma function, regularised."""

    reference, arity, result, categories, domain = sp.gammainc, 2, "same", (FLOAT, FLOAT), (0.3, 4.0)
    numbers = "none"

    def vjp(self, g, y, a, x):
        return lambda: no_slope("igamma", "input"), lambda: g * _gamma_density(a, x)


class Igammac(Special):
    """Q(a, x) = 1 − P(a, x), the upper incomplete gamma function, regularised."""

    reference, arity, result, categories, domain = sp.gammaincc, 2, "same", (FLOAT, FLOAT), (0.3, 4.0)
    numbers = "none"

    def vjp(self, g, y, a, x):
        return lambda: no_slope("igammac", "input"), lambda: -g * _gamma_density(a, x)


def _gamma_density(a: Any, x: Tensor) -> Tensor:
    """xᵃ⁻¹ e⁻ˣ / Γ(a)."""
    normaliser = math.lgamma(a) if is_number(a) else a.lgamma() if isinstance(a, Tensor) else sp.gammaln(a)
    return ((a - 1) * x.log() - x - normaliser).exp()


class Zeta(SpecialOnly):
    """ζ(x, q) = Σₖ 1 / (k + q)ˣ, Hurwitz's zeta function."""

    cost = 1500
    domain = (1.5, 4.0)

    def reference(self, x, other):
        return sp.zeta(x, other)

    def lower(self, f, x, other):
        return f.zeta(x, other)

    def vjp(self, g, y, x, other):
        return lambda: no_slope("special.zeta", "input"), lambda: g * -x * ZETA(x + 1, other)


# ---------------------------------------------------------------------------------- logarithms


class Xlogy(Special):
    """x · log y, and 0 where x is 0 (unless y is NaN)."""

    cost = 14
    domain = (0.2, 3.0)

    def reference(self, x, other):
        return sp.xlogy(x, other)

    def lower(self, f, x, other):
        return f.xlogy(x, other)

    def vjp(self, g, y, x, other):
        return (
            lambda: g * where((x == 0) & (other <= 0), 0, _tensor(other, x).log()),
            lambda: g * x / other,
        )


def _tensor(value: Any, like: Tensor) -> Tensor:
    """A number as a tensor of the sizes of another."""
    return value if isinstance(value, Tensor) else like._filled(float(value))


class Xlog1py(SpecialOnly):
    """x · log(1 + y), and 0 where x is 0 (unless y is NaN)."""

    cost = 16
    domain = (0.2, 3.0)

    def reference(self, x, other):
        return sp.xlog1py(x, other)

    def lower(self, f, x, other):
        return f.xlog1py(x, other)

    def vjp(self, g, y, x, other):
        return (
            lambda: g * where((x == 0) & (other <= -1), 0, _tensor(other, x).log1p()),
            lambda: g * x / (other + 1),
        )


class Entr(SpecialOnly):
    """−x log x; 0 at 0 and −∞ below."""

    cost = 14
    reference, domain = sp.entr, (0.1, 3.0)

    def lower(self, f, x):
        return f.select(x < 0, -math.inf, f.xlogy(-x, x))

    def vjp(self, g, y, x):
        return (g * (-1 - x.log()),)


class Sinc(Elementwise):
    """sin(πx) / (πx), and 1 at 0."""

    cost = 20
    result, aliases = "float", ("special.sinc",)

    def reference(self, x):
        y = np.sinc(x).astype(x.dtype, copy=False)
        return np.where(np.isnan(y) & np.isfinite(x), x.dtype.type(0), y)  # πx is beyond the largest number

    def lower(self, f, x):
        return f.sinc(x)

    def vjp(self, g, y, x):
        return (g * _sinc_slope(x).conj(),)


def _sinc_slope(x: Tensor) -> Tensor:
    """(πx cos πx − sin πx) / (πx²), and 0 at 0."""
    turn = x * math.pi
    return where(x == 0, 0, (turn * turn.cos() - turn.sin()) / (x * turn))


# ------------------------------------------------------------------------------- frexp and the rest


class Frexp(Opaque):
    """x = mantissa · 2^exponent with ½ ≤ |mantissa| < 1."""

    leading = 0

    def reference(self, x):
        mantissa, exponent = np.frexp(x)
        return np.asarray(mantissa), np.asarray(exponent, np.int32)

    def vjp(self, g, y, x):
        return (g[0] / (2.0 ** y[1]).to(x.dtype),)

    def parts(self, x):
        if x.dtype in dtypes.LOW_PRECISION:
            return None
        return PRIMITIVES["Mantissa"](x), PRIMITIVES["Exponent"](x).to(dtypes.int32)


class Mantissa(Special):
    """m of x = m · 2^e with ½ ≤ |m| < 1."""

    public, differentiable, cost = False, False, 8

    def reference(self, x):
        return np.frexp(x)[0]

    def lower(self, f, x):
        return f.frexp(x)[0]


class Exponent(Special):
    """e of x = m · 2^e with ½ ≤ |m| < 1, as a float."""

    public, differentiable, cost = False, False, 8

    def reference(self, x):
        return np.frexp(x)[1].astype(x.dtype)

    def lower(self, f, x):
        return f.frexp(x)[1]


register_module(__name__)
ERFCX, POLYGAMMA, ZETA = PRIMITIVES["Erfcx"], PRIMITIVES["Polygamma"], PRIMITIVES["Zeta"]
FREXP = PRIMITIVES["Frexp"]


def also(name: str, original: str) -> None:
    """A further public name of a registered operation."""
    row = OPERATIONS[original]
    operation(name, method=False, kind=row.kind, primitive=row.primitive, differentiable=row.differentiable)(
        row.function
    )


@named_result("frexp")
class frexp_result(NamedTuple):
    mantissa: Tensor
    exponent: Tensor


@operation(out=True)
def frexp(input: Tensor) -> frexp_result:
    """Mantissa and exponent: input = mantissa · 2^exponent with ½ ≤ |mantissa| < 1."""
    if input.dtype.category != FLOAT:
        raise DtypeError(f"frexp: expected a floating-point tensor, got {input.dtype}; convert with .float()")
    return frexp_result(*FREXP(input))


@operation(method=False, out=True, kind="Elementwise", primitive=POLYGAMMA)
def polygamma(n: int, input: Tensor) -> Tensor:
    """ψ⁽ⁿ⁾(input): n = 0 is digamma, n = 1 its derivative, …"""
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool):
        raise ArgumentError(f"polygamma: n must be an integer, got {n!r}")
    if n < 0:
        raise ShapeError(f"polygamma: polygamma(n, x) does not support negative n, got {n}")
    return input.digamma() if n == 0 else POLYGAMMA(input, n=int(n))


def _polygamma_method(self: Tensor, n: int) -> Tensor:
    """ψ⁽ⁿ⁾ of this tensor."""
    return polygamma(n, self)


Tensor.polygamma, Tensor.polygamma_ = _polygamma_method, in_place(_polygamma_method, "polygamma_")


@operation(out=True, inplace=True)
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The multivariate log-gamma function: p(p−1)/4 · log π + Σⱼ log Γ(input − (j − 1)/2), j = 1 … p."""
    if p < 1:
        raise ShapeError(f"mvlgamma: p has to be greater than or equal to 1, got {p}")
    need_bounded(p, "mvlgamma", "p", 10_000)  # each is a term over all of the input
    if input.is_complex() or input.dtype is dtypes.bool_:
        raise DtypeError(f"mvlgamma: expected a real tensor, which may not be a boolean tensor, got {input.dtype}")
    x = input if input.is_floating_point() else input.to(dtypes.get_default_dtype())
    steps = x.new_tensor([-j / 2 for j in range(p)])
    terms = (x.unsqueeze(-1) + steps).lgamma()  # (…,) → (…, p)
    return (terms.sum(-1) + p * (p - 1) / 4 * math.log(math.pi)).contiguous()


@operation(out=True, inplace=True)
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 − x)); with eps, x is first moved into [eps, 1 − eps] (gradient 0 outside)."""
    if input.is_complex():
        raise DtypeError(f"logit: expected a real tensor, got {input.dtype}")
    x = input if input.is_floating_point() else input.to(dtypes.get_default_dtype())
    wide = x.float() if x.dtype in dtypes.LOW_PRECISION else x
    if eps is not None:
        wide = where(wide < eps, eps, where(wide > 1 - eps, 1 - eps, wide))
    return (wide.log() - (-wide).log1p()).to(x.dtype)


@operation(method=False)
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """abs · (cos angle + i sin angle), a complex tensor from polar coordinates."""
    if not (isinstance(abs, Tensor) and isinstance(angle, Tensor)):
        raise ArgumentError(f"polar: expected two tensors, got {type(abs).__name__} and {type(angle).__name__}")
    if abs.dtype is not angle.dtype or abs.dtype not in (dtypes.float32, dtypes.float64):
        raise DtypeError(
            f"polar: expected both inputs to be float32 or both float64, got {abs.dtype} and {angle.dtype}; convert "
            "them with .to(...)"
        )
    return complex_from(abs * angle.cos(), abs * angle.sin(), out=out)


@operation("special.softmax", method=False)
def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """exp(x) / Σ exp(x) along `dim`."""
    return input.softmax(dim, dtype=dtype)


@operation("special.log_softmax", method=False)
def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """log softmax(x) along `dim`."""
    return input.log_softmax(dim, dtype=dtype)


@operation("special.logsumexp", method=False, out=True)
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log Σ exp(x) along `dim`."""
    return input.logsumexp(dim, keepdim)


for _name, _original in {
    "special.gammaln": "lgamma",
    "special.psi": "digamma",
    "special.gammainc": "igamma",
    "special.gammaincc": "igammac",
    "special.multigammaln": "mvlgamma",
    "special.polygamma": "polygamma",
    "special.logit": "logit",
    "special.xlogy": "xlogy",
    "special.expit": "sigmoid",
    "special.exp2": "exp2",
    "special.expm1": "expm1",
    "special.log1p": "log1p",
    "special.round": "round",
}.items():
    also(_name, _original)
