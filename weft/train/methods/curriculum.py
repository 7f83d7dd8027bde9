"""Curriculum learning: easy examples first (Bengio et al. 2009), as a sampler that any loader takes.

A score says how hard each example is, a pacing function which share of them may be drawn at each moment of training
(Hacohen and Weinshall 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import weft

from ...data.sampler import Sampler, draw_seed, stream_of
from ...errors import OptionError
from ...nn import functional as F
from ...nn.module import Module
from ...ops.create.sample import Generator
from ...tensor import Tensor
from .parts import evaluating

__all__ = ["CurriculumSampler", "difficulty", "linear_pacing", "root_pacing", "stair_pacing"]

Pacing = Callable[[NDArray], NDArray]  # part of the curriculum that is done, 0 … 1 → share of the examples


class CurriculumSampler(Sampler[int]):
    """Draws from the easiest g(t) of the examples, t the part of the first `epochs` epochs that is done.

    Position i of epoch e has t = (e n + i) / (epochs n) and is drawn uniformly, with replacement, from the ⌈g(t) n⌉
    examples of least score. Once the whole set is open at the start of an epoch, epochs are ordinary permutations.
    Every epoch has n positions. The order of an epoch depends on the seed and its number alone.

    scores (n,): higher is harder; −scores gives an anti-curriculum.

    >>> loader = DataLoader(data, batch_size=64, sampler=CurriculumSampler(difficulty(teacher, batches), epochs=5))
    """

    def __init__(
        self,
        scores: Sequence[float] | NDArray | Tensor,
        epochs: int,
        pacing: Pacing | None = None,
        generator: Generator | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        scores = np.asarray(scores.detach().numpy() if isinstance(scores, Tensor) else scores, np.float64)
        if scores.ndim != 1 or not len(scores) or np.isnan(scores).any():
            raise OptionError(f"CurriculumSampler: expected scores (n,) without NaN, got shape {scores.shape}")
        if epochs < 1:
            raise OptionError(f"CurriculumSampler: expected epochs ≥ 1, got {epochs}")
        self.by_difficulty = np.argsort(scores, kind="stable")
        self.epochs, self.pacing = epochs, pacing or linear_pacing()
        self.seed = draw_seed(seed, generator, "CurriculumSampler")

    def open(self, epoch: int) -> NDArray[np.int64]:
        """How many examples may be drawn at each position of an epoch: (n,)."""
        n = len(self)
        done = np.minimum((epoch * n + np.arange(n)) / (self.epochs * n), 1.0)
        shares = np.asarray(self.pacing(done), np.float64)
        if shares.shape != done.shape or not ((shares > 0) & (shares <= 1)).all():
            raise OptionError("CurriculumSampler: pacing must map (n,) moments to (n,) shares in (0, 1]")
        return np.ceil(shares * n).astype(np.int64)

    def order(self, epoch: int) -> NDArray[np.int64]:
        """The indices of an epoch: (n,)."""
        sizes, stream = self.open(epoch), stream_of(self.seed, epoch)
        if sizes[0] == len(self):
            return stream.permutation(len(self))
        places = np.floor(stream.uniform((len(self),), np.float64) * sizes).astype(np.int64)
        return self.by_difficulty[np.minimum(places, sizes - 1)]

    def __iter__(self) -> Iterator[int]:
        order = self.order(self.epoch)
        self.epoch += 1
        return iter(order.tolist())

    def __len__(self) -> int:
        return len(self.by_difficulty)


# ------------------------------------------------------------------------------------------- pacing


def linear_pacing(start: float = 0.2) -> Pacing:
    """g(t) = start + (1 − start) t."""
    return root_pacing(start, 1.0)


def root_pacing(start: float = 0.2, power: float = 2.0) -> Pacing:
    """g(t) = (startᵖ + (1 − startᵖ) t)^(1/p): new examples come ever more slowly for p > 1 (Platanios et al. 2019)."""
    if not 0 < start <= 1 or not power > 0:
        raise OptionError(f"pacing: expected 0 < start ≤ 1 and power > 0, got start {start}, power {power}")
    return lambda t: np.minimum((start**power + (1 - start**power) * np.asarray(t)) ** (1 / power), 1.0)


def stair_pacing(shares: Sequence[float] = (0.25, 0.5, 0.75, 1.0)) -> Pacing:
    """Equal parts of time, each with a share of its own."""
    table = np.asarray(shares, np.float64)
    if not len(table) or not ((table > 0) & (table <= 1)).all():
        raise OptionError(f"stair_pacing: expected shares in (0, 1], got {list(shares)}")
    return lambda t: table[np.minimum((np.asarray(t) * len(table)).astype(int), len(table) - 1)]


# ------------------------------------------------------------------------------------------- scores


def difficulty(
    model: Module, batches: Iterable[Any], loss: Callable[..., Tensor] = F.cross_entropy
) -> NDArray[np.float64]:
    """The loss of every example under a model that was trained before: (n,), in the order of the batches (x, y).

    loss(prediction, y, reduction="none") → (B,) or (B, …), which is averaged over what follows B.
    """
    found = []
    with weft.no_grad(), evaluating(model):
        for x, y in batches:
            losses = loss(model(x), y, reduction="none").numpy()
            found.append(losses.reshape(len(losses), -1).mean(1))  # (B, …) → (B,)
    if not found:
        raise OptionError("difficulty: there were no batches")
    return np.concatenate(found).astype(np.float64)
