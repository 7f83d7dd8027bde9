"""The linear VAE, whose best ELBO is the likelihood of probabilistic PCA: the oracle of all others (Lucas et al. 2019)."""

from __future__ import annotations

import math
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from ..generative.protocol import exact
from .base import VAE
from .likelihoods import SharedVariance
from .probabilistic_pca import ProbabilisticPCA

__all__ = ["LinearVAE"]


class LinearVAE(VAE):
    """q(z | x) = N(V x + a, diag s²),  p(x | z) = N(W z + b, σ² I): everything linear, s and σ the same for all x.

    Its p(x) is a normal distribution, so log p(x) is exact, and so is the ELBO (`expected_elbo`); the distance between them
    is KL(q(z | x) ‖ p(z | x)). At its best there is none, and W spans the principal directions, one a column.
    Shape: x (B, features), codes (B, code)
    """

    def __init__(self, features: int, code: int, dtype: Any = None, **options: Any) -> None:
        if not 1 <= code < features:
            raise OptionError(f"LinearVAE: expected a code of 1 to {features - 1} numbers, got {code}")
        encoder, decoder = _SpreadApart(features, code, dtype), nn.Linear(code, features, dtype=dtype)
        super().__init__(encoder, decoder, code, SharedVariance(dtype), **options)

    def marginal(self) -> ProbabilisticPCA:
        """The same p(x, z) as probabilistic PCA, whose log p(x) and p(z | x) are in closed form."""
        return ProbabilisticPCA.of(self.decoder.weight, self.decoder.bias, (2 * self.likelihood.log_scale).exp())

    @exact
    def log_prob(self, x: Tensor) -> Tensor:
        """log N(x; b, W Wᵀ + σ² I): (B, features) → (B,)"""
        self._checked(x, None)
        return self.marginal().log_prob(x)

    def expected_elbo(self, x: Tensor) -> Tensor:
        """The ELBO without draws: (B, features) → (B,)

        E_q ‖x − W z − b‖² = ‖x − W m − b‖² + Σⱼ sⱼ² ‖W_:j‖²,  m = V x + a
        """
        self._checked(x, None)
        said = self.inferred(x)
        mean, log_spread = self.posterior.split(said)
        apart = ((x - self.decoder(mean)) ** 2).sum(-1)
        spread = ((2 * log_spread).exp() * (self.decoder.weight**2).sum(0)).sum(-1)
        log_scale, size = self.likelihood.log_scale, x.shape[-1]
        squares = 0.5 * (apart + spread) * (-2 * log_scale).exp()
        reconstruction = -squares - size * (log_scale + 0.5 * math.log(2 * math.pi))
        return reconstruction - self.posterior.kl(said, self.prior)

    @weft.no_grad()
    def solve(self, x: Tensor) -> LinearVAE:
        """Take the weights of greatest likelihood, and the true posterior: (N, features)

        The columns of W are orthogonal there, so the posterior's covariance is diagonal and q reaches it.
        """
        features, code = self.decoder.weight.shape
        found = ProbabilisticPCA(features, code, dtype=weft.float64).fit(x)
        precision = (found.weight**2).sum(0) + found.variance  # the diagonal of M
        back = (found.weight / precision).mT  # M⁻¹ Wᵀ: (code, features)
        self.decoder.weight.copy_(found.weight)
        self.decoder.bias.copy_(found.mean)
        self.likelihood.log_scale.copy_(0.5 * found.variance.log())
        self.encoder.mean.weight.copy_(back)
        self.encoder.mean.bias.copy_(-(back @ found.mean))
        self.encoder.log_spread.copy_(0.5 * (found.variance / precision).log())
        return self


class _SpreadApart(nn.Module):
    """A linear mean, and log s that x says nothing of: (B, features) → (B, 2 · code)"""

    def __init__(self, features: int, code: int, dtype: Any) -> None:
        super().__init__()
        self.mean = nn.Linear(features, code, dtype=dtype)
        self.log_spread = nn.Parameter(weft.zeros(code, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        mean = self.mean(x)
        return weft.cat([mean, self.log_spread.expand(mean.shape)], -1)
