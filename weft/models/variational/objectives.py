"""What training maximises: bounds of log p(x) made of the same draws, weighted or averaged in one way or the other.

An objective is a function (model, x, condition, generator) → (B,), one for every `LatentVariableModel`. All are sums over
the elements of x: a mean over pixels beside a summed divergence would be a hidden β of the number of pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor

__all__ = ["CIWAE", "ELBO", "IWAE", "MIWAE", "BetaELBO", "Objective", "WarmUp", "log_mean_exp"]

Objective = Callable[[Any, Tensor, Tensor | None, Any], Tensor]


@dataclass(frozen=True)
class ELBO:
    """E_q[log p(x | z)] − KL(q(z | x) ‖ p(z)), from the mean of `samples` draws."""

    samples: int = 1

    def __call__(self, model: Any, x: Tensor, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        reconstruction, divergence = model.terms(x, condition, self.samples, generator)
        return reconstruction - divergence


@dataclass(frozen=True)
class BetaELBO:
    """E_q[log p(x | z)] − β KL(q(z | x) ‖ p(z)) (Higgins et al. 2017): no bound unless β ≥ 1, and the ELBO for β = 1."""

    beta: float = 4.0
    samples: int = 1

    def __post_init__(self) -> None:
        if not self.beta >= 0:
            raise OptionError(f"BetaELBO: expected β ≥ 0, got {self.beta}")

    def __call__(self, model: Any, x: Tensor, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        reconstruction, divergence = model.terms(x, condition, self.samples, generator)
        return reconstruction - self.beta * divergence


class WarmUp(nn.Module):
    """The ELBO with a weight of the divergence that grows from 0 to 1 over the first `steps` of training.

    So codes are in use before they cost anything (Bowman et al. 2016, Sønderby et al. 2016). It counts the steps itself, in
    a buffer that checkpoints keep; in evaluation mode it is the ELBO.
    """

    def __init__(self, steps: int, samples: int = 1) -> None:
        super().__init__()
        _positive("WarmUp", steps, samples)
        self.steps, self.samples = steps, samples
        self.register_buffer("done", weft.zeros((), dtype=weft.int64))

    def forward(self, model: Any, x: Tensor, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        reconstruction, divergence = model.terms(x, condition, self.samples, generator)
        if not self.training:
            return reconstruction - divergence
        self.done.add_(1)
        return reconstruction - (self.done / self.steps).clamp(max=1) * divergence


@dataclass(frozen=True)
class IWAE:
    """log 1/K Σₖ wₖ,  wₖ = p(x, zₖ) / q(zₖ | x), K = samples (Burda et al. 2016): rises with K, to log p(x)."""

    samples: int = 5

    def __post_init__(self) -> None:
        _positive("IWAE", self.samples)

    def __call__(self, model: Any, x: Tensor, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        return log_mean_exp(model.draws(x, self.samples, condition, generator).log_weight)


@dataclass(frozen=True)
class MIWAE:
    """The mean of M = groups bounds of K = samples draws each (Rainforth et al. 2018): steadier gradients for encoders."""

    groups: int = 8
    samples: int = 8

    def __post_init__(self) -> None:
        _positive("MIWAE", self.groups, self.samples)

    def __call__(self, model: Any, x: Tensor, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        log_weight = model.draws(x, self.groups * self.samples, condition, generator).log_weight
        return log_mean_exp(log_weight.unflatten(0, (self.samples, self.groups))).mean(0)  # (K, M, B) → (M, B) → (B,)


@dataclass(frozen=True)
class CIWAE:
    """β · mean log w + (1 − β) · log mean w (Rainforth et al. 2018): between the ELBO and IWAE, from the same draws."""

    samples: int = 64
    beta: float = 0.5

    def __post_init__(self) -> None:
        _positive("CIWAE", self.samples)
        if not 0 <= self.beta <= 1:
            raise OptionError(f"CIWAE: expected β from 0 to 1, got {self.beta}")

    def __call__(self, model: Any, x: Tensor, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        log_weight = model.draws(x, self.samples, condition, generator).log_weight
        return self.beta * log_weight.mean(0) + (1 - self.beta) * log_mean_exp(log_weight)


def log_mean_exp(x: Tensor, dim: int = 0) -> Tensor:
    """log 1/K Σ exp x along a dimension."""
    return x.logsumexp(dim) - math.log(x.shape[dim])


def _positive(name: str, *counts: int) -> None:
    if min(counts) < 1:
        raise OptionError(f"{name}: expected at least one sample, got {min(counts)}")
