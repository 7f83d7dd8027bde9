"""InfoVAE: codes of all data together matched with the prior by MMD, single ones left freer (Zhao, Song, Ermon 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import OptionError
from ...tensor import Tensor
from ..autoencoders.wasserstein import mmd

__all__ = ["InfoELBO"]


@dataclass(frozen=True)
class InfoELBO:
    """E_q[log p(x | z)] − (1 − α) KL(q(z | x) ‖ p(z)) − (α + λ − 1) MMD²(q(z), p(z)): an objective for any VAE.

    α = 0, λ = 1: the ELBO. α = 1: no pressure on single posteriors, an MMD-VAE; with large λ codes as a whole still look
    like the prior, so that a decoder that could do without z has no reason to. kernel: "imq" or "rbf"; the MMD is of one
    draw for each example of the batch, which must have two or more
    """

    alpha: float = 1.0
    scale: float = 1000.0
    kernel: str = "imq"

    def __post_init__(self) -> None:
        if self.alpha + self.scale < 1 or self.alpha > 1:
            raise OptionError(f"InfoELBO: expected α ≤ 1 and α + λ ≥ 1, got {self.alpha} and {self.scale}")

    def __call__(self, model: Any, x: Tensor, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        weight = self.alpha + self.scale - 1
        found = model.draws(x, 1, condition, generator)
        divergence = (found.log_posterior - found.log_prior)[0]
        value = found.log_likelihood[0] - (1 - self.alpha) * divergence if self.alpha < 1 else found.log_likelihood[0]
        if not weight:
            return value
        prior = model.prior_draws(len(x), condition, generator).detach()
        return value - weight * mmd(found.z[0], prior, self.kernel)
