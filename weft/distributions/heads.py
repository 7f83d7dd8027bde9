"""Heads that turn features into a distribution of the label, and predictions from it (N0 §1.2–1.3).

A network predicts the parameters θ = f(x) of p(y | θ). Training minimises −log p(y | f(x)); a prediction is the most
probable value, the expected value, or a draw. Outputs are independent given the features unless the class says so.
"""

from __future__ import annotations

from typing import Any

import weft

from ..errors import InvalidValueError, UnsupportedError
from ..nn import functional as F
from ..nn.module import Module
from ..nn.modules.linear import Linear
from ..nn.parameter import Parameter
from ..tensor import Tensor
from . import bernoulli, categorical
from .distribution import Distribution
from .independent import Independent
from .mixture_same_family import MixtureSameFamily
from .normal import Normal

__all__ = [
    "Bernoulli",
    "Categorical",
    "DistributionHead",
    "HeteroscedasticNormal",
    "HomoscedasticNormal",
    "MixtureDensity",
]

MIN_SCALE = 1e-4  # keeps densities bounded while a network is still far off


class DistributionHead(Module):
    """Features (*, in_features) → a distribution with batch shape (*); the base of all heads.

    in_features: the size of the features
    out_features: D, the size of y
    """

    def forward(self, features: Tensor) -> Distribution:
        """p(y | features)."""
        raise UnsupportedError(f"{type(self).__name__} does not state its distribution")

    def nll(self, features: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
        """−log p(target | features), averaged, summed, or one number for each example ('none')."""
        loss = -self(features).log_prob(target)
        if reduction not in ("none", "mean", "sum"):
            raise InvalidValueError(f"nll: reduction must be 'none', 'mean' or 'sum', got {reduction!r}")
        return loss if reduction == "none" else getattr(loss, reduction)()

    def predict(self, features: Tensor, kind: str = "mode") -> Tensor:
        """ŷ = argmax p(y | features) ('mode'), E[y | features] ('mean') or a draw ('sample') (N0 §1.3)."""
        with weft.no_grad():
            if kind == "mode":
                return self.most_probable(features)
            if kind == "mean":
                return self.expected(features)
            if kind == "sample":
                return self(features).sample()
        raise InvalidValueError(f"predict: kind must be 'mode', 'mean' or 'sample', got {kind!r}")

    def most_probable(self, features: Tensor) -> Tensor:
        """The value of greatest density or probability."""
        return self(features).mode

    def expected(self, features: Tensor) -> Tensor:
        """The expected value."""
        return self(features).mean


class HomoscedasticNormal(DistributionHead):
    """y_d ~ N(μ_d(x), σ_d²) with one learned σ_d for all inputs: least squares, with an estimate of the noise.

    Shape: (*, in_features) → (*, out_features). Parameters: mean.weight, mean.bias, log_scale (out_features,).

    >>> weft.distributions.heads.HomoscedasticNormal(8, 2)(weft.randn(5, 8)).mean.shape
    weft.Size([5, 2])
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.mean = Linear(in_features, out_features)
        self.log_scale = Parameter(weft.zeros(out_features))

    def forward(self, features: Tensor) -> Independent:
        return Independent(Normal(self.mean(features), self.log_scale.exp()), 1)


class HeteroscedasticNormal(DistributionHead):
    """y_d ~ N(μ_d(x), σ_d(x)²): the noise, too, depends on the input. σ = softplus(·) + 10⁻⁴.

    Shape: (*, in_features) → (*, out_features).

    >>> weft.distributions.heads.HeteroscedasticNormal(8, 2)(weft.randn(5, 8)).stddev.shape
    weft.Size([5, 2])
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.parameters_of = Linear(in_features, 2 * out_features)

    def forward(self, features: Tensor) -> Independent:
        mean, raw = self.parameters_of(features).chunk(2, dim=-1)
        return Independent(Normal(mean, F.softplus(raw) + MIN_SCALE), 1)


class Bernoulli(DistributionHead):
    """y_d ∈ {0, 1} with P(y_d = 1) = σ(f_d(x)), independent labels. Shape: (*, in_features) → (*, out_features).

    >>> weft.distributions.heads.Bernoulli(8, 3)(weft.randn(5, 8)).sample().shape
    weft.Size([5, 3])
    """

    def __init__(self, in_features: int, out_features: int = 1) -> None:
        super().__init__()
        self.logits = Linear(in_features, out_features)

    def forward(self, features: Tensor) -> Independent:
        return Independent(bernoulli.Bernoulli(logits=self.logits(features)), 1)

    def most_probable(self, features: Tensor) -> Tensor:
        """1 where its probability is at least ½."""
        logits = self.logits(features)
        return (logits >= 0).to(logits.dtype)


class Categorical(DistributionHead):
    """y ∈ {0 … K − 1} with P(y) = softmax(f(x))_y; the expected value is that of the one-hot label: its probabilities.

    Shape: (*, in_features) → classes (*), 'mean' (*, K).

    num_classes: K

    >>> weft.distributions.heads.Categorical(8, 3)(weft.randn(5, 8)).sample().shape
    weft.Size([5])
    """

    def __init__(self, in_features: int, num_classes: int) -> None:
        super().__init__()
        self.logits = Linear(in_features, num_classes)

    def forward(self, features: Tensor) -> categorical.Categorical:
        return categorical.Categorical(logits=self.logits(features))

    def expected(self, features: Tensor) -> Tensor:
        """π = softmax(f(x)) = E[one-hot y]."""
        return self(features).probs


class MixtureDensity(DistributionHead):
    """p(y | x) = Σ_k π_k(x) Π_d N(y_d; μ_kd(x), σ_kd(x)²): several answers to one question (Bishop 1994).

    Shape: (*, in_features) → (*, out_features)

    components: how many terms k there are

    >>> head = weft.distributions.heads.MixtureDensity(8, 2, components=3)
    >>> head(weft.randn(5, 8)).log_prob(weft.zeros(5, 2)).shape
    weft.Size([5])
    """

    MODE_STEPS = 50

    def __init__(self, in_features: int, out_features: int, components: int = 5) -> None:
        super().__init__()
        self.out_features, self.components = out_features, components
        self.weights = Linear(in_features, components)
        self.parameters_of = Linear(in_features, 2 * components * out_features)

    def forward(self, features: Tensor) -> MixtureSameFamily:
        raw = self.parameters_of(features)
        raw = raw.reshape((*raw.shape[:-1], 2, self.components, self.out_features))  # (*, 2·K·D) → (*, 2, K, D)
        mean, spread = raw.unbind(-3)
        parts = Independent(Normal(mean, F.softplus(spread) + MIN_SCALE), 1)
        return MixtureSameFamily(categorical.Categorical(logits=self.weights(features)), parts)

    def most_probable(self, features: Tensor) -> Tensor:
        """The highest of the peaks reached by mean shift from every component's mean."""
        mixture = self(features)
        parts, weights = mixture.component_distribution, mixture.mixture_distribution.logits
        means, precision = parts.base_dist.loc, parts.base_dist.scale.pow(-2)  # (*, K, D)
        start = means.movedim(-2, 0)  # one start for each component: (K, *, D)
        for _ in range(self.MODE_STEPS):
            share = (parts.log_prob(start.unsqueeze(-2)) + weights).softmax(-1).unsqueeze(-1)  # (K, *, K, 1)
            start = (share * precision * means).sum(-2) / (share * precision).sum(-2)
        return _best(start, mixture.log_prob(start))


def _best(candidates: Tensor, score: Any) -> Tensor:
    """Of candidates (K, *, D) with scores (K, *), the one of the highest score: (*, D)."""
    index = score.argmax(0, keepdim=True).unsqueeze(-1)
    return candidates.gather(0, index.expand((1, *tuple(candidates.shape[1:])))).squeeze(0)
