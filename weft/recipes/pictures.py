"""Pictures of what a model has learned; all need matplotlib and return figures that `Run.draw` saves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..runtime.extras import extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "blank", "curves", "decision_boundary"]

COLOURS = ("#2f6fad", "#c4662d", "#3d8b37", "#8a5aa8")


def blank(title: str, columns: int = 1, width: float = 6.4, height: float = 4.4) -> tuple[Figure, Any]:
    """A figure with one row of axes, and the axes (an array if there are several)."""
    figure = extra("matplotlib.figure", "pictures need").Figure(figsize=(width * columns, height), layout="constrained")
    figure.suptitle(title)
    return figure, figure.subplots(1, columns)


def decision_boundary(
    title: str, score: Callable[[NDArray], NDArray], points: NDArray, labels: NDArray, steps: int = 200
) -> Figure:
    """Points of two classes in the plane over the score of the second, whose zero line is the boundary.

    score: (N, 2) → (N,), positive where the second class is more probable; points (N, 2), labels (N,) of 0 and 1
    """
    figure, axes = blank(title, width=5.6, height=5)
    low, high = points.min(0) - 0.3, points.max(0) + 0.3
    x, y = np.meshgrid(np.linspace(low[0], high[0], steps), np.linspace(low[1], high[1], steps))
    grid = np.stack([x, y], -1).reshape(-1, 2).astype(np.float32)  # (steps, steps, 2) → (steps², 2)
    z = np.tanh(score(grid) / 2).reshape(x.shape)
    axes.contourf(x, y, z, levels=np.linspace(-1, 1, 21), cmap="RdBu", alpha=0.45)
    axes.contour(x, y, z, levels=[0], colors="black", linewidths=1.2)
    for label, colour in ((0, "#a3302a"), (1, "#22518a")):
        axes.plot(*points[labels == label].T, "o", color=colour, ms=3.5, mec="white", mew=0.3, label=f"class {label}")
    axes.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
    axes.legend(loc="best", fontsize=8)
    return figure


def curves(title: str, x: NDArray, lines: dict[str, NDArray], points: tuple[NDArray, NDArray] | None = None) -> Figure:
    """Curves over x by name, and the points they were fitted to."""
    figure, axes = blank(title)
    if points is not None:
        axes.plot(*points, "o", color="grey", ms=4, label="training data")
    for (name, y), colour, style in zip(lines.items(), COLOURS, ("-", "--", ":", "-."), strict=False):
        axes.plot(x, y, style, color=colour, label=name)
    axes.set(xlabel="x", ylabel="y")
    axes.legend(fontsize=8)
    return figure
