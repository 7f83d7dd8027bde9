"""Losses of two views of the same examples: row i of one belongs to row i of the other (N2 §8.5.4). Names are lightly's."""

from __future__ import annotations

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from .memory_bank import MemoryBank

__all__ = ["BarlowTwinsLoss", "NTXentLoss", "NegativeCosineSimilarity", "VICRegLoss"]

F = nn.functional


class NTXentLoss(nn.Module):
    """Normalised, temperature-scaled cross entropy (SimCLR; Chen et al. 2020).

        ℓ(i, j) = −log (exp(s_ij / τ) / Σ_{k ≠ i} exp(s_ik / τ)),  s the cosine similarity

    Without a memory bank the 2N views of a batch stand against each other, and the loss is the mean over both directions of
    all pairs. With one, row i of `out0` stands against row i of `out1` and what the bank holds, into which `out1` then goes.
    temperature: τ > 0
    memory_bank: a `MemoryBank`, as MoCo uses it
    Shape: (N, D), (N, D) → ()

    >>> z = weft.eye(2)  # each view equals its partner and is orthogonal to the rest: log(1 + 2 exp(−1 / τ))
    >>> round(NTXentLoss(temperature=1.0)(z, z).item(), 4)
    0.5514
    """

    def __init__(self, temperature: float = 0.5, memory_bank: MemoryBank | None = None) -> None:
        super().__init__()
        if not temperature > 0:
            raise OptionError(f"NTXentLoss: temperature must be positive, got {temperature}")
        self.temperature, self.memory_bank = temperature, memory_bank

    def forward(self, out0: Tensor, out1: Tensor) -> Tensor:
        check_views("NTXentLoss", out0, out1)
        if self.memory_bank is not None:
            keys = out1.detach()
            loss = nn.InfoNCE(self.temperature)(out0, keys, self.memory_bank.bank.clone())  # read before it changes
            self.memory_bank.update(keys)
            return loss
        count = len(out0)
        z = F.normalize(weft.cat([out0, out1]), dim=-1)  # (2N, D)
        itself = weft.eye(2 * count, dtype=weft.bool)
        scores = (z @ z.mT / self.temperature).masked_fill(itself, -weft.inf)
        partner = (weft.arange(2 * count) + count) % (2 * count)
        return F.cross_entropy(scores, partner)


class NegativeCosineSimilarity(nn.Module):
    """−mean_i cos(x0_i, x1_i), −1 at best (BYOL, SimSiam). Gradients go to both: detach what should stand still.

    Shape: (N, D), (N, D) → ()

    >>> NegativeCosineSimilarity()(weft.tensor([[2.0, 0.0]]), weft.tensor([[3.0, 0.0]])).item()
    -1.0
    """

    def forward(self, x0: Tensor, x1: Tensor) -> Tensor:
        check_views("NegativeCosineSimilarity", x0, x1)
        return -(F.normalize(x0, dim=-1) * F.normalize(x1, dim=-1)).sum(-1).mean()


class BarlowTwinsLoss(nn.Module):
    """Σ_i (1 − C_ii)² + λ Σ_{i ≠ j} C_ij², C the correlations between features of two views (Zbontar et al. 2021).

    Features are standardised over the batch, so C_ij = mean_n ẑ0_ni ẑ1_nj; there are no negatives.
    lambda_param: λ
    eps: added to variances, so that constant features count as uncorrelated
    Shape: (N, D), (N, D) → (), N ≥ 2
    """

    def __init__(self, lambda_param: float = 5e-3, eps: float = 1e-5) -> None:
        super().__init__()
        self.lambda_param, self.eps = lambda_param, eps

    def forward(self, z0: Tensor, z1: Tensor) -> Tensor:
        check_views("BarlowTwinsLoss", z0, z1, least=2)
        first, second = (self._standardised(z) for z in (z0, z1))
        correlation = first.mT @ second / len(z0)  # (D, D)
        own = weft.eye(z0.shape[1], dtype=z0.dtype)
        off = correlation * (1 - own)
        return ((correlation.diagonal() - 1) ** 2).sum() + self.lambda_param * (off**2).sum()

    def _standardised(self, z: Tensor) -> Tensor:
        centred = z - z.mean(0)
        return centred / ((centred**2).mean(0) + self.eps).sqrt()


class VICRegLoss(nn.Module):
    """λ · invariance + μ · variance + ν · covariance (Bardes, Ponce and LeCun 2022).

        invariance  mean (z0 − z1)²
        variance    mean_d max(0, 1 − √(Var z_d + ε)), the mean of both views
        covariance  Σ_{i ≠ j} Cov(z)²_ij / D, the sum of both views

    lambda_param, mu_param, nu_param: λ, μ, ν
    eps: ε
    Shape: (N, D), (N, D) → (), N ≥ 2
    """

    def __init__(
        self, lambda_param: float = 25.0, mu_param: float = 25.0, nu_param: float = 1.0, eps: float = 1e-4
    ) -> None:
        super().__init__()
        self.lambda_param, self.mu_param, self.nu_param, self.eps = lambda_param, mu_param, nu_param, eps

    def forward(self, z0: Tensor, z1: Tensor) -> Tensor:
        check_views("VICRegLoss", z0, z1, least=2)
        terms = [self._spread(z) for z in (z0, z1)]
        variance = (terms[0][0] + terms[1][0]) / 2
        covariance = terms[0][1] + terms[1][1]
        return self.lambda_param * F.mse_loss(z0, z1) + self.mu_param * variance + self.nu_param * covariance

    def _spread(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """What is missing of unit deviations, and the squared covariances of different features."""
        centred = z - z.mean(0)
        covariance = centred.mT @ centred / (len(z) - 1)  # (D, D)
        variances = covariance.diagonal()
        lacking = (1 - (variances + self.eps).sqrt()).relu().mean()
        return lacking, ((covariance**2).sum() - (variances**2).sum()) / z.shape[1]


def check_views(name: str, z0: Tensor, z1: Tensor, least: int = 1) -> None:
    """Raise unless both are (N, D) with N ≥ least."""
    if z0.ndim != 2 or z0.shape != z1.shape or len(z0) < least:
        raise ShapeError(
            f"{name}: expected two views of one shape (N, D), N ≥ {least}, got {tuple(z0.shape)} and {tuple(z1.shape)}"
        )
