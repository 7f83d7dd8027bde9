"""Augmentation of token sequences (N, T) or (T,) of integers. Padding, `pad_id`, is never touched and stays at the end."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DtypeError, OptionError
from .base import Augmentation, Generators, Source, batched, probability

__all__ = ["MaskTokens", "SwapTokens", "TokenDropout"]

IGNORED = -100  # the label that `cross_entropy` leaves out


class _OfTokens(Augmentation):
    """A random function of sequences, drawn for each of them."""

    def __call__(self, x: Any, generator: Generators = None) -> Any:
        tokens, restore, source = _opened(x, generator, type(self).__name__)
        return restore(self.apply(tokens, source))

    @abstractmethod
    def apply(self, tokens: NDArray, source: Source) -> NDArray:
        """The new sequences, (N, T) → (N, T)"""


class TokenDropout(_OfTokens):
    """Each token removed with probability p; the rest closes up, and padding fills the end. One token always stays."""

    def __init__(self, p: float = 0.1, pad_id: int = 0) -> None:
        self.p, self.pad_id = probability(p, "TokenDropout"), pad_id

    def apply(self, tokens: NDArray, source: Source) -> NDArray:
        length = tokens.shape[1]
        u = np.where(tokens == self.pad_id, -1.0, source.uniform(length))  # padding is "removed" to the end
        kept = u >= self.p
        if length:
            rows, best = np.arange(len(tokens)), u.argmax(1)
            kept[rows, best] |= u[rows, best] >= 0
        order = np.argsort(~kept, 1, kind="stable")
        return np.where(np.take_along_axis(kept, order, 1), np.take_along_axis(tokens, order, 1), self.pad_id).astype(
            tokens.dtype
        )


class SwapTokens(_OfTokens):
    """Words moved by at most `distance` places: sorted by position + u, u uniform in [0, distance + 1).

    The noise of Lample et al. (2018). distance = 0 changes nothing.
    """

    def __init__(self, distance: int = 1, pad_id: int = 0) -> None:
        if distance < 0:
            raise OptionError(f"SwapTokens: expected distance ≥ 0, got {distance}")
        self.distance, self.pad_id = distance, pad_id

    def apply(self, tokens: NDArray, source: Source) -> NDArray:
        length = tokens.shape[1]
        place = np.arange(length) + source.uniform(length) * (self.distance + (self.distance > 0))
        place = np.where(tokens == self.pad_id, np.inf, place)
        return np.take_along_axis(tokens, np.argsort(place, 1, kind="stable"), 1)


class MaskTokens(_OfTokens):
    """Each token chosen with probability p; a chosen one becomes `mask_id` (80 %), a random token (10 %) or stays (10 %).

    The masking of BERT (Devlin et al. 2019) if `vocab_size` is given; without it every chosen token becomes `mask_id`.
    `with_labels` also returns what was there: (tokens, labels), labels −100 where nothing was chosen.
    """

    def __init__(self, p: float = 0.15, *, mask_id: int, vocab_size: int | None = None, pad_id: int = 0) -> None:
        self.p, self.mask_id = probability(p, "MaskTokens"), mask_id
        self.vocab_size, self.pad_id = vocab_size, pad_id

    def apply(self, tokens: NDArray, source: Source) -> NDArray:
        return self._masked(tokens, source)[0]

    def with_labels(self, x: Any, generator: Generators = None) -> tuple[Any, Any]:
        """(tokens with masks, labels), for a masked language model."""
        tokens, restore, source = _opened(x, generator, "MaskTokens")
        masked, chosen = self._masked(tokens, source)
        return restore(masked), restore(np.where(chosen, tokens, IGNORED))

    def _masked(self, tokens: NDArray, source: Source) -> tuple[NDArray, NDArray]:
        length = tokens.shape[1]
        chosen = (source.uniform(length) < self.p) & (tokens != self.pad_id)
        new = np.full(tokens.shape, self.mask_id, tokens.dtype)
        if self.vocab_size is not None:
            kind = source.uniform(length)
            new = np.where(kind < 0.8, new, np.where(kind < 0.9, source.integers(self.vocab_size, length), tokens))
        return np.where(chosen, new, tokens).astype(tokens.dtype), chosen


def _opened(x: Any, generator: Generators, name: str) -> tuple[NDArray, Any, Source]:
    tokens, restore = batched(x, ("(T,)", "(N, T)"), 1, name)
    if tokens.dtype.kind not in "iu":
        raise DtypeError(f"{name}: expected integer tokens, got {tokens.dtype}")
    return tokens, restore, Source.of(generator, len(tokens), name)
