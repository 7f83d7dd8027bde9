"""Plain networks for points in the plane and other rows of numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ... import nn
from ...errors import OptionError

__all__ = ["mlp"]

ACTIVATIONS = {"relu": nn.ReLU, "leaky_relu": lambda: nn.LeakyReLU(0.2), "tanh": nn.Tanh, "silu": nn.SiLU}


def mlp(
    inputs: int, hidden: Sequence[int], outputs: int, activation: str = "relu", *, spectral: bool = False
) -> nn.Sequential:
    """Linear layers with activations between them: (B, inputs) → (B, outputs).

    spectral: every weight is divided by its largest singular value (Miyato et al. 2018), so that with these activations
        the network is 1-Lipschitz

    >>> mlp(2, (8, 8), 1, "leaky_relu", spectral=True)(weft.zeros(3, 2)).shape
    weft.Size([3, 1])
    """
    if activation not in ACTIVATIONS:
        raise OptionError(f"mlp: expected an activation of {', '.join(ACTIVATIONS)}, got {activation!r}")
    sizes, layers = [inputs, *hidden, outputs], []
    for size, following in itertools.pairwise(sizes):
        linear = nn.Linear(size, following)
        layers += [nn.utils.parametrizations.spectral_norm(linear) if spectral else linear, ACTIVATIONS[activation]()]
    return nn.Sequential(*layers[:-1])
