"""hopfield-capacity: how many random patterns a Hopfield network holds, and a digit completed from half of it (N1 §4.4).

Theory (Amit, Gutfreund and Sompolinsky 1985): with Hebb's rule, recall breaks down at α = P / N = 0.138, at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import weft

from ...data import load_digits
from ...models.energy.hopfield import Hopfield, recall_overlap
from .. import pictures
from ..base import Goal, Recipe, Run
from ..settings import Settings, option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CapacitySettings", "HopfieldCapacity", "recipe"]

THEORY = 0.138
LEVEL = 0.9  # an overlap between that of recall (0.97 at the edge) and that of confusion


@dataclass(kw_only=True)
class CapacitySettings(Settings):
    """Settings of hopfield-capacity."""

    size: int = option(2000, "units of the network", at_least=20)
    loads: tuple[float, ...] = option(
        (0.06, 0.1, 0.12, 0.13, 0.14, 0.15, 0.16, 0.18), "patterns for each unit", above=0
    )
    probes: int = option(60, "patterns recalled at each load", at_least=1)
    sweeps: int = option(30, "asynchronous updates of every unit", at_least=1)


class HopfieldCapacity(Recipe):
    """The overlap |⟨s, ξ⟩| / N of the state that recall ends in with the stored pattern that it began with."""

    title = "How many patterns a Hopfield network holds"
    Settings = CapacitySettings
    goal = Goal(
        "distance",
        at_most=0.02,
        data="random patterns: |α − 0.138| of the load α where the overlap falls below 0.9",
        baseline="the load 1 / (2 ln N), up to which no bit should be wrong after one step",
        margin=0.02,
    )

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        generator = weft.Generator().manual_seed(settings.seed)
        options = {"probes": settings.probes, "sweeps": settings.sweeps, "generator": generator}
        overlap = recall_overlap(settings.size, settings.loads, **options).mean(1).numpy()
        for number, (load, value) in enumerate(zip(settings.loads, overlap, strict=True)):
            row = {"kind": "epoch", "epoch": number, "step": number, "load": load, "overlap": float(value)}
            run.folder.append(row)
        critical = crossing(np.array(settings.loads), overlap)
        title = f"hopfield-capacity: {settings.size} units"
        run.draw(lambda: _curve(title, np.array(settings.loads), overlap))
        run.draw(lambda: _completion(settings.seed), "completion")
        simple = 1 / (2 * math.log(settings.size))
        return {
            "critical_load": critical,
            "distance": abs(critical - THEORY),
            self.goal.beside: abs(simple - THEORY),
        }, None


def crossing(loads: np.ndarray, overlap: np.ndarray) -> float:
    """The first load at which the overlap, joined by lines, falls below `LEVEL`; NaN if it never does."""
    below = np.flatnonzero(overlap < LEVEL)
    if not len(below) or not below[0]:
        return float("nan")
    last, next = below[0] - 1, below[0]
    share = (overlap[last] - LEVEL) / (overlap[last] - overlap[next])
    return float(loads[last] + share * (loads[next] - loads[last]))


def _curve(title: str, loads: np.ndarray, overlap: np.ndarray) -> Figure:
    figure, axes = pictures.blank(title)
    axes.plot(loads, overlap, "o-", color=pictures.COLOURS[0])
    axes.axvline(THEORY, color="grey", ls=":", label="theory, N → ∞")
    axes.set(xlabel="patterns for each unit, α = P / N", ylabel="overlap after recall", ylim=(0, 1.05))
    axes.legend(fontsize=8)
    return figure


def _completion(seed: int) -> Figure:
    """Eight digits that were stored; below them what is shown of them, and what the network makes of it."""
    from ...inspect.drawing import tiles

    images, labels = load_digits()
    chosen = [np.flatnonzero(labels == digit)[seed % 100] for digit in range(8)]
    stored = weft.tensor(np.where(images[chosen].reshape(-1, 64) > 7, 1.0, -1.0).astype(np.float32))
    shown = stored.clone()
    shown[:, 32:] = 0  # the lower half is not known
    found = Hopfield(stored, "pseudo-inverse").recall(shown)
    names = [name for name in ("stored", "shown", "recalled") for _ in chosen]
    return tiles(weft.cat([stored, shown, found]).reshape(-1, 8, 8).numpy(), names)


recipe = HopfieldCapacity()
