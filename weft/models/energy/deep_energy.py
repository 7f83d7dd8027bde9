"""Energies that a network computes, trained on chains that are kept from step to step (N1 §4; Du and Mordatch 2019)."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..generative.plans import in_one_plan
from ..generative.protocol import GenerativeModel, estimate, exact
from .dynamics import hamiltonian, langevin

__all__ = ["DeepEnergy", "ReplayBuffer"]


class DeepEnergy(GenerativeModel):
    """p(x) = exp(−f(x)) / Z with any network f: (B, *event) → (B,) or (B, 1); Z is not known, the score is.

    step, steps: those of the Langevin chains that `sample` and training run; clip: of their slopes
    limit: energies are held within ±limit, E = limit · tanh(f / limit), so that no state is more than exp(2 limit) times as
    likely as another and chains find their way out
    leaps: chains are Hamiltonian, with so many leapfrogs a step, instead of Langevin's
    Shape: x (B, *event) → (B,)

    >>> model = DeepEnergy(weft.nn.Linear(2, 1), (2,))
    >>> model.promises
    {'energy': 'exact', 'score': 'exact', 'sample': 'estimate'}
    """

    continuous = True

    def __init__(
        self,
        network: nn.Module,
        event_shape: tuple[int, ...],
        *,
        step: float = 0.01,
        steps: int = 60,
        clip: float | None = None,
        limit: float | None = None,
        leaps: int | None = None,
    ) -> None:
        super().__init__()
        if limit is not None and not limit > 0:
            raise OptionError(f"DeepEnergy: expected a limit above 0, got {limit}")
        if clip is not None and leaps is not None:
            raise OptionError(
                "DeepEnergy: clipped slopes would falsify the acceptance of Hamiltonian chains; take one of both"
            )
        self.network, self.event_shape = network, tuple(event_shape)
        self.step, self.steps, self.clip, self.limit, self.leaps = step, steps, clip, limit, leaps

    @exact
    def energy(self, x: Tensor) -> Tensor:
        """f(x), held by the limit if there is one"""
        found = self.network(x)
        if found.numel() != len(x):
            raise ShapeError(f"DeepEnergy: expected one number for each of {len(x)} rows, got {tuple(found.shape)}")
        found = found.reshape(len(x))
        return found if self.limit is None else self.limit * weft.tanh(found / self.limit)

    def walk(self, x: Tensor, steps: int | None = None, generator: Any = None) -> Tensor:
        """x after Langevin steps, or Hamiltonian ones: like x."""
        count = steps or self.steps
        if self.leaps is not None:
            return hamiltonian(self.energy, x, count, self.step, generator, leaps=self.leaps)[0]
        return langevin(self.energy, x, count, self.step, generator, clip=self.clip)

    @estimate
    @in_one_plan
    def sample(self, n: int, condition: Any = None, generator: Any = None, steps: int = 1000) -> Tensor:
        """The ends of n Langevin chains that start from standard normal noise: (n, *event)."""
        self._unconditional(condition)
        return self.walk(weft.randn(n, *self.event_shape, generator=generator), steps, generator)


class ReplayBuffer(nn.Module):
    """Chains kept between training steps, so that short walks make long ones; a few start anew each time.

    loss(x) = mean f(x) − mean f(walked) + α (mean f(x)² + mean f(walked)²): its slope estimates that of −log p(x), and α
    keeps energies, which are free up to a constant, near 0.

    size: chains kept; anew: the share of a batch that starts from noise; strength: α

    >>> buffer = ReplayBuffer(DeepEnergy(weft.nn.Linear(2, 1), (2,), steps=3), size=20)
    >>> buffer(weft.zeros(8, 2)).backward()
    """

    def __init__(
        self, model: DeepEnergy, size: int = 1000, *, anew: float = 0.05, strength: float = 0.1, generator: Any = None
    ) -> None:
        super().__init__()
        self.model, self.anew, self.strength = model, anew, strength
        self.register_buffer("chains", weft.randn(size, *model.event_shape, generator=generator))

    def forward(self, x: Tensor, generator: Any = None) -> Tensor:
        walked = self.negatives(len(x), generator)
        here, there = self.model.energy(x), self.model.energy(walked)
        return here.mean() - there.mean() + self.strength * ((here**2).mean() + (there**2).mean())

    @weft.no_grad()
    def negatives(self, n: int, generator: Any = None) -> Tensor:
        """n chains taken at random, walked, and put back: (n, *event)."""
        places = weft.randint(len(self.chains), (n,), generator=generator)
        fresh = weft.rand(n, generator=generator) < self.anew
        noise = weft.randn(n, *self.model.event_shape, generator=generator)
        start = weft.where(fresh.reshape(-1, *(1 for _ in self.model.event_shape)), noise, self.chains[places])
        walked = self.model.walk(start, generator=generator).detach()
        self.chains.index_copy_(0, places, walked)
        return walked
