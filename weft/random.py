"""Random numbers from explicit, splittable, counter-based generators (NumPy arrays in, NumPy arrays out).

A stream is a pure function: word w of the stream with key (k₀, k₁) is word w mod 4 of the Philox4x64-10 block
(Salmon et al., SC 2011, "Parallel random numbers: as easy as 1, 2, 3") with that key and the counter

    (b mod 2⁶⁴, b div 2⁶⁴, lane, domain),     b = w div 4.

A generator is a key and an offset (its next word). `manual_seed(s)` gives key (s, 0) and offset 0. Each draw
reserves whole blocks: it starts at a multiple of four words, so native code never meets a phase. Lane and
domain are 0 but for rejection rounds (lane = round) and `fold_in` (domain 1).

Element i of a draw (C order) depends on the key, the draw's first word o, i and its own parameters:

    bits, integers, geometric, multinomial, permutation   word o + i
    uniform, exponential, cauchy in float64               word o + i
    the same in narrower dtypes; bernoulli                half i: word o + ⌊i/2⌋, its low 32 bits if i is even
    normal, log_normal                                    as these; elements 2j and 2j + 1 share their two
    complex uniform and normal                            the real elements 2i and 2i + 1
    gamma, poisson, binomial                              block o/4 + i, in round r of lane r

From b raw bits r (b = 32 or 64) to a number of that width:

    unit(r)   = ⌊r / 2⁸⌋ · 2⁻²⁴ (b = 32),  ⌊r / 2¹¹⌋ · 2⁻⁵³ (b = 64)         in [0, 1), exact
    open(r)   = float(r) · 2⁻ᵇ + 2⁻⁽ᵇ⁺¹⁾                                     in (0, 1]
    signed(r) = float(r as a signed integer) · 2⁻ᵇ + 2⁻⁽ᵇ⁺¹⁾                 in [-½, ½], never 0
    normals   : ρ = √(-2 ln open(r₂ⱼ)), θ = 2π signed(r₂ⱼ₊₁), then z₂ⱼ = ρ cos θ, z₂ⱼ₊₁ = ρ sin θ (Box–Muller)

float16 and bfloat16 numbers are the float32 ones, rounded. Nothing here depends on threads or chunks.
"""

import contextlib
import itertools
import math
import operator
import os
import secrets
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.special import xlog1py

from .device import device as Device
from .errors import DtypeError, GeneratorError

__all__ = [
    "Generator",
    "RandomError",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "words",
]

Key = tuple[int, int]
Shape = int | Sequence[int]

DEFAULT_SEED = 67280421310721  # PyTorch's
BLOCK = 4  # words of one Philox block
STREAM, FOLD = 0, 1  # domains: the last word of the counter
STATE_MAGIC = b"WEFTRNG1"
STATE_BYTES = len(STATE_MAGIC) + 16 + 16  # magic, key, offset; little-endian
REJECTION_CHUNK = 16384  # elements whose rounds are run together, so that the work stays in cache

WORD, HALF = 2**64 - 1, 2**32 - 1
INVERSION_LIMIT = 10.0  # the mean below which poisson and binomial invert; the rejections are proved above it
STIRLING_TABLE = np.array([math.lgamma(k + 1) - (k * math.log(k) - k if k else 0.0) for k in range(16)])

_lock = threading.RLock()  # guards the key and offset of every generator, for nanoseconds at a time
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class RandomError(GeneratorError, ValueError):
    """A parameter that no distribution has, or bytes that are no state; also a RuntimeError, as PyTorch's."""


class _Float(NamedTuple):
    """What a sampler asks about a floating dtype; it holds every integer up to `exact`."""

    exact: int
    largest: float
    tiny: float


def _describe(dtype: DTypeLike, bits: int) -> tuple[np.dtype, _Float]:
    limits = ml_dtypes.finfo(dtype)
    return np.dtype(dtype), _Float(2**bits, float(limits.max), float(limits.smallest_normal))


FLOATS = dict(map(_describe, (np.float16, ml_dtypes.bfloat16, np.float32, np.float64), (11, 8, 24, 53)))


class Generator:
    """A position in a random stream: PyTorch's `Generator`, with `split`, `fold_in` and samplers.

    Samplers advance `offset`; the module docstring says which words make which element. A lock guards the
    reservation of words, so threads may share a generator: no word is used twice.

    >>> g = Generator().manual_seed(0)
    >>> a, b = g.uniform(8), g.uniform(8)
    >>> bool((g.manual_seed(0).uniform(16) == np.concatenate([a, b])).all())
    True
    """

    def __init__(self, device: str | Device = "cpu") -> None:
        self.device = Device(device)
        self._key, self._offset = (DEFAULT_SEED, 0), 0

    # ---- seeds, positions, states --------------------------------------------------------------------------

    def manual_seed(self, seed: int) -> "Generator":
        """Restart at offset 0 of the stream with key (seed, 0); seeds below 0 are taken modulo 2⁶⁴."""
        key = (_as_word(seed, "manual_seed"), 0)
        with _lock:
            self._key, self._offset = key, 0
        return self

    def seed(self) -> int:
        """Seed with 53 bits from the operating system, and return them."""
        seed = secrets.randbits(53)
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed in use: the first word of the key."""
        return self._key[0]

    @property
    def key(self) -> Key:
        """The two 64-bit words that name the stream: (seed, 0), or what `split` or `fold_in` drew."""
        return self._key

    @property
    def offset(self) -> int:
        """The next word of the stream, always a multiple of 4; it can be set."""
        return self._offset

    @offset.setter
    def offset(self, value: int) -> None:
        offset = operator.index(value)
        if offset % BLOCK or not 0 <= offset < 2**128:
            raise RandomError(f"offset: expected a multiple of {BLOCK} words in [0, 2**128), got {offset}")
        with _lock:
            self._offset = offset

    def get_state(self) -> NDArray[np.uint8]:
        """Key and offset as 40 bytes, for `set_state`."""
        with _lock:
            (first, second), offset = self._key, self._offset
        numbers = (first | second << 64).to_bytes(16, "little") + offset.to_bytes(16, "little")
        return np.frombuffer(STATE_MAGIC + numbers, np.uint8).copy()

    def set_state(self, new_state: NDArray[np.uint8]) -> None:
        """Return to the key and offset that `get_state` wrote; other bytes raise an error, change nothing."""
        key, offset = _parse_state(new_state)
        with _lock:
            self._key, self._offset = key, offset

    def clone_state(self) -> "Generator":
        """A new generator at the same place of the same stream."""
        return _restore(self.device, self.get_state())

    def reserve(self, count: int) -> tuple[Key, int]:
        """Take `count` words, rounded up to whole blocks, out of the stream: the key and the first's offset.

        `words(key, offset, count)` computes them, in any number of pieces, here or in native code.
        """
        with _lock:
            key, offset = self._key, self._offset
            self._offset = offset + -(-count // BLOCK) * BLOCK
        return key, offset

    def split(self, n: int = 2) -> list["Generator"]:
        """n generators with streams of their own, keyed by words 0 and 1 of the next n blocks of this one.

        >>> left, right = Generator().manual_seed(0).split()
        >>> left.key == right.key
        False
        """
        _check(n >= 0, f"split: expected n >= 0, got {n}")
        keys = self.bits(BLOCK * n).reshape(n, BLOCK)[:, :2]  # (n, 4) → (n, 2)
        return [_from_key(self.device, (int(first), int(second))) for first, second in keys]

    def fold_in(self, data: int) -> "Generator":
        """Generator number `data` (a worker, a layer, an epoch) of this key, whatever the offset.

        A pure function of key and data that takes nothing from the stream: the new key is words 0 and 1 of
        block `data` (modulo 2⁶⁴) of domain 1, which ordinary draws never reach.
        """
        block = _as_word(data, "fold_in")
        first, second = words(self._key, BLOCK * block, 2, domain=FOLD)
        return _from_key(self.device, (int(first), int(second)))

    def __reduce__(self) -> tuple:
        return _restore, (self.device, self.get_state())

    def __repr__(self) -> str:
        return f"Generator(device={str(self.device)!r}, key={self._key}, offset={self._offset})"

    # ---- raw bits ------------------------------------------------------------------------------------------

    def bits(self, n: int) -> NDArray[np.uint64]:
        """The next n 64-bit words of the stream."""
        _check(n >= 0, f"bits: expected n >= 0, got {n}")
        key, offset = self.reserve(n)
        return words(key, offset, n)

    def _raw(self, count: int, dtype: np.dtype) -> NDArray:
        """One element of raw bits a number: a word for float64, half a word for the narrower kinds."""
        if dtype == np.float64:
            return self.bits(count)
        return self.bits((count + 1) // 2).view(np.uint32)[:count]

    # ---- continuous distributions --------------------------------------------------------------------------

    def uniform(self, shape: Shape = (), dtype: DTypeLike = np.float32, low: float = 0.0, high: float = 1.0) -> NDArray:
        """low + (high - low) · unit(r), rounded to dtype and kept below high: [low, high) in every dtype.

        low = high gives low, as in PyTorch. Complex: real and imaginary parts are both uniform.
        """
        dtype, shape = _floating(dtype, "uniform", complex_too=True), _shape(shape)
        if dtype.kind == "c":
            return _join_parts(self.uniform((*shape, 2), _part(dtype), low, high), dtype)
        _check_bounds(low, high, dtype)
        u = _unit(self._raw(math.prod(shape), dtype)).reshape(shape)
        if (low, high) == (0, 1) and dtype.itemsize >= 4:
            return u
        u *= u.dtype.type(high - low)
        u += u.dtype.type(low)
        lowest, limit = dtype.type(low), dtype.type(high)
        u = u.astype(dtype, copy=False)
        return np.minimum(u, np.nextafter(limit, lowest), out=u)  # of equal bounds: itself

    def normal(
        self,
        shape: Shape = (),
        dtype: DTypeLike = np.float32,
        mean: ArrayLike = 0.0,
        std: ArrayLike = 1.0,
    ) -> NDArray:
        """mean + std · z, z from Box–Muller pairs; mean and std may be arrays that broadcast to shape.

        Complex: real and imaginary parts have variance std² / 2 each.
        """
        dtype, shape = _floating(dtype, "normal", complex_too=True), _shape(shape)
        _check_all(np.asarray(std) >= 0, std, "normal expects all elements of std >= 0.0")
        if dtype.kind == "c":
            parts = self.normal((*shape, 2), _part(dtype))
            return _affine(_join_parts(parts, dtype), mean, np.asarray(std) * math.sqrt(0.5))
        count = math.prod(shape)
        z = _box_muller(self._raw(count + count % 2, dtype))[:count].reshape(shape)
        return _round(_affine(z, mean, std), dtype)

    def log_normal(
        self, shape: Shape = (), dtype: DTypeLike = np.float32, mean: float = 1.0, std: float = 2.0
    ) -> NDArray:
        """exp(mean + std · z), z standard normal."""
        dtype = _floating(dtype, "log_normal")
        _check_all(std > 0, std, "log_normal_ expects std > 0.0")
        z = self.normal(shape, _wide(dtype), mean, std)
        with np.errstate(over="ignore"):
            return _round(np.exp(z, out=z), dtype)

    def exponential(self, shape: Shape = (), dtype: DTypeLike = np.float32, rate: float = 1.0) -> NDArray:
        """-ln open(r) / rate. The logarithm is kept above 0: where open(r) rounds to 1 it is eps / 4."""
        dtype, shape = _floating(dtype, "exponential"), _shape(shape)
        _check_all(rate > 0, rate, "exponential_ expects lambda > 0.0")
        x = _standard_exponential(self._raw(math.prod(shape), dtype)).reshape(shape)
        with np.errstate(over="ignore", divide="ignore"):
            x /= x.dtype.type(rate)
        return _round(x, dtype)

    def cauchy(
        self, shape: Shape = (), dtype: DTypeLike = np.float32, median: float = 0.0, sigma: float = 1.0
    ) -> NDArray:
        """median + sigma / tan(π · signed(r)): signed is finest near 0, where the tails are."""
        dtype, shape = _floating(dtype, "cauchy"), _shape(shape)
        _check_all(sigma > 0, sigma, "cauchy_ expects sigma > 0.0")
        x = _signed(self._raw(math.prod(shape), dtype)).reshape(shape)
        x *= x.dtype.type(math.pi)
        np.tan(x, out=x)
        np.divide(x.dtype.type(sigma), x, out=x)
        x += x.dtype.type(median)
        return _round(x, dtype)

    def gamma(self, concentration: ArrayLike, dtype: DTypeLike | None = None) -> NDArray:
        """Gamma(concentration, rate 1), by Marsaglia and Tsang's rejection (2000), in float64.

        The block (w₀, w₁, w₂, w₃) of a round: z = ρ(w₀) cos θ(w₁) proposes, open(w₂) accepts, and for
        concentration a < 1 the result is boosted: Gamma(a) = Gamma(a + 1) · open(w₃)^(1/a). Results too small
        for the dtype are its smallest normal number; an infinite or NaN concentration is returned as it is.
        """
        dtype = _result_dtype(dtype, "gamma", concentration)
        shape, (alpha,) = _parameters(concentration)
        _check_all(~(alpha < 0), alpha, "gamma expects concentration >= 0")
        value = self._reject(_gamma_round, alpha)
        np.maximum(value, FLOATS[dtype].tiny, out=value)
        return _round(value.reshape(shape), dtype)

    # ---- discrete distributions ----------------------------------------------------------------------------

    def bernoulli(self, p: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None) -> NDArray:
        """1 where r < round(p · 2³²), r half a word, else 0. dtype: a floating array p's, or float32."""
        dtype = _result_dtype(dtype, "bernoulli", p, any_kind=True)
        p = np.asarray(p, np.float32 if getattr(p, "dtype", None) == np.float32 else np.float64)
        _check_all((p >= 0) & (p <= 1), p, "bernoulli expects p to be in [0, 1]")
        shape = p.shape if shape is None else _shape(shape)
        r = self._raw(math.prod(shape), np.dtype(np.float32)).reshape(shape)
        return np.less(r, np.rint(p * p.dtype.type(2**32)), out=np.empty(shape, np.bool_)).astype(dtype)

    def geometric(self, p: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None) -> NDArray:
        """Trials up to the first success, 1, 2, …: ⌈ln open(w) / ln(1 - p)⌉ in float64.

        Results beyond an integer dtype are its largest number (PyTorch's wrap around). dtype: as `bernoulli`.
        """
        dtype = _result_dtype(dtype, "geometric", p, any_kind=True)
        p = np.asarray(p, np.float64)
        _check_all((p > 0) & (p < 1), p, "geometric_ expects p to be in (0, 1)")
        shape = p.shape if shape is None else _shape(shape)
        trials = np.log(_open(self.bits(math.prod(shape)))).reshape(shape)
        trials /= np.log1p(-p)
        np.ceil(trials, out=trials)
        np.maximum(trials, 1.0, out=trials)
        return _saturate(trials, dtype)

    def poisson(self, rate: ArrayLike, dtype: DTypeLike | None = None) -> NDArray:
        """Poisson counts, in float64: inversion below rate 10, Hörmann's transformed rejection (1993) above.

        Inversion counts the k with P(X ≤ k) ≤ unit(w₀); a rejection round takes U = signed(w₀), V = open(w₁).
        """
        dtype = _result_dtype(dtype, "poisson", rate)
        shape, (mean,) = _parameters(rate)
        _check_all((mean >= 0) & (mean < np.inf), mean, "invalid Poisson rate, expected 0 <= rate < inf")
        return _round(self._reject(_poisson_round, mean).reshape(shape), dtype)

    def binomial(self, count: ArrayLike, prob: ArrayLike, dtype: DTypeLike | None = None) -> NDArray:
        """Successes in ⌊count⌋ trials, in float64, count and prob broadcast together.

        With q = min(prob, 1 - prob): inversion where count · q < 10, Hörmann's BTRS (1993) elsewhere, from
        the words that `poisson` uses; then count - k where prob > ½. A NaN prob gives NaN.
        """
        dtype = _result_dtype(dtype, "binomial", count, prob)
        shape, (n, p) = _parameters(count, prob)
        _check_all((n >= 0) & (n < np.inf), n, "binomial expects 0 <= count < inf")
        _check_all(~((p < 0) | (p > 1)), p, "binomial expects prob to be in [0, 1]")
        n, q = np.floor(n), np.minimum(p, 1 - p)
        k = self._reject(_binomial_round, n, q)
        return _round(np.where(p > 0.5, n - k, k).reshape(shape), dtype)

    def integers(self, low: int, high: int, shape: Shape = (), dtype: DTypeLike = np.int64) -> NDArray:
        """low + ⌊w · (high - low) / 2⁶⁴⌋: every integer in [low, high), to within 2⁻⁶⁴ of equally likely.

        Floating dtypes hold integers; a range they cannot hold exactly warns, as in PyTorch.
        """
        dtype, low, high = np.dtype(dtype), operator.index(low), operator.index(high)
        _check(low < high, f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
        _check_integers(low, high - 1, dtype)
        shape = _shape(shape)
        value = _multiply_high(self.bits(math.prod(shape)), high - low)
        value += np.uint64(low % 2**64)
        return (value.view(np.int64) if low < 0 else value).astype(dtype, copy=False).reshape(shape)

    def random(
        self, shape: Shape = (), dtype: DTypeLike = np.float32, low: int = 0, high: int | None = None
    ) -> NDArray:
        """`Tensor.random_`: integers in [low, high), or from low to the largest the dtype promises.

        That is the largest value of an integer dtype, 1 for bool, and for float16, bfloat16, float32, float64
        the 2¹¹, 2⁸, 2²⁴, 2⁵³ up to which they hold every integer.
        """
        top = _largest_integer(np.dtype(dtype)) + 1 if high is None else high
        return self.integers(low, top, shape, dtype)

    def permutation(self, n: int, dtype: DTypeLike = np.int64) -> NDArray:
        """0 … n - 1 in random order: sorted by word i, whose low ⌈log₂ n⌉ bits are replaced by i.

        >>> sorted(Generator().permutation(5).tolist())
        [0, 1, 2, 3, 4]
        """
        dtype = np.dtype(dtype)
        _check(n >= 0, f"Trying to create tensor with negative dimension {n}: [{n}]")
        if dtype == np.bool_:
            raise DtypeError('"randperm" not implemented for bool: expected an integer or floating dtype')
        _check(n <= _largest_integer(dtype) + 1, f"randperm: n={n} is too large for {dtype}")
        mask = (1 << max(n - 1, 0).bit_length()) - 1
        keys = self.bits(n)
        keys &= np.uint64(2**64 - 1 - mask)
        keys |= np.arange(n, dtype=np.uint64)
        keys.sort()
        keys &= np.uint64(mask)
        return keys.astype(dtype)

    def multinomial(self, probabilities: ArrayLike, num_samples: int, replacement: bool = False) -> NDArray[np.int64]:
        """Indices of categories drawn in proportion to their weights, row by row; weight 0 is never drawn.

        With replacement, from w = word b · num_samples + s: sample s of row b is the first category whose
        cumulative weight (float64, left to right, of weight / the row's largest) exceeds unit(w) · total.
        Without, from w = word b · C + c: the num_samples smallest ln(-ln open(w)) - ln(weight), in that order
        (the exponential race).
        Shape: (C,) → (num_samples,), (B, C) → (B, num_samples)
        """
        weights = np.asarray(probabilities)
        _check_weights(weights, num_samples, replacement)
        rows = weights.astype(np.float64).reshape(math.prod(weights.shape[:-1]), weights.shape[-1])  # (B, C)
        if not rows.size:
            return np.zeros((*weights.shape[:-1], num_samples), np.int64)
        draw = self._with_replacement if replacement else self._without_replacement
        return draw(rows, num_samples).reshape(*weights.shape[:-1], num_samples)

    def _with_replacement(self, weights: NDArray, count: int) -> NDArray[np.int64]:
        cumulative = np.cumsum(weights / weights.max(-1, keepdims=True), axis=-1)  # (B, C)
        u = _unit(self.bits(len(weights) * count)).reshape(-1, count)  # (B, S)
        return _first_above(cumulative, u * cumulative[:, -1:])

    def _without_replacement(self, weights: NDArray, count: int) -> NDArray[np.int64]:
        with np.errstate(divide="ignore"):
            arrival = np.log(_standard_exponential(self.bits(weights.size))).reshape(weights.shape)
            arrival -= np.log(weights)
        first = np.argpartition(arrival, count - 1, axis=-1)[:, :count]  # (B, C) → (B, S)
        order = np.argsort(np.take_along_axis(arrival, first, -1), axis=-1)
        return np.take_along_axis(first, order, -1)

    def _reject(self, attempt: Callable, *parameters: NDArray) -> NDArray:
        """A value for each element: `attempt(blocks, *parameters) → values, accepted` in round 0, 1, ….

        Element i reads block i of this draw, in round r of lane r. An infinite or NaN last parameter is the
        value.
        """
        value = parameters[-1].copy()
        key, offset = self.reserve(BLOCK * len(value))
        for start in range(0, len(value), REJECTION_CHUNK):
            pending = start + np.flatnonzero(np.isfinite(value[start : start + REJECTION_CHUNK]))
            for lane in itertools.count():
                if not pending.size:
                    break
                first, last = int(pending[0]), int(pending[-1])
                span = words(key, offset + BLOCK * first, BLOCK * (last + 1 - first), lane).reshape(-1, BLOCK)
                blocks = (span if len(span) == len(pending) else span[pending - first]).T  # (4, pending)
                proposed, accepted = attempt(blocks, *(parameter[pending] for parameter in parameters))
                value[pending[accepted]] = proposed[accepted]
                pending = pending[~accepted]
        return value


# ---- words -------------------------------------------------------------------------------------------------


class _Engine(threading.local):
    """NumPy's Philox, one a thread: setting its state is five times faster than making a new one."""

    def __init__(self) -> None:
        self.philox = np.random.Philox(key=0)


_engine = _Engine()


def words(key: Key, offset: int, count: int, lane: int = 0, domain: int = STREAM) -> NDArray[np.uint64]:
    """Words offset … offset + count - 1 of a stream: a pure function, whatever the pieces it is asked for in.

    >>> hex(int(words((0, 0), 0, 1)[0]))
    '0x16554d9eca36314c'
    """
    block, skip = divmod(offset, BLOCK)
    before = (block + (lane << 128) + (domain << 192) - 1) % 2**256  # NumPy counts up before each block
    philox = _engine.philox
    philox.state = {
        "bit_generator": "Philox",
        "state": {"counter": [before >> shift & WORD for shift in (0, 64, 128, 192)], "key": key},
        "buffer": (0, 0, 0, 0),
        "buffer_pos": BLOCK,
        "has_uint32": 0,
        "uinteger": 0,
    }
    return philox.random_raw(skip + count)[skip:]


def _as_word(number: int, name: str) -> int:
    """An integer in [-2⁶³, 2⁶⁴), modulo 2⁶⁴."""
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{name} expected an int, but got {type(number).__name__}")
    number = operator.index(number)
    _check(-(2**63) <= number < 2**64, f"{name}: expected an int in [-2**63, 2**64), got {number}")
    return number % 2**64


def _from_key(device: Device, key: Key) -> Generator:
    generator = Generator(device)
    generator._key = key
    return generator


def _restore(device: Device, state: NDArray[np.uint8]) -> Generator:
    generator = Generator(device)
    generator.set_state(state)
    return generator


def _parse_state(state: NDArray[np.uint8]) -> tuple[Key, int]:
    if not isinstance(state, np.ndarray) or state.dtype != np.uint8:
        found = state.dtype if isinstance(state, np.ndarray) else type(state).__name__
        raise TypeError(f"set_state: expected the uint8 array that get_state returned, got {found}")
    expected = f"set_state: expected the ({STATE_BYTES},) bytes that get_state returned"
    _check(state.shape == (STATE_BYTES,), f"{expected}, got shape {state.shape}")
    found, numbers = state.tobytes()[: len(STATE_MAGIC)], state.tobytes()[len(STATE_MAGIC) :]
    _check(found == STATE_MAGIC, f"{expected}, which begin with {STATE_MAGIC!r}; these begin with {found!r}")
    first, second, low, high = (int.from_bytes(numbers[i : i + 8], "little") for i in range(0, 32, 8))
    _check(low % BLOCK == 0, f"{expected}; these have the offset {low}, which is no multiple of {BLOCK}")
    return (first, second), low | high << 64


# ---- from raw bits to numbers ------------------------------------------------------------------------------


def _float_like(raw: NDArray) -> type[np.floating]:
    return np.float64 if raw.itemsize == 8 else np.float32


def _unit(raw: NDArray) -> NDArray:
    """[0, 1), exact: the top 24 bits of 32, or the top 53 of 64."""
    kind, dropped = (np.float64, 11) if raw.itemsize == 8 else (np.float32, 8)
    return np.multiply(raw >> dropped, kind(2.0 ** (dropped - 8 * raw.itemsize)), dtype=kind)


def _open(raw: NDArray) -> NDArray:
    """(0, 1], finest near 0: float(r) · 2⁻ᵇ + 2⁻⁽ᵇ⁺¹⁾."""
    kind, step = _float_like(raw), 2.0 ** (-8 * raw.itemsize)
    u = np.multiply(raw, kind(step), dtype=kind)
    u += kind(step / 2)
    return u


def _signed(raw: NDArray) -> NDArray:
    """[-½, ½], finest near 0, never 0: float(r as a signed integer) · 2⁻ᵇ + 2⁻⁽ᵇ⁺¹⁾."""
    kind, step = _float_like(raw), 2.0 ** (-8 * raw.itemsize)
    u = np.multiply(raw.view(f"i{raw.itemsize}"), kind(step), dtype=kind)
    u += kind(step / 2)
    return u


def _radius(raw: NDArray) -> NDArray:
    r = np.log(_open(raw))
    r *= r.dtype.type(-2)
    return np.sqrt(r, out=r)


def _angle(raw: NDArray) -> NDArray:
    angle = _signed(raw)
    angle *= angle.dtype.type(2 * math.pi)
    return angle


def _box_muller(raw: NDArray) -> NDArray:
    pairs = raw.reshape(-1, 2)  # (2 J,) → (J, 2)
    radius, angle = _radius(pairs[:, 0]), _angle(pairs[:, 1])
    z = np.empty(pairs.shape, radius.dtype)
    np.multiply(radius, np.cos(angle), out=z[:, 0])
    np.multiply(radius, np.sin(angle, out=angle), out=z[:, 1])
    return z.reshape(-1)  # (J, 2) → (2 J,)


def _standard_exponential(raw: NDArray) -> NDArray:
    x = np.log(_open(raw))
    np.negative(x, out=x)
    return np.maximum(x, np.finfo(x.dtype).eps / 4, out=x)


def _multiply_high(w: NDArray[np.uint64], factor: int) -> NDArray[np.uint64]:
    """⌊w · factor / 2⁶⁴⌋ from 32-bit halves, in the memory of w; no sum here passes 2⁶⁴."""
    shift, half = np.uint64(32), np.uint64(HALF)
    low_factor, high_factor = np.uint64(factor & HALF), np.uint64(factor >> 32)
    low = w & half
    w >>= shift
    carry = low * low_factor
    carry >>= shift
    if not high_factor:
        w *= low_factor
        w += carry
        w >>= shift
        return w
    middle = w * low_factor + carry
    w *= high_factor
    w += middle >> shift
    w += (low * high_factor + (middle & half)) >> shift
    return w


def _first_above(cumulative: NDArray, target: NDArray) -> NDArray[np.int64]:
    """The first index where a row of cumulative (B, C) exceeds target (B, S), by bisection of all at once."""
    low = np.zeros(target.shape, np.int64)
    high = np.full(target.shape, cumulative.shape[-1] - 1)
    for _ in range((cumulative.shape[-1] - 1).bit_length()):
        middle = (low + high) // 2
        above = np.take_along_axis(cumulative, middle, -1) > target
        high = np.where(above, middle, high)
        low = np.where(above, low, np.minimum(middle + 1, high))
    return low


# ---- one round of gamma, poisson, binomial: blocks (4, N), parameters (N,) → values (N,), accepted (N,) --


def _gamma_round(blocks: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
    d = np.where(alpha < 1, alpha + 1, alpha) - 1 / 3
    z = _radius(blocks[0]) * np.cos(_angle(blocks[1]))
    y = z / np.sqrt(9 * d)
    excess = y * (3 + y * (3 + y))  # v - 1 for v = (1 + y)³
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        accepted = np.log(_open(blocks[2])) < 0.5 * z * z + d * (np.log1p(excess) - excess)  # False where v ≤ 0
        value = d * (1 + excess)
        small = np.flatnonzero(alpha < 1)
        value[small] *= _open(blocks[3, small]) ** (1 / alpha[small])
    return value, accepted


def _poisson_round(blocks: NDArray, mean: NDArray) -> tuple[NDArray, NDArray]:
    return _by_size(mean < INVERSION_LIMIT, _poisson_inverse, _poisson_transformed, blocks, mean)


def _binomial_round(blocks: NDArray, n: NDArray, p: NDArray) -> tuple[NDArray, NDArray]:
    return _by_size(n * p < INVERSION_LIMIT, _binomial_inverse, _binomial_transformed, blocks, n, p)


def _by_size(small: NDArray, inverse: Callable, transformed: Callable, *arguments: NDArray) -> tuple[NDArray, NDArray]:
    """`inverse`, whose values are final, where small; a round of `transformed` elsewhere."""
    if not small.any():
        return transformed(*arguments)
    value, accepted = np.empty(small.shape), small.copy()
    value[small] = inverse(*(argument[..., small] for argument in arguments))
    value[~small], accepted[~small] = transformed(*(argument[..., ~small] for argument in arguments))
    return value, accepted


def _poisson_inverse(blocks: NDArray, mean: NDArray) -> NDArray:
    return _invert(_unit(blocks[0]), np.exp(-mean), lambda k: mean / k)


def _binomial_inverse(blocks: NDArray, n: NDArray, p: NDArray) -> NDArray:
    none, odds = np.exp(n * np.log1p(-p)), p / (1 - p)
    return np.minimum(_invert(_unit(blocks[0]), none, lambda k: (n + 1 - k) / k * odds), n)


def _poisson_transformed(blocks: NDArray, mean: NDArray) -> tuple[NDArray, NDArray]:
    """Hörmann's PTRS."""
    b = 0.931 + 2.53 * np.sqrt(mean)
    a = -0.059 + 0.02483 * b
    k, v, margin = _transform(blocks, a, b, mean + 0.43)
    accepted = (margin >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    rest = np.flatnonzero(~accepted & (k >= 0))
    k_rest, mean, scale = k[rest], mean[rest], 1.1239 + 1.1328 / (b[rest] - 3.4)
    bound = -_deviance(k_rest, mean) - _stirling_remainder(k_rest)
    accepted[rest] = np.log(v[rest] * scale / _slope(a[rest], b[rest], margin[rest])) <= bound
    return k, accepted


def _binomial_transformed(blocks: NDArray, n: NDArray, p: NDArray) -> tuple[NDArray, NDArray]:
    """Hörmann's BTRS, 0 < p ≤ ½."""
    deviation = np.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    k, v, margin = _transform(blocks, a, b, n * p + 0.5)
    accepted = (margin >= 0.07) & (v <= 0.92 - 4.2 / b)
    rest = np.flatnonzero(~accepted & (k >= 0) & (k <= n))
    n, p, scale = n[rest], p[rest], (2.83 + 5.1 / b[rest]) * deviation[rest]
    bound = _binomial_log(k[rest], n, p) - _binomial_log(np.floor((n + 1) * p), n, p)
    accepted[rest] = np.log(v[rest] * scale / _slope(a[rest], b[rest], margin[rest])) <= bound
    return k, accepted


def _transform(blocks: NDArray, a: NDArray, b: NDArray, centre: NDArray) -> tuple[NDArray, ...]:
    """The proposal k = ⌊(2a / s + b) U + centre⌋, V, and the margin s = ½ - |U|."""
    u = _signed(blocks[0])
    margin = np.maximum(0.5 - np.abs(u), 2.0**-54)
    return np.floor((2 * a / margin + b) * u + centre), _open(blocks[1]), margin


def _slope(a: NDArray, b: NDArray, margin: NDArray) -> NDArray:
    """The slope of the transformation, by which its density falls."""
    return a / (margin * margin) + b


def _invert(u: NDArray, probability: NDArray, ratio: Callable[[int], NDArray]) -> NDArray:
    """The number of k with P(X ≤ k) ≤ u, from P(X = 0) and ratio(k) = P(X = k) / P(X = k - 1)."""
    count, cumulative = np.zeros(u.shape), probability.copy()
    for k in itertools.count(1):
        above = (u >= cumulative) & (probability > 2.0**-60)  # far in the tail rounding keeps the sum below u
        if not above.any():
            return count
        count += above
        probability = probability * ratio(k)
        cumulative += probability


def _deviance(k: NDArray, mean: NDArray) -> NDArray:
    """k ln(k / mean) + mean - k, without cancellation where k is near a large mean."""
    x = (k - mean) / mean
    return mean * (xlog1py(1 + x, x) - x)


def _stirling_remainder(k: NDArray) -> NDArray:
    """ln k! - (k ln k - k), 0 at 0: a table below 16, then ½ ln 2πk + 1/12k - 1/360k³."""
    small = np.minimum(k, 15.0).astype(np.int64)
    large = np.maximum(k, 16.0)
    series = 0.5 * np.log(2 * math.pi * large) + (1 / 12 - 1 / (360 * large * large)) / large
    return np.where(k < 16, STIRLING_TABLE[small], series)


def _binomial_log(k: NDArray, n: NDArray, p: NDArray) -> NDArray:
    """ln P(X = k) up to a constant (Loader 2000)."""
    remainders = _stirling_remainder(k) + _stirling_remainder(n - k)
    return -remainders - _deviance(k, n * p) - _deviance(n - k, n * (1 - p))


# ---- shapes, dtypes, checks --------------------------------------------------------------------------------


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise RandomError(message)


def _check_all(good: ArrayLike, values: ArrayLike, expectation: str) -> None:
    good = np.asarray(good)
    if not good.all():
        raise RandomError(f"{expectation}, but found {np.asarray(values)[~good].flat[0]}")


def _shape(shape: Shape) -> tuple[int, ...]:
    sizes = (shape,) if hasattr(shape, "__index__") else tuple(shape)
    sizes = tuple(operator.index(size) for size in sizes)
    for size in sizes:
        _check(size >= 0, f"Trying to create tensor with negative dimension {size}: {list(sizes)}")
    return sizes


def _floating(dtype: DTypeLike, name: str, complex_too: bool = False) -> np.dtype:
    dtype = np.dtype(dtype)
    if dtype in FLOATS or (complex_too and dtype in (np.complex64, np.complex128)):
        return dtype
    known = ", ".join(str(kind) for kind in FLOATS)
    raise DtypeError(f'"{name}" not implemented for {dtype}: expected one of {known}')


def _wide(dtype: np.dtype) -> np.dtype:
    """The dtype that numbers of this dtype are computed in."""
    return dtype if dtype == np.float64 else np.dtype(np.float32)


def _part(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32 if dtype == np.complex64 else np.float64)


def _join_parts(parts: NDArray, dtype: np.dtype) -> NDArray:
    return np.ascontiguousarray(parts).view(dtype)[..., 0]  # (…, 2) → (…, 1) → (…)


def _affine(z: NDArray, mean: ArrayLike, std: ArrayLike) -> NDArray:
    """mean + std · z, in place."""
    if np.ndim(std) or std != 1:
        z *= np.asarray(std, z.real.dtype)
    if np.ndim(mean) or mean != 0:
        z += np.asarray(mean, z.dtype)
    return z


def _round(x: NDArray, dtype: np.dtype) -> NDArray:
    with np.errstate(over="ignore"):
        return np.asarray(x).astype(dtype, copy=False)


def _saturate(x: NDArray, dtype: np.dtype) -> NDArray:
    """Whole float64 numbers ≥ 0 as dtype; those beyond an integer dtype become its largest number."""
    if dtype.kind not in "iu":
        return _round(x, dtype)
    largest = np.iinfo(dtype).max
    fits = x < float(largest)
    return np.where(fits, np.where(fits, x, 0.0).astype(dtype), dtype.type(largest))


def _result_dtype(dtype: DTypeLike | None, name: str, *parameters: ArrayLike, any_kind: bool = False) -> np.dtype:
    """The dtype asked for, or that of the floating arrays among the parameters, or float32."""
    if dtype is not None:
        return np.dtype(dtype) if any_kind else _floating(dtype, name)
    found = [p.dtype for p in parameters if isinstance(p, np.ndarray) and p.dtype in FLOATS]
    return np.result_type(*found) if found else np.dtype(np.float32)


def _parameters(*parameters: ArrayLike) -> tuple[tuple[int, ...], list[NDArray]]:
    """The common shape, and each parameter in float64, broadcast to it and flat."""
    arrays = np.broadcast_arrays(*(np.asarray(parameter, np.float64) for parameter in parameters))
    return arrays[0].shape, [np.ascontiguousarray(array).reshape(-1) for array in arrays]


def _largest_integer(dtype: np.dtype) -> int:
    """The largest n such that dtype holds 0, 1, …, n."""
    if dtype == np.bool_:
        return 1
    return int(np.iinfo(dtype).max) if dtype.kind in "iu" else FLOATS[_floating(dtype, "random_")].exact


def _check_integers(first: int, last: int, dtype: np.dtype) -> None:
    smallest, largest = _integer_limits(dtype)
    _check(first >= smallest, f"from={first} is out of bounds for {dtype}, whose smallest value is {smallest}")
    _check(last <= largest, f"to - 1={last} is out of bounds for {dtype}, whose largest value is {largest}")
    if dtype in FLOATS and max(-first, last) > FLOATS[dtype].exact:
        exact = FLOATS[dtype].exact
        message = f"integers from {first} to {last}: {dtype} holds every integer only in [-{exact}, {exact}]"
        warnings.warn(message, stacklevel=4)


def _integer_limits(dtype: np.dtype) -> tuple[int, int]:
    """The integers that `integers` may draw: a dtype's own, within those of 64 bits."""
    if dtype in FLOATS:
        largest = int(min(FLOATS[dtype].largest, 2**63 - 1))
        return max(-largest, -(2**63)), largest
    largest = _largest_integer(dtype)
    return 0 if dtype == np.bool_ else int(np.iinfo(dtype).min), largest


def _check_bounds(low: float, high: float, dtype: np.dtype) -> None:
    largest = FLOATS[dtype].largest
    if -largest <= low <= high <= largest and high - low <= largest:
        return
    _check(abs(low) <= largest, f"uniform_: from={low} is out of bounds for {dtype}")
    _check(abs(high) <= largest, f"uniform_: to={high} is out of bounds for {dtype}")
    _check(low <= high, f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}")
    raise RandomError(f"uniform_ expects to-from <= {largest}, but found to={high} and from={low}")


def _check_weights(weights: NDArray, num_samples: int, replacement: bool) -> None:
    _check(weights.ndim in (1, 2), f"prob_dist must be 1 or 2 dim, got shape {weights.shape}")
    if weights.dtype not in FLOATS:
        raise DtypeError(f"multinomial only supports floating-point dtypes for input, got: {weights.dtype}")
    _check(num_samples > 0, f"cannot sample n_sample <= 0 samples, got {num_samples}")
    if not replacement and num_samples > weights.shape[-1]:
        found = f"{num_samples} from shape {weights.shape}"
        raise RandomError(f"cannot sample n_sample > prob_dist.size(-1) samples without replacement: {found}")
    valid = (weights >= 0) & (weights < np.inf)
    _check_all(valid, weights, "probability tensor contains either `inf`, `nan` or element < 0")
    drawable = np.count_nonzero(weights, axis=-1)
    _check(np.all(drawable > 0), "invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement:
        few = f"invalid multinomial distribution (n_sample={num_samples} without replacement needs as many"
        _check_all(drawable >= num_samples, drawable, f"{few} categories of non-zero probability)")


# ---- the generator that functions use when none is given ---------------------------------------------------

default_generator = Generator()
default_generator.seed()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator, and return it."""
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generator from the operating system, and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> NDArray[np.uint8]:
    """The state of the default generator."""
    return default_generator.get_state()


def set_rng_state(new_state: NDArray[np.uint8]) -> None:
    """Return the default generator to a state from `get_rng_state`."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Sequence | None = None, enabled: bool = True) -> Iterator[None]:
    """Give the default generator its state back at the end of the block, also after an error.

    `devices` is PyTorch's; one generator serves every device here, so it changes nothing.

    >>> start = manual_seed(0).offset
    >>> with fork_rng():
    ...     _ = default_generator.uniform(100)
    >>> default_generator.offset == start
    True
    """
    state = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state)
