"""What every metric is: a summary of a state, where the states of batches combine into the state of the whole.

A metric defines `measure(*batch)`, the state of one batch (a dict of counts, sums and lists of arrays), and
`summarise(state)`. States combine by addition unless the class says otherwise, so that updating batch by batch,
merging the accumulators of several workers, and measuring everything at once are the same computation.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import DtypeError, OptionError, ShapeError, WeftError
from ..ops.core.operands import known_array
from ..tensor import Tensor, wrap

__all__ = ["Mean", "Metric", "NoDataError"]

State = dict[str, Any]


class NoDataError(WeftError, ValueError):
    """A metric of no samples at all."""


class Metric(ABC):
    """An accumulator: `update` with batches, `compute` the figure of all of them, `reset` for the next epoch.

    Calling the metric updates it and returns the figure of that batch alone. `a.merge(b)` adds what b has seen.
    An update costs a few NumPy calls on the batch; nothing is divided, sorted or transferred before `compute`.
    """

    fields: tuple[str, ...] = ("count",)  # the keys of a state; "count" is how many samples (elements, tokens) it holds

    def __init__(self) -> None:
        self.state: State | None = None

    @abstractmethod
    def measure(self, *batch: Any) -> State:
        """The state of one batch, in arrays of its own."""

    @abstractmethod
    def summarise(self, state: State) -> Any:
        """The figure of a state with at least one sample."""

    def combine(self, first: State, second: State) -> State:
        """The state of both; `first` may be overwritten."""
        return {name: operator.iadd(first[name], second[name]) for name in self.fields}

    def update(self, *batch: Any, **named: Any) -> None:
        """Take in one batch, (prediction, target) for most; an empty one changes nothing."""
        self._absorb(self.measure(*batch, **named))

    def compute(self) -> Any:
        """The figure of everything since the last `reset`."""
        return self._figure(self.state)

    def reset(self) -> None:
        """Forget everything seen."""
        self.state = None

    def once(self, *batch: Any) -> Any:
        """The figure of one batch; what the accumulator has seen stays as it is."""
        return self._figure(self.measure(*batch))

    def __call__(self, *batch: Any) -> Any:
        measured = self.measure(*batch)
        figure = self._figure(measured)
        self._absorb(measured)
        return figure

    def merge(self, other: Self) -> Self:
        """Add what `other`, an accumulator of the same kind, has seen."""
        if type(other) is not type(self):
            raise OptionError(f"merge: expected another {type(self).__name__}, got {type(other).__name__}")
        if other.state is not None:
            self._absorb(_copied(other.state))
        return self

    def state_dict(self) -> dict[str, Tensor]:
        """What was seen, as tensors (of no entries before the first update)."""
        return {name: wrap(_joined(part)) for name, part in (self.state or {}).items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        if state_dict and set(state_dict) != set(self.fields):
            raise OptionError(
                f"{type(self).__name__}.load_state_dict: expected the entries {sorted(self.fields)}, "
                f"got {sorted(state_dict)}"
            )
        parts = {name: array_of(part).copy() for name, part in state_dict.items()}
        self.state = self.restored(parts) if parts else None

    def restored(self, parts: dict[str, NDArray]) -> State:
        """A state from the arrays of `state_dict`."""
        return parts

    def _absorb(self, measured: State) -> None:
        self.state = measured if self.state is None else self.combine(self.state, measured)

    def _figure(self, state: State | None) -> Any:
        if state is None or not np.all(state["count"]):
            raise NoDataError(f"{type(self).__name__}: no samples to compute from; call update with a batch first")
        return self.summarise(state)

    def __repr__(self) -> str:
        seen = 0 if self.state is None else self.state["count"]
        return f"{type(self).__name__}(seen={np.asarray(seen).tolist()})"


class Averaged(Metric):
    """A metric that is a total divided by a count."""

    fields = ("total", "count")

    def summarise(self, state: State) -> float:
        return float(state["total"] / state["count"])


class Mean(Averaged):
    """The mean of numbers, each with a weight (losses with their batch sizes): Σ wᵢ vᵢ / Σ wᵢ.

    >>> loss = Mean()
    >>> loss.update(2.0, 64); loss.update(1.0, 32)
    >>> round(loss.compute(), 4)
    1.6667
    """

    def measure(self, value: Any, weight: Any = 1.0) -> State:
        weights = numbers(weight)
        if (weights < 0).any():
            raise OptionError(f"Mean: expected weights ≥ 0, got {weights.min()}")
        weighted = numbers(value) * weights
        repeats = weighted.size / max(weights.size, 1)  # of each weight, by broadcasting
        return {"total": float(weighted.sum()), "count": float(weights.sum() * repeats)}


# ---- arguments ---------------------------------------------------------------------------------------------


def array_of(x: Any) -> NDArray:
    """The NumPy array of a tensor (its memory, without the graph), an array, a list or a number."""
    if isinstance(x, Tensor):
        return known_array(x, "a metric")
    try:
        return np.asarray(x)
    except ValueError as error:
        raise ShapeError(f"metrics: expected a tensor, an array or nested lists of equal lengths: {error}") from None


def numbers(x: Any) -> NDArray[np.float64]:
    """As float64; complex numbers and text are refused."""
    x = array_of(x)
    if x.dtype.kind in "cOSUM":
        raise DtypeError(f"metrics: expected real numbers, got {x.dtype}")
    return x.astype(np.float64, copy=False)


def rows_of(x: Any, name: str) -> NDArray[np.float64]:
    """Samples or features as float64, one a row: (N, D); NaN and infinities are refused."""
    x = numbers(x)
    if x.ndim != 2:
        raise ShapeError(f"{name}: expected features (N, D), got shape {x.shape}")
    if not np.isfinite(x).all():
        raise OptionError(f"{name}: {int((~np.isfinite(x)).any(1).sum())} of {len(x)} rows hold NaN or infinity")
    return x


def two_sides(pred: Any, target: Any, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Generated and real features, (N, D) and (M, D)."""
    x, y = rows_of(pred, name), rows_of(target, name)
    if x.shape[1] != y.shape[1]:
        raise ShapeError(f"{name}: numbers of features differ, {x.shape} and {y.shape}")
    return x, y


def is_floating(x: NDArray) -> bool:
    """Whether the elements are floating-point numbers (bfloat16 and its like have NumPy's kind "V")."""
    return x.dtype.kind in "fV"


def same_shape(pred: NDArray, target: NDArray, name: str) -> None:
    if pred.shape != target.shape:
        raise ShapeError(f"{name}: expected predictions and targets of one shape, got {pred.shape} and {target.shape}")


def chosen(option: Any, known: tuple, name: str) -> Any:
    """The option, if it is one of those known."""
    if option not in known:
        raise OptionError(f"{name}: expected one of {', '.join(map(repr, known))}, got {option!r}")
    return option


def simplified(figure: NDArray) -> float | Tensor:
    """A single number as a float, more as a tensor."""
    figure = np.asarray(figure)
    return wrap(figure) if figure.ndim else float(figure)


def _joined(part: Any) -> NDArray:
    return np.concatenate(part) if isinstance(part, list) else np.array(part)


def _copied(state: State) -> State:
    return {name: part.copy() if isinstance(part, (list, np.ndarray)) else part for name, part in state.items()}
