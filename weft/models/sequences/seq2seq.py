"""Encoder–decoder with recurrent layers: plain, with Bahdanau's or with Luong's attention (N1 §12.1, N2 §5.5).

The encoder turns the source into a memory; the decoder writes one token after the other, looking at the memory. In
training it is given the right token before each (teacher forcing), or now and then its own (scheduled sampling).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import weft

from ... import nn
from ...errors import OptionError, UnsupportedError
from ...nn.beyond.scores import AdditiveScore, Attention, GeneralScore, length_mask
from ...tensor import Tensor
from .recurrent_models import RecurrentEncoder, final_state

__all__ = ["BahdanauDecoder", "DecoderState", "LuongDecoder", "PlainDecoder", "Seq2Seq", "teacher_forcing_share"]

CELLS = {"rnn": nn.RNNCell, "lstm": nn.LSTMCell, "gru": nn.GRUCell}
Hidden = tuple[Tensor, ...]


class DecoderState(NamedTuple):
    """hidden: h (and c) of the decoder, (B, H) each; memory (B, S, M) and what of it is compared, keys (B, S, ·); mask
    (B, S), True at source tokens; weights: where the last step looked, (B, S)."""

    hidden: Hidden
    memory: Tensor
    keys: Tensor
    mask: Tensor
    weights: Tensor


class Decoder(nn.Module):
    """What decoders share: `step(embedded, state)` → features, hidden, weights."""

    out_features: int

    def begin(self, hidden: Hidden, memory: Tensor, mask: Tensor) -> DecoderState:
        """The state before the first step. Shape: (B, H), (B, S, M), (B, S)"""
        weights = weft.zeros(mask.shape, dtype=memory.dtype)
        return DecoderState(tuple(hidden), memory, self.attention.score.prepare(memory), mask, weights)

    def advance(self, x: Tensor, hidden: Hidden) -> Hidden:
        """One step of the cell."""
        state = self.cell(x, hidden if isinstance(self.cell, nn.LSTMCell) else hidden[0])
        return (state,) if isinstance(state, Tensor) else tuple(state)

    def step(self, x: Tensor, state: DecoderState) -> tuple[Tensor, Hidden, Tensor]:
        """Shape: x (B, E) → features (B, out_features), hidden (B, H), weights (B, S)"""
        raise UnsupportedError(f"{type(self).__name__} must define step")

    def attend(self, query: Tensor, state: DecoderState) -> tuple[Tensor, Tensor]:
        """Context and weights of one query. Shape: (B, H) → (B, M), (B, S)"""
        memory, mask = state.memory, state.mask.unsqueeze(1)
        context, weights = self.attention(query.unsqueeze(1), memory, memory, mask, prepared=state.keys)
        return context.squeeze(1), weights.squeeze(1)


class PlainDecoder(Decoder):
    """s_t = cell(e_{t−1}, s_{t−1}): all it knows of the source is its first state (Sutskever et al. 2014). Weights are 0."""

    def __init__(self, embedding_dim: int, memory: int, hidden_size: int, cell: str = "gru") -> None:
        super().__init__()
        self.cell = CELLS[cell](embedding_dim, hidden_size)
        self.out_features = hidden_size

    def begin(self, hidden: Hidden, memory: Tensor, mask: Tensor) -> DecoderState:
        return DecoderState(tuple(hidden), memory, memory, mask, weft.zeros(mask.shape, dtype=memory.dtype))

    def step(self, x: Tensor, state: DecoderState) -> tuple[Tensor, Hidden, Tensor]:
        hidden = self.advance(x, state.hidden)
        return hidden[0], hidden, weft.zeros_like(state.memory[..., 0])


class BahdanauDecoder(Decoder):
    """α_t = softmax vᵀ tanh(W m + V s_{t−1}), c_t = Σ α m, s_t = cell([e_{t−1}; c_t], s_{t−1}) (Bahdanau et al. 2015).

    Attention comes before the step, with the state before it. Features: [s_t; c_t; e_{t−1}]
    """

    def __init__(self, embedding_dim: int, memory: int, hidden_size: int, cell: str = "gru") -> None:
        super().__init__()
        self.attention = Attention(AdditiveScore(hidden_size, memory, hidden_size))
        self.cell = CELLS[cell](embedding_dim + memory, hidden_size)
        self.out_features = hidden_size + memory + embedding_dim

    def step(self, x: Tensor, state: DecoderState) -> tuple[Tensor, Hidden, Tensor]:
        context, weights = self.attend(state.hidden[0], state)
        hidden = self.advance(weft.cat([x, context], -1), state.hidden)
        return weft.cat([hidden[0], context, x], -1), hidden, weights


class LuongDecoder(Decoder):
    """s_t = cell(e_{t−1}, s_{t−1}), α_t = softmax s_tᵀ W m, c_t = Σ α m, s̃_t = tanh(W_c [c_t; s_t]) (Luong et al. 2015).

    Attention comes after the step (the "general" score, no input feeding). Features: s̃_t
    """

    def __init__(self, embedding_dim: int, memory: int, hidden_size: int, cell: str = "gru") -> None:
        super().__init__()
        self.cell = CELLS[cell](embedding_dim, hidden_size)
        self.attention = Attention(GeneralScore(hidden_size, memory))
        self.combine = nn.Linear(memory + hidden_size, hidden_size, bias=False)
        self.out_features = hidden_size

    def step(self, x: Tensor, state: DecoderState) -> tuple[Tensor, Hidden, Tensor]:
        hidden = self.advance(x, state.hidden)
        context, weights = self.attend(hidden[0], state)
        return self.combine(weft.cat([context, hidden[0]], -1)).tanh(), hidden, weights


DECODERS: dict[str | None, type[Decoder]] = {None: PlainDecoder, "bahdanau": BahdanauDecoder, "luong": LuongDecoder}


class Seq2Seq(nn.Module):
    """P(y | x) = Π_t softmax(W f_t + b), f_t the features of the decoder after y_0 … y_{t−1}.

    attention: "bahdanau", "luong" or None. The decoder starts from tanh(W_0 [final states of the encoder] + b_0).
    `forward` gives logits of the token after each of `target` (which begins with the start token), and the weights.
    Shape: source (B, S), target (B, T), lengths of the sources (B,) → logits (B, T, V), weights (B, T, S)

    >>> model = Seq2Seq(12, 12, 16, 32, attention="luong")
    >>> source = target = weft.ones(2, 5, dtype=weft.int64)
    >>> [tuple(part.shape) for part in model(source, target)]
    [(2, 5, 12), (2, 5, 5)]
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        embedding_dim: int = 64,
        hidden_size: int = 128,
        *,
        attention: str | None = "bahdanau",
        cell: str = "gru",
        num_layers: int = 1,
        bidirectional: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if attention not in DECODERS:
            raise OptionError(f"Seq2Seq: attention must be 'bahdanau', 'luong' or None, got {attention!r}")
        layers = {"num_layers": num_layers, "bidirectional": bidirectional, "dropout": dropout, "cell": cell}
        self.encoder = RecurrentEncoder(embedding_dim, hidden_size, vocabulary=source_vocabulary, **layers)
        self.embedding = nn.Embedding(target_vocabulary, embedding_dim)
        self.parts = 2 if cell == "lstm" else 1  # h alone, or h and c
        self.bridge = nn.Linear(self.encoder.out_features, self.parts * hidden_size)
        self.decoder = DECODERS[attention](embedding_dim, self.encoder.out_features, hidden_size, cell)
        self.drop = nn.Dropout(dropout)
        self.output = nn.Linear(self.decoder.out_features, target_vocabulary)

    def forward(
        self, source: Tensor, target: Tensor, lengths: Tensor | None = None, sampling: float | Tensor = 0.0
    ) -> tuple[Tensor, Tensor]:
        """sampling: the probability that the decoder is given its own last token in place of the right one.

        0 is teacher forcing, 1 writing freely; in between scheduled sampling (see `teacher_forcing_share`).
        """
        state = self.start(source, lengths)
        if isinstance(sampling, (int, float)) and sampling == 0:
            return self._forced(target, state)
        return self._sampled(target, state, sampling)

    def start(self, source: Tensor, lengths: Tensor | None = None) -> DecoderState:
        """The state of the decoder before its first token."""
        batch, steps = source.shape
        memory = self.encoder(source, lengths)  # (B, S, M)
        lengths = weft.full((batch,), steps, dtype=weft.int64) if lengths is None else lengths
        mask = length_mask(lengths, steps)
        final = final_state(memory, lengths, self.encoder.rnn.hidden_size)  # (B, M)
        hidden = self.bridge(final).tanh().chunk(self.parts, dim=-1)
        return self.decoder.begin(hidden, memory, mask)

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Scores after more tokens, for `decoding`; the first state is that of `start`. Shape: (B, T) → (B, V)"""
        for now in tokens.unbind(1):
            features, hidden, weights = self._features(now, state)
            state = state._replace(hidden=hidden, weights=weights)
        return self.output(self.drop(features)), state

    def _features(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, Hidden, Tensor]:
        return self.decoder.step(self.drop(self.embedding(tokens)), state)

    def _forced(self, target: Tensor, state: DecoderState) -> tuple[Tensor, Tensor]:
        """Every step is given the right token; scores of all places are one product."""

        def step(hidden: Hidden, x: Tensor) -> tuple[Hidden, Any]:
            features, hidden, weights = self.decoder.step(x, state._replace(hidden=hidden))
            return hidden, (features, weights)

        embedded = self.drop(self.embedding(target)).transpose(0, 1)  # (B, T, E) → (T, B, E)
        _, (features, weights) = weft.scan(step, state.hidden, embedded)
        return self.output(self.drop(features.transpose(0, 1))), weights.transpose(0, 1)  # (T, B, ·) → (B, T, ·)

    def _sampled(self, target: Tensor, state: DecoderState, sampling: float | Tensor) -> tuple[Tensor, Tensor]:
        """Each step after the first is given its own likeliest token with probability `sampling`."""
        own = weft.rand(target.shape[1], target.shape[0]) < sampling  # (T, B)
        own = own & (weft.arange(target.shape[1]) > 0).unsqueeze(1)

        def step(carry: Any, now: Any) -> tuple[Any, Any]:
            (hidden, said), (right, free) = carry, now
            features, hidden, weights = self._features(weft.where(free, said, right), state._replace(hidden=hidden))
            logits = self.output(self.drop(features))
            return (hidden, logits.detach().argmax(-1)), (logits, weights)

        begin = (state.hidden, target[:, 0])
        _, (logits, weights) = weft.scan(step, begin, (target.transpose(0, 1), own))
        return logits.transpose(0, 1), weights.transpose(0, 1)  # (T, B, ·) → (B, T, ·)


# ------------------------------------------------------------------------------------------- scheduled sampling


def teacher_forcing_share(step: int | Tensor, k: float, decay: str = "inverse-sigmoid") -> Tensor:
    """The share ε of right tokens after so many updates i, from 1 to 0 (Bengio et al. 2015); `sampling` is 1 − ε.

        "linear"            max(0, 1 − i / k)
        "exponential"       kⁱ, 0 < k < 1
        "inverse-sigmoid"   k / (k + exp(i / k)), k ≥ 1

    `step` may be the `global_step` of a task, also in compiled steps.
    """
    if decay not in DECAYS:
        raise OptionError(f"teacher_forcing_share: decay must be one of {', '.join(DECAYS)}, got {decay!r}")
    i = step if isinstance(step, Tensor) else weft.tensor(float(step))
    return DECAYS[decay](i, k)


DECAYS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "linear": lambda i, k: (1 - i / k).clamp(min=0),
    "exponential": lambda i, k: (i * math.log(k)).exp(),
    "inverse-sigmoid": lambda i, k: k / (k + (i / k).exp()),
}
