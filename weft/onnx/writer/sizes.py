"""Sizes that depend on the sizes of inputs: found by tracing a model at several and asking what fits all of them.

A size is (Σ c · s₁ s₂ … + before) // divisor + after in the symbols s of the dynamic axes, or a plain number.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Band", "Iota", "Number", "Repeated", "Size", "Sizes", "evaluate", "fit", "fit_array", "fit_number"]

MOST_SYMBOLS = 3  # in one product
LARGEST_DIVISOR = 32
Term = tuple[int, tuple[str, ...]]


@dataclass(frozen=True)
class Size:
    """One size as an expression in the symbols."""

    terms: tuple[Term, ...]
    before: int = 0
    divisor: int = 1
    after: int = 0

    def value(self, symbols: dict[str, int]) -> int:
        total = sum(c * math.prod(symbols[s] for s in names) for c, names in self.terms)
        return (total + self.before) // self.divisor + self.after

    @property
    def symbol(self) -> str | None:
        """The symbol that this size is, if it is just one."""
        alone = len(self.terms) == 1 and self.before == 0 and self.divisor == 1 and self.after == 0
        return self.terms[0][1][0] if alone and self.terms[0][0] == 1 and len(self.terms[0][1]) == 1 else None

    def __str__(self) -> str:
        text = " + ".join("*".join([*([str(c)] if c != 1 else []), *names]) for c, names in self.terms)
        text += f" + {self.before}" if self.before else ""
        text = f"({text})//{self.divisor}" if self.divisor != 1 else text
        return f"{text} + {self.after}" if self.after else text


Sizes = tuple[int | Size, ...]


@dataclass(frozen=True)
class Repeated:
    """A tuple of `count` equal entries, where the count is a size."""

    count: int | Size
    value: Any

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Any:
        return self.value


@dataclass(frozen=True)
class Number:
    """A number that follows from a size: the size itself, its reciprocal, its root, or one over that."""

    size: Size
    form: str


@dataclass(frozen=True)
class Iota:
    """start, start + step, …: as many as a size says."""

    start: int | Size
    count: int | Size
    step: float
    shape: tuple[int | Size, ...]


@dataclass(frozen=True)
class Band:
    """A table with one number where column − row ≥ edge, and another one below."""

    shape: tuple[int | Size, ...]
    edge: int | Size
    above: Any
    below: Any


def evaluate(size: int | Size, symbols: dict[str, int]) -> int:
    return size.value(symbols) if isinstance(size, Size) else size


def fit(samples: Sequence[int], symbols: Sequence[dict[str, int]]) -> int | Size | None:
    """The simplest size that has these values where the symbols have those; None where nothing fits."""
    if len(set(samples)) == 1:
        return int(samples[0])
    for candidate in _candidates(samples, symbols):
        if all(candidate.value(s) == n for n, s in zip(samples, symbols, strict=True)):
            return candidate
    return None


def _candidates(samples: Sequence[int], symbols: Sequence[dict[str, int]]) -> Iterator[Size]:
    names = list(symbols[0])
    products = [
        names_of
        for degree in range(1, MOST_SYMBOLS + 1)
        for names_of in itertools.combinations_with_replacement(names, degree)
    ]
    lines = list(_lines(samples, symbols, products))
    yield from (line for line in lines if not line.after)
    yield from (line for line in lines if line.after)
    for a, b in itertools.permutations(names, 2):
        for c in (1, -1):
            rest = samples[0] - symbols[0][a] - c * symbols[0][b]
            yield Size(((1, (a,)), (c, (b,))), after=rest)
    yield from _multiples(samples, symbols, names)
    yield from _quotients(samples, symbols, products)


def _lines(
    samples: Sequence[int], symbols: Sequence[dict[str, int]], products: Sequence[tuple[str, ...]]
) -> Iterator[Size]:
    """c · product + k through the first two samples."""
    for names in products:
        first, second = (math.prod(s[n] for n in names) for s in symbols[:2])
        if first != second and (samples[1] - samples[0]) % (second - first) == 0:
            c = (samples[1] - samples[0]) // (second - first)
            if c:
                yield Size(((c, names),), after=samples[0] - c * first)


def _multiples(samples: Sequence[int], symbols: Sequence[dict[str, int]], names: Sequence[str]) -> Iterator[Size]:
    """b · (c · a + k): one symbol times a length that is not quite another."""
    for b in names:
        if any(n % s[b] for n, s in zip(samples, symbols, strict=True)):
            continue
        rest = [n // s[b] for n, s in zip(samples, symbols, strict=True)]
        for line in _lines(rest, symbols, [(a,) for a in names if a != b]):
            ((c, (a,)),) = line.terms
            yield Size(((c, (a, b)), (line.after, (b,))))


def _quotients(
    samples: Sequence[int], symbols: Sequence[dict[str, int]], products: Sequence[tuple[str, ...]]
) -> Iterator[Size]:
    """(product + a) // d + k, as strides make them."""
    for names in products:
        first = math.prod(symbols[0][n] for n in names)
        for divisor in range(2, LARGEST_DIVISOR + 1):
            for before in range(divisor):
                yield Size(((1, names),), before, divisor, samples[0] - (first + before) // divisor)


_FORMS = {
    "same": lambda x: x,
    "reciprocal": lambda x: 1 / x,
    "square": lambda x: x * x,
    "reciprocal square": lambda x: 1 / (x * x),
}


def fit_number(samples: Sequence[float], symbols: Sequence[dict[str, int]]) -> Any:
    """A number, or what it is of a size; None where nothing fits."""
    if len(set(samples)) == 1 or all(math.isnan(n) for n in samples):
        return samples[0]
    for form, inverse in _FORMS.items():
        if any(n == 0 or not math.isfinite(n) for n in samples):
            continue
        whole = [inverse(n) for n in samples]
        if all(abs(n - round(n)) <= 1e-5 * abs(n) for n in whole):
            size = fit([round(n) for n in whole], symbols)
            if isinstance(size, Size):
                return Number(size, form)
    return None


def fit_array(arrays: Sequence[np.ndarray], symbols: Sequence[dict[str, int]]) -> Any:
    """An array that is always the same, a number, or numbers at equal distances; None for anything else."""
    arrays = [np.asarray(a) for a in arrays]
    first = arrays[0]
    if all(a.shape == first.shape and np.array_equal(a, first, equal_nan=a.dtype.kind == "f") for a in arrays):
        return first
    if first.size == 1 and all(a.shape == first.shape for a in arrays):
        number = fit_number([a.item() for a in arrays], symbols)
        return number if isinstance(number, Number) else None
    if first.ndim != arrays[1].ndim:
        return None
    shape = [fit(sizes, symbols) for sizes in zip(*(a.shape for a in arrays), strict=True)]
    if None not in shape and sum(n != 1 for n in shape) == 2:
        return _fit_band(arrays, tuple(shape), symbols)
    if first.dtype.kind == "b":
        return None
    steps = {float(a.reshape(-1)[1] - a.reshape(-1)[0]) for a in arrays if a.size > 1}
    if None in shape or len(steps) != 1 or sum(n != 1 for n in shape) != 1 or first.dtype.kind not in "iuf":
        return None
    (step,) = steps
    exact = all(np.array_equal(a.reshape(-1), a.reshape(-1)[0] + step * np.arange(a.size)) for a in arrays)
    start = fit_number([float(a.reshape(-1)[0]) for a in arrays], symbols) if exact else None
    count = fit([a.size for a in arrays], symbols)
    if start is None or count is None or (isinstance(start, Number) and start.form != "same"):
        return None
    return Iota(start.size if isinstance(start, Number) else start, count, step, tuple(shape))


def _fit_band(arrays: Sequence[np.ndarray], shape: tuple[Any, ...], symbols: Sequence[dict[str, int]]) -> Any:
    """One number on and above a diagonal, another one below it; else None."""
    edges, pairs = [], set()
    for array in arrays:
        table = array.reshape([n for n in array.shape if n != 1]) if 1 not in _large(array, shape) else None
        if table is None or table.ndim != 2:
            return None
        above, below = table[0, -1].item(), table[-1, 0].item()
        rows, columns = np.indices(table.shape)
        apart = (columns - rows)[table == table[0, -1]]
        edge = int(apart.min()) if above != below else 0
        if not np.array_equal(table, np.where(columns - rows >= edge, table[0, -1], table[-1, 0])):
            return None
        edges.append(edge)
        pairs.add((above, below))
    edge = fit(edges, symbols)
    if len(pairs) > 1 or edge is None:
        return None
    ((above, below),) = pairs
    return Band(shape, edge, above, below)


def _large(array: np.ndarray, shape: tuple[Any, ...]) -> list[int]:
    """The sizes of the two dimensions that count."""
    return [n for n, size in zip(array.shape, shape, strict=True) if size != 1]
