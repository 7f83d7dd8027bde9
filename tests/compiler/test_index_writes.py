"""Writes at places that index tensors name, and windows added back: native, equal to eager code and to PyTorch.

Every case runs with repeated indices; eager code lets the last of several writes to one place stay.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from weft.compiler.fuse.loops import HostCall
from weft.errors import IndexRangeError

F32, F64 = np.float32, np.float64


def plan_of(compiled):
    return next(iter(compiled.plans.values()))[0].plan


def assert_native(compiled):
    assert not any(isinstance(slot.step, HostCall) for slot in plan_of(compiled).slots)


def numbers(shape, dtype=F32, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 5).astype(dtype) if dtype != np.bool_ else rng.random(shape) < 0.5


def places(shape, size, low=0, seed=1):
    return np.random.default_rng(seed).integers(low, size, shape)


def same(a, b):
    np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy(), strict=True)


# --------------------------------------------------------------------------------------------- writes


def put(x, i, v):
    y = x.clone()
    y[i] = v
    return y


def put_behind(x, i, v):
    y = x.clone()
    y[:, i] = v
    return y


def put_in_a_slice(x, i, v):
    y = x.clone()
    y[1:-1, i, ::2] = v
    return y


def put_two(x, i, j, v):
    y = x.clone()
    y[i, j] = v
    return y


def put_apart(x, i, j, v):
    y = x.clone()
    y[i, :, j] = v
    return y


WRITES = {
    "rows": (put, (300, 70), ((1000,), 300, -300), (1000, 70)),
    "few rows": (put, (3, 700), ((9,), 3, -3), (9, 700)),
    "elements": (put, (400,), ((999,), 400, -400), (999,)),
    "one number": (put, (40, 30), ((7, 5), 40, 0), ()),
    "a row for all": (put, (40, 30), ((7, 5), 40, -40), (30,)),
    "behind": (put_behind, (20, 50, 33), ((70,), 50, -50), (20, 70, 33)),
    "one place": (put_behind, (20, 50, 33), ((), 50, -50), (20, 33)),
    "one element": (put, (50,), ((), 50, -50), ()),
    "a slice": (put_in_a_slice, (8, 20, 31), ((5,), 20, -20), (6, 5, 16)),
    "index_copy": (lambda x, i, v: x.index_copy(1, i, v), (30, 40), ((60,), 40, 0), (30, 60)),
    "index_fill": (lambda x, i, v: x.index_fill(-2, i, 3), (5, 30, 40), ((20,), 30, 0), ()),
    "scatter 0": (lambda x, i, v: x.scatter(0, i, v), (30, 40), ((70, 37), 30, 0), (70, 37)),
    "scatter 1": (lambda x, i, v: x.scatter(1, i, v), (300, 40), ((290, 60), 40, 0), (290, 60)),
    "scatter 1 of 3": (lambda x, i, v: x.scatter(1, i, v), (4, 30, 40), ((4, 60, 20), 30, 0), (4, 60, 20)),
    "scatter narrow": (lambda x, i, v: x.scatter(0, i, v), (30, 1), ((70, 1), 30, 0), (70, 1)),
    "put": (lambda x, i, v: x.put(i, v), (30, 40), ((500,), 1200, -1200), (500,)),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [F32, F64, np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("name", WRITES)
def test_the_last_write_stays(name, dtype, threads):
    function, shape, index, values = WRITES[name]
    inputs = [weft.tensor(a) for a in (numbers(shape, dtype), places(*index), numbers(values, dtype, 2))]
    compiled = weft.compile(function, threads=threads)
    same(compiled(*inputs), function(*inputs))
    assert_native(compiled)


@pytest.mark.parametrize("function", [put_two, put_apart])
@pytest.mark.parametrize("layout", ["dense", "transposed"])
def test_several_index_tensors_broadcast(function, layout):
    x = weft.tensor(numbers((20, 30, 25)))
    x = x if layout == "dense" else weft.tensor(numbers((25, 30, 20))).permute(2, 1, 0)
    i, j = weft.tensor(places((6, 1), 20, -20)), weft.tensor(places((9,), 25, -25, 3))
    v = weft.tensor(numbers((6, 9, 1) if function is put_apart else (9, 25)))
    compiled = weft.compile(function)
    same(compiled(x, i, j, v), function(x, i, j, v))
    assert_native(compiled)


@pytest.mark.parametrize("wrong", [50, -51, 10**12])
@pytest.mark.parametrize("function", [put, lambda x, i, v: x.scatter_reduce(0, i[:, None].expand(7, 4), v, "amax")])
def test_an_index_out_of_range_is_refused(function, wrong):
    index = np.arange(7)
    index[3] = wrong
    compiled = weft.compile(function)
    x, v = weft.zeros(50, 4), weft.ones(7, 4)
    with pytest.raises(IndexRangeError, match=f"index {wrong} is out of bounds"):
        compiled(x, weft.tensor(index), v)
    assert compiled(x, weft.tensor(np.arange(7)), v).sum() == 28


def test_gradients_go_to_the_write_that_stays():
    def slopes(x, i, v, g):
        return weft.autograd.grad(put(x, i, v), (x, v), g)

    x, v = (weft.tensor(numbers(s, F64), requires_grad=True) for s in ((30, 20), (100, 20)))
    i, g = weft.tensor(places((100,), 30)), weft.tensor(numbers((30, 20), F64, 4))
    compiled = weft.compile(slopes)
    for a, b in zip(compiled(x, i, v, g), slopes(x, i, v, g), strict=True):
        same(a, b)
    assert_native(compiled)


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("batched", [(0, 0, 0), (0, None, 0), (0, 0, None), (None, 0, 0), (None, 0, None)])
def test_writes_inside_vmap(batched, at):
    shapes = [(4, 20, 6), (4, 3) if batched[1] == 0 else (3,), (4, 3, 6) if at == 0 else (4, 20, 3)]
    function = (lambda x, i, v: x.index_put((i,), v)) if at == 0 else lambda x, i, v: x.index_put((ALL, i), v)
    arrays = [numbers(shapes[0]), places(shapes[1], 6), numbers(shapes[2], seed=3)]
    x, i, v = (weft.tensor(a[0] if b is None and a.ndim > 1 else a) for a, b in zip(arrays, batched, strict=True))
    mapped = weft.vmap(function, batched)
    one = lambda t, b, k: t[k] if b == 0 else t
    rows = [function(*(one(t, b, k) for t, b in zip((x, i, v), batched, strict=True))) for k in range(4)]
    compiled = weft.compile(mapped)
    same(mapped(x, i, v), weft.stack(rows))
    same(compiled(x, i, v), weft.stack(rows))
    assert_native(compiled)


ALL = weft.arange(20)[:, None]


# ----------------------------------------------------------------------------------------- combinations

REDUCED = {
    "0": ((60, 40), 0, (500, 37)),
    "1": ((60, 40), 1, (55, 500)),
    "last of 3": ((6, 7, 40), -1, (5, 7, 90)),
    "line": ((50,), 0, (700,)),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("name", REDUCED)
def test_scatter_reduce(name, reduce, include, threads):
    shape, dim, source = REDUCED[name]
    arrays = numbers(shape), places(source, shape[dim]), numbers(source, seed=2) / 4
    function = lambda x, i, v: x.scatter_reduce(dim, i, v, reduce, include_self=include)
    compiled = weft.compile(function, threads=threads)
    found = compiled(*map(weft.tensor, arrays))
    np.testing.assert_allclose(found.numpy(), function(*map(torch.tensor, arrays)).numpy(), 1e-5, 1e-4)
    assert_native(compiled)
    if reduce in ("amax", "amin", "prod"):
        same(found, function(*map(weft.tensor, arrays)))


@pytest.mark.parametrize("reduce", ["amax", "mean", "prod"])
def test_messages_of_a_graph_and_their_gradients(reduce):
    """Edges bring messages to their targets: the index is the same for all features of an edge."""
    arrays = numbers((90, 33), F64), places((800,), 90), numbers((800, 33), F64, 2)

    def step(library, x, i, v, g):
        y = x.scatter_reduce(0, i[:, None].expand(800, 33), v, reduce, include_self=False)
        return (y, *library.autograd.grad(y, (x, v), g))

    g = numbers((90, 33), F64, 5)
    run = lambda library, grad: (grad(arrays[0]), library.tensor(arrays[1]), grad(arrays[2]), library.tensor(g))
    compiled = weft.compile(lambda *inputs: step(weft, *inputs))
    found = compiled(*run(weft, lambda a: weft.tensor(a, requires_grad=True)))
    wanted = step(torch, *run(torch, lambda a: torch.tensor(a, requires_grad=True)))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-10, 1e-11)
    assert_native(compiled)


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_nan_and_signed_zeros(reduce):
    x = np.array([0.0, -0.0, np.nan, 1.0, np.inf], F32)
    v = np.array([-0.0, 0.0, 2.0, np.nan, -np.inf, 3.0], F32)
    i = np.array([0, 1, 2, 3, 4, 3])
    function = lambda x, i, v: x.scatter_reduce(0, i, v, reduce)
    inputs = [weft.tensor(a) for a in (x, i, v)]
    found, wanted = weft.compile(function)(*inputs).numpy(), function(*inputs).numpy()
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_, F64])
def test_index_reduce_and_index_add_in_other_types(dtype):
    arrays = numbers((9, 30), dtype), places((70,), 30), numbers((9, 70), dtype, 3)
    x, i, v = map(weft.tensor, arrays)
    for function in (lambda x, i, v: x.index_add(1, i, v), lambda x, i, v: x.index_reduce(1, i, v, "amax")):
        compiled = weft.compile(function)
        found, wanted = compiled(x, i, v), function(x, i, v)
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), 1e-12)
        assert_native(compiled)


@pytest.mark.parametrize("size", [5, 40, 1000])
def test_places_that_are_known_to_count_up(size):
    """No index tensor is read then; small sums are left to one thread."""
    x, v = weft.tensor(numbers((size + 3,))), weft.tensor(numbers((size,), seed=1))
    run = lambda x, v: x.index_add(0, weft.arange(size), v)
    compiled = weft.compile(run, threads=2)
    for _ in range(20):
        same(compiled(x, v), run(x, v))
    assert_native(compiled)


# -------------------------------------------------------------------------------------- captured state


@pytest.mark.parametrize("threads", [1, 2])
def test_a_cache_is_written_at_the_step_that_a_tensor_names(threads):
    cache, other = weft.zeros(3, 16, 40), weft.zeros(3, 16, 40)

    @weft.compile(threads=threads)
    def step(i, new):
        cache[:, i] = new
        return cache.sum()

    for k in range(16):
        new = weft.tensor(numbers((3, 40), seed=k))
        other[:, k] = new
        total = step(weft.tensor(k), new)
        same(cache, other)
        np.testing.assert_allclose(total.item(), other.sum().item(), 1e-4)
    assert_native(step)


def written_with_itself(x, i):
    x[i] = x


def written_with_its_other_rows(x, i):
    x[i] = x[i.flip(0)]


def written_twice(x, i):
    total = x.sum()
    x[i] = total
    x[:, i[:2]] = x[:, :2] + 1


def combined_with_itself(x, i):
    x.scatter_reduce_(0, i[:, None].expand(x.shape), x, "amax")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "write", [written_with_itself, written_with_its_other_rows, written_twice, combined_with_itself]
)
def test_a_state_that_is_read_elsewhere_is_not_written_too_early(write, threads):
    index = weft.tensor([3, 1, 0, 2, 2])
    eager = weft.from_numpy(numbers((5, 4)).round())  # whole numbers: their sums are the same in every order
    state = eager.clone()
    step = weft.compile(lambda i: write(state, i), threads=threads)
    for _ in range(3):
        write(eager, index)
        step(index)
        same(state, eager)


def test_what_was_read_before_the_write_is_the_old_value():
    cache = weft.tensor(numbers((8, 5)))
    before = cache.clone()

    @weft.compile
    def swap(i, j):
        old = cache[i]
        cache[i] = cache[j]
        cache[j] = old

    i, j = weft.tensor([1, 2]), weft.tensor([6, 7])
    swap(i, j)
    same(cache, before[weft.tensor([0, 6, 7, 3, 4, 5, 1, 2])])


# ------------------------------------------------------------------------------------------ folded windows


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size, step", [(1, 1), (5, 1), (5, 2), (4, 4), (3, 7), (64, 16), (33, 40)])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_the_slope_of_unfold_adds_windows(dim, size, step, threads):
    x = np.zeros((70, 75, 80), F64)
    shape = tuple(torch.tensor(x).unfold(dim, size, step).shape)
    g = numbers(shape, F64)
    slope = lambda library, x, g: library.autograd.grad(x.unfold(dim, size, step), x, g)[0] * 2
    compiled = weft.compile(lambda x, g: slope(weft, x, g), threads=threads)
    found = compiled(weft.tensor(x, requires_grad=True), weft.tensor(g))
    wanted = slope(torch, torch.tensor(x, requires_grad=True), torch.tensor(g))
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), 1e-12, 1e-12)
    assert_native(compiled)


@pytest.mark.parametrize("geometry", [(3, 1, 1, 1), ((2, 3), 1, 0, 2), (3, 2, 2, 1), ((3, 2), (2, 3), 1, (3, 2))])
def test_fold(geometry):
    kernel, dilation, padding, stride = geometry
    options = dict(dilation=dilation, padding=padding, stride=stride)
    columns = torch.nn.functional.unfold(torch.tensor(numbers((2, 5, 17, 40))), kernel, **options).numpy()
    function = lambda library, c: library.nn.functional.fold(c, (17, 40), kernel, **options)
    compiled = weft.compile(lambda c: function(weft, c))
    found = compiled(weft.tensor(columns)).numpy()
    np.testing.assert_allclose(found, function(torch, torch.tensor(columns)).numpy(), 1e-5, 1e-5)
    assert_native(compiled)


@pytest.mark.parametrize("layout", ["dense", "transposed"])
@pytest.mark.parametrize("window", [((5, 4), (6, 1), 2), ((5, 4), (3, 2), 1), ((4,), (0,), 3)])
def test_windows_on_memory_and_their_slopes(layout, window):
    """Disjoint, overlapping and repeated windows; on memory that lies in order, and transposed."""
    memory, g = numbers((7, 6), F64), numbers(window[0], F64, 3)

    def slopes(library, x, g):
        y = x * 2
        y = y if layout == "dense" else y.t()
        return library.autograd.grad(y.as_strided(*window), x, g)[0]

    compiled = weft.compile(lambda x, g: slopes(weft, x, g))
    found = compiled(weft.tensor(memory, requires_grad=True), weft.tensor(g))
    wanted = slopes(torch, torch.tensor(memory, requires_grad=True), torch.tensor(g))
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), 1e-13)
    assert_native(compiled)
