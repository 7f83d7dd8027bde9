"""Every function of the standard against array-api-strict: all element types it takes × shapes × options."""

import math

import numpy as np
import pytest

import weft.array_api as xp

from .oracle import KINDS, PROMOTABLE, SHAPES, compare, drawn

UNARY = {
    "abs": "numeric",
    "acos": "floating",
    "acosh": "floating",
    "asin": "floating",
    "asinh": "floating",
    "atan": "floating",
    "atanh": "floating",
    "bitwise_invert": "integer or bool",
    "ceil": "real",
    "conj": "numeric",
    "cos": "floating",
    "cosh": "floating",
    "exp": "floating",
    "expm1": "floating",
    "floor": "real",
    "imag": "complex floating",
    "isfinite": "numeric",
    "isinf": "numeric",
    "isnan": "numeric",
    "log": "floating",
    "log1p": "floating",
    "log2": "floating",
    "log10": "floating",
    "logical_not": "bool",
    "negative": "numeric",
    "positive": "numeric",
    "real": "numeric",
    "reciprocal": "floating",
    "round": "numeric",
    "sign": "numeric",
    "signbit": "real floating",
    "sin": "floating",
    "sinh": "floating",
    "sqrt": "floating",
    "square": "numeric",
    "tan": "floating",
    "tanh": "floating",
    "trunc": "real",
}
BINARY = {
    "add": "numeric",
    "atan2": "real floating",
    "bitwise_and": "integer or bool",
    "bitwise_left_shift": "integer",
    "bitwise_or": "integer or bool",
    "bitwise_right_shift": "integer",
    "bitwise_xor": "integer or bool",
    "copysign": "real floating",
    "divide": "floating",
    "equal": "all",
    "floor_divide": "real",
    "greater": "real",
    "greater_equal": "real",
    "hypot": "real floating",
    "less": "real",
    "less_equal": "real",
    "logaddexp": "real floating",
    "logical_and": "bool",
    "logical_or": "bool",
    "logical_xor": "bool",
    "maximum": "real",
    "minimum": "real",
    "multiply": "numeric",
    "nextafter": "real floating",
    "not_equal": "all",
    "pow": "numeric",
    "remainder": "real",
    "subtract": "numeric",
}
NOT_NEGATIVE = {"bitwise_left_shift", "bitwise_right_shift", "pow"}
NOT_ZERO = {"floor_divide", "remainder"}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    for dtype in KINDS[UNARY[name]]:
        for shape in SHAPES:
            compare(lambda xp, x: getattr(xp, name)(x), drawn(dtype, shape), note=f"{name} {dtype} {shape}")


def operands(name: str, first: str, second: str, shapes: tuple) -> tuple[np.ndarray, np.ndarray]:
    a = drawn(first, shapes[0], 1)
    b = drawn(second, shapes[1], 2, low=0 if name in NOT_NEGATIVE else -4)
    return a, np.where(b == 0, 3, b).astype(b.dtype) if name in NOT_ZERO and b.dtype.kind in "iu" else b


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    kinds = KINDS[BINARY[name]]
    for first, second in PROMOTABLE:
        if first in kinds and second in kinds:
            for shapes in (((), ()), ((3,), ()), ((), (2, 2)), ((2, 3), (3,)), ((2, 1, 3), (4, 1)), ((0,), (1,))):
                pair = operands(name, first, second, shapes)
                compare(lambda xp, x, y: getattr(xp, name)(x, y), *pair, note=f"{name} {first} {second} {shapes}")


@pytest.mark.parametrize("name", BINARY)
def test_binary_with_python_numbers(name):
    for dtype in KINDS[BINARY[name]]:
        kind = np.dtype(dtype).kind
        numbers = {"b": [True], "i": [2], "u": [2], "f": [2, 1.5], "c": [2, 1.5, 1 + 2j]}[kind]
        for number in numbers:
            low = 1 if name in NOT_NEGATIVE | NOT_ZERO else -4
            x = np.where(drawn(dtype, (2, 3), low=low) == 0, 1, drawn(dtype, (2, 3), low=low)).astype(dtype)
            for shaped in (x, x[0, 0]):
                shaped = np.asarray(shaped)
                compare(lambda xp, x: getattr(xp, name)(x, number), shaped, note=f"{name}({dtype}, {number})")  # noqa: B023
                compare(lambda xp, x: getattr(xp, name)(number, x), shaped, note=f"{name}({number}, {dtype})")  # noqa: B023


# (name, element types, call): the calls of one array; each runs on every shape, errors included
CALLS = [
    ("all", "all", lambda xp, x: xp.all(x)),
    ("all", "all", lambda xp, x: xp.all(x, axis=-1, keepdims=True)),
    ("any", "all", lambda xp, x: xp.any(x)),
    ("any", "all", lambda xp, x: xp.any(x, axis=(0, 1))),
    ("any", "all", lambda xp, x: xp.any(x, axis=())),
    ("argmax", "real", lambda xp, x: xp.argmax(x, keepdims=True)),
    ("argmax", "real", lambda xp, x: xp.argmax(x, axis=0)),
    ("argmin", "real", lambda xp, x: xp.argmin(x)),
    ("argmin", "real", lambda xp, x: xp.argmin(x, axis=-1, keepdims=True)),
    ("broadcast_to", "all", lambda xp, x: xp.broadcast_to(x, (4, 2, 3))),
    ("clip", "real", lambda xp, x: xp.clip(x, 1, 3)),
    ("clip", "real", lambda xp, x: xp.clip(x, max=2)),
    ("clip", "real", lambda xp, x: xp.clip(x)),
    ("clip", "real", lambda xp, x: xp.clip(x, min=xp.asarray(1, dtype=x.dtype))),
    ("concat", "all", lambda xp, x: xp.concat([x, x, x])),
    ("concat", "all", lambda xp, x: xp.concat((x, x), axis=-1)),
    ("concat", "all", lambda xp, x: xp.concat([x, x], axis=None)),
    ("count_nonzero", "all", lambda xp, x: xp.count_nonzero(x)),
    ("count_nonzero", "all", lambda xp, x: xp.count_nonzero(x, axis=(-1,), keepdims=True)),
    ("cumulative_prod", "numeric", lambda xp, x: xp.cumulative_prod(x, axis=-1)),
    ("cumulative_prod", "numeric", lambda xp, x: xp.cumulative_prod(x, axis=0, include_initial=True)),
    ("cumulative_sum", "numeric", lambda xp, x: xp.cumulative_sum(x, axis=0)),
    ("cumulative_sum", "numeric", lambda xp, x: xp.cumulative_sum(x, axis=-1, include_initial=True)),
    ("diff", "numeric", lambda xp, x: xp.diff(x)),
    ("diff", "numeric", lambda xp, x: xp.diff(x, axis=0, n=2)),
    ("diff", "numeric", lambda xp, x: xp.diff(x, prepend=x, append=x)),
    ("expand_dims", "all", lambda xp, x: xp.expand_dims(x, axis=-1)),
    ("expand_dims", "all", lambda xp, x: xp.expand_dims(x, axis=1)),
    ("flip", "all", lambda xp, x: xp.flip(x)),
    ("flip", "all", lambda xp, x: xp.flip(x, axis=(0, -1))),
    ("max", "real", lambda xp, x: xp.max(x)),
    ("max", "real", lambda xp, x: xp.max(x, axis=(0, -1), keepdims=True)),
    ("mean", "floating", lambda xp, x: xp.mean(x)),
    ("mean", "floating", lambda xp, x: xp.mean(x, axis=0, keepdims=True)),
    ("min", "real", lambda xp, x: xp.min(x)),
    ("min", "real", lambda xp, x: xp.min(x, axis=-1)),
    ("moveaxis", "all", lambda xp, x: xp.moveaxis(x, 0, -1)),
    ("moveaxis", "all", lambda xp, x: xp.moveaxis(x, (0, 1), (1, 0))),
    ("nonzero", "all", lambda xp, x: xp.nonzero(x)),
    ("permute_dims", "all", lambda xp, x: xp.permute_dims(x, tuple(range(x.ndim))[::-1])),
    ("prod", "numeric", lambda xp, x: xp.prod(x)),
    ("prod", "numeric", lambda xp, x: xp.prod(x, axis=(0, 1), keepdims=True)),
    ("repeat", "all", lambda xp, x: xp.repeat(x, 2)),
    ("repeat", "all", lambda xp, x: xp.repeat(x, 3, axis=-1)),
    ("repeat", "all", lambda xp, x: xp.repeat(x, xp.asarray([2, 0, 1]), axis=-1)),
    ("reshape", "all", lambda xp, x: xp.reshape(x, (-1,))),
    ("reshape", "all", lambda xp, x: xp.reshape(x, (3, 2), copy=True)),
    ("roll", "all", lambda xp, x: xp.roll(x, 2)),
    ("roll", "all", lambda xp, x: xp.roll(x, -1, axis=0)),
    ("roll", "all", lambda xp, x: xp.roll(x, (1, 5), axis=(0, -1))),
    ("sort", "real", lambda xp, x: xp.sort(x)),
    ("sort", "real", lambda xp, x: xp.sort(x, axis=0, descending=True)),
    ("argsort", "real", lambda xp, x: xp.argsort(x, axis=-1)),
    ("argsort", "real", lambda xp, x: xp.argsort(x, axis=0, descending=True)),
    ("stack", "all", lambda xp, x: xp.stack([x, x], axis=-1)),
    ("std", "real floating", lambda xp, x: xp.std(x)),
    ("std", "real floating", lambda xp, x: xp.std(x, axis=-1, correction=1)),
    ("var", "real floating", lambda xp, x: xp.var(x, axis=(0, -1), correction=0.5, keepdims=True)),
    ("squeeze", "all", lambda xp, x: xp.squeeze(x, axis=0)),
    ("sum", "numeric", lambda xp, x: xp.sum(x)),
    ("sum", "numeric", lambda xp, x: xp.sum(x, axis=(-1, 0))),
    ("sum", "numeric", lambda xp, x: xp.sum(x, axis=())),
    ("sum", "real", lambda xp, x: xp.sum(x, dtype=xp.float64, keepdims=True)),
    ("take", "all", lambda xp, x: xp.take(x, xp.asarray([0, -1]), axis=0)),
    ("take", "all", lambda xp, x: xp.take(x, xp.asarray([1, 1, 0], dtype=xp.uint8)) if x.ndim else None),
    ("take_along_axis", "all", lambda xp, x: xp.take_along_axis(x, xp.zeros(x.shape, dtype=xp.int64), axis=0)),
    ("take_along_axis", "all", lambda xp, x: xp.take_along_axis(x, xp.asarray([[[-1, 0]]]))),
    ("tile", "all", lambda xp, x: xp.tile(x, (2,))),
    ("tile", "all", lambda xp, x: xp.tile(x, (1, 2, 1, 2))),
    ("tril", "all", lambda xp, x: xp.tril(x, k=-1)),
    ("triu", "all", lambda xp, x: xp.triu(x, k=1)),
    ("unique_all", "all", lambda xp, x: xp.unique_all(x)),
    ("unique_counts", "all", lambda xp, x: xp.unique_counts(x)),
    ("unique_inverse", "all", lambda xp, x: xp.unique_inverse(x)),
    ("unique_values", "all", lambda xp, x: xp.unique_values(x)),
    ("unstack", "all", lambda xp, x: xp.unstack(x, axis=-1)),
    ("matrix_transpose", "all", lambda xp, x: xp.matrix_transpose(x)),
    ("zeros_like", "all", lambda xp, x: xp.zeros_like(x)),
    ("ones_like", "all", lambda xp, x: xp.ones_like(x, dtype=xp.float64)),
    ("full_like", "all", lambda xp, x: xp.full_like(x, True if x.dtype == xp.bool else 3)),
    ("empty_like", "all", lambda xp, x: xp.empty_like(x).shape),
    ("linalg.diagonal", "numeric", lambda xp, x: xp.linalg.diagonal(x, offset=1)),
    ("linalg.diagonal", "numeric", lambda xp, x: xp.linalg.diagonal(x, offset=-7)),
    ("linalg.trace", "numeric", lambda xp, x: xp.linalg.trace(x)),
    ("linalg.trace", "numeric", lambda xp, x: xp.linalg.trace(x, offset=-1)),
    ("linalg.vector_norm", "floating", lambda xp, x: xp.linalg.vector_norm(x)),
    ("linalg.vector_norm", "floating", lambda xp, x: xp.linalg.vector_norm(x, axis=-1, ord=1, keepdims=True)),
    ("linalg.vector_norm", "floating", lambda xp, x: xp.linalg.vector_norm(x, axis=0, ord=2.5)),
    ("linalg.vector_norm", "floating", lambda xp, x: xp.linalg.vector_norm(x, axis=-1, ord=0)),
    ("fft.fft", "complex floating", lambda xp, x: xp.fft.fft(x)),
    ("fft.ifft", "complex floating", lambda xp, x: xp.fft.ifft(x, n=4, axis=0, norm="ortho")),
    ("fft.rfft", "real floating", lambda xp, x: xp.fft.rfft(x, norm="forward")),
    ("fft.irfft", "complex floating", lambda xp, x: xp.fft.irfft(x, n=5)),
    ("fft.hfft", "complex floating", lambda xp, x: xp.fft.hfft(x, n=4)),
    ("fft.ihfft", "real floating", lambda xp, x: xp.fft.ihfft(x)),
    ("fft.fftn", "complex floating", lambda xp, x: xp.fft.fftn(x)),
    ("fft.ifftn", "complex floating", lambda xp, x: xp.fft.ifftn(x, s=(2, 3), axes=(0, 1), norm="forward")),
    ("fft.rfftn", "real floating", lambda xp, x: xp.fft.rfftn(x, axes=(-1, 0))),
    ("fft.irfftn", "complex floating", lambda xp, x: xp.fft.irfftn(x, s=(3, 4), axes=(0, 1))),
    ("fft.fftshift", "floating", lambda xp, x: xp.fft.fftshift(x)),
    ("fft.ifftshift", "floating", lambda xp, x: xp.fft.ifftshift(x, axes=0)),
]


def is_specified(name: str, shape: tuple[int, ...]) -> bool:
    """Whether the standard says what a function does with a shape, so that libraries agree."""
    if name.startswith("fft.") and "shift" not in name:
        return 0 not in shape and len(shape) > (name in ("fft.rfftn", "fft.ifftn", "fft.irfftn"))
    if name == "linalg.vector_norm":
        return 0 not in shape
    return True


def names_an_axis(call) -> bool:
    """Whether a call passes an axis: of 0-d arrays there is none, but NumPy lets some pass."""
    return any(isinstance(c, tuple) and "axis" in c for c in call.__code__.co_consts)


@pytest.mark.parametrize("row", range(len(CALLS)), ids=[f"{name}-{i}" for i, (name, _, _) in enumerate(CALLS)])
def test_one_array(row):
    name, kind, call = CALLS[row]
    for dtype in KINDS[kind]:
        for shape in SHAPES:
            if is_specified(name, shape) and (shape or not names_an_axis(call)):
                compare(call, drawn(dtype, shape, 3), note=f"{name} {dtype} {shape}")


TWO_ARRAYS = [
    ("matmul", "numeric", lambda xp, x, y: xp.matmul(x, y)),
    ("vecdot", "numeric", lambda xp, x, y: xp.vecdot(x, y)),
    ("vecdot", "numeric", lambda xp, x, y: xp.vecdot(x, y, axis=-2)),
    ("tensordot", "numeric", lambda xp, x, y: xp.tensordot(x, y, axes=1)),
    ("tensordot", "numeric", lambda xp, x, y: xp.tensordot(x, y)),
    ("tensordot", "numeric", lambda xp, x, y: xp.tensordot(x, y, axes=0)),
    ("tensordot", "numeric", lambda xp, x, y: xp.tensordot(x, y, axes=((-1,), (0,)))),
    ("linalg.outer", "numeric", lambda xp, x, y: xp.linalg.outer(x, y)),
    ("linalg.cross", "numeric", lambda xp, x, y: xp.linalg.cross(x, y)),
    ("concat", "all", lambda xp, x, y: xp.concat([x, y], axis=0)),
    ("stack", "all", lambda xp, x, y: xp.stack([x, y])),
    ("broadcast_arrays", "all", lambda xp, x, y: xp.broadcast_arrays(x, y)),
    ("meshgrid", "all", lambda xp, x, y: xp.meshgrid(x, y) if x.dtype == y.dtype else None),
    ("meshgrid", "all", lambda xp, x, y: xp.meshgrid(x, y, indexing="ij") if x.dtype == y.dtype else None),
    ("where", "all", lambda xp, x, y: xp.where(xp.asarray([True, False, True]), x, y)),
    ("result_type", "all", lambda xp, x, y: xp.result_type(x, y)),
]
PAIRS = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 3)),
    ((2, 2, 3), (2, 3, 3)),
    ((), (3,)),
    ((0,), (0,)),
]


@pytest.mark.parametrize("row", range(len(TWO_ARRAYS)), ids=[f"{name}-{i}" for i, (name, *_) in enumerate(TWO_ARRAYS)])
def test_two_arrays(row):
    name, kind, call = TWO_ARRAYS[row]
    for first, second in PROMOTABLE:
        if first in KINDS[kind] and second in KINDS[kind]:
            for shapes in PAIRS:
                if name == "meshgrid" and not len(shapes[0]) == len(shapes[1]) == 1:
                    continue
                if name == "linalg.cross" and 2 in (shapes[0][-1:] + shapes[1][-1:]):
                    continue  # NumPy takes vectors of size 2 too
                pair = drawn(first, shapes[0], 4), drawn(second, shapes[1], 5)
                compare(call, *pair, note=f"{name} {first} {second} {shapes}")


def positive_definite(x: np.ndarray) -> np.ndarray:
    return x @ np.conj(np.swapaxes(x, -1, -2)) + 3 * np.eye(x.shape[-1], dtype=x.dtype)


# decompositions are unique only up to signs, so products of their parts are compared
MATRIX = [
    ("cholesky", lambda xp, x: xp.linalg.cholesky(x)),
    ("cholesky", lambda xp, x: xp.linalg.cholesky(x, upper=True)),
    ("det", lambda xp, x: xp.linalg.det(x)),
    ("slogdet", lambda xp, x: xp.linalg.slogdet(x)),
    ("inv", lambda xp, x: xp.linalg.inv(x)),
    ("pinv", lambda xp, x: xp.linalg.pinv(x, rtol=1e-3)),
    ("pinv", lambda xp, x: xp.linalg.pinv(x[..., :2])),
    ("matrix_power", lambda xp, x: xp.linalg.matrix_power(x, 3)),
    ("matrix_power", lambda xp, x: xp.linalg.matrix_power(x, -2)),
    ("matrix_power", lambda xp, x: xp.linalg.matrix_power(x, 0)),
    ("matrix_rank", lambda xp, x: xp.linalg.matrix_rank(x)),
    ("eigvalsh", lambda xp, x: xp.linalg.eigvalsh(x)),
    ("eigh", lambda xp, x: xp.linalg.eigh(x).eigenvalues),
    ("eigh", lambda xp, x: abs(xp.linalg.eigh(x).eigenvectors)),
    ("svdvals", lambda xp, x: xp.linalg.svdvals(x)),
    ("svd", lambda xp, x: [xp.linalg.svd(x[..., :2]).S, abs(xp.linalg.svd(x[..., :2], full_matrices=False).U)]),
    ("svd", lambda xp, x: [part.shape for part in xp.linalg.svd(x[..., :2])]),
    ("qr", lambda xp, x: [abs(part) for part in xp.linalg.qr(x[..., :2])]),
    ("qr", lambda xp, x: [part.shape for part in xp.linalg.qr(x[..., :2], mode="complete")]),
    ("solve", lambda xp, x: xp.linalg.solve(x, x[..., :1])),
    ("solve", lambda xp, x: xp.linalg.solve(x, x[(0,) * (x.ndim - 1) + (slice(None),)])),
    *[
        ("matrix_norm", lambda xp, x, ord=ord: xp.linalg.matrix_norm(x[..., :2], ord=ord, keepdims=ord == 1))
        for ord in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)
    ],
]


@pytest.mark.parametrize("row", range(len(MATRIX)), ids=[f"{name}-{i}" for i, (name, _) in enumerate(MATRIX)])
def test_matrices(row):
    name, call = MATRIX[row]
    for dtype in KINDS["floating"]:
        for shape in ((3, 3), (2, 2), (2, 3, 3)):
            compare(call, positive_definite(drawn(dtype, shape, 6)), note=f"{name} {dtype} {shape}")


def test_cumulative_and_search_options():
    for dtype in KINDS["real"]:
        x = drawn(dtype, (7,), 7)
        compare(lambda xp, x: xp.cumulative_sum(x), x)
        compare(lambda xp, x: xp.cumulative_prod(x, dtype=xp.float64, include_initial=True), x)
        for side in ("left", "right"):
            compare(lambda xp, x: xp.searchsorted(xp.sort(x), x, side=side), x)  # noqa: B023
            compare(lambda xp, x: xp.searchsorted(x, x, side=side, sorter=xp.argsort(x)), x)  # noqa: B023


def test_squeeze_and_reshape_options():
    x = drawn("float32", (1, 3, 1), 8)
    compare(lambda xp, x: xp.squeeze(x, (0, 2)), x)
    compare(lambda xp, x: xp.squeeze(x, 1), x)
    compare(lambda xp, x: xp.squeeze(x, -1), x)
    compare(lambda xp, x: xp.reshape(xp.permute_dims(xp.broadcast_to(x, (2, 3, 4)), (2, 1, 0)), (24,), copy=False), x)


def test_where_with_numbers():
    for dtype, number in (("bool", True), ("int8", 3), ("uint64", 2**64 - 1), ("float32", 2), ("complex64", 1j)):
        x = drawn(dtype, (3,), 9)
        compare(lambda xp, x: xp.where(xp.asarray([True, False, True]), x, number), x)  # noqa: B023
        compare(lambda xp, x: xp.where(xp.asarray([[True], [False]]), number, x), x)  # noqa: B023


def test_zero_dimensional_arrays_have_no_axis():
    x = xp.asarray(3.0)
    for name in ("all", "any", "argmax", "max", "mean", "sum", "prod", "sort", "argsort", "cumulative_sum", "flip"):
        for axis in (0, -1):
            with pytest.raises(IndexError, match="axis"):
                getattr(xp, name)(x, axis=axis)
    with pytest.raises(IndexError, match="axis"):
        xp.squeeze(x, 0)
    with pytest.raises(IndexError):
        xp.expand_dims(x, axis=2)
