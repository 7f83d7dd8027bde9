"""VaDE: a VAE whose codes lie in clusters, a mixture of normal distributions that is learned as its prior (Jiang et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError, UnsupportedError
from ...tensor import Tensor
from .base import DenseVAE
from .gumbel import gumbel_noise
from .posteriors import DiagonalGaussian
from .priors import Prior, standard_log_prob
from .samplers import AT_ONCE, GaussianMixture

__all__ = ["MixturePrior", "VaDE"]


class MixturePrior(Prior):
    """p(z) = Σ_c π_c N(z; μ_c, diag σ_c²), all of it learned; the divergence to it is drawn.

    Parameters: logits (C,) of π, mean and log_scale (C, code)

    >>> MixturePrior(3, 2).log_prob(weft.zeros(4, 5, 2)).shape
    weft.Size([4, 5])
    """

    def __init__(self, clusters: int, code: int, dtype: Any = None) -> None:
        super().__init__()
        if clusters < 1 or code < 1:
            raise OptionError(f"MixturePrior: expected at least one cluster and one number, got {clusters} and {code}")
        self.logits = nn.Parameter(weft.zeros(clusters, dtype=dtype))
        self.mean = nn.Parameter(weft.randn(clusters, code, dtype=dtype))  # apart, or all would learn the same
        self.log_scale = nn.Parameter(weft.zeros(clusters, code, dtype=dtype))

    def joint(self, z: Tensor) -> Tensor:
        """log π_c + log N(z; μ_c, σ_c²): (…, code) → (…, C)"""
        apart = (z.unsqueeze(-2) - self.mean) * (-self.log_scale).exp()
        return self.logits.log_softmax(0) + standard_log_prob(apart) - self.log_scale.sum(-1)

    def responsibilities(self, z: Tensor) -> Tensor:
        """p(c | z): (…, code) → (…, C)"""
        return self.joint(z).softmax(-1)

    def log_prob(self, z: Tensor, condition: Tensor | None = None) -> Tensor:
        self._alone(condition)
        return self.joint(z).logsumexp(-1)

    def draw(self, n: int, code: int, dtype: Any, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        self._alone(condition)
        drawn = self.logits.log_softmax(0) + gumbel_noise((n, len(self.logits)), self.logits.dtype, generator)
        chosen = drawn.argmax(1)
        noise = weft.randn(n, code, dtype=dtype, generator=generator)
        return self.mean[chosen] + self.log_scale[chosen].exp() * noise

    @weft.no_grad()
    def start(self, codes: Tensor, generator: Any = None) -> None:
        """Where expectation maximisation finds clusters: (N, code)"""
        if codes.ndim != 2 or codes.shape[1] != self.mean.shape[1]:
            raise ShapeError(f"MixturePrior.start: expected codes (N, {self.mean.shape[1]}), got {tuple(codes.shape)}")
        found = GaussianMixture(len(self.logits), codes.shape[1], ridge=1e-4, dtype=codes.dtype)
        found.fit(codes, generator=generator)
        self.logits.copy_(found.weights.clamp(min=1e-6).log())
        self.mean.copy_(found.means)
        self.log_scale.copy_(0.5 * found.covariances.diagonal(dim1=-2, dim2=-1).log())

    @staticmethod
    def _alone(condition: Tensor | None) -> None:
        if condition is not None:
            raise UnsupportedError("MixturePrior: its clusters are found, not given; it takes no condition")


class VaDE(DenseVAE):
    """A `DenseVAE` with that prior, whose clusters are those of the data.

    The paper bounds log p(z) ≥ Σ_c q(c | x) (log π_c p(z | c) − log q(c | x)) with q(c | x) = E p(c | z). Here log p(z) is
    summed out, which is that bound with the best q(c) for every z: never below it.
    Learnt in three steps, or all clusters become one: `reconstruction_loss` for a while, `start`, then `loss`.

    clusters: C; arguments and options otherwise as in `DenseVAE`

    >>> model = VaDE(6, (8,), 2, clusters=3)
    >>> model.assign(weft.zeros(4, 6)).shape, model.sample(5).shape
    (weft.Size([4, 3]), weft.Size([5, 6]))
    """

    prior: MixturePrior

    def __init__(
        self, features: int, hidden: Sequence[int], code: int, *args: Any, clusters: int, **options: Any
    ) -> None:
        super().__init__(features, hidden, code, *args, prior=MixturePrior(clusters, code), **options)

    def reconstruction_loss(self, x: Tensor) -> Tensor:
        """−log p(x | the mean of q(z | x)), in nats an example: of an autoencoder. (B, *event) → ()"""
        self._checked(x, None)
        return -self.log_likelihood(self.encode(x).unsqueeze(0), x).mean()

    def start(self, x: Tensor, narrow: float = 0.1, generator: Any = None) -> None:
        """Clusters where expectation maximisation finds them among the codes of data (N, *event).

        narrow: for a diagonal posterior, the σ that it begins with, times that of the codes; an autoencoder has not learned
            to say any
        """
        codes = weft.cat([self.embed(part) for part in x.split(AT_ONCE)])
        self.prior.start(codes, generator)
        if isinstance(self.posterior, DiagonalGaussian):
            with weft.no_grad():
                last = self.encoder.output
                last.weight[self.code :] = 0
                last.bias[self.code :] = (narrow * codes.std(0)).clamp(min=1e-4).log()

    @weft.no_grad()
    def assign(self, x: Tensor, samples: int = 1, generator: Any = None) -> Tensor:
        """q(c | x), the mean of p(c | z) over draws of z: (B, *event) → (B, C)"""
        given = self._checked(x, None)
        noise = self.posterior.noise((samples, len(x), self.code), next(self.parameters()).dtype, generator)
        return self.prior.responsibilities(self.posterior.draw(self.inferred(x, given), noise)[0]).mean(0)

    @weft.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """The likeliest cluster of the code's mean: (B, *event) → (B,)"""
        return self.prior.joint(self.encode(x)).argmax(1)
