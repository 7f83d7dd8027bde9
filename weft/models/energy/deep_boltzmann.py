"""The deep Boltzmann machine: two layers of hidden units, joined without arrows (Salakhutdinov and Hinton 2009).

Units of the first hidden layer see the visible ones and the second layer, which do not see each other: the machine is a
restricted one with (v, h²) below and h¹ above. Chains, annealing and exact sums are those of `BernoulliRBM`; what is new
is that of the lower side one half is not observed.
"""

from __future__ import annotations

from typing import Any

import weft

from ...errors import OptionError
from ...tensor import Tensor
from ..generative.checks import binary_states
from ..generative.plans import in_one_plan
from ..generative.protocol import Bound, GenerativeModel, bound, estimate, exact
from .annealing import reverse_ais
from .rbm import BURN, BernoulliRBM

__all__ = ["DeepBoltzmannMachine"]

SUMMED = 12  # units of the second layer whose states are summed for every example


class DeepBoltzmannMachine(GenerativeModel):
    """p(v) = Σ_h exp(−E) / Z,   E(v, h¹, h²) = −vᵀW¹h¹ − h¹ᵀW²h² − bᵀv − c¹ᵀh¹ − c²ᵀh².

    `joint` is the same machine as an RBM over (v, h²). Given v, hidden units are not independent: their posterior is
    approximated by means μ¹ = σ(c¹ + vW¹ + W²μ²), μ² = σ(c² + μ¹W²), and

        log p(v) ≥ −E(v, μ) + H(μ) − log Z.

    It learns as `joint` does, from examples that are `completed`: the data's statistics at the means, the model's from
    chains over all three layers.

    steps: updates of the means
    Shape: v (B, visible) of 0 and 1 → (B,)

    >>> from weft.models.energy import PersistentContrastiveDivergence
    >>> machine = DeepBoltzmannMachine(6, 4, 3)
    >>> machine.promises["log_prob"], machine.log_prob_bound(weft.ones(2, 6)).side
    ('exact', 'lower')
    >>> PersistentContrastiveDivergence(machine.joint, chains=10)(machine.completed(weft.ones(5, 6))).backward()
    """

    def __init__(self, visible: int, first: int, second: int, steps: int = 10, dtype: Any = None) -> None:
        super().__init__()
        self.visible, self.first, self.second, self.steps = visible, first, second, steps
        self.joint = BernoulliRBM(visible + second, first, dtype)

    @weft.no_grad()
    def start_from(self, bottom: BernoulliRBM, top: BernoulliRBM) -> None:
        """Weights of two RBMs trained one after the other: `bottom` with two copies of its visible units, `top`, on the
        hidden units of `bottom`, with two copies of its hidden ones, so that each layer has heard from two sides.
        """
        sizes = (bottom.event_shape[0], bottom.hidden, top.event_shape[0], top.hidden)
        if sizes != (self.visible, self.first, self.first, self.second):
            raise OptionError(
                f"start_from: machines of {sizes[:2]} and {sizes[2:]} units do not fit {self.extra_repr()}"
            )
        self.joint.weight.copy_(weft.cat([bottom.weight, top.weight.mT]))
        self.joint.visible_bias.copy_(weft.cat([bottom.visible_bias, top.hidden_bias]))
        self.joint.hidden_bias.copy_(0.5 * (bottom.hidden_bias + top.visible_bias))

    # ------------------------------------------------------------------------------------- inference
    @weft.no_grad()
    def mean_field(self, v: Tensor, steps: int | None = None) -> tuple[Tensor, Tensor]:
        """μ¹ and μ², layer after layer, from an upward pass with doubled weights: (B, first), (B, second)"""
        weight, bias = self.joint.weight, self.joint.visible_bias[self.visible :]
        seen = v @ weight[: self.visible] + self.joint.hidden_bias  # (B, H¹)
        across = weight[self.visible :]  # (H², H¹)

        def step(_: Tensor, means: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            first = weft.sigmoid(seen + means[1] @ across)
            return first, weft.sigmoid(first @ across.mT + bias)

        first = weft.sigmoid(2 * seen - self.joint.hidden_bias)
        begun = (first, weft.sigmoid(first @ across.mT + bias))
        return weft.fori_loop(0, self.steps if steps is None else steps, step, begun)

    def completed(self, v: Tensor) -> Tensor:
        """(v, μ²), which the joint machine takes for its visible units: (B, visible + second)"""
        return weft.cat([v, self.mean_field(v)[1]], 1)

    def variational(self, v: Tensor) -> Tensor:
        """−E(v, μ) + H(μ), summed over h¹ given μ² exactly: log p(v) + log Z, from below: (B,)"""
        second = self.mean_field(v)[1]
        entropy = -(weft.xlogy(second, second) + weft.xlogy(1 - second, 1 - second)).sum(1)
        return entropy - self.joint.free_energy(weft.cat([v, second], 1))

    # ----------------------------------------------------------------------------------- the protocol
    @exact(where=lambda model: model.second <= SUMMED and model.joint.enumerable)
    def log_prob(self, x: Tensor) -> Tensor:
        """log Σ_h² exp(−F(v, h²)) − log Z."""
        states = binary_states(self.second, x.dtype)
        both = weft.cat([x.repeat_interleave(len(states), 0), states.repeat(len(x), 1)], 1)  # (B · 2^H², V + H²)
        return (-self.joint.free_energy(both)).reshape(len(x), -1).logsumexp(1) - self.joint.log_partition()

    @bound
    @weft.no_grad()
    def log_prob_bound(
        self,
        x: Tensor,
        *,
        chains: int = 100,
        temperatures: int | Tensor = 1000,
        base: Tensor | None = None,
        start: Tensor | None = None,
        generator: Any = None,
    ) -> Bound:
        """The variational bound less log Z, which is exact for small machines and else from above, by reverse AIS.

        base: biases of the visible units where annealing begins, those of the second layer get 0; start: states
        (N, visible + second) of the machine, by default the ends of `BURN` Gibbs steps from rows of x
        """
        if self.joint.enumerable:
            value, error = self.joint.log_partition(), weft.zeros((), dtype=x.dtype)
        else:
            start = self._converged(x, chains, generator) if start is None else start
            value, error = self._annealed(start, temperatures, self._base(base), generator)
        return Bound(self.variational(x) - value, "lower", error.expand(len(x)))

    def _base(self, base: Tensor | None) -> Tensor | None:
        return None if base is None else weft.cat([base, weft.zeros(self.second, dtype=base.dtype)])

    @in_one_plan
    def _annealed(self, start: Tensor, temperatures: int | Tensor, base: Tensor | None, generator: Any) -> Any:
        return reverse_ais(self.joint, start, temperatures, base=base, generator=generator)[::2]

    def _converged(self, x: Tensor, chains: int, generator: Any) -> Tensor:
        begun = self.completed(x[weft.randint(len(x), (chains,), generator=generator)])
        return self._walked(weft.bernoulli(begun, generator=generator), BURN, generator)

    @in_one_plan
    def _walked(self, v: Tensor, steps: int, generator: Any) -> Tensor:
        return self.joint.gibbs(v, steps, generator)

    @estimate
    def encode(self, x: Tensor) -> Tensor:
        """(μ¹, μ²): (B, first + second)"""
        return weft.cat(list(self.mean_field(x)), 1)

    @estimate
    @in_one_plan
    def sample(self, n: int, condition: Any = None, generator: Any = None, steps: int = 1000) -> Tensor:
        """The visible ends of n Gibbs chains: (n, visible)."""
        self._unconditional(condition)
        return self.joint.sample(n, generator=generator, steps=steps)[:, : self.visible]

    def extra_repr(self) -> str:
        return f"visible={self.visible}, first={self.first}, second={self.second}"
