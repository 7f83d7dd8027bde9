"""Hopfield networks: patterns as the valleys of an energy, recalled by going down (N1 §4.4).

Three rules of storage for the binary network (Hopfield 1982; Personnaz 1985; Storkey 1997), and the modern continuous
one, whose update is attention (Ramsauer et al. 2020).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..generative.protocol import GenerativeModel, estimate, exact

__all__ = ["Hopfield", "ModernHopfield", "hebbian", "pseudo_inverse", "recall_overlap", "storkey"]

TIE = 1e-5  # a field that is 0 but for rounding: those of Hebb's rule are multiples of 1 / N


def hebbian(patterns: Tensor) -> Tensor:
    """W = Σ_μ ξ^μ ξ^μᵀ / N without diagonal; holds about 0.138 N random patterns. Shape: (P, N) → (N, N)"""
    return _hollow(patterns.mT @ patterns / patterns.shape[1])


def pseudo_inverse(patterns: Tensor) -> Tensor:
    """W = Ξ⁺ Ξ without diagonal: the projection on the patterns, which are all fixed while they are independent, P < N."""
    return _hollow(weft.linalg.pinv(patterns) @ patterns)


def storkey(patterns: Tensor) -> Tensor:
    """ΔWᵢⱼ = (ξᵢ ξⱼ − ξᵢ hⱼᵢ − hᵢⱼ ξⱼ) / N with hᵢⱼ = Σ_{k ≠ i, j} Wᵢₖ ξₖ, pattern by pattern: local like Hebb's rule, holds more."""
    size = patterns.shape[1]
    weight = weft.zeros(size, size, dtype=patterns.dtype)
    for pattern in patterns:
        outside = (weight @ pattern).unsqueeze(1) - weight * pattern  # hᵢⱼ, as Wᵢᵢ = 0
        cross = outside * pattern  # hᵢⱼ ξⱼ
        weight = weight + _hollow((pattern.outer(pattern) - cross - cross.mT) / size)
    return weight


RULES: dict[str, Callable[[Tensor], Tensor]] = {
    "hebbian": hebbian,
    "pseudo-inverse": pseudo_inverse,
    "storkey": storkey,
}


class Hopfield(GenerativeModel):
    """Units sᵢ = ±1 with E(s) = −½ sᵀWs; a unit turns to the sign of its field Σⱼ Wᵢⱼ sⱼ, and stays where that is 0.

    With W symmetric and without diagonal no asynchronous update raises the energy, so recall ends in a valley;
    synchronous updates end there or in a cycle of two states (Goles 1985).

    rule: "hebbian", "pseudo-inverse" or "storkey"
    Shape: s (B, size) of ±1 → (B, size)

    >>> patterns = weft.tensor([[1.0, 1, 1, -1, -1, -1], [1.0, -1, 1, -1, 1, -1]])
    >>> Hopfield(patterns).recall(weft.tensor([[1.0, 1, 1, -1, -1, 1]])).tolist()
    [[1.0, 1.0, 1.0, -1.0, -1.0, -1.0]]
    """

    def __init__(self, patterns: Tensor, rule: str = "hebbian") -> None:
        super().__init__()
        if rule not in RULES:
            raise OptionError(f"Hopfield: rule must be one of {', '.join(RULES)}, got {rule!r}")
        if patterns.ndim != 2 or not (patterns.abs() == 1).all().item():
            raise ShapeError(f"Hopfield: expected patterns (P, N) of −1 and 1, got {tuple(patterns.shape)}")
        self.rule = rule
        self.register_buffer("weight", RULES[rule](patterns))

    @exact
    def energy(self, x: Tensor) -> Tensor:
        """E(s) = −½ sᵀWs: (B,)."""
        return -0.5 * ((x @ self.weight) * x).sum(-1)

    @weft.no_grad()
    def recall(self, x: Tensor, sweeps: int = 20, generator: Any = None) -> Tensor:
        """Asynchronous: unit after unit, all of them in each of `sweeps` sweeps, in one random order (with a generator),
        else as they lie. One native plan under `weft.compile`."""
        size = len(self.weight)
        order = weft.arange(size) if generator is None else weft.randperm(size, generator=generator)
        return _descended(self.weight[order], weft.eye(size, dtype=weft.bool)[order], x, sweeps)

    @weft.no_grad()
    def recall_synchronous(self, x: Tensor, steps: int = 20) -> Tensor:
        """All units at once, `steps` times."""
        return weft.fori_loop(0, steps, lambda _, x: _turned(x @ self.weight, x), x)

    @estimate
    def reconstruct(self, x: Tensor) -> Tensor:
        """The valley that x lies over, by asynchronous recall."""
        return self.recall(x)

    def is_stable(self, x: Tensor) -> Tensor:
        """Whether no unit wants to turn: (B,) of bool."""
        return (_turned(x @ self.weight, x) == x).all(-1)

    def extra_repr(self) -> str:
        return f"size={len(self.weight)}, rule={self.rule!r}"


class ModernHopfield(GenerativeModel):
    """Continuous states and exponentially many patterns: E(ξ) = −lse(β, Xξ) + ½ ξᵀξ + β⁻¹ log P + ½ M², M the longest norm.

    The step ξ ← Xᵀ softmax(β X ξ) never raises E. It is attention with ξ as query, the patterns as keys and values.
    Shape: patterns X (P, N); ξ (B, N) → (B, N)
    """

    continuous = True

    def __init__(self, patterns: Tensor, beta: float = 1.0) -> None:
        super().__init__()
        if not beta > 0:
            raise OptionError(f"ModernHopfield: expected an inverse temperature beta > 0, got {beta}")
        self.beta = float(beta)
        self.register_buffer("patterns", patterns)

    @exact
    def energy(self, x: Tensor) -> Tensor:
        """E(ξ) ≥ 0: (B,)."""
        closeness = (self.beta * x @ self.patterns.mT).logsumexp(-1) / self.beta
        longest = (self.patterns**2).sum(1).amax()
        return -closeness + 0.5 * (x**2).sum(-1) + math.log(len(self.patterns)) / self.beta + 0.5 * longest

    def recall(self, x: Tensor, steps: int = 1) -> Tensor:
        """ξ ← softmax(β ξ Xᵀ) X, `steps` times; one is mostly enough."""
        step = lambda _, x: nn.functional.softmax(self.beta * x @ self.patterns.mT, -1) @ self.patterns
        return weft.fori_loop(0, steps, step, x)

    @estimate
    def reconstruct(self, x: Tensor) -> Tensor:
        """The state after one step."""
        return self.recall(x)

    def extra_repr(self) -> str:
        return f"patterns={tuple(self.patterns.shape)}, beta={self.beta:g}"


def recall_overlap(
    size: int,
    loads: Sequence[float],
    *,
    rule: str = "hebbian",
    probes: int = 20,
    sweeps: int = 20,
    generator: Any = None,
) -> Tensor:
    """The capacity experiment: |⟨s, ξ⟩| / N of the state reached from a stored pattern ξ, at each load α = P / N.

    For each load P random patterns are stored and `probes` of them recalled, asynchronously. Shape: → (loads, probes)
    """
    found = []
    run = weft.compile(lambda weight, x: _descended(weight, weft.eye(size, dtype=weft.bool), x, sweeps))
    for load in loads:
        count = max(round(load * size), 1)
        patterns = 2 * weft.bernoulli(weft.full((count, size), 0.5), generator=generator) - 1
        start = patterns[weft.arange(probes) % count]
        found.append((run(Hopfield(patterns, rule).weight, start) * start).mean(1).abs())
    return weft.stack(found)


def _descended(weight: Tensor, places: Tensor, x: Tensor, sweeps: int) -> Tensor:
    """x after `sweeps` visits of all units. weight: a row a unit, in the order of the visits; places: where each unit is"""

    def visit(x: Tensor, unit: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        row, place = unit
        return weft.where(place, _turned((x @ row).unsqueeze(1), x), x), None

    return weft.fori_loop(0, sweeps, lambda _, x: weft.scan(visit, x, (weight, places))[0], x)


def _turned(field: Tensor, x: Tensor) -> Tensor:
    return weft.where(field.abs() <= TIE, x, field.sign())


def _hollow(weight: Tensor) -> Tensor:
    return weight - weft.diag(weight.diagonal())
