"""Restricted Boltzmann machines: hidden Bernoulli units over visible ones that are bits, numbers or choices (N1 §4.2).

E(v, h) = −t(v)ᵀ W h − cᵀh − (what v weighs alone); no links within a layer, so each is independent given the other.
`contrastive.py` trains them, `annealing.py` estimates their partition function.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..generative.checks import binary_states
from ..generative.plans import in_one_plan
from ..generative.protocol import Bound, GenerativeModel, bound, estimate, exact
from .annealing import ais, reverse_ais
from .enumeration import ENUMERABLE, log_sum, of_each

__all__ = ["RBM", "BernoulliRBM", "GaussianRBM", "SoftmaxRBM"]

F = nn.functional
BURN = 1000  # Gibbs steps from data to what counts as a sample of the model


class RBM(GenerativeModel):
    """What all machines with Bernoulli hidden units share; a subclass says what its visible units are.

    p(v) = exp(−F(v)) / Z,   F(v) = −u(v) − Σⱼ softplus(cⱼ + t(v)ᵀ W_:ⱼ), u the weight of v alone, t its features.

    Between β = 0, where nothing is coupled and the visible bias is `base`, and β = 1, the machine itself, lies a path of
    machines with couplings βW, hidden biases βc and visible bias (1 − β) base + β b: tempered chains and annealed
    importance sampling walk along it. Everything below that takes `beta` and `base` is about a point of this path.
    """

    def __init__(self, features: int, hidden: int, event_shape: tuple[int, ...], dtype: Any = None) -> None:
        super().__init__()
        self.hidden, self.event_shape = hidden, event_shape
        self.weight = nn.Parameter(0.01 * weft.randn(features, hidden, dtype=dtype))  # W (D, H)
        self.visible_bias = nn.Parameter(weft.zeros(features, dtype=dtype))  # b (D,)
        self.hidden_bias = nn.Parameter(weft.zeros(hidden, dtype=dtype))  # c (H,)

    # ------------------------------------------------------------------- what the visible units say
    bias_scale: Any = 1.0  # u(v) has the term t(v)ᵀ (b / bias_scale): (D,) or a number
    hidden_copies = 1  # of every hidden unit, with the same weights: h counts those that are on

    @abstractmethod
    def features(self, v: Tensor) -> Tensor:
        """t(v): (*, *event) → (*, D)"""

    @abstractmethod
    def visible_weight(self, v: Tensor, bias: Tensor) -> Tensor:
        """u(v), the logarithm of what v weighs without hidden units: (*, *event) → (*)"""

    @abstractmethod
    def log_visible_sum(self, field: Tensor, bias: Tensor) -> Tensor:
        """log Σ_v exp(u(v) + t(v)ᵀ field), or the integral: (*, D) → (*)"""

    @abstractmethod
    def visible_mean(self, field: Tensor, bias: Tensor) -> Tensor:
        """E[v] under p(v) ∝ exp(u(v) + t(v)ᵀ field): (*, D) → (*, *event)"""

    @abstractmethod
    def draw_visible(self, field: Tensor, bias: Tensor, generator: Any) -> Tensor:
        """A draw from the same distribution: (*, D) → (*, *event)"""

    # -------------------------------------------------------------------------- energies and layers
    def joint_energy(self, v: Tensor, h: Tensor) -> Tensor:
        """E(v, h): (B, *event), (B, H) → (B,)"""
        return -self.visible_weight(v, self.visible_bias) - (self.hidden_input(v) * h).sum(-1)

    def free_energy(self, v: Tensor, beta: Any = 1.0, base: Tensor | None = None) -> Tensor:
        """F(v) = −log Σ_h exp(−E(v, h)): (*, *event) → (*)"""
        above = self.hidden_copies * F.softplus(self.hidden_input(v, beta)).sum(-1)
        return -self.visible_weight(v, self.bias_at(beta, base)) - above

    def hidden_input(self, v: Tensor, beta: Any = 1.0) -> Tensor:
        """β (c + t(v) W), whose logistic function is p(h = 1 | v): (*, *event) → (*, H)"""
        return beta * (self.hidden_bias + self.features(v) @ self.weight)

    def bias_at(self, beta: Any = 1.0, base: Tensor | None = None) -> Tensor:
        """The visible bias at a point of the path."""
        return self.visible_bias if base is None else base + beta * (self.visible_bias - base)

    def draw_hidden(self, v: Tensor, generator: Any = None, beta: Any = 1.0) -> Tensor:
        """h ~ p(h | v): (*, *event) → (*, H)"""
        return _drawn(weft.sigmoid(self.hidden_input(v, beta)), self.hidden_copies, generator)

    def gibbs_step(self, v: Tensor, generator: Any = None, beta: Any = 1.0, base: Tensor | None = None) -> Tensor:
        """v → h ~ p(h | v) → v ~ p(v | h)"""
        h = self.draw_hidden(v, generator, beta)
        return self.draw_visible(beta * (h @ self.weight.mT), self.bias_at(beta, base), generator)

    @weft.no_grad()
    def gibbs(self, v: Tensor, steps: int = 1, generator: Any = None) -> Tensor:
        """v after `steps` steps; one native plan under `weft.compile`: like v"""
        self._check(v)
        if steps == 1:  # no loop: what else needs p(h | v) shares it
            return self.gibbs_step(v, generator)
        return weft.fori_loop(0, steps, lambda _, v: self.gibbs_step(v, generator), v)

    def statistics(self, v: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """E[t hᵀ], E[t], E[h] over the rows of v, h at its mean given v: (D, H), (D,), (H,).

        weights: (B,), which sum to 1; by default the rows count alike
        """
        t, h = self.features(v), self.hidden_copies * weft.sigmoid(self.hidden_input(v))
        weighted = t / len(t) if weights is None else t * weights.unsqueeze(1)
        mean = h.mean(0) if weights is None else weights @ h
        return weighted.mT @ h, weighted.sum(0), mean

    # ---------------------------------------------------------------------------------- the protocol
    @property
    def enumerable(self) -> bool:
        """Whether Z can be summed exactly."""
        return self.hidden <= ENUMERABLE

    @exact
    def energy(self, x: Tensor) -> Tensor:
        """The free energy of the visible units."""
        self._check(x)
        return self.free_energy(x)

    @exact(where=lambda model: model.enumerable)
    def log_prob(self, x: Tensor) -> Tensor:
        """−F(x) − log Z, with Z summed over the states of one layer; its gradient is the exact one of learning."""
        return -self.energy(x) - self.log_partition()

    def log_partition(self) -> Tensor:
        """log Z = log Σ_h exp(cᵀh) Σ_v exp(u(v) + t(v)ᵀ W h), over the 2ᴴ states of the hidden layer."""
        if self.hidden > ENUMERABLE:
            raise ShapeError(
                f"log_partition: 2^{self.hidden} hidden states are too many; weft.models.energy.ais estimates it"
            )
        return log_sum(self._hidden_weight, self.hidden, self.weight.dtype)

    @bound
    @weft.no_grad()
    def log_prob_bound(
        self,
        x: Tensor,
        side: str = "upper",
        *,
        chains: int = 100,
        temperatures: int | Tensor = 1000,
        base: Tensor | None = None,
        start: Tensor | None = None,
        generator: Any = None,
    ) -> Bound:
        """log p(x) from above by AIS, from below by reverse AIS, each up to its error: take both, they enclose the truth.

        AIS alone looks too good: it misses modes, so its Z is too small. start (for "lower"): samples of the model; by
        default exact ones, or, where there are too many hidden units, the ends of `BURN` Gibbs steps from rows of x. The
        longer such chains have run, the truer the side. Each walk is one native plan.
        """
        if side not in ("lower", "upper"):
            raise OptionError(f"log_prob_bound: side must be 'lower' or 'upper', got {side!r}")
        if side == "upper":
            value, error = self._annealed(chains, temperatures, base, generator)
        else:
            start = self._converged(x, chains, generator) if start is None else start
            value, error = self._annealed_back(start, temperatures, base, generator)
        return Bound(-self.energy(x) - value, side, error.expand(len(x)))

    @in_one_plan
    def _annealed(self, chains: int, temperatures: int | Tensor, base: Tensor | None, generator: Any) -> Any:
        return ais(self, chains, temperatures, base=base, generator=generator)[::2]

    @in_one_plan
    def _annealed_back(self, start: Tensor, temperatures: int | Tensor, base: Tensor | None, generator: Any) -> Any:
        return reverse_ais(self, start, temperatures, base=base, generator=generator)[::2]

    def _converged(self, x: Tensor, chains: int, generator: Any) -> Tensor:
        """Samples of the model to begin with: exact ones if they can be had, else chains that began at data."""
        if self.hidden <= ENUMERABLE:
            return self.exact_sample(chains, generator)
        chosen = weft.randint(len(x), (chains,), generator=generator)
        return self._walked(x[chosen], BURN, generator)

    @in_one_plan
    def _walked(self, v: Tensor, steps: int, generator: Any) -> Tensor:
        return self.gibbs(v, steps, generator)

    @exact
    def encode(self, x: Tensor) -> Tensor:
        """E[h | v]: (B, *event) → (B, H)"""
        self._check(x)
        return weft.sigmoid(self.hidden_input(x))

    @exact
    def decode(self, z: Tensor) -> Tensor:
        """E[v | h]: (B, H) → (B, *event)"""
        return self.visible_mean(z @ self.weight.mT, self.visible_bias)

    @estimate
    @in_one_plan
    @weft.no_grad()
    def sample(self, n: int, condition: Any = None, generator: Any = None, steps: int = 1000) -> Tensor:
        """The ends of n Gibbs chains that start from hidden units at random: (n, *event)."""
        self._unconditional(condition)
        return self.gibbs(self.start(n, generator), steps, generator)

    @weft.no_grad()
    def start(self, n: int, generator: Any = None) -> Tensor:
        """Visible units given hidden ones that are fair coins: (n, *event)."""
        coins = weft.bernoulli(weft.full((n, self.hidden), 0.5, dtype=self.weight.dtype), generator=generator)
        return self.draw_visible(coins @ self.weight.mT, self.visible_bias, generator)

    @weft.no_grad()
    def exact_sample(self, n: int, generator: Any = None) -> Tensor:
        """n independent draws: h from its enumerated distribution, then v given h. Shape: → (n, *event)"""
        if self.hidden > ENUMERABLE:
            raise ShapeError(f"exact_sample: 2^{self.hidden} hidden states are too many; sample(n) runs chains instead")
        kind = self.weight.dtype
        weights = of_each(self._hidden_weight, self.hidden, kind)
        chosen = weft.multinomial(weights.softmax(0), n, replacement=True, generator=generator)
        return self.draw_visible(
            binary_states(self.hidden, kind)[chosen] @ self.weight.mT, self.visible_bias, generator
        )

    def _hidden_weight(self, h: Tensor) -> Tensor:
        """log Σ_v exp(−E(v, h)): (N, H) → (N,)"""
        return h @ self.hidden_bias + self.log_visible_sum(h @ self.weight.mT, self.visible_bias)

    def _check(self, v: Tensor) -> None:
        if tuple(v.shape[1:]) != self.event_shape:
            sizes = ", ".join(map(str, self.event_shape))
            raise ShapeError(f"{type(self).__name__}: expected v of shape (B, {sizes}), got {tuple(v.shape)}")

    def extra_repr(self) -> str:
        return f"visible={self.event_shape}, hidden={self.hidden}"


class BernoulliRBM(RBM):
    """Bits over bits: E(v, h) = −vᵀWh − bᵀv − cᵀh, p(v = 1 | h) = σ(b + Wh).

    copies: of every visible and every hidden unit, all with the same weights; v and h then count those that are on. A
    layer of a deep Boltzmann machine, which hears from both sides, is first trained with itself as its own other side
    Shape: v (B, visible) of 0 and 1

    >>> rbm = BernoulliRBM(784, 16)
    >>> rbm.promises["log_prob"], BernoulliRBM(784, 500).promises.get("log_prob")
    ('exact', None)
    """

    def __init__(self, visible: int, hidden: int, dtype: Any = None, copies: tuple[int, int] = (1, 1)) -> None:
        super().__init__(visible, hidden, (visible,), dtype)
        if min(copies) < 1:
            raise OptionError(f"BernoulliRBM: expected at least one copy of each unit, got {copies}")
        self.visible_copies, self.hidden_copies = copies

    @property
    def enumerable(self) -> bool:
        single = self.visible_copies == self.hidden_copies == 1
        return single and min(self.hidden, *self.event_shape) <= ENUMERABLE

    def log_partition(self) -> Tensor:
        """log Z over the states of the smaller layer."""
        if self.hidden <= self.event_shape[0] or self.event_shape[0] > ENUMERABLE:
            return super().log_partition()
        return self.log_partition_over_visible()

    def log_partition_over_visible(self) -> Tensor:
        """log Z = log Σ_v exp(−F(v)) over the 2ᴰ states of the visible layer."""
        return log_sum(lambda v: -self.free_energy(v), self.event_shape[0], self.weight.dtype)

    def features(self, v: Tensor) -> Tensor:
        return v

    def visible_weight(self, v: Tensor, bias: Tensor) -> Tensor:
        return (v * bias).sum(-1)

    def log_visible_sum(self, field: Tensor, bias: Tensor) -> Tensor:
        return self.visible_copies * F.softplus(field + bias).sum(-1)

    def visible_mean(self, field: Tensor, bias: Tensor) -> Tensor:
        return self.visible_copies * weft.sigmoid(field + bias)

    def draw_visible(self, field: Tensor, bias: Tensor, generator: Any) -> Tensor:
        return _drawn(weft.sigmoid(field + bias), self.visible_copies, generator)

    def pseudo_log_likelihood(self, v: Tensor) -> Tensor:
        """Σᵢ log p(vᵢ | all others) = Σᵢ log σ(F(v with bit i flipped) − F(v)), over all D bits: (B, D) → (B,)."""
        self._check(v)
        inputs = self.hidden_input(v)  # (B, H)
        here = F.softplus(inputs).sum(-1)

        def flip(total: Tensor, unit: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, None]:
            row, bias, bit = unit
            turn = 1 - 2 * bit  # (B,)
            there = F.softplus(inputs + turn.unsqueeze(1) * row).sum(-1)
            return total + F.logsigmoid(here - there - turn * bias), None

        return weft.scan(flip, weft.zeros_like(here), (self.weight, self.visible_bias, v.mT))[0]

    def sampled_pseudo_log_likelihood(self, v: Tensor, generator: Any = None) -> Tensor:
        """D log p(vᵢ | all others) for one random bit i of each row, whose mean is `pseudo_log_likelihood`: (B,)."""
        chosen = weft.randint(v.shape[1], (len(v), 1), generator=generator)
        flipped = weft.where(weft.arange(v.shape[1]) == chosen, 1 - v, v)
        return v.shape[1] * F.logsigmoid(self.free_energy(flipped) - self.free_energy(v))


class GaussianRBM(RBM):
    """Numbers over bits: E(v, h) = Σᵢ (vᵢ − bᵢ)² / 2σᵢ² − (v/σ)ᵀ W h − cᵀh, v | h ~ N(b + σ W h, σ²).

    A mixture of 2ᴴ normal distributions. Data are best standardised, which makes σ = 1; learning rates are smaller than
    with bits.

    scale: σ, a number or one for each unit; fixed
    Shape: v (B, visible)
    """

    continuous = True

    def __init__(self, visible: int, hidden: int, scale: float | Tensor = 1.0, dtype: Any = None) -> None:
        super().__init__(visible, hidden, (visible,), dtype)
        self.register_buffer("scale", weft.as_tensor(scale, dtype=self.weight.dtype).expand(visible).clone())

    @property
    def bias_scale(self) -> Tensor:
        return self.scale

    def features(self, v: Tensor) -> Tensor:
        return v / self.scale

    def visible_weight(self, v: Tensor, bias: Tensor) -> Tensor:
        return -0.5 * (((v - bias) / self.scale) ** 2).sum(-1)

    def log_visible_sum(self, field: Tensor, bias: Tensor) -> Tensor:
        constant = (0.5 * math.log(2 * math.pi) + self.scale.log()).sum()
        return (field * bias / self.scale + 0.5 * field**2).sum(-1) + constant

    def visible_mean(self, field: Tensor, bias: Tensor) -> Tensor:
        return bias + self.scale * field

    def draw_visible(self, field: Tensor, bias: Tensor, generator: Any) -> Tensor:
        return bias + self.scale * (field + weft.randn(field.shape, dtype=field.dtype, generator=generator))


class SoftmaxRBM(RBM):
    """Choices over bits (Potts units): each visible unit takes one of `categories` values, p(k | h) = softmax(b + Wh)ₖ.

    Shape: v (B, visible, categories), each row of it one 1 among zeros
    """

    def __init__(self, visible: int, categories: int, hidden: int, dtype: Any = None) -> None:
        super().__init__(visible * categories, hidden, (visible, categories), dtype)

    def features(self, v: Tensor) -> Tensor:
        return v.flatten(-2)  # (*, visible, K) → (*, visible · K)

    def visible_weight(self, v: Tensor, bias: Tensor) -> Tensor:
        return (self.features(v) * bias).sum(-1)

    def log_visible_sum(self, field: Tensor, bias: Tensor) -> Tensor:
        return self._logits(field, bias).logsumexp(-1).sum(-1)

    def visible_mean(self, field: Tensor, bias: Tensor) -> Tensor:
        return self._logits(field, bias).softmax(-1)

    def draw_visible(self, field: Tensor, bias: Tensor, generator: Any) -> Tensor:
        logits = self._logits(field, bias)
        gumbel = -(-weft.rand(logits.shape, dtype=logits.dtype, generator=generator).log()).log()
        best = (logits + gumbel).argmax(-1, keepdim=True)
        return (weft.arange(self.event_shape[1]) == best).to(logits.dtype)

    def _logits(self, field: Tensor, bias: Tensor) -> Tensor:
        return (field + bias).unflatten(-1, self.event_shape)  # (*, visible · K) → (*, visible, K)


def _drawn(rate: Tensor, copies: int, generator: Any) -> Tensor:
    """How many of `copies` coins with this rate come up: like rate."""
    tosses = [weft.bernoulli(rate, generator=generator) for _ in range(copies)]
    return tosses[0] if copies == 1 else sum(tosses[1:], tosses[0])
