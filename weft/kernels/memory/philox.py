"""Random numbers: Philox4x64-10 streams, bit-equal to `weft.random` for any number of threads and any vector width.

The state of a stream comes in memory, four words of 64 bits: the two words of the key, then the number of the first
block as low and high word. `stream_state(*generator.reserve(kernel.words))` makes them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...random.gaussian import DOUBLE, SINGLE, normal_pair
from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.values import LLVM_TYPES, Val

__all__ = ["RandomFill"]

WORD = 2**64 - 1
BLOCK = 4  # words of a block
CHUNK = 64  # blocks that wait on the stack
ROUNDS = 10
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)


def stream_state(key: tuple[int, int], offset: int) -> np.ndarray:
    """The four words that a kernel reads: the key and the number of the first block."""
    block = offset // BLOCK
    return np.array([*key, block & WORD, block >> 64], np.uint64)


class Philox:
    """The blocks of a stream as vectors, in a function being written; lane b of a batch is its block b.

    Where no instruction multiplies vectors of 64-bit integers, every round waits for a chain of them: meanwhile other units of
    the processor compute one more block. Both wait on the stack for the last of some batches.
    """

    def __init__(self, f: Function, state: Val) -> None:
        self.f, self.wide = f, f.target.long_products
        self.lanes = f.target.lanes(np.uint64) * (2 if self.wide else 1)  # rounds overlap
        self.key = [f.load(state, i, "u64") for i in (0, 1)]
        self.low, self.high = f.load(state, 2, "u64"), f.load(state, 3, "u64")
        self.waiting = None if self.wide else f.stack("u64", BLOCK * (CHUNK + self.lanes))

    def batches(self, lo: Val, hi: Val) -> Iterator[tuple[Val, list[Val]]]:
        """The number of each batch from lo to hi, and its words in the order of the stream: four vectors."""
        f, lanes = self.f, self.lanes
        if self.wide:
            with f.loop(lo, hi) as loop:
                first = self._first(loop.i * lanes, lanes)
                with f.loop(0, ROUNDS, carry=[*first, *(f.splat(k, lanes) for k in self.key)], runs=True) as round:
                    *words, k, m = round.carry
                    round.next([*mix(words, k, m), k + WEYL[0], m + WEYL[1]])
                yield loop.i, self._in_order(round.results[:BLOCK])
            return
        with f.loop(lo, hi, CHUNK // lanes) as some:
            end = f.intrinsic("smin", some.i + CHUNK // lanes, hi)
            with f.loop(some.i * lanes, end * lanes, lanes + 1, runs=True) as block:
                self._write(block.i, (block.i - some.i * lanes) * BLOCK)
            with f.loop(some.i, end, runs=True) as loop:
                place = (loop.i - some.i) * (BLOCK * lanes)
                yield loop.i, [f.load(self.waiting, place + i * lanes, "u64", lanes) for i in range(BLOCK)]

    def _write(self, block: Val, place: Val) -> None:
        """The words of `lanes` blocks and of the next one to the stack."""
        f, lanes = self.f, self.lanes
        states = [self._first(block, lanes), self._first(block + lanes, 1)]
        for i in range(ROUNDS):
            k, m = (key + (step * i & WORD) for key, step in zip(self.key, WEYL, strict=True))
            states = [mix(words, f.splat(k, words[0].lanes), f.splat(m, words[0].lanes)) for words in states]
        for i, (vector, word) in enumerate(zip(self._in_order(states[0]), states[1], strict=True)):
            f.store(vector, self.waiting, place + i * lanes)
            f.store(word, self.waiting, place + (BLOCK * lanes + i))

    def _first(self, block: Val, lanes: int) -> list[Val]:
        """What the first round of some blocks starts from: their numbers, of 128 bits each."""
        f = self.f
        first = f.splat(self.low + f.cast(block, "u64"), lanes)
        first = first + f.iota("u64", lanes) if lanes > 1 else first
        zero = f.const("u64", 0, lanes)
        return [first, f.cast(first < self.low, "u64") + self.high, zero, zero]

    def _in_order(self, words: list[Val]) -> list[Val]:
        """Vectors with one word of many blocks as vectors with all words of one block after the other."""
        f, lanes, (a, b, c, d) = self.f, self.lanes, words
        front, back = f.shuffle(a, b, range(2 * lanes)), f.shuffle(c, d, range(2 * lanes))
        place = [(w % BLOCK) * lanes + w // BLOCK for w in range(BLOCK * lanes)]
        return [f.shuffle(front, back, place[i : i + lanes]) for i in range(0, BLOCK * lanes, lanes)]


def mix(words: list[Val], k: Val, m: Val) -> list[Val]:
    """One round with its two words of the key."""
    a, b, c, d = words
    (high_a, low_a), (high_c, low_c) = (multiply(x, factor) for x, factor in zip((a, c), MULTIPLIERS, strict=True))
    return [high_c ^ b ^ k, low_c, high_a ^ d ^ m, low_a]


def multiply(x: Val, factor: int) -> tuple[Val, Val]:
    """The high and the low half of x · factor, of u64."""
    if x.lanes > 1:
        return multiply_whole(x, factor)
    whole = x.f.cast(x, "u128") * factor
    return x.f.cast(whole >> 64, "u64"), x.f.cast(whole, "u64")


def multiply_whole(x: Val, factor: int) -> tuple[Val, Val]:
    """High and low word of x · factor, u64 each, from four products of halves; no sum here passes 2⁶⁴."""
    half = 2**32 - 1
    low, high, low_factor, high_factor = x & half, x >> 32, factor & half, factor >> 32
    least = low * low_factor
    middle = high * low_factor + (least >> 32)
    other = low * high_factor + (middle & half)
    return high * high_factor + (middle >> 32) + (other >> 32), (other << 32) | (least & half)


def multiply_high(x: Val, factor: int) -> Val:
    """⌊x · factor / 2⁶⁴⌋ of u64; a factor below 2³² needs two products."""
    half = 2**32 - 1
    if factor > half:
        return multiply_whole(x, factor)[0]
    return ((x >> 32) * factor + (((x & half) * factor) >> 32)) >> 32


# ----------------------------------------------------------------------------------- from words to numbers


class Exact:
    """A vector of floats or integers whose operators round after each operation and are never contracted."""

    __array_ufunc__ = None

    def __init__(self, value: Val) -> None:
        self.value = value

    def _with(self, name: str, other: Any, swap: bool = False) -> Exact:
        f = self.value.f
        a, b = f.pair(self.value, other.value if isinstance(other, Exact) else other)
        a, b = (b, a) if swap else (a, b)
        name = {"div": "fdiv", "and": "and", "shr": "ashr"}.get(name) or ("f" if a.is_float else "") + name
        return Exact(f.emit(f"{name} {a.typed}, {b.ir}", a.kind, a.lanes))

    def __add__(self, other: Any) -> Exact:
        return self._with("add", other)

    def __sub__(self, other: Any) -> Exact:
        return self._with("sub", other)

    def __rsub__(self, other: Any) -> Exact:
        return self._with("sub", other, swap=True)

    def __mul__(self, other: Any) -> Exact:
        return self._with("mul", other)

    def __truediv__(self, other: Any) -> Exact:
        return self._with("div", other)

    def __and__(self, other: Any) -> Exact:
        return self._with("and", other)

    def __rshift__(self, other: Any) -> Exact:
        return self._with("shr", other)

    def __ne__(self, other: Any) -> Exact:
        return Exact(self.value.ne(other))

    __hash__ = object.__hash__


class ExactArithmetic:
    """The functions that `random/gaussian.py` asks for, on vectors of one floating type."""

    def __init__(self, kind: str) -> None:
        self.kind, self.constants = kind, SINGLE if kind == "f32" else DOUBLE

    def number(self, value: float) -> float:
        return value

    def bits(self, x: Exact) -> Exact:
        return Exact(x.value.f.bitcast(x.value, self.constants.integer))

    def from_bits(self, x: Exact) -> Exact:
        return Exact(x.value.f.bitcast(x.value, self.kind))

    def floating(self, x: Exact) -> Exact:
        return Exact(x.value.f.cast(x.value, self.kind))

    def integral(self, x: Exact) -> Exact:
        to = f"<{x.value.lanes} x {LLVM_TYPES[self.constants.integer]}>"
        return Exact(x.value.f.emit(f"fptosi {x.value.typed} to {to}", self.constants.integer, x.value.lanes))

    def sqrt(self, x: Exact) -> Exact:
        return Exact(x.value.f.intrinsic("sqrt", x.value))

    def rint(self, x: Exact) -> Exact:
        return Exact(x.value.f.intrinsic("rint", x.value))

    def where(self, condition: Exact, yes: Exact, no: Exact) -> Exact:
        return Exact(yes.value.f.select(condition.value, yes.value, no.value))


def _halves(words: list[Val]) -> list[Val]:
    """Vectors of u64 as vectors of twice as many u32, the low half of each word first."""
    f, lanes = words[0].f, words[0].lanes
    return [f.emit(f"bitcast {w.typed} to <{2 * lanes} x i32>", "u32", 2 * lanes) for w in words]


def _unit(raw: Val, kind: str) -> Exact:
    """[0, 1): the leading bits that the type holds exactly."""
    width, dropped = (32, 8) if kind == "f32" else (64, 11)
    return Exact(raw.f.cast(raw >> dropped, kind)) * 2.0 ** (dropped - width)


def _scaled(raw: Val, kind: str, signed: bool) -> Exact:
    """float(r) · 2⁻ᵇ + 2⁻⁽ᵇ⁺¹⁾, r with or without sign."""
    f, width = raw.f, 32 if kind == "f32" else 64
    whole = f.cast(f.cast(raw, f"{'i' if signed else 'u'}{width}"), kind)
    return Exact(whole) * 2.0**-width + 2.0 ** -(width + 1)


def _uniforms(raw: list[Val], kind: str, low: float, high: float) -> list[Val]:
    dtype = np.dtype(kind.replace("f", "float")).type
    drawn = [_unit(r, kind) for r in raw]
    if (low, high) != (0, 1):
        most = float(np.nextafter(dtype(high), dtype(low)))
        drawn = [u * float(dtype(high - low)) + float(dtype(low)) for u in drawn]
        drawn = [Exact(u.value.f.select(u.value < most, u.value, most)) for u in drawn]
    return [u.value for u in drawn]


def _normals(raw: list[Val], kind: str, mean: float, std: float) -> list[Val]:
    """Neighbouring numbers share a pair of raw ones, so two vectors make two vectors."""
    f, found, arithmetic = raw[0].f, [], ExactArithmetic(kind)
    dtype = np.dtype(kind.replace("f", "float")).type
    for one, two in zip(raw[::2], raw[1::2], strict=True):
        lanes = one.lanes
        even, odd = (f.shuffle(one, two, range(phase, 2 * lanes, 2)) for phase in (0, 1))
        pair = normal_pair(arithmetic, _scaled(even, kind, signed=False), _scaled(odd, kind, signed=True))
        if std != 1:
            pair = [z * float(dtype(std)) for z in pair]
        if mean != 0:
            pair = [z + float(dtype(mean)) for z in pair]
        turns = [i // 2 + lanes * (i % 2) for i in range(2 * lanes)]
        found += [f.shuffle(pair[0].value, pair[1].value, turns[i : i + lanes]) for i in (0, lanes)]
    return found


def _integers(words: list[Val], low: int, high: int) -> list[Val]:
    return [w.f.cast(multiply_high(w, high - low) + low, "i64" if low < 0 else "u64") for w in words]


# ------------------------------------------------------------------------------------------------- kernel


class RandomFill(Kernel):
    """Draws `count` elements in C order and hands each to `body` (index space: (element,), given: the number drawn).

    sampler    parameters                given[0]
    uniform    () or (low, high)         `kind` f32 or f64, in [low, high)
    normal     () or (mean, std)         `kind` f32 or f64
    bernoulli  (probability,) or ()      i1; without parameter the probability of each element is read from
                                         `probability` (an f32 or f64 Access over (element,))
    integers   (low, high)               in [low, high): i64, or u64 where low ≥ 0

    `words` is how many words of the stream the draw reserves. Argument word `state` holds the address of the four words
    that `stream_state` makes; `body` and `probability` name their own.
    """

    def __init__(
        self,
        count: int,
        sampler: str,
        kind: str,
        body: Body,
        state: int = 0,
        parameters: tuple[float, ...] = (),
        probability: Access | None = None,
    ) -> None:
        self.count, self.sampler, self.kind, self.body, self.state = count, sampler, kind, body, state
        defaults = {"uniform": (0.0, 1.0), "normal": (0.0, 1.0)}
        self.parameters, self.probability = parameters or defaults.get(sampler, ()), probability
        self.in_halves = sampler == "bernoulli" or (sampler != "integers" and kind == "f32")
        drawn = count + count % 2 if sampler == "normal" else count
        self.words = math.ceil(drawn / 2) if self.in_halves else drawn
        self.flops = count * {"normal": 60}.get(sampler, 20)
        self.nbytes = count * sum(8 if a.kind[-2:] == "64" else 4 for a, _ in body.stores)

    def key(self) -> str:
        sampling = f"{self.sampler}{self.kind}{self.parameters}{self.probability}"
        return f"RandomFill {self.count} {sampling} {self.state} {self.body.key()}"

    def emit(self, f: Function) -> None:
        stream = Philox(f, f.arg(self.state))
        lanes = stream.lanes * (2 if self.in_halves else 1)
        batch = BLOCK * lanes  # the elements that four vectors of words make
        full, rest = divmod(self.count, batch)
        lo, hi = f.split(-(-self.count // batch))
        for number, words in stream.batches(lo, hi):
            numbers = self._numbers(_halves(words) if self.in_halves else words)
            if not rest:
                self._hand_on(f, numbers, number * batch, lanes, batch)
            else:
                with f.when(number < full):
                    self._hand_on(f, numbers, number * batch, lanes, batch)
                with f.when(number >= full):
                    self._hand_on(f, numbers, number * batch, lanes, rest)

    def _numbers(self, raw: list[Val]) -> list[Val]:
        """The numbers made from raw bits; still these bits where each element has its own probability."""
        if self.sampler == "uniform":
            return _uniforms(raw, self.kind, *self.parameters)
        if self.sampler == "normal":
            return _normals(raw, self.kind, *self.parameters)
        if self.sampler == "integers":
            return _integers(raw, *self.parameters)
        return [_is_below(r, *self.parameters) for r in raw] if self.parameters else raw

    def _hand_on(self, f: Function, numbers: list[Val], start: Val, lanes: int, count: int) -> None:
        """`count` of the numbers to the body."""
        for i, number in enumerate(numbers[: -(-count // lanes)]):
            place, mask = start + i * lanes, None
            if count < (i + 1) * lanes:
                mask = f.tail_mask(lanes, count - i * lanes)
            if self.probability is not None:
                number = _is_below(number, self.probability.load(f, (place,), 0, lanes, mask))
            self.body.emit(f, (place,), 0, lanes, mask, given=[number])


def _is_below(raw: Val, probability: Any) -> Val:
    """r < round(p · 2³²): of a number in u32, of a vector in float64, which holds both sides."""
    f = raw.f
    if isinstance(probability, Val):
        limit = f.intrinsic("rint", (Exact(probability) * 2.0**32).value)
        return f.cast(raw, "f64") < f.splat(f.cast(limit, "f64"), raw.lanes)
    limit = round(probability * 2.0**32)  # halves to even, as np.rint
    return raw < limit if limit < 2**32 else f.const("i1", True, raw.lanes)
