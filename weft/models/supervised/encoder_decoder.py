"""Writing about a source: what models with an encoder and a decoder share in generation."""

from __future__ import annotations

from typing import Any, NamedTuple

import weft

from ... import nn
from ...tensor import Tensor
from .cache import EMPTY, Cache, chosen_steps
from .decoding import generate
from .transformer_blocks import KeyValues

__all__ = ["EncoderDecoder", "SourceState"]

ENDS = ("eos_token_id", "pad_token_id", "forced_bos_token_id", "forced_eos_token_id")


class SourceState(NamedTuple):
    """The encoder's keys and values with their mask, and those that the decoder has made."""

    memory: tuple[KeyValues, ...]
    memory_mask: Tensor | None
    past: Cache = EMPTY

    def with_capacity(self, capacity: int) -> SourceState:
        return self._replace(past=self.past.with_capacity(capacity))


class EncoderDecoder(nn.Module):
    """`start`, `step` and `generate` for a model that has `stacks` and `scores`; abstract."""

    most_places: int | None = None  # how much the decoder may write, None: as much as you like

    @property
    def stacks(self) -> tuple[nn.Module, nn.Module]:
        """The encoder, and the decoder with `remember`."""
        raise NotImplementedError(f"{type(self).__name__} must define stacks")

    def scores(self, x: Tensor) -> Tensor:
        """(*, C) → (*, V)"""
        raise NotImplementedError(f"{type(self).__name__} must define scores")

    def written(self, x: Tensor) -> Tensor:
        """`scores` in generation, where some tokens may be forbidden. (*, C) → (*, V)"""
        return self.scores(x)

    def start(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> SourceState:
        """The encoded source: what `step` begins with."""
        encoder, decoder = self.stacks
        return SourceState(decoder.remember(encoder(input_ids, attention_mask)[0]), attention_mask)

    def step(self, tokens: Tensor, state: SourceState) -> tuple[Tensor, SourceState]:
        """Scores of the token after the last, with the cache of earlier steps. Shape: (B, T) → (B, V)"""
        x, past = self.stacks[1](tokens, None, state.past, state.memory, state.memory_mask)
        return self.written(x[:, -1]), state._replace(past=past)

    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        max_new_tokens: int = 20,
        use_cache: bool = True,
        compiled: bool = False,
        **options: Any,
    ) -> Tensor:
        """What the decoder writes about a source, start token included; options as in `decoding`. (B, S) → (B, T)

        compiled: the step of one token as a plan, made at the first use (see `CausalLM.generate`).
        """
        ends = {name: getattr(self.config, name, None) for name in ENDS}
        first = weft.full((len(input_ids), 1), self.config.decoder_start_token_id or 0, dtype=weft.int64)
        with weft.no_grad():
            state = self.start(input_ids, attention_mask)
        choice = {"use_cache": use_cache, "compiled": compiled}
        step = chosen_steps(self, self._all, max_new_tokens, self.most_places, **choice)
        return generate(step, first, state, max_new_tokens=max_new_tokens, **{**ends, **options})

    def _all(self, tokens: Tensor, state: SourceState) -> Tensor:
        """The scores at all places, computed anew: what `step` agrees with. Shape: (B, T) → (B, T, V)"""
        return self.written(self.stacks[1](tokens, None, EMPTY, state.memory, state.memory_mask)[0])
