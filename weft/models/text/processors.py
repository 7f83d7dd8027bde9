"""Scores of tokens changed before one is chosen: what may not be written, what must be, what is written less often.

A processor takes the scores (B, V) of the next token and the tokens so far (B, T), beginnings included. Their order and
their rules are those of Hugging Face's generate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import weft

from ...errors import OptionError
from ...tensor import Tensor

__all__ = [
    "Rules",
    "among",
    "forbid",
    "forbid_repeated_ngrams",
    "forbid_words",
    "keep_top_k",
    "keep_top_p",
    "penalize_repetition",
]

Ends = int | Sequence[int] | None
Processor = Callable[[Tensor, Tensor], Tensor]
NEVER = float("-inf")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What may be written whatever the model says.

    repetition_penalty: see `penalize_repetition`. no_repeat_ngram_size: so many tokens in a row never come twice, 0: they
    may. bad_words_ids: lists of tokens, none of which is ever finished. min_new_tokens: no end before so many.
    forced_bos_token_id: the token after beginnings of one token, of a decoder's start that is. forced_eos_token_id: the
    last of max_new_tokens, one of them if it is a list. suppress_tokens: tokens never written, begin_suppress_tokens: not
    as the first.
    """

    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    bad_words_ids: Sequence[Sequence[int]] | None = None
    min_new_tokens: int = 0
    forced_bos_token_id: Ends = None
    forced_eos_token_id: Ends = None
    suppress_tokens: Sequence[int] | None = None
    begin_suppress_tokens: Sequence[int] | None = None

    def __post_init__(self) -> None:
        for name in ("no_repeat_ngram_size", "min_new_tokens"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 0:
                raise OptionError(f"{name}: expected an integer of 0 or more, got {getattr(self, name)!r}")
        words = self.bad_words_ids
        if words is not None and not all(isinstance(word, Sequence) and len(word) for word in words):
            raise OptionError(f"bad_words_ids: expected lists of tokens, each of one or more, got {words!r:.80}")

    def processor(self, prompt: int, most: int, ends: Sequence[int]) -> Processor:
        """All of them as one, for beginnings of `prompt` tokens, `most` new ones and these end tokens."""
        words = [word for word in self.bad_words_ids or () if list(word) not in [[end] for end in ends]]
        first = self.forced_bos_token_id if prompt == 1 else None
        before = prompt + (prompt == 1 and self.forced_bos_token_id is not None)  # where a text begins

        def process(scores: Tensor, tokens: Tensor) -> Tensor:
            length = tokens.shape[1]
            scores = penalize_repetition(scores, tokens, self.repetition_penalty)
            scores = forbid_repeated_ngrams(scores, tokens, self.no_repeat_ngram_size)
            scores = forbid_words(scores, tokens, words)
            if length < prompt + self.min_new_tokens:
                scores = forbid(scores, ends)
            if length == prompt:
                scores = _only(scores, first)
            if length == prompt + most - 1:
                scores = _only(scores, self.forced_eos_token_id)
            scores = forbid(scores, self.suppress_tokens)
            return forbid(scores, self.begin_suppress_tokens) if length == before else scores

        return process


def penalize_repetition(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Scores of tokens that were seen, divided by the penalty where positive, else multiplied (Keskar et al., 2019).

    Shape: (B, V), seen (B, T) → (B, V)
    """
    if penalty == 1.0:
        return logits
    if penalty <= 0:
        raise OptionError(f"penalize_repetition: expected a penalty greater than 0, got {penalty}")
    scores = logits.gather(-1, seen)
    return logits.scatter(-1, seen, weft.where(scores < 0, scores * penalty, scores / penalty))


def forbid_repeated_ngrams(scores: Tensor, tokens: Tensor, size: int) -> Tensor:
    """−∞ for tokens that would end a run of `size` tokens seen before; 0 forbids nothing. (B, V), (B, T) → (B, V)"""
    length = tokens.shape[1]
    if size == 0 or length < size:
        return scores
    runs = weft.stack([tokens[:, i : length - size + 1 + i] for i in range(size)], -1)  # (B, T − size + 1, size)
    last = tokens[:, length - size + 1 :].unsqueeze(1)  # (B, 1, size − 1)
    again = (runs[..., :-1] == last).all(-1)  # (B, T − size + 1)
    counts = weft.zeros_like(scores).scatter_add(-1, runs[..., -1], again.to(scores.dtype))
    return scores.masked_fill(counts > 0, NEVER)


def forbid_words(scores: Tensor, tokens: Tensor, words: Sequence[Sequence[int]]) -> Tensor:
    """−∞ for the last token of a word whose others stand at the end of a row. Shape: (B, V), (B, T) → (B, V)"""
    for *before, last in words:
        if len(before) > tokens.shape[1]:
            continue
        _checked([*before, last], scores.shape[-1], "bad_words_ids")
        at_end = (tokens[:, tokens.shape[1] - len(before) :] == weft.tensor(before, dtype=tokens.dtype)).all(-1)  # (B,)
        scores = scores.masked_fill(at_end.unsqueeze(-1) & (weft.arange(scores.shape[-1]) == last), NEVER)
    return scores


def forbid(scores: Tensor, tokens: Sequence[int] | None) -> Tensor:
    """−∞ for these tokens. Shape: (B, V) → (B, V)"""
    if not tokens:
        return scores
    return scores.masked_fill(among(weft.arange(scores.shape[-1]), tokens), NEVER)


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """-∞ for all but the k largest of each row; 0 keeps all. Shape: (B, V) → (B, V)"""
    if k < 0:
        raise OptionError(f"keep_top_k: expected k >= 0, got {k}")
    if not 0 < k < logits.shape[-1]:
        return logits
    return logits.masked_fill(logits < logits.topk(k).values[..., -1:], NEVER)


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """-∞ outside of the nucleus: the fewest tokens whose probabilities sum to p or more (Holtzman et al., 2020).

    Shape: (B, V) → (B, V)
    """
    if not 0 < p <= 1:
        raise OptionError(f"keep_top_p: expected p in (0, 1], got {p}")
    if p == 1:
        return logits
    ordered, places = logits.sort(-1)  # ascending: the mass of the tail is what is cut
    outside = ordered.softmax(-1).cumsum(-1) <= 1 - p
    outside[..., -1] = False  # the best one stays
    return logits.masked_fill(weft.zeros_like(outside).scatter(-1, places, outside), NEVER)


def among(tokens: Tensor, chosen: Sequence[int]) -> Tensor:
    """Which tokens are some of these. Shape: (*) → (*) of bool"""
    found = weft.zeros_like(tokens, dtype=weft.bool)
    for token in chosen:
        found = found | (tokens == token)
    return found


def _only(scores: Tensor, allowed: Ends) -> Tensor:
    """0 for the tokens that are allowed, −∞ for all others; None allows all. Shape: (B, V) → (B, V)"""
    if allowed is None:
        return scores
    tokens, count = [allowed] if isinstance(allowed, int) else list(allowed), scores.shape[-1]
    if not tokens:
        raise OptionError(f"forced tokens: expected numbers from 0 to {count - 1}, got {allowed}")
    _checked(tokens, count, "forced tokens")
    return weft.where(among(weft.arange(count), tokens), weft.zeros_like(scores), NEVER)


def _checked(tokens: Sequence[int], count: int, name: str) -> None:
    if not all(isinstance(token, int) and 0 <= token < count for token in tokens):
        raise OptionError(f"{name}: expected numbers from 0 to {count - 1}, got {tokens}")
