"""What the two players minimise, from the discriminator's scores: D(x) on data, D(G(z)) on draws.

Scores are logits a = log D / (1 − D), or the critic's values; any shape. Every loss is a mean over all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor

__all__ = [
    *("LOSSES", "AdversarialLoss", "hinge_discriminator", "hinge_generator", "least_squares_discriminator"),
    *("least_squares_generator", "logistic_discriminator", "minimax_generator", "non_saturating_generator"),
    *("wasserstein_discriminator", "wasserstein_generator"),
]

softplus, relu = nn.functional.softplus, nn.functional.relu


class AdversarialLoss(NamedTuple):
    """The losses of both players.

    discriminator: (scores of data, scores of draws) → ()
    generator: scores of draws → ()
    """

    discriminator: Callable[[Tensor, Tensor], Tensor]
    generator: Callable[[Tensor], Tensor]


def logistic_discriminator(real: Tensor, fake: Tensor) -> Tensor:
    """−E log D(x) − E log(1 − D(G(z))), D = σ(score): −V of Goodfellow et al. (2014)."""
    return softplus(-real).mean() + softplus(fake).mean()


def minimax_generator(fake: Tensor) -> Tensor:
    """E log(1 − D(G(z))): V itself. Its slope in the score is −D, which is gone where D is sure of itself (N1 §9)."""
    return -softplus(fake).mean()


def non_saturating_generator(fake: Tensor) -> Tensor:
    """−E log D(G(z)): slope −(1 − D), largest where the draws are worst."""
    return softplus(-fake).mean()


def hinge_discriminator(real: Tensor, fake: Tensor) -> Tensor:
    """E max(0, 1 − D(x)) + E max(0, 1 + D(G(z))) (Lim and Ye 2017, Miyato et al. 2018)."""
    return relu(1 - real).mean() + relu(1 + fake).mean()


def hinge_generator(fake: Tensor) -> Tensor:
    """−E D(G(z))"""
    return -fake.mean()


def least_squares_discriminator(real: Tensor, fake: Tensor) -> Tensor:
    """½ E (D(x) − 1)² + ½ E D(G(z))² (Mao et al. 2017)."""
    return 0.5 * ((real - 1) ** 2).mean() + 0.5 * (fake**2).mean()


def least_squares_generator(fake: Tensor) -> Tensor:
    """½ E (D(G(z)) − 1)²"""
    return 0.5 * ((fake - 1) ** 2).mean()


def wasserstein_discriminator(real: Tensor, fake: Tensor) -> Tensor:
    """E f(G(z)) − E f(x), for a 1-Lipschitz f no less than −W₁ (Arjovsky et al. 2017)."""
    return fake.mean() - real.mean()


def wasserstein_generator(fake: Tensor) -> Tensor:
    """−E f(G(z))"""
    return -fake.mean()


LOSSES: dict[str, AdversarialLoss] = {
    "minimax": AdversarialLoss(logistic_discriminator, minimax_generator),
    "non_saturating": AdversarialLoss(logistic_discriminator, non_saturating_generator),
    "hinge": AdversarialLoss(hinge_discriminator, hinge_generator),
    "least_squares": AdversarialLoss(least_squares_discriminator, least_squares_generator),
    "wasserstein": AdversarialLoss(wasserstein_discriminator, wasserstein_generator),
}


def loss_named(loss: str | AdversarialLoss) -> AdversarialLoss:
    """One of `LOSSES` by its name, or a pair of the caller's own."""
    if isinstance(loss, AdversarialLoss):
        return loss
    if loss not in LOSSES:
        raise OptionError(f"loss: expected one of {', '.join(LOSSES)} or an AdversarialLoss, got {loss!r}")
    return LOSSES[loss]
