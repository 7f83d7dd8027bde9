"""The adversarial autoencoder: a second network tells codes from draws of the prior, until it cannot
(Makhzani et al. 2015)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import weft

from ... import nn
from ...tensor import Tensor
from ..generative.protocol import estimate
from .autoencoder import Autoencoder, Penalty

__all__ = ["AdversarialAutoencoder"]

F = nn.functional


class AdversarialAutoencoder(Autoencoder):
    """loss = mean error + λ mean −log D(f(x)), and, for the discriminator alone, −log D(draws) − log(1 − D(f(x))).

    Two optimisers take turns: one with `autoencoder_parameters()` for `loss`, one with `discriminator.parameters()` for
    `discriminator_loss`; each `zero_grad`s before its backward pass, as `loss` leaves gradients in both.

    discriminator: (B, code) → (B, 1), the logit of "drawn from the prior", N(0, 1)
    Options: error, noise, penalties, as in `Autoencoder`
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        discriminator: nn.Module,
        code: int,
        error: str = "squared_error",
        *,
        weight: float = 1.0,
        penalties: Sequence[Penalty] = (),
        **options: Any,
    ) -> None:
        super().__init__(encoder, decoder, error, penalties=(_Recognised(weight), *penalties), **options)
        self.discriminator, self.code = discriminator, code

    def autoencoder_parameters(self) -> Iterator[nn.Parameter]:
        """Those of encoder and decoder."""
        yield from self.encoder.parameters()
        yield from self.decoder.parameters()

    def discriminator_loss(self, x: Tensor, generator: Any = None) -> Tensor:
        """The mean cross entropy of telling codes of x (0) from as many draws of the prior (1); no slope in the encoder."""
        with weft.no_grad():
            codes = self.encode(x)
        drawn = weft.randn(codes.shape, dtype=codes.dtype, generator=generator)
        return (F.softplus(-self.discriminator(drawn)) + F.softplus(self.discriminator(codes))).mean()

    @estimate
    @weft.no_grad()
    def sample(self, n: int, condition: Any = None, generator: Any = None) -> Tensor:
        """What the decoder makes of draws of the prior: (n, *event)"""
        self._unconditional(condition)
        return self.decode(weft.randn(n, self.code, generator=generator))


@dataclass(frozen=True)
class _Recognised:
    """λ mean −log D(z): the codes should pass for draws of the prior (the non-saturating loss)."""

    weight: float

    def __call__(self, model: AdversarialAutoencoder, x: Tensor, z: Tensor, generator: Any) -> Tensor:
        return self.weight * F.softplus(-model.discriminator(z)).mean()
