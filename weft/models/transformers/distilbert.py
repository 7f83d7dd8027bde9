"""DistilBERT (Sanh et al., 2019): BERT with half of the layers, without segments and pooler, taught by BERT.

distilbert-base (6 layers, width 768) has 66,362,880 parameters. Keys are those of transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import weft

from ... import nn
from ...errors import ShapeError
from ...tensor import Tensor
from ..pretrained.outputs import BaseModelOutput, SequenceClassifierOutput
from ..pretrained.pretrained import Config, PretrainedModel, initialised
from ..pretrained.watching import noted
from .bert import BertForQuestionAnswering, BertForTokenClassification, WithBody
from .blocks import KeyValues, Visible, activation, attend, split_heads, visible

__all__ = [
    "DistilBertConfig",
    "DistilBertForMaskedLM",
    "DistilBertForQuestionAnswering",
    "DistilBertForSequenceClassification",
    "DistilBertForTokenClassification",
    "DistilBertModel",
]


@dataclass(kw_only=True)
class DistilBertConfig(Config):
    """The sizes of distilbert-base by default."""

    model_type: ClassVar[str] = "distilbert"
    sizes: ClassVar[tuple[str, ...]] = (
        *("vocab_size", "dim", "n_layers", "n_heads", "hidden_dim", "max_position_embeddings"),
    )
    width_and_heads: ClassVar[tuple[str, str]] = ("dim", "n_heads")

    vocab_size: int = 30522
    dim: int = 768
    n_layers: int = 6
    n_heads: int = 12
    hidden_dim: int = 3072
    activation: str = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    seq_classif_dropout: float = 0.2
    qa_dropout: float = 0.1
    max_position_embeddings: int = 512
    sinusoidal_pos_embds: bool = False
    pad_token_id: int | None = 0

    @property
    def hidden_size(self) -> int:
        return self.dim

    @property
    def head_dropout(self) -> float:
        return self.dropout


class DistilBertEmbeddings(nn.Module):
    """LayerNorm(word + position). Shape: (B, T) → (B, T, C)"""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.dim, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.dim)
        self.LayerNorm = nn.LayerNorm(config.dim, eps=1e-12)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        length, most = tokens.shape[1], self.position_embeddings.num_embeddings
        if positions is None and length > most:
            raise ShapeError(f"input_ids: expected at most {most} tokens (max_position_embeddings), got {length}")
        positions = weft.arange(length) if positions is None else positions
        return self.dropout(self.LayerNorm(self.word_embeddings(tokens) + self.position_embeddings(positions)))


class DistilBertAttention(nn.Module):
    """W_O [heads of softmax(q kᵀ/√D) v]. Shape: (B, T, C) → (B, T, C)"""

    random_in_training = True

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.n_heads, config.attention_dropout
        for name in ("q_lin", "k_lin", "v_lin", "out_lin"):
            self.add_module(name, nn.Linear(config.dim, config.dim))

    def forward(self, x: Tensor, seen: Visible) -> Tensor:
        q, k, v = (split_heads(part(x), self.heads) for part in (self.q_lin, self.k_lin, self.v_lin))
        return self.out_lin(attend(q, KeyValues(k, v), seen, dropout=self.dropout if self.training else 0.0))


class DistilBertLayer(nn.Module):
    """Attention, then a feed-forward block, each with a residual path and a norm after it."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.attention = DistilBertAttention(config)
        self.sa_layer_norm = nn.LayerNorm(config.dim, eps=1e-12)
        feed_forward = {
            "lin1": nn.Linear(config.dim, config.hidden_dim),
            "lin2": nn.Linear(config.hidden_dim, config.dim),
        }
        self.ffn = nn.ModuleDict(feed_forward)
        self.output_layer_norm = nn.LayerNorm(config.dim, eps=1e-12)
        self.dropout = nn.Dropout(config.dropout)
        self.function = activation(config.activation)

    def forward(self, x: Tensor, seen: Visible) -> Tensor:
        x = self.sa_layer_norm(self.attention(x, seen) + x)
        return self.output_layer_norm(self.dropout(self.ffn["lin2"](self.function(self.ffn["lin1"](x)))) + x)


class DistilBertModel(PretrainedModel):
    """The encoder; attention_mask: 1 for tokens, 0 for padding. Shape: (B, T) → (B, T, C)"""

    config_class = DistilBertConfig
    body = "distilbert"
    heads = ("vocab_", "pre_classifier.", "classifier.", "qa_outputs.")

    def __init__(self, config: DistilBertConfig, add_pooling_layer: bool = False) -> None:
        super().__init__(config)
        self.embeddings = DistilBertEmbeddings(config)
        layers = nn.ModuleList(DistilBertLayer(config) for _ in range(config.n_layers))
        self.transformer = nn.ModuleDict({"layer": layers})
        initialised(self, config.initializer_range)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        *,
        return_dict: bool | None = None,
        **asked: Any,
    ) -> BaseModelOutput:
        seen = visible(attention_mask, input_ids.shape[1], input_ids.shape[1])
        with self.watched(**asked) as watch:
            x = self.embeddings(input_ids, position_ids)
            for layer in self.transformer["layer"]:
                x = layer(noted(x), seen)
        return self.delivered(BaseModelOutput(last_hidden_state=x, **watch.seen(x)), return_dict)


class DistilBertBody(WithBody):
    """What the heads stand on; abstract."""

    config_class: ClassVar[type[Config]] = DistilBertConfig
    body = "distilbert"
    body_class = DistilBertModel
    heads = DistilBertModel.heads


class DistilBertForMaskedLM(DistilBertBody):
    """E LayerNorm(gelu(W x + b)) + c: scores of every token at every place, (B, T) → (B, T, V)."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__(config)
        self.vocab_transform = initialised(nn.Linear(config.dim, config.dim), config.initializer_range)
        self.vocab_layer_norm = nn.LayerNorm(config.dim, eps=1e-12)
        self.vocab_projector = initialised(nn.Linear(config.dim, config.vocab_size), config.initializer_range)
        self.function = activation(config.activation)
        if config.tie_word_embeddings:
            self.vocab_projector.weight = self.distilbert.embeddings.word_embeddings.weight

    def scores(self, encoded: Any) -> Tensor:
        x = encoded.last_hidden_state
        return self.vocab_projector(self.vocab_layer_norm(self.function(self.vocab_transform(x))))


class DistilBertForSequenceClassification(DistilBertBody):
    """W₂ relu(W₁ x₀ + b₁) + b₂ of the first token: scores of the classes of a text, (B, T) → (B, num_labels)."""

    output = SequenceClassifierOutput

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__(config)
        self.pre_classifier = initialised(nn.Linear(config.dim, config.dim), config.initializer_range)
        self.classifier = initialised(nn.Linear(config.dim, config.num_labels), config.initializer_range)
        self.dropout = nn.Dropout(config.seq_classif_dropout)

    def scores(self, encoded: Any) -> Tensor:
        first = encoded.last_hidden_state[:, 0]  # (B, C)
        return self.classifier(self.dropout(self.pre_classifier(first).relu()))


class DistilBertForTokenClassification(DistilBertBody, BertForTokenClassification):
    """Scores of the classes of each token: (B, T) → (B, T, num_labels)."""


class DistilBertForQuestionAnswering(DistilBertBody, BertForQuestionAnswering):
    """Scores of the first and the last token of the answer: (B, T) → (B, T) twice."""
