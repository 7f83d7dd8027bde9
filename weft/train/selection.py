"""Choosing models: splits, cross validation, searches over settings, bias and variance, double descent.

Everything here is a pure function of its arguments and seeds; what runs a model is given by the caller. A search is a
list of trials: `pending(finished)` says which can run now, so a search continues from whatever has been finished.

>>> search = SuccessiveHalving({"lr": LogUniform(1e-4, 1e-1)}, n=9, min_budget=1, max_budget=9, eta=3)
>>> [len(rung) for rung in search.plan()]
[9, 3, 1]
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import OptionError
from ..random import Generator
from .generalization import (
    BiasVariance,
    SweepPoint,
    bias_variance,
    decompose,
    double_descent,
    ridge_bias_variance,
)

__all__ = [
    "BiasVariance",
    "Choice",
    "CrossValidation",
    "Finished",
    "Grid",
    "Integer",
    "LogUniform",
    "Random",
    "Search",
    "Split",
    "SuccessiveHalving",
    "SweepPoint",
    "Trial",
    "Uniform",
    "bias_variance",
    "cross_validate",
    "decompose",
    "double_descent",
    "hold_out",
    "k_fold",
    "parse_space",
    "ridge_bias_variance",
]


# ------------------------------------------------------------------------------------------- splits


@dataclass(frozen=True)
class Split:
    """Row numbers to train on and to validate with."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]


def hold_out(n: int, fraction: float = 0.2, *, seed: int = 0, stratify: ArrayLike | None = None) -> Split:
    """Keep round(fraction · n) of n rows, at least 1, for validation; of each class its share where labels are given."""
    if not 0 < fraction < 1 or n < 2:
        raise OptionError(f"hold_out: expected n >= 2 and a fraction between 0 and 1, got n {n}, fraction {fraction}")
    held = min(max(round(fraction * n), 1), n - 1)
    order = _shuffled(n, seed)
    if stratify is not None:
        order = order[np.argsort(_place_in_class(_labels(stratify, n)[order]), kind="stable")]
    return Split(np.sort(order[held:]), np.sort(order[:held]))


def k_fold(n: int, k: int = 5, *, seed: int | None = 0, stratify: ArrayLike | None = None) -> list[Split]:
    """k splits; each row is in one validation set, their sizes differ by at most 1. seed None: stretches of rows.

    With labels each class is spread evenly: its counts in two validation sets differ by at most 1.
    """
    if not 2 <= k <= n:
        raise OptionError(f"k_fold: expected 2 <= k <= n, got k {k}, n {n}")
    order = _shuffled(n, seed)
    if stratify is not None:
        order = order[np.argsort(_labels(stratify, n)[order], kind="stable")]
        folds = [order[i::k] for i in range(k)]  # neighbours, of one class, go to different folds
    else:
        folds = np.array_split(order, k)
    return [Split(np.setdiff1d(order, fold), np.sort(fold)) for fold in folds]


def _shuffled(n: int, seed: int | None) -> NDArray[np.int64]:
    return np.arange(n) if seed is None else Generator().manual_seed(seed).permutation(n)


def _labels(stratify: ArrayLike, n: int) -> NDArray[np.int64]:
    labels = np.unique(np.asarray(stratify), return_inverse=True)[1]
    if labels.shape != (n,):
        raise OptionError(f"stratify: expected {n} labels, got shape {labels.shape}")
    return labels


def _place_in_class(labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """(p + ½) / c for member p of a class of c: sorted by it, every stretch has all classes in proportion."""
    place = np.empty(len(labels))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return place


@dataclass(frozen=True)
class CrossValidation:
    """Scores of each fold on what it was trained with and on what it was not."""

    train: list[float]
    validation: list[float]

    @property
    def mean(self) -> float:
        return float(np.mean(self.validation))

    @property
    def std(self) -> float:
        return float(np.std(self.validation))


def cross_validate(
    fit: Callable[[NDArray], Any], score: Callable[[Any, NDArray], float], splits: Iterable[Split]
) -> CrossValidation:
    """model = fit(rows), then score(model, rows) on both sides of each split."""
    train, validation = [], []
    for split in splits:
        model = fit(split.train)
        train.append(float(score(model, split.train)))
        validation.append(float(score(model, split.validation)))
    return CrossValidation(train, validation)


# ------------------------------------------------------------------------------------------- spaces


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
