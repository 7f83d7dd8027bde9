"""The loop of active learning: learn from the labels there are, ask for those that are worth most, and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft

from ....errors import OptionError, StateError
from ....ops.create.sample import Generator
from ....tensor import Tensor
from .queries import Query

__all__ = ["ActiveLearning", "Pool", "Round"]


class Pool:
    """Which of n examples have labels, in the order in which they were asked for.

    n: how many examples there are; labelled: numbers of those that have labels from the start

    >>> pool = Pool(5, [3])
    >>> pool.label([0, 4])
    >>> pool.labelled.tolist(), pool.unlabelled.tolist()
    ([3, 0, 4], [1, 2])
    """

    def __init__(self, n: int, labelled: Sequence[int] = ()) -> None:
        if n < 1:
            raise OptionError(f"Pool: expected at least one example, got {n}")
        self.n, self._order = n, np.zeros(0, np.int64)
        self.label(labelled)

    def label(self, numbers: Any) -> None:
        """Move examples, by their numbers, to those with labels."""
        new = np.asarray(numbers.array if isinstance(numbers, Tensor) else numbers, np.int64).reshape(-1)
        both = np.concatenate([self._order, new])
        if len(np.unique(both)) < len(both) or (len(new) and not (0 <= new.min() and new.max() < self.n)):
            raise OptionError(f"Pool: expected numbers below {self.n} of examples without labels, each once; got {new}")
        self._order = both

    @property
    def labelled(self) -> Tensor:
        """Numbers of the examples with labels, in the order they were asked for: (L,)"""
        return weft.tensor(self._order)

    @property
    def unlabelled(self) -> Tensor:
        """Numbers of the others, in their own order: (n − L,)"""
        return weft.tensor(np.setdiff1d(np.arange(self.n), self._order))

    def __len__(self) -> int:
        return len(self._order)


@dataclass(frozen=True)
class Round:
    """What was found with so many labels: the model's figure, and the examples that were asked about next."""

    number: int
    labelled: int
    figure: float
    asked: list[int]


class ActiveLearning:
    """Rounds of training and asking; the labels of all other examples are never looked at.

    x: all examples, (n, *event)
    oracle: labels (n,), of which only those asked for are read, or a function of numbers (A,) → labels (A,)
    fit: (x, labels, round) → model, trained on what is labelled so far; it should depend on nothing else, so that a loop
        that is resumed goes on as it would have gone
    query: who chooses
    start: how many examples, drawn at random, are labelled at first, or their numbers
    batch: how many are asked about after each round; seed: of the first examples and of the queries' draws
    `state_dict` after any round and `load_state_dict` into a fresh loop resume it: nothing is drawn again.
    """

    def __init__(
        self,
        x: Tensor,
        oracle: Tensor | Callable[[Tensor], Tensor],
        fit: Callable[[Tensor, Tensor, int], Any],
        query: Query,
        *,
        start: int | Sequence[int] = 20,
        batch: int = 20,
        seed: int = 0,
    ) -> None:
        if batch < 1:
            raise OptionError(f"ActiveLearning: expected a batch of at least one question, got {batch}")
        self.x, self.oracle, self.fit, self.query = x, oracle, fit, query
        self.batch, self.seed, self.number = batch, seed, 0
        first = weft.randperm(len(x), generator=self._stream(0))[:start] if isinstance(start, int) else start
        self.pool = Pool(len(x))
        self.labels = weft.zeros(0, dtype=weft.int64)
        self._ask(weft.tensor(np.asarray(first, np.int64)))
        if not len(self.pool):
            raise OptionError("ActiveLearning: start with at least one labelled example")

    def rounds(self, budget: int, evaluate: Callable[[Any], float], enough: float | None = None) -> Iterator[Round]:
        """Learn and ask until `budget` labels are known and learned from.

        evaluate: a figure of a model, on data of its own; enough: stop once the figure is at least that
        """
        while True:
            model = self.fit(self.x[self.pool.labelled], self.labels, self.number)
            figure, known = float(evaluate(model)), len(self.pool)
            count = min(self.batch, budget - known, len(self.x) - known)
            done = count <= 0 or (enough is not None and figure >= enough)
            asked = weft.zeros(0, dtype=weft.int64) if done else self._chosen(model, count)
            self._ask(asked)
            self.number += 1
            yield Round(self.number - 1, known, figure, asked.tolist())
            if done:
                return

    def _chosen(self, model: Any, count: int) -> Tensor:
        rest = self.pool.unlabelled
        generator = self._stream(1 + self.number)
        return rest[self.query(model, self.x[rest], self.x[self.pool.labelled], count, generator)]

    def _ask(self, numbers: Tensor) -> None:
        if not len(numbers):
            return
        self.pool.label(numbers)
        answers = self.oracle[numbers] if isinstance(self.oracle, Tensor) else self.oracle(numbers)
        if len(answers) != len(numbers):
            raise OptionError(f"ActiveLearning: the oracle gave {len(answers)} labels for {len(numbers)} examples")
        self.labels = weft.cat([self.labels, answers.to(self.labels.dtype)])

    def _stream(self, number: int) -> Generator:
        return Generator().manual_seed(self.seed).fold_in(number)

    def state_dict(self) -> dict[str, Any]:
        """What has been asked and answered so far, as lists of numbers."""
        return {
            "number": self.number,
            "seed": self.seed,
            "labelled": self.pool.labelled.tolist(),
            "labels": self.labels.tolist(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where another loop over the same examples was."""
        if state["seed"] != self.seed:
            raise StateError(f"ActiveLearning: the state is of seed {state['seed']}, this loop has seed {self.seed}")
        self.pool = Pool(len(self.x), state["labelled"])
        self.labels, self.number = weft.tensor(state["labels"], dtype=weft.int64), state["number"]
