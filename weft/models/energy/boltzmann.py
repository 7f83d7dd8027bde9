"""The Boltzmann machine: visible and hidden binary units, every pair of them joined (N1 §4.1)."""

from __future__ import annotations

from typing import Any

import weft

from ...errors import ShapeError
from ...tensor import Tensor
from ..generative.checks import binary_states
from ..generative.plans import in_one_plan
from ..generative.protocol import GenerativeModel, estimate, exact
from .enumeration import ENUMERABLE
from .pairwise import PairwiseMRF

__all__ = ["BoltzmannMachine"]

SUMMED = 12  # hidden units whose states are summed for every example


class BoltzmannMachine(GenerativeModel):
    """p(v) = Σ_h exp(−E(v, h)) / Z,   E(v, h) = −½ vᵀRv − vᵀWh − ½ hᵀSh − bᵀv − cᵀh,  R and S without diagonal.

    `joint` is the pairwise field over (v, h). Neither v given h nor h given v is independent, which is what an RBM
    gives up: both phases of the gradient need Gibbs chains.
    Shape: v (B, visible) of 0 and 1 → (B,)

    >>> machine = BoltzmannMachine(4, 2)
    >>> round(machine.log_prob(weft.ones(1, 4)).exp().item(), 6)
    0.0625
    """

    def __init__(self, visible: int, hidden: int, dtype: Any = None) -> None:
        super().__init__()
        self.visible, self.hidden = visible, hidden
        self.joint = PairwiseMRF(visible + hidden, dtype=dtype)

    @exact(where=lambda model: model.hidden <= SUMMED)
    def energy(self, x: Tensor) -> Tensor:
        """The free energy F(v) = −log Σ_h exp(−E(v, h)), summed over all h."""
        states = binary_states(self.hidden, x.dtype)
        both = weft.cat([x.repeat_interleave(len(states), 0), states.repeat(len(x), 1)], 1)  # (B · 2ᴴ, V + H)
        return -(-self.joint.energy(both)).reshape(len(x), -1).logsumexp(1)

    @exact(where=lambda model: model.hidden <= SUMMED and model.visible + model.hidden <= ENUMERABLE)
    def log_prob(self, x: Tensor) -> Tensor:
        """−F(v) − log Z."""
        return -self.energy(x) - self.joint.log_partition()

    def phases(self, v: Tensor, chains: Tensor, sweeps: int = 1, generator: Any = None) -> tuple[Tensor, Tensor]:
        """A loss whose slope estimates that of −log p(v), and the chains after `sweeps` (to be given next time).

        Positive phase: h drawn given v by Gibbs sweeps over the hidden units alone; negative phase: the chains
        (N, visible + hidden) go on freely. L = mean E(v, h) − mean E(chains).
        """
        if chains.shape[1] != self.visible + self.hidden:
            raise ShapeError(f"phases: expected chains (N, {self.visible + self.hidden}), got {tuple(chains.shape)}")
        start = weft.bernoulli(weft.full((len(v), self.hidden), 0.5, dtype=v.dtype), generator=generator)
        clamped = self.joint.gibbs(weft.cat([v, start], 1), sweeps, generator, first=self.visible)
        chains = self.joint.gibbs(chains, sweeps, generator)
        return self.joint.energy(clamped).mean() - self.joint.energy(chains).mean(), chains

    @weft.no_grad()
    def mean_field(self, v: Tensor, steps: int = 30) -> Tensor:
        """μ ≈ E[h | v] by μ ← σ(c + vW + μS), damped by half so that it does not swing. Shape: (B, visible) → (B, hidden)"""
        weight, bias = self.joint.weight[self.visible :], self.joint.bias[self.visible :]
        given = v @ weight[:, : self.visible].mT + bias  # (B, H)
        among = weight[:, self.visible :]
        step = lambda _, mean: 0.5 * (mean + weft.sigmoid(given + mean @ among))
        return weft.fori_loop(0, steps, step, weft.sigmoid(given))

    @estimate
    @in_one_plan
    def sample(self, n: int, condition: Any = None, generator: Any = None, sweeps: int = 200) -> Tensor:
        """The visible ends of n Gibbs chains: (n, visible)."""
        self._unconditional(condition)
        return self.joint.sample(n, generator=generator, sweeps=sweeps)[:, : self.visible]

    def extra_repr(self) -> str:
        return f"visible={self.visible}, hidden={self.hidden}"
