"""Sliding windows over the last dimensions: what convolution, pooling and resampling are made of.

Convolution is one trilinear form, T(x, w, y) = Σ x[n, i, o·stride + k·dilation − padding] · w[c, i, k] ·
y[n, c, o]. Fixing two of its three arguments gives three primitives that are each other's gradients: `Convolve` (y of
x, w), `ConvolveTransposed` (x of y, w) and `ConvolveKernel` (w of x, y). They read windows as strided
views, a few samples at a time, and leave the arithmetic to one matrix product, so that neither forward nor
gradients ever hold the k-fold copy of a whole batch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...runtime.lazy import LazyModule
from ...tensor import Tensor
from ..core.primitive import View, Window, register_module
from ..math.elementwise import conj

__all__ = [
    "CONVOLVE",
    "CONVOLVE_KERNEL",
    "CONVOLVE_TRANSPOSED",
    "FLOATS",
    "FOLD",
    "RESAMPLE",
    "WINDOWS",
    "Sizes",
    "Taps",
    "padded",
    "strided_windows",
    "window_counts",
]

volumes = LazyModule("weft.ops.layers.volumes")

Sizes = tuple[int, ...]
FLOATS = (dtypes.float32, dtypes.float64)

# --------------------------------------------------------------------------------------- geometry


def window_count(length: int, size: int, stride: int, dilation: int) -> int:
    """How many windows of `size` elements, `dilation` apart, start every `stride` on a line."""
    return (length - dilation * (size - 1) - 1) // stride + 1


def window_counts(lengths: Sequence[int], size: Sizes, stride: Sizes, dilation: Sizes) -> Sizes:
    """`window_count` for each dimension."""
    return tuple(window_count(*each) for each in zip(lengths, size, stride, dilation, strict=True))


def strided_windows(x: np.ndarray, size: Sizes, count: Sizes, stride: Sizes, dilation: Sizes) -> np.ndarray:
    """(…, *lengths) → (…, *size, *count): [k, o] shows x[o·stride + k·dilation], without copying."""
    kept = x.ndim - len(size)
    steps = x.strides[kept:]
    inner = tuple(step * d for step, d in zip(steps, dilation, strict=True))
    outer = tuple(step * s for step, s in zip(steps, stride, strict=True))
    shape, strides = (*x.shape[:kept], *size, *count), (*x.strides[:kept], *inner, *outer)
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=x.flags.writeable)


def add_windows(out: np.ndarray, windows: np.ndarray, size: Sizes, stride: Sizes, dilation: Sizes) -> None:
    """Add windows (…, *size, *count) to the places they came from: the adjoint of `strided_windows`."""
    count = windows.shape[windows.ndim - len(size) :]
    if 0 in windows.shape:
        return
    for offset in itertools.product(*(range(k) for k in size)):
        place = tuple(
            slice(k * d, k * d + (o - 1) * s + 1, s) for k, d, o, s in zip(offset, dilation, count, stride, strict=True)
        )
        out[(..., *place)] += windows[(..., *offset, *(slice(None),) * len(size))]


def padded(x: np.ndarray, before: Sizes, after: Sizes, fill: Any = 0) -> np.ndarray:
    """x with `fill` around its last dimensions; x itself where nothing is added."""
    if not any(before) and not any(after):
        return x
    kept = x.ndim - len(before)
    lengths = x.shape[kept:]
    whole = tuple(b + n + a for b, n, a in zip(before, lengths, after, strict=True))
    out = np.full((*x.shape[:kept], *whole), fill, x.dtype)
    out[(..., *(slice(b, b + n) for b, n in zip(before, lengths, strict=True)))] = x
    return out


# ------------------------------------------------------------------------------- windows and their sums


class Windows(View):
    """(…, *lengths) → (…, *counts, *size): y[…, o, k] = x[…, o·stride + k·dilation], a view."""

    def reference(self, x, *, size, stride, dilation):
        n = len(size)
        count = window_counts(x.shape[x.ndim - n :], size, stride, dilation)
        view = strided_windows(x, size, count, stride, dilation)
        kept = x.ndim - n
        return view.transpose(*range(kept), *range(kept + n, kept + 2 * n), *range(kept, kept + n))

    def vjp(self, g, y, x, *, size, stride, dilation):
        lengths = tuple(x.shape[x.ndim - len(size) :])
        return (FOLD(g, lengths=lengths, stride=stride, dilation=dilation),)

    def batch_params(self, params, x):
        return params


class Fold(Window):
    """(…, *counts, *size) → (…, *lengths): every window added back to where it came from."""

    reads = "shapes"
    linear = (0,)

    def reference(self, x, *, lengths, stride, dilation):
        n = len(lengths)
        kept = x.ndim - 2 * n
        size = x.shape[kept + n :]
        windows = x.transpose(*range(kept), *range(kept + n, kept + 2 * n), *range(kept, kept + n))
        out = np.zeros((*x.shape[:kept], *lengths), x.dtype)
        add_windows(out, windows, size, stride, dilation)
        return out

    def vjp(self, g, y, x, *, lengths, stride, dilation):
        return (WINDOWS(g, size=tuple(x.shape[x.ndim - len(lengths) :]), stride=stride, dilation=dilation),)

    def native(self, node):
        from ...kernels.windows.anchors import fold

        rank, n = len(node.output.shape), len(node.params["lengths"])
        return fold(node, range(rank - n, rank), node.params["stride"], node.params["dilation"])

    def batch(self, inputs, batched, size, params):
        return FOLD(inputs[0], **params)


# ---------------------------------------------------------------------------------------- convolution

COLUMN_ELEMENTS = 2**18  # window elements copied at a time: 1 MB of float32 stays in the cache
SHORT_OUTPUT = 64  # fewer outputs than this in a sample: one product for several samples is faster


def _chunks(samples: int, elements: int) -> Iterator[slice]:
    """Slices of the batch such that each copies about COLUMN_ELEMENTS."""
    step = max(1, COLUMN_ELEMENTS // max(1, elements))
    return (slice(start, min(start + step, samples)) for start in range(0, samples, step))


class Convolution(Window, abstract=True):
    """What the three share: how a batch under `vmap` becomes part of a dimension that exists already.

    A batch that two of the tensors carry goes into the dimension these two share: samples (x, y), input
    channels (x, w) or output channels (w, y); one that all three carry becomes more groups.
    """

    multilinear = (0, 1)

    inputs: str  # which of 'x', 'w', 'y' the arguments are
    output: str  # and the result

    def batch(self, inputs, batched, size, params):
        groups = params["groups"]
        carriers = {role for role, b in zip(self.inputs, batched, strict=True) if b} | {self.output}
        where = MERGED["".join(sorted(carriers))]
        merged = [
            _merge(t, *where[r], groups) if b else t for t, r, b in zip(inputs, self.inputs, batched, strict=True)
        ]
        if len(carriers) == 3:
            params = {**params, "groups": groups * size}
        return _split(self(*merged, **params), *where[self.output], groups, size)


# For each set of tensors with a batch: the dimension that takes it, and whether it goes inside the groups.
MERGED = {
    "xy": {"x": (0, False), "y": (0, False)},
    "wx": {"w": (1, False), "x": (1, True)},
    "wy": {"w": (0, True), "y": (1, True)},
    "wxy": {"w": (0, False), "x": (1, False), "y": (1, False)},
}


def _merge(t: Tensor, dim: int, inside_groups: bool, groups: int) -> Tensor:
    """(B, …, D, …) → (…, B·D, …), or with D = groups·D′: (…, groups·B·D′, …)."""
    size = t.shape[0]
    t = t.permute(*range(1, dim + 1), 0, *range(dim + 1, t.ndim))  # (…, B, D, …)
    before, channels, after = t.shape[:dim], t.shape[dim + 1], t.shape[dim + 2 :]
    if inside_groups:
        t = t.reshape(*before, size, groups, channels // groups, *after).transpose(dim, dim + 1)
    return t.reshape(*before, size * channels, *after)


def _split(t: Tensor, dim: int, inside_groups: bool, groups: int, size: int) -> Tensor:
    """The inverse of `_merge`."""
    before, channels, after = t.shape[:dim], t.shape[dim] // size, t.shape[dim + 1 :]
    if inside_groups:
        t = t.reshape(*before, groups, size, channels // groups, *after).transpose(dim, dim + 1)
    t = t.reshape(*before, size, channels, *after)
    return t.permute(dim, *(d for d in range(t.ndim) if d != dim))


class Convolve(Convolution):
    """y[n, c, o] = Σ_{i,k} w[c, i, k] · x[n, i, o·stride + k·dilation − padding], channels in groups.

    x: (N, groups·I, *lengths), w: (groups·C, I, *size) → y: (N, groups·C, *counts)
    """

    inputs, output = "xw", "y"

    def reference(self, x, w, *, stride, padding, dilation, groups):
        size, samples = w.shape[2:], len(x)
        x = padded(x, padding, padding)
        count = window_counts(x.shape[2:], size, stride, dilation)
        outputs, inner = math.prod(count), math.prod(w.shape[1:])
        weights = w.reshape(groups, len(w) // groups, inner)  # (groups, C, I·k)
        y = np.empty((samples, groups, len(w) // groups, outputs), x.dtype)
        product = _product_of_many if outputs < SHORT_OUTPUT else _product_of_each
        for part in _chunks(samples, groups * inner * outputs):
            windows = strided_windows(x[part], size, count, stride, dilation)  # (n, groups·I, *size, *count)
            product(weights, windows.reshape(len(windows), groups, w.shape[1], *size, *count), y[part])
        return y.reshape(samples, len(w), *count)

    def shapes(self, x, w, *, stride, padding, dilation, groups):
        lengths = [n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True)]
        return (x.shape[0], w.shape[0], *window_counts(lengths, w.shape[2:], stride, dilation)), x.dtype

    def vjp(self, g, y, x, w, *, stride, padding, dilation, groups):
        geometry = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
        return (
            lambda: CONVOLVE_TRANSPOSED(g, conj(w), lengths=tuple(x.shape[2:]), **geometry),
            lambda: CONVOLVE_KERNEL(conj(x), g, size=tuple(w.shape[2:]), **geometry),
        )

    def parts(self, x, w, **geometry):
        return volumes.convolve(x, w, **geometry) if _is_volume(x) else None

    def native(self, node):
        from ...kernels.windows.anchors import convolve

        return convolve(node, *node.inputs)


def _is_volume(x: Tensor) -> bool:
    """Whether native code convolves x as images (`volumes.py`)."""
    return x.ndim == 5 and x.dtype in FLOATS


def _product_of_each(weights: np.ndarray, windows: np.ndarray, y: np.ndarray) -> None:
    """y[n] = weights @ windows[n], one matrix product a sample: (C, I·k) @ (I·k, o)."""
    np.matmul(weights, windows.reshape(*y.shape[:2], weights.shape[2], y.shape[3]), out=y)


def _product_of_many(weights: np.ndarray, windows: np.ndarray, y: np.ndarray) -> None:
    """The same with all samples side by side: (C, I·k) @ (I·k, n·o)."""
    product = np.matmul(weights, _side_by_side(windows, weights.shape[2]))  # (groups, C, n·o)
    samples, groups, channels, outputs = y.shape
    y[...] = product.reshape(groups, channels, samples, outputs).transpose(2, 0, 1, 3)


def _side_by_side(windows: np.ndarray, inner: int) -> np.ndarray:
    """(n, groups, I, *size, *count) → (groups, I·k, n·o)."""
    n = (windows.ndim - 3) // 2
    ordered = windows.transpose(1, 2, *range(3, 3 + n), 0, *range(3 + n, 3 + 2 * n))
    return ordered.reshape(windows.shape[1], inner, len(windows) * math.prod(windows.shape[3 + n :]))


class ConvolveTransposed(Convolution):
    """x[n, i, o·stride + k·dilation − padding] = Σ_c w[c, i, k] · y[n, c, o]: the adjoint of Convolve in x.

    y: (N, groups·C, *counts), w: (groups·C, I, *size) → x: (N, groups·I, *lengths)
    """

    inputs, output = "yw", "x"

    def shapes(self, y, w, *, lengths, stride, padding, dilation, groups):
        return (y.shape[0], groups * w.shape[1], *lengths), y.dtype

    def reference(self, y, w, *, lengths, stride, padding, dilation, groups):
        reach = tuple(d * (k - 1) - p for d, k, p in zip(dilation, w.shape[2:], padding, strict=True))
        if all(s == 1 for s in stride) and min(reach) >= 0:  # then it is a convolution with the kernel turned round
            turned = _turned(w, groups)
            return CONVOLVE.reference(y, turned, stride=stride, padding=reach, dilation=dilation, groups=groups)
        size, count, samples = w.shape[2:], y.shape[2:], len(y)
        outputs, inner, channels = math.prod(count), math.prod(w.shape[1:]), len(w) // groups
        weights = np.ascontiguousarray(w.reshape(groups, channels, inner).swapaxes(1, 2))  # (groups, I·k, C)
        whole = tuple(n + 2 * p for n, p in zip(lengths, padding, strict=True))
        x = np.zeros((samples, groups * w.shape[1], *whole), y.dtype)
        y = y.reshape(samples, groups, channels, outputs)
        product = np.multiply if channels == 1 else _transposed_of_many if outputs < SHORT_OUTPUT else np.matmul
        for part in _chunks(samples, groups * inner * outputs):
            windows = product(weights, y[part])  # (n, groups, I·k, o)
            windows = windows.reshape(len(windows), x.shape[1], *size, *count)
            add_windows(x[part], windows, size, stride, dilation)
        inside = tuple(slice(p, p + n) for p, n in zip(padding, lengths, strict=True))
        return np.ascontiguousarray(x[(..., *inside)])

    def vjp(self, g, x, y, w, *, lengths, stride, padding, dilation, groups):
        geometry = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
        return (
            lambda: CONVOLVE(g, conj(w), **geometry),
            lambda: CONVOLVE_KERNEL(g, conj(y), size=tuple(w.shape[2:]), **geometry),
        )

    def parts(self, y, w, **geometry):
        return volumes.transposed(y, w, **geometry) if _is_volume(y) else None

    def native(self, node):
        from ...kernels.windows.anchors import convolve

        return convolve(node, *node.inputs, adjoint=True)


def _turned(w: np.ndarray, groups: int) -> np.ndarray:
    """(groups·C, I, *size) → (groups·I, C, *size), every kernel reversed in all its dimensions."""
    split = w.reshape(groups, len(w) // groups, *w.shape[1:]).swapaxes(1, 2)
    return np.flip(split.reshape(groups * w.shape[1], len(w) // groups, *w.shape[2:]), tuple(range(2, w.ndim)))


def _transposed_of_many(weights: np.ndarray, y: np.ndarray) -> np.ndarray:
    """weights @ y[n] for all n in one product: (I·k, C) @ (C, n·o), returned as (n, groups, I·k, o)."""
    samples, groups, channels, outputs = y.shape
    product = np.matmul(weights, y.transpose(1, 2, 0, 3).reshape(groups, channels, samples * outputs))
    return product.reshape(groups, weights.shape[1], samples, outputs).transpose(2, 0, 1, 3)


class ConvolveKernel(Convolution):
    """w[c, i, k] = Σ_{n,o} x[n, i, o·stride + k·dilation − padding] · y[n, c, o]: the adjoint in w.

    x: (N, groups·I, *lengths), y: (N, groups·C, *counts) → w: (groups·C, I, *size)
    """

    inputs, output = "xy", "w"

    def shapes(self, x, y, *, size, stride, padding, dilation, groups):
        return (y.shape[1], x.shape[1] // groups, *size), x.dtype

    def reference(self, x, y, *, size, stride, padding, dilation, groups):
        samples, count, inputs = len(x), y.shape[2:], x.shape[1] // groups
        inner, channels = inputs * math.prod(size), y.shape[1] // groups
        x = padded(x, padding, padding)
        y = y.reshape(samples, groups, channels, math.prod(count))
        w = np.zeros((groups, channels, inner), x.dtype)
        for part in _chunks(samples, groups * inner * math.prod(count)):
            windows = strided_windows(x[part], size, count, stride, dilation)
            columns = _side_by_side(windows.reshape(len(windows), groups, inputs, *size, *count), inner)
            w += np.matmul(
                y[part].transpose(1, 2, 0, 3).reshape(groups, channels, columns.shape[2]),
                columns.swapaxes(1, 2),
            )
        return w.reshape(groups * channels, inputs, *size)

    def vjp(self, g, w, x, y, *, size, stride, padding, dilation, groups):
        geometry = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
        return (
            lambda: CONVOLVE_TRANSPOSED(conj(y), g, lengths=tuple(x.shape[2:]), **geometry),
            lambda: CONVOLVE(conj(x), g, **geometry),
        )

    def parts(self, x, y, **geometry):
        return volumes.kernel(x, y, **geometry) if _is_volume(x) else None

    def native(self, node):
        from ...kernels.windows.anchors import convolve_kernel

        return convolve_kernel(node, *node.inputs)


# ---------------------------------------------------------------------------------------- resampling


class Taps:
    """Which elements of a line, with which weights, make each element of a resampled line.

    `index` and `weight` have shape (outputs, taps); `length` is that of the line. Compared by identity:
    make equal ones through a cache.
    """

    def __init__(self, index: np.ndarray, weight: np.ndarray, length: int) -> None:
        self.index, self.weight, self.length = index, weight, length
        self._matrices: dict[tuple[np.dtype, bool], Any] = {}

    def matrix(self, kind: np.dtype, transposed: bool) -> Any:
        """The sparse (outputs, length) matrix of the weights, or its transpose."""
        found = self._matrices.get((kind, transposed))
        if found is None:
            from scipy.sparse import csr_array

            outputs, taps = self.index.shape
            rows = np.repeat(np.arange(outputs), taps)
            used = np.flatnonzero(self.weight)  # none with weight 0: a NaN next to the taps stays where it is
            entries = self.weight.ravel()[used].astype(kind), (rows[used], self.index.ravel()[used])
            whole = csr_array(entries, (outputs, self.length))
            found = self._matrices[kind, transposed] = whole.T.tocsr() if transposed else whole
        return found


class Resample(Window):
    """y[…, o, …] = Σ_t weight[o, t] · x[…, index[o, t], …] along `dim`; or its adjoint."""

    reads = "shapes"
    linear = (0,)

    def reference(self, x, *, dim, taps, transposed):
        matrix = taps.matrix(x.dtype, transposed)
        front = np.moveaxis(x, dim, 0)
        product = matrix @ front.reshape(len(front), math.prod(front.shape[1:]))
        return np.ascontiguousarray(np.moveaxis(product.reshape(len(product), *front.shape[1:]), 0, dim))

    def vjp(self, g, y, x, *, dim, taps, transposed):
        return (RESAMPLE(g, dim=dim, taps=taps, transposed=not transposed),)

    def native(self, node):
        from ...kernels.windows.anchors import resample

        return resample(node, *node.inputs, **node.params)

    def batch(self, inputs, batched, size, params):
        return RESAMPLE(inputs[0], **{**params, "dim": params["dim"] + 1})


WINDOWS, FOLD, RESAMPLE = Windows(), Fold(), Resample()
CONVOLVE, CONVOLVE_TRANSPOSED, CONVOLVE_KERNEL = Convolve(), ConvolveTransposed(), ConvolveKernel()
register_module(__name__)
