"""Pairwise Markov random fields over binary units: the Ising model of any graph (N1 §4.1)."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import ShapeError
from ...tensor import Tensor
from ..generative.plans import in_one_plan
from ..generative.protocol import GenerativeModel, estimate, exact
from .enumeration import ENUMERABLE, log_sum, mean_over

__all__ = ["PairwiseMRF"]

F = nn.functional


class PairwiseMRF(GenerativeModel):
    """p(x) = exp(½ xᵀWx + bᵀx) / Z for x of `size` units with two values, W symmetric with a diagonal of zeros.

    Each edge counts once: ½ xᵀWx = Σ_{i<j} Wᵢⱼ xᵢ xⱼ. A unit sees its neighbours through a logistic regression,
    p(xₖ = high | rest) = σ((high − low)(bₖ + Σⱼ Wₖⱼ xⱼ)). Of `coupling` only the part above the diagonal counts.

    values: (0, 1) for Bernoulli units, (−1, 1) for spins
    Shape: x (B, size) → (B,)

    >>> field = PairwiseMRF(3)
    >>> round(field.log_partition().item(), 4), field.log_prob(weft.ones(1, 3)).exp().item()
    (2.0794, 0.125)
    """

    def __init__(self, size: int, values: tuple[float, float] = (0.0, 1.0), dtype: Any = None) -> None:
        super().__init__()
        self.size, self.values = size, (float(values[0]), float(values[1]))
        self.coupling = nn.Parameter(weft.zeros(size, size, dtype=dtype))
        self.bias = nn.Parameter(weft.zeros(size, dtype=dtype))

    @property
    def weight(self) -> Tensor:
        """W: the coupling above the diagonal, mirrored. Shape: (size, size)"""
        upper = self.coupling.triu(1)
        return upper + upper.mT

    @exact
    def energy(self, x: Tensor) -> Tensor:
        """E(x) = −½ xᵀWx − bᵀx."""
        self._check(x)
        return -0.5 * ((x @ self.weight) * x).sum(-1) - x @ self.bias

    @exact(where=lambda model: model.size <= ENUMERABLE)
    def log_prob(self, x: Tensor) -> Tensor:
        """−E(x) − log Z, with Z summed over all states."""
        return -self.energy(x) - self.log_partition()

    def log_partition(self) -> Tensor:
        """log Z = log Σ exp(−E(x)) over the 2^size states."""
        if self.size > ENUMERABLE:
            raise ShapeError(
                f"log_partition: 2^{self.size} states are too many; at most {ENUMERABLE} units can be summed"
            )
        return log_sum(lambda bits: -self.energy(self._from_bits(bits)), self.size, self.bias.dtype)

    def moments(self) -> tuple[Tensor, Tensor]:
        """E[x] and E[x xᵀ], exactly. Shape: → (size,), (size, size)"""

        def products(bits: Tensor) -> Tensor:
            x = F.pad(self._from_bits(bits), (0, 1), value=1.0)  # (N, size + 1): the last column gives E[x]
            return x.unsqueeze(2) * x.unsqueeze(1)

        second = mean_over(lambda bits: -self.energy(self._from_bits(bits)), products, self.size, self.bias.dtype)
        return second[:-1, -1], second[:-1, :-1]

    def pseudo_log_likelihood(self, x: Tensor) -> Tensor:
        """Σₖ log p(xₖ | all others), which needs no Z and has its maximum over parameters where log p has: (B,)."""
        low, high = self.values
        sign = (2 * x - low - high) / (high - low)  # −1 or 1
        return F.logsigmoid(sign * (high - low) * (x @ self.weight + self.bias)).sum(-1)

    @weft.no_grad()
    def gibbs(self, x: Tensor, sweeps: int = 1, generator: Any = None, first: int = 0) -> Tensor:
        """Each unit from `first` on is drawn given all others, in their order, `sweeps` times; those before stay as they
        are. One native plan under `weft.compile`. Shape: (B, size) → (B, size)"""
        self._check(x)
        low, high = self.values
        places = weft.eye(self.size, dtype=weft.bool)

        def visit(x: Tensor, unit: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, None]:
            row, bias, place = unit
            up = weft.bernoulli(weft.sigmoid((high - low) * (x @ row + bias)), generator=generator)  # (B,)
            return weft.where(place, (low + (high - low) * up).unsqueeze(1), x), None

        units = (self.weight[first:], self.bias[first:], places[first:])
        return weft.fori_loop(0, sweeps, lambda _, x: weft.scan(visit, x, units)[0], x)

    @estimate
    @in_one_plan
    def sample(self, n: int, condition: Any = None, generator: Any = None, sweeps: int = 200) -> Tensor:
        """The ends of n Gibbs chains that start from independent fair coins: (n, size)."""
        self._unconditional(condition)
        coins = weft.bernoulli(weft.full((n, self.size), 0.5, dtype=self.bias.dtype), generator=generator)
        return self.gibbs(self._from_bits(coins), sweeps, generator)

    def _from_bits(self, bits: Tensor) -> Tensor:
        low, high = self.values
        return low + (high - low) * bits

    def _check(self, x: Tensor) -> None:
        if x.ndim != 2 or x.shape[1] != self.size:
            raise ShapeError(f"PairwiseMRF: expected x of shape (B, {self.size}), got {tuple(x.shape)}")

    def extra_repr(self) -> str:
        return f"size={self.size}, values={self.values}"
