"""VQ-VAE: an autoencoder whose code is a picture of whole numbers, and a prior over such pictures.

q(k | x) is certain: log p(x) ≥ log p(x | e_k(x)) + log P(k(x)), which is the bound that is given; what is trained first is
its first part, with the codebook (quantizers.py), then a prior P on the codes of the training data (`CodePrior`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..autoregressive.gated_pixelcnn import GatedPixelCNN
from ..autoregressive.heads import Head
from ..generative.protocol import exact
from .base import Draws, LatentVariableModel
from .likelihoods import Likelihood, likelihood_named
from .quantizers import Quantizer, ResidualQuantizer, VectorQuantizer

__all__ = ["VQVAE", "CodePrior", "ConvolutionalVQVAE", "UniformCodes"]


@dataclass(frozen=True)
class QuantizedLikelihood:
    """log p(x | e) − Σ loss of the quantizer, over all places of the code: what a VQ-VAE maximises before it has a prior."""

    def __call__(self, model: VQVAE, x: Tensor, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        found = model.quantizer(model.vectors(x), generator)
        likelihood = model.likelihood.log_prob(model.said(model.as_maps(found.values)), x)[0]
        return likelihood - found.loss.flatten(1).sum(1)


class VQVAE(LatentVariableModel):
    """x → encoder → nearest entries of a codebook → decoder → p(x | e) (van den Oord, Vinyals, Kavukcuoglu 2017).

    encoder: (B, *event) → (B, D, *places); decoder: (B, D, *places) → what `likelihood` asks for
    quantizer: a `Quantizer` or a `ResidualQuantizer` of dimension D; places: of a code, (7, 7) for instance, () for one entry
    prior: over codes (B, *places); by default all are equally likely, `CodePrior` is a PixelCNN
    Codes as entries are (B, D, *places), `encode` and `decode`; as whole numbers (B, *places), `codes` and `decode_codes`

    >>> model = VQVAE(nn.Linear(6, 2), nn.Linear(2, 6), VectorQuantizer(8, 2), ())
    >>> model.codes(weft.ones(3, 6)).shape, model.sample(4).shape, model.promises["elbo"]
    (weft.Size([3]), weft.Size([4, 6]), 'bound')
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        quantizer: Quantizer | ResidualQuantizer,
        places: Sequence[int],
        likelihood: str | Head | Likelihood = "bernoulli",
        *,
        prior: CodePrior | None = None,
    ) -> None:
        super().__init__(likelihood, QuantizedLikelihood())
        self.encoder, self.decoder, self.quantizer, self.places = encoder, decoder, quantizer, tuple(places)
        stages = len(quantizer.stages) if isinstance(quantizer, ResidualQuantizer) else 0
        shape = (*self.places, stages) if stages else self.places
        self.prior = UniformCodes(quantizer.codes, shape) if prior is None else prior

    # ------------------------------------------------------------------------------------- codes
    def vectors(self, x: Tensor) -> Tensor:
        """What is to be quantised: (B, *event) → (B, *places, D)"""
        found = self.encoder(x)
        expected = (len(x), self.quantizer.dimension, *self.places)
        if tuple(found.shape) != expected:
            raise ShapeError(f"VQVAE: expected the encoder to make {expected}, got {tuple(found.shape)}")
        return found.movedim(1, -1)

    @staticmethod
    def as_maps(values: Tensor) -> Tensor:
        """(B, *places, D) → (B, D, *places)"""
        return values.movedim(-1, 1)

    def codes(self, x: Tensor) -> Tensor:
        """Numbers of entries: (B, *event) → (B, *places)"""
        with weft.no_grad():
            return self.quantizer.numbers(self.vectors(x))

    def decode_codes(self, codes: Tensor) -> Tensor:
        """E[x | codes]: (B, *places) → (B, *event)"""
        return self.decode(self.as_maps(self.quantizer.lookup(codes)))

    # ------------------------------------------------------------------------------------- the family's promises
    def draws(self, x: Tensor, samples: int = 1, condition: Tensor | None = None, generator: Any = None) -> Draws:
        """There is one code of x: K times the same."""
        codes = self.codes(x)
        z = self.as_maps(self.quantizer.lookup(codes))
        parts = (
            self.likelihood.log_prob(self.said(z), x)[0],
            self.prior.log_prob(codes),
            weft.zeros(len(x), dtype=x.dtype),
        )
        return Draws(z.expand(samples, *z.shape), *(part.expand(samples, len(x)) for part in parts))

    def pairwise_log_posterior(self, z: Tensor, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """0 where they have the same code, −∞ elsewhere."""
        same = (z.unsqueeze(1) == self.encode(x)).flatten(2).all(-1)
        return weft.where(same, 0.0, -weft.inf).to(x.dtype)

    def prior_draws(self, n: int, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        return self.as_maps(self.quantizer.lookup(self.prior.draw(n, generator)))

    def said(self, z: Tensor, condition: Tensor | None = None) -> Tensor:
        return self.decoder(z)

    @exact
    def encode(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """The entries that stand for x: (B, *event) → (B, D, *places)"""
        self._unconditional(condition)
        return self.as_maps(self.quantizer.lookup(self.codes(x)))


class UniformCodes(nn.Module):
    """log P(codes) = −places · log K."""

    def __init__(self, codes: int, places: Sequence[int]) -> None:
        super().__init__()
        self.codes, self.places = codes, tuple(places)

    def log_prob(self, codes: Tensor) -> Tensor:
        """(B, *places) → (B,)"""
        return weft.full((len(codes),), -math.prod(self.places) * math.log(self.codes))

    def draw(self, n: int, generator: Any = None) -> Tensor:
        """(n, *places)"""
        return weft.randint(0, self.codes, (n, *self.places), generator=generator)


class CodePrior(nn.Module):
    """A PixelCNN over codes: the number of an entry is written in binary, and its digits are the colours of a pixel.

    So numbers that have nothing to do with each other share no scale, and P is over exactly K = 2ᵇ codes.
    codes: K; places: (h, w). Options as in `GatedPixelCNN`
    """

    def __init__(self, codes: int, places: Sequence[int], features: int = 8, layers: int = 4, **options: Any) -> None:
        super().__init__()
        self.digits = codes.bit_length() - 1
        if codes < 2 or codes != 1 << self.digits or len(places) != 2:
            raise OptionError(
                f"CodePrior: expected codes in 2, 4, 8 … and places (h, w), got {codes} and {tuple(places)}"
            )
        options = {"first": 5} | options
        self.pixels = GatedPixelCNN((self.digits, *places), features * self.digits, layers, **options)

    def log_prob(self, codes: Tensor) -> Tensor:
        """(B, h, w) → (B,)"""
        return self.pixels.log_prob(self.written(codes))

    def draw(self, n: int, generator: Any = None) -> Tensor:
        """(n, h, w)"""
        return self.read(self.pixels.sample(n, generator=generator))

    def written(self, codes: Tensor) -> Tensor:
        """Binary digits, the lowest first: (B, h, w) → (B, b, h, w)"""
        found = (codes.unsqueeze(1) >> weft.arange(self.digits).reshape(-1, 1, 1)) & 1
        return found.to(next(self.pixels.parameters()).dtype)

    def read(self, digits: Tensor) -> Tensor:
        """(B, b, h, w) → (B, h, w)"""
        return (digits.to(weft.int64) << weft.arange(self.digits).reshape(-1, 1, 1)).sum(1)


class ConvolutionalVQVAE(VQVAE):
    """For images whose sides are multiples of 4: two halvings and a residual layer down to (H/4, W/4) places, and back.

    shape: (C, H, W); width: channels of the convolutions

    >>> model = ConvolutionalVQVAE((1, 28, 28), codes=64)
    >>> model.codes(weft.zeros(2, 1, 28, 28)).shape, model.reconstruct(weft.zeros(2, 1, 28, 28)).shape
    (weft.Size([2, 7, 7]), weft.Size([2, 1, 28, 28]))
    """

    def __init__(
        self,
        shape: tuple[int, int, int] = (1, 28, 28),
        codes: int = 128,
        dimension: int = 16,
        width: int = 32,
        likelihood: str | Head | Likelihood = "bernoulli",
        *,
        quantizer: Quantizer | ResidualQuantizer | None = None,
        prior: CodePrior | None = None,
    ) -> None:
        channels, height, across = shape
        if height % 4 or across % 4:
            raise OptionError(f"ConvolutionalVQVAE: expected sides that are multiples of 4, got {shape}")
        likelihood = likelihood_named(likelihood)
        quantizer = VectorQuantizer(codes, dimension, decay=0.9) if quantizer is None else quantizer
        encoder = nn.Sequential(
            nn.Conv2d(channels, width, 4, 2, 1),  # (B, width, H/2, W/2)
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 4, 2, 1),  # (B, 2 width, H/4, W/4)
            ResidualConv(2 * width, width),
            nn.ReLU(),
            nn.Conv2d(2 * width, quantizer.dimension, 1),
            nn.BatchNorm2d(quantizer.dimension, affine=False),  # so that vectors cannot run away from the codebook
        )
        decoder = nn.Sequential(
            nn.Conv2d(quantizer.dimension, 2 * width, 3, padding=1),
            ResidualConv(2 * width, width),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(width, channels * likelihood.numbers, 4, 2, 1),
        )
        super().__init__(encoder, decoder, quantizer, (height // 4, across // 4), likelihood, prior=prior)


class ResidualConv(nn.Module):
    """x + 1×1(ReLU 3×3(ReLU x)): (B, width, H, W) → the same"""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.spread = nn.Conv2d(width, hidden, 3, padding=1, bias=False)
        self.mix = nn.Conv2d(hidden, width, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        relu = nn.functional.relu
        return x + self.mix(relu(self.spread(relu(x))))
