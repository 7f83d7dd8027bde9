"""Lottery tickets: sparse networks that learn as well as the dense one, if they start from its first weights.

Train, prune the weights of least magnitude, set the others back to where they began, train again, and so on. The
control has the same masks and newly drawn weights: that it does worse shows that the weights matter and not only the
wiring. (Frankle and Carbin 2019; rewinding to an early step rather than the first: Frankle et al. 2020.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import OptionError
from ...inspect.drawing import Picture, blank
from ...tensor import Tensor
from .parts import Patterns
from .pruning import custom_from_mask, global_unstructured, identity, masks, prunable, sparsity, weights_by_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..task import Task

__all__ = ["Lottery", "LotteryRow", "lottery_ticket"]

Make = Callable[[int], "Task"]
Fit = Callable[["Task"], float]


@dataclass(frozen=True)
class LotteryRow:
    """Scores after one round, means over the seeds; the dense network has no control (NaN)."""

    round: int
    sparsity: float
    ticket: float
    control: float


@dataclass(frozen=True)
class Lottery(Picture):
    """The rounds of a study, and the last ticket of its first seed, trained. Printed as a table."""

    rows: list[LotteryRow]
    task: Any = field(default=None, repr=False, compare=False)

    @property
    def dense(self) -> float:
        """The score of the network before any pruning."""
        return self.rows[0].ticket

    def __str__(self) -> str:
        lines = [f"{r.round:>5}  {r.sparsity:>8.1%}  {r.ticket:>8.4f}  {r.control:>8.4f}" for r in self.rows]
        return "\n".join([f"{'round':>5}  {'sparsity':>8}  {'ticket':>8}  {'control':>8}", *lines])

    def figure(self, ylabel: str = "score") -> Figure:
        """Scores of tickets and controls over the share of pruned weights."""
        figure, ((axes,),) = blank(width=6.4, height=4.4)
        axes.plot([100 * r.sparsity for r in self.rows], [r.ticket for r in self.rows], "o-", label="rewound ticket")
        drawn = [r for r in self.rows if not np.isnan(r.control)]
        axes.plot([100 * r.sparsity for r in drawn], [r.control for r in drawn], "s--", label="new weights")
        axes.axhline(self.dense, color="grey", ls=":", label="dense")
        axes.set(xlabel="weights pruned (%)", ylabel=ylabel, title="Lottery tickets and their controls")
        axes.legend(fontsize=8)
        return figure


def lottery_ticket(
    make: Make,
    fit: Fit,
    *,
    rounds: int = 5,
    amount: float = 0.2,
    patterns: Patterns | None = None,
    warm_up: Callable[[Task], Any] | None = None,
    control: bool = True,
    seeds: Sequence[int] = (0,),
) -> Lottery:
    """Train, prune `amount` of the weights that are left by magnitude over all layers, rewind, repeat.

    make(seed): a fresh task; fit(task): trains it and returns its score. warm_up(task) trains to the point to rewind
    to; None: the first weights. After round k a share 1 − (1 − amount)ᵏ is pruned. Seeds of controls are 1000 higher.

    >>> study = lottery_ticket(make, fit, rounds=3, amount=0.415)  # 80 % pruned at the end
    >>> print(study)
    """
    if rounds < 0 or not 0 < amount < 1 or not seeds:
        raise OptionError(
            f"lottery_ticket: expected rounds ≥ 0, 0 < amount < 1 and seeds, got {rounds}, {amount}, {seeds}"
        )
    found, tasks = [], []
    for seed in seeds:
        task, rows = _search(lambda s=seed: _begun(make(s), patterns, warm_up), fit, rounds, amount, patterns)
        tasks.append(task)
        found.append(rows)
        if control:
            _run_controls(rows, lambda s=seed: _begun(make(s + 1000), patterns, warm_up), fit)
    return Lottery([_mean(number, rows) for number, rows in enumerate(zip(*found, strict=True))], tasks[0])


@dataclass
class _Round:
    """One round of one seed."""

    masks: dict[str, Tensor]
    sparsity: float
    ticket: float
    control: float = float("nan")


def _begun(task: Task, patterns: Patterns | None, warm_up: Callable[[Task], Any] | None) -> Task:
    """A task at the point that is rewound to, with masks of ones."""
    for weight in prunable(task, patterns):
        identity(*weight)
    if warm_up is not None:
        warm_up(task)
    return task


def _search(
    begin: Callable[[], Task], fit: Fit, rounds: int, amount: float, patterns: Patterns | None
) -> tuple[Task, list[_Round]]:
    """Rounds of training, pruning and rewinding of one network."""
    task = begin()
    weights = prunable(task, patterns)
    first = {name: value.clone() for name, value in task.state_dict().items()}
    rows = [_Round({}, 0.0, fit(task))]
    for _ in range(rounds):
        global_unstructured(weights, amount)
        kept = {name: mask.clone() for name, mask in masks(task).items()}
        task.load_state_dict(first)
        _put_on(task, kept)
        rows.append(_Round(kept, sparsity(task, patterns).total, fit(task)))
    return task, rows


def _run_controls(rows: list[_Round], begin: Callable[[], Task], fit: Fit) -> None:
    """Newly drawn weights under the masks of each round."""
    for row in rows[1:]:
        task = begin()
        _put_on(task, row.masks)
        row.control = fit(task)


def _put_on(task: Task, kept: dict[str, Tensor]) -> None:
    """Give the weights of a task these masks, by name."""
    places = weights_by_name(task)
    for name, mask in kept.items():
        custom_from_mask(*places[name], mask)


def _mean(number: int, rows: Sequence[_Round]) -> LotteryRow:
    means = (float(np.mean([getattr(row, part) for row in rows])) for part in ("sparsity", "ticket", "control"))
    return LotteryRow(number, *means)
