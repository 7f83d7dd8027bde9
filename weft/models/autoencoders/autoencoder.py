"""What all autoencoders are: an encoder, a decoder, an error of the reconstruction; noise and penalties on the way.

The files beside this one are architectures (deep, tied, convolutional, recurrent), noise, penalties, and models that do
more than reconstruct.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..generative.protocol import GenerativeModel, estimate, exact
from .denoising import GaussianNoise

__all__ = ["Autoencoder", "Penalty", "errors"]

F = nn.functional
ERRORS = ("squared_error", "cross_entropy")
Penalty = Callable[[Any, Tensor, Tensor, Any], Tensor]  # (model, x as the encoder saw it, its codes, generator) → ()


class Autoencoder(GenerativeModel):
    """x̂ = g(f(x)), and the loss that trains it:

        mean over rows of error(x, g(f(x̃))) + Σ penalties,   x̃ = x or what noise has left of it.

    error: "squared_error", Σ (x − x̂)²: half of it is −log N(x; x̂, 1) but for a constant. Or "cross_entropy",
        −Σ x log x̂ + (1 − x) log(1 − x̂), x̂ the logistic function of what the decoder says: −log p(x) of bits, and of bits
        only. Of grey values it is no likelihood, and its least value is their entropy, not 0 (x̂ = x is still the best).
    noise: `Masking`, `GaussianNoise`, `SaltAndPepper`, any f(x, generator) → like x; it is there in `loss` alone
    penalties: `Contraction`, `L1Sparsity`, `KLSparsity`, any f(model, x, z, generator) → ()
    Shape: x (B, *event), codes (B, code) or what the encoder makes

    >>> model = Autoencoder(nn.Linear(6, 2), nn.Linear(2, 6))
    >>> model.promises
    {'encode': 'exact', 'decode': 'exact', 'reconstruct': 'exact', 'interpolate': 'exact'}
    """

    continuous = True

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        error: str = "squared_error",
        *,
        noise: Callable[[Tensor, Any], Tensor] | None = None,
        penalties: Sequence[Penalty] = (),
    ) -> None:
        super().__init__()
        if error not in ERRORS:
            raise OptionError(f"{type(self).__name__}: error must be one of {ERRORS}, got {error!r}")
        self.encoder, self.decoder, self.error = encoder, decoder, error
        self.noise, self.penalties = noise, tuple(penalties)

    @exact
    def encode(self, x: Tensor) -> Tensor:
        """f(x): (B, *event) → (B, code)"""
        return self.encoder(x)

    @exact
    def decode(self, z: Tensor) -> Tensor:
        """g(z): (B, code) → (B, *event)"""
        said = self.decoder(z)
        return said.sigmoid() if self.error == "cross_entropy" else said

    @estimate(where=lambda model: isinstance(model.noise, GaussianNoise) and model.error == "squared_error")
    def score(self, x: Tensor) -> Tensor:
        """(r(x) − x) / σ² ≈ ∇ log p(x), p smoothed by the noise (Alain and Bengio 2014): like x.

        Equal where r is the best denoiser there can be, r(x̃) = E[x | x̃] (Tweedie's formula).
        """
        return (self.reconstruct(x) - x) / self.noise.std**2

    def forward(self, x: Tensor) -> Tensor:
        return self.reconstruct(x)

    def loss(self, x: Tensor, generator: Any = None) -> Tensor:
        """What training minimises: (B, *event) → ()"""
        seen = x if self.noise is None else self.noise(x, generator)
        z = self.encode(seen)
        total = errors(self.error, self.decoder(z), x).mean()
        for penalty in self.penalties:
            total = total + penalty(self, seen, z, generator)
        return total

    def reconstruction_error(self, x: Tensor) -> Tensor:
        """The error of each row, without noise and penalties: (B, *event) → (B,)"""
        return errors(self.error, self.decoder(self.encode(x)), x)

    def squared_error(self, x: Tensor) -> Tensor:
        """Σ (x − x̂)² of each row, whatever trained the model: the figure that compares all of them. (B,)"""
        return ((x - self.reconstruct(x)) ** 2).flatten(1).sum(1)

    def embed(self, x: Tensor, at_once: int = 1000) -> Tensor:
        """Codes of many rows, a part at a time, in evaluation mode and without gradients: (N, *event) → (N, code)"""
        return _in_parts(self, self.encode, x, at_once)


def errors(error: str, said: Tensor, x: Tensor) -> Tensor:
    """The error of each row from what the decoder said, logits for "cross_entropy": (B, *event) twice → (B,)"""
    if said.shape != x.shape:
        raise ShapeError(f"autoencoder: the decoder made {tuple(said.shape)} of data of shape {tuple(x.shape)}")
    each = (
        (said - x) ** 2 if error == "squared_error" else F.binary_cross_entropy_with_logits(said, x, reduction="none")
    )
    return each.flatten(1).sum(1)


@weft.no_grad()
def _in_parts(model: nn.Module, f: Callable[[Tensor], Tensor], x: Tensor, at_once: int) -> Tensor:
    training = model.training
    model.eval()
    try:
        return weft.cat([f(part) for part in x.split(at_once)])
    finally:
        model.train(training)
