"""Every mathematical function of the builder against mpmath over all finite numbers of its type, denormal ones too."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import special

import weft
from weft.kernels.llvm import jit

from .builder import Case, run
from .math_truth import TRUTHS, Truth

KINDS = {"f32": (np.float32, np.uint32), "f64": (np.float64, np.uint64)}
FEW, MANY, MANY_COSTLY = 100, 100_000, 2_000


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    with mp.workprec(160):
        yield


def numbers(kind: str, count: int) -> np.ndarray:
    """The ends of the type, any bits at all, denormal numbers, and uniform draws where most functions live."""
    (dtype, bits), rng, info = KINDS[kind], np.random.default_rng(count), np.finfo(KINDS[kind][0])
    ends = [0.5, 1, 1.5, 2, 8, 1e6, 1e14, info.max / 2, info.max, info.tiny, info.smallest_subnormal]
    ends += [16367173 * 2.0**72, 6381956970095103 * 2.0**797]  # next to multiples of π/2
    ends = [x for x in ends if x <= float(info.max)]
    any_bits = rng.integers(0, np.iinfo(bits).max, count // 4, bits, endpoint=True).view(dtype)
    denormal = rng.integers(1, 1 << info.nmant, count // 20, bits).view(dtype)
    draws = [rng.uniform(-bound, bound, count // 5) for bound in (1, 20)]
    log = np.exp(rng.uniform(-20, 7, count // 4)) * rng.choice([-1, 1], count // 4)
    parts = [ends, np.negative(ends), any_bits, denormal, -denormal, *draws, log]
    x = np.concatenate([np.asarray(part, dtype) for part in parts])
    return x[np.isfinite(x)]


def check(t: Truth, kind: str, count: int, target: str = "host") -> None:
    dtype, _ = KINDS[kind]
    info, x = np.finfo(dtype), numbers(kind, count)
    (found,) = run([Case(t.native, [x], dtype)], jit.Target.named(target))
    wrong = {}
    for given, y in zip(x.tolist(), found.tolist(), strict=True):
        truth = t.truth(mp.mpf(given))
        error = off(y, truth, t.size(given), info)
        if not error <= getattr(t, kind):
            wrong[given] = (y, mp.nstr(truth, 20), error)
    assert not wrong, f"{len(wrong)} of {len(x)}: {list(wrong.items())[:5]}"


def off(y: float, truth, size: float, info: np.finfo) -> float:
    """|y − truth| in units in the last place of the truth, or of a larger size."""
    if mp.isnan(truth):
        return 0.0 if math.isnan(y) else math.inf
    if abs(truth) > info.max and math.isinf(y):
        return 0.0 if (y > 0) == (truth > 0) else math.inf
    if not math.isfinite(y) or mp.isinf(truth):
        return math.inf
    near = min(max(abs(float(truth)), size, float(info.tiny)), float(info.max) / 2)
    return float(abs(mp.mpf(y) - truth) / float(np.spacing(info.dtype.type(near))))


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_over_the_whole_domain(name, kind):
    check(TRUTHS[name], kind, FEW // 3 if TRUTHS[name].costly else FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_at_many_points(name, kind):
    check(TRUTHS[name], kind, MANY_COSTLY if TRUTHS[name].costly else MANY)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"] if jit.Target.host().arch == "x86_64" else [])
def test_angles_on_older_processors(name, kind, target):
    check(TRUTHS[name], kind, 400, target)


ODD = "expm1 log1p tanh sinh asinh atanh asin atan sin tan erf erfinv i1 i1e j1".split()
AT_LIMITS = {  # where NumPy and SciPy have no such function, or another name for it
    "sigmoid": special.expit,
    "sin_pi": lambda x: np.where(np.isfinite(x), x * 0, np.nan),
    "cos_pi": lambda x: np.where(np.isfinite(x), 1.0, np.nan),
    "sinc": lambda x: np.where(np.isinf(x), np.nan, np.sinc(x)),  # sin(∞) is NaN; PyTorch and NumPy say so, too
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "lgamma": lambda x: np.where(np.isinf(x), np.inf, special.gammaln(x)),  # C and PyTorch: ∞ at −∞
    "polygamma(1)": lambda x: special.polygamma(1, x),
    "polygamma(2)": lambda x: special.polygamma(2, x),
    "polygamma(5)": lambda x: special.polygamma(5, x),
    "spherical_bessel_j0": lambda x: special.spherical_jn(0, x),
    "airy_ai": lambda x: special.airy(x)[0],
    **{name: getattr(np, "arc" + name[1:]) for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
}


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_zeros_infinities_and_nan(name, kind):
    """As in NumPy and SciPy; odd functions keep the sign of 0."""
    dtype, _ = KINDS[kind]
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype)
    (found,) = run([Case(TRUTHS[name].native, [x], dtype)], jit.Target.named("host"))
    truth = AT_LIMITS.get(name) or getattr(np, name, None) or getattr(special, name)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, truth(x.astype(np.float64)).astype(dtype), rtol=1e-15)
    if name in ODD:
        np.testing.assert_array_equal(np.signbit(found[:2]), [False, True])


# ---------------------------------------------------------------- tensors

HUGE = (1e7, -3.3e12, 1e22, 2.0**60, 1e38)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
def test_large_angles_of_large_and_small_tensors(name, dtype):
    """Eagerly by NumPy and by a plan, compiled, and where one number is used by all elements."""
    x = weft.tensor([HUGE[i % len(HUGE)] if i % 3 else 0.5 for i in range(90_000)], dtype=dtype)
    function = getattr(weft, name)
    with mp.workprec(1400):
        known = {v: float(getattr(mp, name)(mp.mpf(v))) for v in set(x.tolist())}
    truth = np.array([known[v] for v in x.tolist()])
    close = {"rtol": 3e-7 if dtype == weft.float32 else 5e-16, "atol": 0}
    np.testing.assert_allclose(function(x).numpy(), truth, **close)
    np.testing.assert_allclose(function(x[:60]).numpy(), truth[:60], **close)
    np.testing.assert_allclose(weft.compile(function)(x).numpy(), truth, **close)
    uniform = weft.compile(lambda x, y: x * 0 + function(y))(x, x[1])
    np.testing.assert_allclose(uniform.numpy(), truth[1], **close)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["mul", "sqrt", "exp", "sum", "sin", "div"])
def test_denormal_numbers_are_kept_everywhere(name, dtype):
    """Small and large tensors, eager and compiled, on one thread and two, as in NumPy."""
    info = np.finfo(dtype)
    tiny = np.linspace(info.smallest_subnormal, info.tiny / 2, 70_000).astype(dtype)
    function, truth = {
        "mul": (lambda x: x * 0.5, tiny * dtype(0.5)),
        "sqrt": (lambda x: x.sqrt(), np.sqrt(tiny)),
        "exp": (lambda x: (x * 0 + np.log(info.tiny) - 2).exp() / info.tiny, np.full_like(tiny, math.exp(-2))),
        "sum": (lambda x: x.reshape(700, 100).sum(1), tiny.reshape(700, 100).sum(1)),
        "sin": (lambda x: x.sin(), tiny),
        "div": (lambda x: x / info.tiny, tiny / info.tiny),
    }[name]
    x = weft.from_numpy(tiny)
    near = {"rtol": 1e-3 if name == "exp" else 1e-5, "atol": float(info.smallest_subnormal)}
    np.testing.assert_allclose(function(x).numpy(), truth, **near)
    for threads in (1, 2):
        np.testing.assert_allclose(weft.compile(function, threads=threads)(x).numpy(), truth, **near)
    if name != "sum":
        np.testing.assert_allclose(function(x[:50]).numpy(), truth[:50], **near)
