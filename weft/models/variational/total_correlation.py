"""β-TC-VAE: the divergence of a VAE taken apart, and only the part that ties codes together weighted (Chen et al. 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...errors import OptionError, UnsupportedError
from ...tensor import Tensor
from .posteriors import DiagonalGaussian

__all__ = ["BetaTC", "Decomposition"]


class Decomposition(NamedTuple):
    """KL(q(z | x) ‖ p(z)) in the mean over examples, in three parts, estimated for each drawn z: (B,) each.

    mutual_information: log q(z | x) − log q(z);  total_correlation: log q(z) − log Πⱼ q(zⱼ);
    dimension_wise: log Πⱼ q(zⱼ) − log p(z)
    """

    mutual_information: Tensor
    total_correlation: Tensor
    dimension_wise: Tensor


@dataclass(frozen=True)
class BetaTC:
    """E[log p(x | z)] − α I(x; z) − β TC(z) − γ Σⱼ KL(q(zⱼ) ‖ p(zⱼ)); the ELBO, from draws, if all are 1.

    q(z) over all N = examples is estimated from the M of a minibatch, each of which stands for N / M others but the one
    that z came from: log q(z) ≈ log 1/(N M) Σⱼ q(z | xⱼ) (minibatch-weighted sampling). It is biased low, and what it says
    depends on the batch size: compare runs of one batch size.
    """

    examples: int
    beta: float = 6.0
    alpha: float = 1.0
    gamma: float = 1.0

    def __post_init__(self) -> None:
        if self.examples < 1 or not min(self.alpha, self.beta, self.gamma) >= 0:
            raise OptionError(f"BetaTC: expected examples ≥ 1 and weights ≥ 0, got {self}")

    def __call__(self, model: Any, x: Tensor, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        reconstruction, parts = self.parts(model, x, condition, generator)
        weighted = self.alpha * parts.mutual_information + self.beta * parts.total_correlation
        return reconstruction - weighted - self.gamma * parts.dimension_wise

    def parts(
        self, model: Any, x: Tensor, condition: Tensor | None = None, generator: Any = None
    ) -> tuple[Tensor, Decomposition]:
        """E[log p(x | z)] and the three parts, from one draw of each code: (B,) each"""
        if not isinstance(getattr(model, "posterior", None), DiagonalGaussian):
            raise UnsupportedError("BetaTC: the parts of the divergence need a posterior with independent elements")
        said = model.inferred(x, condition)
        found = model.draws_of(said, x, 1, condition, generator)
        z, log_posterior, log_prior = found.z[0], found.log_posterior[0], found.log_prior[0]
        mean, log_scale = model.posterior.split(said)
        apart = (z.unsqueeze(1) - mean) * (-log_scale).exp()  # (B, 1, code) − (M, code) → (B, M, code)
        each = -0.5 * apart**2 - log_scale - 0.5 * math.log(2 * math.pi)  # log q(zᵢ | x_m) of each element
        count = math.log(self.examples * len(x))
        together = each.sum(-1).logsumexp(1) - count  # log q(z): (B,)
        alone = (each.logsumexp(1) - count).sum(-1)  # log Πⱼ q(zⱼ): (B,)
        parts = Decomposition(log_posterior - together, together - alone, alone - log_prior)
        return found.log_likelihood[0], parts
