"""GPT-NeoX (Black et al., 2022), the architecture of Pythia: attention and feed-forward block side by side.

x ← x + attention(LayerNorm₁(x)) + mlp(LayerNorm₂(x)), N times, a last norm and a linear head; the first quarter of the
features of each head is turned by its position (rotary). pythia-70m has 70,426,624 parameters. Keys are those of
transformers; the head is called embed_out in files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from ..pretrained.pretrained import Config, initialised
from ..pretrained.watching import noted
from ..text.cache import Cache, Past
from .blocks import KeyValues, Visible, activation, attend, visible
from .causal import CausalBody, CausalClassifier, CausalLM
from .rotary import Rotary, rotate_halves

__all__ = ["GPTNeoXConfig", "GPTNeoXForCausalLM", "GPTNeoXForSequenceClassification", "GPTNeoXModel"]


@dataclass(kw_only=True)
class GPTNeoXConfig(Config):
    """The sizes of pythia-70m by default. rotary_pct: the share of a head's features that rotary position turns.

    rope_scaling: see `Rotary`. use_parallel_residual: if false, the feed-forward block reads attention's result.
    """

    model_type: ClassVar[str] = "gpt_neox"
    sizes: ClassVar[tuple[str, ...]] = (
        *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
        "max_position_embeddings",
    )

    vocab_size: int = 50304
    hidden_size: int = 512
    num_hidden_layers: int = 6
    num_attention_heads: int = 8
    intermediate_size: int = 2048
    hidden_act: str = "gelu"
    max_position_embeddings: int = 2048
    rotary_pct: float = 0.25
    rotary_emb_base: float = 10000.0
    rope_scaling: dict[str, Any] | None = None
    layer_norm_eps: float = 1e-5
    use_parallel_residual: bool = True
    attention_bias: bool = True
    attention_dropout: float = 0.0
    hidden_dropout: float = 0.0
    tie_word_embeddings: bool = False
    bos_token_id: int | None = 0
    eos_token_id: int | list[int] | None = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.turned < 2 or self.turned % 2:
            raise OptionError(
                f"GPTNeoXConfig: rotary position needs an even number of features, rotary_pct {self.rotary_pct} of "
                f"{self.hidden_size // self.num_attention_heads} are {self.turned}"
            )

    @property
    def turned(self) -> int:
        """How many features of a head rotary position turns."""
        return int(self.hidden_size // self.num_attention_heads * self.rotary_pct)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], **changes: Any) -> Self:
        """rope_parameters, the newer name, holds the base and the share as well."""
        fields = dict(fields)
        scaling = {**(fields.get("rope_scaling") or {}), **(fields.pop("rope_parameters", None) or {})}
        for new, old in (("rope_theta", "rotary_emb_base"), ("partial_rotary_factor", "rotary_pct")):
            if new in scaling:
                fields[old] = scaling.pop(new)
        return super().from_dict({**fields, "rope_scaling": scaling or None}, **changes)

    def to_dict(self) -> dict[str, Any]:
        fields = super().to_dict()
        scaling = fields.pop("rope_scaling") or {"rope_type": "default"}
        turns = {"rope_theta": self.rotary_emb_base, "partial_rotary_factor": self.rotary_pct}
        return {**fields, "rope_parameters": {**scaling, **turns}}


class GPTNeoXAttention(nn.Module):
    """W_O [heads of softmax((R_i q)(R_j k)ᵀ/√D) v]. Shape: (B, T, C) → (B, T, C)"""

    random_in_training = True

    def __init__(self, config: GPTNeoXConfig) -> None:
        super().__init__()
        width, bias = config.hidden_size, config.attention_bias
        self.heads, self.dropout = config.num_attention_heads, config.attention_dropout
        self.query_key_value = nn.Linear(width, 3 * width, bias=bias)
        self.dense = nn.Linear(width, width, bias=bias)

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor], seen: Visible, past: Past) -> tuple[Tensor, KeyValues]:
        batch, length, width = x.shape
        size = 3 * width // self.heads
        three = self.query_key_value(x).reshape(batch, length, self.heads, size).transpose(1, 2)  # (B, H, T, 3 D)
        q, k, v = three.chunk(3, -1)  # (B, H, T, D) each
        pairs = past.append(rotate_halves(k, *turns), v)
        y = attend(rotate_halves(q, *turns), pairs, seen, dropout=self.dropout if self.training else 0.0)
        return self.dense(y), pairs


class GPTNeoXLayer(nn.Module):
    """x ← x + attention(norm(x)) + mlp(norm(x)), or the one after the other."""

    def __init__(self, config: GPTNeoXConfig) -> None:
        super().__init__()
        width, hidden = config.hidden_size, config.intermediate_size
        self.input_layernorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.post_attention_layernorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.attention = GPTNeoXAttention(config)
        ends = {"dense_h_to_4h": nn.Linear(width, hidden), "dense_4h_to_h": nn.Linear(hidden, width)}
        self.mlp, self.function = nn.ModuleDict(ends), activation(config.hidden_act)
        self.dropout, self.parallel = nn.Dropout(config.hidden_dropout), config.use_parallel_residual

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor], seen: Visible, past: Past) -> tuple[Tensor, KeyValues]:
        y, pairs = self.attention(self.input_layernorm(x), turns, seen, past)
        after = x + self.dropout(y)
        read = self.post_attention_layernorm(x if self.parallel else after)
        hidden = self.function(self.mlp["dense_h_to_4h"](read))
        return after + self.dropout(self.mlp["dense_4h_to_h"](hidden)), pairs


class GPTNeoXModel(CausalBody):
    """The decoder without a head: (B, T) → (B, T, C)."""

    config_class = GPTNeoXConfig
    body = "gpt_neox"
    renamed = (("embed_out.", "lm_head."),)

    def __init__(self, config: GPTNeoXConfig) -> None:
        super().__init__(config)
        self.embed_in = nn.Embedding(config.vocab_size, config.hidden_size)
        self.emb_dropout = nn.Dropout(config.hidden_dropout)
        self.layers = nn.ModuleList(GPTNeoXLayer(config) for _ in range(config.num_hidden_layers))
        self.final_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        scaling = config.rope_scaling or {}
        self.rotary = Rotary(config.turned, config.rotary_emb_base, config.max_position_embeddings, scaling)
        initialised(self, config.initializer_range)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embed_in

    def decode(
        self, input_ids: Tensor, mask: Tensor | None, positions: Tensor, past: Cache, prefix: Tensor | None
    ) -> tuple[Tensor, Cache]:
        length = input_ids.shape[1]
        seen = visible(mask, length, past.keys_after(length), causal=True, prefix=prefix, start=past.length)
        x, pairs = self.emb_dropout(self.embed_in(input_ids)), []
        cos, sin = self.rotary.turns(positions)
        turns = cos.to(x.dtype), sin.to(x.dtype)
        for layer, before in zip(self.layers, past.before(len(self.layers)), strict=True):
            x, kept = layer(noted(x), turns, seen, before)
            pairs.append(kept)
        return self.final_layer_norm(x), past.after(pairs, length)


class GPTNeoXForCausalLM(CausalLM):
    """GPT-NeoX with scores of the next token: (B, T) → (B, T, V)."""

    config_class: ClassVar[type[Config]] = GPTNeoXConfig
    body = "gpt_neox"
    body_class = GPTNeoXModel
    renamed = GPTNeoXModel.renamed


class GPTNeoXForSequenceClassification(CausalClassifier):
    """GPT-NeoX with scores of classes: (B, T) → (B, num_labels)."""

    config_class: ClassVar[type[Config]] = GPTNeoXConfig
    body = "gpt_neox"
    body_class = GPTNeoXModel
    renamed = GPTNeoXModel.renamed
