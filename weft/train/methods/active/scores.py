"""How much is to be learned from the label of an example: scores of predictions, the greatest asked first.

chances are those of the classes, (N, K); members are S of them for every example, (S, N, K), from draws of dropout masks or from
a committee.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import weft

from ....errors import OptionError, ShapeError
from ....tensor import Tensor

__all__ = [
    "bald",
    "consensus_divergence",
    "entropy",
    "k_center_greedy",
    "least_confident",
    "margin",
    "vote_entropy",
]


def least_confident(chances: Tensor) -> Tensor:
    """1 − max p: how likely the best guess is wrong (Lewis and Gale 1994). (N, K) → (N,)

    >>> least_confident(weft.tensor([[0.5, 0.25, 0.25]])).tolist()
    [0.5]
    """
    return 1 - _mean(chances).amax(-1)


def margin(chances: Tensor) -> Tensor:
    """1 − (p₁ − p₂), p₁ and p₂ the two greatest chances: how near the example is to a border. (N, K) → (N,)

    >>> margin(weft.tensor([[0.5, 0.25, 0.25]])).tolist()
    [0.75]
    """
    best = _mean(chances).topk(2, -1).values
    return 1 - (best[..., 0] - best[..., 1])


def entropy(chances: Tensor) -> Tensor:
    """H(p) = −Σ p log p; of members, that of their mean. (N, K) or (S, N, K) → (N,)

    >>> entropy(weft.tensor([[1.0, 0.0]])).tolist()
    [0.0]
    """
    p = _mean(chances)
    return -weft.special.xlogy(p, p).sum(-1)


def bald(members: Tensor) -> Tensor:
    """H(p̄) − mean H(p_s): what the label would tell of the weights (Houlsby et al. 2011, Gal et al. 2017). (S, N, K) → (N,)

    High where every member is sure and they disagree; 0 where all say the same, be it that they do not know.
    """
    _check_members("bald", members)
    return entropy(members) + weft.special.xlogy(members, members).sum(-1).mean(0)


def consensus_divergence(members: Tensor) -> Tensor:
    """mean KL(p_s ‖ p̄), the disagreement of a committee (McCallum and Nigam 1998): the same number as `bald`. (S, N, K) → (N,)"""
    _check_members("consensus_divergence", members)
    return bald(members)


def vote_entropy(members: Tensor) -> Tensor:
    """The entropy of the votes that members give their likeliest classes (Dagan and Engelson 1995). (S, N, K) → (N,)"""
    _check_members("vote_entropy", members)
    best = members.argmax(-1, keepdim=True)
    votes = (best == weft.arange(members.shape[-1])).to(members.dtype)
    return entropy(votes)


def k_center_greedy(features: Any, centers: Sequence[int] | Any, count: int) -> np.ndarray:
    """The rows that, one after the other, are farthest from all centers so far (Gonzalez 1985; Sener and Savarese 2018).

    The largest distance of a row to its nearest center is at most twice the least that `count` rows can reach. Where
    there is no center yet, the first is the row that is nearest to the mean. A row is chosen once.

    features: (N, D); centers: numbers of the rows that are there already; count: how many are chosen
    Returns: their numbers, in the order they were chosen.

    >>> k_center_greedy(np.array([[0.0], [1.0], [9.0], [10.0]]), [0], 2).tolist()
    [3, 1]
    """
    x = np.asarray(features.array if isinstance(features, Tensor) else features, np.float64)
    if x.ndim != 2 or not np.isfinite(x).all():
        raise ShapeError(f"k_center_greedy: expected finite features (N, D), got shape {x.shape}")
    known = np.asarray(centers, np.int64).reshape(-1)
    if not 0 <= count <= len(x) - len(np.unique(known)):
        raise OptionError(f"k_center_greedy: {count} rows of {len(x)} with {len(known)} centers among them")
    chosen = np.zeros(len(x), bool)
    chosen[known] = True
    nearest = np.full(len(x), np.inf)
    for center in known:
        np.minimum(nearest, ((x - x[center]) ** 2).sum(1), out=nearest)
    found: list[int] = []
    for _ in range(count):
        first = not len(known) and not found
        worth = -((x - x.mean(0)) ** 2).sum(1) if first else nearest
        row = int(np.where(chosen, -np.inf, worth).argmax())
        chosen[row] = True
        np.minimum(nearest, ((x - x[row]) ** 2).sum(1), out=nearest)
        found.append(row)
    return np.array(found, np.int64)


def _mean(chances: Tensor) -> Tensor:
    """Chances of the classes: of members their mean."""
    if chances.ndim not in (2, 3) or chances.shape[-1] < 2:
        raise ShapeError(
            f"active: expected chances (N, K) or (S, N, K) of two classes or more, got {tuple(chances.shape)}"
        )
    return chances.mean(0) if chances.ndim == 3 else chances


def _check_members(name: str, members: Tensor) -> None:
    if members.ndim != 3:
        raise ShapeError(
            f"{name}: expected chances of several members (S, N, K), got {tuple(members.shape)}; "
            "dropout_chances and committee_chances make them"
        )
