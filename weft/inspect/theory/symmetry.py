"""Weights that differ and functions that do not: the symmetries of networks with tanh units (N1 thm. 1.2).

tanh is odd: −tanh(−z) = tanh(z). The sign of all that enters a unit and of all that leaves it may be flipped, and the
units of a layer may change places; N units have N! 2ᴺ sets of weights with one function (Chen, Lu and Hecht-Nielsen,
1993).
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...nn.module import Module
from ...ops.create.sample import generator_of
from ...tensor import Tensor
from ..drawing import Picture, array_of, blank
from ..observe import chain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Symmetries", "canonical", "flip_signs", "permute_units", "symmetries", "symmetry_count"]

ODD = (nn.Tanh, nn.Hardtanh, nn.Softsign, nn.Identity, nn.Arctan)  # φ(−z) = −φ(z)


@dataclasses.dataclass(frozen=True)
class Symmetries(Picture):
    """How many sets of weights compute the function of a network, and one of them chosen at random.

    difference: the largest |f(x) − f'(x)| over the given inputs, rounding only; distance: ‖θ − θ'‖ / ‖θ‖
    """

    widths: tuple[int, ...]
    count: int
    model: Module
    other: Module
    difference: float
    distance: float

    def figure(self) -> Figure:
        """First weights and function of both networks side by side (the function for a single input)."""
        pair = [array_of(_linears(model)[0].weight) for model in (self.model, self.other)]
        limit = max(np.abs(w).max() for w in pair)
        figure, axes = blank(1, 2, 3.6, 3.2)
        for axis, weight, title in zip(axes[0], pair, ("weights of layer 1", "an equivalent network"), strict=True):
            shown = axis.imshow(weight, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
            axis.set(title=title, xlabel="input", ylabel="unit")
        figure.colorbar(shown, ax=axes)
        written = f"{self.count:,}" if self.count < 10**9 else f"10^{math.log10(self.count):.0f}"
        figure.suptitle(f"one of {written}; outputs differ by {self.difference:.1e}")
        return figure


def symmetry_count(widths: Sequence[int]) -> int:
    """Π N! 2ᴺ over the hidden layers.

    >>> symmetry_count([3])
    48
    """
    return math.prod(math.factorial(n) * 2**n for n in widths)


def flip_signs(before: nn.Linear, after: nn.Linear, units: Any) -> None:
    """Flip, in place, the signs of what enters (rows of W⁽¹⁾, b⁽¹⁾) and leaves (columns of W⁽²⁾) the given units."""
    signs = np.ones(before.out_features)
    signs[array_of(units).astype(np.int64)] = -1
    _transform(before, after, np.arange(before.out_features), signs)


def permute_units(before: nn.Linear, after: nn.Linear, order: Any) -> None:
    """Let, in place, unit i of the layer between be what unit order[i] was."""
    order = array_of(order)
    if sorted(order.tolist()) != list(range(before.out_features)):
        raise OptionError(f"permute_units: expected each of 0 … {before.out_features - 1} once, got {order.tolist()}")
    _transform(before, after, order, np.ones(before.out_features))


def symmetries(model: Module, x: Tensor, generator: weft.Generator | None = None) -> Symmetries:
    """A random member of the symmetry group applied to a chain of Linear and odd activations, and what it changes.

    >>> symmetries(MLP(1, [8], 1, activation="tanh"), weft.linspace(-2, 2, 50)[:, None]).count
    10321920
    """
    generator = generator_of(generator, "symmetries")
    layers, other = _hidden(model, x), copy.deepcopy(model)
    for before, after in itertools.pairwise(_linears(other)):
        n = before.out_features
        signs = 1.0 - 2.0 * generator.integers(0, 2, (n,)).astype(float)
        _transform(before, after, generator.permutation(n), signs)
    with weft.no_grad():
        difference = float((model(x) - other(x)).abs().max())
    a, b = (np.concatenate([array_of(p).ravel() for p in m.parameters()]) for m in (model, other))
    distance = float(np.linalg.norm(a - b) / np.linalg.norm(a))
    return Symmetries(layers, symmetry_count(layers), model, other, difference, distance)


def canonical(model: Module, x: Tensor) -> Module:
    """The one of all equivalent networks whose units have positive biases that grow from unit to unit.

    Two networks that differ by a symmetry have the same canonical form (where no bias is 0 and no two are equal in
    size). x is any input, needed to follow the chain of layers.
    """
    _hidden(model, x)
    made = copy.deepcopy(model)
    layers = _linears(made)
    for before, after in itertools.pairwise(layers):
        bias = array_of(before.bias)
        _transform(before, after, np.argsort(np.abs(bias), kind="stable"), np.where(bias < 0, -1.0, 1.0))
    return made


def _transform(before: nn.Linear, after: nn.Linear, order: NDArray, signs: NDArray) -> None:
    """New unit i is signs[order[i]] times old unit order[i]."""
    if before.out_features != after.in_features:
        raise ShapeError(
            f"symmetry: {before.out_features} units leave the first layer, {after.in_features} enter the second"
        )
    index, factor = weft.as_tensor(np.array(order)), weft.as_tensor(signs[order]).to(before.weight.dtype)
    with weft.no_grad():
        before.weight.copy_(before.weight[index] * factor[:, None])
        after.weight.copy_(after.weight[:, index] * factor)
        if before.bias is not None:
            before.bias.copy_(before.bias[index] * factor)


def _linears(model: Module) -> list[nn.Linear]:
    return [module for module in model.modules() if isinstance(module, nn.Linear)]


def _hidden(model: Module, x: Tensor) -> tuple[int, ...]:
    """The widths of the hidden layers of a chain of Linear and odd activations."""
    found = chain(model, x, "symmetries")
    for call in found:
        if not isinstance(call.module, (nn.Linear, nn.Dropout, *ODD)):
            odd = ", ".join(kind.__name__ for kind in ODD)
            raise OptionError(
                f"symmetries: expected Linear and odd activations ({odd}), got {type(call.module).__name__}; signs can "
                f"only be flipped where φ(−z) = −φ(z)"
            )
    return tuple(call.module.out_features for call in found if isinstance(call.module, nn.Linear))[:-1]
