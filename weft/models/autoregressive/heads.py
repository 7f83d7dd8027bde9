"""What one element of x is, given its parameters: bits, choices, real numbers, levels of grey.

Each head turns (…, K) parameters into log-probabilities of x (…), and into draws with the help of random numbers (…, N)
that were drawn before: the same numbers give the same x, whoever computed the parameters.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import weft

from ... import nn
from ...distributions import (
    Bernoulli,
    Categorical,
    ContinuousBernoulli,
    Distribution,
    Laplace,
    MixtureSameFamily,
    Normal,
)
from ...errors import OptionError
from ...tensor import Tensor

__all__ = [
    *("BernoulliHead", "CategoricalHead", "ContinuousBernoulliHead", "GaussianHead", "GaussianMixtureHead", "Head"),
    *("LaplaceMixtureHead", "LogisticMixtureHead"),
]

F = nn.functional
Shape = tuple[int, ...]
LEAST_LOG_SCALE = -7.0  # scales below e⁻⁷ would only fit rounding of the data


class Head(ABC):
    """A family of distributions of one element. K = `parameters`, N = `numbers`."""

    parameters: int
    numbers: ClassVar[int] = 1
    continuous: ClassVar[bool] = False

    def supports(self, x: Tensor) -> Tensor:
        """Which elements have a probability at all, by what they are: like x, of bools; real numbers unless a head says so"""
        return x.isfinite()

    @property
    def domain(self) -> str:
        """The same in words."""
        return "finite numbers"

    @abstractmethod
    def log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        """log p(x): (…, K), (…) → (…)"""

    @abstractmethod
    def draw(self, parameters: Tensor, noise: Tensor) -> Tensor:
        """x from random numbers: (…, K), (…, N) → (…)"""

    def noise(self, shape: Shape, dtype: Any, generator: Any = None) -> Tensor:
        """Random numbers for `draw`: (*shape, N), uniform in [0, 1) unless a head says otherwise"""
        return weft.rand(*shape, self.numbers, dtype=dtype, generator=generator)

    @abstractmethod
    def mean(self, parameters: Tensor) -> Tensor:
        """E[x]: (…, K) → (…)"""

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value}" for name, value in vars(self).items() if name != "parameters")
        return f"{type(self).__name__}({options})"


class BernoulliHead(Head):
    """x ∈ {0, 1}, p(1) = σ(l): one logit."""

    parameters = 1
    domain = "bits, 0 or 1"

    def supports(self, x: Tensor) -> Tensor:
        return (x == 0) | (x == 1)

    def log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        logits = parameters.squeeze(-1)
        return x * logits - F.softplus(logits)

    def draw(self, parameters: Tensor, noise: Tensor) -> Tensor:
        return (noise[..., 0] < self.mean(parameters)).to(noise.dtype)

    def mean(self, parameters: Tensor) -> Tensor:
        return weft.sigmoid(parameters.squeeze(-1))

    def distribution(self, parameters: Tensor) -> Distribution:
        """As a `weft.distributions.Distribution`."""
        return Bernoulli(logits=parameters.squeeze(-1))


class CategoricalHead(Head):
    """x ∈ {0, 1/(L−1), …, 1}, any distribution over the L levels: softmax over L logits."""

    def __init__(self, levels: int = 256) -> None:
        _at_least_two("CategoricalHead", levels)
        self.levels = self.parameters = levels

    def supports(self, x: Tensor) -> Tensor:
        return _on_levels(x, self.levels)

    @property
    def domain(self) -> str:
        return _levels_in_words(self.levels)

    def log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        chosen = (x * (self.levels - 1)).round().to(weft.int64).unsqueeze(-1)
        return parameters.log_softmax(-1).gather(-1, chosen).squeeze(-1)

    def draw(self, parameters: Tensor, noise: Tensor) -> Tensor:
        return _chosen(parameters, noise).to(noise.dtype) / (self.levels - 1)

    def mean(self, parameters: Tensor) -> Tensor:
        values = weft.linspace(0, 1, self.levels, dtype=parameters.dtype)
        return (parameters.softmax(-1) * values).sum(-1)

    def distribution(self, parameters: Tensor) -> Distribution:
        """Over the numbers of the levels, 0 … L − 1."""
        return Categorical(logits=parameters)


class ContinuousBernoulliHead(Head):
    """x ∈ [0, 1], p(x) = C(l) e^{l x}: shades of grey as real numbers (Loaiza-Ganem and Cunningham 2019); one logit.

    What the cross entropy of grey values lacks to be a likelihood is log C.
    """

    parameters = 1
    continuous = True
    domain = "numbers from 0 to 1"

    def supports(self, x: Tensor) -> Tensor:
        return (x >= 0) & (x <= 1)

    def log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        return self.distribution(parameters).log_prob(x)

    def draw(self, parameters: Tensor, noise: Tensor) -> Tensor:
        return self.distribution(parameters).icdf(noise[..., 0])

    def mean(self, parameters: Tensor) -> Tensor:
        return self.distribution(parameters).mean

    def distribution(self, parameters: Tensor) -> ContinuousBernoulli:
        """As a `weft.distributions.Distribution`."""
        return ContinuousBernoulli(logits=parameters.squeeze(-1), validate_args=False)


class GaussianHead(Head):
    """x ~ N(μ, σ²), parameters μ and log σ."""

    parameters = 2
    continuous = True

    def log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        mean, log_scale = _location(parameters)
        return -0.5 * ((x - mean) * (-log_scale).exp()) ** 2 - log_scale - 0.5 * math.log(2 * math.pi)

    def noise(self, shape: Shape, dtype: Any, generator: Any = None) -> Tensor:
        return weft.randn(*shape, 1, dtype=dtype, generator=generator)

    def draw(self, parameters: Tensor, noise: Tensor) -> Tensor:
        mean, log_scale = _location(parameters)
        return mean + log_scale.exp() * noise[..., 0]

    def mean(self, parameters: Tensor) -> Tensor:
        return parameters[..., 0]

    def distribution(self, parameters: Tensor) -> Distribution:
        """As a `weft.distributions.Distribution`."""
        mean, log_scale = _location(parameters)
        return Normal(mean, log_scale.exp())


class _MixtureHead(Head):
    """x from one of M components with softmax weights; parameters: M logits, M locations, M logarithms of scales."""

    numbers = 2
    continuous = True

    def __init__(self, components: int = 10) -> None:
        if components < 1:
            raise OptionError(f"{type(self).__name__}: expected at least 1 component, got {components}")
        self.components, self.parameters = components, 3 * components

    @abstractmethod
    def standard(self, z: Tensor) -> Tensor:
        """log density of a component at location 0 and scale 1."""

    @abstractmethod
    def quantile(self, u: Tensor) -> Tensor:
        """Of the same, at probabilities in (0, 1)."""

    def log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        logits, mean, log_scale = self.split(parameters)
        each = self.standard((x.unsqueeze(-1) - mean) * (-log_scale).exp()) - log_scale
        return (logits.log_softmax(-1) + each).logsumexp(-1)

    def draw(self, parameters: Tensor, noise: Tensor) -> Tensor:
        logits, mean, log_scale = self.split(parameters)
        chosen = _chosen(logits, noise[..., :1]).unsqueeze(-1)
        location, width = (part.gather(-1, chosen).squeeze(-1) for part in (mean, log_scale.exp()))
        tiny = weft.finfo(noise.dtype).eps / 2
        return location + width * self.quantile(noise[..., 1].clamp(tiny, 1 - tiny))

    def mean(self, parameters: Tensor) -> Tensor:
        logits, mean, _ = self.split(parameters)
        return (logits.softmax(-1) * mean).sum(-1)

    def split(self, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits, locations, logarithms of scales: each (…, M)."""
        logits, mean, log_scale = parameters.unflatten(-1, (3, self.components)).unbind(-2)
        return logits, mean, log_scale.clamp(min=LEAST_LOG_SCALE)


class GaussianMixtureHead(_MixtureHead):
    """x ~ Σₘ πₘ N(μₘ, σₘ²)"""

    def standard(self, z: Tensor) -> Tensor:
        return -0.5 * z**2 - 0.5 * math.log(2 * math.pi)

    def quantile(self, u: Tensor) -> Tensor:
        return math.sqrt(2) * weft.erfinv(2 * u - 1)

    def distribution(self, parameters: Tensor) -> Distribution:
        """As a `weft.distributions.Distribution`."""
        logits, mean, log_scale = self.split(parameters)
        return MixtureSameFamily(Categorical(logits=logits), Normal(mean, log_scale.exp()))


class LaplaceMixtureHead(_MixtureHead):
    """x ~ Σₘ πₘ Laplace(μₘ, bₘ): sharp peaks, heavier tails"""

    def standard(self, z: Tensor) -> Tensor:
        return -z.abs() - math.log(2)

    def quantile(self, u: Tensor) -> Tensor:
        side = u - 0.5
        return -side.sign() * (-2 * side.abs()).log1p()

    def distribution(self, parameters: Tensor) -> Distribution:
        """As a `weft.distributions.Distribution`."""
        logits, mean, log_scale = self.split(parameters)
        return MixtureSameFamily(Categorical(logits=logits), Laplace(mean, log_scale.exp()))


class LogisticMixtureHead(_MixtureHead):
    """Levels of grey, x ∈ {0, 1/(L−1), …, 1}, as bins under a mixture of logistic curves (PixelCNN++, Salimans et al. 2017).

    P(x) = Σₘ πₘ [σ((y + ½ − μₘ) / sₘ) − σ((y − ½ − μₘ) / sₘ)] with y = x (L − 1); the first bin reaches to −∞, the last
    to +∞, so the bins of every mixture sum to 1. μ = ½ L (1 + m), s = ½ L eᵗ for the parameters m and t, which are of
    the size of 1.
    """

    continuous = False

    def __init__(self, components: int = 10, levels: int = 256) -> None:
        super().__init__(components)
        _at_least_two("LogisticMixtureHead", levels)
        self.levels = levels

    def supports(self, x: Tensor) -> Tensor:
        return _on_levels(x, self.levels)

    @property
    def domain(self) -> str:
        return _levels_in_words(self.levels)

    def log_prob(self, parameters: Tensor, x: Tensor) -> Tensor:
        logits, mean, log_scale = self.split(parameters)
        y = (x * (self.levels - 1)).unsqueeze(-1)
        rate = (-log_scale).exp() * (2 / self.levels)
        middle = self.levels / 2 * (1 + mean)
        above, below = (y + 0.5 - middle) * rate, (y - 0.5 - middle) * rate
        # σ(a) − σ(b) = σ(a) σ(−b) (1 − e^{b − a}), which keeps its digits in both tails
        inside = F.logsigmoid(above) + F.logsigmoid(-below) + (-(-rate).expm1()).log()
        last = weft.where(y > self.levels - 1.5, F.logsigmoid(-below), inside)
        each = weft.where(y < 0.5, F.logsigmoid(above), last)
        return (logits.log_softmax(-1) + each).logsumexp(-1)

    def draw(self, parameters: Tensor, noise: Tensor) -> Tensor:
        y = self.levels / 2 * (1 + super().draw(parameters, noise))
        return y.round().clamp(0, self.levels - 1) / (self.levels - 1)

    def mean(self, parameters: Tensor) -> Tensor:
        """Of the curves, kept between black and white; that of the bins is a little off where they are cut."""
        return (self.levels / 2 * (1 + super().mean(parameters)) / (self.levels - 1)).clamp(0, 1)

    def standard(self, z: Tensor) -> Tensor:
        return F.logsigmoid(z) + F.logsigmoid(-z)

    def quantile(self, u: Tensor) -> Tensor:
        return u.logit()


HEADS: dict[str, type[Head]] = {
    "bernoulli": BernoulliHead,
    "categorical": CategoricalHead,
    "continuous_bernoulli": ContinuousBernoulliHead,
    "gaussian": GaussianHead,
    "mixture": GaussianMixtureHead,
    "laplace": LaplaceMixtureHead,
    "logistic": LogisticMixtureHead,
}


def head_named(head: str | Head) -> Head:
    """The head of that name with its defaults, or the head itself."""
    if isinstance(head, Head):
        return head
    if head not in HEADS:
        raise OptionError(f"head: expected one of {', '.join(HEADS)} or a Head, got {head!r}")
    return HEADS[head]()


def _location(parameters: Tensor) -> tuple[Tensor, Tensor]:
    mean, log_scale = parameters.unbind(-1)
    return mean, log_scale.clamp(min=LEAST_LOG_SCALE)


def _chosen(logits: Tensor, noise: Tensor) -> Tensor:
    """The first category whose cumulated probability exceeds the uniform number: (…, K), (…, 1) → (…)"""
    passed = logits.softmax(-1).cumsum(-1) <= noise
    return passed.sum(-1).clamp(max=logits.shape[-1] - 1)


def _on_levels(x: Tensor, levels: int) -> Tensor:
    """Whether x (L − 1) is a whole number of 0 … L − 1, but for rounding."""
    level = x * (levels - 1)
    return ((level - level.round()).abs() < 1e-3) & (x >= 0) & (x <= 1)


def _levels_in_words(levels: int) -> str:
    return f"levels 0, 1/{levels - 1}, … 1"


def _at_least_two(name: str, levels: int) -> None:
    if levels < 2:
        raise OptionError(f"{name}: expected at least 2 levels, got {levels}")
