"""Kernels for random numbers, indexing, sparse products and attention against eager Weft, NumPy, SciPy and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch

from weft.kernels.attention.backward import AttentionBackward
from weft.kernels.attention.forward import AttentionForward
from weft.kernels.body import Access, Body
from weft.kernels.llvm import jit
from weft.kernels.llvm.values import OF_NUMPY
from weft.kernels.memory.indexing import Coordinate, Gather, Scatter
from weft.kernels.memory.philox import RandomFill, stream_state
from weft.kernels.memory.scans import Scan
from weft.kernels.memory.sparse import ExtremeKernel, SampledProductKernel, SparseProductKernel, TiedSumKernel
from weft.random import Generator
from weft.runtime.native import barrier_ir
from weft.sparse import Pattern

from .kernel_runs import TARGETS, access, run

F32, F64 = np.float32, np.float64


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def strides(array: np.ndarray) -> tuple[int, ...]:
    return tuple(s // array.itemsize for s in array.strides)


def stored(array: np.ndarray, arg: int, given: str) -> Body:
    """The body that only writes what it is given."""
    return Body(given=(given,), stores=((access(arg, array), 0),))


# ---------------------------------------------------------------------------------------- random numbers


def generator(offset: int) -> Generator:
    found = Generator().manual_seed(7)
    found.offset = offset
    return found


def drawn(count, sampler, dtype, parameters=(), probability=None, offset=0, threads=1, target="host"):
    """`count` numbers of a kernel, and the words it takes."""
    y = np.zeros(count, dtype)
    kind = {"bernoulli": "i1", "integers": "u64"}.get(sampler) or OF_NUMPY[np.dtype(dtype)]
    p = None if probability is None else access(2, probability)
    kernel = RandomFill(count, sampler, kind, stored(y, 1, kind), 0, parameters, p)
    own = generator(offset)
    state = stream_state(*own.reserve(kernel.words))
    run(kernel, [state, y, *([] if p is None else [probability])], threads, target)
    return y, own.offset


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("count, offset, threads", [(1, 0, 1), (65, 2**66 - 8, 1), (1000, 8, 3), (640, 2**66 - 40, 2)])
def test_draws_are_those_of_the_generator_bit_by_bit(rng, count, offset, threads, target):
    setting = {"offset": offset, "threads": threads, "target": target}
    for dtype in (F32, F64):
        for sampler, parameters in (("uniform", ()), ("uniform", (-1.3, 2.7)), ("normal", ()), ("normal", (0.5, 3.0))):
            eager = generator(offset)
            expected = getattr(eager, sampler)(count, dtype, *parameters)
            found, end = drawn(count, sampler, dtype, parameters, **setting)
            assert (found == expected).all() and end == eager.offset
        p = rng.random(count).astype(dtype)
        found, end = drawn(count, "bernoulli", np.bool_, probability=p, **setting)
        assert (found == generator(offset).bernoulli(p, dtype=np.bool_)).all()
    for p in (0.0, 0.3, 1.0):
        found, _ = drawn(count, "bernoulli", np.bool_, (p,), **setting)
        assert (found == generator(offset).bernoulli(p, count, np.bool_)).all()
    for bounds in ((0, 10), (-5, 2**40), (3, 2**63 - 1)):
        found, _ = drawn(count, "integers", np.int64, bounds, **setting)
        assert (found == generator(offset).integers(*bounds, count)).all()


def test_normals_are_accurate():
    """Against the formula of the stream in long double: within 4 ulp of each factor."""
    wide = np.longdouble
    for dtype, bits in ((F32, 32), (F64, 64)):
        z, _ = drawn(4000, "normal", dtype)
        raw = generator(0)._raw(4000, np.dtype(dtype)).reshape(-1, 2)
        first = (raw[:, 0].astype(dtype) * dtype(2.0**-bits) + dtype(2.0 ** -(bits + 1))).astype(wide)
        turn = (raw[:, 1].view(f"i{bits // 8}").astype(dtype) * dtype(2.0**-bits) + dtype(2.0 ** -(bits + 1))).astype(
            wide
        )
        radius, angle = np.sqrt(-2 * np.log(first)), turn * wide("6.283185307179586476925286766559")
        for column, wave in ((z[::2], np.cos), (z[1::2], np.sin)):
            assert (np.abs(column - radius * wave(angle)) <= 4 * np.finfo(dtype).eps * radius).all()


# ---------------------------------------------------------------------------------------------- indexing


def gathered(x, indices, at=0, threads=1, target="host"):
    """x read at index arrays from dimension `at` on, and the report of wrong indices."""
    indices = list(np.broadcast_arrays(*indices))
    inner, count = indices[0].shape, len(indices)
    y = np.zeros((*x.shape[:at], *inner, *x.shape[at + count :]), x.dtype)
    flag, steps = np.zeros(3, np.int64), strides(x)
    source = Access(0, OF_NUMPY[x.dtype], (*steps[:at], *(0,) * len(inner), *steps[at + count :]))
    around = lambda i: (*(0,) * at, *strides(i), *(0,) * (x.ndim - at - count))
    coordinates = tuple(
        Coordinate(Access(2 + n, OF_NUMPY[i.dtype], around(i)), x.shape[at + n], steps[at + n])
        for n, i in enumerate(indices)
    )
    kernel = Gather(y.shape, source, coordinates, stored(y, 1, source.kind), 2 + count)
    run(kernel, [x, y, *indices, flag, 7], threads, target)
    return y, flag


def scattered(g, indices, sizes, at=0, combine="add", initial=None, threads=1, target="host"):
    """g combined into an array whose dimensions at … have `sizes`."""
    indices = list(np.broadcast_arrays(*indices))
    inner, count = indices[0].shape, len(indices)
    y = np.full((*g.shape[:at], *sizes, *g.shape[at + len(inner) :]), 9).astype(g.dtype)
    flag, steps = np.zeros(3, np.int64), strides(y)
    own = Access(1, OF_NUMPY[g.dtype], (*steps[:at], *(0,) * len(inner), *steps[at + count :]))
    around = lambda i: (*(0,) * at, *strides(i), *(0,) * (y.ndim - at - count))
    coordinates = tuple(
        Coordinate(Access(2 + n, OF_NUMPY[i.dtype], around(i)), sizes[n], steps[at + n]) for n, i in enumerate(indices)
    )
    start = None if initial is None else access(4 + count, initial)
    value = Body(loads=(access(0, g),))
    kernel = Scatter(g.shape, value, own, coordinates, y.shape, steps, 2 + count, combine, start)
    run(kernel, [g, y, *indices, flag, 7, *([] if initial is None else [initial])], threads, target)
    return y, flag


PLACES = [
    ((50, 40), (7,), 0),
    ((50,), (100,), 0),
    ((50, 7), (3, 11), 0),
    ((5, 50, 3), (20,), 1),
    ((50, 140), (33,), 0),
    ((50, 40), (33,), 1),
    ((2, 6, 5, 4), (10, 2), 1),
    ((30, 1), (5,), 0),
]


@pytest.mark.parametrize("target, threads", [*((t, 1) for t in TARGETS), ("host", 2)])
@pytest.mark.parametrize("dtype", [F32, F64, np.int64, np.bool_])
def test_one_index_array(rng, dtype, target, threads):
    for shape, inner, at in PLACES:
        x = (rng.standard_normal(shape) * 10).astype(dtype)
        index = rng.integers(-shape[at], shape[at], inner)
        for kind in (np.int64, np.int32):
            y, flag = gathered(x, [index.astype(kind)], at, threads, target)
            assert (y == np.take(x, index, axis=at)).all() and flag[0] == 0
        g = (rng.standard_normal((*shape[:at], *inner, *shape[at + 1 :])) * 10).astype(dtype)
        where = (slice(None),) * at + (index,)
        for combine, ufunc in (("add", np.add), ("prod", np.multiply), ("amax", np.maximum), ("amin", np.minimum)):
            if dtype is np.bool_:
                continue
            expected = np.zeros(shape, dtype) if combine == "add" else x.copy()
            ufunc.at(expected, where, g)
            y, _ = scattered(
                g, [index], shape[at : at + 1], at, combine, None if combine == "add" else x, threads, target
            )
            assert (y == expected).all()  # the order of the sums is that of np.add.at


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_of_several_writes_to_a_place_the_last_stays(rng, threads):
    for width in (1, 5, 300):
        x, g = rng.standard_normal((20, width)).astype(F32), rng.standard_normal((100, width)).astype(F32)
        index = rng.integers(0, 20, 100)
        expected = x.copy()
        for i, row in zip(index, g, strict=True):
            expected[i] = row
        assert (scattered(g, [index], (20,), 0, "put", x, threads)[0] == expected).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_elements_along_an_axis_and_several_index_arrays(rng, threads):
    x = rng.standard_normal((23, 31)).astype(F32)
    index, rows = rng.integers(0, 31, (23, 9)), np.arange(23)[:, None]
    y, _ = gathered(x, [rows, index], 0, threads)
    assert (y == np.take_along_axis(x, index, 1)).all()
    g, expected = rng.standard_normal((23, 9)).astype(F32), np.zeros((23, 31), F32)
    np.add.at(expected, (rows, index), g)
    assert (scattered(g, [rows, index], (23, 31), 0, threads=threads)[0] == expected).all()
    index, columns = rng.integers(0, 23, (40, 31)), np.arange(31)[None]
    assert (gathered(x, [index, columns], 0, threads)[0] == np.take_along_axis(x, index, 0)).all()


@pytest.mark.parametrize("wrong", [50, -51, 10**12])
def test_an_index_out_of_range_is_reported_and_reads_nothing_outside(rng, wrong):
    x, index = rng.standard_normal((50, 40)).astype(F32), np.arange(20)
    index[7] = wrong
    for source in (x, x[:, 0].copy()):
        y, flag = gathered(source, [index])
        assert flag.tolist() == [7, wrong, 50]
        assert (np.delete(y, 7, 0) == np.delete(source[np.arange(20)], 7, 0)).all() and (y[7] == source[0]).all()
        _, flag = scattered(np.ones((20, *source.shape[1:]), F32), [index], (50,))
        assert flag.tolist() == [7, wrong, 50]


# ---------------------------------------------------------------------------------------------- sparse


def sparse_product(matrix, x, transposed=False, threads=1, target="host"):
    starts, columns, extra, order = matrix.indptr, matrix.indices, [], None
    rows = matrix.shape[transposed]
    if transposed:
        starts, columns, numbers = Pattern(starts, columns, matrix.shape).T.by_row()
        extra, order = [numbers], access(5, numbers)
    y = np.full((rows, x.shape[1]), 9, x.dtype)
    operands = [access(n, a) for n, a in enumerate((starts, columns, matrix.data, x))]
    body = stored(y, 4, operands[3].kind)
    kernel = SparseProductKernel((rows, x.shape[1]), len(columns), *operands, body, order)
    run(kernel, [starts, columns, matrix.data, x, y, *extra], threads, target)
    return y


@pytest.mark.parametrize("target, threads", [*((t, 1) for t in TARGETS), ("host", 2)])
@pytest.mark.parametrize("dtype, tolerance", [(F32, 2e-6), (F64, 1e-14)])
def test_sparse_products(rng, dtype, tolerance, target, threads):
    for shape, density in (((40, 30), 0.1), ((1, 30), 0.5), ((200, 7), 0.3), ((5, 300), 0.0)):
        matrix = scipy.sparse.random(*shape, density, format="csr", rng=1, dtype=dtype)
        rows = np.repeat(np.arange(shape[0], dtype=np.int32), np.diff(matrix.indptr))
        for width in (1, 2, 7, 16, 33, 150):
            a, b = (rng.standard_normal((n, width)).astype(dtype) for n in shape)
            close = lambda y, expected: np.testing.assert_allclose(y, expected, rtol=0, atol=tolerance * 20)
            close(sparse_product(matrix, b, False, threads, target), matrix @ b)
            close(sparse_product(matrix, a, True, threads, target), matrix.T @ a)
            y = np.zeros(matrix.nnz, dtype)
            heads = [x.reshape(len(x), 1, width) for x in (a, b)]
            starts, columns, *factors = (access(n, x) for n, x in enumerate((matrix.indptr, matrix.indices, *heads)))
            body = stored(y, 4, factors[0].kind)
            kernel = SampledProductKernel(shape[0], matrix.nnz, 1, width, starts, columns, None, *factors, body, 1)
            run(kernel, [matrix.indptr, matrix.indices, *heads, y], threads, target)
            close(y, (a[rows] * b[matrix.indices]).sum(1))


# --------------------------------------------------------------------------------------------- attention


def attend(q, k, v, scale, causal=False, mask=None, threads=1, target="host"):
    """Output and logarithmic sums of the forward kernel."""
    batch, sizes = q.shape[:-2], (*(x.shape[-2] for x in (q, k)), q.shape[-1], v.shape[-1])
    o, lse = np.full((*q.shape[:-1], v.shape[-1]), 7, q.dtype), np.zeros(q.shape[:-1], q.dtype)
    arrays = [q, k, v, o, lse]
    if mask is not None:
        arrays.append(np.broadcast_to(mask, (*batch, *sizes[:2])))
    accesses = [access(n, a) for n, a in enumerate(arrays)]
    shown = accesses[5] if mask is not None else None
    run(AttentionForward(batch, sizes, *accesses[:5], scale, causal, shown, len(arrays)), arrays, threads, target)
    return o, lse


def attention_slopes(q, k, v, o, lse, g, scale, causal=False, mask=None, threads=1, target="host"):
    batch, sizes = q.shape[:-2], (*(x.shape[-2] for x in (q, k)), q.shape[-1], v.shape[-1])
    found = [np.full(x.shape, 5, x.dtype) for x in (q, k, v)]
    arrays = [q, k, v, o, lse, g, *found]
    if mask is not None:
        arrays.append(np.broadcast_to(mask, (*batch, *sizes[:2])))
    accesses = [access(n, a) for n, a in enumerate(arrays)]
    shown = accesses[9] if mask is not None else None
    word = len(arrays)
    kernel = AttentionBackward(batch, sizes, *accesses[:9], scale, causal, shown, word + 1, word)
    run(kernel, [*arrays, np.zeros(max(1, kernel.workspace), np.uint8)], threads, target)
    return found


def expected_attention(q, k, v, g, scale, causal, mask):
    """Output, logarithmic sums and gradients in float64 by PyTorch's separate operations."""
    q, k, v = (torch.from_numpy(x.astype(F64)).requires_grad_() for x in (q, k, v))
    scores = (q * scale) @ k.mT
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    if mask is not None:
        given = torch.from_numpy(mask.copy())
        scores = scores.masked_fill(~given, -torch.inf) if given.dtype == torch.bool else scores + given
    empty = (scores == -torch.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(empty, 0).softmax(-1).masked_fill(empty, 0)
    o = weights @ v
    o.backward(torch.from_numpy(g.astype(F64)))
    return o.detach().numpy(), scores.logsumexp(-1).detach().numpy(), [x.grad.numpy() for x in (q, k, v)]


SIZES = [
    ((2, 3), 64, 64, 32, 32),
    ((2,), 65, 65, 64, 64),
    ((2,), 7, 5, 3, 2),
    ((1,), 1, 200, 16, 24),
    ((1, 2), 150, 150, 20, 17),
    ((), 33, 64, 8, 8),
    ((2,), 49, 49, 32, 32),
    ((1,), 40, 330, 8, 8),
    ((2,), 270, 300, 16, 24),
]


def masks(rng, kind, batch, queries, keys, dtype):
    if kind == "bool":
        return rng.random((queries, keys)) < 0.3
    if kind == "float":
        return rng.standard_normal((*batch, queries, keys)).astype(dtype)
    return rng.random((*batch[:-1], *(1,) * len(batch[-1:]), 1, keys)) < 0.5 if kind == "keys" else None


KINDS = [None, "causal", "bool", "float", "keys"]
CASES = [("host", n, kind, F32) for n in range(len(SIZES)) for kind in KINDS[n % 2 :: 2]]
CASES += [("host", n, KINDS[n % 5], F64) for n in (1, 4)]
CASES += [(target, *case) for target in TARGETS[1:] for case in ((0, "causal", F32), (4, "bool", F64), (6, None, F32))]


@pytest.mark.parametrize("target, number, kind, dtype", CASES)
def test_attention_and_its_gradients(rng, target, number, kind, dtype):
    tolerance = {F32: 4e-6, F64: 2e-14}[dtype]
    (batch, queries, keys, width, value_width), threads = SIZES[number], 1 + number % 3
    sizes = ((queries, width), (keys, width), (keys, value_width), (queries, value_width))
    q, k, v, g = (rng.standard_normal((*batch, *size)).astype(dtype) for size in sizes)
    setting = {"scale": 0.3, "causal": kind == "causal", "mask": masks(rng, kind, batch, queries, keys, dtype)}
    o, lse = attend(q, k, v, **setting, threads=threads, target=target)
    slopes = attention_slopes(q, k, v, o, lse, g, **setting, threads=threads, target=target)
    expected, sums, gradients = expected_attention(q, k, v, g, **setting)
    for found, truth in ((o, expected), (lse, sums), *zip(slopes, gradients, strict=True)):
        np.testing.assert_allclose(
            found, truth, rtol=0, atol=tolerance * max(1, np.abs(truth[np.isfinite(truth)]).max())
        )


def test_attention_reads_and_writes_operands_as_they_lie(rng):
    """Heads side by side in one array (B, T, 3, H, E), and an output whose columns are not neighbours."""
    packed = rng.standard_normal((2, 40, 3, 4, 16)).astype(F32)
    q, k, v = (packed[:, :, n].swapaxes(1, 2) for n in range(3))
    o, lse = attend(q, k, v, 0.25)
    dense, _ = attend(*(np.ascontiguousarray(x) for x in (q, k, v)), 0.25)
    assert (o == dense).all()
    turned = np.ascontiguousarray(q.swapaxes(-1, -2)).swapaxes(-1, -2)
    np.testing.assert_allclose(attend(turned, k, v, 0.25)[0], o, rtol=0, atol=1e-6)
    g = rng.standard_normal(o.shape).astype(F32)
    for one, two in zip(
        attention_slopes(q, k, v, o, lse, g, 0.25), attention_slopes(turned, k, v, o, lse, g, 0.25), strict=True
    ):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-6)


def test_attention_with_few_heads_does_not_depend_on_threads(rng):
    """One long head is shared out in groups of keys; their shares are added in a fixed order."""
    for causal in (False, True):
        q, k, v, g = (rng.standard_normal((1, 530, 8)).astype(F32) for _ in range(4))
        results = []
        for threads in (1, 2):
            o, lse = attend(q, k, v, 0.25, causal, threads=threads)
            results.append([o, *attention_slopes(q, k, v, o, lse, g, 0.25, causal, threads=threads)])
        for other in results[1:]:
            assert all((a == b).all() for a, b in zip(results[0], other, strict=True))
        expected, _, gradients = expected_attention(q, k, v, g, 0.25, causal, None)
        for found, truth in zip(results[0], (expected, *gradients), strict=True):
            np.testing.assert_allclose(found, truth, rtol=0, atol=4e-6 * np.abs(truth).max())


def test_attention_of_extreme_scores(rng):
    """Scores of ±10⁴ overflow no exponential; an infinite key or query gives NaN as separate operations do."""
    q, k, v = (rng.standard_normal((1, 40, 8)).astype(F32) for _ in range(3))
    o, _ = attend(q * 1e4, k, v, 1.0)
    expected, _, _ = expected_attention(q * 1e4, k, v, o, 1.0, False, None)
    np.testing.assert_allclose(o, expected, rtol=0, atol=0.02)
    q[0, 3, 0] = np.nan
    o, _ = attend(q, k, v, 1.0)
    assert np.isnan(o[0, 3]).all() and not np.isnan(np.delete(o[0], 3, 0)).any()


# ------------------------------------------------------------------------------------------------- scans


def scanned(x, axis, combine="add", reverse=False, factors=None, threads=1, target="host"):
    y = np.full(x.shape, 9, x.dtype)
    arrays = [x, y] if factors is None else [x, y, factors]
    loads = (access(0, x),) if factors is None else (access(2, factors), access(0, x))
    kernel = Scan(x.shape, axis, Body(loads=loads), stored(y, 1, OF_NUMPY[x.dtype]), combine, reverse)
    run(kernel, arrays, threads, target)
    return y


@pytest.mark.parametrize("target, threads", [*((t, 1) for t in TARGETS), ("host", 2)])
@pytest.mark.parametrize("dtype", [F32, F64, np.int64])
def test_scans_are_numpys_bit_by_bit(rng, dtype, target, threads):
    for shape, axis in (((5, 40, 33), 1), ((7, 65), 1), ((65, 7), 0), ((3, 4, 5), 0), ((1000,), 0), ((2, 1, 20), 1)):
        x = (rng.standard_normal(shape) * 3).astype(dtype)
        for combine, ufunc in (("add", np.add), ("prod", np.multiply), ("amax", np.maximum), ("amin", np.minimum)):
            with np.errstate(over="ignore"):
                expected = ufunc.accumulate(x, axis=axis)
                backwards = np.flip(ufunc.accumulate(np.flip(x, axis), axis=axis), axis)
            assert (scanned(x, axis, combine, threads=threads, target=target) == expected).all()
            if combine == "add":
                assert (scanned(x, axis, combine, True, threads=threads, target=target) == backwards).all()


def test_other_scans(rng):
    for shape, axis in (((5, 40, 33), 1), ((9, 30), 1)):
        x, factors = rng.standard_normal(shape), rng.standard_normal(shape)
        x[(0,) * len(shape)] = -np.inf
        np.testing.assert_allclose(scanned(x, axis, "logaddexp"), np.logaddexp.accumulate(x, axis=axis), rtol=1e-14)
        x[(0,) * len(shape)] = 1
        for reverse in (False, True):
            turn = (lambda a, axis=axis: np.flip(a, axis)) if reverse else (lambda a: a)
            a, b = (np.moveaxis(turn(z), axis, 0) for z in (factors, x))
            expected = b.copy()
            for t in range(1, len(b)):
                expected[t] += a[t] * expected[t - 1]
            found = turn(scanned(x, axis, "linear", reverse, factors))
            np.testing.assert_allclose(np.moveaxis(found, axis, 0), expected, rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------------------------- other processors


@pytest.mark.parametrize("target", ["aarch64", "apple-m1"])
def test_kernels_compile_for_arm(target):
    line, matrix, kept = Access(0, "f32", (1,)), Access(0, "f32", (40, 1)), Access(0, "i64", (1,))
    one, two = (Body(given=("f32",), stores=((a, 0),)) for a in (line, matrix))
    head = Access(0, "f32", (640, 16, 1))
    rows = Access(0, "f32", (40, 1))
    coordinate = Coordinate(Access(1, "i64", (1, 0)), 30, 40)
    kernels = [
        RandomFill(100, "normal", "f32", one),
        Gather((20, 40), Access(0, "f32", (0, 1)), (coordinate,), two, 3),
        Scatter((20, 40), Body(loads=(matrix,)), Access(2, "f32", (0, 1)), (coordinate,), (30, 40), (40, 1), 3),
        SparseProductKernel((10, 40), 50, kept, kept, line, matrix, two),
        SampledProductKernel(10, 50, 1, 40, kept, kept, None, head, head, one, 1),
        ExtremeKernel((10, 40), 50, kept, kept, matrix, two, "amax"),
        TiedSumKernel((10, 40), 50, kept, kept, matrix, matrix, matrix, two),
        AttentionForward((2,), (40, 40, 16, 16), head, head, head, head, rows, 0.25, True, None, 5),
        AttentionBackward((2,), (40, 40, 16, 16), *(head,) * 4, rows, *(head,) * 4, 0.25, True, None, 9),
        Scan((20, 40), 0, Body(loads=(matrix,)), two),
    ]
    for kernel in kernels:
        assert jit.emit_object(
            kernel.text("kernel", jit.Target.named(target), barrier_ir("aarch64")), jit.Target.named(target)
        )
