"""Who goes where: pairs of noise and data for flow matching, at random or by optimal transport of the batch (Tong et al. 2024)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

import weft

from ...errors import OptionError, ShapeError
from ...tensor import Tensor

__all__ = ["OTPlanSampler", "pair_by_transport"]


class OTPlanSampler:
    """Optimal pairs of two batches of equal size, torchcfm's name; the plan between equal weights is a permutation.

    `sample_plan` and `sample_plan_with_labels` keep x₀ in its order and permute x₁, with its labels.
    """

    def __init__(self, method: str = "exact") -> None:
        if method != "exact":
            raise OptionError(f"OTPlanSampler: method is 'exact', got {method!r}")

    def get_map(self, x0: Tensor, x1: Tensor) -> Tensor:
        """The plan: (B, B), 1 / B where row i of x0 goes to row j of x1"""
        plan = np.zeros((len(x0), len(x1)))
        plan[np.arange(len(x0)), pair_by_transport(x0, x1).numpy()] = 1 / len(x0)
        return weft.tensor(plan)

    def sample_plan(self, x0: Tensor, x1: Tensor) -> tuple[Tensor, Tensor]:
        """x0, and x1 in the order of its partners"""
        return x0, x1[pair_by_transport(x0, x1)]

    def sample_plan_with_labels(
        self, x0: Tensor, x1: Tensor, y0: Tensor | None = None, y1: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """The same, with labels: y1 goes with x1"""
        order = pair_by_transport(x0, x1)
        return x0, x1[order], y0, None if y1 is None else y1[order]


def pair_by_transport(x0: Tensor, x1: Tensor) -> Tensor:
    """The order of x1 that makes Σ ‖x0ᵢ − x1ᵢ‖² least: (B, *event) twice → (B,) of whole numbers. Not for compiled code."""
    if x0.shape != x1.shape:
        raise ShapeError(
            f"optimal transport: expected batches of one shape, got {tuple(x0.shape)} and {tuple(x1.shape)}"
        )
    first, second = (x.detach().flatten(1).double().numpy() for x in (x0, x1))
    cost = (first**2).sum(1)[:, None] - 2 * first @ second.T + (second**2).sum(1)
    return weft.tensor(_assigned(cost))


def _assigned(cost: Any) -> Any:
    return linear_sum_assignment(cost)[1].astype(np.int64)
