"""Every family of kernels on ARM: emitted for NEON, run under QEMU, compared with the reference and with this machine."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn
from weft.kernels.llvm import jit
from weft.nn import functional as F

from .emulated import IS_HERE, Foreign

ELF = "aarch64-unknown-linux-gnu"
TARGETS = {  # those that QEMU runs are linked; the others are emitted
    "aarch64": jit.Target.named("aarch64"),
    "neoverse-n1": jit.Target(ELF, "neoverse-n1", "", 16, 32),
    "neoverse-v2": jit.Target(ELF, "neoverse-v2", "", 16, 32),
    "apple-m1": jit.Target.named("apple-m1"),
}
KERNELS = {
    "attention": "AttentionBackward AttentionForward",
    "matmul": "Product",
    "memory": "Gather PlacesCheck RandomFill Scan Scatter SparseProductKernel",
    "recurrent": "GruBackward GruForward LstmBackward LstmForward TanhBackward TanhForward",
    "signal": "FourierLines",
    "solve": "TriangularSolve",
    "sort": "Histogram MedianOfLines Search SortLines TopOfLines",
    "sweep": "Several Sweep",
    "windows": "AddAtLargest ConvForward ConvInputGrad ConvWeightGrad FoldLines LargestInWindows ResampleLines WinogradConv "
    "WinogradWeightGrad",
}


def numbers(*shape: int) -> Any:
    """The same for every program, whatever was drawn before."""
    rng = np.random.default_rng(sum(shape))
    return weft.tensor(rng.normal(size=shape).astype(np.float32))


def grads(function: Callable) -> Callable:
    """A function of tensors with its value and gradients."""

    def run(*xs: Any) -> list[Any]:
        xs = [x.detach().requires_grad_() for x in xs]
        y = function(*xs)
        return [y.detach(), *weft.autograd.grad((y * y).sum(), xs)]

    return run


def image_net(x: Any, first: Any, second: Any, wide: Any, scale: Any) -> Any:
    """Direct and Winograd convolutions, a stride, batch normalisation, pooling."""
    x = F.conv2d(x, first, padding=1)
    x = F.max_pool2d(F.relu(F.batch_norm(x, None, None, scale, scale, training=True)), 2)
    x = F.conv2d(F.conv2d(x, second, padding=1), wide, stride=2)
    return F.avg_pool2d(x, 2)


def recurrent(kind: type) -> Callable:
    weft.manual_seed(0)
    layer = kind(5, 7)
    weights = [p.detach() for p in layer.parameters()]

    def run(x: Any, *weights: Any) -> Any:
        return weft.func.functional_call(layer, dict(zip(dict(layer.named_parameters()), weights, strict=True)), x)[0]

    return lambda: (grads(run), (numbers(6, 3, 5), *weights))


def places() -> tuple[Callable, tuple[Any, ...]]:
    def run(x: Any, rows: Any, table: Any) -> list[Any]:
        picked = x[rows]
        added = weft.zeros(9, 11).index_add(0, rows, picked)
        return [picked, added, table.gather(1, rows.view(4, 1)), x.cumsum(0), x.cumprod(1), x.cummax(1).values]

    return run, (numbers(9, 11), weft.tensor([3, 8, 0, 3]), numbers(4, 9))


def sorted_lines() -> tuple[Callable, tuple[Any, ...]]:
    def run(x: Any, long: Any) -> list[Any]:
        return [
            *x.sort(-1),
            *long.sort(descending=True),
            *x.topk(3),
            long.median(),
            weft.searchsorted(x.sort(-1).values, x),
            weft.histc(long, 10, -2, 2),
        ]

    return run, (numbers(5, 37), numbers(9000))


FUNCTIONS = """exp exp2 expm1 log log2 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh sigmoid erf erfc
    lgamma digamma i0 sinc floor round trunc sign reciprocal"""


def mathematics() -> tuple[Callable, tuple[Any, ...]]:
    def run(x: Any, d: Any, n: Any) -> list[Any]:
        found = [getattr(y, name)() for y in (x, d) for name in FUNCTIONS.split()]
        return [
            *found,
            x.pow(n * 0.3),
            x.atan2(n.float()),
            n // 3,
            n % 5,
            n << 2,
            (n * 1000003) ^ n,
            x.to(weft.int32),
            d.float(),
        ]

    x = weft.linspace(0.05, 0.95, 61)
    return run, (x, x.double(), weft.arange(-30, 31))


def sampled() -> tuple[Callable, tuple[Any, ...]]:
    def run(x: Any) -> list[Any]:
        weft.manual_seed(3)
        return [
            x + weft.rand(1001),
            weft.randn(1001),
            weft.randn(33, dtype=weft.float64),
            weft.randint(0, 1000, (77,)),
            weft.bernoulli(weft.full((1001,), 0.3)),
        ]

    return run, (numbers(1001),)


def sparse() -> tuple[Callable, tuple[Any, ...]]:
    import scipy.sparse

    matrix = weft.sparse.from_scipy(scipy.sparse.random(30, 20, 0.2, "csr", np.float32, np.random.default_rng(0)))
    return lambda x: [matrix @ x], (numbers(20, 9),)


def attention(causal: bool) -> Callable:
    run = grads(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal))
    return lambda: (run, tuple(numbers(2, 2, n, 16) for n in (19, 19, 19)))


def spectra(x: Any) -> Any:
    return weft.fft.irfft(weft.fft.rfft(x) * weft.fft.rfft(x.flip(-1)).conj(), n=x.shape[-1])


PROGRAMS: dict[str, Callable[[], tuple[Callable, tuple[Any, ...]]]] = {
    "pointwise and sums": lambda: (
        grads(lambda x, y: F.layer_norm(F.gelu(x * y + 1), (23,)).softmax(-1).logsumexp(0)),
        (numbers(17, 23), numbers(23)),
    ),
    "reductions": lambda: (
        lambda x: [x.sum(0), x.mean(1), x.amax((0, 2)), x.argmin(1), x.var(2), x.prod(2), (x > 0).sum(), x.std()],
        (numbers(9, 13, 10),),
    ),
    "products": lambda: (
        grads(lambda x, w, b: F.relu(F.linear(x, w, b)) @ w),
        (numbers(45, 37), numbers(50, 37), numbers(50)),
    ),
    "large product": lambda: (lambda a, b: [a @ b, a.mT @ b.mT], (numbers(130, 130), numbers(130, 130))),
    "many products in double precision": lambda: (
        grads(lambda a, b: a @ b),
        (numbers(4, 9, 17).double(), numbers(4, 17, 6).double()),
    ),
    "images": lambda: (
        grads(image_net),
        (numbers(2, 3, 16, 16), numbers(16, 3, 3, 3), numbers(16, 16, 3, 3), numbers(8, 16, 1, 1), numbers(16)),
    ),
    "upsampling": lambda: (
        grads(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
        (numbers(2, 3, 5, 6),),
    ),
    "windows added up": lambda: (grads(lambda x: x.unfold(1, 4, 2).tanh()), (numbers(5, 30),)),
    "attention": attention(False),
    "causal attention": attention(True),
    "lstm": recurrent(nn.LSTM),
    "gru": recurrent(nn.GRU),
    "rnn": recurrent(nn.RNN),
    "places": places,
    "sorting": sorted_lines,
    "functions": mathematics,
    "random numbers": sampled,
    "sparse": sparse,
    "triangular systems": lambda: (
        lambda a, b: [weft.linalg.solve_triangular(a, b, upper=True)],
        (numbers(3, 9, 9) + 5 * weft.eye(9), numbers(3, 9, 7)),
    ),
    "spectra": lambda: (grads(spectra), (numbers(7, 60),)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_every_family_is_emitted(name: str, tmp_path: pathlib.Path) -> None:
    foreign = Foreign(TARGETS[name], tmp_path)
    for make in PROGRAMS.values():
        function, args = make()
        foreign.add(function, *args)
    assert foreign.kinds == {(room, kind) for room, kinds in KERNELS.items() for kind in kinds.split()}


@pytest.mark.slow
@pytest.mark.skipif(not IS_HERE, reason="needs QEMU's user mode and a compiler for aarch64")
@pytest.mark.parametrize("target", ["aarch64", "neoverse-n1"])
def test_every_family_computes_what_the_reference_does(target: str, tmp_path: pathlib.Path) -> None:
    foreign = Foreign(TARGETS[target], tmp_path)
    for make in PROGRAMS.values():
        function, args = make()
        foreign.add(function, *args)
    for name, (found, truth, here) in zip(PROGRAMS, foreign.run(), strict=True):
        for number, (y, t, h) in enumerate(zip(found, truth, here, strict=True)):
            message = f"{name}, result {number} of type {t.dtype}"
            if t.dtype.kind in "biu":
                np.testing.assert_array_equal(y, t, message)
                continue
            tolerance = 1e-12 if t.dtype == np.float64 else 2e-5
            np.testing.assert_allclose(y, t, tolerance, tolerance * np.abs(t).max(), err_msg=message)
            np.testing.assert_allclose(y, h, tolerance, tolerance * np.abs(t).max(), err_msg=message)
