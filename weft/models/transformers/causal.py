"""What language models that write from left to right share: heads, steps with a cache, generation."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import weft

from ... import nn
from ...errors import OptionError, ShapeError, UnsupportedError
from ...tensor import Tensor
from ..pretrained.label_losses import class_loss, next_token_loss, token_loss
from ..pretrained.outputs import (
    BaseModelOutputWithPast,
    CausalLMOutputWithPast,
    ModelOutput,
    SequenceClassifierOutputWithPast,
    TokenClassifierOutput,
)
from ..pretrained.pretrained import PretrainedModel, initialised
from ..text.cache import EMPTY, Cache, chosen_steps
from ..text.decoding import generate
from ..text.generation import GenerationConfig, chosen_options, mask_of_padding

__all__ = ["CausalBody", "CausalClassifier", "CausalLM", "CausalTagger", "DecoderState", "lengthened"]


class DecoderState(NamedTuple):
    """Keys and values of every layer; mask (B, S): 0 for padding, None if there is none; prefix (B,): see `visible`."""

    past: Cache = EMPTY
    mask: Tensor | None = None
    prefix: Tensor | None = None

    def with_capacity(self, capacity: int) -> DecoderState:
        """The state after its first step with room for so many places."""
        return self._replace(past=self.past.with_capacity(capacity), mask=lengthened(self.mask, capacity))


class CausalBody(PretrainedModel):
    """A stack of decoder layers with embeddings before and a norm after it; abstract: subclasses define `decode`."""

    heads = ("lm_head.", "score.", "classifier.")
    most_places: int | None = None  # how long a text may be, None: as long as you like

    def decode(
        self, input_ids: Tensor, mask: Tensor | None, positions: Tensor, past: Cache, prefix: Tensor | None
    ) -> tuple[Tensor, Cache]:
        """The last hidden states of the new tokens (B, T), and keys and values of all S places seen so far.

        Shape: (B, T), mask (B, S), positions (B or 1, T), prefix (B,) → (B, T, C)
        """
        raise NotImplementedError

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        prefix_lengths: Tensor | None = None,
        *,
        past_key_values: Cache | None = None,
        use_cache: bool | None = None,
        return_dict: bool | None = None,
        **asked: Any,
    ) -> BaseModelOutputWithPast:
        """attention_mask: 1 for tokens, 0 for padding, of the past too; position_ids: 0, 1, 2 … of the row unless given.

        prefix_lengths: the first places of each row that all may see, itself included (the prefix decoder).
        past_key_values: what an earlier call returned; input_ids are then the tokens after it. use_cache: whether
        past_key_values are returned, the config's word unless given, but not in training. More arguments: see
        `PretrainedModel`. Shape: (B, T) three times, (B,) → (B, T, C)
        """
        past = EMPTY if past_key_values is None else past_key_values
        if position_ids is None:
            position_ids = self.positions(input_ids, attention_mask, past)
        with self.watched(**asked) as watch:
            x, past = self.decode(input_ids, attention_mask, position_ids, past, prefix_lengths)
        kept = self.config.use_cache and not self.training if use_cache is None else use_cache
        found = {"last_hidden_state": x, "past_key_values": past if kept else None, **watch.seen(x)}
        return self.delivered(BaseModelOutputWithPast(**found), return_dict)

    def positions(self, tokens: Tensor, mask: Tensor | None, past: Cache) -> Tensor:
        """Those of new tokens: places are counted, padding or not. Shape: (B, T), mask (B, S) → (B or 1, T)"""
        return (weft.arange(tokens.shape[1]) + past.start).unsqueeze(0)


class _WithCausalBody(PretrainedModel):
    """A head over a `CausalBody` under the name `body`; abstract."""

    body_class: ClassVar[type[CausalBody]]
    heads = CausalBody.heads
    output: ClassVar[type[ModelOutput]]

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.add_module(self.body, self.body_class(config))

    @property
    def decoder(self) -> CausalBody:
        return getattr(self, self.body)

    def scores(self, x: Tensor, input_ids: Tensor) -> Tensor:
        """The logits of the last hidden states (B, T, C)."""
        raise UnsupportedError(f"{type(self).__name__} must define scores")

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        raise UnsupportedError(f"{type(self).__name__} must define loss")

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **more: Any,
    ) -> ModelOutput:
        decoded = self.decoder(input_ids, attention_mask, **more, return_dict=True)
        logits = self.scores(decoded.last_hidden_state, input_ids)
        loss = None if labels is None else self.loss(logits, labels)
        return self.answered(self.output, decoded, return_dict, loss=loss, logits=logits)


class CausalLM(_WithCausalBody):
    """Scores of the next token at every place, (B, T) → (B, T, V); abstract. Arguments are those of `CausalBody`.

    labels (B, T): mostly the tokens themselves, −100 where nothing is to be learned; place t is compared with label t + 1.
    """

    head_bias: ClassVar[bool] = False
    output = CausalLMOutputWithPast

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        table = self.decoder.get_input_embeddings().weight
        self.lm_head = nn.Linear(table.shape[1], table.shape[0], bias=self.head_bias)
        if config.tie_word_embeddings:
            self.lm_head.weight = table
        else:
            initialised(self.lm_head, config.initializer_range)

    def scores(self, x: Tensor, input_ids: Tensor) -> Tensor:
        return self.lm_head(x)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return next_token_loss(logits, labels)

    def step(self, tokens: Tensor, state: DecoderState | None = None) -> tuple[Tensor, DecoderState]:
        """Scores of the token after the last; the state holds keys and values, so that no place is computed twice.

        A state to start from carries the mask of beginnings that are padded on the left, `DecoderState(mask=mask)`;
        positions then count tokens alone. Shape: (B, T) → (B, V)
        """
        state = DecoderState() if state is None else state
        new, mask = tokens.shape[1], lengthened(state.mask, state.past.keys_after(tokens.shape[1]))
        places = weft.arange(new) + state.past.start
        if mask is None:
            positions = places.unsqueeze(0)  # (1, T)
        else:
            positions = (mask.cumsum(1) - 1).clamp(min=0).index_select(1, places)  # (B, T)
        hidden, past = self.decoder.decode(tokens, mask, positions, state.past, state.prefix)
        return self.lm_head(hidden[:, -1]), DecoderState(past, mask, state.prefix)

    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        generation_config: GenerationConfig | None = None,
        prefix_lengths: Tensor | None = None,
        use_cache: bool = True,
        compiled: bool = False,
        **options: Any,
    ) -> Tensor:
        """Beginnings (B, T), padded on the left where they differ in length, continued.

        options: the fields of `GenerationConfig` (stop_strings among them, with the tokenizer of the folder unless one is
        given), a generator, and a streamer (`text.streaming`) that is told of tokens as they come; what is not given is that of generation_config, then
        the model's (generation_config.json), then 20 tokens, the most probable each. Without attention_mask it is that
        of the padding token. compiled: the step of one token as a plan, made at the first use for this batch and capacity
        and kept with the model. Shape: (B, T) → (B · num_return_sequences, ≤ T + max_new_tokens)
        """
        length, most = input_ids.shape[-1], self.decoder.most_places
        options = chosen_options(self, generation_config, options, length, most)
        if attention_mask is None:
            attention_mask = mask_of_padding(input_ids, options["pad_token_id"], options["eos_token_id"])
        mask = None if attention_mask is None else attention_mask.to(weft.int64)
        start, places = DecoderState(EMPTY, mask, prefix_lengths), self._places(length, options["max_new_tokens"])
        step = chosen_steps(self, self._all, places, most, use_cache=use_cache, compiled=compiled)
        return generate(step, input_ids, start, **options)

    def _places(self, length: int, new: int) -> int:
        """How many places the model reads; the last new token is written alone."""
        places, most = length + max(new - 1, 0), self.decoder.most_places
        if most is not None and places > most:
            raise ShapeError(
                f"generate: expected at most {most} places, the model's positions, got {length} tokens and "
                f"max_new_tokens={new}; {max(most + 1 - length, 0)} new ones have room"
            )
        return places

    def _all(self, tokens: Tensor, start: DecoderState) -> Tensor:
        """The scores at all places, computed anew: what `step` agrees with. Shape: (B, T) → (B, T, V)"""
        mask = lengthened(start.mask, tokens.shape[1])
        positions = None if mask is None else (mask.cumsum(1) - 1).clamp(min=0)
        given = {"position_ids": positions, "prefix_lengths": start.prefix}
        return self(tokens, mask, **given, use_cache=False, return_dict=True).logits


def lengthened(mask: Tensor | None, length: int) -> Tensor | None:
    """The mask with 1 for the places that it does not reach."""
    if mask is None or mask.shape[1] >= length:
        return mask
    return weft.cat([mask, weft.ones(len(mask), length - mask.shape[1], dtype=mask.dtype)], 1)


class CausalClassifier(_WithCausalBody):
    """W x of the last token that is not padding: scores of the classes of a text, (B, T) → (B, num_labels); abstract."""

    output = SequenceClassifierOutputWithPast

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        width = self.decoder.get_input_embeddings().embedding_dim
        self.score = initialised(nn.Linear(width, config.num_labels, bias=False), config.initializer_range)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return class_loss(logits, labels, self.config)

    def scores(self, x: Tensor, input_ids: Tensor) -> Tensor:
        scores = self.score(x)  # (B, T, num_labels)
        padding = self.config.pad_token_id
        if padding is None:
            if len(input_ids) > 1:
                raise OptionError(f"{type(self).__name__}: a batch needs config.pad_token_id to find the last tokens")
            return scores[:, -1]
        last = (weft.arange(input_ids.shape[1]) * (input_ids != padding)).argmax(-1)  # (B,)
        return scores[weft.arange(len(input_ids)), last]


class CausalTagger(_WithCausalBody):
    """W x + b of every token: scores of the classes of tokens, (B, T) → (B, T, num_labels); abstract.

    A token is judged by what stands before it. dropout: classifier_dropout of the config, 0.1 unless given.
    """

    head_name: ClassVar[str] = "score"
    output = TokenClassifierOutput

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        width = self.decoder.get_input_embeddings().embedding_dim
        self.add_module(self.head_name, initialised(nn.Linear(width, config.num_labels), config.initializer_range))
        self.dropout = nn.Dropout(0.1 if config.classifier_dropout is None else config.classifier_dropout)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return token_loss(logits, labels)

    def scores(self, x: Tensor, input_ids: Tensor) -> Tensor:
        return getattr(self, self.head_name)(self.dropout(x))
