"""Wasserstein gradient flow: a density that slides down KL(ρ ‖ π), in steps of Jordan, Kinderlehrer and Otto (1998) and as
particles (N1 §10.6).

    ∂ρ/∂t = ∇·(ρ ∇ log(ρ/π)),   ρ_{k+1} = argmin_ρ  W₂²(ρ, ρ_k) / (2τ) + KL(ρ ‖ π)

For a normal π this is the Ornstein–Uhlenbeck process, every step of it in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft

from ... import optim
from ...errors import OptionError
from ...tensor import Tensor
from .bijector import Bijector

__all__ = ["jko_normal", "jko_step", "kernel_score", "normal_score", "ornstein_uhlenbeck", "particle_flow"]

LogDensity = Callable[[Tensor], Tensor]
Score = Callable[[Tensor], Tensor]


def jko_step(
    log_target: LogDensity,
    x: Tensor,
    bijector: Bijector,
    tau: float,
    *,
    steps: int = 300,
    lr: float = 0.02,
) -> tuple[Tensor, float]:
    """One step of size τ for particles x ~ ρ_k: (N, D) → T(x), and the objective that the map T = `bijector` reached.

    Over maps T, with ρ_{k+1} = T#ρ_k:   mean ‖T(x) − x‖² / (2τ) − log π(T(x)) − log|det ∂T|
    which is the JKO objective but for the entropy of ρ_k: no density of ρ_k is needed.
    """
    _positive("tau", tau)
    optimizer = optim.Adam(bijector.parameters(), lr=lr)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    x = x.detach()

    def objective() -> Tensor:
        y, volume = bijector(x)
        return ((y - x) ** 2).sum(1).mean() / (2 * tau) - log_target(y).mean() - volume.mean()

    @weft.compile
    def step() -> Tensor:
        optimizer.zero_grad()
        loss = objective()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(steps):
        step()
        schedule.step()
    with weft.no_grad():
        return bijector(x)[0], objective().item()


def jko_normal(mean: Tensor, std: Tensor, tau: float, rate: float = 1.0) -> tuple[Tensor, Tensor]:
    """The exact JKO step from N(m, s²) towards N(0, 1/κ), κ = `rate`, in each dimension:

    m' = m / (1 + τκ),   s' the positive root of (1 + τκ) s'² − s s' − τ = 0
    """
    _positive("tau", tau)
    _positive("rate", rate)
    grown = 1 + tau * rate
    return mean / grown, (std + (std**2 + 4 * tau * grown).sqrt()) / (2 * grown)


def ornstein_uhlenbeck(mean: Tensor, std: Tensor, t: float, rate: float = 1.0) -> tuple[Tensor, Tensor]:
    """N(m e^{−κt}, s² e^{−2κt} + (1 − e^{−2κt}) / κ): what N(m, s²) has become after a time t, the limit of τ → 0."""
    _positive("rate", rate)
    decay = math.exp(-rate * t)
    return mean * decay, ((std * decay) ** 2 + (1 - decay**2) / rate).sqrt()


def particle_flow(
    log_target: LogDensity, x: Tensor, steps: int, step: float, score: Callable[[Tensor], Tensor]
) -> Tensor:
    """x ← x + ε (∇ log π(x) − ∇ log ρ(x)), ρ the density of the particles, `steps` times: (N, D) → (N, D)

    No noise: each particle follows the velocity of the density. score: how ∇ log ρ is estimated from the particles,
    `normal_score` (exact while ρ is normal) or `kernel_score`. Langevin dynamics (`weft.models.energy.langevin`) has the
    same densities, with noise in place of the second term. One loop, so a compiled caller has one plan.
    """
    _positive("step", step)
    slope = lambda x: weft.func.grad(lambda x: log_target(x).sum())(x).detach()
    return weft.fori_loop(0, steps, lambda _, x: x + step * (slope(x) - score(x)), x.detach())


def normal_score(x: Tensor) -> Tensor:
    """∇ log N(x; μ̂, Σ̂) = −Σ̂⁻¹ (x − μ̂), moments of the particles: (N, D) → (N, D)"""
    away = x - x.mean(0)
    covariance = away.mT @ away / len(x)
    return -weft.linalg.solve(covariance, away.mT).mT


def kernel_score(bandwidth: float) -> Score:
    """∇ log of a density of normal kernels on the particles: biased towards smooth, for any shape, O(N²)."""
    _positive("bandwidth", bandwidth)

    def score(x: Tensor) -> Tensor:
        squares = (x**2).sum(1)
        distances = squares.unsqueeze(1) + squares - 2 * x @ x.mT  # (N, N)
        weights = (-distances / (2 * bandwidth**2)).softmax(1)
        return (weights @ x - x) / bandwidth**2

    return score


def _positive(name: str, value: Any) -> None:
    if not value > 0:
        raise OptionError(f"expected {name} above 0, got {value}")
