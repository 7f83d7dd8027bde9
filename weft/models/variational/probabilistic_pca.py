"""Probabilistic PCA: the linear VAE whose likelihood, posterior and best weights have closed forms (Tipping and Bishop 1999)."""

from __future__ import annotations

from typing import Any

import weft

from ...distributions import LowRankMultivariateNormal, MultivariateNormal
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..generative.protocol import GenerativeModel, exact

__all__ = ["ProbabilisticPCA"]


class ProbabilisticPCA(GenerativeModel):
    """z ~ N(0, I),  x ~ N(W z + μ, σ² I),  so x ~ N(μ, W Wᵀ + σ² I) and z | x ~ N(M⁻¹ Wᵀ (x − μ), σ² M⁻¹), M = WᵀW + σ² I.

    Shape: x (B, features), z (B, code). Buffers: weight (features, code), mean (features,), variance ()

    >>> x = weft.randn(100, 5, generator=weft.Generator().manual_seed(0)) * weft.tensor([3.0, 2, 1, 1, 1])
    >>> model = ProbabilisticPCA(5, 2).fit(x)
    >>> model.promises["log_prob"], model.encode(x).shape
    ('exact', weft.Size([100, 2]))
    """

    continuous = True

    def __init__(self, features: int, code: int, dtype: Any = None) -> None:
        super().__init__()
        if not 1 <= code < features:
            raise OptionError(
                f"ProbabilisticPCA: expected a code of 1 to {features - 1} numbers, got {code}: σ² is the mean variance of "
                "the directions that are left out"
            )
        self.features, self.code = features, code
        self.register_buffer("weight", weft.eye(features, code, dtype=dtype))
        self.register_buffer("mean", weft.zeros(features, dtype=dtype))
        self.register_buffer("variance", weft.ones((), dtype=dtype))

    @classmethod
    def of(cls, weight: Tensor, mean: Tensor, variance: Tensor) -> ProbabilisticPCA:
        """The model with these W (features, code), μ (features,) and σ² (), whose gradients lead back to them."""
        model = cls(*weight.shape, dtype=weight.dtype)
        model.weight, model.mean, model.variance = weight.view_as(weight), mean.view_as(mean), variance
        return model

    def fit(self, x: Tensor, least: float = 1e-9) -> ProbabilisticPCA:
        """Maximum likelihood: σ² = mean of the eigenvalues left out, W = U (Λ − σ²)^½, columns from the largest.

        Computed in float64, with the covariance of N rows. least: of σ², for data that lie in a plane
        """
        if x.ndim != 2 or x.shape[1] != self.features or len(x) < 2:
            raise ShapeError(f"ProbabilisticPCA: expected at least 2 rows (N, {self.features}), got {tuple(x.shape)}")
        rows = x.detach().double()
        mean = rows.mean(0)
        values, vectors = weft.linalg.eigh((rows - mean).mT @ (rows - mean) / len(rows))  # from the smallest
        variance = values[: -self.code].mean().clamp(min=least)
        leading, basis = values.flip(0)[: self.code], vectors.flip(1)[:, : self.code]
        kind = self.mean.dtype
        self.weight = (basis * (leading - variance).clamp(min=0).sqrt()).to(kind)
        self.mean, self.variance = mean.to(kind), variance.to(kind)
        return self

    def distribution(self) -> LowRankMultivariateNormal:
        """p(x) among `weft.distributions`."""
        return LowRankMultivariateNormal(self.mean, self.weight, self.variance.expand(self.features))

    def posterior(self, x: Tensor) -> MultivariateNormal:
        """p(z | x): batch (B,), event (code,)."""
        precision = self.weight.mT @ self.weight + self.variance * weft.eye(self.code, dtype=self.weight.dtype)  # M
        mean = weft.linalg.solve(precision, ((x - self.mean) @ self.weight).mT).mT  # (B, code)
        return MultivariateNormal(mean, self.variance * weft.linalg.inv(precision))

    @exact
    def log_prob(self, x: Tensor) -> Tensor:
        """log N(x; μ, W Wᵀ + σ² I): (B, features) → (B,)"""
        return self.distribution().log_prob(x)

    @exact
    def energy(self, x: Tensor) -> Tensor:
        """−log p(x), with Z = 1: (B, features) → (B,)"""
        return -self.log_prob(x)

    @exact
    def encode(self, x: Tensor) -> Tensor:
        """E[z | x]: (B, features) → (B, code)"""
        return self.posterior(x).mean

    @exact
    def decode(self, z: Tensor) -> Tensor:
        """E[x | z] = W z + μ: (B, code) → (B, features)"""
        return z @ self.weight.mT + self.mean

    @exact
    @weft.no_grad()
    def sample(self, n: int, condition: Any = None, generator: Any = None) -> Tensor:
        """W z + μ + σ ε: (n, features)"""
        self._unconditional(condition)
        z, noise = (weft.randn(n, k, dtype=self.mean.dtype, generator=generator) for k in (self.code, self.features))
        return self.decode(z) + self.variance.sqrt() * noise
