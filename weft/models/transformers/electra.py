"""ELECTRA (Clark et al., 2020): BERT's encoder, taught to tell which tokens a small generator has replaced.

Words may be narrower (E) than the layers (C): x = W (LayerNorm(word + position + segment)) + b, then BERT's layers.
electra-small-discriminator (12 layers, width 256, E = 128) has 13,483,008 parameters. Keys are those of transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ... import nn
from ...tensor import Tensor
from ..pretrained.label_losses import replaced_loss
from ..pretrained.outputs import BaseModelOutput, ElectraForPreTrainingOutput, SequenceClassifierOutput
from ..pretrained.pretrained import Config, PretrainedModel, initialised
from ..pretrained.watching import noted
from .bert import (
    BertConfig,
    BertEmbeddings,
    BertForQuestionAnswering,
    BertForTokenClassification,
    BertLayer,
    WithBody,
)
from .blocks import activation, visible

__all__ = [
    "ElectraConfig",
    "ElectraForMaskedLM",
    "ElectraForPreTraining",
    "ElectraForQuestionAnswering",
    "ElectraForSequenceClassification",
    "ElectraForTokenClassification",
    "ElectraModel",
]

F = nn.functional


@dataclass(kw_only=True)
class ElectraConfig(BertConfig):
    """The sizes of electra-small by default."""

    model_type: ClassVar[str] = "electra"
    sizes: ClassVar[tuple[str, ...]] = (*BertConfig.sizes, "embedding_size")

    embedding_size: int = 128
    hidden_size: int = 256
    num_attention_heads: int = 4
    intermediate_size: int = 1024

    @property
    def embedding_width(self) -> int:
        return self.embedding_size


class ElectraModel(PretrainedModel):
    """The encoder; arguments are those of `BertModel`. Shape: (B, T) → (B, T, C)"""

    config_class = ElectraConfig
    body = "electra"
    heads = ("discriminator_predictions.", "generator_predictions.", "generator_lm_head.", "classifier.", "qa_outputs.")

    def __init__(self, config: ElectraConfig, add_pooling_layer: bool = False) -> None:
        super().__init__(config)
        self.embeddings = BertEmbeddings(config)
        narrow = config.embedding_size != config.hidden_size
        self.embeddings_project = nn.Linear(config.embedding_size, config.hidden_size) if narrow else None
        layers = nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))
        self.encoder = nn.ModuleDict({"layer": layers})
        initialised(self, config.initializer_range)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        *,
        return_dict: bool | None = None,
        **asked: Any,
    ) -> BaseModelOutput:
        seen = visible(attention_mask, input_ids.shape[1], input_ids.shape[1])
        with self.watched(**asked) as watch:
            x = self.embeddings(input_ids, token_type_ids, position_ids)  # (B, T, E)
            x = x if self.embeddings_project is None else self.embeddings_project(x)  # (B, T, C)
            for layer in self.encoder["layer"]:
                x = layer(noted(x), seen)
        return self.delivered(BaseModelOutput(last_hidden_state=x, **watch.seen(x)), return_dict)


class ElectraBody(WithBody):
    """What the heads stand on; abstract."""

    config_class: ClassVar[type[Config]] = ElectraConfig
    body = "electra"
    body_class = ElectraModel
    heads = ElectraModel.heads


class ElectraForPreTraining(ElectraBody):
    """The discriminator, w · φ(W x + b) + c: positive where a token looks replaced. Shape: (B, T) → (B, T)"""

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__(config)
        width = config.hidden_size
        head = {"dense": nn.Linear(width, width), "dense_prediction": nn.Linear(width, 1)}
        self.discriminator_predictions = initialised(nn.ModuleDict(head), config.initializer_range)
        self.function = activation(config.hidden_act)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **more: Any,
    ) -> ElectraForPreTrainingOutput:
        encoded, head = self.encode(input_ids, attention_mask, **more), self.discriminator_predictions
        hidden = self.function(head["dense"](encoded.last_hidden_state))
        logits = head["dense_prediction"](hidden).squeeze(-1)  # (B, T, 1) → (B, T)
        loss = None if labels is None else replaced_loss(logits, labels, attention_mask)
        return self.answered(ElectraForPreTrainingOutput, encoded, return_dict, loss=loss, logits=logits)


class ElectraForMaskedLM(ElectraBody):
    """The generator, table LayerNorm(gelu(W x + b)) + c: scores of every token at every place. (B, T) → (B, T, V)"""

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__(config)
        narrow = config.embedding_size
        norm = nn.LayerNorm(narrow, eps=config.layer_norm_eps)
        head = nn.ModuleDict({"LayerNorm": norm, "dense": nn.Linear(config.hidden_size, narrow)})
        self.generator_predictions = initialised(head, config.initializer_range)
        self.generator_lm_head = initialised(nn.Linear(narrow, config.vocab_size), config.initializer_range)
        if config.tie_word_embeddings:
            self.generator_lm_head.weight = self.electra.embeddings.word_embeddings.weight

    def scores(self, encoded: Any) -> Tensor:
        x, head = encoded.last_hidden_state, self.generator_predictions
        return self.generator_lm_head(head["LayerNorm"](F.gelu(head["dense"](x))))


class ElectraForSequenceClassification(ElectraBody):
    """W₂ gelu(W₁ x₀ + b₁) + b₂ of the first token: scores of the classes of a text. (B, T) → (B, num_labels)"""

    output = SequenceClassifierOutput

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__(config)
        width = config.hidden_size
        head = nn.ModuleDict({"dense": nn.Linear(width, width), "out_proj": nn.Linear(width, config.num_labels)})
        self.classifier = initialised(head, config.initializer_range)
        self.dropout = nn.Dropout(config.head_dropout)

    def scores(self, encoded: Any) -> Tensor:
        first = encoded.last_hidden_state[:, 0]  # (B, C)
        hidden = F.gelu(self.classifier["dense"](self.dropout(first)))
        return self.classifier["out_proj"](self.dropout(hidden))


class ElectraForTokenClassification(ElectraBody, BertForTokenClassification):
    """Scores of the classes of each token: (B, T) → (B, T, num_labels)."""


class ElectraForQuestionAnswering(ElectraBody, BertForQuestionAnswering):
    """Scores of the first and the last token of the answer: (B, T) → (B, T) twice."""
