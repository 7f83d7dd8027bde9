"""momentum-rates: gradient descent falls as 1/t on a convex function, with Nesterov's momentum as 1/t² (N2 §3.4.4).

J(θ) = ½ Σ λᵢ θᵢ² with λ from 10⁻⁸ to 1, spaced evenly in ln λ: however long one descends, some directions are still flat,
so neither method may settle into the exponential decay of a function with one smallest curvature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import weft

from ... import optim
from ...tensor import Tensor
from .. import pictures
from ..base import Goal, Recipe, Run
from ..settings import Settings, option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Noise = Callable[[], Tensor | float]  # what is added to a gradient


@dataclass(kw_only=True)
class MomentumSettings(Settings):
    """Settings of momentum-rates."""

    steps: int = option(1000, "steps of descent", at_least=40)
    directions: int = option(200, "dimensions of θ", at_least=2)
    flattest: float = option(1e-8, "the smallest curvature λ; the largest is 1", above=0, at_most=0.5)
    noise: float = option(0.003, "standard deviation of what is added to gradients in the last comparison", at_least=0)


class MomentumRates(Recipe):
    """ε = 1/L for both. Bounds: L ‖θ₀‖² / (2 t) and 2 L ‖θ₀‖² / (t + 1)²."""

    title = "Gradient descent falls as 1/t, with Nesterov's momentum as 1/t²"
    Settings = MomentumSettings
    goal = Goal(
        "slope",
        at_most=-1.8,
        data="a quadratic with curvatures from 1e-8 to 1: d ln J / d ln t with momentum",
        baseline="gradient descent",
        margin=0.8,
    )

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        curvature = curvatures(settings)
        curves = {"gradient descent": descend(curvature, settings.steps)}
        curves["with momentum"] = accelerate(curvature, settings.steps)
        noisy = [method(curvature, settings.steps, _noise(settings)) for method in (descend, accelerate)]
        for t, values in enumerate(zip(*curves.values(), strict=True), 1):
            losses = dict(zip(("descent", "momentum"), map(float, values), strict=True))
            run.folder.append({"kind": "epoch", "epoch": t, "step": t, **losses})
        run.draw(lambda: _picture(curves, dict(zip(curves, noisy, strict=True))))
        slopes = [slope(curve) for curve in curves.values()]
        figures = {"slope": slopes[1], self.goal.beside: slopes[0]}
        figures |= {f"{name}_within_bound": float((c <= b).all()) for name, c, b in _bounded(curves, settings.steps)}
        return {**figures, "noisy_momentum_over_descent": float(noisy[1][-1] / noisy[0][-1])}, None


def curvatures(settings: MomentumSettings) -> Tensor:
    """λ from the flattest to 1. Shape: (directions,)"""
    return weft.logspace(np.log10(settings.flattest), 0, settings.directions, dtype=weft.float64)


def loss(theta: Tensor, curvature: Tensor) -> Tensor:
    """½ Σ λᵢ θᵢ²"""
    return (curvature * theta**2).sum() / 2


def start(curvature: Tensor) -> Tensor:
    """θ₀ of length 1, as far from the minimum in each direction."""
    return weft.full_like(curvature, len(curvature) ** -0.5)


def _quiet() -> float:
    return 0.0


def descend(curvature: Tensor, steps: int, noise: Noise = _quiet) -> Array:
    """J after each step of θ ← θ − g. Shape: (steps,)"""
    theta = start(curvature).requires_grad_()
    optimizer = optim.SGD([theta], lr=1.0)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss(theta, curvature).backward()
        theta.grad += noise()
        optimizer.step()
        found.append(loss(theta.detach(), curvature).item())
    return np.array(found)


def accelerate(curvature: Tensor, steps: int, noise: Noise = _quiet) -> Array:
    """J after each step of v ← γ v − ∇J(θ + γ v), θ ← θ + v with γ = (t − 1) / (t + 2). Shape: (steps,)"""
    theta = start(curvature)
    velocity = weft.zeros_like(theta)
    found = []
    for t in range(1, steps + 1):
        push = (t - 1) / (t + 2) * velocity
        ahead = (theta + push).requires_grad_()
        (gradient,) = weft.autograd.grad(loss(ahead, curvature), [ahead])
        velocity = push - gradient - noise()
        theta = theta + velocity
        found.append(loss(theta, curvature).item())
    return np.array(found)


def slope(curve: Array) -> float:
    """d ln J / d ln t over the last 19 twentieths of the steps, by least squares over equal stretches of ln t."""
    times = np.unique(np.geomspace(len(curve) / 20, len(curve), 60).astype(int))
    return float(np.polyfit(np.log(times), np.log(curve[times - 1]), 1)[0])


def bounds(steps: int) -> dict[str, Array]:
    """What theory allows for L = ‖θ₀‖ = 1. Shape: (steps,) each"""
    t = np.arange(1, steps + 1)
    return {"gradient descent": 1 / (2 * t), "with momentum": 2 / (t + 1) ** 2}


def _bounded(curves: dict[str, Array], steps: int) -> list[tuple[str, Array, Array]]:
    return list(zip(("descent", "momentum"), curves.values(), bounds(steps).values(), strict=True))


def _noise(settings: MomentumSettings) -> Noise:
    generator = weft.Generator().manual_seed(settings.seed)
    return lambda: weft.tensor(settings.noise * generator.normal((settings.directions,), np.float64))


def _picture(curves: dict[str, Array], noisy: dict[str, Array]) -> Figure:
    title = "momentum-rates: 1/t and 1/t² on a convex function, and with noisy gradients"
    figure, axes = pictures.blank(title, columns=2, width=5)
    for half, found, heading in zip(axes, (curves, noisy), ("exact gradients", "noisy gradients"), strict=True):
        for (name, curve), colour in zip(found.items(), pictures.COLOURS, strict=False):
            half.plot(np.arange(1, len(curve) + 1), curve, color=colour, label=name)
        half.set(xlabel="step t", ylabel="J − J*", xscale="log", yscale="log", title=heading)
    for (name, bound), colour in zip(bounds(len(curve)).items(), pictures.COLOURS, strict=False):
        axes[0].plot(np.arange(1, len(curve) + 1), bound, ":", color=colour, label=f"bound, {name}")
    for half in axes:
        half.legend(fontsize=8)
    return figure


recipe = MomentumRates()
