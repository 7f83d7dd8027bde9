"""Phi (Gunasekar et al., 2023; Li et al., 2023: phi-1, phi-1.5, phi-2): attention and feed-forward block side by side.

x ← x + attention(y) + W₂ gelu(W₁ y + b₁) + b₂ with y = LayerNorm(x), N times, a last norm and a linear head with a bias;
the first features of each head, half of them by default, are turned by their positions (rotary). phi-1 has 1,418,270,720
parameters. Keys are those of transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from ..pretrained.pretrained import Config, initialised
from ..pretrained.watching import noted
from ..text.cache import Cache, Past
from .blocks import KeyValues, Visible, activation, visible
from .causal import CausalBody, CausalClassifier, CausalLM, CausalTagger
from .rotary import RotaryAttention, RotaryConfig

__all__ = ["PhiConfig", "PhiForCausalLM", "PhiForSequenceClassification", "PhiForTokenClassification", "PhiModel"]


@dataclass(kw_only=True)
class PhiConfig(RotaryConfig):
    """The sizes of phi-1 by default. qk_layernorm: whether every head of queries and keys goes through a LayerNorm."""

    model_type: ClassVar[str] = "phi"
    sizes: ClassVar[tuple[str, ...]] = (
        *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
        *("num_key_value_heads", "max_position_embeddings"),
    )

    vocab_size: int = 51200
    hidden_size: int = 2048
    intermediate_size: int = 8192
    num_hidden_layers: int = 24
    num_key_value_heads: int | None = None
    hidden_act: str = "gelu_new"
    partial_rotary_factor: float = 0.5
    layer_norm_eps: float = 1e-5
    qk_layernorm: bool = False
    resid_pdrop: float = 0.0
    embd_pdrop: float = 0.0
    attention_dropout: float = 0.0
    classifier_dropout: float | None = None
    tie_word_embeddings: bool = False
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2

    def __post_init__(self) -> None:
        self.num_key_value_heads = self.num_key_value_heads or self.num_attention_heads
        super().__post_init__()
        if self.num_attention_heads % self.num_key_value_heads:
            raise OptionError(
                f"PhiConfig: num_key_value_heads {self.num_key_value_heads} does not divide "
                f"num_attention_heads {self.num_attention_heads}"
            )


class PhiAttention(RotaryAttention):
    """W_O [heads of softmax((R_i q)(R_j k)ᵀ/√D) v], all with biases. Shape: (B, T, C) → (B, T, C)"""

    names = ("q_layernorm", "k_layernorm", "dense")

    def __init__(self, config: PhiConfig) -> None:
        super().__init__()
        self.heads, self.groups = config.num_attention_heads, config.num_key_value_heads
        self.dropout, width, size = config.attention_dropout, config.hidden_size, config.head_dim
        self.q_proj = nn.Linear(width, self.heads * size)
        self.k_proj, self.v_proj = nn.Linear(width, self.groups * size), nn.Linear(width, self.groups * size)
        self.dense = nn.Linear(self.heads * size, width)
        for name in ("q_layernorm", "k_layernorm"):
            self.add_module(name, nn.LayerNorm(size, eps=config.layer_norm_eps) if config.qk_layernorm else None)


class PhiLayer(nn.Module):
    """x + attention(y) + mlp(y), y = norm(x). Shape: (B, T, C) → (B, T, C)"""

    def __init__(self, config: PhiConfig) -> None:
        super().__init__()
        width, hidden = config.hidden_size, config.intermediate_size
        self.self_attn = PhiAttention(config)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, hidden), "fc2": nn.Linear(hidden, width)})
        self.input_layernorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.function, self.dropout = activation(config.hidden_act), nn.Dropout(config.resid_pdrop)

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor], seen: Visible, past: Past) -> tuple[Tensor, KeyValues]:
        y = self.input_layernorm(x)
        attended, pairs = self.self_attn(y, turns, seen, past)
        hidden = self.mlp["fc2"](self.function(self.mlp["fc1"](y)))
        return x + self.dropout(attended) + self.dropout(hidden), pairs


class PhiModel(CausalBody):
    """The decoder without a head: (B, T) → (B, T, C)."""

    config_class: ClassVar[type[Config]] = PhiConfig
    body = "model"

    def __init__(self, config: PhiConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.embed_dropout = nn.Dropout(config.embd_pdrop)
        self.layers = nn.ModuleList(PhiLayer(config) for _ in range(config.num_hidden_layers))
        self.final_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.rotary = config.rotary
        initialised(self, config.initializer_range)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embed_tokens

    def decode(
        self, input_ids: Tensor, mask: Tensor | None, positions: Tensor, past: Cache, prefix: Tensor | None
    ) -> tuple[Tensor, Cache]:
        length = input_ids.shape[1]
        seen = visible(mask, length, past.keys_after(length), causal=True, prefix=prefix, start=past.length)
        x, pairs = self.embed_dropout(self.embed_tokens(input_ids)), []
        cos, sin = self.rotary.turns(positions)
        turns = cos.to(x.dtype), sin.to(x.dtype)
        for layer, before in zip(self.layers, past.before(len(self.layers)), strict=True):
            x, kept = layer(noted(x), turns, seen, before)
            pairs.append(kept)
        return self.final_layernorm(x), past.after(pairs, length)


class PhiForCausalLM(CausalLM):
    """Phi with scores of the next token: (B, T) → (B, T, V)."""

    config_class, body_class = PhiConfig, PhiModel
    body = "model"
    head_bias = True


class PhiForSequenceClassification(CausalClassifier):
    """Phi with scores of the classes of a text: (B, T) → (B, num_labels)."""

    config_class, body_class = PhiConfig, PhiModel
    body = "model"


class PhiForTokenClassification(CausalTagger):
    """Phi with scores of the classes of every token: (B, T) → (B, T, num_labels)."""

    config_class, body_class = PhiConfig, PhiModel
    body = "model"
