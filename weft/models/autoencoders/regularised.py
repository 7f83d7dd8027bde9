"""The regularised autoencoder: small codes and a smooth decoder, and a density fitted to the codes afterwards
(RAE; Ghosh et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import weft

from ... import nn
from ...tensor import Tensor
from ..generative.protocol import estimate
from .autoencoder import Autoencoder, Penalty

__all__ = ["RegularisedAutoencoder"]


class RegularisedAutoencoder(Autoencoder):
    """loss = mean (error + β/2 ‖z‖²) + λ Σ w², w the decoder's weights (RAE-L2): what is left of a VAE without its noise.

    There is no prior: `fit_density` takes the mean and covariance of the codes of the training data, and `sample` decodes
    draws of that normal distribution.

    code: how many numbers a code has; options: error, noise, penalties, as in `Autoencoder`
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        code: int,
        error: str = "squared_error",
        *,
        code_weight: float = 1e-2,
        decoder_weight: float = 1e-5,
        penalties: Sequence[Penalty] = (),
        **options: Any,
    ) -> None:
        ours = _SmallCodes(code_weight), _Ridge(decoder_weight)
        super().__init__(encoder, decoder, error, penalties=(*ours, *penalties), **options)
        self.register_buffer("mean", weft.zeros(code))
        self.register_buffer("factor", weft.eye(code))  # Cholesky factor of the covariance

    @weft.no_grad()
    def fit_density(self, x: Tensor, ridge: float = 1e-6) -> None:
        """Take mean and covariance of the codes of x, (N, *event), for `sample`; ridge: added to the variances."""
        z = self.embed(x).double()
        covariance = (z - z.mean(0)).mT @ (z - z.mean(0)) / len(z)
        self.mean.copy_(z.mean(0))
        self.factor.copy_(weft.linalg.cholesky(covariance + ridge * weft.eye(z.shape[1], dtype=z.dtype)))

    @estimate
    @weft.no_grad()
    def sample(self, n: int, condition: Any = None, generator: Any = None) -> Tensor:
        """What the decoder makes of draws of the fitted density: (n, *event)"""
        self._unconditional(condition)
        return self.decode(self.mean + weft.randn(n, len(self.mean), generator=generator) @ self.factor.mT)


@dataclass(frozen=True)
class _SmallCodes:
    """β/2 · mean over rows of ‖z‖²"""

    weight: float

    def __call__(self, model: Autoencoder, x: Tensor, z: Tensor, generator: Any) -> Tensor:
        return self.weight / 2 * (z**2).sum(1).mean()


@dataclass(frozen=True)
class _Ridge:
    """λ Σ w² over the matrices of the decoder; biases are free."""

    weight: float

    def __call__(self, model: Autoencoder, x: Tensor, z: Tensor, generator: Any) -> Tensor:
        return self.weight * sum((p**2).sum() for p in model.decoder.parameters() if p.ndim > 1)
