"""Operations that a composite would be too slow for: normalisation and cross entropy, forward and backward whole.

Each is two primitives, the function and its slope, in NumPy over pieces of the input that stay in cache. When the
gradient itself is to be differentiated, it is computed by tensor operations instead (`formula`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import ndarray

from ...dtypes import int32
from ...runtime.threads import in_parallel
from ...tape.modes import mode
from ..core.primitive import PRIMITIVES, Opaque, register_module
from ..create.ranges import arange
from ..math.elementwise import where

__all__ = ["CHANNEL_NORMALIZE", "CLASS_ENTROPY", "ROW_NORMALIZE", "Fused"]

PIECE = 1 << 18  # elements worked on at a time: large enough that threads seldom wait for each other


def pieces(x: ndarray) -> list[slice]:
    """Slices of dimension 0 with about PIECE elements each."""
    count = len(x)
    step = max(1, PIECE * count // max(1, x.size))
    return [slice(start, start + step) for start in range(0, count, step)]


class Fused(Opaque, abstract=True):
    """Returns its result and what its slope needs; only the result is for others.

    `slope` is the primitive of the gradient, called as slope(g, *inputs, *kept, **params) while nothing is recorded.
    `formula(g, *inputs, **params)` is the same in tensor operations.
    """

    slope: Opaque
    results = 1  # how many of the outputs are results, the rest is kept for the slope

    def vjp(self, g, y, *inputs, **params):
        found = self.formula(*g, *inputs, **params) if mode.grad else self.slope(*g, *inputs, *y, **params)
        return (*found, *(None,) * (len(inputs) - len(found)))

    def kept(self, out: Any) -> Any:
        return out[self.results :]  # the results need not be kept


# ----------------------------------------------------------------------------------- normalisation of rows


class RowNormalizeSlope(Opaque):
    """Gradients of `RowNormalize`: ĝ = g w; gˣ = ρ (ĝ − mean ĝ − x̂ mean(ĝ x̂)), gʷ = Σ g x̂, gᵇ = Σ g over rows."""

    differentiable = False

    def shapes(self, g, x, *rest, width, eps, centre):
        return ((x.shape, x.dtype), *((p.shape, x.dtype) for p in rest[:-2]))

    def reference(self, g, x, *rest, width, eps, centre):
        *parameters, mean, factor = rest
        g, rows = g.reshape(-1, width), x.reshape(-1, width)
        weight = parameters[0].reshape(-1) if parameters else None
        gx = np.empty(x.shape, x.dtype)
        out, parts = gx.reshape(-1, width), pieces(rows)
        sums = np.zeros((len(parts), 2, width), x.dtype)  # one pair for each piece, so that pieces share no memory

        def work(number: int) -> None:
            part = parts[number]
            _row_slope(g[part], rows[part], weight, mean[part], factor[part], centre, out[part], sums[number])

        in_parallel(work, range(len(parts)))
        return (gx, *(s.reshape(p.shape) for s, p in zip(sums.sum(0), parameters, strict=False)))

    def parts(self, g, x, *rest, width, eps, centre):
        *parameters, mean, factor = rest
        g, normal = g.reshape(-1, width), (x.reshape(-1, width) - mean) * factor
        scaled = g * parameters[0].reshape(-1) if parameters else g
        gx = scaled - normal * (scaled * normal).mean(1, keepdim=True)
        gx = (gx - scaled.mean(1, keepdim=True) if centre else gx) * factor
        sums = [(g * normal).sum(0), g.sum(0)]
        return (gx.reshape(x.shape), *(s.reshape(p.shape) for s, p in zip(sums, parameters, strict=False)))


def _row_slope(
    g: ndarray,
    x: ndarray,
    weight: ndarray | None,
    mean: ndarray,
    factor: ndarray,
    centre: bool,
    out: ndarray,
    sums: ndarray,
) -> None:
    """Some rows: gˣ = A g w + B x + C into `out`; their share of Σ g x̂ and Σ g is added to `sums`."""
    width, g = x.shape[1], np.ascontiguousarray(g)
    product = np.multiply(g, x)
    first, second = (row_sums(g), row_sums(product)) if weight is None else (g @ weight, product @ weight)
    first, second = first[:, None], second[:, None] - mean * first[:, None]
    if weight is not None:
        sums[0] += factor[:, 0] @ product - (factor * mean)[:, 0] @ g
        sums[1] += np.ones(len(g), g.dtype) @ g
    slope = second * factor**3 / -width
    np.multiply(x, slope, out=product)
    product += -mean * slope - (first * factor / width if centre else 0)
    if weight is None:
        np.multiply(g, factor, out=out)
    else:
        np.multiply(g, weight, out=out)
        out *= factor
    out += product


def row_sums(x: ndarray) -> ndarray:
    """Σ over the last of two dimensions, as a product with ones: several times faster than a reduction."""
    return x @ np.ones(x.shape[-1], x.dtype)


class RowNormalize(Fused):
    """y = (x − μ) ρ w + b with ρ = 1/√(σ² + ε), over rows of `width` elements; not centred: μ = 0 (root mean square).

    w and b have `width` elements, or are left out. Kept: μ and ρ of each row
    """

    slope = RowNormalizeSlope()

    def shapes(self, x, *parameters, width, eps, centre):
        rows = (math.prod(x.shape) // width if width else 0, 1)
        return (x.shape, x.dtype), (rows, x.dtype), (rows, x.dtype)

    def reference(self, x, weight=None, bias=None, *, width, eps, centre):
        rows = x.reshape(-1, width)
        y = np.empty(rows.shape, x.dtype)
        mean, factor = np.zeros((len(rows), 1), x.dtype), np.empty((len(rows), 1), x.dtype)
        weight, bias = (p if p is None else p.reshape(-1) for p in (weight, bias))

        def work(part: slice) -> None:
            out = y[part]
            if centre:
                np.divide(row_sums(rows[part])[:, None], width, out=mean[part])
                np.subtract(rows[part], mean[part], out=out)
            else:
                np.copyto(out, rows[part])
            square = np.vecdot(out, out)[:, None]
            np.divide(1, np.sqrt(square / width + eps), out=factor[part])
            _scale(out, factor[part], weight, bias)

        in_parallel(work, pieces(rows))
        return y.reshape(x.shape), mean, factor

    def parts(self, x, weight=None, bias=None, *, width, eps, centre):
        rows = x.reshape(-1, width)
        mean = rows.mean(1, keepdim=True)
        mean = mean if centre else mean * 0
        centred = rows - mean if centre else rows
        factor = (centred.square().mean(1, keepdim=True) + eps).rsqrt()
        y = centred * factor
        y = y if weight is None else y * weight.reshape(-1)
        y = y if bias is None else y + bias.reshape(-1)
        return y.reshape(x.shape), mean, factor

    def formula(self, g, x, weight=None, bias=None, *, width, eps, centre):
        rows, g = x.reshape(-1, width), g.reshape(-1, width)
        centred = rows - rows.mean(1, keepdim=True) if centre else rows
        factor = (centred.square().mean(1, keepdim=True) + eps).rsqrt()
        normal = centred * factor
        scaled = g if weight is None else g * weight.reshape(-1)
        gx = scaled - normal * (scaled * normal).mean(1, keepdim=True)
        gx = (gx - scaled.mean(1, keepdim=True) if centre else gx) * factor
        found = [gx.reshape(x.shape)]
        if weight is not None:
            found.append((g * normal).sum(0).reshape(weight.shape))
        return (*found, g.sum(0).reshape(bias.shape)) if bias is not None else tuple(found)


def _scale(x: ndarray, factor: ndarray, weight: ndarray | None, bias: ndarray | None) -> None:
    """x ← x · factor · weight + bias, in place."""
    x *= factor
    if weight is not None:
        x *= weight
    if bias is not None:
        x += bias


# ------------------------------------------------------------------------------- normalisation of channels


def as_places(x: ndarray) -> ndarray:
    """(N, C, *) → (N, C, S)."""
    return x.reshape(*x.shape[:2], math.prod(x.shape[2:]))


def channel_pieces(x: ndarray) -> list[slice]:
    """Slices of dimension 1 of (N, C, S) with about PIECE elements each."""
    channels = x.shape[1]
    step = max(1, PIECE * channels // max(1, x.size))
    return [slice(start, start + step) for start in range(0, channels, step)]


def pooled(sums: ndarray, groups: int) -> ndarray:
    """Sums of channels (N, C) added up over the batch (groups = 0) → (1, C), or over groups of channels → (N, C)."""
    if groups == 0:
        return np.add.reduce(sums, 0, keepdims=True)
    examples, channels = sums.shape
    if groups == channels:
        return sums
    total = np.add.reduce(sums.reshape(examples, groups, -1), 2)
    return np.repeat(total, channels // groups, 1)


def elements(x: ndarray, groups: int) -> int:
    """How many elements one mean is taken over; x (N, C, S)."""
    return x.size // max(x.shape[1], 1) if groups == 0 else x.shape[1] * x.shape[2] // groups


def channel_means(x: Any, groups: int) -> Any:
    """Means in tensor operations: of channels over the batch (groups = 0) → (1, C), or over groups of them → (N, C)."""
    if groups == 0:
        return x.mean([d for d in range(x.ndim) if d != 1]).unsqueeze(0)
    examples, channels = x.shape[:2]
    found = x.reshape(examples, groups, -1).mean(2, keepdim=True)
    return found.expand(examples, groups, channels // groups).reshape(examples, channels)


class ChannelNormalizeSlope(Opaque):
    """Gradients of `ChannelNormalize`, from Σ g and Σ g (x − μ) of every channel of every example."""

    differentiable = False

    def shapes(self, g, x, *rest, groups, eps):
        return ((x.shape, x.dtype), *((p.shape, x.dtype) for p in rest[:-2]))

    def reference(self, g, x, *rest, groups, eps):
        *parameters, mean, variance = rest
        weight = parameters[0] if parameters else None
        factor = 1 / np.sqrt(variance + eps)
        x3, g3 = as_places(x), as_places(g)
        gx, sums = np.empty(x.shape, x.dtype), np.empty((2, *x3.shape[:2]), x.dtype)
        out = as_places(gx)

        def work(part: slice) -> None:
            if groups == 0:  # channels stand alone
                w = None if weight is None else weight[part]
                whole = (slice(None), part)
                _channel_slope(g3[whole], x3[whole], w, mean[whole], factor[whole], 0, out[whole], sums[:, :, part])
            else:  # examples stand alone
                _channel_slope(g3[part], x3[part], weight, mean[part], factor[part], groups, out[part], sums[:, part])

        in_parallel(work, channel_pieces(x3) if groups == 0 else pieces(x3))
        sums[1] *= factor
        found = [total for total, _ in zip((sums[1], sums[0]), parameters, strict=False)]
        return (gx, *(np.add.reduce(total, 0) for total in found))

    def parts(self, g, x, *rest, groups, eps):
        *parameters, mean, variance = rest
        tail = (1,) * (x.ndim - 2)
        channel = lambda p: p.reshape(*p.shape, *tail)
        factor = channel((variance + eps).rsqrt())
        normal = (x - channel(mean)) * factor
        scaled = g * channel(parameters[0]) if parameters else g
        first, second = channel_means(scaled, groups), channel_means(scaled * normal, groups)
        gx = (scaled - channel(first) - normal * channel(second)) * factor
        over = [d for d in range(x.ndim) if d != 1]
        sums = ((g * normal).sum(over), g.sum(over))
        return (gx, *(s for s, _ in zip(sums, parameters, strict=False)))


def _channel_slope(
    g: ndarray,
    x: ndarray,
    weight: ndarray | None,
    mean: ndarray,
    factor: ndarray,
    groups: int,
    out: ndarray,
    sums: ndarray,
) -> None:
    """gˣ = A g + B (x − μ) + C with coefficients of the size of channels; `sums` gets Σ g and Σ g (x − μ)."""
    g = np.ascontiguousarray(g)
    np.subtract(x, mean[:, :, None], out=out)
    sums[0], sums[1] = place_sums(g), place_dots(g, out)
    first, second = sums if weight is None else sums * weight
    count = elements(x, groups)
    own = factor if weight is None else factor * weight
    slope = pooled(second, groups) * factor**3 / -count
    offset = pooled(first, groups) * factor / -count
    out *= slope[:, :, None]
    out += offset[:, :, None]
    out += g * own[:, :, None]


def place_sums(x: ndarray) -> ndarray:
    """Σ_s x. Shape: (N, C, S) → (N, C)."""
    return x[:, :, 0] if x.shape[2] == 1 else row_sums(x)


def place_dots(a: ndarray, b: ndarray) -> ndarray:
    """Σ_s a b. Shape: (N, C, S), (N, C, S) → (N, C)."""
    return (a * b)[:, :, 0] if a.shape[2] == 1 else np.vecdot(a, b)


class ChannelNormalize(Fused):
    """y = (x − μ) ρ w + b with ρ = 1/√(σ² + ε), w and b one for each channel, x (N, C, *).

    groups = 0: μ and σ² of each channel over the batch; else of each example over each of `groups` groups of channels.
    Kept: μ and σ², of shape (1, C) or (N, C)
    """

    slope = ChannelNormalizeSlope()

    def shapes(self, x, *parameters, groups, eps):
        means = (1 if groups == 0 else x.shape[0], x.shape[1])
        return (x.shape, x.dtype), (means, x.dtype), (means, x.dtype)

    def reference(self, x, weight=None, bias=None, *, groups, eps):
        x3 = as_places(x)
        y = np.empty(x3.shape, x.dtype)
        mean, variance = np.empty((2, 1 if groups == 0 else len(x3), x3.shape[1]), x.dtype)

        def work(part: slice) -> None:
            if groups == 0:  # channels stand alone
                w, b = (p if p is None else p[part] for p in (weight, bias))
                found = _channel_normalize(x3[:, part], w, b, 0, eps, y[:, part])
                mean[:, part], variance[:, part] = found
            else:  # examples stand alone
                mean[part], variance[part] = _channel_normalize(x3[part], weight, bias, groups, eps, y[part])

        in_parallel(work, channel_pieces(x3) if groups == 0 else pieces(x3))
        return y.reshape(x.shape), mean, variance

    def parts(self, x, weight=None, bias=None, *, groups, eps):
        tail = (1,) * (x.ndim - 2)
        channel = lambda p: p.reshape(*p.shape, *tail)
        if groups == 0:  # both moments in one pass, about some element so that little cancels
            about = x[:1, :, *(0,) * (x.ndim - 2)]
            moved = x - channel(about)
            first, second = channel_means(moved, 0), channel_means(moved.square(), 0)
            mean, variance = about + first, (second - first.square()).clamp_min(0)
        else:
            mean = channel_means(x, groups)
            variance = channel_means((x - channel(mean)).square(), groups)
        factor = (variance + eps).rsqrt()
        y = (x - channel(mean)) * channel(factor if weight is None else factor * weight)
        return (y if bias is None else y + channel(bias)), mean, variance

    def formula(self, g, x, weight=None, bias=None, *, groups, eps):
        shape = x.shape
        batch = groups == 0
        split = (*shape[:2], -1) if batch else (shape[0], groups, shape[1] // groups, -1)  # (N, C, S), (N, G, C/G, S)
        dims = (0, 2) if batch else (2, 3)
        per_channel = lambda p: p.reshape(-1, 1) if batch else p.reshape(groups, -1, 1)
        x, g = x.reshape(split), g.reshape(split)
        centred = x - x.mean(dims, keepdim=True)
        factor = (centred.square().mean(dims, keepdim=True) + eps).rsqrt()
        normal = centred * factor
        scaled = g if weight is None else g * per_channel(weight)
        gx = scaled - scaled.mean(dims, keepdim=True) - normal * (scaled * normal).mean(dims, keepdim=True)
        found = [(gx * factor).reshape(shape)]
        over = (0, 2) if batch else (0, 3)
        if weight is not None:
            found.append((g * normal).sum(over).reshape(weight.shape))
        return (*found, g.sum(over).reshape(bias.shape)) if bias is not None else tuple(found)


def _channel_normalize(
    x: ndarray, weight: ndarray | None, bias: ndarray | None, groups: int, eps: float, out: ndarray
) -> tuple[ndarray, ndarray]:
    """(x − μ) ρ w + b into `out`; μ and σ²."""
    count = elements(x, groups)
    mean = pooled(place_sums(x), groups) / count
    np.subtract(x, mean[:, :, None], out=out)
    variance = pooled(place_dots(out, out), groups) / count
    factor = 1 / np.sqrt(variance + eps)
    out *= (factor if weight is None else factor * weight)[:, :, None]
    if bias is not None:
        out += bias[:, None]
    return mean, variance


# ------------------------------------------------------------------------------------------ cross entropy


class ClassEntropySlope(Opaque):
    """Gradient of `ClassEntropy`: g (softmax x − one-hot of the class)."""

    differentiable = False

    def reference(self, g, x, index, normalizer, *, mean):
        out = np.empty(x.shape, x.dtype)
        if mean:
            g = np.full(len(x), g / len(x), x.dtype)

        def work(part: slice) -> None:
            rows = np.subtract(x[part], normalizer[part, None], out=out[part])
            np.exp(rows, out=rows)
            rows[np.arange(len(rows)), index[part]] -= 1
            rows *= g[part, None]

        in_parallel(work, pieces(x))
        return (out,)

    def shapes(self, g, x, index, normalizer, *, mean):
        return ((x.shape, x.dtype),)

    def parts(self, g, x, index, normalizer, *, mean):
        scale = g / len(x) if mean else g.unsqueeze(1)
        p = (x - normalizer.unsqueeze(1)).exp()
        return (where(_is_class(x, index), p - 1, p) * scale,)


def _is_class(x: Any, index: Any) -> Any:
    """One-hot rows, in tensor operations. Shape: (N, C), (N,) → (N, C)."""
    return arange(x.shape[1], dtype=int32) == index.to(int32).unsqueeze(1)


class ClassEntropy(Fused):
    """log Σ_c exp x_c − x_t, the negative log probability of class t, of each row or its mean.

    Shape: (N, C), (N,) → (N,) or (), kept (N,)
    """

    slope = ClassEntropySlope()

    def reference(self, x, index, *, mean):
        normalizer = np.empty(len(x), x.dtype)

        def work(part: slice) -> None:
            top = np.maximum.reduce(x[part], 1, keepdims=True)
            top = np.where(np.isfinite(top), top, x.dtype.type(0))
            shifted = np.subtract(x[part], top)
            np.exp(shifted, out=shifted)
            np.add(np.log(row_sums(shifted)), top[:, 0], out=normalizer[part])

        in_parallel(work, pieces(x))
        loss = normalizer - x[np.arange(len(x)), index]
        return np.asarray(loss.mean()) if mean else loss, normalizer

    def shapes(self, x, index, *, mean):
        return (() if mean else (x.shape[0],), x.dtype), ((x.shape[0],), x.dtype)

    def parts(self, x, index, *, mean):
        normalizer = x.logsumexp(1)
        loss = normalizer - where(_is_class(x, index), x, 0).sum(1)
        return (loss.mean() if mean else loss), normalizer

    def formula(self, g, x, index, *, mean):
        one_hot = x.detach() * 0
        one_hot = one_hot.masked_fill(one_hot != 0, 0).scatter(1, index.unsqueeze(1), 1.0)
        return ((x.softmax(1) - one_hot) * (g / len(x) if mean else g.unsqueeze(1)),)


register_module(__name__)
ROW_NORMALIZE, CHANNEL_NORMALIZE = PRIMITIVES["RowNormalize"], PRIMITIVES["ChannelNormalize"]
CLASS_ENTROPY = PRIMITIVES["ClassEntropy"]
