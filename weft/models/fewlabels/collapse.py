"""Has an encoder without negatives found the way out: the same answer for everything?"""

from __future__ import annotations

import weft

from ... import nn
from ...errors import ShapeError
from ...tensor import Tensor

__all__ = ["effective_rank", "std_of_l2_normalized"]


def std_of_l2_normalized(z: Tensor) -> Tensor:
    """mean_d std(z_d / ‖z‖) over the rows: near 1 / √D for directions spread evenly, 0 for a collapse (Chen and He 2021).

    Shape: (N, D) → (), N ≥ 2

    >>> std_of_l2_normalized(weft.ones(4, 3)).item()
    0.0
    """
    _check("std_of_l2_normalized", z)
    return nn.functional.normalize(z.detach(), dim=-1).std(0).mean()


def effective_rank(z: Tensor) -> Tensor:
    """exp of the entropy of the shares of singular values: how many dimensions the rows fill, from 1 to min(N, D).

    Rows are centred. A collapse to a plane, which deviations do not show, shows here (Roy and Vetterli 2007).
    Shape: (N, D) → (), N ≥ 2

    >>> round(effective_rank(weft.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])).item(), 4)
    2.0
    """
    _check("effective_rank", z)
    z = z.detach()
    values = weft.linalg.svdvals(z - z.mean(0))
    shares = values / values.sum().clamp(min=1e-30)
    return (-(shares * shares.clamp(min=1e-30).log()).sum()).exp()


def _check(name: str, z: Tensor) -> None:
    if z.ndim != 2 or len(z) < 2:
        raise ShapeError(f"{name}: expected rows (N, D), N ≥ 2, got {tuple(z.shape)}")
