"""The simple densities that every figure of a generative model is printed beside; all of them exact.

Independent bits, mixtures of them by expectation maximisation, normal distributions with and without correlations.
`fit` takes examples (N, D) and gives the model back.
"""

from __future__ import annotations

import math
from typing import Any

import weft

from ... import nn
from ...distributions import MultivariateNormal, Normal
from ...errors import InvalidValueError, OptionError, ShapeError
from ...tensor import Tensor
from .protocol import GenerativeModel, exact

__all__ = ["BernoulliMixture", "FactorisedGaussian", "FullGaussian", "ProductOfBernoullis"]

F = nn.functional
BATCH = 1000  # examples whose responsibilities are in memory at a time


class ProductOfBernoullis(GenerativeModel):
    """p(x) = Πᵢ pᵢ^xᵢ (1 − pᵢ)^(1 − xᵢ): every bit by itself. Shape: (B, D) → (B,)

    >>> model = ProductOfBernoullis(2).fit(weft.tensor([[0.0, 1.0], [1.0, 1.0]]), smoothing=0.0)
    >>> model.rates.tolist()
    [0.5, 1.0]
    """

    def __init__(self, size: int, dtype: Any = None) -> None:
        super().__init__()
        self.register_buffer("rates", weft.full((size,), 0.5, dtype=dtype))

    def fit(self, x: Tensor, smoothing: float = 1.0) -> ProductOfBernoullis:
        """pᵢ = (ones + s) / (N + 2s), so that nothing has probability 0."""
        _check_bits(x, len(self.rates))
        self.rates = (x.sum(0) + smoothing) / (len(x) + 2 * smoothing)
        return self

    @exact
    def log_prob(self, x: Tensor) -> Tensor:
        """Σᵢ xᵢ log pᵢ + (1 − xᵢ) log(1 − pᵢ), with 0 log 0 = 0."""
        return weft.xlogy(x, self.rates).sum(-1) + weft.xlogy(1 - x, 1 - self.rates).sum(-1)

    @exact
    @weft.no_grad()
    def sample(self, n: int, condition: Any = None, generator: Any = None) -> Tensor:
        """n rows of independent bits."""
        self._unconditional(condition)
        return weft.bernoulli(self.rates.expand(n, -1), generator=generator)


class BernoulliMixture(GenerativeModel):
    """p(x) = Σₖ πₖ Πᵢ p_ki^xᵢ (1 − p_ki)^(1 − xᵢ), in logarithms throughout.

    Shape: x (B, size) → (B,)

    >>> mixture = BernoulliMixture(2, 3)
    >>> bits = weft.tensor([[0.0, 0, 0], [1, 1, 1]]).repeat(10, 1)
    >>> round(mixture.fit(bits, restarts=4, strength=0.01).log_prob(bits).mean().exp().item(), 2)
    0.5
    """

    def __init__(self, components: int, size: int, dtype: Any = None) -> None:
        super().__init__()
        if components < 1:
            raise OptionError(f"BernoulliMixture: expected at least one component, got {components}")
        self.components, self.size = components, size
        self.log_share = nn.Parameter(weft.full((components,), -math.log(components), dtype=dtype))  # log π (K,)
        self.logits = nn.Parameter(0.1 * weft.randn(components, size, dtype=dtype))  # (K, D)

    def joint(self, x: Tensor) -> Tensor:
        """log πₖ + log p(x | k): (B, D) → (B, K)"""
        _check_size(x, self.size)
        alone = self.log_share.log_softmax(0) - F.softplus(self.logits).sum(1)  # (K,), log p of x = 0
        return x @ self.logits.mT + alone

    @exact
    def log_prob(self, x: Tensor) -> Tensor:
        """logsumexp over components."""
        return weft.cat([self.joint(part).logsumexp(1) for part in x.split(BATCH)])

    @exact
    def encode(self, x: Tensor) -> Tensor:
        """Responsibilities p(k | x): (B, K)"""
        return self.joint(x).softmax(1)

    @exact
    @weft.no_grad()
    def sample(self, n: int, condition: Any = None, generator: Any = None) -> Tensor:
        """A component, then its bits: (n, size)."""
        self._unconditional(condition)
        chosen = weft.multinomial(self.log_share.softmax(0), n, replacement=True, generator=generator)
        return weft.bernoulli(weft.sigmoid(self.logits[chosen]), generator=generator)

    # --------------------------------------------------------------------------- expectation maximisation
    @weft.no_grad()
    def fit(
        self,
        x: Tensor,
        iterations: int = 50,
        *,
        restarts: int = 1,
        strength: float = 1.0,
        tolerance: float = 1e-4,
        log: Any = None,
        generator: Any = None,
    ) -> BernoulliMixture:
        """Expectation maximisation from random examples, until an iteration gains less than `tolerance` nats an example.

        restarts: so many starts go five iterations, the best of them goes on; strength: examples' worth of the mean
        image in each component, a prior that keeps rates from 0 and 1; log: is told (iteration, mean log p)
        A component that explains less than half an example begins anew at an example that is explained worst.
        """
        _check_bits(x, self.size)
        if len(x) < self.components:
            raise ShapeError(f"BernoulliMixture: {self.components} components need as many examples, got {len(x)}")
        climb = weft.compile(self._gathered)
        starts = []
        for _ in range(restarts):
            self._start(x, generator)
            trial = self._climbed(x, climb, 5 if restarts > 1 else 0, strength, tolerance, None)
            starts.append((trial, [p.detach().clone() for p in self.parameters()]))
        best = max(starts, key=lambda start: start[0])[1]
        for parameter, value in zip(self.parameters(), best, strict=True):
            parameter.copy_(value)
        self._climbed(x, climb, iterations, strength, tolerance, log)
        return self

    def _start(self, x: Tensor, generator: Any) -> None:
        chosen = x[weft.randperm(len(x), generator=generator)[: self.components]]
        noise = weft.randn(chosen.shape, dtype=x.dtype, generator=generator)  # equal examples must not stay together
        self.logits.copy_(weft.logit(0.25 * chosen + 0.75 * x.mean(0).clamp(0.01, 0.99)) + 0.1 * noise)
        self.log_share.fill_(-math.log(self.components))

    def _climbed(self, x: Tensor, climb: Any, iterations: int, strength: float, tolerance: float, log: Any) -> float:
        """Iterations of E and M steps; the mean log p before the last of them."""
        before, mean = -math.inf, x.mean(0)
        for iteration in range(iterations):
            counts, sums, total, each = self._over(x, climb)
            likelihood = total / len(x)
            if log:
                log(iteration, likelihood)
            self._settle(x, counts, sums, each, mean, strength)
            if likelihood - before < tolerance:
                break
            before = likelihood
        return before

    def _over(self, x: Tensor, climb: Any) -> tuple[Tensor, Tensor, float, Tensor]:
        """Responsibilities summed over all examples, in batches of one size and the rest: (K,), (K, D), Σ log p, log p."""
        whole = len(x) // BATCH * BATCH
        parts = [part for part in (x[:whole].reshape(-1, BATCH, self.size), x[whole:].unsqueeze(0)) if part.numel()]
        found = [climb(part) for part in parts]
        counts, sums = (sum(part[k] for part in found) for k in (0, 1))
        each = weft.cat([part[2].flatten() for part in found])
        return counts, sums, each.double().sum().item(), each

    def _gathered(self, batches: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Σ r, Σ r xᵀ and log p of each example, over (M, B, D): (K,), (K, D), (M, B). One native loop."""

        def add(state: tuple[Tensor, Tensor], x: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
            joint = self.joint(x)  # (B, K)
            log_prob = joint.logsumexp(1, keepdim=True)
            r = (joint - log_prob).exp()
            return (state[0] + r.sum(0), state[1] + r.mT @ x), log_prob[:, 0]

        begun = (weft.zeros_like(self.log_share), weft.zeros_like(self.logits))
        (counts, sums), each = weft.scan(add, begun, batches)
        return counts, sums, each

    def _settle(self, x: Tensor, counts: Tensor, sums: Tensor, each: Tensor, mean: Tensor, strength: float) -> None:
        """The M step, with components that explain nothing put where the mixture is worst."""
        rates = (sums + strength * mean.clamp(1e-4, 1 - 1e-4)) / (counts.unsqueeze(1) + strength)
        rates = rates.clamp(1e-6, 1 - 1e-6)
        empty = (counts < 0.5).nonzero()[:, 0]
        if len(empty):
            worst = each.argsort()[: len(empty)]
            rates[empty] = (0.25 * x[worst] + 0.75 * mean).clamp(0.01, 0.99)
            counts = counts.index_fill(0, empty, 1.0)
        self.logits.copy_(weft.logit(rates))
        self.log_share.copy_((counts / counts.sum()).log())

    def extra_repr(self) -> str:
        return f"components={self.components}, size={self.size}"


class FactorisedGaussian(GenerativeModel):
    """p(x) = Πᵢ N(xᵢ; μᵢ, σᵢ²). Shape: (B, D) → (B,)"""

    continuous = True

    def __init__(self, size: int, dtype: Any = None) -> None:
        super().__init__()
        self.register_buffer("mean", weft.zeros(size, dtype=dtype))
        self.register_buffer("scale", weft.ones(size, dtype=dtype))

    def fit(self, x: Tensor, least: float = 1e-3) -> FactorisedGaussian:
        """Mean and standard deviation of each element, the latter at least `least`: a constant has no density."""
        _check_size(x, len(self.mean))
        self.mean, self.scale = x.mean(0), x.std(0, correction=0).clamp(min=least)
        return self

    def distribution(self) -> Normal:
        """The same density among `weft.distributions`, element by element."""
        return Normal(self.mean, self.scale)

    @exact
    def log_prob(self, x: Tensor) -> Tensor:
        """Σᵢ log N(xᵢ; μᵢ, σᵢ²)."""
        return self.distribution().log_prob(x).sum(-1)

    @exact
    def energy(self, x: Tensor) -> Tensor:
        """½ Σᵢ ((xᵢ − μᵢ) / σᵢ)²."""
        return 0.5 * (((x - self.mean) / self.scale) ** 2).sum(-1)

    @exact
    @weft.no_grad()
    def sample(self, n: int, condition: Any = None, generator: Any = None) -> Tensor:
        """μ + σ ε: (n, D)."""
        self._unconditional(condition)
        return self.mean + self.scale * weft.randn(n, len(self.mean), dtype=self.mean.dtype, generator=generator)


class FullGaussian(GenerativeModel):
    """p(x) = N(x; μ, Σ). Shape: (B, D) → (B,)"""

    continuous = True

    def __init__(self, size: int, dtype: Any = None) -> None:
        super().__init__()
        self.register_buffer("mean", weft.zeros(size, dtype=dtype))
        self.register_buffer("factor", weft.eye(size, dtype=dtype))  # L of Σ = L Lᵀ

    def fit(self, x: Tensor, ridge: float = 1e-6) -> FullGaussian:
        """Mean and covariance of the examples; ridge: added to the variances, times the largest of them."""
        _check_size(x, len(self.mean))
        self.mean = x.mean(0)
        covariance = x.mT.cov(correction=0)
        lift = ridge * covariance.diagonal().amax().clamp(min=1e-12)
        self.factor = weft.linalg.cholesky(covariance + lift * weft.eye(len(covariance), dtype=x.dtype))
        return self

    def distribution(self) -> MultivariateNormal:
        """The same density among `weft.distributions`."""
        return MultivariateNormal(self.mean, scale_tril=self.factor)

    @exact
    def log_prob(self, x: Tensor) -> Tensor:
        """log N(x; μ, Σ)."""
        return self.distribution().log_prob(x)

    @exact
    def energy(self, x: Tensor) -> Tensor:
        """½ (x − μ)ᵀ Σ⁻¹ (x − μ)."""
        white = weft.linalg.solve_triangular(self.factor, (x - self.mean).mT, upper=False)  # (D, B)
        return 0.5 * (white**2).sum(0)

    @exact
    @weft.no_grad()
    def sample(self, n: int, condition: Any = None, generator: Any = None) -> Tensor:
        """μ + L ε: (n, D)."""
        self._unconditional(condition)
        noise = weft.randn(n, len(self.mean), dtype=self.mean.dtype, generator=generator)
        return self.mean + noise @ self.factor.mT


def _check_size(x: Tensor, size: int) -> None:
    if x.ndim != 2 or x.shape[1] != size:
        raise ShapeError(f"expected examples (N, {size}), one a row, got {tuple(x.shape)}")


def _check_bits(x: Tensor, size: int) -> None:
    _check_size(x, size)
    if not ((x == 0) | (x == 1)).all().item():
        raise InvalidValueError("expected bits, 0 or 1; grey values are binarised first: (x > 0.5).float()")
