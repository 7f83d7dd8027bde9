"""Searches over settings: spaces, and which trials to run next given those that are finished.

A search is a pure function of its arguments and seed. `pending(finished)` says which trials can run now, so a search goes on
with those that are missing; what runs a trial is given by the caller.

>>> search = SuccessiveHalving({"lr": LogUniform(1e-4, 1e-1)}, n=9, min_budget=1, max_budget=9, eta=3)
>>> [len(rung) for rung in search.plan()]
[9, 3, 1]
"""

from __future__ import annotations

import heapq
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import OptionError
from ..random import Generator

__all__ = [
    "AsynchronousHalving",
    "Choice",
    "Finished",
    "Grid",
    "Integer",
    "LogUniform",
    "Random",
    "Search",
    "SuccessiveHalving",
    "Trial",
    "Uniform",
    "parse_space",
]


@dataclass(frozen=True)
class Choice:
    """One of some values."""

    options: Sequence[Any]

    def at(self, u: float) -> Any:
        """The value at u in [0, 1)."""
        return self.options[int(u * len(self.options))]


@dataclass(frozen=True)
class Uniform:
    """A number in [low, high)."""

    low: float
    high: float

    def at(self, u: float) -> float:
        return self.low + u * (self.high - self.low)


@dataclass(frozen=True)
class LogUniform:
    """A number > 0 whose logarithm is uniform in [log low, log high)."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high:
            raise OptionError(f"LogUniform: expected 0 < low <= high, got {self.low}, {self.high}")

    def at(self, u: float) -> float:
        return float(self.low * (self.high / self.low) ** u)


@dataclass(frozen=True)
class Integer:
    """low, low + 1, … high, both included."""

    low: int
    high: int

    def at(self, u: float) -> int:
        return self.low + int(u * (self.high - self.low + 1))


Space = Choice | Uniform | LogUniform | Integer
_FORMS: dict[str, Callable[..., Space]] = {"uniform": Uniform, "log": LogUniform, "int": Integer}


def parse_space(text: str) -> Space:
    """A space from text: "a,b,c" are choices; "uniform(0,1)", "log(1e-4,1e-1)" and "int(1,8)" ranges.

    >>> parse_space("log(1e-4,1e-1)"), parse_space("16,32").options
    (LogUniform(low=0.0001, high=0.1), (16, 32))
    """
    name, bracket, rest = text.partition("(")
    if not bracket or name not in _FORMS:
        return Choice(tuple(_number(part.strip()) for part in text.split(",")))
    bounds = [_number(part.strip()) for part in rest.removesuffix(")").split(",")]
    if len(bounds) != 2 or not all(isinstance(b, int if name == "int" else (int, float)) for b in bounds):
        raise OptionError(f"space: expected {name}(low,high) with two numbers, got {text!r}")
    return _FORMS[name](*bounds)


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)


# ------------------------------------------------------------------------------------------- searches


@dataclass(frozen=True)
class Trial:
    """One run to make: settings number `number`, for `budget` epochs (or steps, or rows) in round `rung`."""

    number: int
    settings: dict[str, Any]
    budget: float | None = None
    rung: int = 0


@dataclass(frozen=True)
class Finished:
    """A run that was made. A score of None or NaN means it failed, and ranks last. `settings` guards against a search
    that was changed in between."""

    number: int
    score: float | None
    rung: int = 0
    settings: Mapping[str, Any] | None = field(default=None, compare=False)


class Search(ABC):
    """Trials over a space {name: Choice | Uniform | …, or a list of choices, or one value}.

    >>> search = Grid({"lr": [0.1, 0.2], "width": [8, 16]})
    >>> finished = [Finished(trial.number, score=trial.settings["lr"]) for trial in search.pending([])]
    >>> search.pending(finished), search.best(finished).settings
    ([], {'lr': 0.2, 'width': 8})
    """

    def __init__(self, space: Mapping[str, Any], maximize: bool = True) -> None:
        self.space = {name: _as_space(values) for name, values in space.items()}
        self.maximize = maximize

    @abstractmethod
    def candidates(self) -> list[dict[str, Any]]:
        """The settings of all trials, by number."""

    def pending(self, finished: Sequence[Finished]) -> list[Trial]:
        """The trials that can run now and are not among the finished; none when the search is over."""
        finished = self._checked(finished)
        done = {(f.number, f.rung) for f in finished}
        return [trial for trial in self._open(finished) if (trial.number, trial.rung) not in done]

    def best(self, finished: Sequence[Finished]) -> Trial | None:
        """The best of the finished trials, among those of the last rung that has a score."""
        scored = [f for f in self._checked(finished) if not _failed(f)]
        if not scored:
            return None
        last = max(f.rung for f in scored)
        first = self._ranked([f for f in scored if f.rung == last])[0]
        return Trial(first.number, self.candidates()[first.number], self._budget(last), last)

    def _open(self, finished: Sequence[Finished]) -> list[Trial]:
        return [Trial(i, settings, self._budget(0)) for i, settings in enumerate(self.candidates())]

    def _budget(self, rung: int) -> float | None:
        return None

    def _ranked(self, finished: Iterable[Finished]) -> list[Finished]:
        """Best first; failed ones last; equal scores by number."""
        sign = -1 if self.maximize else 1
        return sorted(finished, key=lambda f: (_failed(f), 0 if _failed(f) else sign * f.score, f.number))

    def _checked(self, finished: Sequence[Finished]) -> list[Finished]:
        """Each trial of a rung once, the last report of it; those of another search are refused."""
        candidates = self.candidates()
        for f in finished:
            if f.number >= len(candidates) or f.settings not in (None, candidates[f.number]):
                raise OptionError(
                    f"search: finished trial {f.number} with settings {f.settings} is none of these "
                    f"{len(candidates)}; continue with the space and seed it was begun with, or start anew"
                )
        return list({(f.number, f.rung): f for f in finished}.values())


class Grid(Search):
    """Every combination of the choices, the last name changing fastest."""

    def candidates(self) -> list[dict[str, Any]]:
        values = [_listed(name, space) for name, space in self.space.items()]
        return [dict(zip(self.space, chosen, strict=True)) for chosen in itertools.product(*values)]


class Random(Search):
    """n draws from the space. Draw i is a pure function of (seed, i), so a larger n extends a search."""

    def __init__(self, space: Mapping[str, Any], n: int, seed: int = 0, maximize: bool = True) -> None:
        super().__init__(space, maximize)
        if n < 1:
            raise OptionError(f"{type(self).__name__}: expected n >= 1 trials, got {n}")
        self.n, self.seed = n, seed

    def candidates(self) -> list[dict[str, Any]]:
        root = Generator().manual_seed(self.seed)
        return [self._draw(root.fold_in(i)) for i in range(self.n)]

    def _draw(self, generator: Generator) -> dict[str, Any]:
        units = generator.uniform(len(self.space), np.float64)
        return {name: space.at(float(u)) for (name, space), u in zip(self.space.items(), units, strict=True)}


class SuccessiveHalving(Random):
    """n draws get min_budget each; the best 1/eta of a rung go on with eta times as much, up to max_budget.

    Rung r has ⌈n / etaʳ⌉ trials of budget min_budget · etaʳ ≤ max_budget, and opens when the one before is finished
    (Jamieson and Talwalkar 2016). A trial keeps its number, so its run can be continued.
    """

    def __init__(
        self,
        space: Mapping[str, Any],
        n: int,
        min_budget: float = 1,
        max_budget: float = 27,
        eta: float = 3,
        seed: int = 0,
        maximize: bool = True,
    ) -> None:
        super().__init__(space, n, seed, maximize)
        if not 0 < min_budget <= max_budget or eta <= 1:
            raise OptionError(
                f"SuccessiveHalving: expected 0 < min_budget <= max_budget and eta > 1, got {min_budget}, {max_budget}, {eta}"
            )
        self.min_budget, self.max_budget, self.eta = min_budget, max_budget, eta

    def plan(self) -> list[list[float]]:
        """The budgets of the trials of each rung."""
        sizes, rung, size = [], 0, self.n
        while self._budget(rung) <= self.max_budget * (1 + 1e-9):
            sizes.append([self._budget(rung)] * size)
            rung, size = rung + 1, math.ceil(size / self.eta)
        return sizes

    def _budget(self, rung: int) -> float:
        return self.min_budget * self.eta**rung

    def _open(self, finished: Sequence[Finished]) -> list[Trial]:
        candidates, numbers, trials = self.candidates(), list(range(self.n)), []
        for rung in range(len(self.plan())):
            trials = [Trial(i, candidates[i], self._budget(rung), rung) for i in sorted(numbers)]
            here = [f for f in finished if f.rung == rung and f.number in numbers]
            if len(here) < len(trials):
                break
            survivors = self._ranked(here)[: math.ceil(len(trials) / self.eta)]
            numbers = [f.number for f in survivors if not _failed(f)]
        return trials


class AsynchronousHalving(SuccessiveHalving):
    """Successive halving that waits for no rung: a trial goes on as soon as it is among the best 1/η of those seen so far.

    Whoever is free takes a trial that is among the best ⌊k/η⌋ of the k finished ones of its rung and has not gone on, from the
    highest such rung; if there is none, the next draw (Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning",
    algorithm 2). When nothing else can come, the best ⌈k/η⌉ go on, so that some trial gets the whole budget.

    Which trial is promoted depends on what has been seen before it. So that the table does not depend on how quick the machines
    are, promotions follow a clock of their own: `lanes` trials are under way at once, and each takes time in proportion to its
    budget. A trial can run as soon as that clock has reached it, on however many workers there are; up to `lanes` can be
    busy. A search with the same seed, scores and lanes gives the same table on any of them.

    >>> search = AsynchronousHalving({"lr": LogUniform(1e-4, 1e-1)}, n=9, min_budget=1, max_budget=9, eta=3, lanes=3)
    >>> scored = [Finished(trial.number, score=trial.number) for trial in search.pending([])]
    >>> [(trial.number, trial.rung) for trial in search.pending(scored)]
    [(3, 0), (4, 0), (2, 1)]
    """

    def __init__(
        self,
        space: Mapping[str, Any],
        n: int,
        min_budget: float = 1,
        max_budget: float = 27,
        eta: float = 3,
        seed: int = 0,
        maximize: bool = True,
        lanes: int = 8,
    ) -> None:
        super().__init__(space, n, min_budget, max_budget, eta, seed, maximize)
        if lanes < 1:
            raise OptionError(f"AsynchronousHalving: expected lanes >= 1, got {lanes}")
        self.lanes = lanes

    def _open(self, finished: Sequence[Finished]) -> list[Trial]:
        """Every trial that the clock reaches before it needs a score that is not there yet."""
        told = {(f.number, f.rung): f for f in finished}
        candidates, rungs = self.candidates(), len(self.plan())
        seen: list[list[Finished]] = [[] for _ in range(rungs)]
        taken: set[tuple[int, int]] = set()  # (number, rung) of all that were begun
        running: list[tuple[float, int, int]] = []  # (when it ends, number, rung), the earliest first
        found, clock = [], 0.0
        while True:
            while len(running) < self.lanes and (chosen := self._next(seen, taken, bool(running))) is not None:
                number, rung = chosen
                taken.add(chosen)
                heapq.heappush(running, (clock + self._budget(rung), number, rung))
                found.append(Trial(number, candidates[number], self._budget(rung), rung))
            if not running or running[0][1:] not in told:
                return found
            clock, number, rung = heapq.heappop(running)
            seen[rung].append(told[number, rung])

    def _next(self, seen: list[list[Finished]], taken: set[tuple[int, int]], more: bool) -> tuple[int, int] | None:
        """The number and rung of what a free lane takes; `more`: other trials are under way."""
        drawn = sum(rung == 0 for _, rung in taken)
        rounded = math.floor if more or drawn < self.n else math.ceil
        for rung in range(len(seen) - 2, -1, -1):
            best = self._ranked(seen[rung])[: rounded(len(seen[rung]) / self.eta)]
            for f in best:
                if not _failed(f) and (f.number, rung + 1) not in taken:
                    return f.number, rung + 1
        return (drawn, 0) if drawn < self.n else None


def _as_space(values: Any) -> Space:
    if isinstance(values, Space):
        return values
    return Choice(tuple(values) if isinstance(values, (list, tuple, range)) else (values,))


def _listed(name: str, space: Space) -> Sequence[Any]:
    if isinstance(space, Integer):
        return range(space.low, space.high + 1)
    if not isinstance(space, Choice):
        raise OptionError(f"Grid: {name} is {space}, which has no list of values; give choices, or use Random")
    return space.options


def _failed(finished: Finished) -> bool:
    return finished.score is None or math.isnan(finished.score)
