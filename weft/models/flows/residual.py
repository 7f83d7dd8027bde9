"""Residual flow: x + g(x) with a contraction g, any network under a Lipschitz bound (Behrmann et al. 2019, Chen et al. 2019)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import weft

from ... import nn
from ...autograd.implicit import fixed_point
from ...errors import OptionError
from ...tape.modes import mode
from ...tensor import Tensor
from .base import Flow
from .bijector import Bijector, Pair
from .linear import ActNorm

__all__ = ["LipschitzLinear", "Residual", "ResidualFlow", "exact_log_det", "roulette_log_det"]

F = nn.functional
MOST_TERMS, SURE_TERMS = 40, 4


class LipschitzLinear(nn.Linear):
    """y = W̃ x + b with W̃ = W min(1, c / σ(W)), σ the largest singular value by power iteration (`iterate`)."""

    def __init__(self, inputs: int, outputs: int, bound: float = 0.9, dtype: Any = None) -> None:
        super().__init__(inputs, outputs, dtype=dtype)
        self.bound = bound
        self.register_buffer("direction", F.normalize(weft.randn(inputs, dtype=dtype), dim=0))
        self.iterate(20)

    @weft.no_grad()
    def iterate(self, turns: int) -> None:
        """v ← WᵀW v / ‖WᵀW v‖"""
        v = self.direction
        for _ in range(turns):
            v = F.normalize(self.weight.mT @ (self.weight @ v), dim=0)
        self.direction.copy_(v)

    def forward(self, input: Tensor) -> Tensor:
        size = (
            self.weight @ self.direction.clone()
        ).norm()  # a copy: the next pass may come before this one's gradient
        return F.linear(input, self.weight * (self.bound / size.clamp(min=self.bound)), self.bias)


class Residual(Bijector):
    """y = x + g(x), Lip(g) ≤ cᵈᵉᵖᵗʰ < 1;   log|det J| = tr log(I + ∂g) = Σₖ (−1)ᵏ⁺¹ / k · tr (∂g)ᵏ

    log_det: "exact" (D slopes and a determinant: few dimensions) or "roulette", an unbiased estimate of the series
    Inverse: x ← y − g(x), which contracts. Shape: (B, D) → (B, D), (B,)
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int] = (64, 64),
        *,
        bound: float = 0.9,
        context: int = 0,
        log_det: str = "exact",
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if log_det not in LOG_DETS or not 0 < bound < 1:
            raise OptionError(f"Residual: log_det is one of {', '.join(LOG_DETS)} and the bound in (0, 1)")
        self.log_det = log_det
        pairs = itertools.pairwise([features, *hidden, features])
        self.layers = nn.ModuleList([LipschitzLinear(a, b, bound, dtype) for a, b in pairs])
        self.context = nn.Linear(context, hidden[0], bias=False, dtype=dtype) if context else None

    @property
    def exact(self) -> bool:
        return self.log_det == "exact"

    def contraction(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """g(x), between the layers x σ(x) / 1.1, whose slopes are at most 1."""
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number == 0 and self.context is not None:
                x = x + self.context(context)
            x = F.silu(x) / 1.1 if number < len(self.layers) - 1 else x
        return x

    def settle(self) -> None:
        """In training, follow the weights by two turns of power iteration; one pass sees one contraction throughout."""
        for layer in self.layers if self.training else ():
            layer.iterate(2)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        self.settle()
        g = lambda x: self.contraction(x, context)
        return x + g(x), LOG_DETS[self.log_det](g, x)

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        self.settle()
        x = self._solved(y, context)
        return x, -LOG_DETS[self.log_det](lambda x: self.contraction(x, context), x)

    def _solved(self, y: Tensor, context: Tensor | None) -> Tensor:
        """x = y − g(x), with its gradient by the implicit function theorem where one may be asked for.

        In plans the last turn alone is differentiated, at the x that was found, and the gradient that comes to it, w, is
        made u = w − (∂g)ᵀ u first, by the same iteration. Eager code also has derivatives of higher order.
        """
        names, weights = zip(*self.named_parameters(prefix="block"), strict=True)
        others = (y, *weights) if context is None else (y, *weights, context)
        wanted = mode.grad and any(p.requires_grad for p in others)
        if wanted and mode.interpreter is None:
            whole = _Contraction(self)

            def turn(x: Tensor, y: Tensor, *given: Tensor) -> Tensor:
                seen = given[len(names) :] or (None,)
                return y - weft.func.functional_call(whole, dict(zip(names, given, strict=False)), (x, *seen))

            return fixed_point(turn, y.detach(), *others, max_iter=2000)
        if not y.numel():
            return y
        g = lambda x: self.contraction(x, context)
        with weft.no_grad():
            x = _settled(lambda x: y - g(x), y).detach()
        if not wanted:
            return x
        found = y - g(x)
        found.register_hook(lambda w: _settled(lambda u: w - _pulled(g, x, u), w))
        return found


class _Contraction(nn.Module):
    """g of a block as a module, for calls with other weights."""

    def __init__(self, block: Residual) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor, context: Tensor | None) -> Tensor:
        return self.block.contraction(x, context)


class ResidualFlow(Flow):
    """Residual maps from data to noise, actnorm between; densities are quick, draws a fixed point a map.

    >>> ResidualFlow(2, (16,), blocks=2).log_prob(weft.zeros(3, 2)).shape
    weft.Size([3])
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int] = (64, 64),
        blocks: int = 8,
        *,
        bound: float = 0.9,
        context: int = 0,
        log_det: str = "exact",
        dtype: Any = None,
    ) -> None:
        options = {"bound": bound, "context": context, "log_det": log_det, "dtype": dtype}
        maps: list[Bijector] = []
        for _ in range(blocks):
            maps += [Residual(features, hidden, **options).inv, ActNorm(features, dtype)]
        super().__init__(maps, features, context=context, dtype=dtype)


def exact_log_det(g: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """log|det(I + ∂g/∂x)| row by row, with D slopes: (B, D) → (B,)"""
    slopes = [_pulled(g, x, direction.expand(x.shape)) for direction in weft.eye(x.shape[1], dtype=x.dtype)]
    jacobian = weft.stack(slopes, 1) + weft.eye(x.shape[1], dtype=x.dtype)  # (B, D, D)
    if x.shape[1] == 2:
        return (jacobian[:, 0, 0] * jacobian[:, 1, 1] - jacobian[:, 0, 1] * jacobian[:, 1, 0]).log()
    return weft.linalg.slogdet(jacobian)[1]


def roulette_log_det(g: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """An unbiased estimate: vᵀ(∂g)ᵏv for the traces, v ~ N(0, 1), and a random number of terms, each term divided by
    the probability that it is reached (Kahn 1955). The first 4 are always there, every further one with half of the
    chance of the one before; at most 40, after which c⁴⁰ is left. (B, D) → (B,)
    """
    with weft.no_grad():
        v = weft.randn(x.shape, dtype=x.dtype)
        more = weft.rand((), dtype=x.dtype).clamp(min=1e-30).log() / math.log(0.5)
        last = SURE_TERMS + more.floor()
    numbers = weft.arange(1, MOST_TERMS + 1, dtype=x.dtype)
    chances = 0.5 ** (numbers - SURE_TERMS).clamp(min=0)
    factors = (1 - 2 * ((numbers + 1) % 2)) / (numbers * chances)

    def add(state: Pair, row: Pair) -> tuple[Pair, None]:
        (w, total), (number, factor) = state, row

        def term() -> Pair:
            pulled = _pulled(g, x, w)
            return pulled, total + factor * (pulled * v).sum(1)

        return weft.cond(number <= last, term, lambda: (w, total)), None

    start = (v, weft.zeros(len(x), dtype=x.dtype))
    return weft.scan(add, start, (numbers, factors))[0][1]


LOG_DETS = {"exact": exact_log_det, "roulette": roulette_log_det}


def _pulled(g: Callable[[Tensor], Tensor], x: Tensor, v: Tensor) -> Tensor:
    """vᵀ ∂g/∂x, row by row."""
    return weft.func.vjp(g, x)[1](v)[0]


def _settled(step: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """x = step(x) of a contraction, from `start` on: like it"""
    least = 4 * weft.finfo(start.dtype).eps

    def going(state: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        x, before, turn = state
        return ((x - before).abs().amax() > least * (1 + x.abs().amax())) & (turn < 2000)

    def turn(state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        x, _, number = state
        return step(x), x, number + 1

    return weft.while_loop(going, turn, (step(start), start, weft.zeros((), dtype=weft.int64)))[0]
