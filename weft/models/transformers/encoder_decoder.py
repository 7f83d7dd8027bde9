"""Writing about a source: what models with an encoder and a decoder share in calls and in generation."""

from __future__ import annotations

from typing import Any, NamedTuple

import weft

from ... import nn
from ...errors import OptionError, UnsupportedError
from ...tensor import Tensor
from ..pretrained.label_losses import token_loss
from ..pretrained.outputs import BaseModelOutput, ModelOutput, Seq2SeqLMOutput, Seq2SeqModelOutput
from ..pretrained.pretrained import PretrainedModel
from ..text.cache import EMPTY, Cache, SourceCache, chosen_steps
from ..text.decoding import generate
from ..text.generation import GenerationConfig, chosen_options, mask_of_padding
from .blocks import KeyValues

__all__ = ["EncoderDecoder", "SourceState", "TwoStacks"]


class SourceState(NamedTuple):
    """The encoder's keys and values with their mask, and those that the decoder has made."""

    memory: tuple[KeyValues, ...]
    memory_mask: Tensor | None
    past: Cache = EMPTY

    def with_capacity(self, capacity: int) -> SourceState:
        return self._replace(past=self.past.with_capacity(capacity))


class TwoStacks(PretrainedModel):
    """A model with an `encoder`, and a `decoder` with `remember`; abstract."""

    def read(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        *,
        encoder_outputs: ModelOutput | tuple[Tensor, ...] | None = None,
        past_key_values: SourceCache | None = None,
        use_cache: bool | None = None,
        **asked: Any,
    ) -> Seq2SeqModelOutput:
        """What the decoder makes of its tokens and of the source.

        encoder_outputs: an encoded source in place of input_ids. past_key_values: what an earlier call returned;
        decoder_input_ids are then the tokens after it. use_cache: whether past_key_values are returned, the config's word
        unless given, but not in training. Shape: (B, S) twice, (B, T) twice → (B, T, C)
        """
        if decoder_input_ids is None:
            raise OptionError(f"{type(self).__name__}: expected decoder_input_ids; labels become them by shift_right")
        encoded = self._encoded(input_ids, attention_mask, encoder_outputs, **asked)
        past, across = (EMPTY, EMPTY) if past_key_values is None else past_key_values
        memory = across.layers or self.decoder.remember(encoded.last_hidden_state)
        with self.watched(**asked) as watch:
            x, past = self.decoder(decoder_input_ids, decoder_attention_mask, past, memory, attention_mask)
        kept = self.config.use_cache and not self.training if use_cache is None else use_cache
        weights = watch.attentions  # of every layer those of its own places, then those of the source's
        return Seq2SeqModelOutput(
            last_hidden_state=x,
            past_key_values=SourceCache(past, Cache(memory)) if kept else None,
            decoder_hidden_states=watch.hidden_states(x),
            decoder_attentions=None if weights is None else weights[0::2],
            cross_attentions=None if weights is None else weights[1::2],
            **{f"encoder_{name}": value for name, value in encoded.items()},
        )

    def _encoded(
        self,
        input_ids: Tensor | None,
        mask: Tensor | None,
        given: ModelOutput | tuple[Tensor, ...] | None,
        **asked: Any,
    ) -> BaseModelOutput:
        if given is not None:
            return given if isinstance(given, BaseModelOutput) else BaseModelOutput(last_hidden_state=given[0])
        if input_ids is None:
            raise OptionError(f"{type(self).__name__}: expected input_ids or encoder_outputs, got neither")
        with self.watched(**asked) as watch:
            x = self.encoder(input_ids, mask)[0]
        return BaseModelOutput(last_hidden_state=x, **watch.seen(x))

    def shift_right(self, labels: Tensor) -> Tensor:
        """What the decoder reads to write the labels: the start token first, −100 as padding. (B, T) → (B, T)"""
        start = weft.full((len(labels), 1), self.config.decoder_start_token_id or 0, dtype=labels.dtype)
        shifted = weft.cat([start, labels[:, :-1]], 1)
        return shifted.masked_fill(shifted == -100, self.config.pad_token_id or 0)


class EncoderDecoder(PretrainedModel):
    """Scores of what the decoder writes, and `generate`, for a model that has `reader` and `scores`; abstract."""

    most_places: int | None = None  # how much the decoder may write, None: as much as you like

    @property
    def reader(self) -> TwoStacks:
        """The encoder and the decoder."""
        raise UnsupportedError(f"{type(self).__name__} must define reader")

    @property
    def stacks(self) -> tuple[nn.Module, nn.Module]:
        return self.reader.encoder, self.reader.decoder

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **more: Any,
    ) -> Seq2SeqLMOutput:
        """Arguments are those of `TwoStacks.read`; labels (B, T), −100 for none, become decoder_input_ids unless given.

        Shape: (B, S) twice, (B, T) twice → (B, T, V)
        """
        if decoder_input_ids is None:
            decoder_input_ids = self.first_read(input_ids, labels)
        given = input_ids, attention_mask, decoder_input_ids, decoder_attention_mask
        found = self.reader.read(*given, **more)
        logits = self.scores(found.last_hidden_state)
        loss = None if labels is None else token_loss(logits, labels)
        return self.answered(Seq2SeqLMOutput, found, return_dict, loss=loss, logits=logits)

    def first_read(self, input_ids: Tensor | None, labels: Tensor | None) -> Tensor | None:
        """What the decoder reads that was given nothing."""
        return None if labels is None else self.reader.shift_right(labels)

    def scores(self, x: Tensor) -> Tensor:
        """(*, C) → (*, V)"""
        raise UnsupportedError(f"{type(self).__name__} must define scores")

    def start(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> SourceState:
        """The encoded source: what `step` begins with."""
        encoder, decoder = self.stacks
        return SourceState(decoder.remember(encoder(input_ids, attention_mask)[0]), attention_mask)

    def step(self, tokens: Tensor, state: SourceState) -> tuple[Tensor, SourceState]:
        """Scores of the token after the last, with the cache of earlier steps. Shape: (B, T) → (B, V)"""
        x, past = self.stacks[1](tokens, None, state.past, state.memory, state.memory_mask)
        return self.scores(x[:, -1]), state._replace(past=past)

    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        decoder_input_ids: Tensor | None = None,
        generation_config: GenerationConfig | None = None,
        use_cache: bool = True,
        compiled: bool = False,
        **options: Any,
    ) -> Tensor:
        """What the decoder writes about a source, start token included; options as in `CausalLM.generate`.

        decoder_input_ids: what it has written already, the start token unless given. compiled: the step of one token as a
        plan, made at the first use. Shape: (B, S), (B, T₀) → (B · num_return_sequences, T)
        """
        written = 1 if decoder_input_ids is None else decoder_input_ids.shape[1]
        options = chosen_options(self, generation_config, options, written, self.most_places)
        if attention_mask is None and not input_ids.is_floating_point():  # sounds have no padding token
            attention_mask = mask_of_padding(input_ids, options["pad_token_id"], options["eos_token_id"])
        first = decoder_input_ids
        if first is None:
            first = weft.full((len(input_ids), 1), self.config.decoder_start_token_id or 0, dtype=weft.int64)
        with weft.no_grad():
            state = self.start(input_ids, attention_mask)
        choice = {"use_cache": use_cache, "compiled": compiled}
        places = options["max_new_tokens"] + written - 1
        step = chosen_steps(self, self._all, places, self.most_places, **choice)
        return generate(step, first, state, **options)

    def _all(self, tokens: Tensor, state: SourceState) -> Tensor:
        """The scores at all places, computed anew: what `step` agrees with. Shape: (B, T) → (B, T, V)"""
        return self.scores(self.stacks[1](tokens, None, EMPTY, state.memory, state.memory_mask)[0])
