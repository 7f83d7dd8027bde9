"""ising-4x4: Gibbs sampling of the Ising model against sums over all states, and of a large lattice against Onsager."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import weft

from ...models.energy.ising import CRITICAL, IsingLattice, onsager_energy, onsager_magnetisation
from ...tensor import Tensor
from .. import pictures
from ..base import Goal, Recipe, Run
from ..settings import Settings, option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Ising4x4", "IsingSettings", "recipe"]


@dataclass(kw_only=True)
class IsingSettings(Settings):
    """Settings of ising-4x4."""

    couplings: tuple[float, ...] = option((0.1, 0.2, 0.3, 0.4, 0.5, 0.6), "inverse temperatures J / kT", above=0)
    chains: int = option(400, "independent chains on the small lattice", at_least=2)
    sweeps: int = option(2000, "sweeps of each, a fifth of them before anything counts", at_least=20)
    large: int = option(64, "side of the large lattice", at_least=2)
    large_chains: int = option(8, "independent chains on it", at_least=2)
    large_couplings: tuple[float, ...] = option((0.2, 0.3, 0.36, 0.5, 0.6), "inverse temperatures there", above=0)


class Ising4x4(Recipe):
    """p(s) ∝ exp(K Σ sᵢ sⱼ); energy and magnetisation a spin, with the spread of independent chains as error."""

    title = "The Ising model: chains against sums over all states and against Onsager"
    Settings = IsingSettings
    goal = Goal(
        "deviations",
        at_most=4.0,
        data="2^16 states of a 4×4 torus: standard errors of the worst figure",
        baseline="mean-field theory",
        margin=10.0,
    )

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        generator = weft.Generator().manual_seed(settings.seed)
        rows = [_compared(k, 4, settings.chains, settings.sweeps, generator, exact=True) for k in settings.couplings]
        large = [
            _compared(k, settings.large, settings.large_chains, settings.sweeps, generator, exact=False)
            for k in settings.large_couplings
        ]
        for number, row in enumerate([*rows, *large]):
            run.folder.append({"kind": "epoch", "epoch": number, "step": number, **row})
        run.draw(lambda: _picture(large, settings.large))
        onsager = [abs(row["energy"] - row["true_energy"]) for row in large]
        ordered = [row for row in large if row["coupling"] > CRITICAL]  # below, |m| of a finite lattice is not 0
        return {
            "deviations": _worst(rows, lambda row, name: row[name]),
            self.goal.beside: _worst(rows, lambda row, name: mean_field(row["coupling"])[name]),
            "onsager_energy_gap": max(onsager),
            "onsager_energy_deviations": _worst(large, lambda row, name: row[name], ("energy",)),
            "onsager_magnetisation_deviations": _worst(ordered, lambda row, name: row[name], ("magnetisation",)),
        }, None


NAMES = ("energy", "magnetisation")


def mean_field(coupling: float) -> dict[str, float]:
    """Every spin in the mean field of its four neighbours: m = tanh(4 K m), energy −2 m² a spin."""
    m = 1.0
    for _ in range(1000):
        m = math.tanh(4 * coupling * m)
    return {"energy": -2 * m**2, "magnetisation": m}


def _worst(
    rows: list[dict[str, float]], found: Callable[[dict[str, float], str], float], names: tuple[str, ...] = NAMES
) -> float:
    """The largest distance to the truth, in standard errors of the chains."""
    away = [abs(found(row, name) - row[f"true_{name}"]) / row[f"{name}_error"] for row in rows for name in names]
    return max(away, default=0.0)


def _compared(coupling: float, side: int, chains: int, sweeps: int, generator: Any, exact: bool) -> dict[str, float]:
    """Means over chains with their standard errors, beside the truth: exact sums, or the infinite lattice."""
    lattice = IsingLattice(side, side, coupling)
    run = weft.compile(lambda x, g: lattice.chain(x, sweeps, g)[1])
    seen = run(weft.ones(chains, side, side), generator)
    row = {"side": float(side), "coupling": coupling}
    infinite = {"energy": onsager_energy(coupling), "magnetisation": onsager_magnetisation(coupling)}
    truth = lattice.expected() if exact else infinite
    for name in NAMES:
        value, error = _mean(seen[name][sweeps // 5 :])
        row |= {name: value, f"{name}_error": error, f"true_{name}": float(truth[name])}
    return row


def _mean(values: Tensor) -> tuple[float, float]:
    """The mean over time and chains, (T, B), and its error: chains are independent, moments of one chain are not."""
    chains = values.double().mean(0)
    return chains.mean().item(), chains.std().item() / len(chains) ** 0.5


def _picture(rows: list[dict[str, float]], side: int) -> Figure:
    figure, axes = pictures.blank(f"ising-4x4: {side}×{side} spins and Onsager's solution", 2)
    line = np.linspace(0.1, 0.7, 300)
    for axis, name, curve in zip(axes, NAMES, (onsager_energy, onsager_magnetisation), strict=True):
        axis.plot(line, curve(line), color="grey", label="infinite lattice")
        found = np.array([(row["coupling"], row[name], 2 * row[f"{name}_error"]) for row in rows]).T
        axis.errorbar(found[0], found[1], found[2], fmt="o", ms=4, color=pictures.COLOURS[0], label="chains")
        axis.set(xlabel="J / kT", ylabel=f"{name} a spin")
        axis.legend(fontsize=8)
    return figure


recipe = Ising4x4()
