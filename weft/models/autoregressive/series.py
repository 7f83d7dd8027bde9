"""Networks over sequences as densities: WaveNet over tokens, DeepAR over real numbers, on the protocol of the others."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import ArgumentError, OptionError, ShapeError
from ...tensor import Tensor
from ..generative.plans import in_one_plan
from ..generative.protocol import GenerativeModel, exact
from ..sequences.deepar import DeepAR
from ..sequences.wavenet import WaveNet

__all__ = ["SeriesDensity", "TokenDensity"]

F = nn.functional


class TokenDensity(GenerativeModel):
    """p(x₀, …, x_{T−1}) = Πₜ p(xₜ | start, x_<t) by a network that predicts the next token, WaveNet for instance.

    network: tokens (B, T) → logits (B, T, classes) of each next token, with `step` and `initial_state` as WaveNet has
    length: T; start: the token before the first, by default the middle one (silence, under μ-law)
    condition: what the network takes beside the tokens, (B, …)
    Shape: x (B, T), int64
    """

    def __init__(self, network: WaveNet, length: int, start: int | None = None) -> None:
        super().__init__()
        classes = network.embedding.num_embeddings
        self.network, self.event_shape, self.levels = network, (length,), classes
        self.first = classes // 2 if start is None else start
        if not 0 <= self.first < classes:
            raise OptionError(f"TokenDensity: start must be a token, 0 … {classes - 1}, got {start}")

    def conditionals(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """Logits of every token given those before it: (B, T) → (B, T, classes)"""
        before = F.pad(x[:, :-1], (1, 0), value=self.first)
        return self.network(before, condition)

    @exact
    def log_prob(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """Σₜ log p(xₜ | x_<t): (B, T) → (B,)"""
        if tuple(x.shape[1:]) != self.event_shape:
            raise ShapeError(f"TokenDensity: expected tokens (B, {self.event_shape[0]}), got {tuple(x.shape)}")
        logits = self.conditionals(x, condition).log_softmax(-1)
        return logits.gather(-1, x.unsqueeze(-1)).squeeze(-1).sum(1)

    @exact
    @in_one_plan
    @weft.no_grad()
    def sample(self, n: int, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        """n sequences, one step of every layer a token: (n, T)"""
        noise = weft.rand(self.event_shape[0], n, 1, generator=generator)

        def draw(carry: tuple[Tensor, Any], u: Tensor) -> tuple[tuple[Tensor, Any], Tensor]:
            token, state = carry
            logits, state = self.network.step(token, state, condition)
            passed = logits.softmax(-1).cumsum(-1) <= u
            token = passed.sum(-1, keepdim=True).clamp(max=self.levels - 1)
            return (token, state), token.squeeze(1)

        start = (weft.full((n, 1), self.first, dtype=weft.int64), self.network.initial_state(n))
        return weft.scan(draw, start, noise)[1].mT


class SeriesDensity(GenerativeModel):
    """p(z₀, …, z_{T−1} | x) = Πₜ p(zₜ | z_<t, x) by DeepAR with one scale ν for all series.

    DeepAR by itself scales each series by its own mean size, which knows z before it is drawn: fine for forecasts, no
    density. scale: ν, from training data
    condition: covariates (B, T, C), where the network takes any
    Shape: z (B, T)
    """

    continuous = True

    def __init__(self, network: DeepAR, length: int, scale: float = 1.0) -> None:
        super().__init__()
        if not scale > 0:
            raise OptionError(f"SeriesDensity: scale must be above 0, got {scale}")
        self.network, self.event_shape, self.scale = network, (length,), scale

    @exact
    def log_prob(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """Σₜ log p(zₜ | z_<t): (B, T) → (B,)"""
        if tuple(x.shape[1:]) != self.event_shape:
            raise ShapeError(f"SeriesDensity: expected series (B, {self.event_shape[0]}), got {tuple(x.shape)}")
        return self.network(x, condition, self._scales(len(x), x.dtype)).log_prob(x).sum(1)

    @exact
    @weft.no_grad()
    def sample(self, n: int, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        """n series from the first value on: (n, T)"""
        if condition is not None and tuple(condition.shape[:2]) != (n, *self.event_shape):
            raise ArgumentError(f"SeriesDensity.sample: expected covariates ({n}, {self.event_shape[0]}, …)")
        kind = next(self.parameters()).dtype
        scale, last, state, drawn = self._scales(n, kind), weft.zeros(n, dtype=kind), None, []
        with weft.random.fork_rng():
            weft.manual_seed(int(weft.randint(2**31, (), generator=generator)))
            for t in range(self.event_shape[0]):
                now = None if condition is None else condition[:, t : t + 1]
                last, state = self.network.drawn_next(last, now, state, scale)
                drawn.append(last)
        return weft.stack(drawn, 1)

    def _scales(self, rows: int, dtype: Any) -> Tensor:
        return weft.full((rows,), self.scale, dtype=dtype)
