"""Recurrent networks for whole sequences: classifier, tagger, language model, forecaster (N1 §5, N2 §5.1–5.4).

All are RNN, LSTM or GRU layers under a small head. Sequences are batch first and padded at the end; with `lengths` each
is treated as if it were alone, in both directions, and padding changes nothing.
"""

from __future__ import annotations

import difflib
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...nn.beyond.scores import length_mask
from ...tensor import Tensor

__all__ = [
    "RecurrentEncoder",
    "RecurrentForecaster",
    "RecurrentLanguageModel",
    "SequenceClassifier",
    "SequenceTagger",
    "recurrent_layer",
    "run_padded",
]

F = nn.functional
CELLS: dict[str, type[nn.RNNBase]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


class RecurrentEncoder(nn.Module):
    """Features of every place: embedding of tokens if there is a vocabulary, dropout, recurrent layers, dropout.

    input_size: width of the inputs, or of the embeddings of tokens
    Shape: (B, T, input_size) or tokens (B, T), lengths (B,) → (B, T, D·H), D = 2 if bidirectional

    >>> RecurrentEncoder(8, 16, vocabulary=100, bidirectional=True)(weft.zeros(2, 5, dtype=weft.int64)).shape
    weft.Size([2, 5, 32])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        vocabulary: int | None = None,
        cell: str = "lstm",
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__()
        self.embedding = None if vocabulary is None else nn.Embedding(vocabulary, input_size, padding_idx)
        self.drop = nn.Dropout(dropout)
        self.rnn = recurrent_layer(cell, input_size, hidden_size, num_layers, dropout, bidirectional)
        self.out_features = hidden_size * (1 + bidirectional)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.drop(run_padded(self.rnn, self.embedded(x), lengths))

    def embedded(self, x: Tensor) -> Tensor:
        """The inputs of the recurrent layers: (B, T, input_size)."""
        return self.drop(x if self.embedding is None else self.embedding(x))


class SequenceClassifier(nn.Module):
    """One label for a sequence: y = W pool(h_1 … h_T) + b.

    pooling: "last" takes the final state (of both directions), "mean" and "max" all places within the lengths
    Shape: x as in `RecurrentEncoder`, lengths (B,) → (B, num_classes)

    >>> model = SequenceClassifier(28, 64, 10)
    >>> model(weft.zeros(3, 28, 28)).shape
    weft.Size([3, 10])
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_classes: int, *, pooling: str = "last", **options: Any
    ) -> None:
        super().__init__()
        if pooling not in POOLING:
            raise OptionError(f"SequenceClassifier: pooling must be one of {', '.join(POOLING)}, got {pooling!r}")
        self.pooling = pooling
        self.encoder = RecurrentEncoder(input_size, hidden_size, **options)
        self.output = nn.Linear(self.encoder.out_features, num_classes)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        h = self.encoder(x, lengths)  # (B, T, D·H)
        if lengths is None:
            lengths = weft.full((h.shape[0],), h.shape[1], dtype=weft.int64)
        return self.output(POOLING[self.pooling](h, lengths, self.encoder.rnn.hidden_size))


class SequenceTagger(nn.Module):
    """A label for every place: y_t = W h_t + b. Shape: x as in `RecurrentEncoder` → (B, T, num_tags)."""

    def __init__(self, input_size: int, hidden_size: int, num_tags: int, **options: Any) -> None:
        super().__init__()
        self.encoder = RecurrentEncoder(input_size, hidden_size, **options)
        self.output = nn.Linear(self.encoder.out_features, num_tags)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.output(self.encoder(x, lengths))


class RecurrentLanguageModel(nn.Module):
    """P(token_{t+1} | token_0 … token_t) = softmax(W h_t + b), for characters or words.

    tie_weights: W is the embedding matrix (Press and Wolf 2017); then hidden_size must be embedding_dim.
    State-dict keys: encoder.weight, rnn.*, decoder.weight, decoder.bias, those of PyTorch's word_language_model.
    Parameters of one LSTM layer with tied weights: V E + V + 4 H (E + H + 2).
    Shape: tokens (B, T), state → logits (B, T, V), state; tensors of the state are (L, B, H)

    >>> model = RecurrentLanguageModel(100, 32, 32, tie_weights=True)
    >>> logits, state = model(weft.zeros(2, 7, dtype=weft.int64))
    """

    def __init__(
        self,
        vocabulary: int,
        embedding_dim: int,
        hidden_size: int,
        *,
        cell: str = "lstm",
        num_layers: int = 1,
        dropout: float = 0.0,
        tie_weights: bool = False,
    ) -> None:
        super().__init__()
        if tie_weights and hidden_size != embedding_dim:
            raise OptionError(
                f"RecurrentLanguageModel: tied weights need hidden_size = embedding_dim, got {hidden_size}, {embedding_dim}"
            )
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(vocabulary, embedding_dim)
        self.rnn = recurrent_layer(cell, embedding_dim, hidden_size, num_layers, dropout)
        self.decoder = nn.Linear(hidden_size, vocabulary)
        if tie_weights:
            self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        h, state = self.rnn(self.drop(self.encoder(tokens)), state)
        return self.decoder(self.drop(h)), state

    def initial_state(self, batch_size: int) -> Any:
        """The state before the first token: zeros (L, B, H), a pair of them for an LSTM."""
        return zero_state(self.rnn, batch_size)

    def step(self, tokens: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Scores after more tokens, for `decoding`. Shape: (B, T) → (B, V); here states are (B, L, H)."""
        logits, state = self(tokens, swapped(state))
        return logits[:, -1], swapped(state)


class RecurrentForecaster(nn.Module):
    """The next `horizon` values of a series: ŷ = x_T + W h_T + b, all at once (W h_T + b without `residual`).

    Shape: past (B, T, C) → (B, horizon, C)
    """

    def __init__(
        self, channels: int, hidden_size: int, horizon: int = 1, *, residual: bool = True, **options: Any
    ) -> None:
        super().__init__()
        self.horizon, self.residual = horizon, residual
        self.encoder = RecurrentEncoder(channels, hidden_size, **options)
        self.output = nn.Linear(self.encoder.out_features, horizon * channels)

    def forward(self, past: Tensor) -> Tensor:
        change = self.output(self.encoder(past)[:, -1])  # (B, horizon · C)
        change = change.reshape(past.shape[0], self.horizon, -1)  # (B, horizon, C)
        return past[:, -1:] + change if self.residual else change


# ------------------------------------------------------------------------------------------- layers


def recurrent_layer(
    cell: str, input_size: int, hidden_size: int, num_layers: int = 1, dropout: float = 0.0, bidirectional: bool = False
) -> nn.RNNBase:
    """`nn.RNN`, `nn.LSTM` or `nn.GRU` by name, batch first; dropout only where there is a layer above."""
    if cell not in CELLS:
        close = difflib.get_close_matches(str(cell), CELLS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise OptionError(f"cell must be one of {', '.join(CELLS)}, got {cell!r}{hint}")
    between = dropout if num_layers > 1 else 0.0
    return CELLS[cell](
        input_size, hidden_size, num_layers, batch_first=True, dropout=between, bidirectional=bidirectional
    )


def run_padded(rnn: nn.RNNBase, x: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Outputs of recurrent layers over padded sequences, 0 at padding: what packing gives, in compiled code too.

    The backward direction reads each sequence from its own end. Shape: (B, T, I), lengths (B,) → (B, T, D·H)
    """
    if lengths is None:
        return rnn(x)[0]
    if tuple(lengths.shape) != (x.shape[0],):
        raise ShapeError(
            f"lengths: expected shape ({x.shape[0]},) for inputs {tuple(x.shape)}, got {tuple(lengths.shape)}"
        )
    inside = length_mask(lengths, x.shape[1]).unsqueeze(-1)  # (B, T, 1)
    if not rnn.bidirectional:  # what comes after the end cannot reach what is before
        return rnn(x)[0] * inside
    backwards = reversal(lengths, x.shape[1])
    for layer in range(rnn.num_layers):
        forward = _one_direction(rnn, x, 2 * layer)
        backward = reordered(_one_direction(rnn, reordered(x, backwards), 2 * layer + 1), backwards)
        x = weft.cat([forward, backward], -1) * inside
        if layer < rnn.num_layers - 1:
            x = F.dropout(x, rnn.dropout, rnn.training)
    return x


def _one_direction(rnn: nn.RNNBase, x: Tensor, number: int) -> Tensor:
    """Layer and direction `number` of `rnn` from left to right, from a zero state. Shape: (B, T, I) → (B, T, H)"""
    batch, steps, width = x.shape
    weights = dict(zip(rnn.weight_shapes(width), rnn.all_weights[number], strict=True))
    state = tuple(s[0] for s in as_tuple(zero_state(rnn, batch)))
    rows = x.transpose(0, 1).reshape(steps * batch, width)  # (B, T, I) → (T·B, I)
    y, _ = rnn.run(rows, state, weights, [batch] * steps, False)
    return y.reshape(steps, batch, -1).transpose(0, 1)  # (T·B, H) → (B, T, H)


def reversal(lengths: Tensor, steps: int) -> Tensor:
    """Places that turn each sequence round within its length; padding stays. Shape: (B,) → (B, T)"""
    places = weft.arange(steps)
    return weft.where(length_mask(lengths, steps), lengths.unsqueeze(1) - 1 - places, places)


def reordered(x: Tensor, places: Tensor) -> Tensor:
    """y[b, t] = x[b, places[b, t]]. Shape: (B, T, C), (B, T) → (B, T, C)"""
    return x.gather(1, places.unsqueeze(-1).expand(x.shape))


def zero_state(rnn: nn.RNNBase, batch_size: int) -> Any:
    """Zeros (L·D, B, H), a pair of them for an LSTM."""
    kind = rnn.weight_ih_l0.dtype
    make = lambda: weft.zeros(rnn.num_layers * (1 + rnn.bidirectional), batch_size, rnn.hidden_size, dtype=kind)
    return (make(), make()) if isinstance(rnn, nn.LSTM) else make()


def as_tuple(state: Any) -> tuple[Tensor, ...]:
    """A state of one tensor or several as a tuple."""
    return (state,) if isinstance(state, Tensor) else tuple(state)


def swapped(state: Any) -> Any:
    """States (L, B, H) as (B, L, H), and back: decoders pick rows of states along the first dimension."""
    if state is None or isinstance(state, Tensor):
        return None if state is None else state.transpose(0, 1)
    return tuple(s.transpose(0, 1) for s in state)


# ------------------------------------------------------------------------------------------- pooling


def final_state(h: Tensor, lengths: Tensor, hidden: int) -> Tensor:
    """The final state: forward at the end of a sequence, backward at its beginning. Shape: (B, T, D·H) → (B, D·H)"""
    place = (lengths - 1).clamp(min=0).reshape(-1, 1, 1).expand(h.shape[0], 1, hidden)
    final = h[..., :hidden].gather(1, place).squeeze(1)  # (B, H)
    return final if h.shape[-1] == hidden else weft.cat([final, h[:, 0, hidden:]], -1)


def _mean(h: Tensor, lengths: Tensor, hidden: int) -> Tensor:
    inside = length_mask(lengths, h.shape[1]).unsqueeze(-1)
    return (h * inside).sum(1) / lengths.clamp(min=1).unsqueeze(-1)


def _max(h: Tensor, lengths: Tensor, hidden: int) -> Tensor:
    outside = ~length_mask(lengths, h.shape[1]).unsqueeze(-1)
    return h.masked_fill(outside, weft.finfo(h.dtype).min).amax(1)


POOLING = {"last": final_state, "mean": _mean, "max": _max}
