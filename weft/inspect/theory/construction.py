"""Universal approximation by construction: networks written down, not trained, with a bound on their error (N1 §1.2).

Sigmoids make steps, two steps a bump, bumps along every axis a tower, towers on a grid any continuous function.
Rectifiers make polygons. Notes: N1's bump carries factors ½ that belong to tanh (½ tanh(z/2) + ½ = σ(z)); with the
logistic σ the bump is σ(k(x − a)) − σ(k(x − b)). N1's last offset is d − ½, between d − 1 (one bump missing) and d.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import wrap
from ..drawing import COLOURS, Picture, blank

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    *("Approximation", "approximate_by_lines", "approximate_by_towers", "bump_bound", "bump_network"),
    *("cells_needed", "tower_bound", "tower_network"),
]

Function = Callable[[NDArray], NDArray]


@dataclasses.dataclass(frozen=True)
class Approximation(Picture):
    """A network f̃ built for a function f: (N, d) → (N,) on a box, with |f − f̃| ≤ bound.

    margin: how far from the faces of the grid cells (along every axis) the bound holds; 0: everywhere in the box.
    faces: the coordinates of these faces along each axis
    """

    network: nn.Sequential
    function: Function
    low: tuple[float, ...]
    high: tuple[float, ...]
    bound: float
    margin: float
    faces: tuple[NDArray, ...]

    def points(self, per_axis: int) -> NDArray[np.float64]:
        """A grid of the box, without the points where the bound is not claimed: (N, d)."""
        axes = [np.linspace(a, b, per_axis) for a, b in zip(self.low, self.high, strict=True)]
        if self.margin:
            axes = [
                t[np.abs(t[:, None] - f).min(1) >= self.margin * (1 - 1e-9)]
                for t, f in zip(axes, self.faces, strict=True)
            ]
        return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))  # (n₁, …, n_d, d) → (N, d)

    def values(self, points: NDArray) -> NDArray[np.float64]:
        """f̃ at points (N, d): (N,)."""
        kind = next(self.network.parameters()).dtype.np
        with weft.no_grad():
            return self.network(wrap(points.astype(kind))).array[:, 0].astype(np.float64)

    def error(self, per_axis: int = 200) -> float:
        """max |f − f̃| over a grid of the points for which the bound is claimed."""
        points = self.points(per_axis)
        return float(np.abs(self.function(points) - self.values(points)).max(initial=0.0))

    def figure(self) -> Figure:
        """f and f̃: curves over one input, surfaces seen from above over two."""
        if len(self.low) == 1:
            return self._curves()
        if len(self.low) == 2:
            return self._maps()
        raise OptionError(f"figure: expected 1 or 2 inputs, got {len(self.low)}")

    def _curves(self) -> Figure:
        figure, axes = blank(width=6.4)
        x = np.linspace(self.low[0], self.high[0], 800)[:, None]
        axes[0, 0].plot(x[:, 0], self.function(x), color=COLOURS[0], label="f")
        axes[0, 0].plot(x[:, 0], self.values(x), color=COLOURS[1], lw=1.2, label="network")
        axes[0, 0].set(xlabel="x", title=f"error {self.error():.2g} ≤ {self.bound:.2g}")
        axes[0, 0].legend()
        return figure

    def _maps(self) -> Figure:
        figure, axes = blank(1, 2, 3.8, 3.4, sharey=True)
        grid = dataclasses.replace(self, margin=0.0).points(160)
        found = [self.function(grid), self.values(grid)]
        low, high = found[0].min(), found[0].max()
        for axis, z, title in zip(
            axes[0], found, ("f", f"towers: error {self.error():.2g} ≤ {self.bound:.2g}"), strict=True
        ):
            edges = (self.low[0], self.high[0], self.low[1], self.high[1])
            shown = axis.imshow(z.reshape(160, 160).T, origin="lower", extent=edges, vmin=low, vmax=high, aspect="auto")
            axis.set(xlabel="$x_1$", title=title)
        axes[0, 0].set_ylabel("$x_2$")
        figure.colorbar(shown, ax=axes, shrink=0.85)
        return figure


def bump_network(a: float, b: float, k: float, dtype: Any = None) -> nn.Sequential:
    """σ(k(x − a)) − σ(k(x − b)), close to 1 between a and b and to 0 outside. Shape: (N, 1) → (N, 1)."""
    return _two_layers(np.full((2, 1), k), -k * np.array([a, b]), np.array([[1.0, -1.0]]), np.zeros(1), dtype)


def bump_bound(k: float, margin: float) -> float:
    """|bump − indicator| ≤ 2 σ(−k δ) at a distance of at least δ from both ends."""
    return 2 * _sigmoid(-k * margin)


def tower_network(
    low: Sequence[float], high: Sequence[float], k1: float, k2: float, dtype: Any = None
) -> nn.Sequential:
    """σ(k₂ [Σᵢ (σ(k₁(xᵢ − aᵢ)) − σ(k₁(xᵢ − bᵢ))) − (d − ½)]), close to 1 in the box Π (aᵢ, bᵢ) and to 0 outside."""
    return _towers([(np.asarray(low, float), np.asarray(high, float))], k1, k2, dtype)


def tower_bound(dimension: int, k1: float, k2: float, margin: float) -> float:
    """|tower − indicator| ≤ σ(−k₂ (½ − 2 d ε)), ε = σ(−k₁ δ), where every xᵢ is δ or more from aᵢ and bᵢ.

    Inside, every bump is at least 1 − 2ε, so that the sum is at least d − 2dε; outside, one bump is at most ε.
    """
    return _sigmoid(-k2 * (0.5 - 2 * dimension * _sigmoid(-k1 * margin)))


def cells_needed(lipschitz: float, error: float, dimension: int = 2) -> int:
    """The least K for which towers on Kᵈ cells of the unit cube err by at most `error`: ⌈L √d / (2 error)⌉ (N1 thm. 1.1).

    A cell's corner is √d / (2K) from its centre, where the tower has the value of f.

    >>> cells_needed(1.0, 0.1)
    8
    """
    if lipschitz <= 0 or error <= 0:
        raise OptionError(f"cells_needed: expected numbers > 0, got L = {lipschitz} and error = {error}")
    return math.ceil(round(lipschitz * math.sqrt(dimension) / (2 * error), 12))


def approximate_by_towers(
    function: Function, low: Sequence[float], high: Sequence[float], cells: int, lipschitz: float, sharpness: float = 80
) -> Approximation:
    """Towers on `cells`ᵈ equal boxes, each as high as f in the middle of its box.

    With boxes of sides hᵢ, |f − f̃| ≤ L ‖h‖ / 2 + Σ_c |f(c)| τ, where τ is `tower_bound`, at points whose coordinates are
    at least δ = hᵢ / 10 from the faces between boxes. Closer than that sigmoids are on their way; where d faces meet,
    towers of N1's form leave a hole. sharpness: k₂; k₁ is chosen so that ε = 1 / (16 d).
    """
    low, high = np.asarray(low, float), np.asarray(high, float)
    if cells < 1 or len(low) != len(high) or (low >= high).any():
        raise OptionError(f"approximate_by_towers: expected cells >= 1 and low < high, got {cells}, {low}, {high}")
    d, sides = len(low), (high - low) / cells
    margin = float(sides.min() / 10)
    k1 = math.log(16 * d - 1) / margin  # σ(−k₁ δ) = 1 / (16 d)
    faces = tuple(a + h * np.arange(cells + 1) for a, h in zip(low, sides, strict=True))
    corners = np.array(list(itertools.product(range(cells), repeat=d)))  # (cells^d, d)
    boxes = [(low + sides * c, low + sides * (c + 1)) for c in corners]
    heights = function(low + sides * (corners + 0.5))
    network = _towers(boxes, k1, sharpness, weft.float64)
    network.append(_linear(heights[None], np.zeros(1), weft.float64))
    tails = float(np.abs(heights).sum()) * tower_bound(d, k1, sharpness, margin)
    bound = lipschitz * float(np.linalg.norm(sides)) / 2 + tails
    return Approximation(network, function, tuple(low), tuple(high), bound, margin, faces)


def approximate_by_lines(function: Function, low: float, high: float, pieces: int, lipschitz: float) -> Approximation:
    """The polygon through f at pieces + 1 points, as one hidden layer of rectifiers, one for each piece.

    f̃(x) = f(x₀) + Σ (sᵢ − sᵢ₋₁)(x − xᵢ)₊ with the slopes sᵢ of the pieces; |f − f̃| ≤ L h / 2 everywhere in the interval:
    at distances a and h − a from two neighbours the error is at most min((L − s) a, (L + s)(h − a)) ≤ (L² − s²) h / 2L.
    """
    if pieces < 1 or not low < high:
        raise OptionError(f"approximate_by_lines: expected pieces >= 1 and low < high, got {pieces}, {low}, {high}")
    knots = np.linspace(low, high, pieces + 1)
    values = function(knots[:, None])
    slopes = np.diff(values) / np.diff(knots)
    first = _linear(np.ones((pieces, 1)), -knots[:-1], weft.float64)
    last = _linear(np.diff(slopes, prepend=0.0)[None], values[:1], weft.float64)
    bound = lipschitz * (high - low) / pieces / 2
    return Approximation(nn.Sequential(first, nn.ReLU(), last), function, (low,), (high,), bound, 0.0, (knots,))


def _towers(boxes: list[tuple[NDArray, NDArray]], k1: float, k2: float, dtype: Any) -> nn.Sequential:
    """Several towers side by side: (N, d) → (N, boxes)."""
    T, d = len(boxes), len(boxes[0][0])
    if not k1 > 0 or not k2 > 0 or any(len(a) != len(b) or (a >= b).any() for a, b in boxes):
        raise OptionError(f"tower_network: expected k1, k2 > 0 and low < high, got {k1}, {k2}, {boxes[0]}")
    edges = np.stack([np.stack(box, -1) for box in boxes])  # (T, d, 2)
    along = np.repeat(np.eye(d), 2, axis=0)  # (2d, d): which input a step reads
    steps = np.tile(along, (T, 1)) * k1  # (T·2d, d)
    signs = np.tile([1.0, -1.0], d) * k2  # (2d,): a step up, a step down
    second = np.kron(np.eye(T), signs)  # (T, T·2d)
    network = _two_layers(steps, -k1 * edges.ravel(), second, np.full(T, -k2 * (d - 0.5)), dtype)
    return network.append(nn.Sigmoid())


def _two_layers(w1: NDArray, b1: NDArray, w2: NDArray, b2: NDArray, dtype: Any) -> nn.Sequential:
    return nn.Sequential(_linear(w1, b1, dtype), nn.Sigmoid(), _linear(w2, b2, dtype))


def _linear(weight: NDArray, bias: NDArray, dtype: Any) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0], dtype=dtype or weft.float64)
    with weft.no_grad():
        made.weight.copy_(weft.as_tensor(np.ascontiguousarray(weight)))
        made.bias.copy_(weft.as_tensor(np.ascontiguousarray(bias)))
    return made


def _sigmoid(z: float) -> float:
    return math.exp(z) / (1 + math.exp(z)) if z < 0 else 1 / (1 + math.exp(-z))
