"""Mixtures of experts: Mixtral (Jiang et al., 2024) and Qwen's (2024, 2025): Llama with several gates, few of them used.

p = softmax(W_r x), the k most probable experts E of a token answer: y = Σ_k p_k E_k(x), with p divided by its sum over
them where norm_topk_prob says so (always in Mixtral). Qwen2's have an expert that answers every token as well, weighted
by σ(w x). Mixtral-8x7B has 46,702,792,704 parameters, of which a token meets 12.9 billion. Keys are those of files.

>>> config = MixtralConfig(vocab_size=65, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
...                        num_attention_heads=4, num_key_value_heads=2, num_local_experts=4)
>>> MixtralForCausalLM(config)(weft.tensor([[1, 2, 3]])).logits.shape
Size([1, 3, 65])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import weft

from ... import nn
from ...errors import OptionError
from ...tape.modes import mode
from ...tensor import Tensor
from .blocks import GatedFeedForward, activation
from .llama import (
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    LlamaForTokenClassification,
    LlamaLayer,
    LlamaModel,
    Qwen2Config,
    feed_forward,
)

__all__ = [
    "MixtralConfig",
    "MixtralForCausalLM",
    "MixtralForSequenceClassification",
    "MixtralForTokenClassification",
    "MixtralModel",
    "Qwen2MoeConfig",
    "Qwen2MoeForCausalLM",
    "Qwen2MoeForSequenceClassification",
    "Qwen2MoeForTokenClassification",
    "Qwen2MoeModel",
    "Qwen3MoeConfig",
    "Qwen3MoeForCausalLM",
    "Qwen3MoeForSequenceClassification",
    "Qwen3MoeForTokenClassification",
    "Qwen3MoeModel",
]


@dataclass(kw_only=True)
class MixtralConfig(LlamaConfig):
    """The sizes of Mixtral-8x7B by default."""

    model_type: ClassVar[str] = "mixtral"
    norm_topk_prob: ClassVar[bool] = True

    intermediate_size: int = 14336
    num_key_value_heads: int | None = 8
    num_experts_per_tok: int = 2
    num_local_experts: int = 8
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    rope_theta: float = 1e6

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_experts(self, self.num_local_experts)


@dataclass(kw_only=True)
class Qwen2MoeConfig(Qwen2Config):
    """The sizes of Qwen1.5-MoE-A2.7B by default.

    A layer has experts if mlp_only_layers does not name it and its number, counted from 1, is a multiple of
    decoder_sparse_step.
    """

    model_type: ClassVar[str] = "qwen2_moe"

    vocab_size: int = 151936
    hidden_size: int = 2048
    intermediate_size: int = 5632
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    num_key_value_heads: int | None = 16
    max_position_embeddings: int = 32768
    decoder_sparse_step: int = 1
    mlp_only_layers: list[int] | None = None
    moe_intermediate_size: int = 1408
    shared_expert_intermediate_size: int = 5632
    num_experts_per_tok: int = 4
    num_experts: int = 60
    norm_topk_prob: bool = False
    qkv_bias: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_experts(self, self.num_experts)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], **changes: Any) -> Self:
        """Newer files have num_local_experts for num_experts."""
        fields = dict(fields)
        if "num_experts" not in fields and fields.get("num_local_experts") is not None:
            fields["num_experts"] = fields["num_local_experts"]
        return super().from_dict(fields, **changes)

    @property
    def query_bias(self) -> bool:
        return self.qkv_bias


@dataclass(kw_only=True)
class Qwen3MoeConfig(Qwen2MoeConfig):
    """The sizes of Qwen3-30B-A3B by default, but for head_dim, which its file gives."""

    model_type: ClassVar[str] = "qwen3_moe"
    query_norm: ClassVar[bool] = True

    intermediate_size: int = 6144
    num_attention_heads: int = 32
    num_key_value_heads: int | None = 4
    moe_intermediate_size: int = 768
    shared_expert_intermediate_size: int = 0
    num_experts_per_tok: int = 8
    num_experts: int = 128
    qkv_bias: bool = False


def _check_experts(config: Any, count: int) -> None:
    if not 1 <= config.num_experts_per_tok <= count:
        raise OptionError(
            f"{type(config).__name__}: expected 1 ≤ num_experts_per_tok ≤ {count}, the number of experts, got "
            f"{config.num_experts_per_tok}"
        )


class MixtralExpert(nn.Module):
    """W₂ (φ(W₁ x) ∘ W₃ x). Shape: (*, C) → (*, C)"""

    def __init__(self, width: int, hidden: int, function: str) -> None:
        super().__init__()
        self.w1, self.w3 = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.w2, self.function = nn.Linear(hidden, width, bias=False), activation(function)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(self.function(self.w1(x)) * self.w3(x))


class Experts(nn.Module):
    """Σ_k p_k E_k(x) over the k experts that the router finds most probable; abstract. Shape: (B, T, C) → (B, T, C)

    Eagerly each expert sees its own tokens alone. In compiled code, where sizes must be known, all see all of them, and
    the weight of those that were not chosen is 0.
    """

    used: int  # how many experts answer a token
    normalised: bool
    gate: nn.Linear
    experts: nn.ModuleList

    def mixed(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])  # (B · T, C)
        chances, chosen = self.gate(rows).float().softmax(-1).topk(self.used)  # (B · T, k) each
        if self.normalised:
            chances = chances / chances.sum(-1, keepdim=True)
        found = self._all(rows, chances, chosen) if mode.interpreter is not None else self._few(rows, chances, chosen)
        return found.reshape(x.shape)

    def _few(self, x: Tensor, chances: Tensor, chosen: Tensor) -> Tensor:
        y, picks = weft.zeros_like(x), chosen.numpy()
        for number, expert in enumerate(self.experts):
            place, rank = (weft.from_numpy(part) for part in (picks == number).nonzero())
            if len(place):
                answer = expert(x[place]) * chances[place, rank].unsqueeze(-1).to(x.dtype)
                y = y.index_add(0, place, answer)
        return y

    def _all(self, x: Tensor, chances: Tensor, chosen: Tensor) -> Tensor:
        y = weft.zeros_like(x)
        for number, expert in enumerate(self.experts):
            weight = (chances * (chosen == number)).sum(-1, keepdim=True)  # (B · T, 1)
            y = y + expert(x) * weight.to(x.dtype)
        return y


class MixtralBlock(Experts):
    """The experts of a layer of Mixtral."""

    def __init__(self, config: MixtralConfig, number: int = 0) -> None:
        super().__init__()
        self.used, self.normalised = config.num_experts_per_tok, config.norm_topk_prob
        width, count = config.hidden_size, config.num_local_experts
        self.gate = nn.Linear(width, count, bias=False)
        made = (MixtralExpert(width, config.intermediate_size, config.hidden_act) for _ in range(count))
        self.experts = nn.ModuleList(made)

    def forward(self, x: Tensor) -> Tensor:
        return self.mixed(x)


class QwenBlock(Experts):
    """The experts of a layer of Qwen's, and the one that answers every token, where there is one."""

    def __init__(self, config: Qwen2MoeConfig) -> None:
        super().__init__()
        self.used, self.normalised = config.num_experts_per_tok, config.norm_topk_prob
        width, act, shared = config.hidden_size, config.hidden_act, config.shared_expert_intermediate_size
        self.gate = nn.Linear(width, config.num_experts, bias=False)
        made = (GatedFeedForward(width, config.moe_intermediate_size, act) for _ in range(config.num_experts))
        self.experts = nn.ModuleList(made)
        self.shared_expert = GatedFeedForward(width, shared, act) if shared else None
        self.shared_expert_gate = nn.Linear(width, 1, bias=False) if shared else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.mixed(x)
        if self.shared_expert is None:
            return y
        return y + self.shared_expert_gate(x).sigmoid() * self.shared_expert(x)


def qwen_block(config: Qwen2MoeConfig, number: int) -> nn.Module:
    """Experts, or gates alone in the layers that have none."""
    spared = number in (config.mlp_only_layers or ()) or (number + 1) % config.decoder_sparse_step
    return feed_forward(config, number) if spared else QwenBlock(config)


class MixtralLayer(LlamaLayer):
    """x ← x + attention(norm(x)), x ← x + experts(norm(x))."""

    block, block_name = MixtralBlock, "block_sparse_moe"


class QwenLayer(LlamaLayer):
    """x ← x + attention(norm(x)), x ← x + experts(norm(x))."""

    block = staticmethod(qwen_block)


class MixtralModel(LlamaModel):
    """Mixtral without a head: (B, T) → (B, T, C)."""

    config_class, layer_class = MixtralConfig, MixtralLayer


class MixtralForCausalLM(LlamaForCausalLM):
    """Mixtral with scores of the next token: (B, T) → (B, T, V)."""

    config_class, body_class = MixtralConfig, MixtralModel


class MixtralForSequenceClassification(LlamaForSequenceClassification):
    """Mixtral with scores of the classes of a text: (B, T) → (B, num_labels)."""

    config_class, body_class = MixtralConfig, MixtralModel


class MixtralForTokenClassification(LlamaForTokenClassification):
    """Mixtral with scores of the classes of every token: (B, T) → (B, T, num_labels)."""

    config_class, body_class = MixtralConfig, MixtralModel


class Qwen2MoeModel(LlamaModel):
    """Qwen2's mixture without a head."""

    config_class, layer_class = Qwen2MoeConfig, QwenLayer


class Qwen2MoeForCausalLM(LlamaForCausalLM):
    """Qwen2's mixture with scores of the next token."""

    config_class, body_class = Qwen2MoeConfig, Qwen2MoeModel


class Qwen2MoeForSequenceClassification(LlamaForSequenceClassification):
    """Qwen2's mixture with scores of the classes of a text."""

    config_class, body_class = Qwen2MoeConfig, Qwen2MoeModel


class Qwen2MoeForTokenClassification(LlamaForTokenClassification):
    """Qwen2's mixture with scores of the classes of every token."""

    config_class, body_class = Qwen2MoeConfig, Qwen2MoeModel


class Qwen3MoeModel(LlamaModel):
    """Qwen3's mixture without a head."""

    config_class, layer_class = Qwen3MoeConfig, QwenLayer


class Qwen3MoeForCausalLM(LlamaForCausalLM):
    """Qwen3's mixture with scores of the next token."""

    config_class, body_class = Qwen3MoeConfig, Qwen3MoeModel


class Qwen3MoeForSequenceClassification(LlamaForSequenceClassification):
    """Qwen3's mixture with scores of the classes of a text."""

    config_class, body_class = Qwen3MoeConfig, Qwen3MoeModel


class Qwen3MoeForTokenClassification(LlamaForTokenClassification):
    """Qwen3's mixture with scores of the classes of every token."""

    config_class, body_class = Qwen3MoeConfig, Qwen3MoeModel
