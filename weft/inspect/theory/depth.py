"""What depth does to training, measured: shattered gradients (N0 §4), degradation of plain networks (N2 §3.7), sensitivity
over time of recurrent ones (N2 §5.1.3), and what depth can express that width cannot (N2 §2.4.8).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...func import jacrev
from ...nn.module import Module
from ...tensor import Tensor
from .bounds import zigzag_network
from .regions import line_regions

__all__ = [
    *("Degradation", "DepthAgainstWidth", "deep_network", "degradation", "depth_against_width"),
    *("expected_gradient_correlation", "gradient_correlation", "sensitivity_over_time"),
]

Array = NDArray[np.float64]


# ------------------------------------------------------------------------------- shattered gradients


def deep_network(
    inputs: int,
    width: int,
    depth: int,
    outputs: int = 1,
    skip: float | None = None,
    generator: weft.Generator | None = None,
    dtype: Any = None,
) -> nn.Sequential:
    """A rectifier network at its start: h₀ = W₀ x, then `depth` times h ← W relu(h), or h ← h + skip · W relu(h), then V h.

    W from N(0, 2/width) (He), so that sizes are kept; W₀ and V from N(0, 1/fan_in); no biases. `skip` None makes it plain.
    """
    generator = weft.Generator().manual_seed(0) if generator is None else generator
    drawn = lambda n, m, gain: _linear(n, m, gain, generator, dtype)
    blocks: list[Module] = []
    for _ in range(depth):
        layer = nn.Sequential(nn.ReLU(), drawn(width, width, 2.0 * (1.0 if skip is None else skip**2)))
        blocks.append(layer if skip is None else nn.Residual(layer))
    return nn.Sequential(drawn(inputs, width, 1.0), *blocks, drawn(width, outputs, 1.0))


def _linear(n: int, m: int, gain: float, generator: weft.Generator, dtype: Any) -> nn.Linear:
    layer = nn.Linear(n, m, bias=False, dtype=dtype)
    with weft.no_grad():
        layer.weight.copy_(weft.tensor(generator.normal((m, n), np.float64) * math.sqrt(gain / n)))
    return layer


def gradient_correlation(model: Callable, x: Tensor, other: Tensor) -> float:
    """cos ∠(∇f(xₙ), ∇f(x′ₙ)), averaged over pairs of inputs: (N, D), (N, D) → a number; f is the sum of the outputs.

    Near 1 the gradient of one input tells that of its neighbour, near 0 gradients are shattered, like noise.
    """
    if x.shape != other.shape:
        raise ShapeError(f"gradient_correlation: inputs have shapes {tuple(x.shape)} and {tuple(other.shape)}")
    slopes = []
    for inputs in (x, other):
        leaf = inputs.detach().clone().requires_grad_()
        (g,) = weft.autograd.grad(model(leaf).sum(), leaf)
        slopes.append(g.numpy().astype(np.float64).reshape(len(x), -1))
    a, b = (s / np.maximum(np.linalg.norm(s, axis=1, keepdims=True), 1e-300) for s in slopes)
    return float((a * b).sum(1).mean())


def expected_gradient_correlation(cosine: float, depth: int, skip: float | None = None) -> float:
    """What `gradient_correlation` of a wide `deep_network` tends to, for inputs with this cosine between them.

    Two inputs share κ₀(ρ) = 1 − arccos(ρ)/π of the active units, and relu takes their cosine ρ to
    κ₁(ρ) = (√(1 − ρ²) + ρ (π − arccos ρ)) / π (Cho and Saul, 2009). So each layer multiplies the correlation

        plain       by κ₀(ρ),                         ρ ← κ₁(ρ)
        residual    by (1 + α² κ₀(ρ)) / (1 + α²),     ρ ← (ρ + α² κ₁(ρ)) / (1 + α²),     α = skip

    Far inputs (ρ = 0) start with a factor of ½ a layer: plain gradients shatter with depth, residual ones by as little as
    α² is small (Balduzzi et al., 2017, for rectifiers whose units are on independently).

    >>> round(expected_gradient_correlation(0.0, 1), 3), round(expected_gradient_correlation(0.0, 20, skip=0.2), 2)
    (0.5, 0.7)
    """
    if not -1 <= cosine <= 1:
        raise OptionError(f"expected_gradient_correlation: cosine must lie in [−1, 1], got {cosine}")
    rho, found = float(cosine), 1.0
    for _ in range(depth):
        angle = math.acos(max(-1.0, min(1.0, rho)))
        shared, turned = 1 - angle / math.pi, (math.sin(angle) + rho * (math.pi - angle)) / math.pi
        square = 0.0 if skip is None else skip**2
        found *= shared if skip is None else (1 + square * shared) / (1 + square)
        rho = turned if skip is None else (rho + square * turned) / (1 + square)
    return found


# --------------------------------------------------------------------------------------- degradation


@dataclasses.dataclass(frozen=True)
class Degradation:
    """Training errors after the same number of steps, for one depth."""

    depth: int
    plain: float
    residual: float


def degradation(
    depths: Sequence[int], width: int = 16, steps: int = 100, lr: float = 3e-3, seed: int = 0
) -> list[Degradation]:
    """Train plain and residual networks of these depths on sin 3x, one full batch a step, with Adam; same weights at the start.

    What is measured is the training error: deeper plain networks could represent all that shallow ones do, and still
    end higher (N2 §3.7). Residual ones, h + W relu(h) / √depth, do not.
    """
    x = weft.linspace(-1, 1, 64).unsqueeze(1)
    y = (3 * x).sin()
    found = []
    for depth in depths:
        start = lambda skip, depth=depth: deep_network(2, width, depth, 1, skip, weft.Generator().manual_seed(seed))
        errors = [_trained(start(skip), x, y, steps, lr) for skip in (None, 1 / math.sqrt(max(1, depth)))]
        found.append(Degradation(depth, *errors))
    return found


def _trained(model: Module, x: Tensor, y: Tensor, steps: int, lr: float) -> float:
    """The squared error after training; a constant input beside x stands for biases."""
    optimizer = weft.optim.Adam(model.parameters(), lr=lr)
    inputs = weft.cat([x, weft.ones_like(x)], 1)
    for _ in range(steps):
        loss = ((model(inputs) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with weft.no_grad():
        return float(((model(inputs) - y) ** 2).mean())


# ---------------------------------------------------------------------------------- sensitivity over time


def sensitivity_over_time(layer: Module, x: Tensor) -> Array:
    """‖∂h_T/∂x_t‖_F for t = 1 … T: how much of each input the last hidden state of a recurrent layer still knows (N2 §5.1.3).

    `layer` is an RNN, LSTM or GRU (of one direction); of an LSTM the cell state c_T counts, its memory.
    Shape: x (T, D), one sequence → (T,)
    """
    if x.ndim != 2:
        raise ShapeError(f"sensitivity_over_time: expected one sequence (T, D), got {tuple(x.shape)}")

    def last(x: Tensor) -> Tensor:
        _, state = layer(x)
        return (state[1] if isinstance(state, tuple) else state)[-1]  # (H,)

    slopes = jacrev(last)(x.detach()).detach().numpy().astype(np.float64)  # (H, T, D)
    return np.sqrt((slopes**2).sum((0, 2)))


# ------------------------------------------------------------------------------------- depth and width


@dataclasses.dataclass(frozen=True)
class DepthAgainstWidth:
    """parameters of a network of this depth, the linear pieces it has, and the most that one hidden layer of no more
    parameters can have."""

    depth: int
    parameters: int
    pieces: int
    pieces_of_one_layer: int


def depth_against_width(depths: Sequence[int], width: int = 3) -> list[DepthAgainstWidth]:
    """The zigzag network of each depth, its pieces counted exactly, against one wide layer with as many parameters.

    Folding doubles and redoubles: (width + 1)^depth pieces from about depth · width² parameters, where one layer of D units
    has D + 1 pieces from 3D + 1 parameters (N0 §1.6–1.7): exponential in depth, linear in width (Telgarsky, 2016).

    >>> [(row.pieces, row.pieces_of_one_layer) for row in depth_against_width([1, 4])]
    [(4, 4), (256, 16)]
    """
    found = []
    for depth in depths:
        network = zigzag_network(width, depth)
        parameters = sum(p.numel() for p in network.parameters())
        found.append(DepthAgainstWidth(depth, parameters, line_regions(network).count, (parameters - 1) // 3 + 1))
    return found
