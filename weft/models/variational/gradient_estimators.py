"""Gradients of the same bounds with less noise: for codes drawn as z = g(ε; φ), φ is moved through z alone.

log q(z | x) depends on φ directly as well; the mean of that part of the gradient is 0 for the ELBO, and can be turned into
a path through z for importance-weighted bounds. Values are those of `ELBO` and `IWAE`, draw for draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import OptionError, UnsupportedError
from ...tensor import Tensor
from .base import VAE, Draws
from .objectives import log_mean_exp

__all__ = ["STL", "DReG", "path_draws"]


@dataclass(frozen=True)
class STL:
    """mean log w, its gradient without the score of q (Roeder et al. 2017, "sticking the landing").

    Unbiased, and its noise vanishes as q comes to the true posterior, where that of the ELBO's gradient does not.
    """

    samples: int = 1

    def __post_init__(self) -> None:
        _positive("STL", self.samples)

    def __call__(self, model: VAE, x: Tensor, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        return path_draws(model, x, self.samples, condition, generator).log_weight.mean(0)


@dataclass(frozen=True)
class DReG:
    """log 1/K Σ wₖ with doubly reparametrised gradients for the encoder (Tucker et al. 2019).

    ∇φ = Σₖ w̃ₖ² ∂log wₖ/∂zₖ ∂zₖ/∂φ,  w̃ₖ = wₖ / Σ w;  the decoder's gradient stays Σₖ w̃ₖ ∇θ log wₖ.
    The same mean as IWAE's gradient, and a ratio of signal to noise that does not fall as K grows.
    """

    samples: int = 5

    def __post_init__(self) -> None:
        _positive("DReG", self.samples)

    def __call__(self, model: VAE, x: Tensor, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        found = path_draws(model, x, self.samples, condition, generator)
        if found.z.requires_grad:
            shares = found.log_weight.detach().softmax(0).unsqueeze(-1)  # w̃: (K, B, 1)
            found.z.register_hook(lambda g: g * shares)  # g has one w̃ from the bound already
        return log_mean_exp(found.log_weight)


def path_draws(
    model: VAE, x: Tensor, samples: int = 1, condition: Tensor | None = None, generator: Any = None
) -> Draws:
    """`model.draws` with log q(z | x) as a function of z alone: what the encoder said of it is held fixed."""
    if not isinstance(model, VAE) or any(True for _ in model.posterior.parameters()):
        raise UnsupportedError(
            f"{type(model).__name__}: paths through z need one level of codes and a posterior without weights of its own; "
            "take ELBO or IWAE"
        )
    said = model.inferred(x, condition)
    noise = model.posterior.noise((samples, len(x), model.code), said.dtype, generator)
    z, _ = model.posterior.draw(said, noise)
    log_posterior = model.posterior.log_prob(said.detach(), z)
    return Draws(z, model.log_likelihood(z, x, condition), model.prior.log_prob(z, condition), log_posterior)


def _positive(name: str, samples: int) -> None:
    if samples < 1:
        raise OptionError(f"{name}: expected at least one sample, got {samples}")
