"""Elements as integers in the order of sorting, and what is sorted: keys with the places they came from.

NaN is the largest number and all NaNs are equal, −0.0 equals 0.0. Equal elements are told apart by their places, so that
no two entries are equal and every way of sorting is a stable one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..llvm.builder import Function
from ..llvm.values import BITS, Val

__all__ = [
    "PLACE_BITS",
    "WIDTH",
    "Entries",
    "key_bits",
    "key_kind",
    "key_of",
    "lane_bits",
    "nan_key",
    "set_bits",
    "words_of",
]

WIDTH = 64  # bits of a word of an entry
PLACE_BITS = 32


def key_kind(kind: str) -> str:
    """The integer type of the keys of elements."""
    return "i64" if BITS[kind] == 64 else "i32"


def key_bits(kind: str) -> int:
    """How many low bits of a key differ between elements."""
    return max(8, BITS[kind])


def key_of(f: Function, x: Val, descending: bool = False) -> Val:
    """An integer for each element, in the same order or in the opposite one.

    Types of 8 and 16 bits have keys from 0 on; wider ones use all of the signed numbers.
    """
    kind, bits = key_kind(x.kind), BITS[x.kind]
    if x.is_float:
        plain = f.bitcast(f.select(x.eq(0), 0.0, x), kind)  # one bit pattern for both zeros
        key = plain ^ ((plain >> (bits - 1)) & nan_key(x.kind))  # the magnitude of negative numbers the other way round
        key = f.select(x.ne(x), nan_key(x.kind), key)
    elif bits < 32:
        key = f.cast(x, kind) + (1 << (bits - 1) if x.is_signed and bits > 1 else 0)
    else:
        key = f.cast(x, kind) ^ (0 if x.is_signed else -1 << (bits - 1))
    if not descending:
        return key
    return (1 << key_bits(x.kind)) - 1 - key if bits < 32 else ~key


def nan_key(kind: str) -> int:
    """The key of NaN in ascending order: the largest there is."""
    return (1 << (BITS[kind] - 1)) - 1


def lane_bits(f: Function, mask: Val) -> Val:
    """One bit (of an i64) for each lane, the first lowest."""
    if mask.lanes == 1:
        return f.cast(mask, "i64")
    bits = f.emit(f"bitcast {mask.typed} to i{mask.lanes}", "i64").ir
    return f.emit(f"zext i{mask.lanes} {bits} to i64", "i64")


@contextmanager
def set_bits(f: Function, bits: Val) -> Iterator[Val]:
    """A loop over the places of the bits that are set, from the lowest on."""
    with f.loop(0, f.intrinsic("ctpop", bits), carry=[bits]) as loop:
        left = loop.carry[0]
        yield f.call("llvm.cttz.i64", "i64", 1, left, f.const("i1", True))
        loop.next([left & (left - 1)])


class Entries:
    """Entries of lines whose elements have type `kind`: one 64-bit word (key, place), or two words if keys need all bits.

    An entry is a list of words, of any number of lanes.
    """

    def __init__(self, f: Function, kind: str) -> None:
        self.f, self.kind = f, kind
        self.words = words_of(kind)

    def make(self, key: Val, place: Val) -> list[Val]:
        """An entry from its key and its place (i64)."""
        wide = self.f.cast(key, "i64")
        return [wide, self.f.splat(place, wide.lanes)] if self.words == 2 else [(wide << PLACE_BITS) | place]

    def last(self, lanes: int) -> list[Val]:
        """An entry after all others."""
        return [self.f.const("i64", (1 << (WIDTH - 1)) - 1, lanes)] * self.words

    def key(self, entry: Sequence[Val]) -> Val:
        """The key as i64."""
        return entry[0] if self.words == 2 else entry[0] >> PLACE_BITS

    def place(self, entry: Sequence[Val]) -> Val:
        """The place as i64."""
        return entry[1] if self.words == 2 else entry[0] & ((1 << PLACE_BITS) - 1)

    def is_nan(self, key: Val) -> Val:
        """Whether this is the key of NaN (ascending order)."""
        if self.kind in ("f32", "f64"):
            return key.eq(nan_key(self.kind))
        return self.f.const("i1", False, key.lanes)

    def ordered(self, a: Sequence[Val], b: Sequence[Val]) -> tuple[list[Val], list[Val]]:
        """The smaller and the larger of two entries, lane by lane."""
        f = self.f
        if self.words == 1:
            return [f.intrinsic("smin", a[0], b[0])], [f.intrinsic("smax", a[0], b[0])]
        swap = (b[0] < a[0]) | (b[0].eq(a[0]) & (b[1] < a[1]))
        pairs = list(zip(a, b, strict=True))
        return [f.select(swap, y, x) for x, y in pairs], [f.select(swap, x, y) for x, y in pairs]

    def load(self, memory: Val, number: Val, lanes: int = 1) -> list[Val]:
        """Entry `number` (of each of so many lines) in memory."""
        start = number * (self.words * lanes)
        return [self.f.load(memory, start + w * lanes, "i64", lanes) for w in range(self.words)]

    def store(self, entry: Sequence[Val], memory: Val, number: Val) -> None:
        lanes = entry[0].lanes
        start = number * (self.words * lanes)
        for w, word in enumerate(entry):
            self.f.store(word, memory, start + w * lanes)


def words_of(kind: str) -> int:
    """The 64-bit words of an entry."""
    return 2 if BITS[kind] == 64 else 1
