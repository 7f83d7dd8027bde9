"""Llama (Touvron et al., 2023) and its relatives Mistral, Qwen2 and Qwen3, which differ in flags of the config.

x = word[t_i], then N layers of x ← x + attention(RMSNorm(x)), x ← x + SwiGLU(RMSNorm(x)), a last RMSNorm and a linear
head. Queries and keys are turned by their positions (rotary); a head of keys and values serves several heads of queries.
Llama-3.2-1B has 1,235,814,400 parameters. Keys are those of transformers.

>>> config = LlamaConfig(vocab_size=65, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
...                      num_attention_heads=4, num_key_value_heads=2)
>>> LlamaForCausalLM(config)(weft.tensor([[1, 2, 3]])).logits.shape
Size([1, 3, 65])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from ..pretrained.pretrained import Config, initialised
from ..pretrained.watching import noted
from ..text.cache import Cache, Past
from .blocks import GatedFeedForward, KeyValues, Visible, visible
from .causal import CausalBody, CausalClassifier, CausalLM, CausalTagger
from .rotary import RotaryAttention, RotaryConfig

__all__ = [
    "LlamaConfig",
    "LlamaForCausalLM",
    "LlamaForSequenceClassification",
    "LlamaForTokenClassification",
    "LlamaModel",
    "MistralConfig",
    "MistralForCausalLM",
    "MistralForSequenceClassification",
    "MistralForTokenClassification",
    "MistralModel",
    "Qwen2Config",
    "Qwen2ForCausalLM",
    "Qwen2ForSequenceClassification",
    "Qwen2ForTokenClassification",
    "Qwen2Model",
    "Qwen3Config",
    "Qwen3ForCausalLM",
    "Qwen3ForSequenceClassification",
    "Qwen3ForTokenClassification",
    "Qwen3Model",
]


@dataclass(kw_only=True)
class LlamaConfig(RotaryConfig):
    """The sizes of Llama-7B by default.

    num_key_value_heads: as many as of queries unless given. sliding_window: how many places a query sees in layers of the
    type sliding_attention. All features of a head are turned.
    """

    model_type: ClassVar[str] = "llama"
    sizes: ClassVar[tuple[str, ...]] = (
        *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
        *("num_key_value_heads", "head_dim", "max_position_embeddings"),
    )
    query_bias: ClassVar[bool] = False  # Qwen2 has biases in queries, keys and values alone
    query_norm: ClassVar[bool] = False  # Qwen3 normalises every head of queries and keys
    norm_class: ClassVar[type[nn.Module]] = nn.RMSNorm
    scaled_embeddings: ClassVar[bool] = False  # Gemma's are times √C
    resid_pdrop: ClassVar[float] = 0.0  # Phi-3 has dropout of what layers add
    turns_a_share: ClassVar[bool] = False  # Phi-3's partial_rotary_factor may be less than 1

    vocab_size: int = 32000
    intermediate_size: int = 11008
    num_hidden_layers: int = 32
    num_key_value_heads: int | None = None
    hidden_act: str = "silu"
    rms_norm_eps: float = 1e-6
    attention_bias: bool = False
    mlp_bias: bool = False
    attention_dropout: float = 0.0
    classifier_dropout: float | None = None
    sliding_window: int | None = None
    layer_types: list[str] | None = None
    tie_word_embeddings: bool = False
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2

    def __post_init__(self) -> None:
        self.num_key_value_heads = self.num_key_value_heads or self.num_attention_heads
        super().__post_init__()
        if self.num_attention_heads % self.num_key_value_heads:
            raise OptionError(
                f"{type(self).__name__}: num_key_value_heads {self.num_key_value_heads} does not divide "
                f"num_attention_heads {self.num_attention_heads}"
            )
        if (
            self.turned != self.head_dim and not self.turns_a_share
        ):  # transformers passes over the field here and turns all features
            raise OptionError(
                f"{type(self).__name__}: partial_rotary_factor must be 1, got {self.partial_rotary_factor}; "
                "models of type phi, phi3 and gpt_neox have others"
            )

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], **changes: Any) -> Self:
        return super().from_dict(cls._windows(dict(fields)), **changes)

    @classmethod
    def _windows(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields with sliding_window set where it is in use."""
        return fields

    def window(self, layer: int) -> int | None:
        """How many places a query of this layer sees."""
        kind = "sliding_attention" if self.layer_types is None else self.layer_types[layer]
        return self.sliding_window if kind == "sliding_attention" else None


@dataclass(kw_only=True)
class MistralConfig(LlamaConfig):
    """Llama with a sliding window in all layers (Jiang et al., 2023)."""

    model_type: ClassVar[str] = "mistral"


@dataclass(kw_only=True)
class Qwen2Config(LlamaConfig):
    """Llama with biases in queries, keys and values; a sliding window if use_sliding_window says so."""

    model_type: ClassVar[str] = "qwen2"
    query_bias: ClassVar[bool] = True

    use_sliding_window: bool = False
    max_window_layers: int = 28

    @classmethod
    def _windows(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """The first max_window_layers layers see everything."""
        if not fields.get("use_sliding_window"):
            return {**fields, "sliding_window": None, "layer_types": None}
        first, count = fields.get("max_window_layers", 28), fields.get("num_hidden_layers", 32)
        kinds = ["full_attention" if layer < first else "sliding_attention" for layer in range(count)]
        return {**fields, "layer_types": fields.get("layer_types") or kinds}


@dataclass(kw_only=True)
class Qwen3Config(Qwen2Config):
    """Qwen2 without biases; each head of queries and keys goes through an RMSNorm."""

    model_type: ClassVar[str] = "qwen3"
    query_bias: ClassVar[bool] = False
    query_norm: ClassVar[bool] = True

    head_dim: int | None = 128


class LlamaAttention(RotaryAttention):
    """W_O [heads of softmax((R_i q)(R_j k)ᵀ/√D) v], grouped queries. Shape: (B, T, C) → (B, T, C)"""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.heads, self.groups = config.num_attention_heads, config.num_key_value_heads
        self.dropout = config.attention_dropout
        queries, pairs = self.heads * config.head_dim, self.groups * config.head_dim
        bias = config.attention_bias or config.query_bias
        self.q_proj = nn.Linear(config.hidden_size, queries, bias=bias)
        self.k_proj = nn.Linear(config.hidden_size, pairs, bias=bias)
        self.v_proj = nn.Linear(config.hidden_size, pairs, bias=bias)
        self.o_proj = nn.Linear(queries, config.hidden_size, bias=config.attention_bias)
        for name in ("q_norm", "k_norm"):
            norm = config.norm_class(config.head_dim, eps=config.rms_norm_eps) if config.query_norm else None
            self.add_module(name, norm)


def feed_forward(config: LlamaConfig, number: int) -> nn.Module:
    """W_down (φ(W_gate x) ∘ W_up x), in every layer."""
    return GatedFeedForward(config.hidden_size, config.intermediate_size, config.hidden_act, config.mlp_bias)


class LlamaLayer(nn.Module):
    """x ← x + attention(norm(x)), x ← x + block(norm(x)).

    attention_class, block: what makes the two of a config, the block of the number of the layer as well. block_name: that
    of the block in files.
    """

    attention_class: ClassVar[type[RotaryAttention]] = LlamaAttention
    block: ClassVar[Callable[[Any, int], nn.Module]] = staticmethod(feed_forward)
    block_name: ClassVar[str] = "mlp"

    def __init__(self, config: LlamaConfig, number: int) -> None:
        super().__init__()
        self.self_attn = self.attention_class(config)
        self.add_module(self.block_name, self.block(config, number))
        self.input_layernorm = config.norm_class(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = config.norm_class(config.hidden_size, eps=config.rms_norm_eps)
        self.dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor], seen: Visible, past: Past) -> tuple[Tensor, KeyValues]:
        y, pairs = self.self_attn(self.input_layernorm(x), turns, seen, past)
        x = x + self.dropout(y)
        block = getattr(self, self.block_name)
        return x + self.dropout(block(self.post_attention_layernorm(x))), pairs


class LlamaModel(CausalBody):
    """The decoder without a head: (B, T) → (B, T, C)."""

    config_class: ClassVar[type[Config]] = LlamaConfig
    body = "model"
    layer_class: ClassVar[type[LlamaLayer]] = LlamaLayer

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        layers = (self.layer_class(config, number) for number in range(config.num_hidden_layers))
        self.layers = nn.ModuleList(layers)
        self.norm = config.norm_class(config.hidden_size, eps=config.rms_norm_eps)
        self.scale = math.sqrt(config.hidden_size) if config.scaled_embeddings else 1.0
        self.rotary = config.rotary
        initialised(self, config.initializer_range)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embed_tokens

    def decode(
        self, input_ids: Tensor, mask: Tensor | None, positions: Tensor, past: Cache, prefix: Tensor | None
    ) -> tuple[Tensor, Cache]:
        length = input_ids.shape[1]
        keys = past.keys_after(length)
        windows = [self.config.window(number) for number in range(len(self.layers))]
        pairs_seen = {"causal": True, "prefix": prefix, "start": past.length}
        seen = {window: visible(mask, length, keys, window=window, **pairs_seen) for window in set(windows)}
        x, pairs = self.embed_tokens(input_ids), []
        if self.scale != 1:
            x = x * weft.tensor(self.scale, dtype=x.dtype)  # rounded as the weights are
        cos, sin = self.rotary.turns(positions)
        turns = cos.to(x.dtype), sin.to(x.dtype)
        for layer, window, before in zip(self.layers, windows, past.before(len(windows)), strict=True):
            x, kept = layer(noted(x), turns, seen[window], before)
            pairs.append(kept)
        return self.norm(x), past.after(pairs, length)


class LlamaForCausalLM(CausalLM):
    """Llama with scores of the next token: (B, T) → (B, T, V)."""

    config_class: ClassVar[type[Config]] = LlamaConfig
    body = "model"
    body_class: ClassVar[type[CausalBody]] = LlamaModel


class LlamaForSequenceClassification(CausalClassifier):
    """Llama with scores of classes: (B, T) → (B, num_labels)."""

    config_class: ClassVar[type[Config]] = LlamaConfig
    body = "model"
    body_class: ClassVar[type[CausalBody]] = LlamaModel


class LlamaForTokenClassification(CausalTagger):
    """Llama with scores of the classes of every token: (B, T) → (B, T, num_labels)."""

    config_class: ClassVar[type[Config]] = LlamaConfig
    body = "model"
    body_class: ClassVar[type[CausalBody]] = LlamaModel


class MistralModel(LlamaModel):
    """Mistral without a head."""

    config_class = MistralConfig


class MistralForCausalLM(LlamaForCausalLM):
    """Mistral with scores of the next token."""

    config_class, body_class = MistralConfig, MistralModel


class MistralForSequenceClassification(LlamaForSequenceClassification):
    """Mistral with scores of classes."""

    config_class, body_class = MistralConfig, MistralModel


class MistralForTokenClassification(LlamaForTokenClassification):
    """Mistral with scores of the classes of every token."""

    config_class, body_class = MistralConfig, MistralModel


class Qwen2Model(LlamaModel):
    """Qwen2 without a head."""

    config_class = Qwen2Config


class Qwen2ForCausalLM(LlamaForCausalLM):
    """Qwen2 with scores of the next token."""

    config_class, body_class = Qwen2Config, Qwen2Model


class Qwen2ForSequenceClassification(LlamaForSequenceClassification):
    """Qwen2 with scores of classes."""

    config_class, body_class = Qwen2Config, Qwen2Model


class Qwen2ForTokenClassification(LlamaForTokenClassification):
    """Qwen2 with scores of the classes of every token."""

    config_class, body_class = Qwen2Config, Qwen2Model


class Qwen3Model(LlamaModel):
    """Qwen3 without a head."""

    config_class = Qwen3Config


class Qwen3ForCausalLM(LlamaForCausalLM):
    """Qwen3 with scores of the next token."""

    config_class, body_class = Qwen3Config, Qwen3Model


class Qwen3ForSequenceClassification(LlamaForSequenceClassification):
    """Qwen3 with scores of classes."""

    config_class, body_class = Qwen3Config, Qwen3Model


class Qwen3ForTokenClassification(LlamaForTokenClassification):
    """Qwen3 with scores of the classes of every token."""

    config_class, body_class = Qwen3Config, Qwen3Model
