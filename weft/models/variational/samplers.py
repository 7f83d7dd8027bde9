"""Samplers apart from the model: p(z) replaced by a density that was fitted to the codes of real data.

Where codes of data and draws of the prior differ, samples of the model are worse than its reconstructions; a sampler
closes that gap without training again. It draws from another model than the one whose bound was measured.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Self

import weft

from ... import nn, optim
from ...distributions import Categorical, MixtureSameFamily, MultivariateNormal
from ...errors import OptionError, ShapeError, StateError
from ...tensor import Tensor
from ..classical.clustering import kmeans
from ..flows.base import Flow
from ..flows.maf import MAF

__all__ = ["FlowSampler", "GaussianMixture", "MixtureSampler", "PriorSampler", "Sampler"]

AT_ONCE = 500


class Sampler(nn.Module):
    """Draws codes, and lets the model decode them. model: anything with `encode` and `decode`, a VAE or an autoencoder"""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.shared = (model,)  # in a tuple: its weights are not ours

    @property
    def model(self) -> Any:
        """The model whose codes these are."""
        return self.shared[0]

    @abstractmethod
    def codes(self, n: int, generator: Any = None) -> Tensor:
        """n codes: (n, code)"""

    @weft.no_grad()
    def sample(self, n: int, generator: Any = None) -> Tensor:
        """What the decoder makes of n codes, its mean: (n, *event)"""
        return self.model.decode(self.codes(n, generator))

    @weft.no_grad()
    def fit(self, x: Tensor, **options: Any) -> Self:
        """Learn from the codes of data (N, *event)."""
        codes = weft.cat([self.model.encode(part) for part in x.split(AT_ONCE)])
        if codes.ndim != 2:
            raise ShapeError(f"{type(self).__name__}: expected codes in rows, (N, code), got {tuple(codes.shape)}")
        self.fit_codes(codes, **options)
        return self

    def fit_codes(self, codes: Tensor, **options: Any) -> None:
        """Learn from codes (N, code)."""


class PriorSampler(Sampler):
    """Codes from the model's own prior; there is nothing to fit."""

    def codes(self, n: int, generator: Any = None) -> Tensor:
        return self.model.prior_draws(n, generator=generator)


class MixtureSampler(Sampler):
    """Codes from a mixture of Gaussians that EM fitted to codes of data (Ghosh et al. 2020)."""

    def __init__(self, model: nn.Module, components: int = 10) -> None:
        super().__init__(model)
        self.components = components
        self.mixture: GaussianMixture | None = None

    def fit_codes(self, codes: Tensor, **options: Any) -> None:
        self.mixture = GaussianMixture(self.components, codes.shape[1], dtype=codes.dtype).fit(codes, **options)

    def codes(self, n: int, generator: Any = None) -> Tensor:
        if self.mixture is None:
            raise StateError("MixtureSampler: nothing to draw from yet; call fit with data first")
        return self.mixture.sample(n, generator)


class FlowSampler(Sampler):
    """Codes from a flow that was fitted to codes of data: by default three masked autoregressive maps."""

    def __init__(self, model: nn.Module, flow: Flow | None = None) -> None:
        super().__init__(model)
        self.flow = flow
        self.register_buffer("shift", None)
        self.register_buffer("scale", None)

    @weft.enable_grad()
    def fit_codes(
        self, codes: Tensor, steps: int = 500, lr: float = 5e-3, batch_size: int = 256, generator: Any = None
    ) -> None:
        """Maximum likelihood by Adam, on codes brought to mean 0 and variance 1."""
        size = codes.shape[1]
        self.shift, self.scale = codes.mean(0), codes.std(0).clamp(min=1e-6)
        rows = (codes - self.shift) / self.scale
        if self.flow is None:
            orders = ("natural", "reversed", "natural")
            self.flow = Flow([MAF(size, hidden=(32,), order=order) for order in orders], size)
        optimizer = optim.Adam(self.flow.parameters(), lr=lr)

        @weft.compile
        def step(batch: Tensor) -> Tensor:
            loss = self.flow.forward_kld(batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        for _ in range(steps):
            step(rows[weft.randint(0, len(rows), (min(batch_size, len(rows)),), generator=generator)])

    def codes(self, n: int, generator: Any = None) -> Tensor:
        if self.shift is None:
            raise StateError("FlowSampler: nothing to draw from yet; call fit with data first")
        return self.flow.sample(n, generator=generator) * self.scale + self.shift


class GaussianMixture(nn.Module):
    """Σₘ πₘ N(μₘ, Σₘ) with full covariances, by expectation maximisation from k-means.

    E: rₙₘ ∝ πₘ N(xₙ; μₘ, Σₘ);  M: πₘ, μₘ, Σₘ are share, mean and covariance of x weighted with rₙₘ, Σₘ + ridge · I
    Buffers: weights (M,), means (M, D), covariances (M, D, D)

    >>> x = weft.cat([weft.randn(50, 2), weft.randn(50, 2) + 9])
    >>> GaussianMixture(2, 2).fit(x).log_prob(x).shape
    weft.Size([100])
    """

    def __init__(self, components: int, size: int, *, ridge: float = 1e-6, dtype: Any = None) -> None:
        super().__init__()
        if components < 1:
            raise OptionError(f"GaussianMixture: expected at least one component, got {components}")
        self.components, self.ridge = components, ridge
        self.register_buffer("weights", weft.full((components,), 1 / components, dtype=dtype))
        self.register_buffer("means", weft.zeros(components, size, dtype=dtype))
        self.register_buffer("covariances", weft.eye(size, dtype=dtype).repeat(components, 1, 1))

    @property
    def distribution(self) -> MixtureSameFamily:
        """As a `weft.distributions.Distribution`."""
        parts = MultivariateNormal(self.means, scale_tril=weft.linalg.cholesky(self.covariances))
        return MixtureSameFamily(Categorical(probs=self.weights), parts)

    def log_prob(self, x: Tensor) -> Tensor:
        """(N, D) → (N,)"""
        return self._each(x).logsumexp(1)

    def _each(self, x: Tensor) -> Tensor:
        """log πₘ N(x; μₘ, Σₘ): (N, D) → (N, M)"""
        return self.weights.log() + self.distribution.component_distribution.log_prob(x.unsqueeze(1))

    @weft.no_grad()
    def fit(self, x: Tensor, steps: int = 200, tol: float = 1e-5, generator: Any = None) -> Self:
        """Until the mean log-likelihood rises by less than `tol`, or for so many steps: (N, D)"""
        if x.ndim != 2 or x.shape[1] != self.means.shape[1] or len(x) < max(self.components, 2):
            raise ShapeError(
                f"GaussianMixture.fit: expected at least {max(self.components, 2)} rows of {self.means.shape[1]}, "
                f"got {tuple(x.shape)}"
            )
        labels = kmeans(x, self.components, restarts=3, generator=generator).labels
        self._maximise(x, (labels.unsqueeze(1) == weft.arange(self.components)).to(x.dtype))
        before = -math.inf
        for _ in range(steps):
            each = self._each(x)
            total = each.logsumexp(1)
            self._maximise(x, (each - total.unsqueeze(1)).exp())
            if total.mean().item() - before < tol:
                break
            before = total.mean().item()
        return self

    def _maximise(self, x: Tensor, shares: Tensor) -> None:
        counts = shares.sum(0).clamp(min=1e-8)  # (M,)
        self.weights.copy_(counts / counts.sum())
        self.means.copy_(shares.mT @ x / counts.unsqueeze(1))
        centred = x.unsqueeze(0) - self.means.unsqueeze(1)  # (M, N, D)
        spread = (centred * shares.mT.unsqueeze(-1)).mT @ centred / counts.reshape(-1, 1, 1)
        self.covariances.copy_(spread + self.ridge * weft.eye(x.shape[1], dtype=x.dtype))

    @weft.no_grad()
    def sample(self, n: int, generator: Any = None) -> Tensor:
        """(n, D)"""
        chosen = weft.multinomial(self.weights, n, replacement=True, generator=generator)
        noise = weft.randn(n, self.means.shape[1], dtype=self.means.dtype, generator=generator)
        factors = weft.linalg.cholesky(self.covariances)[chosen]
        return self.means[chosen] + (factors @ noise.unsqueeze(-1)).squeeze(-1)
