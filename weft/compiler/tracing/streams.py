"""Random streams in a trace: every draw knows which words it takes, counted from where its generator is at the call.

During the trace a generator moves as it would in eager code (so that saved and restored states keep their meaning) and
goes back at the end. At each call the plan takes the same words from where the generator then is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import WeftError
from ...random import Generator
from ...random.stream import BLOCK
from ...tensor import Tensor
from ..graph.graph import Draw, Hole

__all__ = ["Place", "Stream", "Streams"]

WORD = 2**64 - 1


class Rehearsal(Generator):
    """A generator that counts the words it is asked for and gives zeros."""

    words = 0

    def reserve(self, count: int) -> tuple[tuple[int, int], int]:
        self.words = -(-count // BLOCK) * BLOCK
        return (0, 0), 0

    def bits(self, n: int) -> np.ndarray:
        self.reserve(n)
        return np.zeros(n, np.uint64)

    def _reject(self, attempt: Callable, *parameters: np.ndarray) -> np.ndarray:
        self.reserve(BLOCK * len(parameters[-1]))
        return parameters[-1].copy()


class Place:
    """Where a draw finds its numbers: key and block, four words that are filled in at each call.

    A draw in a loop has such words for every iteration, `steps` blocks after the first: (*steps.shape, 4).
    """

    def __init__(self, stream: Stream, key: tuple[int, int], offset: int, steps: np.ndarray | None = None) -> None:
        self.stream, self.key, self.offset = stream, key, offset
        self.steps = np.zeros((), np.uint64) if steps is None else steps
        self.words = np.zeros((*self.steps.shape, 4), np.uint64)

    def fill(self, key: tuple[int, int], block: int) -> None:
        if not self.steps.ndim:
            self.words[:2], self.words[2], self.words[3] = key, block & WORD, block >> 64
            return
        first = np.uint64(block & WORD)
        self.words[..., :2] = key
        np.add(self.steps, first, out=self.words[..., 2])  # wraps around
        self.words[..., 3] = block >> 64
        self.words[..., 3] += self.words[..., 2] < first

    def repeated(self, count: int, words: int, reverse: bool) -> Place:
        """The places of all iterations of a loop that takes so many words in each."""
        more = np.arange(count, dtype=np.uint64)[:: -1 if reverse else 1] * np.uint64(words // BLOCK)
        return Place(self.stream, self.key, self.offset, more.reshape(-1, *(1,) * self.steps.ndim) + self.steps)


class Stream:
    """One generator: where it was when the trace began, and the places of its draws."""

    def __init__(self, generator: Generator, made_here: bool) -> None:
        self.generator, self.made_here = generator, made_here
        self.key, self.offset = generator.key, generator.offset
        self.final: tuple[tuple[int, int], int] = (self.key, self.offset)
        self.places: list[Place] = []

    def moves_on(self, key: tuple[int, int]) -> bool:
        """Whether a place with this key is counted from the generator's own place at the call."""
        return not self.made_here and key == self.key

    def advance(self) -> tuple[tuple[int, int], int]:
        """At a call: tell every draw its place, and move the generator; where it was before."""
        generator = self.generator
        start_key, start = generator.key, generator.offset
        for place in self.places:
            moved = self.moves_on(place.key)
            offset = start + place.offset - self.offset if moved else place.offset
            place.fill(start_key if moved else place.key, offset // BLOCK)
        if not self.made_here:
            key, offset = self.final
            if self.moves_on(key):
                generator.offset = start + offset - self.offset
            else:
                generator._key, generator.offset = key, offset
        return start_key, start

    def go_back(self, before: tuple[tuple[int, int], int]) -> None:
        """The call did not happen."""
        if not self.made_here:
            self.generator._key, self.generator.offset = before


class Streams:
    """All generators that a trace has touched."""

    def __init__(self) -> None:
        self.known: dict[int, Stream] = {}

    def note(self, generator: Generator) -> Stream:
        """A generator is about to move."""
        found = self.known.get(id(generator))
        if found is None:
            made_here = "_offset" not in generator.__dict__
            if made_here and "_key" not in generator.__dict__:
                generator.__dict__.update(_key=(0, 0), _offset=0)
            found = self.known[id(generator)] = Stream(generator, made_here)
        return found

    def draw(
        self,
        name: str,
        sampler: str,
        source: Generator,
        parameters: Sequence[Any],
        options: dict[str, Any],
        stand: Callable[[Tensor], np.ndarray],
    ) -> tuple[Draw, Place, tuple[tuple[int, ...], np.dtype]]:
        """The operation of a draw, its place, and the size and type of the result."""
        rehearsal = Rehearsal()
        harmless = lambda x: np.full(stand(x).shape, 0.5, stand(x).dtype) if isinstance(x, Tensor) else x
        try:
            result = getattr(rehearsal, sampler)(
                *map(harmless, parameters), **{k: harmless(v) for k, v in options.items()}
            )
        except WeftError as error:
            raise type(error)(f"{name}: {error}") from None
        stream = self.note(source)
        place = Place(stream, *source.reserve(rehearsal.words))
        stream.places.append(place)
        count = iter(range(1, 1 + len(parameters) + len(options)))
        hole = lambda x: Hole(next(count)) if isinstance(x, Tensor) else x
        arguments = [hole(p) for p in parameters]
        op = Draw(sampler, source, arguments, {k: hole(v) for k, v in options.items()})
        return op, place, (np.shape(result), np.asarray(result).dtype)

    def restore(self) -> list[Stream]:
        """Every generator back where it was; those that the plan has to move at each call."""
        for stream in self.known.values():
            generator = stream.generator
            stream.final = generator.key, generator.offset
            if not stream.made_here:
                generator._key, generator.offset = stream.key, stream.offset
        return list(self.known.values())
