"""Gemma (Gemma Team, 2024): Llama with embeddings times √C, GELU in the gates, and norms that scale by 1 + w.

The size of a head is free of the width: 256 in all. gemma-2b has 2,506,172,416 parameters. Keys are those of transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from .causal import CausalClassifier, CausalLM, CausalTagger
from .llama import LlamaConfig, LlamaModel

__all__ = [
    "GemmaConfig",
    "GemmaForCausalLM",
    "GemmaForSequenceClassification",
    "GemmaForTokenClassification",
    "GemmaModel",
]


class GemmaRMSNorm(nn.Module):
    """y = x / √(mean(x²) + ε) · (1 + w), w = 0 at first: decay pulls the scale to 1. Shape: (*, C) → (*, C)"""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(weft.zeros(width)), eps

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.rms_norm(x, self.weight.shape, 1 + self.weight, self.eps)


@dataclass(kw_only=True)
class GemmaConfig(LlamaConfig):
    """The sizes of gemma-7b by default. hidden_act "gelu", in the first files, means the approximation by tanh."""

    model_type: ClassVar[str] = "gemma"
    norm_class: ClassVar[type[nn.Module]] = GemmaRMSNorm
    scaled_embeddings: ClassVar[bool] = True

    vocab_size: int = 256000
    hidden_size: int = 3072
    intermediate_size: int = 24576
    num_hidden_layers: int = 28
    num_attention_heads: int = 16
    num_key_value_heads: int | None = 16
    head_dim: int | None = 256
    hidden_act: str = "gelu_pytorch_tanh"
    max_position_embeddings: int = 8192
    use_bidirectional_attention: bool | None = None
    tie_word_embeddings: bool = True
    pad_token_id: int | None = 0
    bos_token_id: int | None = 2
    eos_token_id: int | list[int] | None = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.use_bidirectional_attention:
            raise OptionError(
                "GemmaConfig: use_bidirectional_attention must be false; see prefix_lengths of the models"
            )
        if self.hidden_act == "gelu":
            self.hidden_act = "gelu_pytorch_tanh"


class GemmaModel(LlamaModel):
    """Gemma without a head: (B, T) → (B, T, C)."""

    config_class = GemmaConfig


class GemmaForCausalLM(CausalLM):
    """Gemma with scores of the next token: (B, T) → (B, T, V)."""

    config_class, body_class = GemmaConfig, GemmaModel
    body = "model"


class GemmaForSequenceClassification(CausalClassifier):
    """Gemma with scores of the classes of a text: (B, T) → (B, num_labels)."""

    config_class, body_class = GemmaConfig, GemmaModel
    body = "model"


class GemmaForTokenClassification(CausalTagger):
    """Gemma with scores of the classes of every token: (B, T) → (B, T, num_labels)."""

    config_class, body_class = GemmaConfig, GemmaModel
    body = "model"
