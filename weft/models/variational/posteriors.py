"""q(z | x): what the encoder says, read as a distribution of codes that can be drawn as z = g(ε, x) and differentiated.

z and log q(z | x) come from the same ε (N1 thm. 8.2, 8.3): log q = log p(ε) − log|det ∂z/∂ε|.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import weft

from ... import nn
from ...distributions import Distribution, Independent, MultivariateNormal, Normal, kl_divergence
from ...errors import OptionError, UnsupportedError
from ...tensor import Tensor
from .priors import Prior, standard_log_prob

__all__ = ["DiagonalGaussian", "FullGaussian", "Posterior", "held", "posterior_named"]

F = nn.functional
LEAST_LOG_SCALE = -10.0  # of a posterior: narrower ones would only be rounding


class Posterior(nn.Module):
    """A family of distributions over codes. `size(code)` numbers say which one it is.

    Shape: said (B, size), noise (K, B, code) → z (K, B, code), log q (K, B)
    """

    closed_form = True  # whether `kl` is there for a standard normal prior

    @abstractmethod
    def size(self, code: int) -> int:
        """How many numbers the encoder must say."""

    @abstractmethod
    def draw(self, said: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """z = g(ε) and log q(z | x), with gradients through both."""

    @abstractmethod
    def mean(self, said: Tensor) -> Tensor:
        """The code that stands for x: (B, size) → (B, code)"""

    def noise(self, shape: tuple[int, ...], dtype: Any, generator: Any = None) -> Tensor:
        """ε: standard normal numbers unless a posterior says otherwise."""
        return weft.randn(*shape, dtype=dtype, generator=generator)

    def distribution(self, said: Tensor) -> Distribution:
        """q(z | x) among `weft.distributions`, where it is one: batch (B,), event (code,)."""
        raise UnsupportedError(f"{type(self).__name__} is no distribution in closed form; draw from it")

    def log_prob(self, said: Tensor, z: Tensor) -> Tensor:
        """log q(z | x) of any z: (B, size), (K, B, code) → (K, B)"""
        return self.distribution(said).log_prob(z)

    def path_draw(self, said: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """z as `draw` has it, and log q(z | x) as a function of z alone: what the encoder said is held."""
        if any(True for _ in self.parameters()):
            raise UnsupportedError(f"{type(self).__name__} has weights of its own, and no path_draw that holds them")
        z, _ = self.draw(said, noise)
        return z, self.log_prob(said.detach(), z)

    def kl(self, said: Tensor, prior: Prior, condition: Tensor | None = None) -> Tensor:
        """KL(q(z | x) ‖ p(z)) in closed form: (B, size) → (B,)"""
        posterior = self.distribution(said)
        return kl_divergence(posterior, prior.distribution(posterior.event_shape[0], said.dtype, condition))


class DiagonalGaussian(Posterior):
    """q(z | x) = N(μ, diag σ²); the encoder says μ and log σ. z = μ + σ ε

    KL to a standard normal prior: ½ Σ (μ² + σ² − 1 − log σ²), N1 thm. 8.1.
    """

    def size(self, code: int) -> int:
        return 2 * code

    def split(self, said: Tensor) -> tuple[Tensor, Tensor]:
        """μ and log σ: (B, 2 · code) → (B, code) twice"""
        mean, log_scale = said.chunk(2, -1)
        return mean, log_scale.clamp(min=LEAST_LOG_SCALE)

    def draw(self, said: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_scale = self.split(said)
        return mean + log_scale.exp() * noise, standard_log_prob(noise) - log_scale.sum(-1)

    def mean(self, said: Tensor) -> Tensor:
        return said.chunk(2, -1)[0]

    def distribution(self, said: Tensor) -> Independent:
        mean, log_scale = self.split(said)
        return Independent(Normal(mean, log_scale.exp(), validate_args=False), 1, validate_args=False)


class FullGaussian(Posterior):
    """q(z | x) = N(μ, L Lᵀ) with L lower triangular, a softplus on its diagonal. z = μ + L ε

    The encoder says μ and the code (code + 1) / 2 numbers of L, row by row. KL to a standard normal prior:
    ½ (‖L‖² + ‖μ‖² − code) − Σ log Lᵢᵢ
    """

    def size(self, code: int) -> int:
        return code + code * (code + 1) // 2

    def split(self, said: Tensor) -> tuple[Tensor, Tensor]:
        """μ and L: (B, size) → (B, code), (B, code, code)"""
        code = round((math.sqrt(9 + 8 * said.shape[-1]) - 3) / 2)  # c + c (c + 1) / 2 = size
        rows, columns = weft.tril_indices(code, code)
        places = weft.zeros(code, code, dtype=weft.int64)
        places[rows, columns] = weft.arange(len(rows))
        filled = said[:, code:][:, places].tril()  # (B, code, code)
        diagonal = F.softplus(filled.diagonal(dim1=-2, dim2=-1)) + math.exp(LEAST_LOG_SCALE)
        return said[:, :code], filled.tril(-1) + weft.diag_embed(diagonal)

    def draw(self, said: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, factor = self.split(said)
        moved = (factor * noise.unsqueeze(-2)).sum(-1)  # (B, code, code) · (K, B, 1, code) → (K, B, code)
        return mean + moved, standard_log_prob(noise) - _log_det(factor)

    def mean(self, said: Tensor) -> Tensor:
        return self.split(said)[0]

    def distribution(self, said: Tensor) -> MultivariateNormal:
        mean, factor = self.split(said)
        return MultivariateNormal(mean, scale_tril=factor, validate_args=False)

    def kl(self, said: Tensor, prior: Prior, condition: Tensor | None = None) -> Tensor:
        mean, factor = self.split(said)
        wide = prior.distribution(mean.shape[-1], said.dtype, condition).base_dist  # diagonal: (code,) or (B, code)
        spread = ((factor / wide.scale.unsqueeze(-1)) ** 2).sum((-2, -1))
        distance = (((mean - wide.loc) / wide.scale) ** 2).sum(-1)
        return 0.5 * (spread + distance - mean.shape[-1]) - _log_det(factor) + wide.scale.log().sum(-1)


def held(value: Tensor, slope: Tensor, z: Tensor) -> Tensor:
    """A function of z alone with this value and this gradient here, of which nothing else is moved: (K, B), z's shape"""
    return value.detach() + ((z - z.detach()) * slope.detach()).sum(-1)


def _log_det(factor: Tensor) -> Tensor:
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


POSTERIORS: dict[str, type[Posterior]] = {"diagonal": DiagonalGaussian, "full": FullGaussian}


def posterior_named(posterior: str | Posterior) -> Posterior:
    """The posterior of that name, or the posterior itself."""
    if isinstance(posterior, Posterior):
        return posterior
    if posterior not in POSTERIORS:
        raise OptionError(f"posterior: expected one of {', '.join(POSTERIORS)} or a Posterior, got {posterior!r}")
    return POSTERIORS[posterior]()
