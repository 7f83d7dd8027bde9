"""Tied weights: the decoder uses the encoder's matrices, transposed (N1 §7.1)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from ..classical.mlp import ACTIVATIONS
from .autoencoder import Autoencoder

__all__ = ["TiedAutoencoder"]

F = nn.functional


class TiedAutoencoder(Autoencoder):
    """hˡ = σ(Wˡ hˡ⁻¹ + bˡ) down to the code,  h̃ˡ⁻¹ = σ(Wˡᵀ h̃ˡ + cˡ) up again: half the weights, biases apart.

    ∂L/∂W is the sum of what both uses of W ask for. widths: of the hidden layers and, last, of the code, which has the
    activation as well; the lowest layer of the decoder is linear (or logits).
    Shape: (B, features) → (B, widths[-1]) → (B, features)

    >>> one = TiedAutoencoder(784, [500], "cross_entropy", "sigmoid")
    >>> [name for name, _ in one.named_parameters()]
    ['encoder.0.weight', 'encoder.0.bias', 'decoder.0.bias']
    """

    def __init__(
        self,
        features: int,
        widths: Sequence[int],
        error: str = "squared_error",
        activation: str | Callable[[], nn.Module] = "sigmoid",
        **options: Any,
    ) -> None:
        if not widths:
            raise OptionError("TiedAutoencoder: expected the width of one layer at least")
        make = ACTIVATIONS.get(activation) if isinstance(activation, str) else activation
        if make is None:
            raise OptionError(f"TiedAutoencoder: activation must be one of {sorted(ACTIVATIONS)}, got {activation!r}")
        layers = [nn.Linear(a, b) for a, b in itertools.pairwise([features, *widths])]
        down = nn.Sequential(*(part for layer in layers for part in (layer, make())))
        mirrored = [_Transposed(layer) for layer in layers[::-1]]
        up = nn.Sequential(mirrored[0], *(part for layer in mirrored[1:] for part in (make(), layer)))
        super().__init__(down, up, error, **options)


class _Transposed(nn.Module):
    """y = Wᵀ x + c with the weight of another layer, which stays that layer's parameter."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = (layer,)  # in a tuple: not a submodule
        self.bias = nn.Parameter(weft.zeros(layer.in_features, dtype=layer.weight.dtype))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.layer[0].weight.mT, self.bias)
