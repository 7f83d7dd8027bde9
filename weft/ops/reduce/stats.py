"""Statistics: variances, quantiles, covariances, counts and histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import dtypes
from ...dtypes import BOOL, FLOAT, INTEGER
from ...errors import DtypeError, InvalidValueError, ShapeError
from ...sizes import wrap_dim
from ...tape.interpreter import chosen, interpreter_of
from ...tensor import Tensor, wrap
from ..core.operands import contents, is_number
from ..core.primitive import Opaque, Reduction, operation, register_module
from ..core.results import named_result
from ..create.create import full
from ..create.ranges import linspace
from ..math.complex_numbers import complex_from
from ..math.elementwise import where
from ..shape.view import PERMUTE
from .reduce import all_or, axis_operation, mean, refuse, restored, wide_enough

# ------------------------------------------------------------------------- variance and deviation


class Var(Reduction):
    """Σ |x − x̄|² / max(0, n − correction) over `dim`."""

    def reference(self, x, *, dim, keepdim, correction):
        count = _count(x.shape, dim)
        first = x[tuple(slice(0, 1) if d in dim else slice(None) for d in range(x.ndim))]
        centred = x - first  # shifting first makes the variance of equal elements exactly 0
        centred = centred - np.true_divide(np.add.reduce(centred, axis=dim, keepdims=True), x.dtype.type(count))
        squares = np.square(centred) if x.dtype.kind != "c" else centred.real**2 + centred.imag**2
        total = np.add.reduce(squares, axis=dim, keepdims=keepdim)
        return np.true_divide(total, squares.dtype.type(max(0, count - correction)))

    def vjp(self, g, y, x, *, dim, keepdim, correction):
        g, freedom = restored(g, dim, keepdim), _count(x.shape, dim) - correction
        centred = x - mean(x, dim, True)
        if freedom <= 0:  # infinite slope, except where x is the mean
            return (g * where(centred == 0, math.nan, math.inf),)
        return (g * (2 / freedom) * centred,)

    def parts(self, x, *, dim, keepdim, correction):
        centred = x - x[tuple(slice(0, 1) if d in dim else slice(None) for d in range(x.ndim))]
        centred = centred - centred.mean(dim, keepdim=True)
        total = centred.square().sum(dim, keepdim=keepdim)
        return total / max(0, _count(x.shape, dim) - correction)


def _count(shape: tuple[int, ...], dim: tuple[int, ...]) -> int:
    return math.prod(shape[d] for d in dim)


VAR = Var()


def _variance(x: Tensor, dim: Any, unbiased: Any, keepdim: bool, correction: Any, name: str) -> tuple[Tensor, Any]:
    """The variance, and the dimensions it was taken over; `dim` may hold `unbiased` as in PyTorch's short form."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if x.dtype.category < FLOAT:
        raise DtypeError(f"{name}: std and var only support floating point and complex dtypes, got {x.dtype}")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    dims = all_or(dim, x.ndim, name)
    return VAR(x, dim=dims, keepdim=bool(keepdim), correction=correction), dims


def _root(variance: Tensor) -> Tensor:
    """√v with slope 0 at v = 0, where the deviation has no derivative."""
    still = variance == 0
    return where(still, 0, where(still, 1, variance).sqrt())


@axis_operation(kind="Reduction", primitive=VAR)
def var(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: float | None = None
) -> Tensor:
    """Σ |x − x̄|² / (n − correction) over the given dimensions; correction 1 by default, 0 if not unbiased."""
    return _variance(input, dim, unbiased, keepdim, correction, "var")[0]


@axis_operation()
def std(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: float | None = None
) -> Tensor:
    """The square root of the variance; its gradient is 0 where all elements are equal."""
    return _root(_variance(input, dim, unbiased, keepdim, correction, "std")[0])


@axis_operation(method=False)
def var_mean(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: float | None = None
) -> tuple[Tensor, Tensor]:
    """(variance, mean) over the given dimensions."""
    variance, dims = _variance(input, dim, unbiased, keepdim, correction, "var_mean")
    return variance, mean(input, dims or None, keepdim)


@axis_operation(method=False)
def std_mean(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: float | None = None
) -> tuple[Tensor, Tensor]:
    """(standard deviation, mean) over the given dimensions."""
    variance, dims = _variance(input, dim, unbiased, keepdim, correction, "std_mean")
    return _root(variance), mean(input, dims or None, keepdim)


# --------------------------------------------------------------------------------------- quantiles

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _check_quantile(x: Tensor, q: Any, interpolation: str, name: str) -> Tensor:
    """q as a tensor in the type of x, after PyTorch's checks."""
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise DtypeError(f"{name}: input tensor must be either float or double dtype, got {x.dtype}; use .float()")
    if x.numel() == 0:
        raise ShapeError(f"{name}: input tensor must be non-empty, got shape {tuple(x.shape)}")
    if interpolation not in _INTERPOLATIONS:
        raise InvalidValueError(
            f"{name}: interpolation must be one of {', '.join(_INTERPOLATIONS)}, but got {interpolation!r}"
        )
    if is_number(q):
        if not 0 <= q <= 1:
            raise InvalidValueError(f"{name}: q must be in the range [0, 1] but got {q}")
        return wrap(np.asarray(q, x.dtype.np))
    if q.ndim > 1:
        raise ShapeError(f"{name}: q must be a scalar or 1D tensor, got shape {tuple(q.shape)}")
    if q.dtype is not x.dtype:
        raise DtypeError(f"{name}: q tensor must be same dtype as the input tensor, got {q.dtype} and {x.dtype}")
    if interpreter_of(q) is None and not bool(((q >= 0) & (q <= 1)).all()):
        raise InvalidValueError(f"{name}: q values must be in the range [0, 1]")
    return q


def _ranks(x: Tensor, q: Tensor, skip_nan: bool) -> Tensor:
    """Where each quantile lies in the sorted last dimension: shape (…, number of quantiles)."""
    n, missing = x.shape[-1], x.isnan()
    if skip_nan:
        return q * ((~missing).sum(-1, keepdim=True) - 1).clamp(min=0).to(x.dtype)
    return where(missing.any(-1, keepdim=True), float(n - 1), q * (n - 1))


def _quantile(input: Tensor, q: Any, dim: Any, keepdim: bool, interpolation: str, skip_nan: bool, name: str) -> Tensor:
    q = _check_quantile(input, q, interpolation, name)
    if dim is None or input.ndim == 0:
        d = None if dim is None else wrap_dim(dim, 0, name)
        x, kept = input.reshape(-1), (1,) * input.ndim
    else:
        d = wrap_dim(dim, input.ndim, name)
        x = PERMUTE(input, dims=(*(i for i in range(input.ndim) if i != d), d))
        kept = tuple(1 if i == d else s for i, s in enumerate(input.shape))
    ranks = _ranks(x, q.reshape(-1), skip_nan)
    if interpolation in ("lower", "higher", "nearest"):
        ranks = {"lower": ranks.floor, "higher": ranks.ceil, "nearest": ranks.round}[interpolation]()
    line, below = x.sort(-1).values, ranks.floor()
    found = line.gather(-1, below.long())
    if interpolation in ("linear", "midpoint"):
        above = line.gather(-1, ranks.ceil().long())
        found = found.lerp(above, 0.5 if interpolation == "midpoint" else ranks - below)
    found = PERMUTE(found, dims=(found.ndim - 1, *range(found.ndim - 1)))  # (quantiles, …)
    if keepdim:
        found = found.reshape(found.shape[0], *kept)
    return found if q.ndim else found.squeeze(0)


@axis_operation()
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The q-quantiles along `dim` (of all elements by default), NaN if there is one; several q become a first dim."""
    return _quantile(input, q, dim, keepdim, interpolation, False, "quantile")


@axis_operation()
def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """`quantile` of the elements that are not NaN."""
    return _quantile(input, q, dim, keepdim, interpolation, True, "nanquantile")


# -------------------------------------------------------------------------------------- covariance


def _weights(weights: Tensor | None, count: int, category: int, name: str) -> Tensor | None:
    if weights is None:
        return None
    wanted = "integral" if category == INTEGER else "floating point"
    if weights.ndim > 1:
        raise ShapeError(f"cov: expected {name} to have one or fewer dimensions but got {weights.ndim}")
    if weights.dtype.category != category:
        raise DtypeError(f"cov: expected {name} to have {wanted} dtype but got {name} with {weights.dtype} dtype")
    if weights.numel() != count:
        raise ShapeError(f"cov: expected {name} to have {count} elements, one an observation, got {weights.numel()}")
    if interpreter_of(weights) is None and bool((weights < 0).any()):
        raise InvalidValueError(f"cov: {name} cannot be negative")
    return weights.reshape(-1)


@operation()
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariances of the rows: C = Σ w (x − x̄)(x − x̄)ᴴ / norm, one row a variable, one column an observation.

    w = fweights · aweights; norm = Σw − correction · Σ(w · aweights)/Σw (n − correction without weights).
    """
    if input.ndim > 2:
        raise ShapeError(f"cov: expected input to have two or fewer dimensions but got shape {tuple(input.shape)}")
    refuse(input.dtype.category == BOOL, "cov", input.dtype)
    x = input if input.dtype.category >= FLOAT else input.to(dtypes.get_default_dtype())
    x = x if x.ndim == 2 else x.reshape(1, -1)  # (variables, observations)
    count = x.shape[1]
    often = _weights(fweights, count, INTEGER, "fweights")
    sure = _weights(aweights, count, FLOAT, "aweights")
    if often is None and sure is None:
        centred = x - mean(x, 1, True)
        product = centred @ centred.conj().mT / max(0.0, count - correction)
    else:
        w = often if sure is None else sure if often is None else often * sure
        total = w.sum()
        centred = x - (x * w).sum(1, keepdim=True) / total
        norm = total - correction * ((w * sure).sum() / total if sure is not None else 1)
        product = (centred * w) @ centred.conj().mT / norm.clamp(min=0)
    return product.squeeze()


@operation()
def corrcoef(input: Tensor) -> Tensor:
    """Pearson's correlations of the rows: R = C / √(diag C diag Cᵀ), parts clipped to [−1, 1]."""
    if input.ndim > 2:
        raise ShapeError(f"corrcoef: expected input to have two or fewer dimensions but got shape {tuple(input.shape)}")
    covariance = cov(input)
    if covariance.ndim == 0:
        return covariance / covariance
    variances = covariance.diagonal()
    deviation = (variances.real if variances.is_complex() else variances).sqrt()
    ratio = covariance / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    if ratio.is_complex():
        return complex_from(ratio.real.clamp(-1, 1), ratio.imag.clamp(-1, 1))
    return ratio.clamp(-1, 1)


# ----------------------------------------------------------------------------- counts and histograms


@operation(differentiable=False)
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number 0, 1, 2, … occurs, or the sum of its weights."""
    refuse(input.dtype.category != INTEGER, "bincount", input.dtype, "convert it with .long()")
    if input.ndim != 1 or (input.numel() and bool((input < 0).any())):
        raise InvalidValueError(
            f"bincount: only supports 1-d non-negative integral inputs, got shape {tuple(input.shape)}"
        )
    if minlength < 0:
        raise InvalidValueError(f"bincount: minlength should be >= 0, got {minlength}")
    if weights is not None and input.numel() and weights.shape != input.shape:
        raise ShapeError(
            f"bincount: weights should be 1-d and have the same length as input, got {tuple(weights.shape)} for "
            f"{tuple(input.shape)}"
        )
    if weights is None or input.numel() == 0:
        return _added_up(input, None, minlength, dtypes.int64)
    return _added_up(input, weights, minlength, dtypes.float32 if weights.dtype is dtypes.float32 else dtypes.float64)


def _added_up(places: Tensor, weights: Tensor | None, minlength: int, kind: Any) -> Tensor:
    """Ones or weights, added up at the places; a trace asks only how many there are."""
    if chosen((places, weights)) is None:
        given = None if weights is None else weights.array.astype(np.float64)
        return wrap(np.bincount(places.array, given, minlength).astype(kind.np))
    last = places.max().item() if places.numel() else -1
    exact = dtypes.int64 if weights is None else dtypes.float64
    given = full(tuple(places.shape), 1, dtype=exact) if weights is None else weights.to(exact)
    sums = full((minlength if last < minlength else int(last) + 1,), 0, dtype=exact)
    return sums.index_add(0, places.to(dtypes.int64), given).to(kind)


class Histc(Opaque):
    """Counts in equal bins from `low` to `high`; what lies outside is not counted."""

    differentiable = False

    def reference(self, x, *, bins, low, high):
        x = x.reshape(-1)
        if low == high and x.size:
            low, high = float(x.min()), float(x.max())
        _check_range(low, high, "histc")
        if low == high:
            low, high = low - 1, high + 1
        x = x[(x >= low) & (x <= high)]
        place = ((x - x.dtype.type(low)) / x.dtype.type(high - low) * bins).astype(np.int64)
        return np.bincount(np.minimum(place, bins - 1), minlength=bins).astype(x.dtype)

    def native(self, node):
        from ...kernels.sort.anchors import counted

        return counted(node, **node.params)


def _check_range(low: float, high: float, name: str) -> None:
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InvalidValueError(f"{name}: range of [{low}, {high}] is not finite; give min and max")
    if high < low:
        raise InvalidValueError(f"{name}: max must be larger than min, got [{low}, {high}]")


HISTC = Histc()
register_module(__name__)


@operation(out=True, differentiable=False)
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Counts in `bins` equal bins between min and max (those of the data if both are equal)."""
    refuse(input.dtype.category != FLOAT, "histc", input.dtype, "convert it with .float()")
    if bins <= 0:
        raise InvalidValueError(f"histc: bins must be > 0, but got {bins}")
    return HISTC(input, bins=int(bins), low=float(min), high=float(max))


@named_result("histogram")
class Histogram(NamedTuple):
    hist: Tensor
    bin_edges: Tensor


@named_result("histogramdd")
class Histogramdd(NamedTuple):
    hist: Tensor
    bin_edges: tuple[Tensor, ...]


def _edges(values: np.ndarray, bins: Any, limits: Any, kind: np.dtype, name: str) -> np.ndarray:
    """The edges of the bins of one coordinate: those given, or equal ones over the range of the data."""
    if isinstance(bins, Tensor):
        if bins.dtype.np != kind:
            raise DtypeError(f"{name}: input and bins tensors should have the same dtype, got {kind} and {bins.dtype}")
        if bins.ndim != 1 or bins.numel() == 0:
            raise ShapeError(f"{name}: bins tensor should have one non-empty dimension, got shape {tuple(bins.shape)}")
        return contents(bins, name)
    if bins <= 0:
        raise InvalidValueError(f"{name}: bins must be > 0, but got {bins}")
    low, high = limits if limits is not None else (values.min(), values.max()) if values.size else (0.0, 1.0)
    _check_range(float(low), float(high), name)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return contents(linspace(float(low), float(high), int(bins) + 1, dtype=dtypes.as_dtype(kind)), name)


def _places(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The bin of each value, −1 outside; the last edge belongs to the last bin."""
    values, edges = wide_enough(values), wide_enough(edges)
    place = np.searchsorted(edges, values, "right") - 1
    place[values == edges[-1]] = len(edges) - 2
    place[(values > edges[-1]) | np.isnan(values)] = -1
    return place


def _counted(
    points: np.ndarray, edges: list[np.ndarray], weight: Tensor | None, density: bool, name: str
) -> np.ndarray:
    """Weights of the points (count, D) added up in the cells between the edges."""
    shape = tuple(len(e) - 1 for e in edges)
    places = [_places(points[:, d], e) for d, e in enumerate(edges)]
    inside = np.all([p >= 0 for p in places], axis=0)
    w = np.ones(len(points)) if weight is None else contents(weight, name).reshape(-1).astype(np.float64)
    if w.shape != (len(points),):
        raise ShapeError(f"{name}: weight has {w.size} elements for {len(points)} points")
    cells = np.ravel_multi_index([p[inside] for p in places], shape)
    hist = np.bincount(cells, w[inside], math.prod(shape)).reshape(shape)
    if density:
        volume = 1.0
        for d, e in enumerate(edges):
            volume = volume * np.diff(e.astype(np.float64)).reshape((-1,) + (1,) * (len(edges) - d - 1))
        hist = hist / hist.sum() / volume
    return hist.astype(points.dtype)


def _check_histogram(x: Tensor, weight: Tensor | None, name: str) -> None:
    refuse(x.dtype.category != FLOAT, name, x.dtype, "convert it with .float()")
    if weight is not None and weight.dtype is not x.dtype:
        raise DtypeError(f"{name}: weight and input should have the same dtype, got {weight.dtype} and {x.dtype}")


@operation(out=True, differentiable=False)
def histogram(
    input: Tensor,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """(hist, bin_edges): weights added up in each bin; `density` makes the histogram integrate to 1."""
    _check_histogram(input, weight, "histogram")
    if weight is not None and weight.shape != input.shape:
        raise ShapeError(f"histogram: weight of shape {tuple(weight.shape)} for input of shape {tuple(input.shape)}")
    values = contents(input, "histogram").reshape(-1)
    edges = _edges(values, bins, range, values.dtype, "histogram")
    return Histogram(wrap(_counted(values[:, None], [edges], weight, density, "histogram")), wrap(np.array(edges)))


@operation(method=False, differentiable=False)
def histogramdd(
    input: Tensor,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogramdd:
    """(hist, bin_edges) of points whose coordinates are the last dimension; `range` lists low and high of each."""
    _check_histogram(input, weight, "histogramdd")
    if input.ndim < 2:
        raise ShapeError(f"histogramdd: input tensor should have at least 2 dimensions, got shape {tuple(input.shape)}")
    points = contents(input, "histogramdd").reshape(-1, input.shape[-1])
    count = points.shape[1]
    each = [bins] * count if is_number(bins) else list(bins)
    if len(each) != count:
        raise ShapeError(
            "histogramdd: the size of bins must be equal to the innermost dimension of the input, got "
            f"{len(each)} for {count}"
        )
    limits = [None] * count if range is None else [(range[2 * d], range[2 * d + 1]) for d, _ in enumerate(each)]
    edges = [_edges(points[:, d], b, limits[d], points.dtype, "histogramdd") for d, b in enumerate(each)]
    hist = _counted(points, edges, weight, density, "histogramdd")
    return Histogramdd(wrap(hist), tuple(wrap(np.array(e)) for e in edges))
