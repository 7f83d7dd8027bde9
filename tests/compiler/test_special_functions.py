"""Special functions of the builder against mpmath over all magnitudes, and whole plans of them against PyTorch."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

import weft
from weft.compiler.fuse import groups as fuse
from weft.kernels.llvm import jit
from weft.kernels.llvm.builder import Function
from weft.ops.math.implicit_gamma import LOG_GAMMA_SLOPE, log_gamma_slope

from .builder import Case, run

KINDS = {"f32": np.float32, "f64": np.float64}
RUNS_HERE = ["x86-64-v2", "x86-64-v3"] if jit.Target.host().arch == "x86_64" else []


@dataclass
class Truth:
    """A native function, what it is by mpmath, and where: ranges above 0 are drawn by their logarithms.

    Errors are relative to the result or to `size(x)`, where that is larger: near zeros only the absolute error is small.
    """

    native: Callable
    truth: Callable
    ranges: list[tuple[float, float]]
    allowed: float = 4  # ulp in f64
    size: Callable = lambda x: 0.0


def of(method: str, *settings: Any) -> Callable:
    return lambda f, *values: getattr(f, method)(*values, *settings)


def scaled(function: Callable, order: int, sign: int) -> Callable:
    return lambda x: function(order, x) * mpmath.exp(sign * abs(x))


def ndtri(p):
    """Newton's method on log Φ far to the left, where 2p − 1 would lose the digits of p."""
    if p > 0.01:
        return mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)
    y = -mpmath.sqrt(-2 * mpmath.log(p))
    for _ in range(12):
        y -= mpmath.log(mpmath.ncdf(y) / p) * mpmath.ncdf(y) / mpmath.npdf(y)
    return y


def wave(x: float) -> float:
    """The size of Jₙ and Yₙ between their zeros."""
    return math.sqrt(2 / (math.pi * max(abs(x), 1.0)))


def airy_wave(x: float) -> float:
    """The size of Ai left of 0."""
    return 1 / math.sqrt(math.pi * math.sqrt(max(1.0, abs(x)))) if x < 0 else 0.0


def polygamma(n: int) -> Truth:
    """Left of 0 errors are relative to the terms of the reflection."""
    ranges = [(0.001, 40), (1e-3, 1e6), (-6, 0)]
    terms = math.factorial(n) * math.pi ** (n + 1)
    return Truth(of("polygamma", n), lambda x: mpmath.polygamma(n, x), ranges, 4 + 2 * n, lambda x: terms * (x < 0))


def bessel(method: str, function: Callable, order: int, *ranges: tuple[float, float], **more: Any) -> Truth:
    return Truth(of(method, order), lambda x: function(order, x), list(ranges), **more)


def scaled_bessel(method: str, function: Callable, order: int, sign: int, *ranges: tuple[float, float]) -> Truth:
    return Truth(of(method, order, True), scaled(function, order, sign), list(ranges))


TRUTH = {
    "erfinv": Truth(of("erfinv"), mpmath.erfinv, [(-1, 1), (1e-300, 1e-3)]),
    "ndtri": Truth(of("ndtri"), ndtri, [(0, 1), (1e-320, 1e-2), (0.4999, 0.5001)]),
    **{f"polygamma {n}": polygamma(n) for n in (1, 2, 3, 4, 7, 20)},
    **{f"i{n}": bessel("bessel_i", mpmath.besseli, n, (-12, 12), (1e-9, 713)) for n in (0, 1)},
    **{f"i{n}e": scaled_bessel("bessel_i", mpmath.besseli, n, -1, (-12, 12), (1e-9, 1e9)) for n in (0, 1)},
    **{f"k{n}": bessel("bessel_k", mpmath.besselk, n, (0, 5), (1e-300, 740)) for n in (0, 1)},
    **{f"k{n}e": scaled_bessel("bessel_k", mpmath.besselk, n, 1, (0, 5), (1e-300, 1e9)) for n in (0, 1)},
    "airy_ai": Truth(of("airy_ai"), mpmath.airyai, [(-12, 6), (-200, 0), (1e-9, 100)], 60, airy_wave),
    **{f"j{n}": bessel("bessel_j", mpmath.besselj, n, (-20, 20), (1e-9, 1e4), allowed=16, size=wave) for n in (0, 1)},
    **{f"y{n}": bessel("bessel_y", mpmath.bessely, n, (0, 20), (1e-300, 1e4), allowed=16, size=wave) for n in (0, 1)},
}


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, mpmath.workdps(40):
        patch.setenv("WEFT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def points(kind: str, ranges: list[tuple[float, float]], count: int = 60) -> np.ndarray:
    rng, drawn = np.random.default_rng(0), []
    for low, high in ranges:
        log = low > 0
        x = rng.uniform(math.log(low) if log else low, math.log(high) if log else high, count)
        drawn.append(np.exp(x) if log else x)
    x = np.concatenate(drawn).astype(KINDS[kind])
    return x[x != 0]


@functools.cache
def computed(kind: str, target: str = "host", lanes: int | None = None) -> dict[str, np.ndarray]:
    """The results of every function, from one kernel."""
    cases = [Case(t.native, [points(kind, t.ranges)], KINDS[kind]) for t in TRUTH.values()]
    return dict(zip(TRUTH, run(cases, jit.Target.named(target), lanes), strict=True))


@functools.cache
def exact(name: str, kind: str) -> list[Any]:
    return [TRUTH[name].truth(mpmath.mpf(float(x))) for x in points(kind, TRUTH[name].ranges)]


def check(name: str, kind: str, found: np.ndarray, slack: float = 1.0) -> None:
    t, info = TRUTH[name], np.finfo(KINDS[kind])
    limit = (4.0 if kind == "f32" else t.allowed) * slack
    for x, y, truth in zip(points(kind, t.ranges), found, exact(name, kind), strict=True):
        if abs(truth) > info.max:
            assert abs(y) == math.inf, f"{name}({x!r}) = {y!r}, not {truth}"
            continue
        size = min(max(abs(float(truth)), t.size(float(x)), float(info.tiny)), float(info.max))
        error = float(abs(mpmath.mpf(float(y)) - truth)) / float(np.spacing(KINDS[kind](size)))
        assert error <= limit, f"{name}({x!r}) = {y!r}, not {mpmath.nstr(truth, 20)}: {error} ulp"


@pytest.mark.parametrize("name", TRUTH)
@pytest.mark.parametrize("kind", KINDS)
def test_within_a_few_ulp(name, kind):
    check(name, kind, computed(kind)[name])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", RUNS_HERE)
def test_on_older_processors(target, kind):
    for name, found in computed(kind, target).items():
        check(name, kind, found, slack=1.0 if jit.Target.named(target).fma else 2.5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lanes", [1, 3, 32])
def test_any_number_of_lanes_gives_the_same_bits(lanes, kind):
    for name, found in computed(kind, lanes=lanes).items():
        np.testing.assert_array_equal(found, computed(kind)[name], err_msg=name)


def test_arm_code_is_generated():
    target = jit.Target.named("aarch64")
    f = Function("kernel", target)
    x, n = (f.load(f.arg(i), 0, "f64", target.lanes(np.float64)) for i in (0, 1))
    results = [t.native(f, x) for t in TRUTH.values()]
    results += [f.zeta(x, n), f.orthogonal("legendre", x, n), *f.frexp(x)]
    results += [f.lcm(f.cast(x, "i64"), f.cast(n, "i64")), f.gcd(f.cast(x, "i8"), f.cast(n, "i8"))]
    for number, y in enumerate(results):
        f.store(y, f.arg(2), 8 * number)
    assert len(jit.emit_object(f.text(), target)) > 10_000


# --------------------------------------------------------------------------------------- whole plans

EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 8.0, 100.0, 700.0, 720.0, 1e-37, math.inf, -math.inf, math.nan)
WHOLE = (0, 1, -1, 2, 6, -12, 30, 63, 97)
UNARY = """
    erfinv special.ndtri special.i0 special.i0e special.i1 special.i1e special.bessel_j0 special.bessel_j1 special.bessel_y0
    special.bessel_y1 special.modified_bessel_k0 special.modified_bessel_k1 special.scaled_modified_bessel_k0
    special.scaled_modified_bessel_k1 special.spherical_bessel_j0
""".split()
POLYNOMIALS = """
    chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h
    hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t
    shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w
""".split()


@pytest.fixture
def hosts(monkeypatch):
    """The operations that plans give to NumPy."""
    found: list[str] = []
    start = fuse.Fuser._start

    def watched(self, node, kind, *args, **kwargs):
        if kind == "host":
            found.append(type(node.op).__name__)
        return start(self, node, kind, *args, **kwargs)

    monkeypatch.setattr(fuse.Fuser, "_start", watched)
    return found


def named(library: Any, name: str) -> Callable:
    return functools.reduce(getattr, name.split("."), library)


def compare(function: Callable, arrays: list[np.ndarray], rtol: float = 0, atol: float = 0, threads: int = 2) -> None:
    """`function(library, *tensors)` compiled against PyTorch, which computes in float64."""
    found = weft.compile(lambda *xs: function(weft, *xs), threads=threads)(*map(weft.from_numpy, arrays))
    wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays]
    expected = function(torch, *map(torch.from_numpy, wide))
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for y, truth in pairs:
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(y.numpy(), truth.numpy().astype(y.numpy().dtype), rtol=rtol, atol=atol)


def drawn(dtype: Any, count: int, low: float = -3, high: float = 12) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.concatenate([EDGES, rng.uniform(low, high, count), rng.uniform(0, 1, count)]).astype(dtype)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name, threads, hosts):
    loose = (
        3e-6 if name[-2:] in ("j0", "j1", "y0", "y1") and "bessel" in name else 0
    )  # PyTorch's are that far off above 5
    single, double = (6e-7, max(1e-7, loose)), (1e-12, max(1e-14, loose))
    function = lambda m, x: named(m, name)(x)
    compare(function, [drawn(np.float32, 30_000)], *single, threads)
    compare(function, [drawn(np.float64, 30_000)], *double, threads)
    compare(lambda m, x: named(m, name)(x[::2].T), [drawn(np.float32, 300)[:600].reshape(30, 20)], *single)
    found = weft.compile(lambda x: named(weft, name)(x))(weft.arange(9))
    np.testing.assert_allclose(found.numpy(), named(weft, name)(weft.arange(9.0)).numpy(), rtol=1e-6, atol=1e-7)
    assert not hosts


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_polygamma(n, hosts):
    x = np.concatenate([np.random.default_rng(2).uniform(-5, 30, 5000), [math.nan, 0.0, 1e-3, 1e9]])
    for dtype, rtol in ((np.float32, 3e-7), (np.float64, 1e-9)):  # PyTorch's reflection rounds πx
        compare(lambda m, x: m.polygamma(n, x), [np.where(np.abs(x - np.round(x)) < 0.1, 1.5, x).astype(dtype)], rtol)
    assert not hosts


@pytest.mark.parametrize("n", [40, 100, 101, 171])
def test_polygamma_of_high_order(n, hosts):
    x = weft.tensor([0.5, 1.0, 3.3, 20.0, 200.0, -0.7, -3.2], dtype=weft.float64)
    found = weft.compile(lambda x: weft.polygamma(n, x))(x)
    np.testing.assert_allclose(found.numpy(), weft.polygamma(n, x).numpy(), rtol=1e-12)
    assert not hosts


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name, hosts):
    rng = np.random.default_rng(3)
    x, n = rng.uniform(-1.2, 1.2, (40, 60)), rng.integers(-2, 20, (40, 60))
    for dtype, tolerance in ((np.float32, 3e-7), (np.float64, 1e-11)):
        arrays = [x.astype(dtype), n.astype(dtype)]
        size = float(np.abs(named(torch.special, name)(*map(torch.from_numpy, arrays)).numpy()).max())
        compare(lambda m, x, n: named(m.special, name)(x, n), arrays, tolerance, tolerance * 1e-3 * max(size, 1))
    assert not hosts


def test_zeta(hosts):
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.uniform(1.01, 12, 3000), [1, 0.5, 2, 2, 3, 3, 2.5, math.nan, 2, math.inf, 2]])
    q = np.concatenate([np.exp(rng.uniform(-4, 12, 3000)), [2, 2, 0, -1, -2.5, -20.3, -1.5, 2, math.nan, 2, 1e30]])
    compare(lambda m, x, q: m.special.zeta(x, q), [x, q], 1e-12)
    compare(lambda m, x, q: m.special.zeta(x, q), [x.astype(np.float32), q.astype(np.float32)], 3e-7, 1e-37)
    assert not hosts


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8])
def test_divisors(dtype, hosts):
    rng, info = np.random.default_rng(5), np.iinfo(dtype)
    x, y = rng.integers(info.min + 1, info.max, (2, 3000), dtype)
    a, b = np.meshgrid([v for v in WHOLE if v >= info.min], [v for v in WHOLE if v >= info.min])
    arrays = [np.concatenate([x, a.ravel()]).astype(dtype), np.concatenate([y, b.ravel()]).astype(dtype)]
    compare(lambda m, a, b: m.gcd(a, b), arrays)
    expected = np.lcm(*arrays)  # PyTorch's wraps around in another way
    found = weft.compile(lambda a, b: weft.lcm(a, b))(*map(weft.from_numpy, arrays))
    np.testing.assert_array_equal(found.numpy(), expected)
    assert not hosts


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mantissa_and_exponent(dtype, hosts):
    info = np.finfo(dtype)
    edges = (*EDGES, info.max, info.tiny, info.smallest_subnormal, -3 * info.smallest_subnormal)
    x = np.concatenate([edges, np.random.default_rng(6).normal(0, 1e3, 500)]).astype(dtype)
    compare(lambda m, x: tuple(m.frexp(x)), [x])
    assert not hosts


@pytest.mark.parametrize("threads", [1, 2])
def test_slopes_of_gamma_variates(threads, hosts):
    """All three formulas, in neighbouring lanes and apart."""
    rng = np.random.default_rng(7)
    alpha = np.concatenate([np.exp(rng.uniform(-8, 9, 3000)), rng.uniform(0.1, 20, 500), rng.uniform(40, 50, 500)])
    log_z = np.log(rng.gamma(alpha + 1)) + np.log(rng.uniform(size=alpha.size)) / alpha
    for dtype, rtol in ((np.float32, 3e-7), (np.float64, 2e-12)):
        a, b = alpha.astype(dtype), log_z.astype(dtype)
        found = weft.compile(lambda a, b: LOG_GAMMA_SLOPE(a, b), threads=threads)(
            weft.from_numpy(a), weft.from_numpy(b)
        )
        np.testing.assert_allclose(found.numpy(), log_gamma_slope(a, b), rtol=rtol)
    assert not hosts


def test_gradients(hosts):
    """The functions that they need have native code as well."""

    def slopes(x):
        y = x.digamma() + weft.polygamma(1, x) + x.erfinv() + weft.special.ndtri(x) + weft.special.i1e(x)
        y = y + weft.special.bessel_y1(x) + weft.special.modified_bessel_k1(x) + x.i0() + weft.lgamma(x)
        return weft.autograd.grad(y.sum(), x)[0]

    x = weft.tensor(np.linspace(0.1, 0.9, 50), requires_grad=True)
    np.testing.assert_allclose(weft.compile(slopes)(x).numpy(), slopes(x).numpy(), rtol=1e-12)
    assert not hosts
