"""Complex numbers made of their parts, and the angle in the plane."""

from __future__ import annotations

import math

import numpy as np

from ... import dtypes
from ...dtypes import FLOAT
from ...errors import ArgumentError, DtypeError
from ...tensor import Tensor
from ..core.planes import Planes
from ..core.pointwise import Elementwise
from ..core.primitive import operation, register_module, write_out
from .curves import Smooth
from .elementwise import where

__all__ = ["complex_from"]


class Angle(Smooth):
    """The argument of a complex number; 0 or π for real ones."""

    cost = 2
    result, inplace = "real", False

    def compute_dtype(self, inputs):
        kind = super().compute_dtype(inputs)
        return kind if kind.category >= FLOAT else dtypes.get_default_dtype()

    def reference(self, x):
        if x.dtype.kind == "c":
            return np.angle(x)
        return np.where(np.isnan(x), x, np.where(x < 0, x.dtype.type(np.pi), x.dtype.type(0)))

    def lower(self, f, x):
        turned = f.cast(x < 0, x.kind) * math.pi
        return f.select(f.isnan(x), x, turned)

    def vjp(self, g, y, x):
        return (_angle_slope(g, x) if x.is_complex() else g * 0,)


def _angle_slope(g: Tensor, x: Tensor) -> Tensor:
    squared = x.real * x.real + x.imag * x.imag
    return where(squared == 0, 0, complex_from(-g * x.imag / squared, g * x.real / squared))


class ComplexFrom(Elementwise):
    """real + i · imag."""

    name, public, categories, domain = "complex", False, (FLOAT, FLOAT), (-2.0, 2.0)

    def reference(self, real, imag):
        kind = dtypes.from_numpy_dtype(real.dtype).to_complex()
        result = np.empty_like(np.logical_and(real, imag), kind.np)  # not real + 1j * imag, where 0 · inf would be NaN
        result.real, result.imag = real, imag
        return result

    def result_dtype(self, kind):
        return kind.to_complex().np

    def planes(self, real, imag):
        return Planes(real, imag)

    def pieces(self, out, real, imag):
        return (None, [out.real, out.imag]) if real.shape == imag.shape == out.shape else None

    def vjp(self, g, y, real, imag):
        return lambda: g.real, lambda: g.imag


_complex_from = ComplexFrom()


def complex_from(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A complex tensor from its real and imaginary parts (both float32 or both float64)."""
    if not (isinstance(real, Tensor) and isinstance(imag, Tensor)):
        raise ArgumentError(f"complex: expected two tensors, got {type(real).__name__} and {type(imag).__name__}")
    if real.dtype is not imag.dtype or real.dtype not in (dtypes.float32, dtypes.float64):
        raise DtypeError(
            f"complex: expected both parts to be float32 or both float64, got {real.dtype} and {imag.dtype}; convert "
            "them with .to(...)"
        )
    result = _complex_from(real, imag)
    if out is None:
        return result
    if out.dtype is not result.dtype:
        raise DtypeError(f"complex: expected out= of type {result.dtype}, got {out.dtype}")
    return write_out(out, result, "complex")


operation("complex", method=False)(complex_from)


register_module(__name__)
