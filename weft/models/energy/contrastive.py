"""Learning of restricted Boltzmann machines: losses whose slope is the data's statistics less the model's.

−∇ log p(v) = ⟨∂E⟩_data − ⟨∂E⟩_model. The second mean needs samples of the model: a few Gibbs steps from the data
(Hinton 2002), chains that go on from step to step (Tieleman 2008), or chains at many temperatures that trade places.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from .rbm import RBM

__all__ = ["ContrastiveDivergence", "LikelihoodGradient", "ParallelTempering", "PersistentContrastiveDivergence"]


class LikelihoodGradient(nn.Module):
    """loss = F(v) − F(negatives), in the mean; its `backward` gives the estimated gradient of −log p(v).

    centred: the gradient of the machine with energy −(t − μ)ᵀ W (h − λ) − bᵀ(t − μ) − cᵀ(h − λ), carried back to plain
    parameters (Melchior, Fischer and Wiskott 2016), with μ and λ running means of t(v) and of h over the data:

        ∇W = ⟨(t − μ)(h − λ)ᵀ⟩_data − ⟨…⟩_model,   ∇b = ⟨t⟩ − ⟨t⟩ − ∇W λ,   ∇c = ⟨h⟩ − ⟨h⟩ − ∇Wᵀ μ

    The same whether ones or zeros are called ink, and better conditioned; μ = λ = 0 is the plain gradient.
    rate: how fast μ and λ follow the data

    >>> from weft.models.energy import BernoulliRBM
    >>> rbm = BernoulliRBM(6, 3)
    >>> learning, optimizer = PersistentContrastiveDivergence(rbm, chains=10), weft.optim.SGD(rbm.parameters(), lr=0.1)
    >>> learning(weft.ones(4, 6)).backward()
    >>> optimizer.step()
    """

    def __init__(self, rbm: RBM, *, centred: bool = False, rate: float = 0.01) -> None:
        super().__init__()
        if not 0 <= rate <= 1:
            raise OptionError(f"{type(self).__name__}: rate must lie in [0, 1], got {rate}")
        self.rbm = rbm
        self.centred, self.rate = centred, rate
        self.register_buffer("visible_offset", weft.zeros_like(rbm.visible_bias).detach())  # μ (D,)
        self.register_buffer("hidden_offset", weft.zeros_like(rbm.hidden_bias).detach())  # λ (H,)

    @abstractmethod
    def negatives(self, v: Tensor, generator: Any) -> Tensor:
        """Samples that stand for the model: (N, *event)"""

    @weft.no_grad()
    def centre(self, v: Tensor) -> None:
        """Put μ and λ at the means of these data, as before the first step: (N, *event)."""
        _, features, hidden = self.rbm.statistics(v)
        self.visible_offset.copy_(features)
        self.hidden_offset.copy_(hidden)

    def forward(self, v: Tensor, generator: Any = None) -> Tensor:
        with weft.no_grad():
            negatives = self.negatives(v, generator)
        return self.loss(v, negatives)

    def loss(self, v: Tensor, negatives: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss with given negatives: (B, *event), (N, *event) → (); weights: (N,) of the negatives, summing to 1"""
        rbm = self.rbm
        with weft.no_grad():
            data, model = rbm.statistics(v), rbm.statistics(negatives, weights)
            if self.centred:
                self.visible_offset.lerp_(data[1], self.rate)
                self.hidden_offset.lerp_(data[2], self.rate)
            slopes = self._slopes(*(a - b for a, b in zip(data, model, strict=True)))
            energies = rbm.free_energy(negatives)
            gap = rbm.free_energy(v).mean() - (energies.mean() if weights is None else weights @ energies)
            parameters = (rbm.weight, rbm.visible_bias, rbm.hidden_bias)
        line = sum(-(p * slope).sum() for p, slope in zip(parameters, slopes, strict=True))
        return gap + line - line.detach()  # the value of one, the slope of the other

    def _slopes(self, products: Tensor, features: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Differences of statistics as slopes of log p in W, b and c: (D, H), (D,), (H,)."""
        mu, lam, scale = self.visible_offset, self.hidden_offset, self.rbm.bias_scale
        if not self.centred:  # μ = λ = 0
            return products, features / scale, hidden
        weight = products - mu.outer(hidden) - features.outer(lam)
        return weight, features / scale - scale * (weight @ lam), hidden - mu @ weight


class ContrastiveDivergence(LikelihoodGradient):
    """CD-k: negatives are k Gibbs steps away from the data. Cheap and biased; the bias falls as k grows."""

    def __init__(self, rbm: RBM, steps: int = 1, **options: Any) -> None:
        super().__init__(rbm, **options)
        self.steps = steps

    def negatives(self, v: Tensor, generator: Any) -> Tensor:
        return self.rbm.gibbs(v, self.steps, generator)


class PersistentContrastiveDivergence(LikelihoodGradient):
    """PCD-k: `chains` go on for k Gibbs steps each time, while the model moves slowly under them."""

    def __init__(self, rbm: RBM, chains: int = 100, steps: int = 1, *, generator: Any = None, **options: Any) -> None:
        super().__init__(rbm, **options)
        self.steps = steps
        self.register_buffer("chains", rbm.start(chains, generator))

    def negatives(self, v: Tensor, generator: Any) -> Tensor:
        self.chains.copy_(self.rbm.gibbs(self.chains, self.steps, generator))
        return self.chains.clone()


class ParallelTempering(LikelihoodGradient):
    """Chains at β = 0, …, 1 along the path of the machine; after each step neighbours in temperature may trade states.

    Hot chains wander freely and hand on what they find. Neighbours trade with probability
    min(1, p_i(v_j) p_j(v_i) / (p_i(v_i) p_j(v_j))) (Desjardins et al. 2010), so every temperature keeps its distribution.
    """

    def __init__(
        self,
        rbm: RBM,
        chains: int = 100,
        temperatures: int = 10,
        steps: int = 1,
        *,
        base: Tensor | None = None,
        generator: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(rbm, **options)
        if temperatures < 2:
            raise OptionError(f"ParallelTempering: expected at least 2 temperatures, got {temperatures}")
        self.steps = steps
        kind = rbm.weight.dtype
        self.register_buffer("base", rbm.visible_bias.detach().clone() if base is None else base)
        self.register_buffer("beta", weft.linspace(0, 1, temperatures, dtype=kind).reshape(-1, 1, 1))
        start = rbm.start(temperatures * chains, generator)
        self.register_buffer("chains", start.reshape(temperatures, chains, *rbm.event_shape))

    def negatives(self, v: Tensor, generator: Any) -> Tensor:
        self.chains.copy_(weft.fori_loop(0, self.steps, lambda _, chains: self._step(chains, generator), self.chains))
        return self.chains[-1].clone()

    def _step(self, chains: Tensor, generator: Any) -> Tensor:
        chains = self.rbm.gibbs_step(chains, generator, self.beta, self.base)
        for first in (0, 1):
            chains = self._traded(chains, first, generator)
        return chains

    def _traded(self, chains: Tensor, first: int, generator: Any) -> Tensor:
        """Pairs (i, i + 1) for i = first, first + 2, … trade. Shape: (M, N, *event)"""
        count, size = chains.shape[:2]
        weight = lambda states, beta: -self.rbm.free_energy(states, beta, self.base)
        above, below = chains.roll(-1, 0), chains.roll(1, 0)
        own = weight(chains, self.beta)  # (M, N)
        gain = weight(above, self.beta) + weight(below, self.beta).roll(-1, 0) - own - own.roll(-1, 0)
        number = weft.arange(count).unsqueeze(1)
        pairs = (number % 2 == first) & (number < count - 1)
        up = (weft.rand(count, size, dtype=gain.dtype, generator=generator).log() < gain) & pairs
        wide = lambda mask: mask.reshape(count, size, *(1 for _ in self.rbm.event_shape))
        return weft.where(wide(up), above, weft.where(wide(up.roll(1, 0)), below, chains))
