"""The order-k Markov model: counts of what follows k tokens, smoothed. The baseline of language models.

An n-gram of tokens is kept as one number, its digits to the base V, the last token lowest: counting is sorting.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import weft

from ...errors import OptionError, ShapeError
from ...tensor import Tensor, wrap

__all__ = ["MarkovModel"]

Tokens = Tensor | NDArray | list[int]


class MarkovModel:
    """P(w | c), c the last k tokens, from counts n(c, w), n(c) = Σ n(c, w) and u(c), the number of different w after c.

        "additive"      (n(c, w) + α) / (n(c) + α V)
        "witten-bell"   (n(c, w) + u(c) P(w | c′)) / (n(c) + u(c))
        "kneser-ney"    max(n(c, w) − d, 0) / n(c) + d u(c) / n(c) · P(w | c′)

    c′ is c without its oldest token; below the empty context lies 1 / V. For Kneser and Ney the counts of shorter
    contexts are of different tokens before: n(c′, w) = |{v : n(v c′, w) > 0}|. amount: α, or d (None: 1 and 0.75).

    >>> model = MarkovModel(1, 3, "additive", 0.5).fit([0, 1, 0, 2, 0, 1])
    >>> model.probabilities([0]).tolist()          # after 0 came 1, 2, 1
    [0.1111111111111111, 0.5555555555555556, 0.3333333333333333]
    """

    def __init__(self, order: int, vocabulary: int, smoothing: str = "additive", amount: float | None = None) -> None:
        if order < 0 or vocabulary < 1:
            raise OptionError(f"MarkovModel: expected order ≥ 0 and vocabulary ≥ 1, got {order} and {vocabulary}")
        if vocabulary ** (order + 1) > 2**63 - 1:
            most = int(math.log(2**63 - 1, vocabulary)) - 1
            raise OptionError(f"MarkovModel: {vocabulary} tokens allow an order up to {most}, got {order}")
        if smoothing not in RULES:
            raise OptionError(f"MarkovModel: smoothing must be one of {', '.join(RULES)}, got {smoothing!r}")
        self.order, self.vocabulary, self.smoothing = order, vocabulary, smoothing
        self.amount = {"additive": 1.0, "kneser-ney": 0.75}.get(smoothing, 0.0) if amount is None else amount
        self.tables: list[Table] = []

    def fit(self, tokens: Tokens) -> MarkovModel:
        """Count the n-grams of a text, n = 1 … k + 1."""
        array = self._checked(tokens)
        if len(array) <= self.order:
            raise ShapeError(f"MarkovModel.fit: expected more than {self.order} tokens, got {len(array)}")
        grams = [np.unique(self._packed(array, n), return_counts=True) for n in range(1, self.order + 2)]
        if self.smoothing == "kneser-ney":
            grams = [*(self._kinds_before(longer, n) for n, (longer, _) in enumerate(grams[1:], 1)), grams[-1]]
        self.tables = [Table(keys, counts, self.vocabulary) for keys, counts in grams]
        return self

    def count(self, gram: list[int]) -> int:
        """How often these k + 1 tokens, or fewer, came in this order (distinct tokens before, for Kneser and Ney)."""
        array = self._checked(gram)
        if not 1 <= len(array) <= self.order + 1:
            raise ShapeError(f"MarkovModel.count: expected 1 … {self.order + 1} tokens, got {len(array)}")
        return int(self._fitted()[len(array) - 1].counts_of(self._packed(array, len(array)))[0])

    def log_prob(self, tokens: Tokens) -> NDArray[np.float64]:
        """ln P(token_t | the k before it), t = k … N − 1. Shape: (N,) → (N − k,)"""
        with np.errstate(divide="ignore"):
            return np.log(self._of(self._packed(self._checked(tokens), self.order + 1)))

    def log_likelihood(self, tokens: Tokens) -> float:
        """The sum of `log_prob`: that of a text given its first k tokens."""
        return float(self.log_prob(tokens).sum())

    def perplexity(self, tokens: Tokens) -> float:
        """exp of the mean −ln P."""
        return math.exp(-self.log_prob(tokens).mean())

    def probabilities(self, context: Tokens) -> NDArray[np.float64]:
        """P(· | the last k tokens of the context). Shape: (≥ k,) → (V,)"""
        array = self._checked(context)
        if len(array) < self.order:
            raise ShapeError(f"MarkovModel: expected a context of at least {self.order} tokens, got {len(array)}")
        recent = array[len(array) - self.order :]
        base = self._packed(recent, self.order)[0] if self.order else 0
        return self._of(base * self.vocabulary + np.arange(self.vocabulary))

    def sample(self, count: int, context: Tokens, seed: int = 0) -> NDArray[np.int64]:
        """Tokens drawn one after the other behind a context. Shape: (≥ k,) → (count,)"""
        generator = weft.Generator().manual_seed(seed)
        found, before = self._checked(context).tolist(), len(context)
        for _ in range(count):
            chances = self.probabilities(found[len(found) - self.order :])
            found.append(int(generator.multinomial(chances, 1)[0]))
        return np.array(found[before:], np.int64)

    def step(self, tokens: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """ln P of the token after the last, for `decoding`; the state is the k tokens before. Shape: (B, T) → (B, V)"""
        rows = np.asarray(tokens) if state is None else np.concatenate([np.asarray(state), np.asarray(tokens)], 1)
        with np.errstate(divide="ignore"):
            logs = np.log(np.stack([self.probabilities(row) for row in rows])).astype(np.float32)
        return wrap(logs), wrap(rows[:, max(rows.shape[1] - self.order, 0) :])

    def _of(self, grams: NDArray[np.int64]) -> NDArray[np.float64]:
        """P of the last token of packed (k + 1)-grams."""
        return RULES[self.smoothing](self._fitted(), grams, self.amount, self.vocabulary)

    def _packed(self, tokens: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        """All n-grams as numbers. Shape: (N,) → (N − n + 1,)"""
        count = max(len(tokens) - n + 1, 0)
        found = np.zeros(count, np.int64)
        for place in range(n):
            found = found * self.vocabulary + tokens[place : place + count]
        return found

    def _kinds_before(self, longer: NDArray[np.int64], n: int) -> tuple[NDArray, NDArray]:
        """How many different tokens came before each n-gram, from the (n + 1)-grams that occurred."""
        return np.unique(longer % self.vocabulary**n, return_counts=True)

    def _checked(self, tokens: Tokens) -> NDArray[np.int64]:
        array = np.asarray(tokens)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise ShapeError(f"MarkovModel: expected whole numbers (N,), got {array.dtype} {array.shape}")
        if array.size and not 0 <= array.min() <= array.max() < self.vocabulary:
            raise OptionError(
                f"MarkovModel: tokens must lie in 0 … {self.vocabulary - 1}, got {array.min()} … {array.max()}"
            )
        return array.astype(np.int64)

    def _fitted(self) -> list[Table]:
        if not self.tables:
            raise OptionError("MarkovModel: there are no counts yet; call fit(tokens)")
        return self.tables


class Table:
    """Counts of n-grams, and for each context the total and the number of different continuations."""

    def __init__(self, keys: NDArray[np.int64], counts: NDArray[np.int64], vocabulary: int) -> None:
        self.keys, self.counts = keys, counts
        self.contexts, first = np.unique(keys // vocabulary, return_index=True)
        self.totals = np.add.reduceat(counts, first) if len(first) else first
        self.kinds = np.diff(np.append(first, len(keys)))

    def counts_of(self, grams: NDArray[np.int64]) -> NDArray[np.int64]:
        """n(c, w) of packed n-grams."""
        return _looked_up(self.keys, self.counts, grams)

    def context_of(self, contexts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """n(c) and u(c)."""
        return _looked_up(self.contexts, self.totals, contexts), _looked_up(self.contexts, self.kinds, contexts)


def _looked_up(keys: NDArray[np.int64], values: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """The values of keys, which are sorted; 0 where there is none."""
    place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], 0)


# ------------------------------------------------------------------------------------------- smoothing


def _additive(tables: list[Table], grams: NDArray, amount: float, vocabulary: int) -> NDArray[np.float64]:
    totals, _ = tables[-1].context_of(grams // vocabulary)
    with np.errstate(invalid="ignore"):  # 0 / 0 without smoothing, of a context never seen
        return (tables[-1].counts_of(grams) + amount) / (totals + amount * vocabulary)


def _witten_bell(tables: list[Table], grams: NDArray, amount: float, vocabulary: int) -> NDArray[np.float64]:
    found = np.full(grams.shape, 1 / vocabulary)
    for n, table in enumerate(tables, 1):
        shorter = grams % vocabulary**n
        totals, kinds = table.context_of(shorter // vocabulary)
        mixed = (table.counts_of(shorter) + kinds * found) / np.maximum(totals + kinds, 1)
        found = np.where(totals > 0, mixed, found)
    return found


def _kneser_ney(tables: list[Table], grams: NDArray, amount: float, vocabulary: int) -> NDArray[np.float64]:
    found = np.full(grams.shape, 1 / vocabulary)
    for n, table in enumerate(tables, 1):
        shorter = grams % vocabulary**n
        totals, kinds = table.context_of(shorter // vocabulary)
        mixed = (np.maximum(table.counts_of(shorter) - amount, 0) + amount * kinds * found) / np.maximum(totals, 1)
        found = np.where(totals > 0, mixed, found)
    return found


RULES: dict[str, Callable[[list[Table], NDArray, float, int], NDArray[np.float64]]] = {
    "additive": _additive,
    "witten-bell": _witten_bell,
    "kneser-ney": _kneser_ney,
}
