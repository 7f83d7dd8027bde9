"""Keys and values of the places that a decoder has seen, in two layouts: growing, or with room for a fixed number.

A growing cache holds just the places seen, so every step has other sizes. A cache of fixed capacity has the same sizes
at every step, the number of places seen is a tensor, and masks hide the places that are still empty: one compiled plan
serves all tokens. Nothing is written in place, so an old state stays valid and beams may share their past.

>>> step = fixed_capacity(model.step, 64, weft.compile(model.step))
>>> greedy_search(step, weft.tensor([[5, 7]]), max_new_tokens=30)  # one plan for 29 tokens
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tape.modes import mode
from ...tensor import Tensor
from ..transformers.blocks import KeyValues
from .decoding import Step, recomputing

__all__ = ["EMPTY", "Cache", "Past", "SourceCache", "chosen_steps", "compiled_steps", "fixed_capacity"]

LEAST_CAPACITY = 32


class Past(NamedTuple):
    """Keys and values of one layer before a step, None at first; start (): where new ones go in a cache of fixed capacity."""

    pairs: KeyValues | None = None
    start: Tensor | None = None

    def append(self, keys: Tensor, values: Tensor) -> KeyValues:
        """Those of the past with the new ones. Shape: (B, G, T, D) twice → (B, G, S, D) twice"""
        if self.pairs is None:
            return KeyValues(keys, values)
        _check_batch(self.pairs.keys, keys)
        both = zip(self.pairs, (keys, values), strict=True)
        if self.start is None:
            return KeyValues(*(weft.cat(pair, -2) for pair in both))
        return KeyValues(*(_placed(old, new, self.start) for old, new in both))


class Cache(NamedTuple):
    """Keys and values of every layer; length (): the number of places seen if the capacity is fixed, else None."""

    layers: tuple[KeyValues, ...] = ()
    length: Tensor | None = None

    @property
    def start(self) -> int | Tensor:
        """The number of places seen: where the next token goes."""
        if self.length is not None:
            return self.length
        return self.layers[0].keys.shape[-2] if self.layers else 0

    def get_seq_length(self) -> int:
        """The number of places seen."""
        return int(self.start)

    def keys_after(self, new: int) -> int:
        """The number of keys that attention sees after so many new tokens; empty places of a fixed capacity count.

        Whether there is room cannot be known inside of a compiled function: `fixed_capacity` asks before it.
        """
        if self.length is None:
            return self.start + new
        capacity = self.layers[0].keys.shape[-2]
        if mode.interpreter is None and int(self.length) + new > capacity:
            raise ShapeError(
                f"cache: expected at most {capacity} places, its capacity, got {int(self.length)} + {new}; "
                "make it with a larger capacity"
            )
        return capacity

    def before(self, layers: int) -> list[Past]:
        """What each layer finds."""
        return [Past(pairs, self.length) for pairs in self.layers] if self.layers else [Past()] * layers

    def after(self, layers: Sequence[KeyValues], new: int) -> Cache:
        """The cache after a step over so many tokens, which left these keys and values."""
        return Cache(tuple(layers), None if self.length is None else self.length + new)

    def with_capacity(self, capacity: int) -> Cache:
        """A growing cache with room for `capacity` places from now on. Shape: (B, G, S, D) → (B, G, capacity, D)"""
        if self.length is not None or not self.layers:
            raise ShapeError("with_capacity: expected a growing cache after its first step")
        room = capacity - self.start
        if room < 0:
            raise ShapeError(
                f"with_capacity: expected a capacity of {self.start} or more, the places seen, got {capacity}"
            )
        layers = (KeyValues(*(nn.functional.pad(x, (0, 0, 0, room)) for x in pairs)) for pairs in self.layers)
        return Cache(tuple(layers), weft.tensor(self.start))


EMPTY = Cache()  # before the first step


class SourceCache(NamedTuple):
    """What a decoder keeps that reads a source: keys and values of its own places, and those of the encoder's."""

    self_attention_cache: Cache = EMPTY
    cross_attention_cache: Cache = EMPTY

    def get_seq_length(self) -> int:
        """The number of places that the decoder has seen."""
        return self.self_attention_cache.get_seq_length()


def _placed(old: Tensor, new: Tensor, start: Tensor) -> Tensor:
    """`old` with `new` at the places start … start + T − 1. Shape: (B, G, S, D), (B, G, T, D), () → (B, G, S, D)

    A choice between the two is one pass over the cache, as a copy to write into would be.
    """
    number, count = weft.arange(old.shape[-2]) - start, new.shape[-2]  # (S,): which of the new ones a place would take
    if count > 1:
        new = new.index_select(-2, number.clamp(0, count - 1))  # (B, G, S, D)
    return weft.where(((number >= 0) & (number < count)).unsqueeze(-1), new, old)


def _check_batch(old: Tensor, new: Tensor) -> None:
    if len(old) != len(new):
        raise ShapeError(
            f"cache: expected tokens for its {len(old)} rows, got {len(new)}; a new batch starts without a state"
        )


# ------------------------------------------------------------------------------------------- steps


def fixed_capacity(step: Step, capacity: int, later: Step | None = None) -> Step:
    """`step` with a cache for `capacity` places: the beginnings run `step`, each further token `later`.

    `later` is `step` unless given; the same function compiled makes one plan. States have a field `past`, a `Cache`, and
    a method `with_capacity`.
    """
    later = step if later is None else later

    def run(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        if state is not None and state.past.length is not None:
            state.past.keys_after(tokens.shape[1])
            return later(tokens.clone(), state)
        logits, state = step(tokens, state)
        return logits, state.with_capacity(capacity)

    return run


def compiled_steps(model: nn.Module, places: int, most: int | None = None) -> Step:
    """model.step, compiled after the beginnings, with room for `places` or more; plans are kept with the model.

    The capacity is the next power of two, `most` at most, so that beginnings of other lengths mostly find a plan made.
    """
    kept = model.__dict__.get("_compiled_step")
    if kept is None or kept.__self__ is not model:  # a shallow copy of a model has the other's
        kept = weft.compile(model.step)
        model.__dict__["_compiled_step"] = kept
    capacity = 1 << (max(places, LEAST_CAPACITY) - 1).bit_length()
    return fixed_capacity(model.step, capacity if most is None else min(capacity, most), kept)


def chosen_steps(
    model: nn.Module,
    whole: Callable[..., Tensor],
    places: int,
    most: int | None = None,
    *,
    use_cache: bool = True,
    compiled: bool = False,
) -> Step:
    """What a model's `generate` goes on with: `compiled_steps`, model.step, or `recomputing(whole)` without a cache."""
    if compiled and not use_cache:
        raise OptionError("generate: compiled=True needs use_cache=True; without a cache every token has other sizes")
    if compiled:
        return compiled_steps(model, places, most)
    return model.step if use_cache else recomputing(whole)
