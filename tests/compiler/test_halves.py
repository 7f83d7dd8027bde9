"""bfloat16 in plans: products in pairs of terms, numbers held as float32, autocast, and what is said where neither pays."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import weft
from weft import nn
from weft.compiler.passes import halves
from weft.kernels.llvm import jit
from weft.kernels.matmul.product import PAIR_DEPTH, Product, Tiling
from weft.nn import functional as F

from .kernel_runs import TARGETS
from .test_matmul import close, guarded, matrix, plain, run, strides

HOST = jit.Target.named("host")
HALVED = jit.Target.host().bfloat  # of plans, whose processor WEFT_TARGET names
FAST = pytest.mark.skipif(not HOST.bfloat, reason="no AVX512-BF16 here")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def rounded(x: np.ndarray) -> np.ndarray:
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


# ---------------------------------------------------------------- kernels


def product(a: np.ndarray, b: np.ndarray, threads: int, target: Any = HOST, make: Any = Product) -> Product:
    """a @ b by a kernel that rounds both; within √K roundings of float32, and nothing else is written."""
    (m, k), n = a.shape[-2:], b.shape[-1]
    c, whole = guarded(np.zeros((*a.shape[:-2], m, n), np.float32), np.nan)
    made = make("f32", a.shape[:-2], m, n, k, strides(a), strides(b), plain("f32", c), narrow=True)
    run(made, [a, b, c], threads, target)
    close(c, rounded(a), rounded(b))
    assert np.isin(whole[:64], 77).all() and np.isin(whole[-64:], 77).all()
    return made


PAIRED = [(64, 128, 64), (70, 100, 66), (33, 65, 130), (100, 12, 300), (200, 30, 96), (17, 1000, 32), (530, 50, 34)]


@FAST
@pytest.mark.parametrize("layout", ["CC", "CF", "FC", "FF"])
@pytest.mark.parametrize("shape", PAIRED, ids=str)
def test_products_in_pairs(rng, shape, layout):
    m, n, k = shape
    a, b = matrix(rng, (), m, k, np.float32, layout[0]), matrix(rng, (), k, n, np.float32, layout[1])
    for make in (Product, Product.planned):
        assert Tiling.of(product(a, b, 1 + m % 3, make=make), HOST).pairs


@FAST
@pytest.mark.parametrize("layout", ["CC", "FF"])
def test_sums_that_wait_between_parts(rng, layout):
    k = 2 * PAIR_DEPTH + 1030
    made = product(matrix(rng, (), 20, k, np.float32, layout[0]), matrix(rng, (), k, 50, np.float32, layout[1]), 2)
    assert Tiling.of(made, HOST).depth < k // 2


@FAST
def test_any_strides_and_the_same_bits_on_any_number_of_threads(rng):
    x, y = rng.standard_normal((160, 256)).astype(np.float32), rng.standard_normal((256, 240)).astype(np.float32)
    for a, b in ((x[::2, ::2], y[::2, ::3]), (x[::-1], y[:, ::-1]), (x[:, ::-1], y[::-1])):
        assert Tiling.of(product(a, b, 2), HOST).pairs
    found = []
    for threads in (1, 2, 3):
        c = np.zeros((160, 240), np.float32)
        run(Product("f32", (), 160, 240, 256, strides(x), strides(y), plain("f32", c), narrow=True), [x, y, c], threads)
        found.append(c)
    assert (found[0] == found[1]).all() and (found[0] == found[2]).all()


@pytest.mark.parametrize("target", TARGETS)
def test_products_that_do_not_pay_round_what_they_read(rng, target):
    """Odd sizes, small ones, batches; and every product where there are no such instructions."""
    chosen = jit.Target.named(target)
    shapes = [((), 30, 31, 33), ((), 3, 40, 64), ((2,), 9, 17, 20), ((), 2, 9, 100)]
    for batch, m, n, k in shapes:
        for layout in ("CC", "CF", "FF"):
            a, b = matrix(rng, batch, m, k, np.float32, layout[0]), matrix(rng, batch, k, n, np.float32, layout[1])
            assert not Tiling.of(product(a, b, 2, chosen), chosen).pairs


@FAST
def test_infinities_and_nan_stay(rng):
    a, b = rng.standard_normal((64, 64)).astype(np.float32), rng.standard_normal((64, 128)).astype(np.float32)
    a[3, 5], a[7, 9], b[20, 30] = np.inf, np.nan, -np.inf
    c = np.zeros((64, 128), np.float32)
    run(Product("f32", (), 64, 128, 64, strides(a), strides(b), plain("f32", c), narrow=True), [a, b, c])
    with np.errstate(invalid="ignore"):
        expected = rounded(a) @ rounded(b)
    np.testing.assert_allclose(c, expected, rtol=1e-3, atol=1e-3)


# ---------------------------------------------------------------- plans


def operations(step: Any, *arguments: Any) -> str:
    return str(step.profile(*arguments))


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.00390625, 1.01171875, 3.3895314e38, 3.4e38, 65504.0, -1e-30, 1 / 3]


def test_conversions_are_those_of_numpy(rng):
    """Ties to even, past the largest number, NaN; also of other types, and into memory of bfloat16."""
    x = np.concatenate([np.array(SPECIAL, np.float32), rng.standard_normal(200).astype(np.float32)])
    there = weft.compile(lambda x: (x.to(weft.bfloat16), x.to(weft.bfloat16).float(), (x * 0 + 300).to(weft.bfloat16)))
    half, whole, _ = there(weft.from_numpy(x))
    want = x.astype(ml_dtypes.bfloat16)
    assert half.dtype is weft.bfloat16
    assert np.array_equal(half.float().numpy(), want.astype(np.float32), equal_nan=True)
    assert np.array_equal(whole.numpy(), want.astype(np.float32), equal_nan=True)
    whole = weft.arange(-1000, 1000, 7)
    back = weft.compile(lambda n: (n.to(weft.bfloat16), n.to(weft.bfloat16).to(weft.int32), n.to(weft.bfloat16) > 0))
    for mine, eager in zip(back(whole), (lambda h: (h, h.to(weft.int32), h > 0))(whole.to(weft.bfloat16)), strict=True):
        assert mine.dtype is eager.dtype and (mine == eager).all()


FUNCTIONS = {
    "chain": lambda x, y: ((x * y + 0.3).tanh() - y / 3).exp() * 1.7,
    "views": lambda x, y: weft.cat([x[1:, ::2], y.t()[:3, :4]], 1) + weft.where(x > 0, x, -y)[:3, :12],
    "sums": lambda x, y: (x.sum(0), x.mean(), (x * y).amax(1), y.var(1)),
    "softmax": lambda x, y: F.softmax(x, -1) + F.log_softmax(y, 0),
    "mixed": lambda x, y: x + y.float() * 2,
    "relu": lambda x, y: F.relu(x).abs().clamp(max=1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operations_round_as_eager_code_does(rng, name):
    """To the bit where nothing is summed; sums are taken in another order, and then rounded."""
    x, y = (weft.from_numpy(rng.standard_normal((4, 16)).astype(np.float32)).to(weft.bfloat16) for _ in range(2))
    step = weft.compile(FUNCTIONS[name])
    step(x, y)
    mine, eager = step(x, y), FUNCTIONS[name](x, y)
    for a, b in zip(*((v if isinstance(v, tuple) else (v,)) for v in (mine, eager)), strict=True):
        assert a.dtype is b.dtype
        if name in ("sums", "softmax"):
            np.testing.assert_allclose(a.float().numpy(), b.float().numpy(), rtol=2**-7, atol=1e-6)
        else:
            assert (a == b).all(), name
    assert "python" not in operations(step, x, y)


def test_states_of_bfloat16_are_written_in_place():
    total = weft.zeros(50, dtype=weft.bfloat16)

    @weft.compile
    def add(x):
        total.add_(x)
        return total * 2

    for _ in range(3):
        twice = add(weft.full((50,), 0.1, dtype=weft.bfloat16))
    expected = weft.zeros(50, dtype=weft.bfloat16)
    for _ in range(3):
        expected.add_(weft.full((50,), 0.1, dtype=weft.bfloat16))
    assert (total == expected).all() and (twice == expected * 2).all() and total.dtype is weft.bfloat16


@pytest.mark.filterwarnings("ignore:weft. this processor has no instructions")
def test_products_of_bfloat16_tensors_are_pytorchs(rng):
    """To one rounding of the result, which float32 sums in another order may turn."""
    x, w = rng.standard_normal((96, 256)).astype(np.float32), rng.standard_normal((192, 256)).astype(np.float32)
    step = weft.compile(lambda x, w: (x @ w.t(), F.linear(x, w)))
    given = [weft.from_numpy(v).to(weft.bfloat16) for v in (x, w)]
    step(*given)
    theirs = torch.tensor(x).bfloat16() @ torch.tensor(w).bfloat16().t()
    for mine in step(*given):
        np.testing.assert_allclose(mine.float().numpy(), theirs.float().numpy(), rtol=2**-7, atol=1e-4)
        assert (mine.float().numpy() == theirs.float().numpy()).mean() > 0.95
    assert ("matmul_bf16" in operations(step, *given)) == HALVED


def block(lib: Any) -> Any:
    return lib.Sequential(lib.LayerNorm(64), lib.Linear(64, 128), lib.GELU(), lib.Linear(128, 64), lib.Linear(64, 10))


def region(lib: Any, model: Any, x: Any, y: Any) -> Any:
    """One pass under autocast; types of results, and gradients."""
    with (weft.amp.autocast if lib is weft else torch.autocast)("cpu", lib.bfloat16):
        h = model[:4](x)
        q = h.reshape(8, 2, -1, 64).float()
        a = lib.nn.functional.scaled_dot_product_attention(q, q, q)
        out = model[4](h)
        loss = lib.nn.functional.cross_entropy(out, y) + a.float().square().mean()
    loss.backward()
    return h, a, out, loss


def test_autocast_in_plans_is_eager_autocast_and_pytorchs(rng):
    x, y = rng.standard_normal((256, 64)).astype(np.float32), rng.integers(0, 10, 256)
    weft.manual_seed(0)
    model, theirs = block(nn), block(torch.nn)
    theirs.load_state_dict({name: torch.tensor(p.numpy()) for name, p in model.state_dict().items()})
    eager = region(weft, model, weft.from_numpy(x), weft.from_numpy(y))
    gradients = [p.grad.numpy().copy() for p in model.parameters()]
    step = weft.compile(lambda x, y: region(weft, model, x, y))
    for p in model.parameters():
        p.grad = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = step(weft.from_numpy(x), weft.from_numpy(y))
    other = region(torch, theirs, torch.tensor(x), torch.tensor(y))
    for mine, before, torchs in zip(compiled, eager, other, strict=True):
        assert mine.dtype is before.dtype and str(mine.dtype)[5:] == str(torchs.dtype)[6:]
        mine, before, torchs = (v.detach().float().numpy() for v in (mine, before, torchs))
        scale = np.abs(before).max()
        assert np.abs(mine - before).max() <= 2**-7 * scale and np.abs(mine - torchs).max() <= 2**-6 * scale
    for p, g, q in zip(model.parameters(), gradients, theirs.parameters(), strict=True):
        assert p.dtype is weft.float32 and p.grad.dtype is weft.float32
        scale = np.abs(g).max()
        assert np.abs(p.grad.numpy() - g).max() <= 2e-2 * scale
        assert np.abs(p.grad.numpy() - q.grad.numpy()).max() <= 4e-2 * scale


@pytest.mark.skipif(not HALVED, reason="no AVX512-BF16 there")
def test_weights_are_read_as_they_are_and_rounded_on_the_way():
    """Forward and both gradients are products of halves; no kernel only rounds weights."""
    layer, x = nn.Linear(128, 96), weft.randn(64, 128, requires_grad=True)

    @weft.compile
    def step(x):
        with weft.amp.autocast("cpu", weft.bfloat16):
            y = layer(x)
        y.float().square().sum().backward()
        return y

    step(x)
    shown = operations(step, x)
    assert shown.count("matmul_bf16") == 3
    assert " matmul " not in shown
    sweeps = [line.split() for line in shown.splitlines() if "Sweep: rounded" in line]
    assert all(float(columns[6]) < 5 for columns in sweeps), shown  # kB: of the bias, no more


@pytest.mark.parametrize("name", TARGETS[1:])
def test_other_processors_say_so_once(monkeypatch, name):
    monkeypatch.setenv("WEFT_TARGET", name)
    monkeypatch.setattr(halves._Told, "once", False)
    x, w = weft.randn(64, 64), weft.randn(64, 64)

    def step(x, w):
        with weft.autocast("cpu", weft.bfloat16):
            return x @ w

    with pytest.warns(UserWarning, match="no instructions for bfloat16") as told:
        found = weft.compile(step)(x, w)
        weft.compile(lambda x, w: step(x, w) * 2)(x, w)
    assert len(told) == 1
    np.testing.assert_allclose(found.float().numpy(), step(x, w).float().numpy(), rtol=2**-7, atol=1e-3)
