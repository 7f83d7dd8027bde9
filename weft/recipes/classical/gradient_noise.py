"""gradient-noise: how the gradient of a mini-batch scatters, beside the law var g = var ∇L / |B| (N2 §3.4.2–3.4.3).

Batches drawn without replacement, as loaders draw them, scatter less: (N − |B|) / (N − 1) of that, 0 for all N examples.
A second table doubles the step and the batch, for losses that are means and for losses that are sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import weft

from ... import func, nn
from ...data import load_digits
from ...errors import OptionError
from ...models.classical.mlp import MLP
from .. import pictures
from ..base import Goal, Recipe, Run
from ..settings import Settings, option
from ..shared import Pair

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Indices = Callable[[weft.Generator], NDArray]  # which examples are in the next batch
CHANGES = {"2 × step": (2, 1), "2 × batch": (1, 2), "2 × step, ½ batch": (2, 0.5)}  # factors of ε and |B|
TABLE = {  # (loss, change) → factors of the step's length ‖ε E g‖ and of the variance of g
    ("mean", "2 × step"): (2, 1),
    ("mean", "2 × batch"): (1, 0.5),
    ("mean", "2 × step, ½ batch"): (2, 2),
    ("sum", "2 × step"): (2, 1),
    ("sum", "2 × batch"): (2, 2),
    ("sum", "2 × step, ½ batch"): (1, 0.5),
}


@dataclass(kw_only=True)
class GradientNoiseSettings(Settings):
    """Settings of gradient-noise."""

    examples: int = option(500, "digits that batches are drawn from", at_least=4, at_most=1797)
    hidden: int = option(16, "units of the network's hidden layer", at_least=1)
    draws: int = option(400, "batches of each size", at_least=2)
    batches: tuple[int, ...] = option((1, 3, 10, 30, 100, 200, 300), "sizes of batches", at_least=1)
    middle: int = option(32, "the batch that is doubled and halved in the table", at_least=2)


class GradientNoise(Recipe):
    """The gradients of single examples tell the variance of every batch's; the batches are drawn and measured, too."""

    title = "The variance of a mini-batch's gradient, measured and foretold"
    Settings = GradientNoiseSettings
    goal = Goal(
        "departure",
        at_most=0.15,
        data="batches of 500 digits, drawn without replacement: largest relative error of the variance foretold",
        baseline="1/|B| alone",
        margin=0.2,
    )

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        problem = Problem(settings)
        spread = scatter(problem.single())
        rows = [self.measured(problem, size, spread) for size in settings.batches]
        for row in rows:
            run.folder.append({"kind": "epoch", "epoch": row["batch"], "step": row["batch"], **row})
        table = problem.table()
        run.folder.log("\n".join(_table_lines(table)))
        run.draw(lambda: _picture(rows, table))
        slope = np.polyfit(*(np.log([row[key] for row in rows]) for key in ("batch", "replaced")), 1)[0]
        departures = {key: _departure(rows, "variance", key) for key in ("law", "corrected")}
        wrong = max(abs(a / b - 1) for key, told in TABLE.items() for a, b in zip(table[key], told, strict=True))
        figures = {"slope": float(slope), "departure": departures["corrected"], self.goal.beside: departures["law"]}
        return {**figures, "departure_replaced": _departure(rows, "replaced", "law"), "table_error": wrong}, None

    def measured(self, problem: Problem, size: int, spread: float) -> dict[str, float]:
        """Variances of the gradients of batches of this size, drawn with and without replacement, and as foretold."""
        count = problem.settings.examples
        if size >= count:
            raise OptionError(f"gradient-noise: batches must be smaller than the {count} examples, got {size}")
        row = {"batch": size, "variance": scatter(problem.drawn(without(count, size)))}
        row["replaced"] = scatter(problem.drawn(replaced(count, size)))
        return {**row, "law": spread / size, "corrected": spread / size * (count - size) / (count - 1)}


class Problem:
    """A small network at its first weights, and digits: gradients of the cross entropy, as rows. Shape: (draws, weights)"""

    def __init__(self, settings: GradientNoiseSettings) -> None:
        self.settings = settings
        self.x, self.y = _digits(settings.examples)
        self.model = MLP(64, (settings.hidden,), 10, activation="tanh").double()
        self.generator = weft.Generator().manual_seed(settings.seed)

    def single(self) -> Array:
        """The gradient of each example. Shape: (N, weights)"""
        weights = {name: weight.detach() for name, weight in self.model.named_parameters()}

        def loss(weights: Any, x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
            return nn.functional.cross_entropy(func.functional_call(self.model, weights, (x[None],)), y[None])

        found = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(weights, self.x, self.y)
        return np.concatenate([g.numpy().reshape(len(self.x), -1) for g in found.values()], 1)

    def drawn(self, indices: Indices, reduction: str = "mean") -> Array:
        """Gradients of batches. Shape: (draws, weights)"""
        return np.stack([self.gradient(indices(self.generator), reduction) for _ in range(self.settings.draws)])

    def gradient(self, indices: NDArray, reduction: str) -> Array:
        """The gradient of one batch. Shape: (weights,)"""
        loss = nn.functional.cross_entropy(self.model(self.x[indices]), self.y[indices], reduction=reduction)
        return np.concatenate([g.numpy().ravel() for g in weft.autograd.grad(loss, list(self.model.parameters()))])

    def table(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Factors by which ‖ε E g‖ and var g change, measured."""
        return {
            (reduction, change): self.changed(reduction, *CHANGES[change])
            for reduction in ("mean", "sum")
            for change in CHANGES
        }

    def changed(self, reduction: str, step: float, batch: float) -> tuple[float, float]:
        """With `step` times the step size and `batch` times the batch."""
        sizes = self.settings.middle, int(batch * self.settings.middle)
        (length, variance), (new_length, new_variance) = (
            (float(np.linalg.norm(g.mean(0))), scatter(g))
            for g in (self.drawn(replaced(len(self.x), size), reduction) for size in sizes)
        )
        return step * new_length / length, new_variance / variance


def scatter(gradients: Array) -> float:
    """tr var g = Σ_k var g_k over the rows. Shape: (draws, weights) → ()"""
    return float(gradients.var(0, ddof=1).sum())


def replaced(count: int, size: int) -> Indices:
    """Batches of independent examples: one may come twice."""
    return lambda generator: generator.integers(0, count, (size,))


def without(count: int, size: int) -> Indices:
    """Batches of different examples, as loaders draw them."""
    return lambda generator: generator.permutation(count)[:size]


def _digits(count: int) -> Pair:
    """Pixels in [0, 1] (N, 64) and labels (N,)."""
    images, labels = (part[:count] for part in load_digits())
    return weft.tensor(images.reshape(count, -1) / 16, dtype=weft.float64), weft.tensor(labels, dtype=weft.int64)


def _departure(rows: list[dict[str, float]], measured: str, told: str) -> float:
    return max(abs(row[measured] / row[told] - 1) for row in rows)


def _table_lines(table: dict[tuple[str, str], tuple[float, float]]) -> Iterator[str]:
    yield "factors of the step's length and of the gradient's variance, measured (foretold)"
    for key, found in table.items():
        words = (f"{a:.2f} ({b:g})" for a, b in zip(found, TABLE[key], strict=True))
        yield f"{key[0]:5} {key[1]:18} {'  '.join(words)}"


def _picture(rows: list[dict[str, float]], table: dict[tuple[str, str], tuple[float, float]]) -> Figure:
    figure, (left, right) = pictures.blank("gradient-noise: variance of a mini-batch's gradient", columns=2, width=5)
    sizes = [row["batch"] for row in rows]
    for (key, law), colour, label in zip(
        (("replaced", "law"), ("variance", "corrected")), pictures.COLOURS, ("with", "without"), strict=False
    ):
        left.plot(sizes, [row[key] for row in rows], "o", color=colour, label=f"drawn {label} replacement")
        left.plot(sizes, [row[law] for row in rows], "-", color=colour, lw=1, label="as foretold")
    left.set(xlabel="batch size |B|", ylabel="variance (trace)", xscale="log", yscale="log")
    left.legend(fontsize=8)
    names = [f"{reduction} loss, {change}" for reduction, change in table]
    for part, (label, colour) in enumerate((("length of the step", pictures.COLOURS[2]), ("variance", "grey"))):
        places = np.arange(len(names)) + 0.2 * (2 * part - 1)
        right.barh(places, [found[part] for found in table.values()], 0.36, color=colour, label=label)
        right.plot([TABLE[key][part] for key in table], places, "k|", ms=12)
    right.set_yticks(range(len(names)), names, fontsize=8)
    right.invert_yaxis()
    right.set(xlabel="factor measured; ticks: as foretold", xlim=(0, 3))
    right.legend(fontsize=8, loc="lower right")
    return figure


recipe = GradientNoise()
