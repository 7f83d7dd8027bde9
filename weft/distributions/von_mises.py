"""The von Mises distribution on the circle."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

import weft

from ..autograd import no_grad
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .quantiles import root_between
from .utils import broadcast_parameters

__all__ = ["VonMises"]

NODES = 64  # of the quadrature of `cdf`: errors below 1e-14 at every concentration
SMALL, LARGE = 1e-8, 1e10  # concentrations between which angles are drawn by rejection


class VonMises(Distribution):
    """p(x) = exp(κ cos(x − μ)) / (2π I₀(κ)) on the circle.

    loc: μ, an angle
    concentration: κ; about 1/κ is the variance where it is large

    >>> weft.distributions.VonMises(weft.tensor(1.0), weft.tensor(4.0)).mean
    tensor(1.)
    """

    arg_constraints: ClassVar = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        shape, (self.loc, self.concentration) = broadcast_parameters(loc, concentration)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance 1 − I₁(κ)/I₀(κ)."""
        return 1 - weft.special.i1e(self.concentration) / weft.special.i0e(self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        log_bessel = weft.special.i0e(self.concentration).log() + self.concentration
        return self.concentration * (value - self.loc).cos() - math.log(2 * math.pi) - log_bessel

    def cdf(self, value: Tensor) -> Tensor:
        """The share of the circle from loc − π up to x; 0 and 1 beyond loc ± π."""
        return self._cumulative(value)

    def _cumulative(self, value: Tensor) -> Tensor:
        turn = (value - self.loc).clamp(-math.pi, math.pi)
        tail = self._tail(turn.abs())
        return weft.where(turn < 0, tail, 1 - tail)

    def _tail(self, distance: Tensor) -> Tensor:
        """∫ exp(κ (cos t − 1)) dt / (2π I₀(κ) e⁻ᵏ) from d to π by Gauss and Legendre; 12 widths of the peak hold it."""
        kappa = self.concentration
        reach = weft.minimum(math.pi - distance, 12 / kappa.sqrt())
        nodes, weights = (weft.tensor(a, dtype=kappa.dtype) for a in np.polynomial.legendre.leggauss(NODES))
        places = distance.unsqueeze(-1) + reach.unsqueeze(-1) * (nodes + 1) / 2  # (*, NODES)
        heights = (-2 * kappa.unsqueeze(-1) * (places / 2).sin().square()).exp()  # 1 − cos t without cancellation
        return reach / 2 * (heights * weights).sum(-1) / (2 * math.pi * weft.special.i0e(kappa))

    def icdf(self, value: Tensor) -> Tensor:
        """The angle of [loc − π, loc + π] with cdf(x) = value; NaN outside of [0, 1]."""
        density = lambda x: self.log_prob(x).exp()
        return root_between(self._cumulative, density, value, lambda _: (self.loc - math.pi, self.loc + math.pi))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Best and Fisher's rejection (1979) from a wrapped Cauchy distribution, in float64; result in [−π, π).

        It would never accept where κ is next to 0 or beyond what 1 − cos can hold: there angles are uniform, or normal.
        """
        shape = self._extended_shape(sample_shape)
        with no_grad():
            kappa = self.concentration.double().expand(shape)
            done = ~((kappa > SMALL) & (kappa < LARGE))
            cosine = _at_the_ends(kappa) if done.any() else weft.zeros_like(kappa)
            while not done.all():
                proposal, accepted = _propose(kappa)
                cosine = weft.where(accepted & ~done, proposal, cosine)
                done = done | accepted
            side = weft.rand(tuple(shape), dtype=weft.float64) - 0.5
            angle = side.sign() * cosine.clamp(min=-1, max=1).acos() + self.loc.double()
            return ((angle + math.pi) % (2 * math.pi) - math.pi).to(self.loc.dtype)


def _at_the_ends(kappa: Tensor) -> Tensor:
    """The cosine of a uniform angle, of a normal one, and NaN for a κ that is none."""
    narrow = (weft.randn(tuple(kappa.shape), dtype=weft.float64) / kappa.sqrt()).clamp(-math.pi, math.pi).cos()
    wide = (math.pi * weft.rand(tuple(kappa.shape), dtype=weft.float64)).cos()
    return weft.where(kappa >= LARGE, narrow, weft.where(kappa >= 0, wide, math.nan))


def _propose(kappa: Tensor) -> tuple[Tensor, Tensor]:
    """The cosine of a wrapped Cauchy angle for each κ, and whether it is accepted."""
    tau = 1 + (1 + 4 * kappa.square()).sqrt()
    rho = 2 * kappa / (tau.sqrt() * (tau.sqrt() + math.sqrt(2)))  # (τ − √(2τ)) / 2κ without cancellation
    r = (1 + rho.square()) / (2 * rho)
    turn, bar = weft.rand((2, *kappa.shape), dtype=weft.float64)
    z = (math.pi * turn).cos()
    cosine = (1 + r * z) / (r + z)
    c = kappa * (r - cosine)
    return cosine, (c * (2 - c) > bar) | ((c / bar).log() + 1 - c >= 0)
