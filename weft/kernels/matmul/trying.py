"""Tilings of a product measured against the usual one: what `weft tune` does.

The kernels of one product run in turns on operands that do not stay in the second level of the cache from one run to the
next, as in a plan. What seems fastest is measured once more, and counts only if it gives the same bits.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...runtime import native, tuned
from ..body import Access, Body
from ..llvm import jit
from ..llvm.target import LINE, Target
from ..llvm.values import BITS
from ..pool import get_pool
from .product import PLANNED, Product, Tiling, accesses
from .tuning import Choice, cut, name

__all__ = ["Trial", "candidates", "layouts", "planned", "try_all"]

TILES = {  # rows × vectors that leave room for a row of B and an element of A, by the number of registers
    16: ((6, 2), (4, 3), (5, 2), (4, 2), (12, 1), (8, 1)),
    32: ((6, 4), (5, 4), (8, 3), (7, 3), (14, 2), (12, 2), (10, 2), (8, 2), (14, 1), (24, 1)),
}
RUN = 4e-4  # seconds of one measurement
TURNS, MORE_TURNS = 5, 15  # measurements of each tiling, and of the two that are left
GAIN = 1.03  # what a tiling must be faster by to be kept
LEAST = 200_000  # operations below which no tiling makes a difference
COPIES = 12  # sets of operands at most


@dataclass(frozen=True)
class Trial:
    """What came of one product: seconds with the usual tiling and with the best one, which is None if that is the same."""

    product: Product
    before: float
    after: float
    choice: Choice | None
    tried: int

    @property
    def gain(self) -> float:
        """How many times faster."""
        return self.before / self.after


def planned() -> list[Product]:
    """The products of the plans that this process has made, without their choices, the largest first; none in bfloat16."""
    large = [p for p, _ in PLANNED.values() if p.flops >= LEAST and not p.narrow]
    found = {name(p): p for p in large if min(*p.a, *p.b, *_strides(p)) >= 0}
    return sorted(found.values(), key=lambda p: -p.flops)


def layouts(m: int, n: int, k: int) -> list[Product]:
    """The three products of a linear layer in float32 for m rows, k inputs and n outputs: x Wᵀ, g W and gᵀ x."""
    sizes = {"x Wᵀ": (m, n, k, (k, 1), (1, k)), "g W": (m, k, n, (n, 1), (k, 1)), "gᵀ x": (n, k, m, (1, n), (k, 1))}

    def made(m: int, n: int, k: int, a: tuple[int, int], b: tuple[int, int]) -> Product:
        return Product("f32", (), m, n, k, a, b, Body(("f32",), stores=((Access(2, "f32", (n, 1)), 0),)))

    return [made(*given) for given in sizes.values()]


def candidates(p: Product, target: Target) -> Iterator[Choice]:
    """Choices for a product that differ from each other and from what is usual for it."""
    usual = min(p, p.swapped(), key=Product.cost)
    seen = {(usual.m, usual.a, Tiling.of(usual, target))}
    for swapped in (False, True):
        form = p.swapped() if swapped else p
        plain = Tiling.of(form, target)
        if plain.dots or plain.turned or cut(plain) != cut(Tiling.of(usual, target)):
            continue
        for rows, vectors in TILES[32 if target.many_registers else 16]:
            if rows > form.m or (vectors - 1) * plain.lanes >= form.n:
                continue
            tiles = -(-form.m // rows)
            near = max(1, target.near.block // (rows * plain.depth * BITS[p.kind] // 8))
            for block, packed in ((b, q) for b in sorted({1, min(near, tiles), tiles}) for q in (False, True)):
                choice = Choice(rows, vectors, block, packed, swapped)
                made = form.m, form.a, choice.of(form, plain, target)
                if made not in seen:
                    seen.add(made)
                    yield choice


def try_all(products: Sequence[Product], threads: int = 1, tell: Callable[[Trial], None] | None = None) -> list[Trial]:
    """Measure every product, one after the other, and keep what was found."""
    target = Target.host()
    found = []
    for p in products:
        trial = _try(p, target, threads)
        found.append(trial)
        if tell is not None:
            tell(trial)
    entries = {name(x.product): None if x.choice is None else x.choice.written() for x in found}
    tuned.keep(target.identity, entries)
    return found


def _try(p: Product, target: Target, threads: int) -> Trial:
    usual = min(p, p.swapped(), key=Product.cost)
    forms: dict[Choice | None, Product] = {None: usual}
    for choice in candidates(p, target):
        if (form := p.tuned(usual, choice)) is not usual:
            forms[choice] = form
    with _Bench(forms, threads) as bench:
        times = bench.times(list(forms), TURNS)
        best = min(times, key=lambda choice: statistics.median(times[choice]))
        if best is None:
            return Trial(p, (t := statistics.median(times[None])), t, None, len(forms) - 1)
        again = bench.times([None, best], MORE_TURNS)
        before, after = (statistics.median(again[choice]) for choice in (None, best))
        ratio = statistics.median(x / y for x, y in zip(again[None], again[best], strict=True))
        kept = min(ratio, before / after) >= GAIN and bench.alike(best)
        return Trial(p, before, after if kept else before, best if kept else None, len(forms) - 1)


class _Bench:
    """The kernels of some forms of one product, and memory for them to run on."""

    def __init__(self, forms: dict[Choice | None, Product], threads: int) -> None:
        self.forms, self.threads, self.pool = forms, threads, get_pool(threads)
        self.clock = time.process_time if threads == 1 else time.perf_counter
        target, barrier = Target.host(), native.barrier_ir()
        texts = {p.key(): functools.partial(p.text, jit.symbol(p.key()), target, barrier) for p in forms.values()}
        self.handles = jit.build(texts, target)
        usual = forms[None]
        sizes = _bytes(usual)
        once = sum(sizes.values())
        self.copies = max(1, min(COPIES, -(-2 * target.caches.second // once)))
        beside = [max(getattr(p, what) for p in forms.values()) for what in ("scratch", "workspace")]
        total = self.copies * sum(_lines(size) for size in sizes.values()) + _lines(beside[0] * threads) + beside[1]
        self.memory = np.zeros(total + LINE, np.uint8)
        self.sizes, self.at = sizes, -self.memory.ctypes.data % LINE
        self.words = {choice: self._words(p, beside[0] * threads) for choice, p in forms.items()}
        self.repeats = 1
        self._fill()

    def __enter__(self) -> _Bench:
        self.repeats = max(1, min(1000, round(RUN / self._once(None))))
        return self

    def __exit__(self, *error: object) -> None:
        self.handles.clear()

    def _fill(self) -> None:
        """Numbers between ½ and 1, of which sums of products neither vanish nor overflow; truth values; zeros."""
        rng, usual = np.random.default_rng(0), self.forms[None]
        kinds = {usual.words[0]: usual.kind, usual.words[1]: usual.kind}
        kinds |= {x.arg: x.kind for x in accesses(usual.body)}
        for copy in range(self.copies):
            for arg, at in self._places(copy).items():
                part = self.memory[at : at + self.sizes[arg]]
                if kinds[arg] in ("f32", "f64"):
                    numbers = part.view(f"f{BITS[kinds[arg]] // 8}")
                    numbers[:] = rng.uniform(0.5, 1.0, len(numbers))
                else:
                    part[:] = rng.integers(0, 2, len(part)) if kinds[arg] == "i1" else 0

    def _places(self, copy: int) -> dict[int, int]:
        """Where the operands of a copy lie in the memory."""
        at = self.at + copy * sum(_lines(size) for size in self.sizes.values())
        found = {}
        for arg, size in self.sizes.items():
            found[arg] = at
            at += _lines(size)
        return found

    def _words(self, p: Product, scratch: int) -> np.ndarray:
        """Argument words for every copy."""
        count = 2 + max([*self.sizes, p.scratch_word, p.workspace_word])
        words = np.zeros((self.copies, count), np.int64)
        beside = self.at + self.copies * sum(_lines(size) for size in self.sizes.values())
        for copy in range(self.copies):
            for arg, at in self._places(copy).items():
                words[copy, arg] = self.memory.ctypes.data + at
            if p.scratch:
                words[copy, p.scratch_word] = self.memory.ctypes.data + beside
            if p.workspace:
                words[copy, p.workspace_word] = self.memory.ctypes.data + beside + _lines(scratch)
        return words

    def _table(self, choice: Choice | None, repeats: int) -> np.ndarray:
        words, address = self.words[choice], self.handles[self.forms[choice].key()].address
        table = np.zeros(1 + 4 * repeats, np.int64)
        table[0], table[1::4], table[3::4] = repeats, address, 1  # a barrier after each
        table[2::4] = words.ctypes.data + np.arange(repeats) % self.copies * words.strides[0]
        return table

    def _once(self, choice: Choice | None) -> float:
        """Seconds of one run of a kernel, of as many as `repeats` says."""
        table = self._table(choice, self.repeats)
        begin = self.clock()
        self.pool.run(table.ctypes.data)
        return max(self.clock() - begin, 1e-9) / self.repeats

    def times(self, choices: Sequence[Choice | None], turns: int) -> dict[Choice | None, list[float]]:
        """So many measurements of each, in turns; one more comes before them."""
        found: dict[Choice | None, list[float]] = {choice: [] for choice in choices}
        for turn in range(turns + 1):
            for choice in choices if turn % 2 else choices[::-1]:
                taken = self._once(choice)
                if turn:
                    found[choice].append(taken)
        return found

    def alike(self, choice: Choice) -> bool:
        """Whether a form writes the same bits as the usual one."""
        results = []
        for one in (None, choice):
            self._fill()
            self.pool.run(self._table(one, 1).ctypes.data)
            places = self._places(0).items()
            results.append([self.memory[at : at + self.sizes[arg]].copy() for arg, at in places])
        return all(np.array_equal(x, y) for x, y in zip(*results, strict=True))


def _lines(size: int) -> int:
    """Whole cache lines, and one to keep neighbours apart."""
    return -(-size // LINE) * LINE + LINE


def _strides(p: Product) -> list[int]:
    """All strides of the loads and stores of a product."""
    return [stride for x in accesses(p.body) for stride in x.strides]


def _bytes(p: Product) -> dict[int, int]:
    """The bytes behind every argument word of a product, whole elements."""

    def reach(shape: Sequence[int], strides: Sequence[int], kind: str) -> int:
        return (1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))) * max(1, BITS[kind] // 8)

    sizes = {
        p.words[0]: reach((*p.batch, p.m, p.k), p.a, p.kind),
        p.words[1]: reach((*p.batch, p.k, p.n), p.b, p.kind),
    }
    for x in accesses(p.body):
        sizes[x.arg] = max(sizes.get(x.arg, 0), reach((*p.batch, p.m, p.n), x.strides, x.kind))
    return sizes
