"""Exponentials and their sums: logsumexp, softmax and its logarithm, none of which overflows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...dtypes import FLOAT
from ...errors import ShapeError
from ...sizes import wrap_dim, wrap_dims
from ...tape.modes import mode
from ...tensor import Tensor
from ..core.base import rebuilt_output
from ..core.primitive import Reduction, register_module
from ..math.elementwise import conj, where
from .reduce import SUM, Along, axis_operation, refuse, restored


class Logsumexp(Reduction):
    """log Σ exp x over `dim`, shifted by the maximum so that nothing overflows."""

    def reference(self, x, *, dim, keepdim):
        real = x.real if x.dtype.kind == "c" else x
        top = np.maximum.reduce(real, axis=dim, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, real.dtype.type(0))
        total = np.add.reduce(np.exp(x - top), axis=dim, keepdims=True)
        y = np.log(total) + top
        return y if keepdim else y.reshape(tuple(s for d, s in enumerate(x.shape) if d not in dim))

    def vjp(self, g, y, x, *, dim, keepdim):
        return (restored(g, dim, keepdim) * conj((x - restored(y, dim, keepdim)).exp()),)

    def parts(self, x, *, dim, keepdim):
        top = x.amax(dim, keepdim=True)
        top = where(top.isfinite(), top, 0)
        y = (x - top).exp().sum(dim, keepdim=True).log() + top
        return y if keepdim else y.reshape([s for d, s in enumerate(x.shape) if d not in dim])


class Normalized(Along, abstract=True):
    """The result has the sizes and the type of x."""

    def shapes(self, x, *rest, dim):
        return x.shape, x.dtype


class SoftmaxSlope(Normalized):
    """Gradient of `Softmax` from its result: y (g − Σ g y) along `dim`."""

    differentiable = False

    def reference(self, g, y, *, dim):
        weighted = g * y
        weighted -= y * np.add.reduce(weighted, axis=dim, keepdims=True)
        return weighted

    def parts(self, g, y, *, dim):
        weighted = g * y
        return weighted - y * weighted.sum(dim, keepdim=True)


class LogSoftmaxSlope(Normalized):
    """Gradient of `LogSoftmax` from its result: g − exp(y) Σ g along `dim`."""

    differentiable = False

    def reference(self, g, y, *, dim):
        slope = np.exp(y)
        slope *= np.add.reduce(g, axis=dim, keepdims=True)
        return np.subtract(g, slope, out=slope)

    def parts(self, g, y, *, dim):
        return g - y.exp() * g.sum(dim, keepdim=True)


class Softmax(Normalized):
    """exp xᵢ / Σⱼ exp xⱼ along `dim`."""

    def reference(self, x, *, dim):
        y = np.subtract(x, np.maximum.reduce(x, axis=dim, keepdims=True))
        np.exp(y, out=y)
        return np.divide(y, np.add.reduce(y, axis=dim, keepdims=True), out=y)

    def vjp(self, g, y, x, *, dim):
        if not mode.grad:
            return (SOFTMAX_SLOPE(g, y, dim=dim),)
        weighted = g * y
        return (weighted - y * SUM(weighted, dim=(dim,), keepdim=True),)

    def push(self, node, out, tangents):
        return self.pull(node, tangents[0])[0]  # its Jacobian, diag y − yyᵀ, is symmetric

    def parts(self, x, *, dim):
        y = (x - x.amax(dim, keepdim=True)).exp()
        return y / y.sum(dim, keepdim=True)


class LogSoftmax(Normalized):
    """xᵢ − log Σⱼ exp xⱼ along `dim`."""

    def reference(self, x, *, dim):
        y = np.subtract(x, np.maximum.reduce(x, axis=dim, keepdims=True))
        return np.subtract(y, np.log(np.add.reduce(np.exp(y), axis=dim, keepdims=True)), out=y)

    def vjp(self, g, y, x, *, dim):
        if not mode.grad:
            return (LOG_SOFTMAX_SLOPE(g, y, dim=dim),)
        return (g - y.exp() * SUM(g, dim=(dim,), keepdim=True),)

    def push(self, node, out, tangents):
        (t,) = tangents
        return t - SUM(rebuilt_output(node).exp() * t, dim=(node.params["dim"],), keepdim=True)

    def parts(self, x, *, dim):
        y = x - x.amax(dim, keepdim=True)
        return y - y.exp().sum(dim, keepdim=True).log()


LOGSUMEXP, SOFTMAX, LOG_SOFTMAX = Logsumexp(), Softmax(), LogSoftmax()
SOFTMAX_SLOPE, LOG_SOFTMAX_SLOPE = SoftmaxSlope(), LogSoftmaxSlope()
register_module(__name__)


@axis_operation(kind="Reduction", primitive=LOGSUMEXP)
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log Σ exp input over the given dimensions, without overflow."""
    dims = wrap_dims(dim, input.ndim, "logsumexp")
    if not dims and input.ndim:
        raise ShapeError(f"logsumexp: needs at least one dim to reduce, got {dim!r} for shape {tuple(input.shape)}")
    x = input if input.dtype.category >= FLOAT else input.to(dtypes.get_default_dtype())
    return LOGSUMEXP(x, dim=dims, keepdim=bool(keepdim))


def _softmax_along(primitive: Along, x: Tensor, dim: int, dtype: Any, name: str) -> Tensor:
    if dtype is not None:
        x = x.to(dtypes.as_dtype(dtype))
    d = wrap_dim(dim, x.ndim, name)
    if x.numel() == 0:
        return x.clone()
    refuse(x.dtype.category != FLOAT, name, x.dtype, "convert it with .float(), or pass dtype=weft.float32")
    if x.ndim == 0:
        return primitive(x.unsqueeze(0), dim=0).squeeze(0)
    return primitive(x, dim=d)


@axis_operation(kind="Reduction", primitive=SOFTMAX)
def softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """exp xᵢ / Σⱼ exp xⱼ along `dim`, computed in `dtype` if given."""
    return _softmax_along(SOFTMAX, input, dim, dtype, "softmax")


@axis_operation(kind="Reduction", primitive=LOG_SOFTMAX)
def log_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """xᵢ − log Σⱼ exp xⱼ along `dim`, computed in `dtype` if given."""
    return _softmax_along(LOG_SOFTMAX, input, dim, dtype, "log_softmax")
