"""k-means: Lloyd's algorithm from careful beginnings, on all rows or on a few at a time. The baseline of clusterings."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import weft

from ...errors import OptionError, ShapeError
from ...tensor import Tensor

__all__ = ["KMeans", "kmeans", "kmeans_plus_plus", "lloyd_step", "minibatch_kmeans", "nearest"]

LARGE = 2**20  # elements from which a step is worth compiling


class KMeans(NamedTuple):
    """Centres (K, D), the cluster of each row (N,), the inertia Σ ‖x − its centre‖², and how many steps it took."""

    centres: Tensor
    labels: Tensor
    inertia: float
    steps: int


@weft.no_grad()
def kmeans(
    x: Tensor, clusters: int, *, restarts: int = 10, steps: int = 300, tol: float = 1e-4, generator: Any = None
) -> KMeans:
    """The best of several runs of Lloyd's algorithm, each from `kmeans_plus_plus`: (N, D) → `KMeans`.

    tol: a run ends when the centres move less than tol · the mean variance of the columns (squared, all together)

    >>> x = weft.tensor([[0.0], [1.0], [9.0], [10.0]])
    >>> kmeans(x, 2).inertia
    1.0
    """
    _check(x, clusters)
    if restarts < 1 or steps < 1:
        raise OptionError(f"kmeans: expected at least one restart and one step, got {restarts} and {steps}")
    still = tol * x.var(0, correction=0).mean().item()
    runs = (_run(x, kmeans_plus_plus(x, clusters, generator), steps, still) for _ in range(restarts))
    return min(runs, key=lambda run: run.inertia)


def _run(x: Tensor, centres: Tensor, steps: int, still: float) -> KMeans:
    step = weft.compile(lloyd_step) if x.numel() > LARGE else lloyd_step
    done, moved = 0, math.inf
    while done < steps and moved > still:
        before = centres
        centres, _, _ = step(x, before)
        done, moved = done + 1, ((centres - before) ** 2).sum().item()  # 0 once no row changes its cluster
    labels, distance = nearest(x, centres)
    return KMeans(centres, labels, distance.double().sum().item(), done)


def lloyd_step(x: Tensor, centres: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows to their nearest centres, centres to the means of their rows: new centres, labels, the inertia before.

    A centre without rows goes to the row that is farthest from its own.
    Shape: (N, D), (K, D) → (K, D), (N,), ()
    """
    labels, distance = nearest(x, centres)
    own = (labels.unsqueeze(1) == weft.arange(len(centres))).to(x.dtype)  # (N, K)
    count = own.sum(0)
    means = own.mT @ x / count.clamp(min=1).unsqueeze(1)
    far = x[distance.argsort(descending=True)[: len(centres)]] if len(x) >= len(centres) else means
    empty = count == 0
    rank = (empty.cumsum(0) - 1).clamp(min=0)  # the first empty centre takes the farthest row, and so on
    return weft.where(empty.unsqueeze(1), far[rank], means), labels, distance.sum()


def nearest(x: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """The number of the nearest centre and the squared distance to it: (N, D), (K, D) → (N,), (N,)"""
    inner = x @ centres.mT  # (N, K)
    best, labels = ((centres**2).sum(1) - 2 * inner).min(1)
    return labels, (best + (x**2).sum(1)).clamp(min=0)


@weft.no_grad()
def kmeans_plus_plus(x: Tensor, clusters: int, generator: Any = None) -> Tensor:
    """Rows far from each other: each with a chance ∝ its squared distance to those before (Arthur and Vassilvitskii 2007).

    Of 2 + ⌊ln K⌋ candidates the one that lowers the inertia most is taken. Shape: (N, D) → (K, D)
    """
    _check(x, clusters)
    trials = 2 + int(math.log(clusters))
    chosen = [x[weft.randint(len(x), (1,), generator=generator)]]
    distance = nearest(x, chosen[0])[1]
    for _ in range(clusters - 1):
        chance = distance.double() if distance.sum().item() > 0 else weft.ones(len(x), dtype=weft.float64)
        drawn = weft.multinomial(chance / chance.sum(), trials, replacement=True, generator=generator)
        offered = weft.stack([weft.minimum(distance, nearest(x, x[row : row + 1])[1]) for row in drawn.tolist()])
        best = offered.sum(1).argmin().item()
        distance = offered[best]
        chosen.append(x[drawn[best : best + 1]])
    return weft.cat(chosen)


@weft.no_grad()
def minibatch_kmeans(
    x: Tensor, clusters: int, *, batch_size: int = 1024, steps: int = 500, generator: Any = None
) -> KMeans:
    """k-means for many rows: each centre is the running mean of the rows of random batches nearest to it (Sculley 2010).

    Begins with `kmeans_plus_plus` of ten batches; labels and inertia are those of all rows at the end.
    """
    _check(x, clusters)
    size = min(batch_size, len(x))
    draw = lambda count: x[weft.randint(len(x), (count,), generator=generator)]
    centres = kmeans_plus_plus(draw(max(10 * size, clusters)), clusters, generator)
    seen = weft.zeros(clusters, 1, dtype=x.dtype)
    step = weft.compile(_batch_step)
    for _ in range(steps):
        centres, seen = step(draw(size), centres, seen)
    labels, distance = nearest(x, centres)
    return KMeans(centres, labels, distance.double().sum().item(), steps)


def _batch_step(x: Tensor, centres: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    own = (nearest(x, centres)[0].unsqueeze(1) == weft.arange(len(centres))).to(x.dtype)  # (B, K)
    count = own.sum(0).unsqueeze(1)  # (K, 1)
    total = seen + count
    return centres + (own.mT @ x - count * centres) / total.clamp(min=1), total


def _check(x: Tensor, clusters: int) -> None:
    if x.ndim != 2 or not x.is_floating_point():
        raise ShapeError(f"kmeans: expected floating rows (N, D), got {tuple(x.shape)} of {x.dtype}")
    if not 1 <= clusters <= len(x):
        raise OptionError(f"kmeans: expected between 1 and {len(x)} clusters for as many rows, got {clusters}")
