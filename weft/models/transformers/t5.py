"""T5 (Raffel et al., 2020): an encoder and a decoder with relative positions; T5 v1.1 (gated GELU) and mT5 as well.

Encoder layers: x ← x + attention(RMSNorm(x)), x ← x + mlp(RMSNorm(x)). Decoder layers look at themselves (causal), then
at the encoder's output. Scores are not divided by √D; b[h, bucket(j − i)], learned in the first layer of each stack, is
added to them. t5-small has 60,506,624 parameters. Keys are those of transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from ... import nn
from ...tensor import Tensor
from ..pretrained.outputs import BaseModelOutput, Seq2SeqModelOutput
from ..pretrained.pretrained import Config, PretrainedModel
from ..pretrained.watching import noted
from ..text.cache import EMPTY, Cache, Past
from .blocks import KeyValues, Visible, activation, attend, split_heads, visible
from .encoder_decoder import EncoderDecoder, TwoStacks

__all__ = ["T5Config", "T5EncoderModel", "T5ForConditionalGeneration", "T5Model"]


@dataclass(kw_only=True)
class T5Config(Config):
    """The sizes of t5-small by default.

    feed_forward_proj: "relu", or "gated-gelu" as in v1.1. scale_decoder_outputs: multiply by 1/√d_model before the head.
    """

    model_type: ClassVar[str] = "t5"
    sizes: ClassVar[tuple[str, ...]] = (
        *("vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_decoder_layers", "num_heads"),
        *("relative_attention_num_buckets", "relative_attention_max_distance"),
    )
    width_and_heads: ClassVar[tuple[str, str]] = ("d_model", "num_heads")

    vocab_size: int = 32128
    d_model: int = 512
    d_kv: int = 64
    d_ff: int = 2048
    num_layers: int = 6
    num_decoder_layers: int | None = None
    num_heads: int = 8
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    dropout_rate: float = 0.1
    layer_norm_epsilon: float = 1e-6
    initializer_factor: float = 1.0
    feed_forward_proj: str = "relu"
    scale_decoder_outputs: bool = True
    is_encoder_decoder: bool = True
    decoder_start_token_id: int | None = 0
    pad_token_id: int | None = 0
    eos_token_id: int | list[int] | None = 1

    def __post_init__(self) -> None:
        self.num_decoder_layers = self.num_decoder_layers or self.num_layers
        super().__post_init__()

    def _heads_divide(self) -> bool:
        return False  # a head has d_kv features, whatever d_model is

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], **changes: Any) -> Self:
        """Before scale_decoder_outputs was written, tied models scaled and others did not."""
        scaled = fields.get("scale_decoder_outputs", fields.get("tie_word_embeddings", True))
        return super().from_dict({**fields, "scale_decoder_outputs": scaled}, **changes)

    @property
    def gated(self) -> bool:
        return self.feed_forward_proj.startswith("gated-")

    @property
    def function(self) -> str:
        """gated-gelu has always been computed with the hyperbolic tangent."""
        name = self.feed_forward_proj.removeprefix("gated-")
        return "gelu_new" if self.gated and name == "gelu" else name


# ------------------------------------------------------------------------------------------- layers


class T5Attention(nn.Module):
    """W_O [heads of softmax(q kᵀ + b) v], b from the first layer of the stack. Shape: (B, L, C), (B, S, C) → (B, L, C)"""

    random_in_training = True

    def __init__(self, config: T5Config, bias: nn.RelativePositionBias | None) -> None:
        super().__init__()
        self.heads, self.dropout = config.num_heads, config.dropout_rate
        inner, width = config.num_heads * config.d_kv, config.d_model
        for name in ("q", "k", "v"):
            self.add_module(name, nn.Linear(width, inner, bias=False))
        self.o = nn.Linear(inner, width, bias=False)
        self.relative_attention_bias = bias
        factor = config.initializer_factor
        nn.init.normal_(self.q.weight, std=factor * (width * config.d_kv) ** -0.5)  # the scale 1/√D that is left out
        for part, inputs in ((self.k, width), (self.v, width), (self.o, inner)):
            nn.init.normal_(part.weight, std=factor * inputs**-0.5)

    def pairs(self, x: Tensor) -> KeyValues:
        return KeyValues(split_heads(self.k(x), self.heads), split_heads(self.v(x), self.heads))

    def forward(self, x: Tensor, pairs: KeyValues, seen: Visible, bias: Tensor | None) -> Tensor:
        q, dropout = split_heads(self.q(x), self.heads), self.dropout if self.training else 0.0
        return self.o(attend(q, pairs, seen, bias=bias, scale=1.0, dropout=dropout))


class T5FeedForward(nn.Module):
    """W_o φ(W_i x), or W_o (φ(W_i0 x) ∘ W_i1 x). Shape: (B, T, C) → (B, T, C)"""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        for name in ("wi_0", "wi_1") if config.gated else ("wi",):
            self.add_module(name, nn.Linear(config.d_model, config.d_ff, bias=False))
            nn.init.normal_(self.get_submodule(name).weight, std=config.initializer_factor * config.d_model**-0.5)
        self.wo = nn.Linear(config.d_ff, config.d_model, bias=False)
        nn.init.normal_(self.wo.weight, std=config.initializer_factor * config.d_ff**-0.5)
        self.gated, self.function = config.gated, activation(config.function)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.function(self.wi_0(x)) * self.wi_1(x) if self.gated else self.function(self.wi(x))
        return self.wo(self.dropout(hidden))


class T5Block(nn.Module):
    """Self-attention, in a decoder attention to the encoder's output, feed-forward: each x + dropout(block(norm(x)))."""

    def __init__(self, config: T5Config, decoder: bool, bias: nn.RelativePositionBias | None) -> None:
        super().__init__()
        parts = {"SelfAttention": T5Attention(config, bias)}
        if decoder:
            parts["EncDecAttention"] = T5Attention(config, None)
        parts["DenseReluDense"] = T5FeedForward(config)
        self.layer = nn.ModuleList(
            nn.ModuleDict({name: part, "layer_norm": nn.RMSNorm(config.d_model, eps=config.layer_norm_epsilon)})
            for name, part in parts.items()
        )
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(
        self,
        x: Tensor,
        seen: Visible,
        bias: Tensor,
        past: Past,
        memory: KeyValues | None = None,
        memory_seen: Visible | None = None,
    ) -> tuple[Tensor, KeyValues]:
        own, *cross, last = self.layer
        y = own["layer_norm"](x)
        pairs = past.append(*own["SelfAttention"].pairs(y))
        x = x + self.dropout(own["SelfAttention"](y, pairs, seen, bias))
        for part in cross:
            y = part["layer_norm"](x)
            x = x + self.dropout(part["EncDecAttention"](y, memory, memory_seen, None))
        return x + self.dropout(last["DenseReluDense"](last["layer_norm"](x))), pairs


class T5Stack(nn.Module):
    """Blocks, a last norm, and the bias of relative positions, which the first block holds."""

    def __init__(self, config: T5Config, decoder: bool, table: nn.Embedding) -> None:
        super().__init__()
        self.embed_tokens = table
        bias = nn.RelativePositionBias(
            config.num_heads,
            config.relative_attention_num_buckets,
            config.relative_attention_max_distance,
            bidirectional=not decoder,
        )
        nn.init.normal_(bias.weight, std=config.initializer_factor * config.d_model**-0.5)
        layers = config.num_decoder_layers if decoder else config.num_layers
        self.block = nn.ModuleList(T5Block(config, decoder, None if i else bias) for i in range(layers))
        self.final_layer_norm = nn.RMSNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)
        self.causal = decoder

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
        seen = visible(mask, length, keys, causal=self.causal, start=past.length)
        bias = self.block[0].layer[0]["SelfAttention"].relative_attention_bias(length, keys, past.start).unsqueeze(0)
        across = visible(memory_mask, length, memory[0].keys.shape[-2]) if memory else None
        x, pairs = self.dropout(self.embed_tokens(tokens)), []
        for i, (block, before) in enumerate(zip(self.block, past.before(len(self.block)), strict=True)):
            x, kept = block(noted(x), seen, bias, before, memory[i] if memory else None, across)
            pairs.append(kept)
        return self.dropout(self.final_layer_norm(x)), past.after(pairs, length)

    def remember(self, encoded: Tensor) -> tuple[KeyValues, ...]:
        """Keys and values of the encoder's output for every block. Shape: (B, S, C) → (B, H, S, D) twice each"""
        return tuple(block.layer[1]["EncDecAttention"].pairs(encoded) for block in self.block)


# ------------------------------------------------------------------------------------------- models


class T5EncoderModel(PretrainedModel):
    """The encoder alone: (B, T), attention_mask (B, T) → (B, T, C)."""

    config_class = T5Config
    heads = ("decoder.", "lm_head.")

    def __init__(self, config: T5Config) -> None:
        super().__init__(config)
        self.shared = _table(config)
        self.encoder = T5Stack(config, False, self.shared)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        return_dict: bool | None = None,
        **asked: Any,
    ) -> BaseModelOutput:
        with self.watched(**asked) as watch:
            x = self.encoder(input_ids, attention_mask)[0]
        return self.delivered(BaseModelOutput(last_hidden_state=x, **watch.seen(x)), return_dict)


class T5Stacks(TwoStacks):
    """An encoder and a decoder over one table of words; abstract."""

    config_class = T5Config
    heads = ("lm_head.",)

    def __init__(self, config: T5Config) -> None:
        super().__init__(config)
        self.shared = _table(config)
        self.encoder = T5Stack(config, False, self.shared)
        self.decoder = T5Stack(config, True, self.shared)


class T5Model(T5Stacks):
    """Encoder and decoder without a head: (B, S), (B, T) → (B, T, C). Arguments are those of `TwoStacks.read`."""

    def forward(self, *inputs: Any, return_dict: bool | None = None, **named: Any) -> Seq2SeqModelOutput:
        return self.delivered(self.read(*inputs, **named), return_dict)


class T5ForConditionalGeneration(EncoderDecoder, T5Stacks):
    """T5 with scores of the next token: (B, S), (B, T) → (B, T, V). Training: model(input_ids, mask, labels=labels)."""

    def __init__(self, config: T5Config) -> None:
        super().__init__(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.shared.weight
        else:
            nn.init.normal_(self.lm_head.weight, std=config.initializer_factor)

    def scores(self, x: Tensor) -> Tensor:
        """(*, C) → (*, V)"""
        return self.lm_head(x * self.config.d_model**-0.5 if self.config.scale_decoder_outputs else x)

    @property
    def reader(self) -> T5Stacks:
        return self


def _table(config: T5Config) -> nn.Embedding:
    table = nn.Embedding(config.vocab_size, config.d_model)
    nn.init.normal_(table.weight, std=config.initializer_factor)
    return table
