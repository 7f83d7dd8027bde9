"""Strings, as NumPy arrays of objects: joined, split, normalised, matched, counted."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np

import weft

from ...errors import InvalidValueError
from ...tensor import Tensor
from .registry import as_array, rule


def _objects(values: list[Any], shape: Any) -> np.ndarray:
    return np.array([*values, None], object)[:-1].reshape(shape)


@rule("StringConcat", raw=True)
def string_concat(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = np.broadcast_arrays(a, b)
    return _objects([x + y for x, y in zip(a.reshape(-1), b.reshape(-1), strict=True)], a.shape)


@rule("StringSplit", raw=True)
def string_split(x: np.ndarray, *, delimiter: str | None = None, maxsplit: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """Pieces of every string, filled up with empty ones; and how many there are."""
    parts = [text.split(delimiter or None, maxsplit) for text in x.reshape(-1)]
    counts = [len(p) for p in parts]
    widest = max(counts, default=0)
    filled = [piece for p in parts for piece in (*p, *[""] * (widest - len(p)))]
    return _objects(filled, (*x.shape, widest)), np.array(counts, np.int64).reshape(x.shape)


@rule("StringNormalizer", raw=True)
def string_normalizer(
    x: np.ndarray,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str | None = None,
    stopwords: list[str] | None = None,
) -> np.ndarray:
    """Without stop words, in upper or lower case; if nothing is left, one empty string."""
    fold = (lambda s: s) if is_case_sensitive else str.lower
    unwanted = {fold(word) for word in stopwords or ()}
    kept = [text for text in x.reshape(-1) if fold(text) not in unwanted]
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case_change_action, lambda s: s)
    found = [change(text) for text in kept] or [""]
    return _objects(found, (1, len(found)) if x.ndim == 2 else (len(found),))


@rule("TfIdfVectorizer", raw=True)
def tf_idf_vectorizer(
    x: Any,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: list[int],
    ngram_indexes: list[int],
    pool_int64s: list[int] | None = None,
    pool_strings: list[str] | None = None,
    weights: list[float] | None = None,
) -> Tensor:
    """How often each known n-gram occurs, with up to so many elements left out between its own."""
    pool: list[Any] = list(pool_strings or pool_int64s or ())
    grams: dict[tuple[Any, ...], int] = {}
    ends = [*ngram_counts[1:], len(pool)]
    for n, (start, end) in enumerate(zip(ngram_counts, ends, strict=True), 1):
        for place in range(start, end, n):
            grams[tuple(pool[place : place + n])] = len(grams)
    rows = as_array(x)
    made = [
        _counted(list(row), grams, range(min_gram_length, max_gram_length + 1), max_skip_count)
        for row in np.atleast_2d(rows)
    ]
    result = np.zeros((len(made), max(ngram_indexes) + 1), np.float32)
    scale = weights or [1.0] * len(ngram_indexes)
    for k, counts in enumerate(made):
        for gram, count in counts.items():
            value = {"TF": count, "IDF": 1, "TFIDF": count}[mode] * (1.0 if mode == "TF" else scale[gram])
            result[k, ngram_indexes[gram]] = value
    return weft.from_numpy(result if rows.ndim > 1 else result[0])


def _counted(row: list[Any], grams: dict[tuple[Any, ...], int], lengths: range, most_skips: int) -> Counter[int]:
    found: Counter[int] = Counter()
    for n in lengths:
        for skip in range(1 if n == 1 else most_skips + 1):
            step = skip + 1
            for start in range(len(row) - (n - 1) * step):
                gram = grams.get(tuple(row[start : start + n * step : step]))
                if gram is not None:
                    found[gram] += 1
    return found


@rule("RegexFullMatch", raw=True)
def regex_full_match(x: np.ndarray, *, pattern: str) -> np.ndarray:
    from ...data.text.patterns import check_pattern

    try:
        known = re.compile(check_pattern(pattern, "RegexFullMatch"))
    except re.error as error:
        raise InvalidValueError(f"RegexFullMatch: pattern {pattern!r}: {error}") from None
    return np.array([known.fullmatch(text) is not None for text in x.reshape(-1)], bool).reshape(x.shape)
