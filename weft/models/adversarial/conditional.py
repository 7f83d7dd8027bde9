"""Conditional games: classes given to both players, by concatenation, by projection, or to be told by the discriminator."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from ..generative.plans import in_one_plan
from ..generative.protocol import exact
from .base import AdversarialModel, counted, parted
from .losses import AdversarialLoss, loss_named

__all__ = [
    *("AuxiliaryClassifier", "AuxiliaryClassifierGAN", "ConcatenationDiscriminator", "ConcatenationGenerator"),
    "ProjectionDiscriminator",
]

F = nn.functional


class ConcatenationGenerator(nn.Module):
    """G(z, c) = net([z, onehot(c)]) (Mirza and Osindero 2014). Shape: (B, latent), (B,) of int64 → (B, *event)"""

    def __init__(self, net: nn.Module, classes: int) -> None:
        super().__init__()
        self.net, self.classes = net, classes

    def forward(self, z: Tensor, condition: Tensor) -> Tensor:
        return self.net(weft.cat([z, one_hot(condition, self.classes, z)], 1))


class ConcatenationDiscriminator(nn.Module):
    """D(x, c) = net([x, onehot(c)]); of an image the classes are further channels, one of them all ones.

    Shape: (B, C, …), (B,) of int64 → scores
    """

    def __init__(self, net: nn.Module, classes: int) -> None:
        super().__init__()
        self.net, self.classes = net, classes

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        told = one_hot(condition, self.classes, x)
        spread = told.reshape(*told.shape, *[1] * (x.dim() - 2)).expand(-1, -1, *x.shape[2:])  # (B, K, …)
        return self.net(weft.cat([x, spread], 1))


class ProjectionDiscriminator(nn.Module):
    """D(x, c) = ⟨v_c, φ(x)⟩ + ψ(φ(x)) (Miyato and Koyama 2018): log p(c|x) / q(c|x) + log p(x) / q(x), both log-linear.

    features: x → φ (B, width). Shape: (B, *event), (B,) of int64 → (B,)
    spectral: whether the layers on top are spectrally normalised
    """

    def __init__(self, features: nn.Module, width: int, classes: int, *, spectral: bool = False) -> None:
        super().__init__()
        norm = nn.utils.parametrizations.spectral_norm if spectral else lambda layer: layer
        self.features = features
        self.output = norm(nn.Linear(width, 1))
        self.classes = norm(nn.Embedding(classes, width))

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        phi = self.features(x)  # (B, width)
        return self.output(phi)[:, 0] + (self.classes(condition) * phi).sum(1)


class AuxiliaryClassifier(nn.Module):
    """Two heads on shared features: a score and the logits of the classes. Shape: (B, *event) → (B,), (B, classes)"""

    def __init__(self, features: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.features, self.output, self.classes = features, nn.Linear(width, 1), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        phi = self.features(x)
        return self.output(phi)[:, 0], self.classes(phi)


class AuxiliaryClassifierGAN(AdversarialModel):
    """Both players also want the class to be told from x: + λ E −log C(c | x) (AC-GAN, Odena et al. 2017).

    generator: (z, c) → x; discriminator: an `AuxiliaryClassifier`
    weight: λ. On draws the discriminator's own term is left out: it would teach C to call bad draws by their class.
    """

    continuous = True

    def __init__(
        self,
        generator: nn.Module,
        discriminator: AuxiliaryClassifier,
        latent: int,
        loss: str | AdversarialLoss = "hinge",
        *,
        weight: float = 1.0,
    ) -> None:
        super().__init__()
        self.generator, self.discriminator, self.latent = generator, discriminator, latent
        self.loss, self.weight = loss_named(loss), weight

    def players(self) -> tuple[list[nn.Module], list[nn.Module]]:
        return [self.generator], [self.discriminator]

    def discriminator_loss(self, batch: Any, generator: Any = None) -> Tensor:
        real, condition = _with_classes(batch)
        with weft.no_grad():
            fake = self._made(len(real), condition, generator)
        (score, logits), (other, _) = self.discriminator(real), self.discriminator(fake)
        return self.loss.discriminator(score, other) + self.weight * F.cross_entropy(logits, condition)

    def generator_loss(self, batch: Any, generator: Any = None) -> Tensor:
        real, condition = _with_classes(batch)
        score, logits = self.discriminator(self._made(len(real), condition, generator))
        return self.loss.generator(score) + self.weight * F.cross_entropy(logits, condition)

    def classify(self, x: Tensor) -> Tensor:
        """log C(c | x): (B, *event) → (B, classes)"""
        return self.discriminator(x)[1].log_softmax(1)

    @exact
    def sample(self, n: int, condition: Any = None, generator: Any = None) -> Tensor:
        """n draws of the classes in `condition`, (n,): (n, *event)"""
        if condition is None:
            raise OptionError("AuxiliaryClassifierGAN.sample: give a condition, one class a draw")
        return self._drawn(counted(n), condition, generator)

    @in_one_plan
    @weft.no_grad()
    def _drawn(self, n: int, condition: Any = None, generator: Any = None) -> Tensor:
        return self._made(n, condition, generator)

    def _made(self, n: int, condition: Tensor, generator: Any) -> Tensor:
        return self.generator(weft.randn(n, self.latent, generator=generator), condition)


def one_hot(condition: Tensor, classes: int, like: Tensor) -> Tensor:
    """(B,) of int64 → (B, classes), in the type of `like`."""
    if condition.is_floating_point():
        raise OptionError(f"condition: expected classes (B,) of int64, got {condition.dtype}")
    return F.one_hot(condition, classes).to(like.dtype)


def _with_classes(batch: Any) -> tuple[Tensor, Tensor]:
    x, condition = parted(batch)
    if condition is None:
        raise OptionError("AuxiliaryClassifierGAN: expected batches (x, classes), got x alone")
    return x, condition
