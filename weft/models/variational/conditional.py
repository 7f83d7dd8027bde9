"""The conditional VAE: p(x | c) with classes or numbers c that encoder, decoder and prior know (Sohn et al. 2015, N1 def. 8.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import nn
from ..autoregressive.heads import Head
from ..classical.mlp import MLP
from .base import VAE
from .conditions import ClassCondition, Conditions, Joined
from .likelihoods import Likelihood, likelihood_named
from .posteriors import Posterior, posterior_named
from .priors import ConditionalNormal

__all__ = ["ConditionalVAE"]


class ConditionalVAE(VAE):
    """log p(x | c) ≥ E_{q(z | x, c)}[log p(x | z, c)] − KL(q(z | x, c) ‖ p(z | c)).

    conditions: the number of classes, or `Conditions` such as `VectorCondition(3)`
    learned_prior: p(z | c) = N(μ(c), σ(c)²), learned; else N(0, I) for every c, so that z says what c does not
    Shape: x (B, features), condition (B,) of whole numbers or (B, C)

    >>> import weft
    >>> model = ConditionalVAE(6, (8,), 2, conditions=3)
    >>> model.sample(4, condition=2).shape, model.elbo(weft.zeros(2, 6), weft.tensor([0, 2])).shape
    (weft.Size([4, 6]), weft.Size([2]))
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int],
        code: int,
        likelihood: str | Head | Likelihood = "bernoulli",
        *,
        conditions: int | Conditions,
        learned_prior: bool = False,
        activation: str | Callable[[], nn.Module] = "tanh",
        posterior: str | Posterior = "diagonal",
        **options: Any,
    ) -> None:
        likelihood, posterior = likelihood_named(likelihood), posterior_named(posterior)
        given = conditions if isinstance(conditions, Conditions) else ClassCondition(conditions)
        encoder = Joined(MLP(features + given.size, hidden, posterior.size(code), activation))
        decoder = Joined(MLP(code + given.size, hidden[::-1], features * likelihood.numbers, activation))
        if learned_prior:
            options["prior"] = ConditionalNormal(given.size, code)
        super().__init__(encoder, decoder, code, likelihood, posterior=posterior, conditions=given, **options)
