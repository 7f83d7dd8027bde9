"""Collaborative filtering by an RBM: ratings of many people, most of them missing (Salakhutdinov, Mnih, Hinton 2007).

Each person has a machine of the items rated by them alone; all machines share their weights.
"""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import InvalidValueError, ShapeError
from ...tensor import Tensor
from .contrastive import LikelihoodGradient
from .rbm import SoftmaxRBM

__all__ = ["RatingsDivergence", "RatingsRBM"]

F = nn.functional


class RatingsRBM(nn.Module):
    """Softmax units for ratings 1, …, `values` of `items`, over `hidden` tastes; 0 stands for a rating that is missing.

    Given the ratings V of a person, without item q,

        p(v_q = k | V) ∝ exp(b_qk) Πⱼ (1 + exp(cⱼ + Σ_{i ≠ q} W_{i v_i j} + W_{qkj})), exactly.

    Shape: ratings (B, items) of 0 … values

    >>> model = RatingsRBM(items=4, values=5, hidden=3)
    >>> model(weft.tensor([[5, 0, 3, 0]])).shape
    weft.Size([1, 4])
    """

    def __init__(self, items: int, values: int, hidden: int, dtype: Any = None) -> None:
        super().__init__()
        self.items, self.values = items, values
        self.machine = SoftmaxRBM(items, values, hidden, dtype)

    def probabilities(self, ratings: Tensor) -> Tensor:
        """p(v_q = k | all other ratings) of every item, rated or not: (B, items) → (B, items, values)"""
        machine, known = self.machine, self.one_hot(ratings)
        total = machine.hidden_input(known)  # (B, H)

        def item(carry: None, of: tuple[Tensor, Tensor, Tensor]) -> tuple[None, Tensor]:
            weight, bias, own = of  # (K, H), (K,), (B, K)
            others = total - own @ weight
            return carry, bias + F.softplus(others.unsqueeze(1) + weight).sum(-1)  # (B, K)

        weight = machine.weight.reshape(self.items, self.values, -1)  # (items · K, H) → (items, K, H)
        bias = machine.visible_bias.reshape(self.items, self.values)
        return weft.scan(item, None, (weight, bias, known.transpose(0, 1)))[1].transpose(0, 1).softmax(-1)

    def forward(self, ratings: Tensor) -> Tensor:
        """The expected rating of every item, given all other ratings: (B, items) → (B, items)"""
        return self.probabilities(ratings) @ weft.arange(1, self.values + 1, dtype=self.machine.weight.dtype)

    def one_hot(self, ratings: Tensor) -> Tensor:
        """One 1 among zeros for each rating, zeros alone where it is missing: (B, items) → (B, items, values)"""
        if ratings.ndim != 2 or ratings.shape[1] != self.items:
            raise ShapeError(f"RatingsRBM: expected ratings (B, {self.items}), got {tuple(ratings.shape)}")
        return (ratings.unsqueeze(-1) == weft.arange(1, self.values + 1)).to(self.machine.weight.dtype)

    @weft.no_grad()
    def start_at(self, ratings: Tensor, smoothing: float = 1.0) -> None:
        """Set the visible biases to what each item's ratings alone say, which is where learning begins best."""
        if not ((ratings >= 0) & (ratings <= self.values)).all().item():
            raise InvalidValueError(f"RatingsRBM: expected ratings 0 (missing) to {self.values}, got others")
        counts = self.one_hot(ratings).sum(0) + smoothing  # (items, K)
        self.machine.visible_bias.copy_((counts / counts.sum(1, keepdim=True)).log().flatten())


class RatingsDivergence(LikelihoodGradient):
    """CD-k for ratings: negatives have values only where the data have, so what is missing teaches nothing.

    >>> model = RatingsRBM(items=4, values=5, hidden=3)
    >>> RatingsDivergence(model)(model.one_hot(weft.tensor([[5, 0, 3, 0]]))).backward()
    """

    def __init__(self, model: RatingsRBM, steps: int = 1, **options: Any) -> None:
        super().__init__(model.machine, **options)
        self.steps = steps

    def negatives(self, v: Tensor, generator: Any) -> Tensor:
        rated = v.sum(-1, keepdim=True)  # (B, items, 1)
        return weft.fori_loop(0, self.steps, lambda _, v: self.rbm.gibbs_step(v, generator) * rated, v)
