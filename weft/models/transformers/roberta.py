"""RoBERTa (Liu et al., 2019): BERT without segments and next sentences, trained longer; XLM-RoBERTa and CamemBERT too.

The encoder is BERT's; positions count from pad_token_id + 1. The heads have other names and one layer more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ... import nn
from ...tensor import Tensor
from ..pretrained.outputs import SequenceClassifierOutput
from ..pretrained.pretrained import Config, initialised
from .bert import BertConfig, BertForQuestionAnswering, BertForTokenClassification, BertModel, WithBody

__all__ = [
    "RobertaConfig",
    "RobertaForMaskedLM",
    "RobertaForQuestionAnswering",
    "RobertaForSequenceClassification",
    "RobertaForTokenClassification",
    "RobertaModel",
]

F = nn.functional


@dataclass(kw_only=True)
class RobertaConfig(BertConfig):
    """BERT's fields; positions are counted after the padding's."""

    model_type: ClassVar[str] = "roberta"
    after_padding: ClassVar[bool] = True

    vocab_size: int = 50265
    pad_token_id: int | None = 1
    bos_token_id: int | None = 0
    eos_token_id: int | list[int] | None = 2


class RobertaModel(BertModel):
    """BERT's encoder with RoBERTa's positions: (B, T) → (B, T, C), (B, C)."""

    config_class: ClassVar[type[Config]] = RobertaConfig
    body = "roberta"


class RobertaBody(WithBody):
    """What the heads stand on; abstract."""

    config_class = RobertaConfig
    body = "roberta"
    body_class = RobertaModel
    heads = ("roberta.pooler.", *BertModel.heads)


class RobertaPredictions(nn.Module):
    """Scores of the tokens: E LayerNorm(gelu(W x + b)) + c with the table E of the embeddings. (*, C) → (*, V)"""

    def __init__(self, config: RobertaConfig, table: nn.Parameter) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        initialised(self, config.initializer_range)
        self.bias = self.decoder.bias  # one parameter under two names, as in the files
        if config.tie_word_embeddings:
            self.decoder.weight = table

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.layer_norm(F.gelu(self.dense(x))))


class RobertaForMaskedLM(RobertaBody):
    """Scores of every token at every place: (B, T) → (B, T, V)."""

    def __init__(self, config: RobertaConfig) -> None:
        super().__init__(config)
        self.lm_head = RobertaPredictions(config, getattr(self, self.body).embeddings.word_embeddings.weight)

    def scores(self, encoded: Any) -> Tensor:
        return self.lm_head(encoded.last_hidden_state)


class RobertaClassification(nn.Module):
    """W₂ tanh(W₁ x₀ + b₁) + b₂ of the first token. Shape: (B, T, C) → (B, num_labels)"""

    def __init__(self, config: RobertaConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.head_dropout)
        self.out_proj = nn.Linear(config.hidden_size, config.num_labels)
        initialised(self, config.initializer_range)

    def forward(self, x: Tensor) -> Tensor:
        return self.out_proj(self.dropout(self.dense(self.dropout(x[:, 0])).tanh()))


class RobertaForSequenceClassification(RobertaBody):
    """Scores of the classes of a text: (B, T) → (B, num_labels)."""

    output = SequenceClassifierOutput

    def __init__(self, config: RobertaConfig) -> None:
        super().__init__(config)
        self.classifier = RobertaClassification(config)

    def scores(self, encoded: Any) -> Tensor:
        return self.classifier(encoded.last_hidden_state)


class RobertaForTokenClassification(RobertaBody, BertForTokenClassification):
    """Scores of the classes of each token: (B, T) → (B, T, num_labels)."""


class RobertaForQuestionAnswering(RobertaBody, BertForQuestionAnswering):
    """Scores of the first and the last token of the answer: (B, T) → (B, T) twice."""
