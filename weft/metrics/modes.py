"""How many modes of a known mixture samples have found, and how many of the samples are good."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError
from ..tensor import Tensor, wrap
from .base import Metric, NoDataError, State, array_of, numbers, two_sides

__all__ = ["CodeUsage", "ModeCounts", "label_counts", "mode_counts"]


class ModeCounts(NamedTuple):
    """modes: how many have a good sample; good: share of samples that belong to a mode; kl: Σ hₘ log(hₘ / pₘ) in nats, of
    the histogram h of good samples over the modes to what it should be (∞ if there are none); counts: (M,)"""

    modes: int
    good: float
    kl: float
    counts: Tensor


def mode_counts(
    samples: Any, centres: Any, scale: float, *, deviations: float = 3.0, weights: Any = None
) -> ModeCounts:
    """Which modes samples (N, D) of a mixture with these centres (M, D) have found.

    A sample is good if its nearest centre is at most deviations · scale away, as in Srivastava et al. (2017).
    weights: what shares the modes have, (M,); by default equal ones

    >>> centres = weft.tensor([[0.0, 0.0], [5.0, 0.0]])
    >>> mode_counts(weft.tensor([[0.1, 0.0], [2.0, 0.0]]), centres, 0.1)[:3]
    (1, 0.5, 0.6931471805599453)
    """
    x, middles = two_sides(samples, centres, "mode_counts")
    if not scale > 0 or not deviations > 0:
        raise OptionError(f"mode_counts: expected scale and deviations above 0, got {scale} and {deviations}")
    if not len(x) or not len(middles):
        raise NoDataError(f"mode_counts: expected samples and centres, got {len(x)} and {len(middles)}")
    nearest, distance = np.empty(len(x), np.int64), np.full(len(x), np.inf)
    for mode, centre in enumerate(middles):
        apart = ((x - centre) ** 2).sum(1)
        nearest[apart < distance] = mode
        distance = np.minimum(distance, apart)
    return _counted(nearest[distance <= (deviations * scale) ** 2], len(x), len(middles), weights)


def label_counts(labels: Any, modes: int, *, weights: Any = None) -> ModeCounts:
    """The same where a classifier says which mode each sample is, (N,) of 0 … modes − 1; anything else is no mode.

    Stacked MNIST has 1,000: `100 * red + 10 * green + blue`.
    """
    found = array_of(labels)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise OptionError(f"label_counts: expected whole numbers (N,), got {found.dtype} of shape {found.shape}")
    if not len(found):
        raise NoDataError("label_counts: no samples to count")
    return _counted(found[(found >= 0) & (found < modes)], len(found), modes, weights)


class CodeUsage(Metric):
    """The perplexity exp(−Σ pₖ log pₖ) of how often each of K codes was used, over all batches since the last reset.

    It is K where all are used alike. The mean of the perplexities of batches is something else, and smaller: a batch
    cannot use more codes than it has places.

    >>> usage = CodeUsage(4)
    >>> usage.update([0, 0]), usage.update([1, 1])
    (None, None)
    >>> usage.compute(), usage.used
    (2.0, 2)
    """

    fields = ("count", "counts")

    def __init__(self, codes: int) -> None:
        super().__init__()
        self.codes = codes

    def measure(self, codes: Any) -> State:
        found = array_of(codes).ravel()
        if found.dtype.kind not in "iu" or (len(found) and not 0 <= found.min() <= found.max() < self.codes):
            raise OptionError(f"CodeUsage: expected whole numbers from 0 to {self.codes - 1}, got {found.dtype}")
        return {"count": np.array(len(found)), "counts": np.bincount(found, minlength=self.codes)}

    def summarise(self, state: State) -> float:
        share = state["counts"][state["counts"] > 0] / state["count"]
        return float(np.exp(-(share * np.log(share)).sum()))

    @property
    def used(self) -> int:
        """How many codes were used at all."""
        return 0 if self.state is None else int((self.state["counts"] > 0).sum())


def _counted(good: NDArray, samples: int, modes: int, weights: Any) -> ModeCounts:
    counts = np.bincount(good, minlength=modes)
    share = np.full(modes, 1 / modes) if weights is None else numbers(weights)
    if share.shape != (modes,) or (share < 0).any() or not math.isclose(share.sum(), 1, rel_tol=1e-6):
        raise OptionError(f"mode_counts: expected {modes} weights that sum to 1, got {share.tolist()}")
    kl = math.inf
    if len(good):
        found = counts / len(good)
        there = found > 0
        with np.errstate(divide="ignore"):
            kl = float((found[there] * np.log(found[there] / share[there])).sum())
    return ModeCounts(int((counts > 0).sum()), len(good) / samples, kl, wrap(counts))
