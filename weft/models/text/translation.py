"""The Transformer for translation: embeddings, positions, `nn.Transformer`, a generator (Vaswani et al. 2017; N2 §5.6).

Training looks at all places at once under a causal mask; `step` writes one token at a time and keeps keys and values.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import weft

from ... import nn
from ...errors import OptionError
from ...nn.beyond.position import SinusoidalPosition
from ...tensor import Tensor
from ..transformers.blocks import KeyValues, Visible, attend, split_heads, visible
from .cache import EMPTY, Cache, Past

__all__ = ["TranslationState", "TranslationTransformer"]

F = nn.functional


class TranslationState(NamedTuple):
    """Keys and values of the source for every layer, which of its tokens count (B, S), and those of the words so far."""

    memory: tuple[KeyValues, ...]
    mask: Tensor
    past: Cache = EMPTY

    def with_capacity(self, capacity: int) -> TranslationState:
        return self._replace(past=self.past.with_capacity(capacity))


class TranslationTransformer(nn.Module):
    """P(y_t | y_{<t}, x) = softmax(G z_t), z the output of `nn.Transformer` over √E · embedding + sinusoids.

    tie_target: the generator is the matrix of the target embeddings; tie_source: source and target share embeddings too
    (one vocabulary). Sources are masked where they are `padding_idx`; targets are padded at the end and need no mask.
    Shape: source (B, S), target (B, T), which begins with the start token → logits (B, T, target_vocabulary)

    >>> model = TranslationTransformer(100, 120, d_model=32, nhead=4, num_encoder_layers=2, num_decoder_layers=2)
    >>> model(weft.ones(2, 7, dtype=weft.int64), weft.ones(2, 5, dtype=weft.int64)).shape
    weft.Size([2, 5, 120])
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        *,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        norm_first: bool = False,
        padding_idx: int = 0,
        tie_target: bool = True,
        tie_source: bool = False,
    ) -> None:
        super().__init__()
        if tie_source and source_vocabulary != target_vocabulary:
            raise OptionError(
                f"TranslationTransformer: tie_source needs one vocabulary, got sizes {source_vocabulary}, {target_vocabulary}"
            )
        self.d_model, self.padding_idx = d_model, padding_idx
        self.transformer = nn.Transformer(
            d_model,
            nhead,
            num_encoder_layers,
            num_decoder_layers,
            dim_feedforward,
            dropout,
            batch_first=True,
            norm_first=norm_first,
        )
        self.source_embedding = nn.Embedding(source_vocabulary, d_model)
        self.target_embedding = self.source_embedding if tie_source else nn.Embedding(target_vocabulary, d_model)
        self.positions, self.drop = SinusoidalPosition(d_model), nn.Dropout(dropout)
        self.generator = nn.Linear(d_model, target_vocabulary)
        if tie_target:
            self.generator.weight = self.target_embedding.weight
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=d_model**-0.5)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        ignored = source == self.padding_idx  # (B, S)
        length = target.shape[1]
        later = weft.ones(length, length, dtype=weft.bool).triu(1)  # True: not to be looked at
        z = self.transformer(
            self.embedded(source, self.source_embedding),
            self.embedded(target, self.target_embedding),
            tgt_mask=later,
            src_key_padding_mask=ignored,
            memory_key_padding_mask=ignored,
            tgt_is_causal=True,
        )
        return self.generator(z)

    def embedded(self, tokens: Tensor, table: nn.Embedding, offset: int | Tensor = 0) -> Tensor:
        """√E · embedding + position, with dropout. Shape: (B, T) → (B, T, E)"""
        return self.drop(self.positions(table(tokens) * math.sqrt(self.d_model), offset))

    def encode(self, source: Tensor) -> Tensor:
        """The memory that the decoder looks at. Shape: (B, S) → (B, S, E)"""
        x = self.embedded(source, self.source_embedding)
        return self.transformer.encoder(x, src_key_padding_mask=source == self.padding_idx)

    def start(self, source: Tensor) -> TranslationState:
        """The state of decoding before the first token: keys and values of the source, none of the target."""
        memory = self.encode(source)
        pairs = tuple(_pairs(layer.multihead_attn, memory) for layer in self.transformer.decoder.layers)
        return TranslationState(pairs, source != self.padding_idx)

    def step(self, tokens: Tensor, state: TranslationState) -> tuple[Tensor, TranslationState]:
        """Scores after more tokens, for `decoding`; the first state is that of `start`. Shape: (B, T) → (B, V)

        `compiled_steps(model, places)` of `cache` makes one plan of it for all tokens.
        """
        past, decoder, new = state.past, self.transformer.decoder, tokens.shape[1]
        seen = visible(None, new, past.keys_after(new), causal=True, start=past.length)
        across = visible(state.mask, new, state.mask.shape[1])
        x, pairs = self.embedded(tokens, self.target_embedding, past.start), []  # (B, T, E)
        for layer, before, memory in zip(decoder.layers, past.before(len(decoder.layers)), state.memory, strict=True):
            x, kept = _layer_step(layer, x, before, seen, memory, across)
            pairs.append(kept)
        z = x if decoder.norm is None else decoder.norm(x)
        return self.generator(z[:, -1]), state._replace(past=past.after(pairs, new))


# ------------------------------------------------------------------------------------------- with keys and values kept


def _layer_step(
    layer: nn.TransformerDecoderLayer, x: Tensor, past: Past, seen: Visible, memory: KeyValues, across: Visible
) -> tuple[Tensor, KeyValues]:
    """`TransformerDecoderLayer` at more places. Shape: (B, T, E) → (B, T, E)"""
    pairs = past.append(*_pairs(layer.self_attn, layer.norm1(x) if layer.norm_first else x))

    def look_back(x: Tensor) -> Tensor:
        return layer.dropout1(_attended(layer.self_attn, x, pairs, seen))

    def look_at_source(x: Tensor) -> Tensor:
        return layer.dropout2(_attended(layer.multihead_attn, x, memory, across))

    def think(x: Tensor) -> Tensor:
        return layer.dropout3(layer.linear2(layer.dropout(layer.activation(layer.linear1(x)))))

    for norm, block in ((layer.norm1, look_back), (layer.norm2, look_at_source), (layer.norm3, think)):
        x = x + block(norm(x)) if layer.norm_first else norm(x + block(x))
    return x, pairs


def _heads(attention: nn.MultiheadAttention, x: Tensor, part: int) -> Tensor:
    """Queries (part 0), keys (1) or values (2). Shape: (B, T, E) → (B, heads, T, E / heads)"""
    size = attention.embed_dim
    rows = slice(part * size, (part + 1) * size)
    bias = None if attention.in_proj_bias is None else attention.in_proj_bias[rows]
    return split_heads(F.linear(x, attention.in_proj_weight[rows], bias), attention.num_heads)


def _pairs(attention: nn.MultiheadAttention, x: Tensor) -> KeyValues:
    return KeyValues(_heads(attention, x, 1), _heads(attention, x, 2))


def _attended(attention: nn.MultiheadAttention, x: Tensor, pairs: KeyValues, seen: Visible) -> Tensor:
    """x (B, T, E) attending to given keys and values. → (B, T, E)"""
    return attention.out_proj(attend(_heads(attention, x, 0), pairs, seen))
