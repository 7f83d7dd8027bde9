"""epoch-double-descent: the error on new data falls, rises and falls again while one model is trained (N1 §1.5).

Least squares by gradient descent on many features of large variance, which are learned first, and a few of small
variance, which are learned late: two curves of bias and variance, one after the other (Heckel and Yilmaz, 2021). Everything
has a closed form: with H = XᵀX / n and A = I − (I − ε H)ᵗ the mean over noise of the error above it is
‖Σ^½ (I − A) w‖² + σ²/n tr(Σ A H⁻¹ A).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import weft

from ... import optim
from .. import pictures
from ..base import Goal, Recipe, Run
from ..settings import Settings, option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


@dataclass(kw_only=True)
class EpochDescentSettings(Settings):
    """Settings of epoch-double-descent."""

    epochs: int = option(20_000, "passes over the rows, a step of descent each", at_least=1)
    examples: int = option(100, "rows of the training set", at_least=2)
    early: int = option(50, "features of variance 1", at_least=1)
    late: int = option(5, "features of small variance", at_least=1)
    scale: float = option(0.1, "standard deviation of the late features", above=0, at_most=1)
    step: float = option(0.2, "step size, as a share of 1 / the largest curvature", above=0, at_most=1)
    noise: float = option(1.0, "standard deviation of the noise", above=0)
    early_signal: float = option(6.0, "variance of the target that the early features explain", at_least=0)
    late_signal: float = option(4.0, "variance of the target that the late features explain", at_least=0)
    repeats: int = option(50, "draws of the noise that errors are averaged over", at_least=1)


class EpochDoubleDescent(Recipe):
    """Who stops at the first minimum, as early stopping would, misses the second descent."""

    title = "Double descent over epochs: the error falls, rises and falls again"
    Settings = EpochDescentSettings
    goal = Goal(
        "last_error",
        at_most=2.0,
        data="fresh rows: squared error above the noise at the end of training",
        baseline="stopping at the first minimum",
        margin=0.5,
        relative=True,
    )

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        problem = Problem(run.settings)
        told, found, train = problem.foretold(), *problem.descend()
        for epoch, error, law, loss in zip(problem.times, found, told, train, strict=True):
            row = {"error": float(error), "foretold": float(law), "train_loss": float(loss)}
            run.folder.append({"kind": "epoch", "epoch": int(epoch), "step": int(epoch), **row})
        run.draw(lambda: _picture(problem.times, found, told, train))
        first, peak = turns(found)
        figures = {"last_error": float(found[-1]), self.goal.beside: first, "peak_error": peak}
        return {**figures, "departure": float(np.abs(found / told - 1).max())}, None


class Problem:
    """Rows (n, D), the true weights, and targets with many draws of the noise (n, repeats)."""

    def __init__(self, settings: EpochDescentSettings) -> None:
        self.settings = settings
        rows, noise = weft.Generator().manual_seed(settings.seed).split(2)
        sizes = (settings.early, settings.late)
        self.spread = np.repeat([1.0, settings.scale], sizes)  # Σ^½, (D,)
        signals = np.repeat([settings.early_signal / settings.early, settings.late_signal / settings.late], sizes)
        self.weights = np.sqrt(signals) / self.spread
        self.x = rows.normal((settings.examples, sum(sizes)), np.float64) * self.spread
        draws = settings.noise * noise.normal((settings.examples, settings.repeats), np.float64)
        self.y = (self.x @ self.weights)[:, None] + draws
        self.curvatures, self.axes = np.linalg.eigh(self.x.T @ self.x / settings.examples)  # of H
        self.step = settings.step / self.curvatures[-1]  # ε
        self.times = np.unique(np.geomspace(1, settings.epochs, 80).astype(int))

    def foretold(self) -> Array:
        """The mean error over noise at each time, in closed form. Shape: (times,)"""
        return np.array([self.bias(t) + self.variance(t) for t in self.times])

    def bias(self, time: int) -> float:
        """‖Σ^½ (I − ε H)ᵗ w‖²"""
        left = self.axes @ ((1 - self.step * self.curvatures) ** time * (self.axes.T @ self.weights))
        return float(((self.spread * left) ** 2).sum())

    def variance(self, time: int) -> float:
        """σ²/n tr(Σ A H⁻¹ A); along an axis of curvature 0 nothing is learned."""
        learned = 1 - (1 - self.step * self.curvatures) ** time
        safe = np.maximum(self.curvatures, 1e-12 * self.curvatures[-1])
        weighted = (self.spread[:, None] * self.axes) ** 2 @ (learned**2 / safe)
        return float(self.settings.noise**2 / self.settings.examples * weighted.sum())

    def descend(self) -> tuple[Array, Array]:
        """Errors above the noise on new rows, and training losses, of descent from 0, averaged. Shape: (times,) each"""
        x, y = weft.tensor(self.x), weft.tensor(self.y)
        weights = weft.zeros(x.shape[1], y.shape[1], dtype=weft.float64, requires_grad=True)  # (D, repeats)
        optimizer = optim.SGD([weights], lr=self.step)

        @weft.compile
        def step() -> weft.Tensor:
            optimizer.zero_grad()
            loss = ((x @ weights - y) ** 2).sum() / (2 * len(x))  # of every draw its own
            loss.backward()
            optimizer.step()
            return loss

        errors, losses, times = [], [], set(self.times.tolist())
        for time in range(1, self.settings.epochs + 1):
            loss = step()
            if time in times:
                away = self.spread[:, None] * (weights.detach().numpy() - self.weights[:, None])
                errors.append((away**2).sum(0).mean())
                losses.append(2 * loss.item() / y.shape[1])
        return np.array(errors), np.array(losses)


def turns(errors: Array) -> tuple[float, float]:
    """The first minimum and the peak after it: where the error has risen most above the least before; NaN if it never rose."""
    least = np.minimum.accumulate(errors)
    peak = int((errors / least).argmax())
    return (float(least[peak]), float(errors[peak])) if errors[peak] > least[peak] else (float("nan"),) * 2


def _picture(times: NDArray, found: Array, told: Array, train: Array) -> Figure:
    figure, axes = pictures.blank("epoch-double-descent: one model, more and more epochs")
    axes.plot(times, told, "-", color=pictures.COLOURS[1], label="new data, closed form")
    axes.plot(times, found, "o", ms=3.5, color=pictures.COLOURS[1], label="new data, measured")
    axes.plot(times, train, "-", color=pictures.COLOURS[0], label="training data (noise included)")
    axes.set(xlabel="epoch", ylabel="mean squared error", xscale="log", ylim=(0, None))
    axes.legend(fontsize=8)
    return figure


recipe = EpochDoubleDescent()
