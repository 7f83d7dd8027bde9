"""The generative adversarial network (Goodfellow et al. 2014): min over G, max over D of E log D(x) + E log(1 − D(G(z)))."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, UnsupportedError
from ...tensor import Tensor
from ..generative.plans import in_one_plan
from ..generative.protocol import exact
from .base import AdversarialModel, counted, parted
from .losses import AdversarialLoss, loss_named
from .penalties import GradientPenalty, Penalty, refuse_batch_norm

__all__ = ["GAN"]


class GAN(AdversarialModel):
    """x = G(z) with z ~ N(0, I), against a discriminator or critic D under any of `LOSSES` and penalties.

    generator: z (B, latent) → x (B, *event); with conditions (z, c) → x
    discriminator: x → scores (B,) or (B, 1); with conditions (x, c) → scores
    loss: one of `LOSSES`, or an `AdversarialLoss`
    penalties: of the discriminator alone, such as `GradientPenalty()` or `ZeroPenalty()`; gradient penalties refuse batch
        normalisation
    conditional: whether both take a condition, which comes with every batch and with `sample`
    augment: changes data and draws before the discriminator sees them, with slopes (`Augment`): (x, generator) → x

    >>> from weft.models.adversarial import GAN, mlp
    >>> gan = GAN(mlp(2, (16,), 3), mlp(3, (16,), 1), latent=2, loss="hinge")
    >>> gan.sample(5).shape, gan.promises
    (weft.Size([5, 3]), {'sample': 'exact'})
    """

    continuous = True

    def __init__(
        self,
        generator: nn.Module,
        discriminator: nn.Module,
        latent: int,
        loss: str | AdversarialLoss = "non_saturating",
        *,
        penalties: Sequence[Penalty] = (),
        conditional: bool = False,
        augment: Callable[..., Tensor] | None = None,
    ) -> None:
        super().__init__()
        if latent < 1:
            raise OptionError(f"GAN: expected latent, the size of z, to be at least 1, got {latent}")
        self.generator, self.discriminator, self.latent = generator, discriminator, latent
        self.loss, self.penalties, self.conditional, self.augment = (
            *(loss_named(loss), tuple(penalties), conditional, augment),
        )
        if any(isinstance(penalty, GradientPenalty) for penalty in self.penalties):
            refuse_batch_norm(discriminator)

    def players(self) -> tuple[list[nn.Module], list[nn.Module]]:
        return [self.generator], [self.discriminator]

    def generate(self, z: Tensor, condition: Any = None) -> Tensor:
        """G(z), or G(z, c): (B, latent) → (B, *event)"""
        return self.generator(z, condition) if self._has(condition) else self.generator(z)

    def criticise(self, x: Tensor, condition: Any = None) -> Tensor:
        """D(x), or D(x, c): scores (B,) or (B, 1)"""
        return self.discriminator(x, condition) if self._has(condition) else self.discriminator(x)

    def noise(self, n: int, generator: Any = None) -> Tensor:
        """z ~ N(0, I): (n, latent)"""
        return weft.randn(counted(n), self.latent, generator=generator)

    def discriminator_loss(self, batch: Any, generator: Any = None) -> Tensor:
        real, condition = self._parted(batch)
        with weft.no_grad():
            fake = self.generate(self.noise(len(real), generator), condition)
        real, fake = self._augmented(real, generator), self._augmented(fake, generator)
        loss = self.loss.discriminator(self.criticise(real, condition), self.criticise(fake, condition))
        for penalty in self.penalties:
            loss = loss + penalty(lambda x: self.criticise(x, condition), real, fake, generator)
        return loss

    def generator_loss(self, batch: Any, generator: Any = None) -> Tensor:
        real, condition = self._parted(batch)
        fake = self._augmented(self.generate(self.noise(len(real), generator), condition), generator)
        return self.loss.generator(self.criticise(fake, condition))

    @exact
    def sample(self, n: int, condition: Any = None, generator: Any = None) -> Tensor:
        """n draws G(z), or as many of each given condition's row: (n, *event). In one plan, without gradients."""
        self._has(condition)
        return self._drawn(counted(n), condition, generator)

    @in_one_plan
    @weft.no_grad()
    def _drawn(self, n: int, condition: Any = None, generator: Any = None) -> Tensor:
        return self.generate(self.noise(n, generator), condition)

    def _parted(self, batch: Any) -> tuple[Tensor, Any]:
        x, condition = parted(batch)  # labels that a loader brings along are no condition of an unconditional model
        return x, condition if self.conditional else None

    def _augmented(self, x: Tensor, generator: Any) -> Tensor:
        return x if self.augment is None else self.augment(x, generator)

    def _has(self, condition: Any) -> bool:
        if self.conditional and condition is None:
            raise OptionError("GAN: this model is conditional: give a condition, one a row")
        if not self.conditional and condition is not None:
            raise UnsupportedError("GAN: this model takes no condition; make it with conditional=True")
        return self.conditional
