"""Random streams: Philox against Random123's vectors and an independent Philox, samplers against their laws."""

import copy
import doctest
import math
import pickle
import sys
import threading
import warnings

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import weft.random as random
from weft.random import Generator, rejection, samplers, stream, words

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float16), BFLOAT16, np.dtype(np.float32), np.dtype(np.float64)]
WORD = 2**64 - 1
SIGNIFICANT = 1e-3  # of fixed seeds: a test fails for a wrong law, not by chance


def generator(seed=0):
    return Generator().manual_seed(seed)


# ---- Philox ------------------------------------------------------------------------------------------------


def philox(counter, key):
    """Philox4x64-10 in Python integers, written from Salmon et al. 2011."""
    (a, b, c, d), (k, m) = counter, key
    for _ in range(10):
        left, right = 0xD2E7470EE14C6C93 * a, 0xCA5A826395121157 * c
        a, b, c, d = (right >> 64) ^ b ^ k, right & WORD, (left >> 64) ^ d ^ m, left & WORD
        k, m = (k + 0x9E3779B97F4A7C15) & WORD, (m + 0xBB67AE8584CAA73B) & WORD
    return [a, b, c, d]


def stream_word(key, index, lane=0, domain=0):
    block = index // 4
    return philox((block & WORD, block >> 64, lane, domain), key)[index % 4]


RANDOM123 = [  # counter, key, block: kat_vectors of Random123
    ((0,) * 4, (0,) * 2, (0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B)),
    (
        (WORD,) * 4,
        (WORD,) * 2,
        (0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0),
    ),
    (
        (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89),
        (0x452821E638D01377, 0xBE5466CF34E90C6C),
        (0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6),
    ),
]


@pytest.mark.parametrize("counter, key, block", RANDOM123)
def test_philox_matches_the_published_vectors(counter, key, block):
    assert tuple(philox(counter, key)) == block
    offset = 4 * (counter[0] + (counter[1] << 64))
    assert tuple(map(int, words(key, offset, 4, lane=counter[2], domain=counter[3]))) == block


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(st.integers(0, WORD), st.integers(0, WORD)),
    st.one_of(st.integers(0, 100), st.integers(2**66 - 9, 2**66 + 9), st.integers(0, 2**128)),
    st.integers(0, 13),
    st.integers(0, 5),
)
def test_words_are_a_pure_function_of_key_and_position(key, offset, count, lane):
    expected = [stream_word(key, offset + i, lane) for i in range(count)]
    assert list(map(int, words(key, offset, count, lane))) == expected


def test_a_seed_is_the_key_and_the_stream_begins_at_word_0():
    g = generator(42)
    assert (g.key, g.offset, g.initial_seed()) == ((42, 0), 0, 42)
    assert list(map(int, g.bits(6))) == [stream_word((42, 0), i) for i in range(6)]
    assert g.offset == 8  # whole blocks
    assert int(g.bits(1)[0]) == stream_word((42, 0), 8)


def test_numbers_are_those_the_docstring_promises():
    w = generator(7).bits(8)
    halves = [int(x) >> shift & 0xFFFFFFFF for x in w for shift in (0, 32)]
    assert generator(7).uniform(16).tolist() == [(h >> 8) * 2.0**-24 for h in halves]
    assert generator(7).uniform(8, np.float64).tolist() == [(int(x) >> 11) * 2.0**-53 for x in w]
    assert generator(7).integers(-50, 950, 8).tolist() == [-50 + (int(x) * 1000 >> 64) for x in w]
    assert generator(7).bernoulli(0.3, 16).tolist() == [float(h < round(0.3 * 2**32)) for h in halves]
    assert generator(7).permutation(8).tolist() == sorted(range(8), key=lambda i: int(w[i]) >> 3)
    open_unit = [(int(x) + 0.5) * 2.0**-64 for x in w]
    exponential = [-math.log(u) for u in open_unit]
    np.testing.assert_allclose(generator(7).exponential(8, np.float64), exponential, rtol=1e-13)
    trials = [math.ceil(math.log(u) / math.log(0.9)) for u in open_unit]
    assert generator(7).geometric(0.1, 8, np.int64).tolist() == trials
    turns = [((h ^ 1 << 31) - 2**31 + 0.5) * 2.0**-32 for h in halves]
    cauchy = [1 / math.tan(math.pi * turn) for turn in turns]
    np.testing.assert_allclose(generator(7).cauchy(16, np.float32), cauchy, rtol=3e-6, atol=1e-6)
    radius = [math.sqrt(-2 * math.log((h + 0.5) * 2.0**-32)) for h in halves]
    angle = [2 * math.pi * turn for turn in turns]
    normal = [f(angle[i + 1]) * radius[i] for i in range(0, 16, 2) for f in (math.cos, math.sin)]
    np.testing.assert_allclose(generator(7).normal(16), normal, atol=2e-6)


@settings(max_examples=150, deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63) + 1, 2**63), st.integers(0, WORD))
def test_integers_are_the_exact_product(low, high, seed):
    low, high = min(low, high - 1), max(low + 1, high)
    expected = [low + (stream_word((seed, 0), i) * (high - low) >> 64) for i in range(3)]
    assert generator(seed).integers(low, high, 3).tolist() == expected


def test_streams_never_change():
    """Numbers of this version; if they change, seeds in papers and checkpoints lose their meaning."""
    assert generator(1).uniform(3).tolist() == [0.8089863657951355, 0.7949013113975525, 0.07604730129241943]
    assert generator(1).permutation(8).tolist() == [7, 6, 3, 4, 1, 0, 5, 2]
    assert generator(1).fold_in(5).key == (1684733485347233302, 2169896565490798695)


# ---- every sampler -----------------------------------------------------------------------------------------

CONTINUOUS = {
    "uniform": (lambda g, n, dtype: g.uniform(n, dtype, -2.0, 3.0), stats.uniform(-2, 5)),
    "normal": (lambda g, n, dtype: g.normal(n, dtype, 1.0, 2.0), stats.norm(1, 2)),
    "log_normal": (lambda g, n, dtype: g.log_normal(n, dtype, 0.5, 0.7), stats.lognorm(0.7, scale=math.exp(0.5))),
    "exponential": (lambda g, n, dtype: g.exponential(n, dtype, 2.5), stats.expon(scale=0.4)),
    "cauchy": (lambda g, n, dtype: g.cauchy(n, dtype, -1.0, 0.5), stats.cauchy(-1, 0.5)),
    "gamma 0.2": (lambda g, n, dtype: g.gamma(np.full(n, 0.2), dtype), stats.gamma(0.2)),
    "gamma 0.9": (lambda g, n, dtype: g.gamma(np.full(n, 0.9), dtype), stats.gamma(0.9)),
    "gamma 1": (lambda g, n, dtype: g.gamma(np.full(n, 1.0), dtype), stats.gamma(1)),
    "gamma 30": (lambda g, n, dtype: g.gamma(np.full(n, 30.0), dtype), stats.gamma(30)),
}
DISCRETE = {
    "bernoulli": (lambda g, n: g.bernoulli(0.3, n), stats.bernoulli(0.3)),
    "geometric": (lambda g, n: g.geometric(0.2, n), stats.geom(0.2)),
    "geometric near 1": (lambda g, n: g.geometric(0.97, n, np.int64), stats.geom(0.97)),
    "integers": (lambda g, n: g.integers(-3, 8, n), stats.randint(-3, 8)),
    **{
        f"poisson {rate}": (lambda g, n, rate=rate: g.poisson(np.full(n, rate)), stats.poisson(rate))
        for rate in (0.05, 3.0, 9.99, 10.0, 12.5, 40.0, 700.0)
    },
    **{
        f"binomial {n}, {p}": (lambda g, m, n=n, p=p: g.binomial(np.full(m, float(n)), p), stats.binom(n, p))
        for n, p in ((1, 0.4), (7, 0.95), (25, 0.4), (40, 0.5), (60, 0.8), (1000, 0.003), (5000, 0.37))
    },
}
SAMPLERS = {
    **{name: (lambda g, n, f=f: f(g, n, np.float32)) for name, (f, _) in CONTINUOUS.items()},
    **{name + " 64": (lambda g, n, f=f: f(g, n, np.float64)) for name, (f, _) in CONTINUOUS.items()},
    **{name: f for name, (f, _) in DISCRETE.items()},
    "bits": lambda g, n: g.bits(n),
    "complex normal": lambda g, n: g.normal(n, np.complex64),
    "complex uniform": lambda g, n: g.uniform(n, np.complex128),
    "wide integers": lambda g, n: g.integers(-(2**63), 2**63, n),
    "random": lambda g, n: g.random(n),
    "multinomial": lambda g, n: g.multinomial(np.array([0.2, 0.0, 0.8]), n, True) if n else np.zeros(0),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_two_draws_are_the_slices_of_one(name):
    sampler, g = SAMPLERS[name], generator(11)
    parts = [sampler(g, n) for n in (8, 0, 24, 5)]  # multiples of 8 fill blocks in every dtype
    np.testing.assert_array_equal(np.concatenate(parts), sampler(generator(11), 37))


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_draw_does_not_depend_on_what_follows_it(name):
    np.testing.assert_array_equal(SAMPLERS[name](generator(3), 100)[:33], SAMPLERS[name](generator(3), 33))


REJECTION = {
    "gamma": (lambda g, a: g.gamma(a), np.geomspace(0.01, 1e4, 300)),
    "poisson": (lambda g, a: g.poisson(a), np.geomspace(0.1, 1e6, 300)),
    "binomial": (lambda g, a: g.binomial(a, 0.4), np.floor(np.geomspace(1, 1e6, 300))),
}


@pytest.mark.parametrize("name", REJECTION)
def test_rejection_of_an_element_does_not_touch_its_neighbours(name, monkeypatch):
    sample, parameter = REJECTION[name]
    g = generator(5)
    whole = sample(g, parameter)
    assert g.offset == 4 * 300  # a block an element, however many rounds it took
    for i in (0, 17, 150, 299):
        g.offset = 4 * i
        assert sample(g, parameter[i : i + 1])[0] == whole[i]
    changed = np.where(np.arange(300) == 100, parameter, parameter[::-1])
    assert sample(generator(5), changed)[100] == whole[100]
    monkeypatch.setattr(samplers, "REJECTION_CHUNK", 7)
    np.testing.assert_array_equal(sample(generator(5), parameter), whole)


@pytest.mark.parametrize("dtype", FLOATS[2:], ids=str)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_laws(name, dtype):
    sampler, law = CONTINUOUS[name]
    x = sampler(generator(2024), 100_000, dtype)
    assert x.dtype == dtype
    assert stats.kstest(x.astype(np.float64), law.cdf).pvalue > SIGNIFICANT


@pytest.mark.parametrize("dtype", FLOATS[:2], ids=str)
@pytest.mark.parametrize("name", ["uniform", "normal", "exponential", "cauchy", "log_normal"])
def test_half_precision_is_single_precision_rounded(name, dtype):
    sampler, _ = CONTINUOUS[name]
    half, single = sampler(generator(6), 5000, dtype), sampler(generator(6), 5000, np.float32)
    below = np.nextafter(dtype.type(3), dtype.type(0)) if name == "uniform" else np.inf
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(half, np.minimum(single.astype(dtype), below))


def chi_square(sample, law):
    """p-value of counts against a discrete law, over values of expected count at least 10."""
    n = len(sample)
    values = np.arange(int(law.ppf(1e-7)) - 1, int(law.ppf(1 - 1e-7)) + 2)
    expected = n * law.pmf(values)
    common = values[expected >= 10]
    observed = np.array([np.count_nonzero(sample == v) for v in common])
    expected = expected[expected >= 10]
    observed, expected = np.append(observed, n - observed.sum()), np.append(expected, n - expected.sum())
    if expected[-1] < 5:
        observed = np.append(observed[:-2], observed[-2:].sum())
        expected = np.append(expected[:-2], expected[-2:].sum())
    return stats.chisquare(observed, expected, sum_check=False).pvalue


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_laws(name):
    sampler, law = DISCRETE[name]
    assert chi_square(sampler(generator(99), 200_000), law) > SIGNIFICANT


@pytest.mark.parametrize(
    "sample, mean, variance",
    [
        (lambda g, n: g.poisson(np.full(n, 1e9)), 1e9, 1e9),
        (lambda g, n: g.poisson(np.full(n, 1e15)), 1e15, 1e15),
        (lambda g, n: g.binomial(np.full(n, 1e12), 0.7), 7e11, 2.1e11),
        (lambda g, n: g.binomial(np.full(n, 1e9), 2e-9), 2.0, 2.0),
        (lambda g, n: g.gamma(np.full(n, 1e12)), 1e12, 1e12),
        (lambda g, n: g.gamma(np.full(n, 1e-300)), np.finfo(np.float64).tiny, 0.0),
        (lambda g, n: g.geometric(np.full(n, 1e-6)), 1e6, 1e12),
        (lambda g, n: g.integers(-(2**63), 2**63, n), 0.0, 4.0**64 / 12),
        (lambda g, n: g.integers(0, 3 * 2**61, n), 1.5 * 2**61, (3 * 2.0**61) ** 2 / 12),
        (lambda g, n: g.uniform(n, BFLOAT16), 0.5, 1 / 12),
        (lambda g, n: g.uniform(n, np.float16), 0.5, 1 / 12),
        (lambda g, n: g.random(n), 2.0**23, 4.0**24 / 12),
        (lambda g, n: g.bernoulli(2.0**-12, n), 2.0**-12, 2.0**-12),
    ],
)
def test_moments_at_the_extremes(sample, mean, variance):
    n = 40000
    x = sample(generator(8), n).astype(np.float64) - mean
    assert abs(x.mean()) <= 4 * math.sqrt(variance / n)
    assert abs(x.var() - variance) <= 0.06 * variance + (0.4 * variance if variance < 1e-3 else 0)


@pytest.mark.parametrize("mean", [10.0, 17.5, 400.0, 1e6])
def test_log_probabilities_are_those_of_scipy(mean):
    k = np.arange(max(0, mean - 9 * math.sqrt(mean)), mean + 9 * math.sqrt(mean), 1 + mean // 100).round()
    poisson = -rejection._deviance(k, np.full(k.shape, mean)) - rejection._stirling_remainder(k)
    np.testing.assert_allclose(poisson, stats.poisson(mean).logpmf(k), atol=2e-8)
    n, p = np.full(k.shape, 10 * mean), np.full(k.shape, 0.1)
    binomial = rejection._binomial_log(k, n, p) + rejection._stirling_remainder(n)
    np.testing.assert_allclose(binomial, stats.binom(10 * mean, 0.1).logpmf(k), atol=2e-8)


def test_large_means_have_the_normal_limit():
    for x in (generator(4).poisson(np.full(20000, 1e10)), generator(5).gamma(np.full(20000, 1e10))):
        assert stats.kstest((x - 1e10) / 1e5, stats.norm.cdf).pvalue > SIGNIFICANT


def test_normal_tails_and_pairs():
    z = generator(12).normal(2_000_000)
    for limit in (3.0, 4.0):
        expected = len(z) * 2 * stats.norm.sf(limit)
        assert abs(np.count_nonzero(np.abs(z) > limit) - expected) < 4 * math.sqrt(expected)
    cosine, sine = z[::2], z[1::2]
    assert abs(np.corrcoef(cosine, sine)[0, 1]) < 5e-3
    assert abs(np.corrcoef(cosine**2, sine**2)[0, 1]) < 5e-3


def test_normal_takes_arrays():
    mean, std = np.arange(6.0).reshape(2, 3), np.array([0.0, 1.0, 2.0])
    z = generator(1).normal((2, 3))
    np.testing.assert_allclose(generator(1).normal((2, 3), np.float32, mean, std), mean + std * z, rtol=1e-6)


def test_complex_normal_has_the_variance_asked_for():
    z = generator(1).normal(100000, np.complex64, 1 + 2j, 3.0)
    assert z.mean() == pytest.approx(1 + 2j, abs=0.05)
    assert (z - 1 - 2j).real.var() == pytest.approx(4.5, rel=0.02)
    assert (z - 1 - 2j).imag.var() == pytest.approx(4.5, rel=0.02)


# ---- orders and choices ------------------------------------------------------------------------------------


def test_permutations_are_equally_likely():
    g, counts = generator(1), {}
    for _ in range(4800):
        order = tuple(g.permutation(4).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24 and stats.chisquare(list(counts.values())).pvalue > SIGNIFICANT


@pytest.mark.parametrize("n", [0, 1, 2, 3, 255, 256, 257, 5000])
def test_permutations_are_permutations(n):
    assert np.array_equal(np.sort(generator(3).permutation(n)), np.arange(n))
    if n <= 256:
        assert generator(3).permutation(n, np.uint8).dtype == np.uint8
    if n <= 257:
        assert np.array_equal(np.sort(generator(3).permutation(n, BFLOAT16).astype(int)), np.arange(n))


def test_multinomial_with_replacement_follows_the_weights():
    weights = np.array([[0.0, 1.0, 2.0, 0.0, 3.0, 0.0], [5.0, 0.0, 1.0, 1.0, 1.0, 0.0]], np.float32)
    drawn = generator(4).multinomial(weights, 20000, replacement=True)
    assert drawn.shape == (2, 20000) and drawn.dtype == np.int64
    for row, weight in zip(drawn, weights, strict=True):
        counts = np.bincount(row, minlength=6)
        assert not counts[weight == 0].any()
        positive = weight > 0
        expected = 20000 * weight[positive].astype(float) / weight.sum()
        assert stats.chisquare(counts[positive], expected).pvalue > SIGNIFICANT


def test_multinomial_without_replacement_draws_one_after_the_other():
    """P(first i, then j) = pᵢ pⱼ / (1 - pᵢ)."""
    p = np.array([0.1, 0.0, 0.2, 0.3, 0.4])
    drawn = generator(4).multinomial(np.tile(p, (30000, 1)), 2)
    pairs = [(i, j) for i in range(5) for j in range(5) if i != j and p[i] and p[j]]
    observed = [np.count_nonzero((drawn == pair).all(-1)) for pair in pairs]
    expected = [30000 * p[i] * p[j] / (1 - p[i]) for i, j in pairs]
    assert sum(observed) == 30000
    assert stats.chisquare(observed, expected).pvalue > SIGNIFICANT


def test_multinomial_of_extreme_weights():
    tiny = np.array([1e-320, 0.0, 1e-320])
    assert set(generator(1).multinomial(tiny, 50, True)) == {0, 2}
    assert sorted(generator(1).multinomial(tiny, 2)) == [0, 2]
    huge = np.full(3, np.finfo(np.float64).max)
    assert set(generator(1).multinomial(huge, 50, True)) == {0, 1, 2}
    assert sorted(generator(1).multinomial(np.array([1e300, 1e-300, 0.0]), 2)) == [0, 1]
    assert generator(1).multinomial(np.zeros((0, 3)), 2, True).shape == (0, 2)
    assert set(generator(1).multinomial(np.ones(4, BFLOAT16), 100, True)) == {0, 1, 2, 3}


# ---- dtypes, shapes, bounds --------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), 0, (0,), (3, 0, 2), 5, (2, 3), (1, 1), [4]])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_shapes_and_dtypes(shape, dtype):
    g = generator()
    expected = (shape,) if isinstance(shape, int) else tuple(shape)
    parameter = np.full(expected, 0.5, dtype)
    draws = [
        *(f(shape, dtype) for f in (g.uniform, g.normal, g.log_normal, g.exponential, g.cauchy, g.random)),
        *(f(parameter) for f in (g.gamma, g.poisson, g.bernoulli, g.geometric)),
        g.binomial(parameter, parameter),
        g.bernoulli(0.5, shape, dtype),
        g.geometric(0.5, shape, dtype),
        g.integers(0, 9, shape, dtype),
    ]
    for x in draws:
        assert isinstance(x, np.ndarray) and (x.shape, x.dtype) == (expected, dtype)
        assert np.isfinite(x.astype(np.float64)).all()


@pytest.mark.parametrize("dtype", ["bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8"])
def test_integer_dtypes(dtype):
    g, dtype = generator(1), np.dtype(dtype)
    for x in (g.integers(0, 2, (2, 3), dtype), g.random((2, 3), dtype), g.bernoulli(0.5, (2, 3), dtype)):
        assert (x.shape, x.dtype) == ((2, 3), dtype)
    assert g.integers(0, 2, (), dtype).shape == ()
    low, high = (0, 1) if dtype == np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = g.integers(int(low), int(high) + 1, 4000, dtype)
    assert float(x.max()) > float(high) * 0.98 and float(x.min()) <= float(low) * 0.98 + 0.02 * float(high)
    assert g.random(4000, dtype).min() >= 0


def test_defaults():
    g = generator()
    assert g.uniform().dtype == g.normal().dtype == g.bernoulli(0.5).dtype == g.gamma(2.0).dtype == np.float32
    assert g.integers(0, 3).dtype == g.permutation(3).dtype == g.multinomial([0.5, 0.5], 1).dtype == np.int64
    assert g.binomial(np.ones(2, np.float16), np.ones((3, 1), np.float64)).shape == (3, 2)
    assert g.normal((2, 2), np.complex128).dtype == np.complex128 and g.uniform((), np.complex64).shape == ()


def all_words(value):
    return lambda key, offset, count, lane=0, domain=0: np.full(count, value, np.uint64)


BOUNDS = [(0, 1), (-1, 1), (0.1, 0.3), (1, 1.001), (-5, 0), (1e-3, 2), (100, 101), (-6e4, 0), (0, 6e4), (2, 2)]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("low, high", BOUNDS)
def test_uniform_never_reaches_high(low, high, dtype, monkeypatch):
    """Also with the largest words there are, where rounding would."""
    for word in (WORD, WORD - 2**11, 0):
        monkeypatch.setattr(samplers, "words", all_words(word))
        x = generator().uniform(4, dtype, low, high)
        assert (x >= dtype.type(low)).all()
        assert (x < dtype.type(high)).all() or dtype.type(low) == dtype.type(high) == x[0]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(FLOATS), st.floats(-6e4, 6e4), st.floats(0, 100), st.integers(0, 2**32))
def test_uniform_stays_in_its_interval(dtype, low, width, seed):
    x = generator(seed).uniform(64, dtype, low, min(low + width, 6e4))
    lowest, limit = dtype.type(low), dtype.type(min(low + width, 6e4))
    assert ((x >= lowest) & (x < limit)).all() or (lowest == limit and (x == lowest).all())


@pytest.mark.parametrize("word", [0, 1, WORD, 2**63, 2**63 - 1, 2**32 - 1, WORD - 2**32 + 1])
def test_no_word_gives_an_infinite_or_misplaced_number(word, monkeypatch):
    monkeypatch.setattr(samplers, "words", all_words(word))
    g = generator()
    for dtype in FLOATS[2:]:
        for x in (g.normal(4, dtype), g.exponential(4, dtype), g.cauchy(4, dtype), g.log_normal(4, dtype)):
            assert np.isfinite(x).all()
        assert (g.exponential(4, dtype) > 0).all()
    assert (g.geometric(0.5, 4, np.int64) >= 1).all()
    assert not g.bernoulli(0.0, 4).any() and g.bernoulli(1.0, 4).all()
    assert g.integers(-3, 4, 1).item() in range(-3, 4)
    assert g.integers(0, 2**64, 1, np.uint64).item() == word
    assert (g.multinomial(np.array([0.0, 1.0, 0.0]), 4, True) == 1).all()
    prob = np.linspace(0, 0.5, 1000)
    assert all(((k >= 0) & (k <= n)).all() for n in (1.0, 7.0, 19.0) for k in [g.binomial(np.array(n), prob)])
    assert (g.poisson(prob * 19) < 100).all()


@pytest.mark.parametrize("word", [0, WORD, 2**63, 2**63 - 1, WORD - 1])
@pytest.mark.filterwarnings("error")
def test_no_word_stops_a_rejection(word, monkeypatch):
    monkeypatch.setattr(samplers, "words", lambda *a: all_words(word)(*a) if len(a) > 3 and not a[3] else words(*a))
    g, parameter = generator(), np.geomspace(10, 1e7, 50)
    for x, mean in ((g.poisson(parameter), parameter), (g.binomial(parameter, 0.5), parameter / 2)):
        assert (np.abs(x - mean) <= 9 * np.sqrt(parameter)).all()
    assert (g.gamma(parameter) > 0).all() and np.isfinite(g.gamma(np.geomspace(1e-3, 1, 50))).all()


def test_random_covers_what_a_dtype_holds():
    """The ranges of Tensor.random_ in PyTorch's documentation."""
    for dtype, top in zip(FLOATS, (2**11, 2**8, 2**24, 2**53), strict=True):
        x = generator(1).random(100000, dtype).astype(np.float64)
        assert x.min() >= 0 and 0.99 * top < x.max() <= top and (x == np.floor(x)).all()
    assert generator(1).random(1000, np.int64, -(2**63)).min() < 0
    assert set(generator(1).random(1000, np.int8, 125).tolist()) == {125, 126, 127}


def test_a_float_range_that_is_not_exact_warns():
    with pytest.warns(UserWarning, match="float32 holds every integer only in"):
        generator().integers(0, 2**30, 3, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        generator().integers(-(2**24), 2**24 + 1, 3, np.float32)


def test_geometric_saturates_integer_dtypes():
    assert generator().geometric(1e-9, 100, np.int8).tolist() == [127] * 100
    assert (generator().geometric(1e-300, 10, np.int64) == 2**63 - 1).all()


def test_parameters_that_are_limits():
    g = generator()
    assert g.gamma(np.array([np.inf, np.nan, 0.0, 1e-40]), np.float32)[0] == np.inf
    assert np.isnan(g.gamma(np.array([np.nan, 1.0])))[0]
    assert (g.gamma(np.zeros(50), np.float32) == np.finfo(np.float32).tiny).all()
    assert (g.poisson(np.zeros(5)) == 0).all()
    assert g.binomial(np.array([0.0, 5.0, 1000.0, 1000.0, 3.9]), np.array([0.5, 0, 1, 0, 1])).tolist() == [
        *(0, 0, 1000, 0, 3)
    ]
    assert np.isnan(g.binomial(np.array([5.0]), np.nan)).all()
    assert (g.normal(5, np.float32, 3.0, 0.0) == 3).all()
    assert (g.exponential(5, np.float32, math.inf) == 0).all()


# ---- states, splits, threads -------------------------------------------------------------------------------


def test_state_brings_the_stream_back():
    g = generator(3)
    g.normal(7)
    state = g.get_state()
    first = g.uniform(9)
    other = Generator()
    other.set_state(state)
    assert np.array_equal(other.uniform(9), first)
    g.set_state(state)
    twin = g.clone_state()
    assert np.array_equal(g.uniform(9), first) and np.array_equal(twin.uniform(9), first)
    assert state.dtype == np.uint8 and state.shape == (40,)


@pytest.mark.parametrize("far", [2**63, 2**64 + 4, 2**127])
def test_state_holds_far_offsets_and_split_keys(far):
    g = generator(3).split(2)[1]
    g.offset = far
    other = Generator()
    other.set_state(g.get_state())
    assert (other.key, other.offset) == (g.key, far)
    assert int(other.bits(1)[0]) == stream_word(g.key, far)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_copies_go_their_own_way(duplicate):
    g = generator(5)
    g.bits(3)
    twin = duplicate(g)
    assert (twin.key, twin.offset, twin.device) == (g.key, g.offset, g.device)
    assert np.array_equal(twin.bits(5), g.bits(5))
    g.bits(100)
    assert twin.offset == 12


@pytest.mark.parametrize("seed", [0, 1, 2**63, WORD, -1, -(2**63)])
def test_seeds_are_those_of_pytorch(seed):
    assert Generator().manual_seed(seed).initial_seed() == torch.Generator().manual_seed(seed).initial_seed()


def test_a_new_generator_has_the_seed_of_pytorch():
    assert Generator().initial_seed() == torch.Generator().initial_seed()
    assert str(Generator().device) == "cpu" and "offset=0" in repr(Generator())


def test_seed_takes_entropy():
    seeds = {Generator().seed() for _ in range(20)}
    assert len(seeds) == 20
    g = Generator()
    assert g.seed() == g.initial_seed()


def test_split_and_fold_in_give_unrelated_streams():
    root = generator(0)
    children = [root, *root.split(12), *root.split(12), *(root.fold_in(i) for i in range(-4, 20))]
    assert len({child.key for child in children}) == len(children)
    rows = np.stack([child.uniform(4096, np.float64) for child in children])
    correlation = np.corrcoef(rows) - np.eye(len(children))
    assert np.abs(correlation).max() < 5.5 / math.sqrt(4096)  # of 1176 pairs
    shifted = np.corrcoef(rows[:, 1:], rows[:, :-1])
    assert np.abs(shifted - np.eye(len(shifted))).max() < 5.5 / math.sqrt(4096)
    assert stats.kstest(rows[:, 0], stats.uniform.cdf).pvalue > SIGNIFICANT


def test_split_takes_blocks_and_fold_in_takes_nothing():
    g = generator(9)
    children = g.split(3)
    assert g.offset == 12
    assert children[2].key == (stream_word((9, 0), 8), stream_word((9, 0), 9))
    child = g.fold_in(7)
    assert g.offset == 12 and child.offset == 0
    assert child.key == tuple(philox((7, 0, 0, 1), (9, 0))[:2])
    assert child.key == generator(9).fold_in(7).key and g.split(0) == []


def test_threads_never_share_words():
    g, taken, drawn = generator(1), [], []

    def work():
        for _ in range(300):
            taken.append(g.reserve(5)[1])
            drawn.extend(g.bits(4).tolist())

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    assert len(set(taken)) == 1800 and g.offset == 1800 * 12
    assert len(set(drawn)) == 7200 and set(drawn) <= set(words((1, 0), 0, 1800 * 12).tolist())


def test_the_default_generator():
    before = random.get_rng_state()
    try:
        assert random.manual_seed(5.0) is random.default_generator and random.initial_seed() == 5
        first = random.default_generator.uniform(3)
        with random.fork_rng():
            assert random.seed() == random.initial_seed()
        assert random.initial_seed() == 5 and random.default_generator.offset == 4
        with pytest.raises(KeyError), random.fork_rng():
            random.default_generator.bits(99)
            raise KeyError
        assert random.default_generator.offset == 4
        with random.fork_rng(enabled=False):
            random.default_generator.bits(4)
        assert random.default_generator.offset == 8
        random.manual_seed(5)
        assert np.array_equal(random.default_generator.uniform(3), first)
    finally:
        random.set_rng_state(before)


# ---- errors ------------------------------------------------------------------------------------------------


def spoiled(position, value):
    state = Generator().get_state()
    state[position] = value
    return state


ERRORS = [
    (lambda g: g.manual_seed(2**64), ValueError, r"expected an int in \[-2\*\*63, 2\*\*64\), got 184467440737"),
    (lambda g: g.manual_seed(-(2**63) - 1), ValueError, "expected an int in"),
    (lambda g: g.manual_seed(1.5), TypeError, "expected an int, but got float"),
    (lambda g: g.manual_seed("a"), TypeError, "but got str"),
    (lambda g: g.manual_seed(True), TypeError, "but got bool"),
    (lambda g: g.fold_in(2**64), ValueError, "fold_in: expected an int in"),
    (lambda g: g.set_state(np.zeros(3, np.uint8)), ValueError, r"\(40,\) bytes .* got shape \(3,\)"),
    (lambda g: g.set_state(np.zeros(40, np.uint8)), ValueError, "which begin with b'WEFTRNG1'"),
    (lambda g: g.set_state(spoiled(24, 3)), ValueError, "offset 3, which is no multiple of 4"),
    (lambda g: g.set_state(np.zeros(40)), TypeError, "uint8 array .* got float64"),
    (lambda g: g.set_state(b"x" * 40), TypeError, "got bytes"),
    (lambda g: setattr(g, "offset", 3), ValueError, "multiple of 4 words"),
    (lambda g: setattr(g, "offset", -4), ValueError, "multiple of 4 words"),
    (lambda g: g.split(-1), ValueError, "n >= 0"),
    (lambda g: g.bits(-1), ValueError, "n >= 0"),
    (lambda g: g.uniform((2, -1)), RuntimeError, r"negative dimension -1: \[2, -1\]"),
    (lambda g: g.uniform(2, np.int64), TypeError, '"uniform" not implemented for int64'),
    (lambda g: g.exponential(2, np.complex64), TypeError, "not implemented for complex64"),
    (lambda g: g.normal(2, np.float32, 0.0, np.array([1.0, -2.0])), RuntimeError, "std >= 0.0, but found -2.0"),
    (lambda g: g.normal(2, np.float32, 0.0, math.nan), RuntimeError, "std >= 0.0, but found nan"),
    (lambda g: g.bernoulli(np.array([0.5, math.nan])), RuntimeError, r"in \[0, 1\], but found nan"),
    (lambda g: g.poisson(np.array([math.inf])), RuntimeError, "invalid Poisson rate"),
    (lambda g: g.gamma(np.array([-1.0])), RuntimeError, "concentration >= 0, but found -1.0"),
    (lambda g: g.binomial(np.array([math.nan]), 0.5), RuntimeError, "0 <= count < inf, but found nan"),
    (lambda g: g.binomial(np.array([-1.0]), 0.5), RuntimeError, "but found -1.0"),
    (lambda g: g.binomial(np.array([1.0]), 1.5), RuntimeError, r"prob to be in \[0, 1\], but found 1.5"),
    (lambda g: g.integers(0, 2, 3, np.complex64), TypeError, "not implemented for complex64"),
    (lambda g: g.integers(0, 2**64, 3, np.float64), ValueError, "out of bounds for float64"),
    (lambda g: g.multinomial(np.array([1.0, 0.0, 0.0]), 2), RuntimeError, "without replacement needs as many"),
    (lambda g: g.multinomial(np.zeros((2, 0)), 2, True), RuntimeError, "sum of probabilities <= 0"),
]


@pytest.mark.parametrize("call, error, message", ERRORS)
def test_errors_say_what_was_wrong_and_change_nothing(call, error, message):
    g = generator(1)
    g.bits(4)
    with pytest.raises(error, match=message):
        call(g)
    assert (g.key, g.offset) == ((1, 0), 4)


BOTH_RAISE = [
    (lambda g: g.random(3, np.float32, 5, 5), lambda: torch.empty(3).random_(5, 5)),
    (lambda g: g.random(3, np.int8, 0, 129), lambda: torch.empty(3, dtype=torch.int8).random_(0, 129)),
    (lambda g: g.random(3, np.int8, -129, 2), lambda: torch.empty(3, dtype=torch.int8).random_(-129, 2)),
    (lambda g: g.random(3, np.bool_, 0, 3), lambda: torch.empty(3, dtype=torch.bool).random_(0, 3)),
    (lambda g: g.random(3, np.float16, 0, 10**5), lambda: torch.empty(3, dtype=torch.half).random_(0, 10**5)),
    (lambda g: g.integers(3, 3, 0), lambda: torch.randint(3, 3, (0,))),
    (lambda g: g.integers(0, 300, 3, np.uint8), lambda: torch.randint(0, 300, (3,), dtype=torch.uint8)),
    (lambda g: g.permutation(-1), lambda: torch.randperm(-1)),
    (lambda g: g.permutation(300, np.uint8), lambda: torch.randperm(300, dtype=torch.uint8)),
    (lambda g: g.permutation(2050, np.float16), lambda: torch.randperm(2050, dtype=torch.half)),
    (lambda g: g.permutation(2, np.bool_), lambda: torch.randperm(2, dtype=torch.bool)),
    (lambda g: g.uniform(2, np.float32, 1, 0), lambda: torch.empty(2).uniform_(1, 0)),
    (lambda g: g.uniform(2, np.float32, math.nan, 0), lambda: torch.empty(2).uniform_(math.nan, 0)),
    (lambda g: g.uniform(2, np.float32, 0, math.inf), lambda: torch.empty(2).uniform_(0, math.inf)),
    (lambda g: g.uniform(2, np.float32, -3e38, 3e38), lambda: torch.empty(2).uniform_(-3e38, 3e38)),
    (lambda g: g.uniform(2, np.float16, 0, 7e4), lambda: torch.empty(2, dtype=torch.half).uniform_(0, 7e4)),
    (lambda g: g.normal(2, np.float32, 0, -1), lambda: torch.empty(2).normal_(0, -1)),
    (lambda g: g.normal(2, np.int64), lambda: torch.empty(2, dtype=torch.long).normal_()),
    (lambda g: g.log_normal(2, np.float32, 0, 0), lambda: torch.empty(2).log_normal_(0, 0)),
    (lambda g: g.exponential(2, np.float32, 0), lambda: torch.empty(2).exponential_(0)),
    (lambda g: g.exponential(2, np.int64), lambda: torch.empty(2, dtype=torch.long).exponential_()),
    (lambda g: g.cauchy(2, np.float32, 0, 0), lambda: torch.empty(2).cauchy_(0, 0)),
    (lambda g: g.geometric(0.0, 2), lambda: torch.empty(2).geometric_(0.0)),
    (lambda g: g.geometric(1.0, 2), lambda: torch.empty(2).geometric_(1.0)),
    (lambda g: g.bernoulli(1.2, 2), lambda: torch.empty(2).bernoulli_(1.2)),
    (lambda g: g.poisson(np.array([-1.0])), lambda: torch.poisson(torch.tensor([-1.0]))),
    *(
        (
            lambda g, a=a: g.multinomial(np.array(a[0]), *a[1:]),
            lambda a=a: torch.multinomial(torch.tensor(a[0]), *a[1:]),
        )
        for a in (
            ([-1.0, 2.0], 1, True),
            ([math.nan, 1.0], 1, True),
            ([math.inf, 1.0], 1, False),
            ([0.0, 0.0], 1, True),
            ([[1.0, 1.0], [0.0, 0.0]], 1, True),
            ([1.0, 1.0], 3, False),
            ([1.0, 1.0], 0, True),
            (1.0, 1, True),
            ([[[1.0]]], 1, True),
            ([1, 1], 1, True),
        )
    ),
]


@pytest.mark.parametrize("ours, torches", BOTH_RAISE)
def test_what_pytorch_refuses_is_refused(ours, torches):
    with pytest.raises(RuntimeError):
        torches()
    with pytest.raises(RuntimeError):
        ours(generator())


@pytest.mark.parametrize("module", [random, samplers, stream], ids=lambda module: module.__name__)
def test_examples_run(module):
    tried = doctest.testmod(module)
    assert tried.attempted > 0 and tried.failed == 0
