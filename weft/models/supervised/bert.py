"""BERT (Devlin et al., 2019): an encoder that sees both sides, its pre-training heads, and heads for fine-tuning.

x = LayerNorm(word[t_i] + position[i] + segment[s_i]), then N layers of
    x ← LayerNorm(x + attention(x)),   x ← LayerNorm(x + W₂ gelu(W₁ x + b₁) + b₂).

Pre-training: 15 % of the tokens are hidden and predicted (MLM), and whether the second sentence follows the first (NSP).
Keys are those of transformers. bert-base (12 layers, width 768) has 109,482,240 parameters with its pooler, MiniLM-L6
22,713,216. RoBERTa, DistilBERT, ELECTRA, ALBERT and MPNet build upon these parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from .causal import lengthened
from .decoding import generate, recomputing
from .pretrained import Config, PretrainedModel, initialised
from .transformer_blocks import KeyValues, Visible, activation, attend, split_heads, visible

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
    "Encoded",
    "PreTrainingScores",
    "SpanScores",
    "pre_training_loss",
]

F = nn.functional


@dataclass(kw_only=True)
class BertConfig(Config):
    """The sizes of bert-base by default. is_decoder: whether a place sees those before it alone (model_type bert)."""

    model_type: ClassVar[str] = "bert"
    sizes: ClassVar[tuple[str, ...]] = (
        *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
        *("max_position_embeddings", "type_vocab_size"),
    )
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
        if self.position_embedding_type != "absolute" or self.add_cross_attention:
            raise OptionError(
                f"{type(self).__name__}: expected position_embedding_type 'absolute' and add_cross_attention false, got "
                f"{self.position_embedding_type!r} and {self.add_cross_attention}"
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


class Encoded(NamedTuple):
    """last_hidden_state (B, T, C); pooler_output (B, C) = tanh(W x₀ + b) of the first token, None without a pooler."""

    last_hidden_state: Tensor
    pooler_output: Tensor | None = None


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
    """Heads of softmax(q kᵀ/√D) v. Shape: (B, T, C) → (B, T, C)"""

    random_in_training = True

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.num_attention_heads, config.attention_probs_dropout_prob
        for name in ("query", "key", "value"):
            self.add_module(name, nn.Linear(config.hidden_size, config.hidden_size))

    def forward(self, x: Tensor, seen: Visible) -> Tensor:
        q, k, v = (split_heads(part(x), self.heads) for part in (self.query, self.key, self.value))
        return attend(q, KeyValues(k, v), seen, dropout=self.dropout if self.training else 0.0)


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

    attention_mask: 1 for tokens, 0 for padding. token_type_ids: the segment of each token, all 0 unless given.
    Shape: (B, T) four times → (B, T, C), (B, C)
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
    ) -> Encoded:
        x = self.embeddings(input_ids, token_type_ids, position_ids)
        length = input_ids.shape[1]
        seen = visible(attention_mask, length, length, causal=self.config.is_decoder)
        for layer in self.encoder["layer"]:
            x = layer(x, seen)
        return Encoded(x, None if self.pooler is None else self.pooler["dense"](x[:, 0]).tanh())


# ------------------------------------------------------------------------------------------- heads


class WithBody(PretrainedModel):
    """A model with the encoder of its family under the name `body`, as BertModel takes its arguments; abstract."""

    config_class: ClassVar[type[Config]] = BertConfig
    body = "bert"
    body_class: ClassVar[type[PretrainedModel]] = BertModel
    heads = ("bert.pooler.", *BertModel.heads)

    def __init__(self, config: Any, pooler: bool = False) -> None:
        super().__init__(config)
        self.add_module(self.body, self.body_class(config, add_pooling_layer=pooler))

    def encode(self, *inputs: Any, **named: Any) -> Encoded:
        return getattr(self, self.body)(*inputs, **named)


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

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **more: Any) -> Tensor:
        return self.cls["predictions"](self.encode(input_ids, attention_mask, **more).last_hidden_state)


class BertLMHeadModel(BertForMaskedLM):
    """Scores of the next token with is_decoder in the config, of the token itself without: (B, T) → (B, T, V)."""

    def generate(self, input_ids: Tensor, attention_mask: Tensor | None = None, **options: Any) -> Tensor:
        """Beginnings (B, T), padded on the left, continued; options as in `decoding`. All is computed anew each time."""
        if not self.config.is_decoder:
            raise OptionError("generate: BertLMHeadModel writes from left to right only with is_decoder in its config")
        ends = {"eos_token_id": self.config.eos_token_id, "pad_token_id": self.config.pad_token_id}
        return generate(recomputing(self._all), input_ids, attention_mask, **{**ends, **options})

    def _all(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """The scores at all places; positions count tokens alone. Shape: (B, T), mask (B, ≤ T) → (B, T, V)"""
        mask = lengthened(mask, tokens.shape[1])
        return self(tokens, mask, position_ids=None if mask is None else (mask.cumsum(1) - 1).clamp(min=0))


class BertForNextSentencePrediction(WithBody):
    """Scores of "the second segment follows the first" (0) and "it does not" (1): (B, T) → (B, 2)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, pooler=True)
        head = initialised(nn.Linear(config.hidden_size, 2), config.initializer_range)
        self.cls = nn.ModuleDict({"seq_relationship": head})

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **more: Any) -> Tensor:
        return self.cls["seq_relationship"](self.encode(input_ids, attention_mask, **more).pooler_output)


class PreTrainingScores(NamedTuple):
    """prediction_logits (B, T, V), seq_relationship_logits (B, 2)."""

    prediction_logits: Tensor
    seq_relationship_logits: Tensor


class BertForPreTraining(WithBody):
    """Both heads of pre-training, MLM and NSP: (B, T) → (B, T, V), (B, 2). `pre_training_loss` is their loss."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, pooler=True)
        predictions = BertPredictions(config, self.bert.embeddings.word_embeddings.weight)
        head = initialised(nn.Linear(config.hidden_size, 2), config.initializer_range)
        self.cls = nn.ModuleDict({"predictions": predictions, "seq_relationship": head})

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **more: Any) -> PreTrainingScores:
        x, pooled = self.encode(input_ids, attention_mask, **more)
        return PreTrainingScores(self.cls["predictions"](x), self.cls["seq_relationship"](pooled))


def pre_training_loss(scores: PreTrainingScores, labels: Tensor, next_sentence: Tensor) -> Tensor:
    """Cross entropy over the hidden tokens, plus that of the next sentence.

    Shape: labels (B, T), −100 where nothing was hidden (`weft.data.text.mask_tokens`), next_sentence (B,) → ()
    """
    hidden = F.cross_entropy(scores.prediction_logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
    return hidden + F.cross_entropy(scores.seq_relationship_logits, next_sentence)


class BertForSequenceClassification(WithBody):
    """W pooled + b: scores of the classes of a text or a pair of texts, (B, T) → (B, num_labels)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, pooler=True)
        self.dropout = nn.Dropout(config.head_dropout)
        self.classifier = initialised(nn.Linear(config.hidden_size, config.num_labels), config.initializer_range)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **more: Any) -> Tensor:
        return self.classifier(self.dropout(self.encode(input_ids, attention_mask, **more).pooler_output))


class BertForTokenClassification(WithBody):
    """W x + b at every place: scores of the classes of each token, (B, T) → (B, T, num_labels)."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout(config.head_dropout)
        self.classifier = initialised(nn.Linear(config.hidden_size, config.num_labels), config.initializer_range)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **more: Any) -> Tensor:
        return self.classifier(self.dropout(self.encode(input_ids, attention_mask, **more).last_hidden_state))


class SpanScores(NamedTuple):
    """start_logits and end_logits, (B, T) each: where an answer begins and which token is its last."""

    start_logits: Tensor
    end_logits: Tensor


class BertForQuestionAnswering(WithBody):
    """Scores of the first and the last token of the answer: (B, T) → (B, T) twice."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.qa_outputs = initialised(nn.Linear(config.hidden_size, 2), config.initializer_range)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **more: Any) -> SpanScores:
        x = self.encode(input_ids, attention_mask, **more).last_hidden_state
        return SpanScores(*self.qa_outputs(x).unbind(-1))  # (B, T, 2) → (B, T) twice
