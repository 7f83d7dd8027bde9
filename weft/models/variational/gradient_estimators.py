"""Gradients of the same bounds with less noise: for codes drawn as z = g(ε; φ), φ is moved through z alone.

log q(z | x) depends on φ directly as well; the mean of that part of the gradient is 0 for the ELBO, and can be turned into
a path through z for importance-weighted bounds. Values are those of `ELBO` and `IWAE`, draw for draw. For VAEs with any
posterior, flows among them, and for several levels of codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import weft

from ...errors import OptionError, UnsupportedError
from ...tensor import Tensor
from .base import VAE, Draws
from .hierarchical import Levels
from .objectives import log_mean_exp
from .posteriors import held

__all__ = ["STL", "DReG", "path_draws"]


@dataclass(frozen=True)
class STL:
    """mean log w, its gradient without the score of q (Roeder et al. 2017, "sticking the landing").

    Unbiased, and its noise vanishes as q comes to the true posterior, where that of the ELBO's gradient does not.
    """

    samples: int = 1

    def __post_init__(self) -> None:
        _positive("STL", self.samples)

    def __call__(
        self, model: VAE | Levels, x: Tensor, condition: Tensor | None = None, generator: Any = None
    ) -> Tensor:
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

    def __call__(
        self, model: VAE | Levels, x: Tensor, condition: Tensor | None = None, generator: Any = None
    ) -> Tensor:
        found = path_draws(model, x, self.samples, condition, generator)
        if found.z.requires_grad:
            shares = found.log_weight.detach().softmax(0).unsqueeze(-1)  # w̃: (K, B, 1)
            found.z.register_hook(lambda g: g * shares.to(g.dtype))  # g has one w̃ from the bound already
        return log_mean_exp(found.log_weight)


def path_draws(
    model: VAE | Levels, x: Tensor, samples: int = 1, condition: Tensor | None = None, generator: Any = None
) -> Draws:
    """`model.draws` with log q(z | x) as a function of z alone: what the encoder said of it is held, and so are weights of a
    flow, and of networks between levels. A gradient with respect to `z` is partial: no code is moved with another."""
    if isinstance(model, Levels):
        return _level_draws(model, x, samples, generator)
    if not isinstance(model, VAE):
        raise UnsupportedError(f"{type(model).__name__}: its codes have no paths from the noise; take ELBO or IWAE")
    said = model.inferred(x, condition)
    noise = model.posterior.noise((samples, len(x), model.code), said.dtype, generator)
    z, log_posterior = model.posterior.path_draw(said, noise)
    return Draws(z, model.log_likelihood(z, x, condition), model.prior.log_prob(z, condition), log_posterior)


def _level_draws(model: Levels, x: Tensor, samples: int, generator: Any) -> Draws:
    evidence = model.evidence(x)
    codes, log_posterior = model.inferred_codes(evidence, model.noise(x, samples, generator))
    z = weft.cat(codes, -1)  # (K, B, Σ codes)
    kept, parts = [e.detach() for e in evidence], z.split(list(model.codes), -1)
    slope = weft.func.grad(lambda z: model.log_posterior(kept, z.split(list(model.codes), -1)).sum())(z.detach())
    log_likelihood = model.likelihood.log_prob(model.said(z.flatten(0, 1)), x)
    return Draws(z, log_likelihood, model.log_prior(parts), held(log_posterior, slope, z))


def _positive(name: str, samples: int) -> None:
    if samples < 1:
        raise OptionError(f"{name}: expected at least one sample, got {samples}")
