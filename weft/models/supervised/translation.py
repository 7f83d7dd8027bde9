"""The Transformer for translation: embeddings, positions, `nn.Transformer`, a generator (Vaswani et al. 2017; N2 §5.6).

Training looks at all places at once under a causal mask; `step` writes one token at a time and keeps keys and values.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import weft

from ... import nn
from ...errors import OptionError
from ...nn.position import SinusoidalPosition
from ...tensor import Tensor

__all__ = ["CachedLayer", "TranslationState", "TranslationTransformer"]

F = nn.functional


class CachedLayer(NamedTuple):
    """Keys and values of one decoder layer, (B, heads, ·, E / heads): of the words so far, and of the source."""

    keys: Tensor
    values: Tensor
    memory_keys: Tensor
    memory_values: Tensor


class TranslationState(NamedTuple):
    """What decoding carries: caches of the layers, and which source tokens count, (B, S)."""

    layers: tuple[CachedLayer, ...]
    mask: Tensor


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

    def embedded(self, tokens: Tensor, table: nn.Embedding, offset: int = 0) -> Tensor:
        """√E · embedding + position, with dropout. Shape: (B, T) → (B, T, E)"""
        return self.drop(self.positions(table(tokens) * math.sqrt(self.d_model), offset))

    def encode(self, source: Tensor) -> Tensor:
        """The memory that the decoder looks at. Shape: (B, S) → (B, S, E)"""
        x = self.embedded(source, self.source_embedding)
        return self.transformer.encoder(x, src_key_padding_mask=source == self.padding_idx)

    def start(self, source: Tensor) -> TranslationState:
        """The state of decoding before the first token: keys and values of the source, none of the target."""
        memory = self.encode(source)
        layers = []
        for layer in self.transformer.decoder.layers:
            keys, values = (_heads(layer.multihead_attn, memory, part) for part in (1, 2))
            layers.append(CachedLayer(keys[:, :, :0], values[:, :, :0], keys, values))
        return TranslationState(tuple(layers), source != self.padding_idx)

    def step(self, tokens: Tensor, state: TranslationState) -> tuple[Tensor, TranslationState]:
        """Scores after more tokens, for `decoding`; the first state is that of `start`. Shape: (B, T) → (B, V)"""
        offset, decoder = state.layers[0].keys.shape[2], self.transformer.decoder
        x, layers = self.embedded(tokens, self.target_embedding, offset), []  # (B, T, E)
        for layer, cache in zip(decoder.layers, state.layers, strict=True):
            x, cache = _layer_step(layer, x, cache, state.mask)
            layers.append(cache)
        z = x if decoder.norm is None else decoder.norm(x)
        return self.generator(z[:, -1]), state._replace(layers=tuple(layers))


# ------------------------------------------------------------------------------------------- with keys and values kept


def _layer_step(
    layer: nn.TransformerDecoderLayer, x: Tensor, cache: CachedLayer, mask: Tensor
) -> tuple[Tensor, CachedLayer]:
    """`TransformerDecoderLayer` at more places. Shape: (B, T, E) → (B, T, E)"""
    own = layer.norm1(x) if layer.norm_first else x
    new = [_heads(layer.self_attn, own, part) for part in (1, 2)]
    keys, values = (weft.cat(pair, 2) for pair in zip((cache.keys, cache.values), new, strict=True))
    earlier = weft.ones(x.shape[1], keys.shape[2], dtype=weft.bool).tril(keys.shape[2] - x.shape[1])  # (T, all so far)

    def look_back(x: Tensor) -> Tensor:
        return layer.dropout1(_attended(layer.self_attn, x, keys, values, earlier))

    def look_at_source(x: Tensor) -> Tensor:
        seen = _attended(layer.multihead_attn, x, cache.memory_keys, cache.memory_values, mask[:, None, None])
        return layer.dropout2(seen)

    def think(x: Tensor) -> Tensor:
        return layer.dropout3(layer.linear2(layer.dropout(layer.activation(layer.linear1(x)))))

    for norm, block in ((layer.norm1, look_back), (layer.norm2, look_at_source), (layer.norm3, think)):
        x = x + block(norm(x)) if layer.norm_first else norm(x + block(x))
    return x, cache._replace(keys=keys, values=values)


def _heads(attention: nn.MultiheadAttention, x: Tensor, part: int) -> Tensor:
    """Queries (part 0), keys (1) or values (2). Shape: (B, T, E) → (B, heads, T, E / heads)"""
    size = attention.embed_dim
    rows = slice(part * size, (part + 1) * size)
    bias = None if attention.in_proj_bias is None else attention.in_proj_bias[rows]
    y = F.linear(x, attention.in_proj_weight[rows], bias)
    return y.reshape(x.shape[0], x.shape[1], attention.num_heads, -1).transpose(1, 2)


def _attended(attention: nn.MultiheadAttention, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """x (B, T, E) attending to given keys and values; mask (T, S) or (B, 1, 1, S), True: takes part. → (B, T, E)"""
    y = F.scaled_dot_product_attention(_heads(attention, x, 0), keys, values, attn_mask=mask)
    return attention.out_proj(y.transpose(1, 2).reshape(x.shape))  # (B, heads, T, E / heads) → (B, T, E)
