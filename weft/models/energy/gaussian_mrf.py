"""Gaussian Markov random fields: a zero in the precision matrix is a missing edge of the graph (N1 §4.1)."""

from __future__ import annotations

import math
from typing import Any

import weft

from ... import nn
from ...distributions import MultivariateNormal
from ...errors import LinAlgError, ShapeError
from ...tensor import Tensor
from ..generative.protocol import GenerativeModel, exact

__all__ = ["GaussianMRF"]


class GaussianMRF(GenerativeModel):
    """p(x) = exp(−½ xᵀJx + gᵀx) / Z: a normal distribution of mean J⁻¹g and covariance J⁻¹.

    Given all others, xₖ ~ N((gₖ − Σ_{j≠k} Jₖⱼ xⱼ) / Jₖₖ, 1 / Jₖₖ).

    precision: J (D, D), symmetric and positive definite; potential: g (D,), by default 0
    Shape: x (B, D) → (B,)

    >>> field = GaussianMRF(weft.tensor([[2.0, -1.0], [-1.0, 2.0]]), weft.tensor([1.0, 1.0]))
    >>> [round(value, 4) for value in field.mean.tolist()]
    [1.0, 1.0]
    """

    continuous = True

    def __init__(self, precision: Tensor, potential: Tensor | None = None) -> None:
        super().__init__()
        if precision.ndim != 2 or precision.shape[0] != precision.shape[1]:
            raise ShapeError(f"GaussianMRF: expected a square precision matrix, got {tuple(precision.shape)}")
        if not weft.allclose(precision, precision.mT):
            raise LinAlgError("GaussianMRF: expected a symmetric precision matrix; (J + J.mT) / 2 is one")
        self.precision = nn.Parameter(precision.clone())
        self.potential = nn.Parameter(weft.zeros(len(precision)) if potential is None else potential.clone())

    @property
    def mean(self) -> Tensor:
        """μ = J⁻¹ g: (D,)."""
        return weft.cholesky_solve(self.potential.unsqueeze(1), self._cholesky())[:, 0]

    @property
    def covariance(self) -> Tensor:
        """Σ = J⁻¹: (D, D)."""
        return weft.cholesky_inverse(self._cholesky())

    def distribution(self) -> MultivariateNormal:
        """The same density among `weft.distributions`."""
        return MultivariateNormal(self.mean, precision_matrix=self.precision)

    @exact
    def energy(self, x: Tensor) -> Tensor:
        """E(x) = ½ xᵀJx − gᵀx."""
        return 0.5 * ((x @ self.precision) * x).sum(-1) - x @ self.potential

    def log_partition(self) -> Tensor:
        """log Z = ½ (gᵀμ + D log 2π − log det J)."""
        size = len(self.potential)
        log_det = 2 * self._cholesky().diagonal().log().sum()
        return 0.5 * (self.potential @ self.mean + size * math.log(2 * math.pi) - log_det)

    @exact
    def log_prob(self, x: Tensor) -> Tensor:
        """−E(x) − log Z."""
        return -self.energy(x) - self.log_partition()

    @exact
    @weft.no_grad()
    def sample(self, n: int, condition: Any = None, generator: Any = None) -> Tensor:
        """μ + L⁻ᵀ ε with J = L Lᵀ: (n, D)."""
        self._unconditional(condition)
        noise = weft.randn(len(self.potential), n, dtype=self.precision.dtype, generator=generator)
        return self.mean + weft.linalg.solve_triangular(self._cholesky().mT, noise, upper=True).mT

    @weft.no_grad()
    def gibbs(self, x: Tensor, sweeps: int = 1, generator: Any = None) -> Tensor:
        """Each unit drawn given all others, in their order, `sweeps` times; one native plan under `weft.compile`."""
        places = weft.eye(len(self.potential), dtype=weft.bool)
        diagonal = self.precision.diagonal()
        units = (self.precision, self.potential, diagonal, places)

        def visit(x: Tensor, unit: tuple[Tensor, ...]) -> tuple[Tensor, None]:
            row, g, own, place = unit
            others = x @ row - own * weft.where(place, x, 0).sum(1)  # Σ_{j≠k} Jₖⱼ xⱼ
            noise = weft.randn(len(x), dtype=x.dtype, generator=generator)
            return weft.where(place, ((g - others) / own + noise / own.sqrt()).unsqueeze(1), x), None

        return weft.fori_loop(0, sweeps, lambda _, x: weft.scan(visit, x, units)[0], x)

    def _cholesky(self) -> Tensor:
        return weft.linalg.cholesky(self.precision)

    def extra_repr(self) -> str:
        return f"size={len(self.potential)}"
