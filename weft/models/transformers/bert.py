"""BERT (Devlin et al., 2019): an encoder that sees both sides, its pre-training heads, and heads for fine-tuning.

x = LayerNorm(word[t_i] + position[i] + segment[s_i]), then N layers of
    x ← LayerNorm(x + attention(x)),   x ← LayerNorm(x + W₂ gelu(W₁ x + b₁) + b₂).

Pre-training: 15 % of the tokens are hidden and predicted (MLM), and whether the second sentence follows the first (NSP).
Keys are those of transformers. bert-base (12 layers, width 768) has 109,482,240 parameters with its pooler, MiniLM-L6
22,713,216. RoBERTa, DistilBERT, ELECTRA, ALBERT and MPNet build upon these parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import weft

from ... import nn
from ...errors import OptionError, ShapeError, UnsupportedError
from ...tensor import Tensor
from ..pretrained.label_losses import class_loss, next_token_loss, span_loss, token_loss
from ..pretrained.outputs import (
    BaseModelOutputWithPooling,
    BertForPreTrainingOutput,
    CausalLMOutputWithPast,
    MaskedLMOutput,
    ModelOutput,
    NextSentencePredictorOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from ..pretrained.pretrained import Config, PretrainedModel, initialised
from ..pretrained.watching import noted
from ..text.decoding import generate, recomputing
from ..text.generation import chosen_options, mask_of_padding
from .blocks import KeyValues, Visible, activation, attend, split_heads, visible
from .causal import lengthened

__all__ = [
    "BertConfig",
    "BertForMaskedLM",
    "BertForNextSentencePrediction",
    "BertForPreTraining",
    "BertForQuestionAnswering",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertLMHeadModel",
    "BertModel",
    "pre_training_loss",
]

F = nn.functional
POSITIONS = ("absolute", "relative_key", "relative_key_query")


@dataclass(kw_only=True)
class BertConfig(Config):
    """The sizes of bert-base by default. is_decoder: whether a place sees those before it alone (model_type bert).

    position_embedding_type: "absolute", or what scores add for the distance of two places, beside the table of positions
    that all have: q_i · d_{i−j} ("relative_key", Shaw et al., 2018), and k_j · d_{i−j} too ("relative_key_query", Huang et
    al., 2020). transformers 5 no longer reads the latter two.
    """

    model_type: ClassVar[str] = "bert"
    sizes: ClassVar[tuple[str, ...]] = (
        *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
        *("max_position_embeddings", "type_vocab_size"),
    )
    positions_known: ClassVar[tuple[str, ...]] = POSITIONS
    after_padding: ClassVar[bool] = False  # positions count from pad_token_id + 1, padding stays at pad_token_id

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    position_embedding_type: str = "absolute"
    is_decoder: bool = False
    add_cross_attention: bool = False
    classifier_dropout: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.position_embedding_type not in self.positions_known or self.add_cross_attention:
            raise OptionError(
                f"{type(self).__name__}: expected position_embedding_type among {', '.join(self.positions_known)} and "
                f"add_cross_attention false, got {self.position_embedding_type!r} and {self.add_cross_attention}"
            )
        if self.is_decoder and self.model_type != "bert":
            raise OptionError(f"{type(self).__name__}: expected is_decoder false; of these families BERT alone has it")

    @property
    def embedding_width(self) -> int:
        """The width of the tables of embeddings."""
        return self.hidden_size

    @property
    def most_tokens(self) -> int:
        """How long a text may be."""
        return self.max_position_embeddings - (self.pad_token_id + 1 if self.after_padding else 0)

    @property
    def head_dropout(self) -> float:
        return self.hidden_dropout_prob if self.classifier_dropout is None else self.classifier_dropout


# ------------------------------------------------------------------------------------------- the encoder


class BertEmbeddings(nn.Module):
    """LayerNorm(word + position + segment), without segments if type_vocab_size is 0. Shape: (B, T) → (B, T, E)"""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width, padding = config.embedding_width, config.pad_token_id
        self.word_embeddings = nn.Embedding(config.vocab_size, width, padding_idx=padding)
        self.padding = padding if config.after_padding else None
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width, padding_idx=self.padding)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width) if config.type_vocab_size else None
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, tokens: Tensor, segments: Tensor | None, positions: Tensor | None) -> Tensor:
        positions = self.positions(tokens) if positions is None else positions
        x = self.word_embeddings(tokens)
        if self.token_type_embeddings is not None:
            table = self.token_type_embeddings
            x = x + (table.weight[0] if segments is None else table(segments))
        return self.dropout(self.LayerNorm(x + self.position_embeddings(positions)))

    def positions(self, tokens: Tensor) -> Tensor:
        """0, 1, 2 …; where padding keeps its own number p: p + 1, p + 2 … for tokens. Shape: (B, T) → (T,) or (B, T)"""
        most, length = self.position_embeddings.num_embeddings, tokens.shape[1]
        room = most if self.padding is None else most - self.padding - 1
        if length > room:
            raise ShapeError(f"input_ids: expected at most {room} tokens (max_position_embeddings), got {length}")
        if self.padding is None:
            return weft.arange(length)
        real = (tokens != self.padding).to(weft.int64)
        return real.cumsum(1) * real + self.padding


class BertSelfAttention(nn.Module):
    """Heads of softmax((q kᵀ + distances)/√D) v, distances only where the config has them. Shape: (B, T, C) → (B, T, C)"""

    random_in_training = True

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.num_attention_heads, config.attention_probs_dropout_prob
        for name in ("query", "key", "value"):
            self.add_module(name, nn.Linear(config.hidden_size, config.hidden_size))
        self.kind, most = config.position_embedding_type, config.max_position_embeddings
        if self.kind != "absolute":
            self.distance_embedding = nn.Embedding(2 * most - 1, config.hidden_size // self.heads)

    def forward(self, x: Tensor, seen: Visible) -> Tensor:
        q, k, v = (split_heads(part(x), self.heads) for part in (self.query, self.key, self.value))
        bias = None if self.kind == "absolute" else self._distances(q, k)
        return attend(q, KeyValues(k, v), seen, bias=bias, dropout=self.dropout if self.training else 0.0)

    def _distances(self, q: Tensor, k: Tensor) -> Tensor:
        """q_i · d_{i−j}/√D, and k_j · d_{i−j}/√D with relative_key_query. Shape: (B, H, T, D) twice → (B, H, T, T)"""
        place, table = weft.arange(q.shape[-2]), self.distance_embedding
        zero = (table.num_embeddings - 1) // 2  # the row of distance 0
        rows = table(place.unsqueeze(-1) - place + zero)  # (T, T, D)
        found = weft.einsum("bhid,ijd->bhij", q, rows)
        if self.kind == "relative_key_query":
            found = found + weft.einsum("bhjd,ijd->bhij", k, rows)
        return found / math.sqrt(q.shape[-1])


class BertOutput(nn.Module):
    """LayerNorm(x + dropout(W y + b))."""

    def __init__(self, config: BertConfig, inputs: int) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        return self.LayerNorm(self.dropout(self.dense(y)) + x)


class BertLayer(nn.Module):
    """Attention, then a feed-forward block, each with a residual path and a norm after it."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        attention = {"self": BertSelfAttention(config), "output": BertOutput(config, config.hidden_size)}
        self.attention = nn.ModuleDict(attention)
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(config.hidden_size, config.intermediate_size)})
        self.output = BertOutput(config, config.intermediate_size)
        self.function = activation(config.hidden_act)

    def forward(self, x: Tensor, seen: Visible) -> Tensor:
        x = self.attention["output"](self.attention["self"](x, seen), x)
        return self.output(self.function(self.intermediate["dense"](x)), x)


class BertModel(PretrainedModel):
    """The encoder, and the pooler unless left out.

    attention_mask: 1 for tokens, 0 for padding. token_type_ids: the segment of each token, all 0 unless given. More
    arguments and the results: see `PretrainedModel`. Shape: (B, T) four times → (B, T, C), (B, C)
    """

    config_class = BertConfig
    body = "bert"
    heads = ("cls.", "classifier.", "qa_outputs.", "lm_head.")

    def __init__(self, config: BertConfig, add_pooling_layer: bool = True) -> None:
        super().__init__(config)
        self.embeddings = BertEmbeddings(config)
        layers = nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))
        self.encoder = nn.ModuleDict({"layer": layers})
        dense = {"dense": nn.Linear(config.hidden_size, config.hidden_size)}
        self.pooler = nn.ModuleDict(dense) if add_pooling_layer else None
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
        length = input_ids.shape[1]
        seen = visible(attention_mask, length, length, causal=self.config.is_decoder)
        with self.watched(**asked) as watch:
            x = self.embeddings(input_ids, token_type_ids, position_ids)
            for layer in self.encoder["layer"]:
                x = layer(noted(x), seen)
        pooled = None if self.pooler is None else self.pooler["dense"](x[:, 0]).tanh()
        output = BaseModelOutputWithPooling(last_hidden_state=x, pooler_output=pooled, **watch.seen(x))
        return self.delivered(output, return_dict)


# ------------------------------------------------------------------------------------------- heads


class WithBody(PretrainedModel):
    """A model with the encoder of its family under the name `body`, as BertModel takes its arguments; abstract.

    Subclasses say what their `output` is, and how `scores` are made of what the encoder returns.
    """

    config_class: ClassVar[type[Config]] = BertConfig
    body = "bert"
    body_class: ClassVar[type[PretrainedModel]] = BertModel
    heads = ("bert.pooler.", *BertModel.heads)
    output: ClassVar[type[ModelOutput]] = MaskedLMOutput

    def __init__(self, config: Any, pooler: bool = False) -> None:
        super().__init__(config)
        self.add_module(self.body, self.body_class(config, add_pooling_layer=pooler))

    def encode(self, *inputs: Any, **named: Any) -> Any:
        return getattr(self, self.body)(*inputs, **named, return_dict=True)

    def scores(self, encoded: Any) -> Tensor:
        """The logits of what the encoder returned."""
        raise UnsupportedError(f"{type(self).__name__} must define scores")

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """That of tokens, or that of classes of a text."""
        if self.output is SequenceClassifierOutput:
            return class_loss(logits, labels, self.config)
        return next_token_loss(logits, labels) if self.output is CausalLMOutputWithPast else token_loss(logits, labels)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **more: Any,
    ) -> ModelOutput:
        encoded = self.encode(input_ids, attention_mask, **more)
        logits = self.scores(encoded)
        loss = None if labels is None else self.loss(logits, labels)
        return self.answered(self.output, encoded, return_dict, loss=loss, logits=logits)


class BertPredictions(nn.Module):
    """Scores of the tokens: E LayerNorm(gelu(W x + b)) + c with the table E of the embeddings. (*, C) → (*, V)"""

    def __init__(self, config: BertConfig, table: nn.Parameter) -> None:
        super().__init__()
        width = config.hidden_size
        norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.transform = nn.ModuleDict({"dense": nn.Linear(width, width), "LayerNorm": norm})
        self.decoder = nn.Linear(width, config.vocab_size)
        self.function = activation(config.hidden_act)
        initialised(self, config.initializer_range)
        self.bias = self.decoder.bias  # one parameter under two names, as in the files
        if config.tie_word_embeddings:
            self.decoder.weight = table

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.transform["LayerNorm"](self.function(self.transform["dense"](x))))


class BertForMaskedLM(WithBody):
    """Scores of every token at every place: (B, T) → (B, T, V)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        table = self.bert.embeddings.word_embeddings.weight
        self.cls = nn.ModuleDict({"predictions": BertPredictions(config, table)})

    def scores(self, encoded: Any) -> Tensor:
        return self.cls["predictions"](encoded.last_hidden_state)


class BertLMHeadModel(BertForMaskedLM):
    """Scores of the next token with is_decoder in the config, of the token itself without: (B, T) → (B, T, V).

    Labels are those of the next token in both cases. There are no past_key_values.
    """

    output = CausalLMOutputWithPast

    def generate(self, input_ids: Tensor, attention_mask: Tensor | None = None, **options: Any) -> Tensor:
        """Beginnings (B, T), padded on the left, continued; see `CausalLM.generate`. All is computed anew each time."""
        if not self.config.is_decoder:
            raise OptionError("generate: BertLMHeadModel writes from left to right only with is_decoder in its config")
        options = chosen_options(self, None, options, input_ids.shape[-1], self.config.most_tokens)
        if attention_mask is None:
            attention_mask = mask_of_padding(input_ids, options["pad_token_id"], options["eos_token_id"])
        return generate(recomputing(self._all), input_ids, attention_mask, **options)

    def _all(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """The scores at all places; positions count tokens alone. Shape: (B, T), mask (B, ≤ T) → (B, T, V)"""
        mask = lengthened(mask, tokens.shape[1])
        positions = None if mask is None else (mask.cumsum(1) - 1).clamp(min=0)
        return self(tokens, mask, position_ids=positions, return_dict=True).logits


class BertForNextSentencePrediction(WithBody):
    """Scores of "the second segment follows the first" (0) and "it does not" (1): (B, T) → (B, 2). Labels: (B,)."""

    output = NextSentencePredictorOutput

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, pooler=True)
        head = initialised(nn.Linear(config.hidden_size, 2), config.initializer_range)
        self.cls = nn.ModuleDict({"seq_relationship": head})

    def scores(self, encoded: Any) -> Tensor:
        return self.cls["seq_relationship"](encoded.pooler_output)


class BertForPreTraining(WithBody):
    """Both heads of pre-training, MLM and NSP: (B, T) → (B, T, V), (B, 2). `pre_training_loss` is their loss."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, pooler=True)
        predictions = BertPredictions(config, self.bert.embeddings.word_embeddings.weight)
        head = initialised(nn.Linear(config.hidden_size, 2), config.initializer_range)
        self.cls = nn.ModuleDict({"predictions": predictions, "seq_relationship": head})

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        next_sentence_label: Tensor | None = None,
        return_dict: bool | None = None,
        **more: Any,
    ) -> BertForPreTrainingOutput:
        encoded = self.encode(input_ids, attention_mask, **more)
        found = {
            "prediction_logits": self.cls["predictions"](encoded.last_hidden_state),
            "seq_relationship_logits": self.cls["seq_relationship"](encoded.pooler_output),
        }
        if labels is not None and next_sentence_label is not None:
            found["loss"] = pre_training_loss(BertForPreTrainingOutput(**found), labels, next_sentence_label)
        return self.answered(BertForPreTrainingOutput, encoded, return_dict, **found)


def pre_training_loss(scores: BertForPreTrainingOutput, labels: Tensor, next_sentence: Tensor) -> Tensor:
    """Cross entropy over the hidden tokens, plus that of the next sentence.

    Shape: labels (B, T), −100 where nothing was hidden (`weft.data.text.mask_tokens`), next_sentence (B,) → ()
    """
    hidden = token_loss(scores.prediction_logits, labels)
    return hidden + F.cross_entropy(scores.seq_relationship_logits, next_sentence.reshape(-1))


class BertForSequenceClassification(WithBody):
    """W pooled + b: scores of the classes of a text or a pair of texts, (B, T) → (B, num_labels)."""

    output = SequenceClassifierOutput

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, pooler=True)
        self.dropout = nn.Dropout(config.head_dropout)
        self.classifier = initialised(nn.Linear(config.hidden_size, config.num_labels), config.initializer_range)

    def scores(self, encoded: Any) -> Tensor:
        return self.classifier(self.dropout(encoded.pooler_output))


class BertForTokenClassification(WithBody):
    """W x + b at every place: scores of the classes of each token, (B, T) → (B, T, num_labels)."""

    output = TokenClassifierOutput

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout(config.head_dropout)
        self.classifier = initialised(nn.Linear(config.hidden_size, config.num_labels), config.initializer_range)

    def scores(self, encoded: Any) -> Tensor:
        return self.classifier(self.dropout(encoded.last_hidden_state))


class BertForQuestionAnswering(WithBody):
    """Scores of the first and the last token of the answer: (B, T) → (B, T) twice."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.qa_outputs = initialised(nn.Linear(config.hidden_size, 2), config.initializer_range)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        return_dict: bool | None = None,
        **more: Any,
    ) -> QuestionAnsweringModelOutput:
        encoded = self.encode(input_ids, attention_mask, **more)
        start, end = self.qa_outputs(encoded.last_hidden_state).unbind(-1)  # (B, T, 2) → (B, T) twice
        given = start_positions is not None and end_positions is not None
        loss = span_loss(start, end, start_positions, end_positions) if given else None
        found = {"loss": loss, "start_logits": start, "end_logits": end}
        return self.answered(QuestionAnsweringModelOutput, encoded, return_dict, **found)
