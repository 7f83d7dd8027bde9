"""The loss around a point of weight space, along one or two directions (Li et al. 2018)."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import weft

from ..errors import OptionError, ShapeError
from ..nn.module import Module
from .drawing import COLOURS, Picture, array_of, blank
from .observe import evaluating

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Landscape", "between", "loss_landscape", "loss_line", "random_direction", "trajectory_directions"]

Direction = list[NDArray]  # one array for each parameter of a model, in order
Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Landscape(Picture):
    """Losses L(θ + a d₁ + b d₂): (A,) along one direction, (A, B) along two, at steps a and b; path: points (a, b)."""

    losses: Array
    steps: tuple[Array, ...]
    path: Array | None = None

    def figure(self, logarithmic: bool = True) -> Figure:
        """A curve, or contour lines with the path of training."""
        figure, axes = blank(width=5.2, height=4.2)
        axis = axes[0, 0]
        if self.losses.ndim == 1:
            axis.plot(self.steps[0], self.losses, color=COLOURS[0])
            axis.set(xlabel="step along the direction", ylabel="loss", yscale="log" if logarithmic else "linear")
            return figure
        z = np.log10(np.maximum(self.losses, 1e-12)) if logarithmic else self.losses
        shown = axis.contourf(*self.steps, z.T, levels=24, cmap="viridis")
        axis.contour(*self.steps, z.T, levels=24, colors="white", linewidths=0.3, alpha=0.6)
        if self.path is None:
            axis.plot(0, 0, "o", color="white", mec="black", ms=6)
        else:
            axis.plot(*self.path.T, "o-", color=COLOURS[1], mec="white", mew=0.4, ms=4, lw=1.2)
            axis.plot(*self.path[-1], "*", color="white", mec="black", ms=12)
        figure.colorbar(shown, ax=axis, label="log₁₀ loss" if logarithmic else "loss")
        axis.set(xlabel="direction 1", ylabel="direction 2")
        return figure


def random_direction(model: Module, generator: weft.Generator | None = None) -> Direction:
    """Normal noise, each filter (row of a weight) scaled to the norm of the model's own; biases and gains stay: 0.

    Without that scale the picture of a rectifier network would depend on how its layers share their sizes.
    """
    generator = weft.Generator().manual_seed(0) if generator is None else generator
    return [_filter_normalised(generator.normal(tuple(p.shape), np.float64), array_of(p)) for p in model.parameters()]


def _filter_normalised(noise: Array, weight: NDArray) -> Array:
    if weight.ndim < 2:
        return np.zeros_like(noise)
    axes = tuple(range(1, weight.ndim))
    size = lambda w: np.sqrt((w.astype(np.float64) ** 2).sum(axes, keepdims=True))
    return noise * size(weight) / np.maximum(size(noise), 1e-300)


def between(model: Module, other: Module) -> Direction:
    """other − model: loss_line from 0 to 1 along it goes straight from one to the other."""
    a, b = list(model.parameters()), list(other.parameters())
    if [p.shape for p in a] != [p.shape for p in b]:
        raise ShapeError("between: the models have parameters of different shapes")
    return [array_of(q).astype(np.float64) - array_of(p) for p, q in zip(a, b, strict=True)]


def trajectory_directions(weights: Sequence[Sequence[Any]]) -> tuple[Direction, Direction, Array]:
    """The two directions in which weights moved most in training, and the path in them: two directions, (T, 2).

    weights: copies of all parameters at T times, the last being the model's; directions are the principal components of
    their differences from it.

    >>> history.append([p.detach().clone() for p in model.parameters()])   # every epoch
    """
    rows = np.stack([np.concatenate([array_of(p).ravel() for p in state]) for state in weights]).astype(np.float64)
    if len(rows) < 3:
        raise ShapeError(f"trajectory_directions: expected weights at 3 or more times, got {len(rows)}")
    moved = rows - rows[-1]
    _, _, vt = np.linalg.svd(moved[:-1], full_matrices=False)
    ends = np.cumsum([array_of(p).size for p in weights[0]])[:-1]
    split = lambda v: [part.reshape(p.shape) for part, p in zip(np.split(v, ends), weights[0], strict=True)]
    return split(vt[0]), split(vt[1]), moved @ vt[:2].T


def loss_line(model: Module, loss: Callable[[], Any], direction: Direction, steps: Any = None) -> Landscape:
    """loss() with the model's weights moved by a · direction, for every a in steps (41 from −1 to 1 by default)."""
    a = np.linspace(-1, 1, 41) if steps is None else array_of(steps).astype(np.float64)
    return Landscape(_evaluated(model, loss, [direction], [a]), (a,))


def loss_landscape(
    model: Module,
    loss: Callable[[], Any],
    directions: tuple[Direction, Direction] | None = None,
    steps: Any = None,
    path: Any = None,
    generator: weft.Generator | None = None,
) -> Landscape:
    """loss() with the weights moved by a · d₁ + b · d₂, for all pairs of steps; they are put back whatever happens.

    loss: a function without arguments that runs the model (in evaluation mode, without gradients); directions: two
    random ones, filter-normalised, unless given; steps: one array for both, or two; 25 from −1 to 1 by default.

    >>> loss_landscape(model, lambda: F.cross_entropy(model(images), labels)).figure()
    """
    if directions is None:
        generator = weft.Generator().manual_seed(0) if generator is None else generator
        directions = (random_direction(model, generator), random_direction(model, generator))
    if isinstance(steps, tuple):
        a, b = (array_of(s).astype(np.float64) for s in steps)
    else:
        a = b = np.linspace(-1, 1, 25) if steps is None else array_of(steps).astype(np.float64)
    found = _evaluated(model, loss, list(directions), [a, b])
    return Landscape(found, (a, b), None if path is None else array_of(path))


def _evaluated(model: Module, loss: Callable[[], Any], directions: list[Direction], steps: list[Array]) -> Array:
    parameters = list(model.parameters())
    for direction in directions:
        if [tuple(np.shape(d)) for d in direction] != [tuple(p.shape) for p in parameters]:
            raise OptionError("loss_landscape: a direction needs one array for each parameter, of its shape")
    losses = np.empty([len(s) for s in steps])
    with weft.no_grad(), evaluating(model), _weights_kept(parameters) as start:
        for place in np.ndindex(losses.shape):
            amounts = [float(s[i]) for s, i in zip(steps, place, strict=True)]
            for j, (parameter, origin) in enumerate(zip(parameters, start, strict=True)):
                moved = origin + sum(a * d[j] for a, d in zip(amounts, directions, strict=True))
                parameter.copy_(weft.as_tensor(np.asarray(moved)))
            value = float(loss())
            losses[place] = value if math.isfinite(value) else np.nan
    return losses


@contextlib.contextmanager
def _weights_kept(parameters: list[Any]) -> Iterator[list[NDArray]]:
    kept = [array_of(p).copy() for p in parameters]
    try:
        yield [old.astype(np.float64) for old in kept]
    finally:
        for parameter, old in zip(parameters, kept, strict=True):
            parameter.copy_(weft.as_tensor(old))
