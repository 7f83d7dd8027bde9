"""The builder's mathematical functions against wider arithmetic, over all magnitudes and at special values."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import scipy.special as sp

from weft.kernels.llvm import jit
from weft.kernels.llvm.builder import Function

from .builder import Case, run, ulps

PI = np.longdouble("3.14159265358979323846264338327950288")
EULER = np.longdouble("0.57721566490153286060651209008240243")
KINDS = {"f32": np.float32, "f64": np.float64}
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, math.inf, -math.inf, math.nan)
WIDE = np.finfo(np.longdouble).nmant > 52
RUNS_HERE = ["x86-64-v2", "x86-64-v3"] if jit.Target.host().arch == "x86_64" else []


def each(function):
    """A function of Python floats on arrays."""
    return lambda x: np.array([function(v) for v in np.asarray(x, np.float64).tolist()])


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def lgamma(x):
    """Stirling's series from |x| + 30 on and the recurrence down; Taylor's at 1; log Γ(−x) from the reflection."""
    wide, size = x.dtype.type, np.abs(x)
    y, product = size, wide(0)
    for _ in range(30):
        product, y = product + np.log(y), y + 1
    w = 1 / (y * y)
    series = (1 / wide(12) - w * (1 / wide(360) - w * (1 / wide(1260) - w * (1 / 1680 - w / 1188)))) / y
    right = (y - wide(0.5)) * np.log(y) - y + np.log(2 * wide(PI)) / 2 + series - product
    for zero in (1, 2):
        t = np.clip(x - zero, -0.25, 0.25)
        taylor = -wide(EULER) * t + sum(wide(sp.zeta(k)) / k * (-t) ** k for k in range(2, 40))
        right = np.where(np.abs(x - zero) < 0.25, taylor + (np.log1p(t) if zero == 2 else 0), right)
    turn = (size - np.round(size)) * wide(PI)
    left = np.log(wide(PI) / np.abs(np.sin(turn))) - np.log(size) - right
    whole = np.isinf(x) | ((x <= 0) & (x == np.floor(x)))
    return np.where(whole, np.inf, np.where(x > 0, right, left))


def erfcx(x):
    """exp(x²) erfc x: a series of positive terms for erf, or from x = 2 on the continued fraction, by wide numbers."""
    x = np.asarray(x)
    small, large = np.minimum(np.abs(x), 2), np.maximum(np.abs(x), 2)
    term = total = small * (2 / np.sqrt(x.dtype.type(PI)))
    for n in range(1, 60):
        term = term * (2 * small * small / (2 * n + 1))
        total = total + term
    fraction = large
    for n in range(150, 0, -1):
        fraction = large + n / 2 / fraction
    y = np.where(np.abs(x) < 2, np.exp(small * small) - total, 1 / np.sqrt(x.dtype.type(PI)) / fraction)
    return np.where(x < 0, 2 * gauss(np.maximum(x, -100), 1) - y, y)


def gauss(x, sign):
    """exp(±x²), the square taken exactly."""
    rough = x.astype(np.float32).astype(x.dtype)
    return np.exp(sign * rough * rough) * np.exp(sign * (x - rough) * (x + rough))


def erfc(x):
    tail = np.where(np.abs(x) > 40, 0, gauss(np.clip(x, -40, 40), -1) * erfcx(np.abs(x)))
    return np.where(x < 0, 2 - tail, tail)


def ndtr(x):
    return erfc(-x * np.sqrt(x.dtype.type(0.5))) / 2


def log_ndtr(x):
    z = x * np.sqrt(x.dtype.type(0.5))
    return np.where(x < -1, np.log(erfcx(-np.minimum(z, 0)) / 2) - z * z, np.log1p(-erfc(z) / 2))


def digamma(x):
    """The asymptotic series from |x| + 30 on, and the recurrence down; ψ(−x) = ψ(x) + 1/x + π / tan πx."""
    y, total = np.abs(x), 0
    for _ in range(30):
        total, y = total + 1 / y, y + 1
    w = 1 / (y * y)
    series = w * (1 / 12 - w * (1 / 120 - w * (1 / 252 - w * (1 / 240 - w * (1 / 132 - w * 691 / 32760)))))
    right = np.log(y) - 1 / (2 * y) - series - total
    turn = (np.abs(x) - np.round(np.abs(x))) * x.dtype.type(PI)
    left = right + 1 / np.abs(x) + x.dtype.type(PI) / np.tan(turn)
    left = np.where((turn == 0) & (x < 0), np.nan, left)
    return np.where(x == 0, -np.copysign(np.inf, x), np.where(x > 0, right, left))


# name: (the truth in wider arithmetic, the ranges to draw from, the error allowed in f64 where it is not 2 ulp)
TRUTH = {
    "exp": (np.exp, [(-104, 89), (-746, 710), (-1, 1)], 2),
    "exp2": (np.exp2, [(-150, 128), (-1075, 1024), (-1, 1)], 2),
    "expm1": (np.expm1, [(-50, 90), (-1, 1), (-1e-3, 1e-3)], 2),
    "log": (np.log, [(0, 4), (0, 1e-3)], 2),
    "log2": (np.log2, [(0, 4), (0, 1e-3)], 2),
    "log10": (np.log10, [(0, 4), (0, 1e-3)], 2),
    "log1p": (np.log1p, [(-1, 4), (-1e-3, 1e-3)], 2),
    "sigmoid": (sigmoid, [(-110, 20), (-750, 40), (-3, 3)], 2),
    "tanh": (np.tanh, [(-20, 20), (-1, 1)], 2),
    "sinh": (np.sinh, [(-90, 90), (-2, 2)], 2),
    "cosh": (np.cosh, [(-90, 90), (-2, 2)], 2),
    "asinh": (np.arcsinh, [(-90, 90), (-1, 1)], 2),
    "acosh": (np.arccosh, [(1, 90), (1, 1.1)], 2),
    "atanh": (np.arctanh, [(-1, 1)], 2),
    "asin": (np.arcsin, [(-1, 1)], 2),
    "acos": (np.arccos, [(-1, 1)], 2),
    "atan": (np.arctan, [(-9, 9), (-1, 1)], 2),
    "sqrt": (np.sqrt, [(0, 9)], 0.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), [(0, 9)], 2),
    "reciprocal": (np.reciprocal, [(-9, 9)], 0.5),
    "erf": (each(math.erf), [(-6, 6), (-1, 1)], 3),
    "erfc": (erfc, [(-6, 6), (0, 27)], 2),
    "ndtr": (ndtr, [(-38, 8), (-3, 3)], 3.5),
    "erfcx": (erfcx, [(-26, 6), (-3, 40)], 3),
    "log_ndtr": (log_ndtr, [(-40, 6)], 4),
    "lgamma": (lgamma, [(0, 40), (0, 3), (0.99, 1.01)], 5),
    "digamma": (digamma, [(0, 40), (0.01, 3)], 5),
    "floor": (np.floor, [(-9, 9)], 0),
    "ceil": (np.ceil, [(-9, 9)], 0),
    "trunc": (np.trunc, [(-9, 9)], 0),
    "round_even": (np.round, [(-9, 9)], 0),
    "abs": (np.abs, [(-9, 9)], 0),
    "sign": (np.sign, [(-9, 9)], 0),
}
WAVES = {"sin": np.sin, "cos": np.cos, "tan": np.tan}
GAMMA = ("lgamma", "digamma")  # near their zeros left of 0 only the absolute error is small
PAIRS = {
    "pow": (np.power, 2),
    "atan2": (np.arctan2, 2),
    "hypot": (np.hypot, 2),
    "copysign": (np.copysign, 0),
    "maximum": (np.maximum, 0),
    "minimum": (np.minimum, 0),
    "fmax": (np.fmax, 0),
    "fmin": (np.fmin, 0),
}
EXACT_PAIRS = {
    "fmod": np.fmod,
    "remainder": np.remainder,
    "nextafter": np.nextafter,
    "floor_divide": lambda x, y: np.where(y == 0, x / y, np.floor_divide(x, y)),
}


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def points(kind: str, ranges, every: int = 40_009) -> np.ndarray:
    """Special values, numbers of all magnitudes (denormal ones too) and uniform draws from some ranges."""
    dtype, rng = KINDS[kind], np.random.default_rng(0)
    if kind == "f32":
        bits = np.arange(0, 2**32, every * 4, dtype=np.uint32)
    else:
        bits = rng.integers(0, 2**64, 2**32 // every // 16, dtype=np.uint64)
    info = np.finfo(dtype)
    limits = (info.max, info.min, info.tiny, -info.tiny, info.smallest_subnormal, -info.smallest_subnormal)
    edges = [np.nextafter(dtype(v), dtype(9)) for v in (-1, 1, -0.5, 0.5, 2)]
    parts = [SPECIAL, limits, edges, *(rng.uniform(*r, 4000) for r in ranges)]
    return np.concatenate([*(np.asarray(p, dtype) for p in parts), bits.view(dtype)])


def truth_of(function, *arrays: np.ndarray) -> np.ndarray:
    """In float64 for float32, else in the widest type there is."""
    wide = np.float64 if arrays[0].dtype == np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        return function(*(a.astype(wide) for a in arrays))


def apply(name: str, *_: object):
    return lambda f, *values: getattr(f, name)(*values)


@functools.cache
def computed(kind: str, target: str = "host", lanes: int | None = None, every: int = 40_009) -> dict:
    """(inputs, results) of every function of one variable, from one kernel."""
    names = [*TRUTH, *WAVES]
    inputs = [points(kind, TRUTH[n][1], every) if n in TRUTH else angles(kind, every) for n in names]
    cases = [Case(apply(n), [x], KINDS[kind]) for n, x in zip(names, inputs, strict=True)]
    found = run(cases, jit.Target.named(target), lanes)
    return {n: (x, y) for n, x, y in zip(names, inputs, found, strict=True)}


def angles(kind: str, every: int) -> np.ndarray:
    """All magnitudes, many numbers near multiples of π/2, and those on both sides of where the reduction changes."""
    x = points(kind, [(-9, 9), (-1e4, 1e4), (-1e7, 1e7), (-1e15, 1e15)], every)
    turns = np.random.default_rng(1).integers(-60_000, 60_000, 4000) * (math.pi / 2)
    dtype = KINDS[kind]
    edges = [np.nextafter(dtype(bound), dtype(way)) for bound in (1e5, 1e6, 1e14) for way in (0, 1e15)]
    return np.concatenate([x, turns.astype(dtype), np.array(edges, dtype)])


def check(name: str, kind: str, x: np.ndarray, y: np.ndarray, slack: float = 1.0) -> None:
    function, _, allowed = TRUTH.get(name) or (WAVES[name], (), 2)
    limit = (min(allowed, 2) if kind == "f32" else allowed) * slack
    truth = truth_of(function, x)
    error = ulps(y, truth)
    if name in GAMMA:
        with np.errstate(invalid="ignore"):
            small = np.where(x < 0, 1e-12 * np.maximum(np.abs(x), 1), 1e-18)  # 1e-18: the truth's own error
            error = np.where(np.abs(y - truth) < small, 0, error)
    worst = int(np.argmax(error))
    assert error[worst] <= limit, f"{name}({x[worst]!r}) = {y[worst]!r}, not {truth[worst]!r}: {error[worst]} ulp"
    zero = (y == 0) & (truth == 0) & (x == 0)
    assert (np.signbit(y) == np.signbit(truth))[zero].all(), f"{name}: the sign of zero"


@pytest.mark.skipif(not WIDE, reason="needs a type wider than float64")
@pytest.mark.parametrize("name", [*TRUTH, *WAVES])
@pytest.mark.parametrize("kind", KINDS)
def test_within_two_ulp(name, kind):
    check(name, kind, *computed(kind)[name])


@pytest.mark.skipif(not WIDE, reason="needs a type wider than float64")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", RUNS_HERE)
def test_on_older_processors(target, kind):
    for name, (x, y) in computed(kind, target, every=900_001).items():
        check(name, kind, x, y, slack=1.0 if jit.Target.named(target).fma else 1.5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lanes", [1, 3, 32])
def test_any_number_of_lanes_gives_the_same_bits(lanes, kind):
    whole, other = computed(kind, every=900_001), computed(kind, lanes=lanes, every=900_001)
    for name in whole:
        np.testing.assert_array_equal(other[name][1], whole[name][1], err_msg=name)


def test_arm_code_is_generated():
    target = jit.Target.named("aarch64")
    for kind in KINDS:
        f = Function("kernel", target)
        x = f.load(f.arg(0), 0, kind, target.lanes(KINDS[kind]))
        for number, function in enumerate([*TRUTH, *WAVES]):
            f.store(getattr(f, function)(x), f.arg(1), 8 * number)
        assert len(jit.emit_object(f.text(), target)) > 10_000


def pair_points(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of special values, then draws in which powers and quotients stay in range."""
    dtype, rng, n = KINDS[kind], np.random.default_rng(2), 4000
    info = np.finfo(dtype)
    edges = (*SPECIAL, info.max, info.min, info.tiny, info.smallest_subnormal, 1e10, 7, -7, 1 + info.eps, 2.0**24 + 1)
    a, b = (m.ravel() for m in np.meshgrid(edges, edges))
    x = [a, np.exp(rng.uniform(-5, 5, n)), np.exp(rng.normal(0, 1e-3, n)), rng.uniform(-4, 4, n), rng.normal(0, 1e6, n)]
    y = [b, rng.uniform(-20, 20, n), rng.uniform(-1e5, 1e5, n), rng.integers(-40, 40, n), rng.normal(0, 1, n)]
    return np.concatenate(x).astype(dtype), np.concatenate(y).astype(dtype)


@functools.cache
def computed_pairs(kind: str) -> dict:
    x, y = pair_points(kind)
    names = [*PAIRS, *EXACT_PAIRS]
    return dict(zip(names, run([Case(apply(n), [x, y], KINDS[kind]) for n in names]), strict=True))


@pytest.mark.skipif(not WIDE, reason="needs a type wider than float64")
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_two_numbers(name, kind):
    function, limit = PAIRS[name]
    x, y = pair_points(kind)
    found, truth = computed_pairs(kind)[name], truth_of(function, x, y)
    error = ulps(found, truth)
    worst = int(np.argmax(error))
    assert error[worst] <= limit, f"{name}({x[worst]!r}, {y[worst]!r}) = {found[worst]!r}, not {truth[worst]!r}"
    if name in ("pow", "atan2", "copysign"):
        zero = (found == 0) & (error < 1)
        np.testing.assert_array_equal(np.signbit(found)[zero], np.signbit(truth)[zero])


@pytest.mark.parametrize("name", EXACT_PAIRS)
@pytest.mark.parametrize("kind", KINDS)
def test_exact_functions_of_two_numbers(name, kind):
    x, y = pair_points(kind)
    with np.errstate(all="ignore"):
        truth = EXACT_PAIRS[name](x, y)
    found = computed_pairs(kind)[name]
    np.testing.assert_array_equal(found, truth)
    zero = (found == 0) & (name != "floor_divide")
    np.testing.assert_array_equal(np.signbit(found)[zero], np.signbit(truth)[zero])


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, 0.5, -0.5, -1.0, -2.0, 4.0, 2.5])
def test_powers_with_a_constant_exponent(exponent):
    for kind, dtype in KINDS.items():
        x = points(kind, [(0, 9), (-9, 9)], every=900_001)
        (found,) = run([Case(lambda f, x: f.pow(x, exponent), [x], dtype)])
        roots = {0.5: np.sqrt, -0.5: lambda v: 1 / np.sqrt(v)}
        truth = truth_of(roots.get(exponent) or (lambda v: np.power(v, v.dtype.type(exponent))), x)
        assert ulps(found, truth).max() <= 2


def test_constants_are_recognised():
    f = Function("kernel", jit.Target.host())
    x = f.load(f.arg(0), 0, "f32", 8)
    before = len(f.lines)
    f.pow(x, f.const("f32", 2.0))
    assert len(f.lines) == before + 1  # one product
    f.maximum(x, 0.0)
    assert len(f.lines) == before + 3  # a comparison and a selection, which are one instruction
