"""Kernels that sort, select, search and count: native, and equal to PyTorch, NumPy and eager code, order of ties included."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from weft.compiler.fuse.loops import HostCall
from weft.kernels.body import Body
from weft.kernels.sort.network import comparisons
from weft.kernels.sort.sort import SortLines
from weft.kernels.sort.top import TopOfLines

from .kernel_runs import TARGETS, access, run

F32, F64 = np.float32, np.float64
TYPES = [F32, F64, np.int8, np.int64]
# lengths of one lane group, of blocks and their ends, of digits of 8 and 11 bits, and of lines that threads share
SHAPES = [((5,), 0), ((1,), 0), ((3, 1), 1), ((7, 3), 0), ((33, 40), 1), ((300, 9), 0), ((4, 50, 6), 1), ((5, 1100), 1)]
LONG = [((2, 3000), 1), ((9, 2500), 1), ((5000, 2), 0), ((1, 40000), 1), ((40000,), 0), ((3, 33000), 1)]


def numbers(shape, dtype, seed=0, ties=True):
    """Numbers with many ties; floats also with NaN, infinities and both zeros."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * 9
    x = np.round(x) if ties else x
    if np.dtype(dtype).kind != "f":
        return (np.abs(x) if np.dtype(dtype).kind == "u" else x).astype(dtype)
    for special in (np.nan, np.inf, -np.inf, 0.0, -0.0):
        x[rng.random(shape) < 0.04] = special
    return x.astype(dtype)


def compiled_result(fn, arrays, threads=1):
    """What a compiled function gives; nothing of it is computed by NumPy."""
    compiled = weft.compile(fn, threads=threads)
    found = compiled(*map(weft.from_numpy, arrays))
    plan = next(iter(compiled.plans.values()))[0].plan
    assert not any(isinstance(slot.step, HostCall) for slot in plan.slots)
    return found


def host_result(fn, arrays):
    """What the NumPy references give."""
    return weft.compile(fn, backend="host")(*map(weft.from_numpy, arrays))


def same(found, expected):
    for one, two in zip(*([r] if not isinstance(r, tuple) else list(r) for r in (found, expected)), strict=True):
        np.testing.assert_array_equal(one.numpy(), two.numpy(), strict=True)


def first_in_order(x, k, dim, largest):
    """The places of the first k elements in order by a stable sort of PyTorch."""
    return torch.sort(torch.from_numpy(x), dim=dim, descending=largest, stable=True).indices.narrow(dim, 0, k)


# ---------------------------------------------------------------------------------------------- sorting


@pytest.mark.parametrize("shape, dim", SHAPES + LONG)
@pytest.mark.parametrize("dtype", TYPES)
def test_sort(dtype, shape, dim):
    x = numbers(shape, dtype)
    for descending in (False, True):
        expected = torch.sort(torch.from_numpy(x), dim=dim, descending=descending, stable=True)
        fn = lambda x, descending=descending: tuple(weft.sort(x, dim, descending))
        for threads in (1, 2):
            same(compiled_result(fn, [x], threads), tuple(expected))


@pytest.mark.parametrize("dtype", [np.bool_, np.int16, np.uint16, np.uint32, np.uint64])
def test_other_types(dtype):
    for shape in ((6, 50), (1, 500)):
        x = numbers(shape, np.uint8).astype(dtype) if dtype != np.bool_ else numbers(shape, F32) > 0
        for descending in (False, True):
            same(*(run(lambda x, d=descending: weft.argsort(x, 1, d), [x]) for run in (compiled_result, host_result)))


def test_extremes_of_integers():
    for dtype in (np.int8, np.uint8, np.int32, np.int64, np.uint32, np.uint64):
        info = np.iinfo(dtype)
        x = np.array([info.max, 0, info.min, 1, info.max, info.min] * 9, dtype)
        for descending in (False, True):
            same(*(run(lambda x, d=descending: weft.argsort(x, 0, d), [x]) for run in (compiled_result, host_result)))


def test_views_and_what_follows():
    """Elements are read where they lie, and places pass through what is computed from them."""
    x = numbers((40, 6, 30), F32)

    def fn(x):
        part = x[::2, :, 3:].transpose(0, 2)  # (27, 6, 20)
        return part.argsort(-1) * 2 + 1, part.argsort(0, descending=True), x[:, :1].expand(40, 5, 30).argsort(0)

    for threads in (1, 2):
        same(compiled_result(fn, [x], threads), host_result(fn, [x]))


def test_gradients_follow_the_places():
    x = np.random.default_rng(0).standard_normal((20, 90))

    def slopes(lib, x):
        x = x.detach().requires_grad_()
        weights = lib.arange(90, dtype=lib.float64)
        total = (
            (lib.sort(x, 1)[0] * weights).sum() + (lib.topk(x, 4)[0] * weights[:4]).sum() + (x.median(0)[0] ** 2).sum()
        )
        total.backward()
        return x.grad

    same(compiled_result(lambda x: slopes(weft, x), [x]), slopes(torch, torch.from_numpy(x)))


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_the_network_sorts_all_zeros_and_ones(size):
    """Then it sorts everything (Knuth, volume 3, 5.3.4, theorem Z)."""
    lines = (np.arange(1 << size)[:, None] >> np.arange(size) & 1).astype(np.uint8)
    for a, b in comparisons(size):
        lines[:, a], lines[:, b] = np.minimum(lines[:, a], lines[:, b]), np.maximum(lines[:, a], lines[:, b])
    assert (np.diff(lines.astype(int), axis=1) >= 0).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("shape", [(11, 77), (2, 3000), (1, 40000)])
def test_other_processors_and_threads(shape, dtype, target):
    x = numbers(shape, dtype)
    for threads in (1, 3):
        y = np.full(shape, -1, np.int64)
        stored = Body(given=("i64",), stores=((access(1, y), 0),))
        kernel = SortLines(shape, 1, access(0, x), stored, 2, count=shape[1])
        run(kernel, [x, y, *([np.zeros(kernel.workspace, np.uint8)] if kernel.workspace else [])], threads, target)
        np.testing.assert_array_equal(y, np.argsort(x, 1, kind="stable"))
        if shape[1] < 40000:
            few = np.full((shape[0], 9), -1, np.int64)
            stored = Body(given=("i64",), stores=((access(1, few), 0),))
            run(TopOfLines(shape, 1, access(0, x), stored, 2, 9, False), [x, few], threads, target)
            np.testing.assert_array_equal(few, y[:, :9])


# -------------------------------------------------------------------------------------------- selection


@pytest.mark.parametrize("shape, dim", SHAPES + LONG)
@pytest.mark.parametrize("dtype", TYPES)
def test_topk(dtype, shape, dim):
    x = numbers(shape, dtype, ties=shape[0] % 2 == 0)
    for k in (1, 10, 100):
        for largest in (True, False):
            if k <= shape[dim]:
                places = first_in_order(x, k, dim, largest)
                expected = (torch.from_numpy(x).gather(dim, places), places)
                fn = lambda x, k=k, largest=largest: tuple(weft.topk(x, k, dim, largest))
                same(compiled_result(fn, [x], 1 + k % 2), expected)
                same(host_result(fn, [x]), expected)


def test_topk_of_ordered_lines():
    """Every element is better than all before it, or none is, or all are equal."""
    rising = np.arange(5000, dtype=F32)[None].repeat(3, 0)
    for x in (rising, -rising, 0 * rising):
        for largest in (True, False):
            fn = lambda x, largest=largest: weft.topk(x, 7, 1, largest)[1]
            same(compiled_result(fn, [x.copy()]), first_in_order(x, 7, 1, largest))


ONE_OF_EACH_LINE = {
    "mode": lambda x, dim: tuple(weft.mode(x, dim)),
    "median": lambda x, dim: (*weft.median(x, dim), weft.median(x), weft.median(x, dim, True)[0]),
    "nanmedian": lambda x, dim: (*weft.nanmedian(x, dim), weft.nanmedian(x)),
    "kthvalue": lambda x, dim: tuple(weft.kthvalue(x, (1 + x.shape[dim]) // 2, dim)),
}


@pytest.mark.parametrize("shape, dim", SHAPES + LONG[:1] + LONG[-2:])
@pytest.mark.parametrize("name", ONE_OF_EACH_LINE)
def test_one_of_each_line(name, shape, dim):
    fn = lambda x: ONE_OF_EACH_LINE[name](x, dim)
    for threads, (dtype, ties) in enumerate(((F32, True), (F64, False), (np.int64, True), (np.uint8, True))):
        x = numbers(shape, dtype, ties=ties)
        same(compiled_result(fn, [x], 1 + threads % 2), host_result(fn, [x]))


def test_medians_and_quantiles_of_pytorch():
    for x in (numbers((30, 41), F64), numbers((30, 41), F64, ties=False), np.full((3, 4), np.nan)):
        fn = lambda x: (x.median(), x.nanmedian(), x.median(1)[0], x.nanmedian(1)[0], x.nanquantile(0.3, 1))
        same(compiled_result(fn, [x]), fn(torch.from_numpy(x)))
    x = numbers((30, 400), np.int64)
    same(compiled_result(lambda x: x.mode(1)[0], [x]), torch.from_numpy(x).mode(1)[0])


# ------------------------------------------------------------------------------------- running extremes


@pytest.mark.parametrize("shape, dim", [*SHAPES, ((40, 50, 60), 1), ((40, 50, 60), 2)])
@pytest.mark.parametrize("dtype", [*TYPES, np.bool_])
def test_running_extremes(dtype, shape, dim):
    x = numbers(shape, F32) > 3 if dtype == np.bool_ else numbers(shape, dtype)
    fn = lambda lib, x: (*lib.cummax(x, dim), *lib.cummin(x, dim))
    for threads in (1, 2):
        same(compiled_result(lambda x: fn(weft, x), [x], threads), fn(torch, torch.from_numpy(x)))


# ------------------------------------------------------------------------------- searching and counting


@pytest.mark.parametrize("length", [1, 2, 7, 16, 17, 100, 1000])
@pytest.mark.parametrize("kinds", [(F32, F32), (F64, F64), (np.int64, np.int64), (F32, np.int64), (np.uint8, np.int8)])
def test_searchsorted(kinds, length):
    """One line for all values, one for each row, lines of spline flows, a line with NaN, and lines across."""
    values = numbers((24, 33), kinds[1])
    forms = [
        (numbers((length,), kinds[0]), values, lambda a, v: (a, v)),
        (numbers((24, length), kinds[0]), values, lambda a, v: (a, v)),
        (numbers((24, 33, length), kinds[0]), values, lambda a, v: (a, v.unsqueeze(-1))),
        (numbers((33, length), kinds[0]), values, lambda a, v: (a, v.T)),
        (numbers((length,), kinds[0]), values[0, :1], lambda a, v: (a, v[0])),
    ]
    for lines, v, form in forms:
        lines = np.sort(lines, -1)
        for right in (False, True):
            fn = lambda a, v, right=right, form=form: weft.searchsorted(*form(a, v), right=right)
            found = compiled_result(fn, [lines, v], 1 + right)
            same(found, host_result(fn, [lines, v]))
            if kinds[0] == kinds[1] and kinds[0] not in (F32, F64):
                theirs = (x.contiguous() for x in form(torch.from_numpy(lines), torch.from_numpy(v)))
                same(found, torch.searchsorted(*theirs, right=right))


def test_bucketize_of_pytorch():
    x, edges = np.random.default_rng(0).standard_normal((50, 70)).astype(F32), np.linspace(-2, 2, 11, dtype=F32)
    x[:5, :11] = edges
    for right in (False, True):
        fn = lambda lib, x, e, right=right: lib.bucketize(x, e, out_int32=True, right=right)
        expected = fn(torch, torch.from_numpy(x), torch.from_numpy(edges))
        same(compiled_result(lambda x, e, fn=fn: fn(weft, x, e), [x, edges]), expected)


@pytest.mark.parametrize("count", [1, 16, 17, 300])
@pytest.mark.parametrize("kinds", [(F32, F32), (np.int64, np.int64), (np.int32, F32), (F64, np.uint8)])
def test_isin(kinds, count):
    x, tests = numbers((20, 31), kinds[0]), numbers((count,), kinds[1], seed=1)
    for invert in (False, True):
        fn = lambda x, t, invert=invert: weft.isin(x, t, invert=invert)
        found = compiled_result(fn, [x, tests])
        np.testing.assert_array_equal(found.numpy(), np.isin(x, tests, invert=invert))


@pytest.mark.parametrize("shape", [(5,), (300, 177), (3, 4, 5)])
def test_histc(shape):
    for dtype in (F32, F64):
        x = numbers(shape, dtype, ties=False) / 9
        for bins, low, high in ((10, -2, 2), (100, -3.1, 1.7), (1, 0, 1e9), (7, -3, 0)):
            fn = lambda x, bins=bins, low=low, high=high: weft.histc(x, bins, low, high)
            for threads in (1, 2):
                same(compiled_result(fn, [x], threads), host_result(fn, [x]))
