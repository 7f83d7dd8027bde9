"""What a step logs: numbers that come back from compiled code, their means, and metrics fed after the step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import OptionError, ShapeError
from ...tape.modes import mode
from ...tensor import Tensor
from ...utils.pytree import tree_leaves

__all__ = ["Fed", "Logged", "Means", "Recorder", "as_float", "batch_size_of", "live_number"]

Logged = dict[str, tuple[Any, int | None]]  # name → (value, batch size if it was given)
Fed = list[tuple[str, tuple[Any, ...]]]  # (name of the metric, what it is updated with)


class Recorder:
    """Collects what one step logs. While a step is traced the values are symbolic; they leave it as its results."""

    def __init__(self) -> None:
        self.values: Logged = {}
        self.fed: Fed = []
        self.metrics: dict[str, Any] = {}  # by the names they are logged under
        self.shown: dict[str, None] = {}  # names for the progress line, in order
        self.waiting: dict[str, Any] = {}  # states of metrics that a checkpoint brought and no step has named yet

    def begin(self) -> None:
        """Forget the last step."""
        self.values, self.fed = {}, []

    def log(self, name: str, value: Any, prog_bar: bool, batch_size: int | None) -> None:
        if isinstance(value, Tensor):
            if value.numel() != 1:
                raise ShapeError(f"log({name!r}): expected one number, got shape {tuple(value.shape)}; take its mean")
            value = value.detach().reshape(())  # (1,) or () → ()
        elif not isinstance(value, (int, float, np.number)):
            raise OptionError(
                f"log({name!r}): expected a scalar tensor or a number, got {type(value).__name__}; metrics: measure()"
            )
        self.values[name] = (value, batch_size)
        if prog_bar:
            self.shown[name] = None

    def measure(self, name: str, metric: Any, given: tuple[Any, ...], prog_bar: bool) -> None:
        if name not in self.metrics and name in self.waiting:
            metric.load_state_dict(self.waiting.pop(name))
        self.metrics[name] = metric
        self.fed.append((name, tuple(x.detach() if isinstance(x, Tensor) else x for x in given)))
        if prog_bar:
            self.shown[name] = None

    def feed(self, fed: Fed) -> None:
        """Update metrics with what a step handed over."""
        for name, given in fed:
            self.metrics[name].update(*given)

    def state_dict(self) -> dict[str, Any]:
        """States of the metrics, by name."""
        return {name: metric.state_dict() for name, metric in self.metrics.items()} | self.waiting

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Give metrics their states, those that are not known yet when they are first named."""
        self.waiting = dict(state)
        for name in [name for name in state if name in self.metrics]:
            self.metrics[name].load_state_dict(self.waiting.pop(name))

    def collect(self, names: set[str], reset: bool = True) -> dict[str, float]:
        """Compute (and reset) the metrics of these names."""
        out: dict[str, float] = {}
        for name in [name for name in self.metrics if name in names]:
            out |= _figures(name, self.metrics[name].compute())
            if reset:
                self.metrics[name].reset()
        return out

    def forget(self, names: set[str]) -> None:
        """Reset the metrics of these names."""
        for name in names & set(self.metrics):
            self.metrics[name].reset()


class Means:
    """Weighted means of what an epoch logs: Σ w v / Σ w."""

    def __init__(self) -> None:
        self.sums: dict[str, list[float]] = {}

    def add(self, name: str, value: float, weight: float) -> None:
        pair = self.sums.setdefault(name, [0.0, 0.0])
        pair[0] += value * weight
        pair[1] += weight

    def add_all(self, values: Logged, batch_size: int) -> dict[str, float]:
        """Add what a step logged, but for values with weight 0; the numbers."""
        out = {}
        for name, (value, given) in values.items():
            out[name] = as_float(value)
            if given != 0:
                self.add(name, out[name], batch_size if given is None else given)
        return out

    def compute(self) -> dict[str, float]:
        return {name: total / weight if weight else math.nan for name, (total, weight) in self.sums.items()}

    def state_dict(self) -> dict[str, Any]:
        return {name: list(pair) for name, pair in self.sums.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.sums = {name: list(pair) for name, pair in state.items()}


def _figures(name: str, value: Any) -> dict[str, float]:
    """The figures of a metric: one number, or `name_key` for the entries of a dict, `name_0` … for those of a vector.

    Matrices (of confusion) are no figures; they are found in the metric itself.
    """
    if isinstance(value, dict):
        return {k: v for key, part in value.items() for k, v in _figures(f"{name}_{key}", part).items()}
    if getattr(value, "ndim", 0) == 0:
        return {name: as_float(value)}
    if value.ndim == 1:
        return {f"{name}_{number}": as_float(part) for number, part in enumerate(value)}
    return {}


def as_float(value: Any) -> float:
    """A number, of a scalar tensor or array."""
    return float(value.item() if hasattr(value, "item") else value)


def batch_size_of(batch: Any) -> int:
    """The length of the first tensor with dimensions in a batch; 1 if there is none."""
    for leaf in tree_leaves(batch):
        if isinstance(leaf, Tensor) and leaf.ndim:
            return leaf.shape[0]
    return 1


def live_number(fetch: Callable[[], int], label: str) -> Any:
    """A number that changes between steps. In a trace it is read at every call, so that it makes no new plan.

    Where Python decides by it (`if batch_idx % 100 == 0`), the plan holds as long as the decision stays the same.
    """
    return fetch() if mode.interpreter is None else mode.interpreter.live(fetch, float, label)
