"""OPT (Zhang et al., 2022): a decoder like GPT-3, with learned positions and ReLU.

x = word[t_i] + position[i + 2], then N layers of x ← x + attention(LayerNorm(x)), x ← x + W₂ relu(W₁ LayerNorm(x)), and a
last norm; opt-350m has its norms after each sum instead, and narrow words that are widened. opt-125m has 125,239,296
parameters. Keys are those of transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import weft

from ... import nn
from ...errors import ShapeError
from ...tensor import Tensor
from ..pretrained.pretrained import Config, initialised
from ..pretrained.watching import noted
from ..text.cache import Cache, Past
from .blocks import KeyValues, Visible, activation, attend, split_heads, visible
from .causal import CausalBody, CausalClassifier, CausalLM

__all__ = ["OPTConfig", "OPTForCausalLM", "OPTForSequenceClassification", "OPTModel"]

OFFSET = 2  # the first two rows of the table of positions: padding has the second


@dataclass(kw_only=True)
class OPTConfig(Config):
    """The sizes of opt-125m by default. word_embed_proj_dim: the width of words, hidden_size unless given."""

    model_type: ClassVar[str] = "opt"
    sizes: ClassVar[tuple[str, ...]] = (
        *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "ffn_dim"),
        *("max_position_embeddings", "word_embed_proj_dim"),
    )

    vocab_size: int = 50272
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    ffn_dim: int = 3072
    max_position_embeddings: int = 2048
    word_embed_proj_dim: int | None = None
    activation_function: str = "relu"
    do_layer_norm_before: bool = True
    _remove_final_layer_norm: bool = False
    enable_bias: bool = True
    layer_norm_elementwise_affine: bool = True
    dropout: float = 0.1
    attention_dropout: float = 0.0
    pad_token_id: int | None = 1
    bos_token_id: int | None = 2
    eos_token_id: int | list[int] | None = 2

    def __post_init__(self) -> None:
        self.word_embed_proj_dim = self.word_embed_proj_dim or self.hidden_size
        super().__post_init__()


class OPTAttention(nn.Module):
    """W_O [heads of softmax(q kᵀ/√D) v] over the visible places. Shape: (B, T, C) → (B, T, C)"""

    random_in_training = True

    def __init__(self, config: OPTConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.num_attention_heads, config.attention_dropout
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            self.add_module(name, nn.Linear(config.hidden_size, config.hidden_size, bias=config.enable_bias))

    def forward(self, x: Tensor, seen: Visible, past: Past) -> tuple[Tensor, KeyValues]:
        q, k, v = (split_heads(part(x), self.heads) for part in (self.q_proj, self.k_proj, self.v_proj))
        pairs = past.append(k, v)
        return self.out_proj(attend(q, pairs, seen, dropout=self.dropout if self.training else 0.0)), pairs


class OPTLayer(nn.Module):
    """Attention, then a feed-forward block, each with a residual path and a norm before it (or after the sum)."""

    def __init__(self, config: OPTConfig) -> None:
        super().__init__()
        width, bias = config.hidden_size, config.enable_bias
        self.self_attn, self.self_attn_layer_norm = OPTAttention(config), _norm(config)
        self.fc1, self.fc2 = nn.Linear(width, config.ffn_dim, bias=bias), nn.Linear(config.ffn_dim, width, bias=bias)
        self.final_layer_norm, self.before = _norm(config), config.do_layer_norm_before
        self.dropout, self.function = nn.Dropout(config.dropout), activation(config.activation_function)

    def forward(self, x: Tensor, seen: Visible, past: Past) -> tuple[Tensor, KeyValues]:
        first, second = self.self_attn_layer_norm, self.final_layer_norm
        y, pairs = self.self_attn(first(x) if self.before else x, seen, past)
        x = x + self.dropout(y)
        x = x if self.before else first(x)
        x = x + self.dropout(self.fc2(self.function(self.fc1(second(x) if self.before else x))))
        return x if self.before else second(x), pairs


class OPTDecoder(nn.Module):
    """Embeddings, layers, a last norm, and maps between the widths of words and layers where they differ."""

    def __init__(self, config: OPTConfig) -> None:
        super().__init__()
        words, width = config.word_embed_proj_dim, config.hidden_size
        self.embed_tokens = nn.Embedding(config.vocab_size, words, padding_idx=config.pad_token_id)
        self.embed_positions = nn.Embedding(config.max_position_embeddings + OFFSET, width)
        self.project_out = nn.Linear(width, words, bias=False) if words != width else None
        self.project_in = nn.Linear(words, width, bias=False) if words != width else None
        last = config.do_layer_norm_before and not config._remove_final_layer_norm
        self.final_layer_norm = _norm(config) if last else None
        self.layers = nn.ModuleList(OPTLayer(config) for _ in range(config.num_hidden_layers))

    def forward(self, tokens: Tensor, positions: Tensor, seen: Visible, past: Cache) -> tuple[Tensor, Cache]:
        x, pairs = self.embed_tokens(tokens), []
        x = x if self.project_in is None else self.project_in(x)  # (B, T, E) → (B, T, C)
        x = x + self.embed_positions(positions + OFFSET)
        for layer, before in zip(self.layers, past.before(len(self.layers)), strict=True):
            x, kept = layer(noted(x), seen, before)
            pairs.append(kept)
        x = x if self.final_layer_norm is None else self.final_layer_norm(x)
        x = x if self.project_out is None else self.project_out(x)  # (B, T, C) → (B, T, E)
        return x, past.after(pairs, tokens.shape[1])


class OPTModel(CausalBody):
    """The decoder without a head; positions count the tokens that the mask names. Shape: (B, T) → (B, T, E)"""

    config_class = OPTConfig
    body = "model"

    def __init__(self, config: OPTConfig) -> None:
        super().__init__(config)
        self.decoder = OPTDecoder(config)
        initialised(self, config.initializer_range)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.decoder.embed_tokens

    @property
    def most_places(self) -> int:
        return self.config.max_position_embeddings

    def positions(self, tokens: Tensor, mask: Tensor | None, past: Cache) -> Tensor:
        if mask is None:
            return super().positions(tokens, mask, past)
        counted = mask.to(weft.int64)
        return (counted.cumsum(1) * counted - 1)[:, -tokens.shape[1] :]

    def decode(
        self, input_ids: Tensor, mask: Tensor | None, positions: Tensor, past: Cache, prefix: Tensor | None
    ) -> tuple[Tensor, Cache]:
        length, most = input_ids.shape[1], self.config.max_position_embeddings
        keys = past.keys_after(length)
        if keys > most:
            raise ShapeError(f"input_ids: expected at most {most} tokens (max_position_embeddings), got {keys}")
        seen = visible(mask, length, keys, causal=True, prefix=prefix, start=past.length)
        return self.decoder(input_ids, positions, seen, past)


class OPTForCausalLM(CausalLM):
    """OPT with scores of the next token: (B, T) → (B, T, V)."""

    config_class: ClassVar[type[Config]] = OPTConfig
    body = "model"
    body_class = OPTModel


class OPTForSequenceClassification(CausalClassifier):
    """OPT with scores of classes: (B, T) → (B, num_labels)."""

    config_class: ClassVar[type[Config]] = OPTConfig
    body = "model"
    body_class = OPTModel


def _norm(config: Any) -> nn.LayerNorm:
    return nn.LayerNorm(config.hidden_size, elementwise_affine=config.layer_norm_elementwise_affine)
