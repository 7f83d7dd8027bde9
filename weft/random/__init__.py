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
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..device import device as Device
from ..errors import DtypeError
from .bits import (
    _box_muller,
    _first_above,
    _multiply_high,
    _open,
    _signed,
    _standard_exponential,
    _unit,
)
from .checks import (
    FLOATS,
    RandomError,
    Shape,
    _affine,
    _check,
    _check_all,
    _check_bounds,
    _check_integers,
    _check_weights,
    _floating,
    _join_parts,
    _largest_integer,
    _parameters,
    _part,
    _result_dtype,
    _round,
    _saturate,
    _shape,
    _wide,
)
from .rejection import (
    _binomial_round,
    _gamma_round,
    _poisson_round,
)

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

DEFAULT_SEED = 67280421310721  # PyTorch's
BLOCK = 4  # words of one Philox block
STREAM, FOLD = 0, 1  # domains: the last word of the counter
STATE_MAGIC = b"WEFTRNG1"
STATE_BYTES = len(STATE_MAGIC) + 16 + 16  # magic, key, offset; little-endian
REJECTION_CHUNK = 16384  # elements whose rounds are run together, so that the work stays in cache

WORD, HALF = 2**64 - 1, 2**32 - 1

_lock = threading.RLock()  # guards the key and offset of every generator, for nanoseconds at a time
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


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
