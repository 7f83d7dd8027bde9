"""Bessel functions of order 0 and 1, modified and spherical ones, and Airy's Ai, over scipy.special."""

from __future__ import annotations

from ...runtime.lazy import LazyModule
from ..core.primitive import PRIMITIVES, register_module
from .elementwise import where
from .special import Special, SpecialOnly, also

sp = LazyModule("scipy.special")


class I0(Special):
    """The modified Bessel function of the first kind and order 0."""

    reference, aliases = sp.i0, ("special.i0",)

    def lower(self, f, x):
        return f.bessel_i(x, 0)

    def vjp(self, g, y, x):
        return (g * I1_(x),)


class I0e(SpecialOnly):
    """exp(−|x|) · I₀(x)."""

    reference = sp.i0e

    def lower(self, f, x):
        return f.bessel_i(x, 0, scaled=True)

    def vjp(self, g, y, x):
        return (g * (I1E(x) - x.sign() * y),)


class I1(SpecialOnly):
    """The modified Bessel function of the first kind and order 1."""

    reference = sp.i1

    def lower(self, f, x):
        return f.bessel_i(x, 1)

    def vjp(self, g, y, x):
        return (g * where(x == 0, 0.5, x.i0() - y / x),)


class I1e(SpecialOnly):
    """exp(−|x|) · I₁(x)."""

    reference = sp.i1e

    def lower(self, f, x):
        return f.bessel_i(x, 1, scaled=True)

    def vjp(self, g, y, x):
        return (g * where(x == 0, 0.5, I0E(x) - y * (x.sign() + 1 / x)),)


class BesselJ0(SpecialOnly):
    """The Bessel function of the first kind and order 0."""

    reference = sp.j0

    def lower(self, f, x):
        return f.bessel_j(x, 0)

    def vjp(self, g, y, x):
        return (g * -BESSEL_J1(x),)


class BesselJ1(SpecialOnly):
    """The Bessel function of the first kind and order 1."""

    reference = sp.j1

    def lower(self, f, x):
        return f.bessel_j(x, 1)

    def vjp(self, g, y, x):
        return (g * where(x == 0, 0.5, BESSEL_J0(x) - y / x),)


class BesselY0(SpecialOnly):
    """The Bessel function of the second kind and order 0."""

    reference, domain = sp.y0, (0.2, 4.0)

    def lower(self, f, x):
        return f.bessel_y(x, 0)

    def vjp(self, g, y, x):
        return (g * -BESSEL_Y1(x),)


class BesselY1(SpecialOnly):
    """The Bessel function of the second kind and order 1."""

    reference, domain = sp.y1, (0.2, 4.0)

    def lower(self, f, x):
        return f.bessel_y(x, 1)

    def vjp(self, g, y, x):
        return (g * (BESSEL_Y0(x) - y / x),)


class ModifiedBesselK0(SpecialOnly):
    """The modified Bessel function of the second kind and order 0."""

    reference, domain = sp.k0, (0.2, 4.0)

    def lower(self, f, x):
        return f.bessel_k(x, 0)

    def vjp(self, g, y, x):
        return (g * -MODIFIED_K1(x),)


class ModifiedBesselK1(SpecialOnly):
    """The modified Bessel function of the second kind and order 1."""

    reference, domain = sp.k1, (0.2, 4.0)

    def lower(self, f, x):
        return f.bessel_k(x, 1)

    def vjp(self, g, y, x):
        return (g * (-MODIFIED_K0(x) - y / x),)


class ScaledModifiedBesselK0(SpecialOnly):
    """eˣ · K₀(x)."""

    reference, domain = sp.k0e, (0.2, 4.0)

    def lower(self, f, x):
        return f.bessel_k(x, 0, scaled=True)

    def vjp(self, g, y, x):
        return (g * (y - SCALED_K1(x)),)


class ScaledModifiedBesselK1(SpecialOnly):
    """eˣ · K₁(x)."""

    reference, domain = sp.k1e, (0.2, 4.0)

    def lower(self, f, x):
        return f.bessel_k(x, 1, scaled=True)

    def vjp(self, g, y, x):
        return (g * (y - SCALED_K0(x) - y / x),)


class SphericalBesselJ0(SpecialOnly):
    """sin x / x, and 1 at 0; 0 at ±∞."""

    def reference(self, x):
        return sp.spherical_jn(0, x).astype(x.dtype, copy=False)

    def lower(self, f, x):
        return f.spherical_bessel_j0(x)

    def vjp(self, g, y, x):
        return (g * where(x == 0, 0, (x.cos() - y) / x),)


class AiryAi(SpecialOnly):
    """Airy's function Ai, the solution of y″ = x · y that decays to the right."""

    differentiable, cost = False, 100

    def reference(self, x):
        return sp.airy(x)[0].astype(x.dtype, copy=False)

    def lower(self, f, x):
        return f.airy_ai(x)


register_module(__name__)
I0E, I1_, I1E = PRIMITIVES["I0e"], PRIMITIVES["I1"], PRIMITIVES["I1e"]
BESSEL_J0, BESSEL_J1 = PRIMITIVES["BesselJ0"], PRIMITIVES["BesselJ1"]
BESSEL_Y0, BESSEL_Y1 = PRIMITIVES["BesselY0"], PRIMITIVES["BesselY1"]
MODIFIED_K0, MODIFIED_K1 = PRIMITIVES["ModifiedBesselK0"], PRIMITIVES["ModifiedBesselK1"]
SCALED_K0, SCALED_K1 = PRIMITIVES["ScaledModifiedBesselK0"], PRIMITIVES["ScaledModifiedBesselK1"]

also("special.modified_bessel_i0", "i0")
also("special.modified_bessel_i1", "special.i1")
