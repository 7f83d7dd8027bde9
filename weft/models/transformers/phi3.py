"""Phi-3 and Phi-4 (Abdin et al., 2024): Llama with queries, keys and values in one matrix, and gate and up in another.

Long contexts have their own factors for every pair (longrope); Phi-4-mini turns three quarters of a head's features
(partial_rotary_factor). Phi-3-mini has 3,821,079,552 parameters. Keys are those of transformers.

>>> config = Phi3Config(vocab_size=65, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
...                     pad_token_id=0)
>>> Phi3ForCausalLM(config)(weft.tensor([[1, 2, 3]])).logits.shape
Size([1, 3, 65])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from ... import nn
from ...tensor import Tensor
from .blocks import activation
from .llama import (
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    LlamaForTokenClassification,
    LlamaLayer,
    LlamaModel,
)
from .rotary import RotaryAttention

__all__ = ["Phi3Config", "Phi3ForCausalLM", "Phi3ForSequenceClassification", "Phi3ForTokenClassification", "Phi3Model"]


@dataclass(kw_only=True)
class Phi3Config(LlamaConfig):
    """The sizes of Phi-3-mini by default. resid_pdrop: dropout of what attention and gates add.

    original_max_position_embeddings: the context before it was stretched (longrope).
    """

    model_type: ClassVar[str] = "phi3"
    turns_a_share: ClassVar[bool] = True

    vocab_size: int = 32064
    hidden_size: int = 3072
    intermediate_size: int = 8192
    max_position_embeddings: int = 4096
    original_max_position_embeddings: int = 4096
    rms_norm_eps: float = 1e-5
    resid_pdrop: float = 0.0
    embd_pdrop: float = 0.0
    pad_token_id: int | None = 32000
    eos_token_id: int | list[int] | None = 32000

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], **changes: Any) -> Self:
        """Old files say "su" or "yarn" and mean longrope."""
        fields = dict(fields)
        for name in ("rope_scaling", "rope_parameters"):
            scaling = dict(fields.get(name) or {})
            for key in ("type", "rope_type"):
                if scaling.get(key) in ("su", "yarn"):
                    scaling[key] = "longrope"
            if scaling:
                fields[name] = scaling
        return super().from_dict(fields, **changes)


class Phi3Attention(RotaryAttention):
    """W_O [heads of softmax((R_i q)(R_j k)ᵀ/√D) v], q, k and v from one matrix. Shape: (B, T, C) → (B, T, C)"""

    q_norm = k_norm = None

    def __init__(self, config: Phi3Config) -> None:
        super().__init__()
        self.heads, self.groups = config.num_attention_heads, config.num_key_value_heads
        self.dropout, size = config.attention_dropout, config.head_dim
        self.o_proj = nn.Linear(self.heads * size, config.hidden_size, bias=False)
        self.qkv_proj = nn.Linear(config.hidden_size, (self.heads + 2 * self.groups) * size, bias=False)


class Phi3FeedForward(nn.Module):
    """W_down (φ(g) ∘ u), [g; u] = W x. Shape: (*, C) → (*, C)"""

    def __init__(self, config: Phi3Config, number: int = 0) -> None:
        super().__init__()
        self.gate_up_proj = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.function = activation(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up_proj(x).chunk(2, -1)  # (*, I) each
        return self.down_proj(self.function(gate) * up)


class Phi3Layer(LlamaLayer):
    """x ← x + attention(norm(x)), x ← x + gates(norm(x))."""

    attention_class = Phi3Attention
    block = Phi3FeedForward


class Phi3Model(LlamaModel):
    """Phi-3 without a head: (B, T) → (B, T, C)."""

    config_class, layer_class = Phi3Config, Phi3Layer


class Phi3ForCausalLM(LlamaForCausalLM):
    """Phi-3 with scores of the next token: (B, T) → (B, T, V)."""

    config_class, body_class = Phi3Config, Phi3Model


class Phi3ForSequenceClassification(LlamaForSequenceClassification):
    """Phi-3 with scores of the classes of a text: (B, T) → (B, num_labels)."""

    config_class, body_class = Phi3Config, Phi3Model


class Phi3ForTokenClassification(LlamaForTokenClassification):
    """Phi-3 with scores of the classes of every token: (B, T) → (B, T, num_labels)."""

    config_class, body_class = Phi3Config, Phi3Model
