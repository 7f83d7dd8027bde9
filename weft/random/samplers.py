"""Numbers of many distributions from the words of a stream; `weft/random/__init__.py` says which words make which."""

import itertools
import math
import operator
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..errors import DtypeError
from .bits import _box_muller, _first_above, _multiply_high, _open, _signed, _standard_exponential, _unit
from .checks import (
    FLOATS,
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
from .rejection import _binomial_round, _gamma_round, _poisson_round
from .stream import BLOCK, Key, words

__all__ = ["Samplers"]

REJECTION_CHUNK = 16384  # elements whose rounds are run together, so that the work stays in cache


class Samplers:
    """What a `Generator` can draw; it says which words are next, by `reserve`."""

    def reserve(self, count: int) -> tuple[Key, int]:
        """Take `count` words out of the stream: the key and the offset of the first."""
        raise NotImplementedError

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

        >>> from weft.random import Generator
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
