"""Whisper (Radford et al., 2022): speech as a spectrogram, read by an encoder and written down by a decoder.

Encoder: x = gelu(conv(gelu(conv(mel)))) + sinusoids, the second convolution halving the length, then layers. Decoder:
x = word + position, then layers that read the encoder's output too. Layers are x ← x + block(LayerNorm(x)). Thirty seconds
are 3000 frames of 80 mel bands and become 1500 places. whisper-tiny has 37,760,640 parameters. Keys are those of
transformers.

>>> config = WhisperConfig(vocab_size=65, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
...                        decoder_attention_heads=2, num_mel_bins=8, max_source_positions=10, max_target_positions=16,
...                        pad_token_id=0, decoder_start_token_id=1)
>>> WhisperModel(config)(weft.randn(1, 8, 20), decoder_input_ids=weft.tensor([[1, 2]])).last_hidden_state.shape
Size([1, 2, 32])
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
from ..pretrained.outputs import Seq2SeqLMOutput, Seq2SeqModelOutput
from ..pretrained.pretrained import Config, initialised
from ..pretrained.watching import noted
from ..text.cache import EMPTY, Cache, Past
from .bart import BartAttention
from .blocks import KeyValues, Visible, activation, visible
from .encoder_decoder import EncoderDecoder, TwoStacks

__all__ = ["WhisperConfig", "WhisperForConditionalGeneration", "WhisperModel"]

F = nn.functional


@dataclass(kw_only=True)
class WhisperConfig(Config):
    """The sizes of whisper-tiny by default. suppress_tokens, begin_suppress_tokens: what `generate` does not write.

    scale_embedding: kept for files alone; nobody scales.
    """

    model_type: ClassVar[str] = "whisper"
    sizes: ClassVar[tuple[str, ...]] = (
        *("vocab_size", "num_mel_bins", "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads"),
        *("decoder_attention_heads", "encoder_ffn_dim", "decoder_ffn_dim", "max_source_positions"),
        "max_target_positions",
    )
    width_and_heads: ClassVar[tuple[str, str]] = ("d_model", "encoder_attention_heads")

    vocab_size: int = 51865
    num_mel_bins: int = 80
    d_model: int = 384
    encoder_layers: int = 4
    decoder_layers: int = 4
    encoder_attention_heads: int = 6
    decoder_attention_heads: int = 6
    encoder_ffn_dim: int = 1536
    decoder_ffn_dim: int = 1536
    activation_function: str = "gelu"
    max_source_positions: int = 1500
    max_target_positions: int = 448
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    scale_embedding: bool = False
    is_encoder_decoder: bool = True
    suppress_tokens: list[int] | None = None
    begin_suppress_tokens: list[int] | None = None
    decoder_start_token_id: int | None = 50257
    pad_token_id: int | None = 50256
    bos_token_id: int | None = 50256
    eos_token_id: int | list[int] | None = 50256

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_model % self.decoder_attention_heads or self.d_model % 2:
            raise OptionError(
                f"WhisperConfig: {self.decoder_attention_heads} heads and 2 must divide a width of {self.d_model}"
            )


class WhisperLayer(nn.Module):
    """Self-attention, in a decoder attention to the encoder's output, feed-forward: each x + block(LayerNorm(x))."""

    def __init__(self, config: WhisperConfig, decoder: bool) -> None:
        super().__init__()
        width, hidden = config.d_model, config.decoder_ffn_dim if decoder else config.encoder_ffn_dim
        heads = config.decoder_attention_heads if decoder else config.encoder_attention_heads
        for name in ("self_attn", "encoder_attn") if decoder else ("self_attn",):
            self.add_module(name, BartAttention(config, heads, key_bias=False))
            self.add_module(f"{name}_layer_norm", nn.LayerNorm(width))
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.final_layer_norm, self.function = nn.LayerNorm(width), activation(config.activation_function)
        self.dropout, self.inner_dropout = nn.Dropout(config.dropout), nn.Dropout(config.activation_dropout)

    def forward(
        self, x: Tensor, seen: Visible, past: Past, memory: KeyValues | None = None
    ) -> tuple[Tensor, KeyValues]:
        y = self.self_attn_layer_norm(x)
        pairs = past.append(*self.self_attn.pairs(y))
        x = x + self.dropout(self.self_attn(y, pairs, seen))
        if memory is not None:
            x = x + self.dropout(self.encoder_attn(self.encoder_attn_layer_norm(x), memory, Visible(None)))
        hidden = self.inner_dropout(self.function(self.fc1(self.final_layer_norm(x))))
        return x + self.dropout(self.fc2(hidden)), pairs


def sinusoids(length: int, width: int) -> Tensor:
    """sin(i f_k) for the first half of the features, cos(i f_k) for the second, f_k = 10000^(−k/(C/2 − 1)). → (T, C)"""
    frequencies = np.exp(-math.log(10000) / (width // 2 - 1) * np.arange(width // 2))
    angles = np.arange(length)[:, None] * frequencies
    return weft.from_numpy(np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32))


class WhisperEncoder(nn.Module):
    """Two convolutions, sinusoids, layers. Shape: (B, mel, 2 S) → (B, S, C)"""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        width, self.length = config.d_model, 2 * config.max_source_positions
        self.conv1 = nn.Conv1d(config.num_mel_bins, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(config.max_source_positions, width)
        self.layers = nn.ModuleList(WhisperLayer(config, False) for _ in range(config.encoder_layers))
        self.layer_norm, self.dropout = nn.LayerNorm(width), nn.Dropout(config.dropout)

    def start(self) -> None:
        """The table of sinusoids, which is never trained."""
        self.embed_positions.weight.data = sinusoids(*self.embed_positions.weight.shape)
        self.embed_positions.weight.requires_grad = False

    def forward(self, features: Tensor, mask: Tensor | None = None) -> tuple[Tensor]:
        """mask: passed over; silence is part of a sound."""
        bands = self.conv1.in_channels
        if features.ndim != 3 or tuple(features.shape[1:]) != (bands, self.length):
            raise ShapeError(
                f"input_features: expected (B, {bands}, {self.length}), sounds padded with silence, got "
                f"{tuple(features.shape)}"
            )
        x = F.gelu(self.conv2(F.gelu(self.conv1(features)))).mT  # (B, C, S) → (B, S, C)
        x = self.dropout(x + self.embed_positions.weight)
        for layer in self.layers:
            x, _ = layer(noted(x), Visible(None), Past())
        return (self.layer_norm(x),)


class WhisperDecoder(nn.Module):
    """Embeddings and layers over the tokens written so far. Shape: (B, T) → (B, T, C)"""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        width, self.most = config.d_model, config.max_target_positions
        self.embed_tokens = nn.Embedding(config.vocab_size, width, padding_idx=config.pad_token_id)
        self.embed_positions = nn.Embedding(self.most, width)
        self.layers = nn.ModuleList(WhisperLayer(config, True) for _ in range(config.decoder_layers))
        self.layer_norm, self.dropout = nn.LayerNorm(width), nn.Dropout(config.dropout)

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
            raise ShapeError(f"tokens: expected at most {self.most} (max_target_positions), got {keys}")
        seen = visible(mask, length, keys, causal=True, start=past.length)
        places = weft.arange(length) + past.start
        x, pairs = self.dropout(self.embed_tokens(tokens) + self.embed_positions(places)), []
        for layer, before, source in zip(self.layers, past.before(len(self.layers)), memory, strict=True):
            x, kept = layer(noted(x), seen, before, source)
            pairs.append(kept)
        return self.layer_norm(x), past.after(pairs, length)

    def remember(self, encoded: Tensor) -> tuple[KeyValues, ...]:
        """Keys and values of the encoder's output for every layer. Shape: (B, S, C) → (B, H, S, D) twice each"""
        return tuple(layer.encoder_attn.pairs(encoded) for layer in self.layers)


class WhisperModel(TwoStacks):
    """Encoder and decoder without a head: input_features (B, mel, 2 S), decoder_input_ids (B, T) → (B, T, C)."""

    config_class = WhisperConfig
    body = "model"
    heads = ("proj_out.",)

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__(config)
        self.encoder, self.decoder = WhisperEncoder(config), WhisperDecoder(config)
        initialised(self, config.initializer_range)
        self.encoder.start()

    def forward(
        self,
        input_features: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        *,
        return_dict: bool | None = None,
        **more: Any,
    ) -> Seq2SeqModelOutput:
        """attention_mask: passed over. More arguments are those of `TwoStacks.read`."""
        found = self.read(input_features, None, decoder_input_ids, decoder_attention_mask, **more)
        return self.delivered(found, return_dict)


class WhisperForConditionalGeneration(EncoderDecoder):
    """Whisper with scores of the next token, table x: (B, mel, 2 S), (B, T) → (B, T, V). Training: with labels.

    `generate(input_features, …)` writes about one window of max_source_positions; the tokens of language and task are
    forced_decoder_ids of old files, and `decoder_input_ids` here (see `EncoderDecoder.generate` for more).
    """

    config_class = WhisperConfig
    body = "model"
    heads = WhisperModel.heads

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__(config)
        self.model = WhisperModel(config)
        self.proj_out = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.proj_out.weight = self.model.decoder.embed_tokens.weight
        else:
            initialised(self.proj_out, config.initializer_range)

    @property
    def reader(self) -> WhisperModel:
        return self.model

    @property
    def most_places(self) -> int:
        return self.config.max_target_positions

    def scores(self, x: Tensor) -> Tensor:
        return self.proj_out(x)

    def forward(
        self,
        input_features: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **more: Any,
    ) -> Seq2SeqLMOutput:
        """attention_mask: passed over; labels (B, T), −100 for none, become decoder_input_ids unless given."""
        tokens = self.first_read(None, labels) if decoder_input_ids is None else decoder_input_ids
        options = {"labels": labels, "return_dict": return_dict, **more}
        return super().forward(input_features, None, tokens, decoder_attention_mask, **options)
