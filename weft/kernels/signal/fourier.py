"""Fourier transforms of lines, several of them side by side in the lanes of vectors.

A line of length n = r₁ r₂ … is transformed in one stage for each factor, from one buffer into another, so that the result
comes out in order (Stockham). With m = n_left / r, s the product of the factors before, and w = e^(∓2πi / n_left):

    y[q + s (r p + k)] = wᵖᵏ Σⱼ x[q + s (p + m j)] e^(∓2πi jk / r)      p < m, q < s, k < r

Real lines of even length are complex ones of half the length, even elements real and odd ones imaginary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.target import PROCESSORS
from ..llvm.values import BITS, Val
from ..memory.indexing import unravel
from ..sort.lines import transposed

__all__ = ["LARGEST_FACTOR", "FourierLines", "Operand", "factors_of", "table_of"]

LARGEST_FACTOR = 13
Number = tuple[Val, Val]  # real and imaginary parts of as many numbers as there are lanes


def factors_of(n: int) -> list[int] | None:
    """The radices of the stages, 4 where possible; None: a prime factor is too large."""
    found = []
    for r in (4, 2, 3, 5, 7, 11, LARGEST_FACTOR):
        while n % r == 0:
            found.append(r)
            n //= r
    return found if n == 1 else None


def points_of(n: int, form: str) -> int:
    """The length of the complex transform behind one of n points."""
    return n // 2 if form != "complex" and n % 2 == 0 else n


def table_of(n: int, form: str, sign: int, kind: Any) -> np.ndarray:
    """The roots of unity that a transform reads, as (real, imaginary) pairs: those of the stages, then of the halves."""
    left, found = points_of(n, form), []
    for r in factors_of(left) or ():
        if left > r:
            p, k = np.arange(left // r)[:, None], np.arange(1, r)[None, :]
            found.append(_roots(p * k, left, sign))
        left //= r
    if form != "complex" and n % 2 == 0:
        found.append(_roots(np.arange(n // 2), n, sign))
    return np.concatenate([*found, np.zeros((1, 2))]).astype(kind)


def _roots(power: np.ndarray, n: int, sign: int) -> np.ndarray:
    angle = sign * 2 * np.pi * (power % n) / n
    return np.stack([np.cos(angle), np.sin(angle)], -1).reshape(-1, 2)


@dataclass(frozen=True)
class Operand:
    """A plane of the lines: its argument word, the stride along a line, and those of the axes that number the lines."""

    word: int
    along: int
    lines: tuple[int, ...]


class FourierLines(Kernel):
    """Transforms of lines of n points that are numbered by the axes of `shape`.

    form: 'complex', 'real' (from a real line its frequencies 0 … n/2) or 'half' (back from those). Of two planes the first is
    the real one; a missing imaginary plane is 0. sign: of the exponent. `word`: of the scratch memory.
    """

    def __init__(
        self,
        n: int,
        kind: str,
        form: str,
        sign: int,
        scale: float,
        shape: tuple[int, ...],
        sources: Sequence[Operand],
        results: Sequence[Operand],
        table: int,
        word: int,
    ) -> None:
        self.n, self.kind, self.form, self.sign, self.scale = n, kind, form, sign, scale
        self.axis = _vector_axis(shape, (*sources, *results))
        self.shape, self.sources, self.results = shape, tuple(sources), tuple(results)
        self.table, self.scratch_word = table, word
        widest = max(size for size, _ in PROCESSORS)
        self.scratch = 4 * (n + 1) * widest
        lines = math.prod(shape)
        points = points_of(n, form)
        self.flops = int(lines * 5 * points * math.log2(max(points, 2)))
        self.nbytes = lines * n * (len(sources) + len(results)) * BITS[kind] // 8

    def key(self) -> str:
        what = (self.n, self.kind, self.form, self.sign, self.scale, self.shape, self.axis)
        return f"FourierLines {what} {self.sources} {self.results} {self.table} {self.scratch_word} {self.scratch}"

    def emit(self, f: Function) -> None:
        _Writer(self, f).write()


def _vector_axis(shape: Sequence[int], operands: Sequence[Operand]) -> int:
    """The axis whose lines lie side by side in lanes: dense ones first, then long ones."""
    if not shape:
        return 0
    dense = [sum(o.lines[a] == 1 for o in operands) for a in range(len(shape))]
    return max(range(len(shape)), key=lambda a: (min(shape[a], 16), dense[a], shape[a]))


class _Writer:
    """The code of one kernel."""

    def __init__(self, kernel: FourierLines, f: Function) -> None:
        self.k, self.f, self.kind = kernel, f, kernel.kind
        self.width = kernel.shape[kernel.axis] if kernel.shape else 1
        self.lanes = 1
        while 2 * self.lanes <= min(self.width, f.target.lanes_of(kernel.kind)):
            self.lanes *= 2

    def write(self) -> None:
        k, f = self.k, self.f
        outer = [a for a in range(len(k.shape)) if a != k.axis]
        per_row = -(-self.width // self.lanes)
        lo, hi = f.split(math.prod(k.shape[a] for a in outer) * per_row)
        self.memory = self._scratch()
        with f.loop(lo, hi) as unit:
            places = unravel(f, unit.i // per_row, [k.shape[a] for a in outer]) if outer else []
            # the last vector of a row starts earlier than the others would have it, and lines are done twice
            start = f.intrinsic("smin", unit.i % per_row * self.lanes, self.width - self.lanes)
            self._lines(dict(zip(outer, places, strict=True)), start)

    def _scratch(self) -> list[Val]:
        f, k = self.f, self.k
        base = f.offset(f.arg(k.scratch_word), f.tid * k.scratch, "i8")
        return [f.offset(base, n * (k.n + 1) * self.lanes, self.kind) for n in range(4)]

    def _lines(self, outer: dict[int, Any], start: Val) -> None:
        """The lines of one vector."""
        k, f = self.k, self.f
        planes = [_Plane(self, operand, outer, start) for operand in (*k.sources, *k.results)]
        sources, results = planes[: len(k.sources)], planes[len(k.sources) :]
        points, halves = points_of(k.n, k.form), k.form != "complex" and k.n % 2 == 0
        buffers = [_Pair(f, *(_Rows(self, pointer) for pointer in self.memory[2 * i : 2 * i + 2])) for i in (0, 1)]
        now = self._fetched(sources, buffers[0])
        if k.form == "half":
            now, buffers = self._unfolded(now, buffers[1], halves), buffers[::-1]
        elif halves:
            now = _Alternate(f, now.real)
        direct = self._direct(results, halves)
        factors = factors_of(points)
        left, before, at = points, 1, 0
        for number, r in enumerate(factors):
            last = number + 1 == len(factors)
            to = direct if last and direct is not None else buffers[1 - number % 2]
            self._stage(now, to, r, left // r, before, at)
            at += (left // r) * (r - 1) if left > r else 0
            now, left, before = to, left // r, before * r
        if direct is not None and now is direct:
            return
        spare = buffers[1] if now is not buffers[1] else buffers[0]
        if k.form == "real" and halves:
            now = self._folded(now, results, spare, at)
            if now is None:
                return
        self._deliver(now, results, halves)

    # ---------------------------------------------------------------------------- to and from memory
    def _fetched(self, sources: list[_Plane], buffer: _Pair) -> _Pair:
        """The planes as stages read them: in memory, where lanes lie side by side, or turned into a buffer."""
        found: list[Any] = []
        count = self.k.n if self.k.form != "half" else self.k.n // 2 + 1
        for plane, rows in zip(sources, (buffer.real, buffer.imag), strict=False):
            if not plane.in_lanes:
                plane.fetch(rows, count)
            found.append(plane if plane.in_lanes else rows)
        return _Pair(self.f, found[0], found[1] if len(found) > 1 else None)

    def _direct(self, results: list[_Plane], halves: bool) -> Any:
        """The results as the last stage can write them; None where more is to be done."""
        k = self.k
        if not all(plane.in_lanes for plane in results) or (k.form != "complex" and not halves) or k.form == "real":
            return None
        if k.form == "half":
            return _Alternate(self.f, results[0], k.scale)
        return _Pair(self.f, results[0], results[1], k.scale)

    def _deliver(self, now: Any, results: list[_Plane], halves: bool) -> None:
        """Write what the last stage left in a buffer."""
        k, f = self.k, self.f
        count = k.n // 2 + 1 if k.form == "real" else k.n
        if k.form == "half" and halves:
            rows = _Rows(self, self.memory[0] if now.real.pointer is not self.memory[0] else self.memory[2])
            spread = _Alternate(f, rows)
            with f.loop(0, k.n // 2) as loop:
                spread.store(loop.i, now.load(loop.i))
            now = _Pair(f, rows, None)
        for plane, rows in zip(results, (now.real, now.imag), strict=False):
            if plane.in_lanes:
                with f.loop(0, count) as loop:
                    plane.store(loop.i, rows.load(loop.i) * k.scale)
            else:
                plane.deliver(rows, count, k.scale)

    # ------------------------------------------------------------------------------- halves of spectra
    def _folded(self, now: _Pair, results: list[_Plane], spare: _Pair, at: int) -> _Pair | None:
        """X[k] of a real line from Z[k] of its alternating elements: e − i w o, e and o = (Z[k] ± Z̄[n/2−k]) / 2."""
        f, half = self.f, self.k.n // 2
        lanes = all(plane.in_lanes for plane in results)
        to = _Pair(f, results[0], results[1], self.k.scale) if lanes else spare
        real, imag = now.load(0)
        zero = f.const(self.kind, 0.0, self.lanes)
        to.store(0, (real + imag, zero))
        to.store(half, (real - imag, zero))
        with f.loop(1, half) as loop:
            (ar, ai), (br, bi) = now.load(loop.i), now.load(half - loop.i)
            wr, wi = self._root(at, loop.i)
            er, ei, odd_r, odd_i = (ar + br) * 0.5, (ai - bi) * 0.5, (ar - br) * 0.5, (ai + bi) * 0.5
            to.store(loop.i, (er + (wr * odd_i + wi * odd_r), ei - (wr * odd_r - wi * odd_i)))
        return None if lanes else to

    def _unfolded(self, now: _Pair, to: _Pair, halves: bool) -> _Pair:
        """What to transform back for a real line: Z[k] = s + i w d, s and d = X[k] ± X̄[n/2−k]; or both halves of X."""
        f, n, half = self.f, self.k.n, self.k.n // 2
        zero = f.const(self.kind, 0.0, self.lanes)
        first = now.load(0)[0]
        if not halves:
            to.store(0, (first, zero))
            with f.loop(1, half + 1) as loop:
                real, imag = now.load(loop.i)
                to.store(loop.i, (real, imag))
                to.store(n - loop.i, (real, -imag))
            return to
        last = now.load(half)[0]
        to.store(0, (first + last, first - last))
        at = len(table_of(n, "half", 1, np.float32)) - 1 - half
        with f.loop(1, half) as loop:
            (ar, ai), (br, bi) = now.load(loop.i), now.load(half - loop.i)
            wr, wi = self._root(at, loop.i)
            sr, si, dr, di = ar + br, ai - bi, ar - br, ai + bi
            to.store(loop.i, (sr - (wr * di + wi * dr), si + (wr * dr - wi * di)))
        return to

    def _root(self, at: int, number: Any) -> Number:
        f = self.f
        place = (f.index(number) + at) * 2
        pointer = f.arg(self.k.table)
        return tuple(f.splat(f.load(pointer, place + n, self.kind), self.lanes) for n in (0, 1))

    # ----------------------------------------------------------------------------------------- stages
    def _stage(self, now: Any, to: Any, r: int, m: int, s: int, at: int) -> None:
        f = self.f
        with f.loop(0, m) as outer:
            p = outer.i
            roots = [self._root(at, p * (r - 1) + (k - 1)) for k in range(1, r)] if m > 1 else []
            with f.loop(0, s) as inner:
                q = inner.i
                found = butterfly(f, [now.load(q + (p + m * j) * s) for j in range(r)], self.k.sign)
                for k, y in enumerate(found):
                    y = _times(y, roots[k - 1]) if roots and k else y
                    to.store(q + (p * r + k) * s, y)


class _Rows:
    """A plane in scratch memory: one vector for each place of the line."""

    def __init__(self, writer: _Writer, pointer: Val) -> None:
        self.f, self.lanes, self.kind, self.pointer = writer.f, writer.lanes, writer.kind, pointer

    def load(self, j: Any) -> Val:
        return self.f.load(self.pointer, self.f.index(j) * self.lanes, self.kind, self.lanes)

    def store(self, j: Any, value: Val) -> None:
        self.f.store(value, self.pointer, self.f.index(j) * self.lanes)


class _Plane:
    """An operand in memory, at the lines of one vector."""

    def __init__(self, writer: _Writer, operand: Operand, outer: dict[int, Any], start: Val) -> None:
        f, k = writer.f, writer.k
        self.f, self.lanes, self.kind, self.along = f, writer.lanes, writer.kind, operand.along
        self.between = operand.lines[k.axis] if operand.lines else 0
        self.in_lanes = self.lanes == 1 or self.between == 1
        place = start * self.between
        for axis, index in outer.items():
            place = place + index * operand.lines[axis]
        self.pointer = f.offset(f.arg(operand.word), place, self.kind)

    def load(self, j: Any) -> Val:
        return self.f.load(self.pointer, self.f.index(j) * self.along, self.kind, self.lanes)

    def store(self, j: Any, value: Val) -> None:
        self.f.store(value, self.pointer, self.f.index(j) * self.along)

    def _squares(self, count: int) -> bool:
        """Whether lines are long and dense enough to be moved as squares of vectors."""
        return self.along == 1 and count >= self.lanes

    def _starts(self, count: int, write: Callable[[Val], None]) -> None:
        with self.f.loop(0, count, self.lanes) as loop:
            write(self.f.intrinsic("smin", loop.i, count - self.lanes))

    def fetch(self, rows: _Rows, count: int) -> None:
        f, lanes = self.f, self.lanes
        if not self._squares(count):
            with f.loop(0, count) as loop:
                rows.store(loop.i, f.load(self.pointer, loop.i * self.along, self.kind, lanes, stride=self.between))
            return

        def square(start: Val) -> None:
            found = [f.load(self.pointer, start + n * self.between, self.kind, lanes) for n in range(lanes)]
            for n, value in enumerate(transposed(f, found)):
                rows.store(start + n, value)

        self._starts(count, square)

    def deliver(self, rows: _Rows, count: int, scale: float) -> None:
        f, lanes = self.f, self.lanes
        if not self._squares(count):
            with f.loop(0, count) as loop:
                f.store(rows.load(loop.i) * scale, self.pointer, loop.i * self.along, stride=self.between)
            return

        def square(start: Val) -> None:
            found = [rows.load(start + n) * scale for n in range(lanes)]
            for n, value in enumerate(transposed(f, found)):
                f.store(value, self.pointer, start + n * self.between)

        self._starts(count, square)


class _Pair:
    """Complex numbers in two planes; a missing imaginary one is 0."""

    def __init__(self, f: Function, real: Any, imag: Any, scale: float = 1.0) -> None:
        self.f, self.real, self.imag, self.scale = f, real, imag, scale

    def load(self, j: Any) -> Number:
        real = self.real.load(j)
        return real, self.f.const(real.kind, 0.0, real.lanes) if self.imag is None else self.imag.load(j)

    def store(self, j: Any, value: Number) -> None:
        for plane, part in zip((self.real, self.imag), value, strict=True):
            plane.store(j, part if self.scale == 1 else part * self.scale)


class _Alternate:
    """Complex numbers in one plane: real and imaginary parts by turns."""

    def __init__(self, f: Function, plane: Any, scale: float = 1.0) -> None:
        self.f, self.real, self.scale = f, plane, scale

    def load(self, j: Any) -> Number:
        first = self.f.index(j) * 2
        return self.real.load(first), self.real.load(first + 1)

    def store(self, j: Any, value: Number) -> None:
        first = self.f.index(j) * 2
        for n, part in enumerate(value):
            self.real.store(first + n, part if self.scale == 1 else part * self.scale)


# ------------------------------------------------------------------------------------ short transforms


def _times(x: Number, w: Number) -> Number:
    (a, b), (c, d) = x, w
    return a * c - b * d, a * d + b * c


def _plus(x: Number, y: Number) -> Number:
    return x[0] + y[0], x[1] + y[1]


def _minus(x: Number, y: Number) -> Number:
    return x[0] - y[0], x[1] - y[1]


def butterfly(f: Function, x: Sequence[Number], sign: int) -> list[Number]:
    """Σⱼ xⱼ e^(sign 2πi jk / r) for all k of a few numbers."""
    r = len(x)
    if r == 2:
        return [_plus(x[0], x[1]), _minus(x[0], x[1])]
    if r == 4:
        a, b, c, d = _plus(x[0], x[2]), _minus(x[0], x[2]), _plus(x[1], x[3]), _minus(x[1], x[3])
        turned = (-d[1], d[0]) if sign > 0 else (d[1], -d[0])  # ± i d
        return [_plus(a, c), _plus(b, turned), _minus(a, c), _minus(b, turned)]
    pairs = [(_plus(x[j], x[r - j]), _minus(x[j], x[r - j])) for j in range(1, r // 2 + 1)]
    found: list[Any] = [None] * r
    total = x[0]
    for both, _ in pairs:
        total = _plus(total, both)
    found[0] = total
    for k in range(1, r // 2 + 1):
        even, odd = x[0], None
        for j, (both, gap) in enumerate(pairs, 1):
            angle = 2 * math.pi * (j * k % r) / r
            c, s = math.cos(angle), sign * math.sin(angle)
            even = even[0] + both[0] * c, even[1] + both[1] * c
            odd = (gap[0] * s, gap[1] * s) if odd is None else (odd[0] + gap[0] * s, odd[1] + gap[1] * s)
        turned = (-odd[1], odd[0])  # i times
        found[k], found[r - k] = _plus(even, turned), _minus(even, turned)
    return found
