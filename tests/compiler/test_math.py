"""The builder's mathematical functions against wider arithmetic, over all magnitudes and at special values."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import scipy.special as sp

from weft.compiler import jit
from weft.compiler.llvm import Function

from .builder import Case, run, ulps

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


def lgamma(v):
    return math.inf if v == -math.inf or (v <= 0 and v == math.floor(v)) else math.lgamma(v)


def scipy(function):
    """A function of SciPy, which knows no wider type."""
    return lambda x: function(x.astype(np.float64))


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
    "erfc": (each(math.erfc), [(-6, 6), (0, 27)], 3),
    "ndtr": (scipy(sp.ndtr), [(-8, 8)], 6),
    "erfcx": (scipy(sp.erfcx), [(-6, 6), (0, 40)], 6),
    "log_ndtr": (scipy(sp.log_ndtr), [(-40, 6)], 8),
    "lgamma": (each(lgamma), [(0, 40), (0, 3)], 6),
    "digamma": (scipy(sp.psi), [(0, 40), (0.01, 3)], 8),
    "floor": (np.floor, [(-9, 9)], 0),
    "ceil": (np.ceil, [(-9, 9)], 0),
    "trunc": (np.trunc, [(-9, 9)], 0),
    "round_even": (np.round, [(-9, 9)], 0),
    "abs": (np.abs, [(-9, 9)], 0),
    "sign": (np.sign, [(-9, 9)], 0),
}
WAVES = {"sin": np.sin, "cos": np.cos, "tan": np.tan}
NEGATIVE_LINE = ("lgamma", "digamma")  # near their zeros left of 0 only the absolute error is small
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
    inputs = [points(kind, TRUTH[n][1], every) if n in TRUTH else angles(kind, target, every) for n in names]
    cases = [Case(apply(n), [x], KINDS[kind]) for n, x in zip(names, inputs, strict=True)]
    found = run(cases, jit.Target.named(target), lanes)
    return {n: (x, y) for n, x, y in zip(names, inputs, found, strict=True)}


def angles(kind: str, target: str, every: int) -> np.ndarray:
    """All magnitudes up to the bound that the functions promise, and many numbers near multiples of π/2."""
    fused = jit.Target.named(target).fma
    bound = {"f32": 1e6 if fused else 1e5, "f64": 1e14 if fused else 1e6}[kind]
    x = points(kind, [(-9, 9), (-1e4, 1e4), (-bound, bound)], every)
    turns = np.random.default_rng(1).integers(-60_000, 60_000, 4000) * (math.pi / 2)
    return np.concatenate([np.where(np.abs(x) <= bound, x, np.nan), turns]).astype(KINDS[kind])


def check(name: str, kind: str, x: np.ndarray, y: np.ndarray, slack: float = 1.0) -> None:
    function, _, allowed = TRUTH.get(name) or (WAVES[name], (), 2)
    limit = (min(allowed, 2) if kind == "f32" else allowed) * slack
    truth = truth_of(function, x)
    error = ulps(y, truth)
    if name in NEGATIVE_LINE:
        with np.errstate(invalid="ignore"):
            error = np.where((x < 0) & (np.abs(y - truth) < 1e-12 * np.maximum(np.abs(x), 1)), 0, error)
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


@pytest.mark.parametrize("name", ["aarch64", "apple-m1"])
def test_arm_code_is_generated(name):
    target = jit.Target.named(name)
    for kind in KINDS:
        f = Function("kernel", target)
        x = f.load(f.arg(0), 0, kind, target.lanes(KINDS[kind]))
        for function in [*TRUTH, *WAVES]:
            f.store(getattr(f, function)(x), f.arg(1), 0)
        assert len(jit.emit_object(f.text(), target)) > 1000


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
        zero = (found == 0) & (truth.astype(found.dtype) == 0)
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
        truth = truth_of(lambda v: np.power(v, v.dtype.type(exponent)), x)
        assert ulps(found, truth).max() <= 2


def test_constants_are_recognised():
    f = Function("kernel", jit.Target.host())
    x = f.load(f.arg(0), 0, "f32", 8)
    before = len(f.lines)
    f.pow(x, f.const("f32", 2.0))
    assert len(f.lines) == before + 1  # one product
    f.maximum(x, 0.0)
    assert len(f.lines) == before + 3  # a comparison and a selection, which are one instruction
