"""BART (Lewis et al., 2020) and Marian (Junczys-Dowmunt et al., 2018; the opus-mt translators): encoder and decoder.

x = LayerNorm(word + position), then layers of x ← LayerNorm(x + block(x)): self-attention, in a decoder attention to the
encoder's output, W₂ φ(W₁ x). Marian has sinusoids for positions and no norm after the embeddings. bart-base has
139,420,416 parameters. Keys are those of transformers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..pretrained.label_losses import class_loss
from ..pretrained.outputs import Seq2SeqModelOutput, Seq2SeqSequenceClassifierOutput
from ..pretrained.pretrained import Config, PretrainedModel, initialised
from ..pretrained.watching import noted
from ..text.cache import EMPTY, Cache, Past
from .blocks import KeyValues, Visible, activation, attend, split_heads, visible
from .encoder_decoder import EncoderDecoder, TwoStacks

__all__ = [
    "BartConfig",
    "BartForConditionalGeneration",
    "BartForSequenceClassification",
    "BartModel",
    "MarianConfig",
    "MarianMTModel",
    "MarianModel",
]


@dataclass(kw_only=True)
class BartConfig(Config):
    """The sizes of bart-base by default. bad_words_ids: tokens, each in a list, that `generate` never writes.

    forced_bos_token_id, forced_eos_token_id: the first token that `generate` writes, and the last of max_new_tokens.
    """

    model_type: ClassVar[str] = "bart"
    sizes: ClassVar[tuple[str, ...]] = (
        *("vocab_size", "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads"),
        *("decoder_attention_heads", "encoder_ffn_dim", "decoder_ffn_dim", "max_position_embeddings"),
    )
    width_and_heads: ClassVar[tuple[str, str]] = ("d_model", "encoder_attention_heads")
    learned: ClassVar[bool] = True  # positions, with two rows before the first, and a norm after the embeddings

    vocab_size: int = 50265
    d_model: int = 768
    encoder_layers: int = 6
    decoder_layers: int = 6
    encoder_attention_heads: int = 12
    decoder_attention_heads: int = 12
    encoder_ffn_dim: int = 3072
    decoder_ffn_dim: int = 3072
    activation_function: str = "gelu"
    max_position_embeddings: int = 1024
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    classifier_dropout: float = 0.0
    scale_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    is_encoder_decoder: bool = True
    num_labels: int = 3
    bad_words_ids: list[list[int]] | None = None
    decoder_start_token_id: int | None = 2
    pad_token_id: int | None = 1
    bos_token_id: int | None = 0
    eos_token_id: int | list[int] | None = 2
    forced_bos_token_id: int | None = None
    forced_eos_token_id: int | list[int] | None = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.share_encoder_decoder_embeddings:
            raise OptionError(f"{type(self).__name__}: share_encoder_decoder_embeddings must be true")
        if self.d_model % self.decoder_attention_heads:
            raise OptionError(
                f"{type(self).__name__}: {self.decoder_attention_heads} heads do not divide a width of {self.d_model}"
            )


@dataclass(kw_only=True)
class MarianConfig(BartConfig):
    """The sizes of opus-mt-en-de by default."""

    model_type: ClassVar[str] = "marian"
    learned: ClassVar[bool] = False

    vocab_size: int = 58101
    d_model: int = 512
    encoder_attention_heads: int = 8
    decoder_attention_heads: int = 8
    encoder_ffn_dim: int = 2048
    decoder_ffn_dim: int = 2048
    activation_function: str = "swish"
    max_position_embeddings: int = 512
    scale_embedding: bool = True
    decoder_start_token_id: int | None = 58100
    pad_token_id: int | None = 58100
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = 0
    forced_eos_token_id: int | list[int] | None = 0


# ------------------------------------------------------------------------------------------- layers


class BartAttention(nn.Module):
    """W_O [heads of softmax(q kᵀ/√D) v]. Shape: (B, L, C), (B, H, S, D) twice → (B, L, C)"""

    random_in_training = True

    def __init__(self, config: Any, heads: int, key_bias: bool = True) -> None:
        super().__init__()
        self.heads, self.dropout = heads, config.attention_dropout
        for name in ("k_proj", "v_proj", "q_proj", "out_proj"):
            self.add_module(name, nn.Linear(config.d_model, config.d_model, bias=key_bias or name != "k_proj"))

    def pairs(self, x: Tensor) -> KeyValues:
        return KeyValues(split_heads(self.k_proj(x), self.heads), split_heads(self.v_proj(x), self.heads))

    def forward(self, x: Tensor, pairs: KeyValues, seen: Visible) -> Tensor:
        query = split_heads(self.q_proj(x), self.heads)
        return self.out_proj(attend(query, pairs, seen, dropout=self.dropout if self.training else 0.0))


class BartLayer(nn.Module):
    """Self-attention, in a decoder attention to the encoder's output, feed-forward: each LayerNorm(x + block(x))."""

    def __init__(self, config: BartConfig, decoder: bool) -> None:
        super().__init__()
        width, hidden = config.d_model, config.decoder_ffn_dim if decoder else config.encoder_ffn_dim
        heads = config.decoder_attention_heads if decoder else config.encoder_attention_heads
        for name in ("self_attn", "encoder_attn") if decoder else ("self_attn",):
            self.add_module(name, BartAttention(config, heads))
            self.add_module(f"{name}_layer_norm", nn.LayerNorm(width))
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.final_layer_norm, self.function = nn.LayerNorm(width), activation(config.activation_function)
        self.dropout, self.inner_dropout = nn.Dropout(config.dropout), nn.Dropout(config.activation_dropout)

    def forward(
        self, x: Tensor, seen: Visible, past: Past, memory: KeyValues | None, memory_seen: Visible | None
    ) -> tuple[Tensor, KeyValues]:
        pairs = past.append(*self.self_attn.pairs(x))
        x = self.self_attn_layer_norm(x + self.dropout(self.self_attn(x, pairs, seen)))
        if memory is not None:
            x = self.encoder_attn_layer_norm(x + self.dropout(self.encoder_attn(x, memory, memory_seen)))
        hidden = self.inner_dropout(self.function(self.fc1(x)))
        return self.final_layer_norm(x + self.dropout(self.fc2(hidden))), pairs


class Sinusoids(nn.Module):
    """sin(i f_k) for the first half of the features, cos(i f_k) for the second, f_k = 10000^(−2k/C). (T,) → (T, C)"""

    def __init__(self, width: int) -> None:
        super().__init__()
        frequencies = 10000.0 ** -(np.arange(0, width, 2) / width)
        self.frequencies = weft.from_numpy(frequencies.astype(np.float32))

    def forward(self, positions: Tensor) -> Tensor:
        angles = positions.unsqueeze(-1).to(weft.float32) * self.frequencies  # (T, C/2)
        return weft.cat([angles.sin(), angles.cos()], -1)


class BartStack(nn.Module):
    """Embeddings and layers of the encoder or the decoder."""

    def __init__(self, config: BartConfig, decoder: bool, table: nn.Embedding) -> None:
        super().__init__()
        width, most = config.d_model, config.max_position_embeddings
        self.embed_tokens, self.causal, self.most = table, decoder, most
        self.offset = 2 if config.learned else 0  # rows before the first position
        self.embed_positions = nn.Embedding(most + self.offset, width) if config.learned else Sinusoids(width)
        layers = config.decoder_layers if decoder else config.encoder_layers
        self.layers = nn.ModuleList(BartLayer(config, decoder) for _ in range(layers))
        self.layernorm_embedding = nn.LayerNorm(width) if config.learned else None
        self.scale = math.sqrt(width) if config.scale_embedding else 1.0
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        tokens: Tensor,
        mask: Tensor | None,
        past: Cache = EMPTY,
        memory: tuple[KeyValues, ...] = (),
        memory_mask: Tensor | None = None,
    ) -> tuple[Tensor, Cache]:
        """Hidden states of the tokens (B, T, C), and keys and values of all places; memory: those of the encoder."""
        length = tokens.shape[1]
        keys = past.keys_after(length)
        if keys > self.most:
            raise ShapeError(f"tokens: expected at most {self.most} (max_position_embeddings), got {keys}")
        seen = visible(mask, length, keys, causal=self.causal, start=past.length)
        across = visible(memory_mask, length, memory[0].keys.shape[-2]) if memory else None
        x, pairs = self._embedded(tokens, past.start), []
        for i, (layer, before) in enumerate(zip(self.layers, past.before(len(self.layers)), strict=True)):
            x, kept = layer(noted(x), seen, before, memory[i] if memory else None, across)
            pairs.append(kept)
        return x, past.after(pairs, length)

    def _embedded(self, tokens: Tensor, start: int | Tensor) -> Tensor:
        """LayerNorm(scale · word + position), the norm where there is one. Shape: (B, T) → (B, T, C)"""
        x = self.embed_tokens(tokens) * self.scale
        x = x + self.embed_positions(weft.arange(tokens.shape[1]) + (start + self.offset)).to(x.dtype)
        return self.dropout(x if self.layernorm_embedding is None else self.layernorm_embedding(x))

    def remember(self, encoded: Tensor) -> tuple[KeyValues, ...]:
        """Keys and values of the encoder's output for every layer. Shape: (B, S, C) → (B, H, S, D) twice each"""
        return tuple(layer.encoder_attn.pairs(encoded) for layer in self.layers)


# ------------------------------------------------------------------------------------------- models


class BartModel(TwoStacks):
    """Encoder and decoder without a head; without decoder_input_ids, the source shifted: (B, S), (B, T) → (B, T, C)."""

    config_class: ClassVar[type[Config]] = BartConfig
    body = "model"
    heads = ("lm_head.", "final_logits_bias", "classification_head.")

    def __init__(self, config: BartConfig) -> None:
        super().__init__(config)
        self.shared = nn.Embedding(config.vocab_size, config.d_model, padding_idx=config.pad_token_id)
        self.encoder, self.decoder = (BartStack(config, decoder, self.shared) for decoder in (False, True))
        initialised(self, config.initializer_range)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        *,
        return_dict: bool | None = None,
        **more: Any,
    ) -> Seq2SeqModelOutput:
        """Arguments are those of `TwoStacks.read`."""
        if decoder_input_ids is None and input_ids is not None:
            decoder_input_ids = self.shift_right(input_ids)
        given = input_ids, attention_mask, decoder_input_ids, decoder_attention_mask
        return self.delivered(self.read(*given, **more), return_dict)


class MarianModel(BartModel):
    """Marian without a head."""

    config_class = MarianConfig
    optional = ("embed_positions.weight",)


class BartForConditionalGeneration(EncoderDecoder):
    """BART with scores of the next token, table x + bias: (B, S), (B, T) → (B, T, V). Training: with labels."""

    config_class: ClassVar[type[Config]] = BartConfig
    body = "model"
    body_class: ClassVar[type[BartModel]] = BartModel
    heads = BartModel.heads
    optional: ClassVar[tuple[str, ...]] = ("final_logits_bias",)

    def __init__(self, config: BartConfig) -> None:
        super().__init__(config)
        self.model = self.body_class(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.final_logits_bias = nn.Parameter(weft.zeros(1, config.vocab_size), requires_grad=False)  # never trained
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.shared.weight
        else:
            initialised(self.lm_head, config.initializer_range)

    def scores(self, x: Tensor) -> Tensor:
        """(*, C) → (*, V)"""
        return self.lm_head(x) + self.final_logits_bias

    @property
    def reader(self) -> BartModel:
        return self.model

    def first_read(self, input_ids: Tensor | None, labels: Tensor | None) -> Tensor | None:
        given = input_ids if labels is None else labels
        return None if given is None else self.model.shift_right(given)

    @property
    def most_places(self) -> int:
        return self.config.max_position_embeddings


class MarianMTModel(BartForConditionalGeneration):
    """Marian with scores of the next token."""

    config_class, body_class = MarianConfig, MarianModel
    optional = ("final_logits_bias", "embed_positions.weight")


class BartForSequenceClassification(PretrainedModel):
    """W₂ tanh(W₁ x + b₁) + b₂ of the last end token, which the decoder reads too: (B, T) → (B, num_labels)."""

    config_class = BartConfig
    body = "model"
    heads = BartModel.heads

    def __init__(self, config: BartConfig) -> None:
        super().__init__(config)
        self.model, width = BartModel(config), config.d_model
        head = nn.ModuleDict({"dense": nn.Linear(width, width), "out_proj": nn.Linear(width, config.num_labels)})
        self.classification_head = initialised(head, config.initializer_range)
        self.dropout = nn.Dropout(config.classifier_dropout)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **more: Any,
    ) -> Seq2SeqSequenceClassifierOutput:
        found = self.model(input_ids, attention_mask, **more, return_dict=True)
        x, head = found.last_hidden_state, self.classification_head  # (B, T, C)
        last = (weft.arange(input_ids.shape[1]) * (input_ids == self.config.eos_token_id)).argmax(-1)  # (B,)
        hidden = head["dense"](self.dropout(x[weft.arange(len(x)), last])).tanh()
        logits = head["out_proj"](self.dropout(hidden))
        loss = None if labels is None else class_loss(logits, labels, self.config)
        return self.answered(Seq2SeqSequenceClassifierOutput, found, return_dict, loss=loss, logits=logits)
