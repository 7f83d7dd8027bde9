"""How many linear regions a rectifier network can have (N0 §1.6–1.7, N2 §2.4.10), and one that has the most."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError

__all__ = ["RegionBounds", "cells_of_arrangement", "region_bounds", "zigzag_network"]


@dataclasses.dataclass(frozen=True)
class RegionBounds:
    """What is known about the number of linear regions before the weights are.

    patterns: 2ᴴ, every unit on or off (N2 §2.4.10)
    at_most: Π_l Σ_{j ≤ m_l} C(D_l, j), m_l = min(D⁽⁰⁾, …, D_{l−1}): no layer cuts a region of dimension m_l into more.
        For one input it is Π (D_l + 1) = (D + 1)ᴷ (N0 §1.7), for one layer the cells of D hyperplanes
    attainable: some weights reach Π_{l<L} ⌊D_l / D⁽⁰⁾⌋^D⁽⁰⁾ · Σ_{j ≤ D⁽⁰⁾} C(D_L, j) (Montúfar et al., NeurIPS 2014)
    """

    inputs: int
    widths: tuple[int, ...]
    patterns: int
    at_most: int
    attainable: int


def cells_of_arrangement(hyperplanes: int, dimension: int) -> int:
    """Cells into which hyperplanes in general position cut space: Σ_{j ≤ d} C(n, j) (Zaslavsky).

    >>> [cells_of_arrangement(3, d) for d in (1, 2, 3)]
    [4, 7, 8]
    """
    return sum(math.comb(hyperplanes, j) for j in range(dimension + 1))


def region_bounds(inputs: int, widths: Sequence[int]) -> RegionBounds:
    """Bounds for a network with these hidden layers; on a slice, `inputs` is the dimension of the slice.

    N2 §2.4.10 states the attainable number as Ω((Z/D)^((L−1)D) Z^D); read as a binomial, as it is printed, it would
    exceed `at_most` (Z = 4, D = 2, L = 3: 20736 > 1331).

    >>> region_bounds(1, [4, 4]).at_most, region_bounds(2, [3]).at_most
    (25, 7)
    """
    widths = tuple(widths)
    if inputs < 1 or any(width < 1 for width in widths):
        raise OptionError(f"region_bounds: expected sizes >= 1, got {inputs} inputs and widths {list(widths)}")
    at_most, dimension = 1, inputs
    for width in widths:
        at_most *= cells_of_arrangement(width, dimension)
        dimension = min(dimension, width)
    folds = math.prod((width // inputs) ** inputs for width in widths[:-1])
    last = cells_of_arrangement(widths[-1], inputs) if widths else 1
    return RegionBounds(inputs, widths, 2 ** sum(widths), at_most, folds * last)


def zigzag_network(width: int, depth: int, dtype: Any = None) -> nn.Sequential:
    """A network ℝ → ℝ with exactly (D + 1)ᴷ linear regions: the bound of N0 §1.7 is reached, for D > 2.

    Every layer folds [0, 1] onto itself by a zigzag of D + 1 lines, up and down in turn: slopes 2s, −s, s, −s …
    with s = D + ½. D units x ↦ (x − tᵢ)₊ bend the line at tᵢ but leave it flat at the far left; the third one looks to
    the left, (t₃ − x)₊, and its slope 2s is that of the first line. Layer by layer all lines are folded again.
    """
    if width < 3 or depth < 1:
        raise OptionError(f"zigzag_network: expected width > 2 and depth > 0, got {width} and {depth}")
    s = width + 0.5
    bends = weft.tensor([(i + 0.5) / s for i in range(width)], dtype=weft.float64)  # ends of lines 1/(2s), 1/s, 1/s …
    facing = weft.tensor([-1.0 if i == 2 else 1.0 for i in range(width)], dtype=weft.float64)
    turns = weft.tensor([-3 * s if i == 0 else -2 * s if i % 2 == 0 else 2 * s for i in range(width)]).double()
    start = -turns[2] * bends[2]  # the value at 0 is 0: the third unit has −2s t₃ there
    layers: list[nn.Module] = []
    for k in range(depth):
        layers += [nn.Linear(1 if k == 0 else width, width, dtype=weft.float64), nn.ReLU()]
        with weft.no_grad():
            fold = weft.ones(1) if k == 0 else turns  # what the layer before left folded: a sum of its units
            layers[-2].weight.copy_(facing[:, None] * fold)  # (D, 1) × (1,) or (D,) → (D, 1) or (D, D)
            layers[-2].bias.copy_(facing * ((0.0 if k == 0 else start) - bends))
    layers.append(nn.Linear(width, 1, dtype=weft.float64))
    with weft.no_grad():
        layers[-1].weight.copy_(turns[None])
        layers[-1].bias.fill_(start)
    return nn.Sequential(*layers).to(dtype or weft.float64)
