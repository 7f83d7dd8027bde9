"""Matrix products: values against float64, epilogues, forms of one product, shares of threads, memory that is touched."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from weft.kernels.body import Access, Body, Step
from weft.kernels.llvm import jit
from weft.kernels.llvm.target import Caches
from weft.kernels.llvm.values import OF_NUMPY
from weft.kernels.matmul.product import Product, Tiling
from weft.runtime import native

from .kernel_runs import pool
from .kernel_runs import run as run_at_once
from .native_samples import Plan, words

HOST = jit.Target.named("host")
OTHERS = ["x86-64-v2", "x86-64-v3"][: {16: 0, 32: 1, 64: 2}[HOST.vector_bytes]] if HOST.arch == "x86_64" else []
GUARD = 64  # elements before and after every buffer that nothing may write


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))


@pytest.fixture
def rng():
    return np.random.default_rng(4)


@dataclass(frozen=True)
class Op:
    """An operation of an epilogue."""

    title: str
    lower: Any
    cost: int = 1


ADD, SUB = Op("add", lambda f, x, y: x + y), Op("sub", lambda f, x, y: x - y)
MUL, DIV = Op("mul", lambda f, x, y: x * y), Op("div", lambda f, x, y: x / y)
SQRT = Op("sqrt", lambda f, x: f.sqrt(x))
RELU = Op("relu", lambda f, x: f.select(x < 0.0, 0.0, x))
CHOOSE = Op("choose", lambda f, c, x: f.select(c, x, 0.0))


def strides(array: np.ndarray) -> tuple[int, ...]:
    """In elements; 0 along axes of size 1 that are repeated."""
    return tuple(s // array.itemsize for s in array.strides)


def guarded(like: np.ndarray, fill: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """A copy with the same strides inside a larger buffer, and that buffer."""
    size = 1 + sum((n - 1) * s for n, s in zip(like.shape, strides(like), strict=True)) if like.size else 0
    whole = np.full(size + 2 * GUARD, 77, like.dtype)
    inside = whole[GUARD:]
    copy = np.lib.stride_tricks.as_strided(inside, like.shape, like.strides)
    copy[...] = like if fill is None else fill
    return copy, whole


def matrix(rng, batch, rows, columns, dtype, order="C", keep=None):
    """Random numbers of shape (batch…, rows, columns), stored by rows or columns; axes not kept are broadcast."""
    kept = tuple(n if keep is None or keep[i] else 1 for i, n in enumerate(batch))
    shape = (*kept, rows, columns) if order == "C" else (*kept, columns, rows)
    x = rng.standard_normal(shape).astype(dtype)
    return np.broadcast_to(x if order == "C" else x.swapaxes(-1, -2), (*batch, rows, columns))


def run(product: Product, arrays: list[np.ndarray], threads: int = 1, target=HOST, only: int | None = None) -> None:
    """Run one thread after the other, or, where threads meet on the way, all at once; with memory that must not be left."""
    key = product.key()
    handle = jit.build({key: lambda: product.text(jit.symbol(key), target, native.BARRIER_IR)}, target)[key]
    empty = 0 in (*product.batch, product.m, product.n)
    workspace = 0 if empty else Tiling.of(product, target).workspace(product)
    given = [np.full(size + 128, 0xAB, np.uint8) for size in (product.scratch * threads, workspace) if size]
    starts = [-(-memory.ctypes.data // 64) * 64 for memory in given]
    arguments = words(*arrays, *starts)
    if workspace:
        pool(threads).run(Plan((handle, arguments, 1)).address)
    else:
        kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
            handle.address
        )
        for thread in range(threads) if only is None else [only]:
            kernel(arguments.ctypes.data, 0, thread, threads)
    for memory, start in zip(given, starts, strict=True):
        assert (memory[len(memory) - 128 + start - memory.ctypes.data :] == 0xAB).all()


def close(found: np.ndarray, a: np.ndarray, b: np.ndarray, expected: np.ndarray | None = None) -> None:
    """Within √K roundings of Σ |a| |b|."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    bound = np.finfo(found.dtype).eps * max(4, np.sqrt(a.shape[-1])) * (np.abs(a) @ np.abs(b)) + 1e-300
    error = np.abs(found - (a @ b if expected is None else expected))
    assert (error <= bound).all(), (error / bound).max()


def plain(kind: str, c: np.ndarray) -> Body:
    return Body(given=(kind,), stores=((Access(2, kind, strides(c)), 0),))


def check(a, b, c_like=None, threads=1, target=HOST, make=Product) -> Product:
    """a @ b for operands as they are stored."""
    kind, batch, (m, k), n = OF_NUMPY[a.dtype], a.shape[:-2], a.shape[-2:], b.shape[-1]
    c, whole = guarded(np.zeros((*batch, m, n), a.dtype) if c_like is None else c_like, np.nan)
    product = make(kind, batch, m, n, k, strides(a), strides(b), plain(kind, c))
    run(product, [a, b, c], threads, target)
    close(c, a, b)
    assert np.isin(whole[:GUARD], 77).all() and np.isin(whole[-GUARD:], 77).all()
    return product


# ---------------------------------------------------------------- values

SHAPES = [
    (64, 128, 40),
    (8, 32, 64),
    (13, 50, 33),
    (1, 200, 70),
    (3, 70, 100),
    (10, 128, 64),
    (64, 10, 128),
    (50, 7, 31),
]
SHAPES += [(65, 33, 17), (40, 1, 50), (1, 1, 100), (5, 16, 2), (33, 65, 7), (9, 20, 1), (300, 48, 130), (17, 130, 1600)]
LAYOUTS = ["CC", "CF", "FC", "FF"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_of_every_layout(rng, shape, layout):
    m, n, k = shape
    a = matrix(rng, (), m, k, np.float32, layout[0])
    b = matrix(rng, (), k, n, np.float32, layout[1])
    check(a, b, threads=1 + m % 3)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_on_narrower_processors(rng, name, dtype, layout):
    for m, n, k in [(64, 40, 24), (13, 19, 33), (2, 50, 64), (20, 3, 100), (7, 9, 1600)]:
        a, b = matrix(rng, (), m, k, dtype, layout[0]), matrix(rng, (), k, n, dtype, layout[1])
        check(a, b, threads=2, target=jit.Target.named(name))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_of_float64(rng, layout):
    for m, n, k in [(64, 64, 64), (13, 19, 33), (2, 50, 64), (20, 3, 100), (30, 21, 3000)]:
        check(matrix(rng, (), m, k, np.float64, layout[0]), matrix(rng, (), k, n, np.float64, layout[1]), threads=2)


@pytest.mark.parametrize("make", [Product, Product.planned])
@pytest.mark.parametrize(
    ("batch", "left", "right"),
    [
        ((5,), (True,), (True,)),
        ((5,), (True,), (False,)),
        ((5,), (False,), (True,)),
        ((2, 3), (True, False), (False, True)),
        ((2, 1, 4), (True, True, True), (False, True, True)),
        ((3, 2), (True, True), (False, False)),
    ],
)
def test_batches_with_broadcast_operands(rng, make, batch, left, right):
    for (m, n, k), layout in (((9, 17, 20), "CF"), ((1, 40, 33), "CC"), ((16, 1, 40), "FC"), ((1, 1, 70), "CF")):
        a = matrix(rng, batch, m, k, np.float32, layout[0], left)
        b = matrix(rng, batch, k, n, np.float32, layout[1], right)
        check(a, b, threads=2, make=make)


def test_strided_and_reversed_operands(rng):
    x, y = rng.standard_normal((60, 90)).astype(np.float32), rng.standard_normal((90, 80)).astype(np.float32)
    check(x[::2, ::3], y[::3, ::2])
    check(x[::-1], y[:, ::-1])
    check(x[:, ::-1], y[::-1])


def test_long_sums_round_less_than_one_by_one(rng):
    a = np.abs(rng.standard_normal((8, 40000))).astype(np.float32)
    b = np.abs(rng.standard_normal((40000, 32))).astype(np.float32)
    for x, y in ((a, b), (a, np.asfortranarray(b)), (np.asfortranarray(a), b)):
        c = np.zeros((8, 32), np.float32)
        run(Product("f32", (), 8, 32, 40000, strides(x), strides(y), plain("f32", c)), [x, y, c])
        exact = a.astype(np.float64) @ b
        assert (np.abs(c - exact) / exact).max() < 1e-5


def test_infinities_and_nan_stay_in_their_rows_and_columns(rng):
    for layout in LAYOUTS:
        a, b = (
            matrix(rng, (), *size, np.float32, o).copy("K")
            for size, o in (((13, 40), layout[0]), ((40, 37), layout[1]))
        )
        a[5, 3], b[7, 36] = np.inf, np.nan
        c = np.zeros((13, 37), np.float32)
        run(Product("f32", (), 13, 37, 40, strides(a), strides(b), plain("f32", c)), [a, b, c])
        with np.errstate(invalid="ignore"):
            expected = a.astype(np.float64) @ b
        np.testing.assert_array_equal(np.isnan(c), np.isnan(expected))
        np.testing.assert_array_equal(np.isinf(c), np.isinf(expected))


def test_a_sum_of_nothing_is_zero_and_reaches_the_body():
    c, bias = np.full((9, 20), np.nan, np.float32), np.arange(20, dtype=np.float32)
    body = Body(
        ("f32",), (), (Access(2, "f32", (0, 1)),), (Step(ADD, (0, 1), "f32", None),), ((Access(3, "f32", (20, 1)), 2),)
    )
    empty = np.zeros(1, np.float32)
    run(Product("f32", (), 9, 20, 0, (0, 1), (20, 1), body), [empty, empty, bias, c])
    np.testing.assert_array_equal(c, np.broadcast_to(bias, c.shape))


@pytest.mark.parametrize(("batch", "m", "n"), [((), 0, 5), ((), 5, 0), ((0,), 4, 4)])
def test_empty_products_write_nothing(batch, m, n):
    c = np.full(64, 3, np.float32)
    body = Body(("f32",), stores=((Access(2, "f32", (1,) * (len(batch) + 2)), 0),))
    for make in (Product, Product.planned):
        run(make("f32", batch, m, n, 4, (1,) * (len(batch) + 2), (1,) * (len(batch) + 2), body), [c, c, c])
    assert (c == 3).all()


# ---------------------------------------------------------------- epilogues


@pytest.mark.parametrize(("m", "n", "k"), [(16, 64, 32), (13, 41, 20), (3, 50, 64), (40, 5, 16)])
@pytest.mark.parametrize("make", [Product, Product.planned])
def test_bias_and_activation(rng, m, n, k, make):
    a, b, bias = matrix(rng, (), m, k, np.float32), matrix(rng, (), k, n, np.float32, "F"), rng.standard_normal(n)
    bias = bias.astype(np.float32)
    c, _ = guarded(np.zeros((m, n), np.float32), np.nan)
    steps = (Step(ADD, (0, 1), "f32", None), Step(RELU, (2,), "f32", None))
    body = Body(("f32",), (), (Access(2, "f32", (0, 1)),), steps, ((Access(3, "f32", (n, 1)), 3),))
    run(make("f32", (), m, n, k, strides(a), strides(b), body), [a, b, bias, c], threads=2)
    close(c, a, b, np.maximum(a.astype(np.float64) @ b + bias, 0))


def test_residual_and_mask_of_booleans(rng):
    m, n, k = 21, 70, 48
    a, b = matrix(rng, (), m, k, np.float32), matrix(rng, (), k, n, np.float32)
    residual, mask = matrix(rng, (), m, n, np.float32, "F"), rng.random((m, n)) < 0.5
    c = np.zeros((m, n), np.float32)
    loads = (Access(3, "f32", strides(residual)), Access(2, "i1", strides(mask)))
    steps = (Step(CHOOSE, (2, 0), "f32", None), Step(ADD, (3, 1), "f32", None))
    body = Body(("f32",), (), loads, steps, ((Access(4, "f32", (n, 1)), 4),))
    run(Product("f32", (), m, n, k, strides(a), strides(b), body), [a, b, mask, residual, c], threads=2)
    close(c, a, b, np.where(mask, a.astype(np.float64) @ b, 0) + residual)


def adam(kind: str, space: tuple[int, ...]) -> Body:
    """m ← 0.9 m + 0.1 g,  v ← 0.99 v + 0.01 g²,  w ← w − 0.1 m / (√v + 1e-3), all in place; w, m, v = words 2, 3, 4."""
    constants = tuple((kind, x) for x in (0.9, 0.1, 0.99, 0.01, 1e-3))
    w, m, v = (Access(word, kind, space) for word in (2, 3, 4))
    table = [(MUL, 7, 1), (MUL, 0, 2), (ADD, 9, 10), (MUL, 8, 3), (MUL, 0, 0), (MUL, 13, 4), (ADD, 12, 14)]
    table += [(SQRT, 15), (ADD, 16, 5), (MUL, 11, 2), (DIV, 18, 17), (SUB, 6, 19)]
    steps = tuple(Step(op, tuple(operands), kind, None) for op, *operands in table)
    return Body((kind,), constants, (w, m, v), steps, ((m, 11), (v, 15), (w, 20)))


@pytest.mark.parametrize(("m", "n", "k"), [(24, 64, 16), (13, 41, 64), (16, 20, 1700)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_optimiser_in_place_with_three_stores(rng, m, n, k, dtype):
    x, g = matrix(rng, (), n, k, dtype, "F"), matrix(rng, (), m, k, dtype, "F")
    w, first, second = (np.abs(rng.standard_normal((m, n))).astype(dtype) for _ in range(3))
    grad = g.astype(np.float64) @ x.T
    new_first, new_second = 0.9 * first + 0.1 * grad, 0.99 * second + 0.01 * grad**2
    new_w = w - 0.1 * new_first / (np.sqrt(new_second) + 1e-3)
    kind = OF_NUMPY[np.dtype(dtype)]
    for make in (Product, Product.planned):
        copies = [y.copy() for y in (w, first, second)]
        run(make(kind, (), m, n, k, strides(g), strides(x.T), adam(kind, (n, 1))), [g, x, *copies], threads=3)
        for found, expected in zip(copies, (new_w, new_first, new_second), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e3 * np.finfo(dtype).eps, atol=2e2 * np.finfo(dtype).eps)


def test_a_long_body_loops_over_the_rows(rng):
    m, n, k, length = 19, 45, 16, 60
    a, b = matrix(rng, (), m, k, np.float64), matrix(rng, (), k, n, np.float64)
    c = np.zeros((m, n))
    steps = tuple(Step(ADD, (1 + i, 0), "f64", None) for i in range(length))
    body = Body(("f64",), (("f64", 0.5),), (), steps, ((Access(2, "f64", (n, 1)), 1 + length),))
    product = Product("f64", (), m, n, k, strides(a), strides(b), body)
    tile = Tiling.of(product, HOST)
    assert product.text("k", HOST).count("fadd") < length * tile.rows * -(-n // tile.lanes)  # half of all rows
    run(product, [a, b, c], threads=2)
    np.testing.assert_allclose(c, 0.5 + length * (a @ b), rtol=1e-12, atol=1e-11)


# ---------------------------------------------------------------- forms of one product


def test_batch_axes_become_rows_when_the_right_side_is_shared(rng):
    a, b = matrix(rng, (4, 6), 10, 20, np.float32), matrix(rng, (4, 6), 20, 24, np.float32, keep=(False, False))
    product = check(a, b, threads=2, make=Product.planned)
    assert (product.batch, product.m, product.n) == ((), 240, 24)


def test_batch_axes_become_columns_when_the_left_side_is_shared(rng):
    a = matrix(rng, (6,), 32, 20, np.float32, keep=(False,))
    b, c = np.empty((20, 6, 24), np.float32), np.empty((32, 6, 24), np.float32)
    b[...] = rng.standard_normal(b.shape)
    product = check(a, b.transpose(1, 0, 2), c.transpose(1, 0, 2), make=Product.planned)
    assert (product.batch, product.m, product.n) == ((), 32, 144)


def test_batch_axes_that_follow_each_other_are_merged(rng):
    product = check(matrix(rng, (4, 6), 5, 8, np.float32), matrix(rng, (4, 6), 8, 9, np.float32), make=Product.planned)
    assert product.batch == (24,)


@pytest.mark.parametrize(("m", "n", "k"), [(64, 48, 32), (33, 17, 40), (30, 1, 64), (100, 2, 40)])
def test_results_stored_by_columns_swap_the_roles(rng, m, n, k):
    a, b = matrix(rng, (), m, k, np.float32), matrix(rng, (), k, n, np.float32, "F")
    product = check(a, b, np.zeros((n, m), np.float32).T, threads=2, make=Product.planned)
    assert (product.m, product.n, product.words) == (n, m, (1, 0))


@pytest.mark.parametrize("name", ["host", *OTHERS])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "n", "k"), [(64, 48, 32), (50, 33, 40), (5, 20, 70), (17, 2, 9), (40, 35, 2100)])
def test_tiles_are_transposed_for_results_stored_by_columns(rng, name, dtype, m, n, k):
    """C ← C + (a b + r + s) · t with r for rows, s for columns, everything else stored by columns, twice."""
    target, batch, kind = jit.Target.named(name), (2,), OF_NUMPY[np.dtype(dtype)]
    a, b = matrix(rng, batch, m, k, dtype), matrix(rng, batch, k, n, dtype, "F")
    t, before = matrix(rng, batch, m, n, dtype, "F"), matrix(rng, batch, m, n, dtype, "F")
    r, s = rng.standard_normal(m).astype(dtype), rng.standard_normal(n).astype(dtype)
    c, whole = guarded(before)
    loads = (Access(2, kind, (0, 1, 0)), Access(3, kind, (0, 0, 1)), Access(4, kind, strides(t)))
    loads += (Access(5, kind, strides(c)),)
    table = [(ADD, 0, 1), (ADD, 5, 2), (MUL, 6, 3), (ADD, 7, 4)]
    steps = tuple(Step(op, tuple(operands), kind, None) for op, *operands in table)
    body = Body((kind,), (), loads, steps, ((Access(5, kind, strides(c)), 8),))
    product = Product(kind, batch, m, n, k, strides(a), strides(b), body)
    assert Tiling.of(product, target).turned
    run(product, [a, b, r, s, t, c], threads=3, target=target)
    wide = a.astype(np.float64) @ b
    bound = np.finfo(dtype).eps * max(8, np.sqrt(k)) * ((np.abs(a) @ np.abs(b)) + 9) * (1 + np.abs(t))
    assert (np.abs(c - (before + (wide + r[:, None] + s) * t)) <= bound).all()
    assert (whole[:GUARD] == 77).all() and (whole[-GUARD:] == 77).all()


def test_few_rows_times_a_transposed_matrix_swap_the_roles(rng):
    """Packing the few rows costs less than packing the large matrix; many rows pay for that."""
    b = matrix(rng, (), 96, 200, np.float32, "F")
    few, many = (check(matrix(rng, (), m, 96, np.float32), b, make=Product.planned) for m in (16, 1024))
    assert (few.words, many.words) == ((1, 0), (0, 1))


@pytest.mark.parametrize("name", ["host", *OTHERS])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", range(1, 17))
def test_the_last_columns_are_stored_and_nothing_after_them(rng, name, dtype, n):
    """Rows of c lie apart: what is between them stays."""
    a, b = matrix(rng, (), 9, 24, dtype), matrix(rng, (), 24, n, dtype)
    wide = np.full((9, n + 17), 77, dtype)
    c, kind = wide[:, :n], OF_NUMPY[np.dtype(dtype)]
    body = Body((kind,), stores=((Access(2, kind, (n + 17, 1)), 0),))
    run(Product(kind, (), 9, n, 24, strides(a), strides(b), body), [a, b, wide], target=jit.Target.named(name))
    close(c, a, b, a.astype(np.float64) @ b)
    assert (wide[:, n:] == 77).all()


def test_a_long_body_runs_along_the_longer_axis(rng):
    """(512, 64) @ (64, 2): a row of two columns is one vector, so a body costs least along the rows."""
    steps = tuple(Step(ADD, (1 + i, 0), "f32", None) for i in range(20))
    body = Body(("f32",), (("f32", 0.5),), (), steps, ((Access(2, "f32", (2, 1)), 21),))
    assert Product.planned("f32", (), 512, 2, 64, (64, 1), (1, 64), body).n == 512


def test_the_key_tells_products_apart():
    body = Body(("f32",), stores=((Access(2, "f32", (0, 32, 1)), 0),))
    given = ["f32", (2,), 8, 32, 16, (0, 16, 1), (0, 32, 1), body]
    others = [(1, (3,)), (2, 9), (3, 31), (4, 15), (5, (128, 16, 1)), (6, (0, 1, 16))]
    others += [(7, Body(("f32",), stores=((Access(3, "f32", (0, 32, 1)), 0),)))]
    keys = {Product(*given).key(), Product("f64", *given[1:]).key(), Product(*given).swapped().key()}
    keys |= {Product(*(new if i == at else x for i, x in enumerate(given))).key() for at, new in others}
    assert len(keys) == 3 + len(others)
    assert Product(*given).key() == Product(*given).key()


def test_figures_of_a_product():
    body = Body(("f32",), (), (Access(2, "f32", (0, 0, 1)),), (), ((Access(3, "f32", (3200, 100, 1)), 0),))
    product = Product("f32", (5,), 32, 100, 64, (2048, 64, 1), (0, 1, 64), body)
    assert product.flops == 2 * 5 * 32 * 100 * 64
    assert product.nbytes == 4 * (5 * 32 * 64 + 64 * 100 + 100 + 5 * 32 * 100)
    assert product.scratch_word == 4 and product.scratch >= 64 * 32 * 4 and not product.serial
    assert Product("f32", (), 8, 8, 8, (8, 1), (8, 1), plain("f32", np.zeros((8, 8)))).serial


# ---------------------------------------------------------------- threads and processors


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize(
    ("batch", "m", "n", "k", "layout"),
    [
        ((), 64, 128, 16, "CF"),
        ((), 64, 512, 8, "CF"),
        ((), 128, 784, 16, "FC"),
        ((64,), 64, 64, 4, "CF"),
        ((), 72, 400, 20, "CF"),
    ],
)
def test_threads_get_even_shares(rng, threads, batch, m, n, k, layout):
    a, b = matrix(rng, batch, m, k, np.float32, layout[0]), matrix(rng, batch, k, n, np.float32, layout[1])
    counts = []
    for thread in range(threads):
        c = np.full((*batch, m, n), np.nan, np.float32)
        run(Product("f32", batch, m, n, k, strides(a), strides(b), plain("f32", c)), [a, b, c], threads, only=thread)
        counts.append(np.isfinite(c).sum())
    assert sum(counts) == np.prod((*batch, m, n))
    assert max(counts) - min(counts) <= 2 * 8 * 32


FEW_REGISTERS = [name for name in ("host", "x86-64-v3", "x86-64-v2") if name in ("host", *OTHERS)]
FEW_REGISTERS = [name for name in FEW_REGISTERS if jit.Target.named(name).registers < 32]


@pytest.mark.parametrize("target", FEW_REGISTERS)
@pytest.mark.parametrize(
    ("dtype", "m", "n", "k", "layout"),
    [
        (np.float32, 64, 128, 40, "CC"),  # one part
        (np.float32, 65, 203, 257, "CC"),  # two parts, short tiles at all ends
        (np.float32, 50, 96, 600, "FC"),
        (np.float64, 31, 70, 300, "FC"),
        (np.float64, 48, 64, 513, "FF"),
        (np.float32, 600, 400, 64, "FC"),  # several blocks
    ],
)
def test_operands_that_threads_copy_together(rng, target, dtype, m, n, k, layout):
    """The same bits on any number of threads."""
    a, b = matrix(rng, (), m, k, dtype, layout[0]), matrix(rng, (), k, n, dtype, layout[1])
    kind, chosen = OF_NUMPY[np.dtype(dtype)], jit.Target.named(target)
    found = []
    for threads in (1, 2, 3):
        c, whole = guarded(np.zeros((m, n), dtype), np.nan)
        product = Product(kind, (), m, n, k, strides(a), strides(b), plain(kind, c))
        assert Tiling.of(product, chosen).shared
        run(product, [a, b, c], threads, chosen)
        assert np.isin(whole[:GUARD], 77).all() and np.isin(whole[-GUARD:], 77).all()
        found.append(c)
    close(found[0], a, b)
    assert (found[0] == found[1]).all() and (found[0] == found[2]).all()


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(300, 203, 128), (145, 200, 150)])
def test_rows_that_stay_near(rng, monkeypatch, far, m, n, k):
    """A gradient of weights, done for some rows at a time where the second level of the cache is small: the same bits."""
    a, b = matrix(rng, (), m, k, np.float32, "F"), matrix(rng, (), k, n, np.float32)
    usual = np.zeros((m, n), np.float32)
    run(Product("f32", (), m, n, k, strides(a), strides(b), plain("f32", usual)), [a, b, usual])
    small = replace(HOST, caches=Caches(1 << 12, 1 << 12, 1 << 20), far=far)
    monkeypatch.setattr(jit.Target, "host", staticmethod(lambda: small))
    for threads in (1, 2, 3):
        c, whole = guarded(usual, np.nan)
        product = Product("f32", (), m, n, k, strides(a), strides(b), plain("f32", c))
        assert Tiling.of(product, small).in_place == HOST.many_registers
        run(product, [a, b, c], threads, small)
        assert np.isin(whole[:GUARD], 77).all() and np.isin(whole[-GUARD:], 77).all()
        assert (c == usual).all()


def test_two_threads_at_once(rng):
    a, b = matrix(rng, (), 128, 200, np.float32), matrix(rng, (), 200, 96, np.float32, "F")
    c = np.zeros((128, 96), np.float32)
    product = Product("f32", (), 128, 96, 200, strides(a), strides(b), plain("f32", c))
    for _ in range(20):
        c[...] = np.nan
        run_at_once(product, [a, b, c], threads=2)
        close(c, a, b)


@pytest.mark.parametrize("name", ["aarch64", "x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_code_for_other_processors(name):
    for kind, n, b in (("f32", 35, (1, 24)), ("f64", 32, (32, 1))):
        product = Product(
            kind, (3,), 13, n, 24, (312, 24, 1), (0, *b), Body((kind,), stores=((Access(2, kind, (500, n, 1)), 0),))
        )
        assert jit.emit_object(product.text("k", jit.Target.named(name)), jit.Target.named(name))
