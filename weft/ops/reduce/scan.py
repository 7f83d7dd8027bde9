"""Scans: running sums, products and extremes along a dimension, differences and integrals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ... import dtypes
from ...dtypes import BOOL, FLOAT
from ...errors import ArgumentError, IndexRangeError, InvalidValueError, ShapeError
from ...sizes import wrap_dim, wrap_dims
from ...tensor import Tensor
from ..core.primitive import operation, register_module
from ..core.results import named_result
from ..math.elementwise import conj, where
from ..shape.join import cat
from .reduce import Along, _summable, axis_operation, refuse, wide_enough

__all__ = ["exclusive_product"]

# -------------------------------------------------------------------------------------- primitives


def running(*given: Any) -> Any:
    """The kernel of a scan; see kernels/memory/scan_anchors.py."""
    from ...kernels.memory.anchors import running

    return running(*given)


def _accumulated(ufunc: np.ufunc, x: np.ndarray, dim: int, reverse: bool) -> np.ndarray:
    """The running result of a ufunc, from the front or from the back."""
    if not reverse:
        return ufunc.accumulate(x, axis=dim, dtype=x.dtype)
    return np.flip(ufunc.accumulate(np.flip(x, dim), axis=dim, dtype=x.dtype), dim)


class Cumsum(Along):
    """yₜ = Σ xᵢ over i ≤ t (over i ≥ t with `reverse`)."""

    linear = (0,)

    def reference(self, x, *, dim, reverse):
        return _accumulated(np.add, x, dim, reverse)

    def native(self, node):
        return running(node, "add", node.params["dim"], node.params["reverse"])

    def vjp(self, g, y, x, *, dim, reverse):
        return (CUMSUM(g, dim=dim, reverse=not reverse),)


class Cumprod(Along):
    """yₜ = ∏ xᵢ over i ≤ t (over i ≥ t with `reverse`).

    ∂L/∂xⱼ = (∏ xᵢ over i < j) · Rⱼ with Rⱼ = gⱼ + xⱼ₊₁ Rⱼ₊₁: no division, so zeros are no exception.
    """

    def reference(self, x, *, dim, reverse):
        return _accumulated(np.multiply, x, dim, reverse)

    def native(self, node):
        return running(node, "prod", node.params["dim"], node.params["reverse"])

    def vjp(self, g, y, x, *, dim, reverse):
        following = LINEAR_SCAN(shifted(conj(x), dim, not reverse), g, dim=dim, reverse=not reverse)
        return (following * conj(exclusive_product(x, dim, reverse)),)


class LinearScan(Along):
    """yₜ = aₜ yₜ₋₁ + bₜ along `dim`, from the front (from the back with `reverse`); a₀ is not used."""

    def reference(self, a, b, *, dim, reverse):
        a, b = np.moveaxis(a, dim, 0), np.moveaxis(b, dim, 0)
        y = linear_recurrence(a[::-1], b[::-1])[::-1] if reverse else linear_recurrence(a, b)
        return np.moveaxis(y, 0, dim)

    def vjp(self, g, y, a, b, *, dim, reverse):
        carried = LINEAR_SCAN(shifted(conj(a), dim, not reverse), g, dim=dim, reverse=not reverse)
        return lambda: carried * conj(shifted(y, dim, reverse)), lambda: carried

    def native(self, node):
        return running(node, "linear", node.params["dim"], node.params["reverse"])


def linear_recurrence(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """yₜ = aₜ yₜ₋₁ + bₜ along axis 0. Long lines run in √n blocks side by side, joined at the end."""
    n, rest = b.shape[0], b.shape[1:]
    y = np.empty(b.shape, np.result_type(a, b))
    blocks = int(np.sqrt(n)) if n > 64 and b.size < 64 * n else 1
    length = n // blocks
    inner = blocks * length  # the last n − inner steps follow one by one
    if blocks > 1:
        pieces = (blocks, length, *rest)
        within, decay, source = y[:inner].reshape(pieces), np.empty(pieces, a.dtype), b[:inner].reshape(pieces)
        factor = a[:inner].reshape(pieces)
        within[:, 0], decay[:, 0] = source[:, 0], factor[:, 0]
        for t in range(1, length):
            within[:, t] = factor[:, t] * within[:, t - 1] + source[:, t]
            decay[:, t] = factor[:, t] * decay[:, t - 1]
        for k in range(1, blocks):
            within[k] += decay[k] * within[k - 1, -1]
        start = inner
    else:
        y[:1], start = b[:1], 1
    for t in range(start, n):
        y[t] = a[t] * y[t - 1] + b[t]
    return y


class Logcumsumexp(Along):
    """yₜ = log Σ exp xᵢ over i ≤ t.

    ∂L/∂xⱼ = exp(xⱼ − yⱼ) · Sⱼ with Sⱼ = gⱼ + exp(yⱼ − yⱼ₊₁) Sⱼ₊₁; y never falls, so nothing overflows.
    """

    def reference(self, x, *, dim):
        if x.dtype.kind == "c":
            return _complex_logcumsumexp(x, dim)
        return np.logaddexp.accumulate(x, axis=dim)

    def native(self, node):
        return running(node, "logaddexp", node.params["dim"])

    def vjp(self, g, y, x, *, dim):
        before, after = _steps(y, dim) if y.shape[dim] else (y, y)
        lost = _is_minus_infinity(after)
        decay = where(lost, 0, (where(lost, 0, before) - where(lost, 0, after)).exp())
        decay = cat([decay, y.narrow(dim, 0, min(1, y.shape[dim]))._filled(0)], dim)  # the last one is not used
        gathered = LINEAR_SCAN(conj(decay), g, dim=dim, reverse=True)
        none = _is_minus_infinity(y)
        weight = where(none, 0, (x - where(none, 0, y)).exp())
        return (gathered * conj(weight),)


def _is_minus_infinity(x: Tensor) -> Tensor:
    return (x.real if x.is_complex() else x) == -np.inf


def _complex_logcumsumexp(x: np.ndarray, dim: int) -> np.ndarray:
    """One step after the other, each with the term of larger real part taken out."""
    y = np.array(np.moveaxis(x, dim, 0))
    for t in range(1, y.shape[0]):
        before, now = y[t - 1], y[t]
        swap = now.real > before.real
        large, small = np.where(swap, now, before), np.where(swap, before, now)
        y[t] = np.where(np.isneginf(large.real), large, large + np.log1p(np.exp(small - large)))
    return np.moveaxis(y, 0, dim)


class CumulativeArgmax(Along):
    """The place of the largest element so far; the latest of equal ones, and of NaNs once there is one."""

    differentiable, low_precision = False, True

    def reference(self, x, *, dim):
        return _running_place(np.maximum, x, dim)

    def native(self, node):
        return running(node, "argmax", node.params["dim"])


class CumulativeArgmin(Along):
    """The place of the smallest element so far; the latest of equal ones, and of NaNs once there is one."""

    differentiable, low_precision = False, True

    def reference(self, x, *, dim):
        return _running_place(np.minimum, x, dim)

    def native(self, node):
        return running(node, "argmin", node.params["dim"])


def _running_place(ufunc: np.ufunc, x: np.ndarray, dim: int) -> np.ndarray:
    x = wide_enough(x)
    record = x == ufunc.accumulate(x, axis=dim)
    if x.dtype.kind == "f":
        record |= np.isnan(x)
    places = np.arange(x.shape[dim]).reshape((-1, *(1,) * (x.ndim - dim - 1)))
    return np.maximum.accumulate(np.where(record, places, 0), axis=dim)


CUMSUM, CUMPROD, LINEAR_SCAN, LOGCUMSUMEXP = Cumsum(), Cumprod(), LinearScan(), Logcumsumexp()
CUMARGMAX, CUMARGMIN = CumulativeArgmax(), CumulativeArgmin()
register_module(__name__)


def shifted(x: Tensor, dim: int, reverse: bool = False, fill: float = 0) -> Tensor:
    """xₜ₋₁ in the place of xₜ (xₜ₊₁ with `reverse`), with `fill` at the free end."""
    n = x.shape[dim]
    if n == 0:
        return x
    if reverse:
        return cat([x.narrow(dim, 1, n - 1), x.narrow(dim, n - 1, 1)._filled(fill)], dim)
    return cat([x.narrow(dim, 0, 1)._filled(fill), x.narrow(dim, 0, n - 1)], dim)


def exclusive_product(x: Tensor, dim: int, reverse: bool = False) -> Tensor:
    """∏ xᵢ over i < t (over i > t with `reverse`)."""
    return CUMPROD(shifted(x, dim, reverse, fill=1), dim=dim, reverse=reverse)


# --------------------------------------------------------------------------------- public functions


def _along(primitive: Along, x: Tensor, dim: int, name: str, **params: Any) -> Tensor:
    d = wrap_dim(dim, x.ndim, name)
    if x.ndim == 0:
        return primitive(x.unsqueeze(0), dim=0, **params).squeeze(0)
    return primitive(x, dim=d, **params)


@axis_operation(inplace=True)
def cumsum(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """yₜ = x₀ + … + xₜ along `dim`; bool and integers add up as int64."""
    return _along(CUMSUM, _summable(input, dtype), dim, "cumsum", reverse=False)


@axis_operation(inplace=True)
def cumprod(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """yₜ = x₀ · … · xₜ along `dim`; bool and integers multiply as int64."""
    return _along(CUMPROD, _summable(input, dtype), dim, "cumprod", reverse=False)


@axis_operation()
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """yₜ = log(exp x₀ + … + exp xₜ) along `dim`, without overflow."""
    refuse(input.dtype.category < FLOAT, "logcumsumexp", input.dtype, "convert it with .float()")
    return _along(LOGCUMSUMEXP, input, dim, "logcumsumexp")


@named_result("cummax")
class Cummax(NamedTuple):
    values: Tensor
    indices: Tensor


@named_result("cummin")
class Cummin(NamedTuple):
    values: Tensor
    indices: Tensor


def _running_extreme(primitive: Along, x: Tensor, dim: int, name: str) -> tuple[Tensor, Tensor]:
    refuse(x.is_complex() and x.numel() > 0 and x.ndim > 0, name, x.dtype, "complex numbers have no order")
    indices = _along(primitive, x, dim, name)
    if x.ndim == 0:
        return x.clone(), indices
    return x.gather(wrap_dim(dim, x.ndim, name), indices), indices


@axis_operation()
def cummax(input: Tensor, dim: int) -> Cummax:
    """(values, indices) of the largest element so far along `dim`."""
    return Cummax(*_running_extreme(CUMARGMAX, input, dim, "cummax"))


@axis_operation()
def cummin(input: Tensor, dim: int) -> Cummin:
    """(values, indices) of the smallest element so far along `dim`."""
    return Cummin(*_running_extreme(CUMARGMIN, input, dim, "cummin"))


def _steps(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """All elements but the last, and all but the first, along `dim`."""
    n = x.shape[dim]
    return x.narrow(dim, 0, n - 1), x.narrow(dim, 1, n - 1)


@axis_operation()
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """xₜ₊₁ − xₜ along `dim`, n times over; bool tensors are compared."""
    if input.ndim == 0:
        raise ShapeError("diff: expects input to be at least one-dimensional, got a 0-d tensor")
    if n < 0:
        raise InvalidValueError(f"diff: order must be non-negative but got {n}")
    d = wrap_dim(dim, input.ndim, "diff")
    if n == 0:
        return input.clone()
    parts = [x for x in (prepend, input, append) if x is not None]
    if any(x.ndim != input.ndim for x in parts):
        raise ShapeError(
            "diff: expects prepend or append to be the same dimension as input, shapes "
            f"{[tuple(x.shape) for x in parts]}; unsqueeze the smaller one"
        )
    x = cat(parts, d) if len(parts) > 1 else input
    for _ in range(min(n, x.shape[d])):
        before, after = _steps(x, d)
        x = before != after if x.dtype.category == BOOL else after - before
    return x


def _trapezoids(y: Tensor, x: Any, dx: Any, dim: int, name: str) -> tuple[Tensor | None, int]:
    """The areas of the single trapezoids along `dim` (None if there are no points)."""
    if y.ndim == 0:
        raise IndexRangeError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    if x is not None and dx is not None:
        raise ArgumentError(f"{name}: give the points `x` or their distance `dx`, not both")
    d = wrap_dim(dim, y.ndim, name)
    if y.shape[d] == 0:
        return None, d
    refuse(y.dtype.category == BOOL, name, y.dtype, "convert it with .int()")
    before, after = _steps(y, d)
    if x is None:
        return (before + after) * ((1.0 if dx is None else dx) / 2), d
    refuse(x.dtype.category == BOOL, name, x.dtype, "convert it with .int()")
    if x.ndim == 1 and y.ndim > 1:
        x = x.reshape(-1, *(1,) * (y.ndim - d - 1))
    elif x.ndim < y.ndim:
        x = x.reshape((1,) * (y.ndim - x.ndim) + tuple(x.shape))
    left, right = _steps(x, d - y.ndim)
    return (before + after) * (right - left) / 2.0, d


@operation(method=False, aliases=("trapz",))
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """∫ y along `dim` by the trapezoidal rule: Σ (xₜ₊₁ − xₜ)(yₜ + yₜ₊₁)/2."""
    areas, d = _trapezoids(y, x, dx, dim, "trapezoid")
    if areas is None:
        return y.sum(d).to(y.dtype)
    return areas.sum(d)


@operation(method=False)
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """The running integral of y along `dim` by the trapezoidal rule, one element shorter than y."""
    areas, d = _trapezoids(y, x, dx, dim, "cumulative_trapezoid")
    if areas is None:
        refuse(y.dtype.category == BOOL, "cumulative_trapezoid", y.dtype, "convert it with .int()")
        return y / 2
    return cumsum(areas, d)


# ------------------------------------------------------------------------------------------ slopes


@operation(method=False)
def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """The slope of sampled values along each dimension, exact for parabolas inside the grid.

    `spacing`: the distance of the samples (one number, 1 by default, or one a dimension), or a list of
    vectors with their places. `edge_order`: how the ends are estimated, from a line (1) or a parabola (2).
    """
    name = "gradient"
    dims = wrap_dims(dim, input.ndim, name)
    unsigned = input.dtype is dtypes.uint8 or (input.dtype is dtypes.bool_ and len(dims) > 0)
    refuse(unsigned, name, input.dtype, "convert it with .float()")
    if isinstance(spacing, Tensor):
        raise ArgumentError(f"{name}: spacing must be a number or a list, got a Tensor; write spacing=(x,)")
    spacing = 1 if spacing is None else spacing
    spacings = spacing if isinstance(spacing, (tuple, list)) else (spacing,) * len(dims)
    if len(spacings) != len(dims):
        raise ShapeError(
            f"{name}: expected spacing to be a number or a list of one entry for each of the {len(dims)} dimensions, "
            f"but got a list of length {len(spacings)}"
        )
    if edge_order not in (1, 2):
        raise InvalidValueError(f"{name}: only supports edge_order=1 and edge_order=2, got {edge_order}")
    if any(input.shape[d] <= edge_order for d in dims):
        raise ShapeError(
            f"{name}: expected each dimension size to be at least edge_order+1 = {edge_order + 1}, got shape "
            f"{tuple(input.shape)}"
        )
    return tuple(_slope(input, d, s, edge_order) for d, s in zip(dims, spacings, strict=True))


def _slope(x: Tensor, d: int, spacing: Any, edge_order: int) -> Tensor:
    """Three-point slopes inside, one-sided ones at both ends."""
    n = x.shape[d]
    inside = max(n - 2, 0)
    before, here, after = (x.narrow(d, i, inside if n > 2 else 0) for i in (0, min(1, n), min(2, n)))
    if isinstance(spacing, Tensor):
        steps = _distances(spacing, x, d)
        left, right = steps.narrow(d, 0, inside), steps.narrow(d, 1, inside)
        across = left + right
        middle = after * (left / (right * across)) + here * ((right - left) / (left * right))
        middle = middle - before * (right / (left * across))
    else:
        steps, middle = None, (after - before) / (spacing + spacing)
    row = lambda number: x.narrow(d, number % n, 1)
    step = lambda number: spacing if steps is None else steps.narrow(d, number % (n - 1), 1)
    if edge_order == 1:
        first, last = (row(1) - row(0)) / step(0), (row(-1) - row(-2)) / step(-1)
    else:
        a, b, c = _end_weights(step(0), step(1))
        first = row(1) * b - row(0) * a - row(2) * c
        a, b, c = _end_weights(step(-1), step(-2))
        last = row(-3) * c - row(-2) * b + row(-1) * a
    return cat([first, middle, last], d)


def _distances(places: Tensor, x: Tensor, d: int) -> Tensor:
    if places.ndim != 1 or places.shape[0] != x.shape[d]:
        raise ShapeError(
            f"gradient: expected the places of the samples of dimension {d} as a vector of size {x.shape[d]}, got shape "
            f"{tuple(places.shape)}"
        )
    before, after = _steps(places, 0)
    return (after - before).reshape(*(1,) * d, -1, *(1,) * (x.ndim - d - 1))


def _end_weights(near: Any, far: Any) -> tuple[Any, Any, Any]:
    """Weights of the end, its neighbour (subtracted) and the third sample: the slope of their parabola at the end."""
    both = near + far
    return (near + both) / (near * both), both / (near * far), near / (far * both)
