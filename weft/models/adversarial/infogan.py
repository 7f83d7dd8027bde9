"""InfoGAN: part of z is a code that can be told from the draws (Chen et al. 2016)."""

from __future__ import annotations

import math
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..generative.plans import in_one_plan
from ..generative.protocol import estimate, exact
from .base import AdversarialModel, counted, parted
from .losses import AdversarialLoss, loss_named

__all__ = ["InfoGAN"]

F = nn.functional


class InfoGAN(AdversarialModel):
    """The game with − λ L_I, L_I = E log Q(c | G(z, c)) + H(c) ≤ I(c; G(z, c)): codes that the draws must show.

    z = [noise N(0, I), one-hot of a class, numbers even in [−1, 1)]
    generator: (B, noise + classes + numbers) → x; features: x → (B, width), shared by D and Q
    classes, numbers: how many classes the code has (0: none), and how many numbers
    Q is categorical, and Gaussian of unit variance around its prediction. Its heads learn with the generator, as
    in the paper: the features move for the discriminator alone.
    """

    continuous = True

    def __init__(
        self,
        generator: nn.Module,
        features: nn.Module,
        width: int,
        noise: int,
        classes: int = 0,
        numbers: int = 0,
        loss: str | AdversarialLoss = "non_saturating",
        *,
        weight: float = 1.0,
    ) -> None:
        super().__init__()
        if classes + numbers < 1:
            raise OptionError(
                "InfoGAN: expected a code of classes or numbers, got neither; GAN is the game without one"
            )
        self.generator, self.features = generator, features
        self.output, self.recognition = nn.Linear(width, 1), nn.Linear(width, classes + numbers)
        self.noise, self.classes, self.numbers = noise, classes, numbers
        self.loss, self.weight = loss_named(loss), weight

    def players(self) -> tuple[list[nn.Module], list[nn.Module]]:
        return [self.generator, self.recognition], [self.features, self.output]

    def codes(self, n: int, generator: Any = None) -> Tensor:
        """c of the prior, the classes one-hot: (n, classes + numbers)"""
        parts = []
        if self.classes:
            parts.append(F.one_hot(weft.randint(self.classes, (n,), generator=generator), self.classes).float())
        if self.numbers:
            parts.append(2 * weft.rand(n, self.numbers, generator=generator) - 1)
        return weft.cat(parts, 1)

    def generate(self, codes: Tensor, generator: Any = None) -> Tensor:
        """G(z, c) with fresh noise: (B, classes + numbers) → (B, *event)"""
        if codes.shape[1] != self.classes + self.numbers:
            raise ShapeError(f"InfoGAN: expected codes (B, {self.classes + self.numbers}), got {tuple(codes.shape)}")
        return self.generator(weft.cat([weft.randn(len(codes), self.noise, generator=generator), codes], 1))

    def discriminator_loss(self, batch: Any, generator: Any = None) -> Tensor:
        real, _ = parted(batch)
        with weft.no_grad():
            fake = self.generate(self.codes(len(real), generator), generator)
        return self.loss.discriminator(self.output(self.features(real)), self.output(self.features(fake)))

    def generator_loss(self, batch: Any, generator: Any = None) -> Tensor:
        real, _ = parted(batch)
        codes = self.codes(len(real), generator)
        phi = self.features(self.generate(codes, generator))
        return self.loss.generator(self.output(phi)) - self.weight * self._told(self.recognition(phi), codes).mean()

    @weft.no_grad()
    def information(self, n: int = 1000, generator: Any = None) -> float:
        """L_I of the classes over n draws, in nats: a lower bound of their mutual information, at most log(classes)."""
        if not self.classes:
            raise OptionError("InfoGAN.information: the code has no classes")
        codes = self.codes(counted(n), generator)
        told = self.recognition(self.features(self.generate(codes, generator)))[:, : self.classes].log_softmax(1)
        return (codes[:, : self.classes] * told).sum(1).mean().item() + math.log(self.classes)

    @estimate
    def encode(self, x: Tensor) -> Tensor:
        """What Q makes of x: probabilities of the classes, then the numbers: (B, classes + numbers)"""
        found = self.recognition(self.features(x))
        return weft.cat([found[:, : self.classes].softmax(1), found[:, self.classes :]], 1)

    @exact
    def sample(self, n: int, condition: Any = None, generator: Any = None) -> Tensor:
        """n draws; condition: codes (n, classes + numbers), otherwise those of the prior"""
        return self._drawn(counted(n), condition, generator)

    @in_one_plan
    @weft.no_grad()
    def _drawn(self, n: int, condition: Any = None, generator: Any = None) -> Tensor:
        return self.generate(self.codes(n, generator) if condition is None else condition, generator)

    def _told(self, found: Tensor, codes: Tensor) -> Tensor:
        """log Q(c | x) without constants: (B,)"""
        k = self.classes
        classes = (codes[:, :k] * found[:, :k].log_softmax(1)).sum(1) if k else 0.0
        return classes - 0.5 * ((codes[:, k:] - found[:, k:]) ** 2).sum(1)
