"""ALBERT (Lan et al., 2020): BERT whose layers share their weights, with narrow words, trained on the order of sentences.

x = W (LayerNorm(word + position + segment)) + b, then N times the layers of a group, of which there is one mostly.
albert-base-v2 (12 layers, width 768, words of width 128) has 11,683,584 parameters. Keys are those of transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ... import nn
from ...tensor import Tensor
from ..pretrained.label_losses import token_loss
from ..pretrained.outputs import AlbertForPreTrainingOutput, BaseModelOutputWithPooling
from ..pretrained.pretrained import Config, PretrainedModel, initialised
from ..pretrained.watching import noted
from .bert import (
    BertConfig,
    BertEmbeddings,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    WithBody,
)
from .blocks import KeyValues, Visible, activation, attend, split_heads, visible

__all__ = [
    "AlbertConfig",
    "AlbertForMaskedLM",
    "AlbertForPreTraining",
    "AlbertForQuestionAnswering",
    "AlbertForSequenceClassification",
    "AlbertForTokenClassification",
    "AlbertModel",
]


@dataclass(kw_only=True)
class AlbertConfig(BertConfig):
    """The sizes of albert-base by default; num_hidden_layers are spread evenly over num_hidden_groups."""

    model_type: ClassVar[str] = "albert"
    positions_known: ClassVar[tuple[str, ...]] = ("absolute",)
    sizes: ClassVar[tuple[str, ...]] = (*BertConfig.sizes, "embedding_size", "num_hidden_groups", "inner_group_num")

    vocab_size: int = 30000
    embedding_size: int = 128
    num_hidden_groups: int = 1
    inner_group_num: int = 1
    hidden_act: str = "gelu_new"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    classifier_dropout_prob: float = 0.1
    bos_token_id: int | None = 2
    eos_token_id: int | list[int] | None = 3

    @property
    def embedding_width(self) -> int:
        return self.embedding_size

    @property
    def head_dropout(self) -> float:
        return self.classifier_dropout_prob


class AlbertAttention(nn.Module):
    """LayerNorm(x + W_O [heads of softmax(q kᵀ/√D) v]). Shape: (B, T, C) → (B, T, C)"""

    random_in_training = True

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        self.heads, self.attention_dropout = config.num_attention_heads, config.attention_probs_dropout_prob
        for name in ("query", "key", "value", "dense"):
            self.add_module(name, nn.Linear(config.hidden_size, config.hidden_size))
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, seen: Visible) -> Tensor:
        q, k, v = (split_heads(part(x), self.heads) for part in (self.query, self.key, self.value))
        y = attend(q, KeyValues(k, v), seen, dropout=self.attention_dropout if self.training else 0.0)
        return self.LayerNorm(x + self.dropout(self.dense(y)))


class AlbertLayer(nn.Module):
    """Attention, then a feed-forward block, each with a residual path and a norm after it."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        self.full_layer_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.attention = AlbertAttention(config)
        self.ffn = nn.Linear(config.hidden_size, config.intermediate_size)
        self.ffn_output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.function = activation(config.hidden_act)

    def forward(self, x: Tensor, seen: Visible) -> Tensor:
        x = self.attention(x, seen)
        return self.full_layer_layer_norm(self.ffn_output(self.function(self.ffn(x))) + x)


class AlbertEncoder(nn.Module):
    """The words widened, then layer i from group ⌊i · groups / layers⌋. Shape: (B, T, E) → (B, T, C)"""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        self.embedding_hidden_mapping_in = nn.Linear(config.embedding_size, config.hidden_size)
        groups, inner = config.num_hidden_groups, config.inner_group_num
        self.albert_layer_groups = nn.ModuleList(
            nn.ModuleDict({"albert_layers": nn.ModuleList(AlbertLayer(config) for _ in range(inner))})
            for _ in range(groups)
        )
        self.order = [layer * groups // config.num_hidden_layers for layer in range(config.num_hidden_layers)]

    def forward(self, x: Tensor, seen: Visible) -> Tensor:
        x = self.embedding_hidden_mapping_in(x)
        for group in self.order:
            for layer in self.albert_layer_groups[group]["albert_layers"]:
                x = layer(noted(x), seen)
        return x


class AlbertModel(PretrainedModel):
    """The encoder, and the pooler unless left out; arguments are those of `BertModel`. (B, T) → (B, T, C), (B, C)"""

    config_class = AlbertConfig
    body = "albert"
    heads = ("predictions.", "sop_classifier.", "classifier.", "qa_outputs.")

    def __init__(self, config: AlbertConfig, add_pooling_layer: bool = True) -> None:
        super().__init__(config)
        self.embeddings, self.encoder = BertEmbeddings(config), AlbertEncoder(config)
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size) if add_pooling_layer else None
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
    ) -> BaseModelOutputWithPooling:
        seen = visible(attention_mask, input_ids.shape[1], input_ids.shape[1])
        with self.watched(**asked) as watch:
            x = self.encoder(self.embeddings(input_ids, token_type_ids, position_ids), seen)
        pooled = None if self.pooler is None else self.pooler(x[:, 0]).tanh()
        output = BaseModelOutputWithPooling(last_hidden_state=x, pooler_output=pooled, **watch.seen(x))
        return self.delivered(output, return_dict)


class AlbertBody(WithBody):
    """What the heads stand on; abstract."""

    config_class: ClassVar[type[Config]] = AlbertConfig
    body = "albert"
    body_class = AlbertModel
    heads = ("albert.pooler.", *AlbertModel.heads)


class AlbertPredictions(nn.Module):
    """Scores of the tokens: table LayerNorm(φ(W x + b)) + c with the table of the words. Shape: (*, C) → (*, V)"""

    def __init__(self, config: AlbertConfig, table: nn.Parameter) -> None:
        super().__init__()
        self.LayerNorm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.dense = nn.Linear(config.hidden_size, config.embedding_size)
        self.decoder = nn.Linear(config.embedding_size, config.vocab_size)
        self.function = activation(config.hidden_act)
        initialised(self, config.initializer_range)
        self.bias = self.decoder.bias  # one parameter under two names, as in the files
        if config.tie_word_embeddings:
            self.decoder.weight = table

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.LayerNorm(self.function(self.dense(x))))


class AlbertForMaskedLM(AlbertBody):
    """Scores of every token at every place: (B, T) → (B, T, V)."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config)
        self.predictions = AlbertPredictions(config, self.albert.embeddings.word_embeddings.weight)

    def scores(self, encoded: Any) -> Tensor:
        return self.predictions(encoded.last_hidden_state)


class AlbertForPreTraining(AlbertBody):
    """Both heads of pre-training: (B, T) → (B, T, V), (B, 2)."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config, pooler=True)
        self.predictions = AlbertPredictions(config, self.albert.embeddings.word_embeddings.weight)
        head = nn.ModuleDict({"classifier": nn.Linear(config.hidden_size, config.num_labels)})
        self.sop_classifier = initialised(head, config.initializer_range)
        self.dropout = nn.Dropout(config.head_dropout)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        sentence_order_label: Tensor | None = None,
        return_dict: bool | None = None,
        **more: Any,
    ) -> AlbertForPreTrainingOutput:
        encoded = self.encode(input_ids, attention_mask, **more)
        words = self.predictions(encoded.last_hidden_state)
        order = self.sop_classifier["classifier"](self.dropout(encoded.pooler_output))
        loss = None
        if labels is not None and sentence_order_label is not None:
            loss = token_loss(words, labels) + nn.functional.cross_entropy(order, sentence_order_label.reshape(-1))
        found = {"loss": loss, "prediction_logits": words, "sop_logits": order}
        return self.answered(AlbertForPreTrainingOutput, encoded, return_dict, **found)


class AlbertForSequenceClassification(AlbertBody, BertForSequenceClassification):
    """W pooled + b: scores of the classes of a text or a pair of texts, (B, T) → (B, num_labels)."""


class AlbertForTokenClassification(AlbertBody, BertForTokenClassification):
    """Scores of the classes of each token: (B, T) → (B, T, num_labels)."""


class AlbertForQuestionAnswering(AlbertBody, BertForQuestionAnswering):
    """Scores of the first and the last token of the answer: (B, T) → (B, T) twice."""
