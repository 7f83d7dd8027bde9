"""MPNet (Song et al., 2020): BERT's encoder with RoBERTa's positions and T5's relative ones; all-mpnet-base is one.

x = LayerNorm(word + position), then layers of x ← LayerNorm(x + attention(x)), x ← LayerNorm(x + mlp(x)), where
b[h, bucket(j − i)], the same in all layers, is added to the scores q kᵀ/√D. mpnet-base has 109,484,928 parameters.
The heads are RoBERTa's. Keys are those of transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ... import nn
from ...tensor import Tensor
from ..pretrained.outputs import BaseModelOutputWithPooling
from ..pretrained.pretrained import Config, PretrainedModel, initialised
from ..pretrained.watching import noted
from .bert import BertConfig, BertEmbeddings, BertOutput, WithBody
from .blocks import KeyValues, Visible, activation, attend, split_heads, visible
from .roberta import (
    RobertaForMaskedLM,
    RobertaForQuestionAnswering,
    RobertaForSequenceClassification,
    RobertaForTokenClassification,
)

__all__ = [
    "MPNetConfig",
    "MPNetForMaskedLM",
    "MPNetForQuestionAnswering",
    "MPNetForSequenceClassification",
    "MPNetForTokenClassification",
    "MPNetModel",
]


@dataclass(kw_only=True)
class MPNetConfig(BertConfig):
    """The sizes of mpnet-base by default; there are no segments."""

    model_type: ClassVar[str] = "mpnet"
    positions_known: ClassVar[tuple[str, ...]] = ("absolute",)
    sizes: ClassVar[tuple[str, ...]] = (
        *(name for name in BertConfig.sizes if name != "type_vocab_size"),
        "relative_attention_num_buckets",
    )
    after_padding: ClassVar[bool] = True

    vocab_size: int = 30527
    type_vocab_size: int = 0
    relative_attention_num_buckets: int = 32
    pad_token_id: int | None = 1
    bos_token_id: int | None = 0
    eos_token_id: int | list[int] | None = 2


class MPNetSelfAttention(nn.Module):
    """W_O [heads of softmax(q kᵀ/√D + b) v]. Shape: (B, T, C), (1, H, T, T) → (B, T, C)"""

    random_in_training = True

    def __init__(self, config: MPNetConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.num_attention_heads, config.attention_probs_dropout_prob
        for name in ("q", "k", "v", "o"):
            self.add_module(name, nn.Linear(config.hidden_size, config.hidden_size))

    def forward(self, x: Tensor, seen: Visible, bias: Tensor) -> Tensor:
        q, k, v = (split_heads(part(x), self.heads) for part in (self.q, self.k, self.v))
        return self.o(attend(q, KeyValues(k, v), seen, bias=bias, dropout=self.dropout if self.training else 0.0))


class MPNetLayer(nn.Module):
    """Attention, then a feed-forward block, each with a residual path and a norm after it."""

    def __init__(self, config: MPNetConfig) -> None:
        super().__init__()
        norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.attention = nn.ModuleDict({"attn": MPNetSelfAttention(config), "LayerNorm": norm})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(config.hidden_size, config.intermediate_size)})
        self.output = BertOutput(config, config.intermediate_size)
        self.dropout, self.function = nn.Dropout(config.hidden_dropout_prob), activation(config.hidden_act)

    def forward(self, x: Tensor, seen: Visible, bias: Tensor) -> Tensor:
        x = self.attention["LayerNorm"](self.dropout(self.attention["attn"](x, seen, bias)) + x)
        return self.output(self.function(self.intermediate["dense"](x)), x)


class MPNetModel(PretrainedModel):
    """The encoder, and the pooler unless left out; attention_mask: 1 for tokens, 0 for padding.

    Shape: (B, T) three times → (B, T, C), (B, C)
    """

    config_class = MPNetConfig
    body = "mpnet"
    heads = ("lm_head.", "classifier.", "qa_outputs.")

    def __init__(self, config: MPNetConfig, add_pooling_layer: bool = True) -> None:
        super().__init__(config)
        self.embeddings = BertEmbeddings(config)
        layers = nn.ModuleList(MPNetLayer(config) for _ in range(config.num_hidden_layers))
        bias = nn.RelativePositionBias(config.num_attention_heads, config.relative_attention_num_buckets)
        nn.init.normal_(bias.weight, std=config.initializer_range)
        self.encoder = nn.ModuleDict({"layer": layers, "relative_attention_bias": bias})
        dense = {"dense": nn.Linear(config.hidden_size, config.hidden_size)}
        self.pooler = nn.ModuleDict(dense) if add_pooling_layer else None
        initialised(self, config.initializer_range)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        *,
        return_dict: bool | None = None,
        **asked: Any,
    ) -> BaseModelOutputWithPooling:
        length = input_ids.shape[1]
        bias = self.encoder["relative_attention_bias"](length, length).unsqueeze(0)  # (1, H, T, T)
        with self.watched(**asked) as watch:
            x, seen = self.embeddings(input_ids, None, position_ids), visible(attention_mask, length, length)
            for layer in self.encoder["layer"]:
                x = layer(noted(x), seen, bias)
        pooled = None if self.pooler is None else self.pooler["dense"](x[:, 0]).tanh()
        output = BaseModelOutputWithPooling(last_hidden_state=x, pooler_output=pooled, **watch.seen(x))
        return self.delivered(output, return_dict)


class MPNetBody(WithBody):
    """What the heads stand on; abstract."""

    config_class: ClassVar[type[Config]] = MPNetConfig
    body = "mpnet"
    body_class = MPNetModel
    heads = ("mpnet.pooler.", *MPNetModel.heads)


class MPNetForMaskedLM(MPNetBody, RobertaForMaskedLM):
    """Scores of every token at every place: (B, T) → (B, T, V)."""


class MPNetForSequenceClassification(MPNetBody, RobertaForSequenceClassification):
    """Scores of the classes of a text: (B, T) → (B, num_labels)."""


class MPNetForTokenClassification(MPNetBody, RobertaForTokenClassification):
    """Scores of the classes of each token: (B, T) → (B, T, num_labels)."""


class MPNetForQuestionAnswering(MPNetBody, RobertaForQuestionAnswering):
    """Scores of the first and the last token of the answer: (B, T) → (B, T) twice."""
