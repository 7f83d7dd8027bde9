"""BLEU: n-gram precision of translations against references (Papineni et al., ACL 2002)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError, ShapeError
from ..tensor import Tensor
from .base import Metric, State, chosen

__all__ = ["BLEU", "bleu"]

SMOOTHING = {"none": 0.0, "floor": 0.1, "add-k": 1.0, "exp": 0.0}  # method → its usual value


class BLEU(Metric):
    """BP · exp( Σₙ ln pₙ / N ) of a corpus, 0 … 100, n = 1 … N; the figure of sacrebleu on the same tokens.

        pₙ  n-grams of the translations that occur in a reference, at most as often as there, over all their n-grams
        BP  exp(1 − r / c) for c < r, else 1: c tokens translated, r of the references of the nearest lengths

    Updated with a list of translations and, for each, its reference or a list of references. A sentence is a list of
    tokens (anything hashable), a 1-d tensor of token numbers, or text, which is split at white space.
    smooth_method, for pₙ = 0: "exp" halves it for each n without a match (½, ¼, … of 1 / total), "floor" sets the
    count to `smooth_value` (0.1), "add-k" adds `smooth_value` (1) to counts and totals of n > 1, "none" gives 0.
    effective_order: leave out the n that the translations are too short for (single sentences).

    >>> round(bleu(["the cat sat on the mat"], ["the cat sat on a mat"]), 2)
    53.73
    """

    fields = ("matches", "totals", "lengths", "count")

    def __init__(
        self,
        max_ngram_order: int = 4,
        *,
        smooth_method: str = "exp",
        smooth_value: float | None = None,
        effective_order: bool = False,
    ) -> None:
        super().__init__()
        if max_ngram_order < 1:
            raise OptionError(f"BLEU: expected max_ngram_order ≥ 1, got {max_ngram_order}")
        self.smooth_method = chosen(smooth_method, tuple(SMOOTHING), "BLEU: smooth_method")
        self.smooth_value = SMOOTHING[smooth_method] if smooth_value is None else smooth_value
        self.max_ngram_order, self.effective_order = max_ngram_order, effective_order

    def measure(self, pred: Sequence, target: Sequence) -> State:
        if isinstance(pred, str) or len(pred) != len(target):
            raise ShapeError(
                f"BLEU: expected a list of references for each translation, got {len(pred)}, {len(target)}"
            )
        state = {
            "matches": np.zeros(self.max_ngram_order, np.int64),
            "totals": np.zeros(self.max_ngram_order, np.int64),
            "lengths": np.zeros(2, np.int64),  # c, r
            "count": len(pred),
        }
        for sentence, references in zip(pred, target, strict=True):
            self._count(state, _tokens(sentence), _references(references, sentence))
        return state

    def _count(self, state: State, sentence: list, references: list[list]) -> None:
        for n in range(1, self.max_ngram_order + 1):
            found = _ngrams(sentence, n)
            known = Counter()
            for reference in references:
                known |= _ngrams(reference, n)
            state["matches"][n - 1] += (found & known).total()
            state["totals"][n - 1] += found.total()
        nearest = min((len(r) for r in references), key=lambda r: (abs(r - len(sentence)), r))
        state["lengths"] += len(sentence), nearest

    def summarise(self, state: State) -> float:
        matches, totals = state["matches"].astype(float), state["totals"].astype(float)
        if not matches.any():
            return 0.0
        if self.smooth_method == "add-k":
            matches[1:] += self.smooth_value
            totals[1:] += self.smooth_value
        if self.effective_order and not totals.all():
            shorter = int(np.argmin(totals))  # the totals fall with n
            matches, totals = matches[:shorter], totals[:shorter]
        precisions = self._precisions(matches, totals)
        if not precisions.all():
            return 0.0
        c, r = state["lengths"].tolist()
        return 100 * math.exp(min(0.0, 1 - r / c) + float(np.log(precisions).mean()))

    def _precisions(self, matches: NDArray, totals: NDArray) -> NDArray:
        """matches / totals, smoothed where there is no match; 0 where there is nothing to match."""
        if self.smooth_method == "exp":
            missing = (matches == 0) & (totals > 0)
            matches = np.where(missing, 0.5 ** np.cumsum(missing), matches)
        if self.smooth_method == "floor":
            matches = np.where(matches == 0, self.smooth_value, matches)
        return np.divide(matches, totals, out=np.zeros_like(matches), where=totals > 0)


def bleu(pred: Sequence, target: Sequence, **options: Any) -> float:
    """`BLEU(**options)` of one corpus."""
    return BLEU(**options).once(pred, target)


def _ngrams(tokens: list, n: int) -> Counter:
    if n == 2:
        return Counter(pairwise(tokens))
    return Counter(zip(*(tokens[i:] for i in range(n)), strict=False))


def _tokens(sentence: Any) -> list:
    if isinstance(sentence, str):
        return sentence.split()
    if isinstance(sentence, (Tensor, np.ndarray)):
        return sentence.tolist()
    return list(sentence)


def _references(references: Any, sentence: Any) -> list[list]:
    """Those of one translation as lists of tokens: of a text, a text or several; of tokens, tokens or several lists."""
    if isinstance(sentence, str):
        several = [references] if isinstance(references, str) else list(references)
    else:
        nested = len(references) and isinstance(references[0], (list, tuple, np.ndarray, Tensor))
        several = list(references) if nested and np.ndim(references[0]) else [references]
    if not several:
        raise ShapeError("BLEU: expected at least one reference for each translation, got none")
    return [_tokens(reference) for reference in several]
