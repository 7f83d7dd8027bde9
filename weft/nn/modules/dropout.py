"""Dropout and noise as modules: random in training, identity (or an average) otherwise.

`WeightScalingDropout`, `monte_carlo`, `GaussianNoise` and `noisy_weights` are of the lecture notes, not of PyTorch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import weft

from ...errors import InvalidValueError
from ...tape.modes import no_grad
from ...tensor import Tensor
from .. import functional as F
from ..module import Module

__all__ = [
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
    "GaussianNoise",
    "WeightScalingDropout",
    "monte_carlo",
    "noisy_weights",
]


class RandomlyDropped(Module):
    """What every dropout layer has.

    p: the probability of dropping
    inplace: overwrite the input with the result
    """

    random_in_training = True

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise InvalidValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(RandomlyDropped):
    """In training yᵢ = 0 with probability p, else xᵢ / (1 − p): inverted dropout (N1 §2.3). Shape: any.

    >>> sorted(set(nn.Dropout(0.75)(weft.ones(100)).tolist()))
    [0.0, 4.0]
    >>> nn.Dropout(0.75).eval()(weft.ones(3))
    tensor([1., 1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(RandomlyDropped):
    """`Dropout` of whole channels. Shape: (N, C, L) or (C, L).

    >>> y = nn.Dropout1d(0.5)(weft.ones(8, 16, 5))
    >>> set(y.sum(2).flatten().tolist()) == {0.0, 10.0}
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(RandomlyDropped):
    """`Dropout` of whole channels. Shape: (N, C, H, W) or (N, C, L).

    >>> y = nn.Dropout2d(0.5)(weft.ones(8, 16, 3, 3))
    >>> set(y.sum((2, 3)).flatten().tolist()) == {0.0, 18.0}
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(RandomlyDropped):
    """`Dropout` of whole channels. Shape: (N, C, D, H, W) or (C, D, H, W).

    >>> y = nn.Dropout3d(0.5)(weft.ones(8, 16, 2, 2, 2))
    >>> set(y.sum((2, 3, 4)).flatten().tolist()) == {0.0, 16.0}
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(RandomlyDropped):
    """Dropout for selu networks: dropped elements become selu(−∞), mean and variance are restored. Shape: any.

    >>> y = nn.AlphaDropout(0.2)(weft.randn(100_000))
    >>> abs(float(y.mean())) < 0.02 and abs(float(y.var()) - 1) < 0.02
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(RandomlyDropped):
    """`AlphaDropout` of whole channels. Shape: (N, C, *).

    >>> y = nn.FeatureAlphaDropout(0.5)(weft.zeros(1, 100, 4))
    >>> bool((y == y[:, :, :1]).all())
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)


class WeightScalingDropout(RandomlyDropped):
    """Dropout that is scaled at test time: r ⊙ x in training, r ~ Bernoulli(1 − p), and (1 − p) x otherwise.

    Scaling the activations by the probability of keeping is scaling the weights of the next layer by it,
    W_test = (1 − p) W_train (N0 §3.3.2, N1 §2.3; the p of N1 is the probability of keeping). Shape: any

    >>> nn.WeightScalingDropout(0.25).eval()(weft.ones(2))
    tensor([0.7500, 0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        factor = 1 - self.p
        if self.training:
            factor = weft.bernoulli(weft.full_like(input.detach(), factor))
        return input.mul_(factor) if self.inplace else input * factor


@no_grad()
def monte_carlo(model: Module, x: Any, samples: int = 50) -> tuple[Tensor, Tensor]:
    """Mean and (unbiased) variance of a model's output over `samples` draws of its random layers (N2 §8.3).

    Only modules with a true attribute `random_in_training` (dropout, noise, attention, recurrent layers) are switched
    to training; batch normalisation and all others stay in evaluation, and afterwards every mode is as before.
    Shape: whatever the model takes → two of what it returns
    """
    if samples < 2:
        raise InvalidValueError(f"monte_carlo: a variance needs at least 2 samples, got {samples}")
    modes = {module: module.training for module in model.modules()}
    try:
        model.eval()
        for module in modes:
            module.training = getattr(module, "random_in_training", False)
        draws = weft.stack([model(x) for _ in range(samples)])  # (samples, …)
    finally:
        for module, training in modes.items():
            module.training = training
    return draws.mean(0), draws.var(0)


class GaussianNoise(Module):
    """y = x + std · ε, ε ~ N(0, 1), in training; y = x otherwise (N0 §3.3.2, N2 §8.2).

    Place it before a network (noise on inputs), between layers (on activations), or call it on the targets. For weights
    see `noisy_weights`. Shape: any → the same

    std: the standard deviation of the noise
    relative: whether that is for an element of size 1: the noise of x then has standard deviation std · |x|

    >>> round(float(nn.GaussianNoise(0.5)(weft.zeros(100_000)).std()), 2)
    0.5
    """

    random_in_training = True

    def __init__(self, std: float = 0.1, relative: bool = False) -> None:
        super().__init__()
        if std < 0:
            raise InvalidValueError(f"GaussianNoise: std must be at least 0, got {std}")
        self.std, self.relative = std, relative

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.std == 0:
            return input
        noise = weft.randn_like(input.detach()) * self.std
        return input + (noise * input.detach().abs() if self.relative else noise)

    def extra_repr(self) -> str:
        return f"std={self.std}, relative={self.relative}"


@contextlib.contextmanager
def noisy_weights(
    model: Module, std: float, where: Callable[[str], bool] = lambda name: name.endswith("weight")
) -> Iterator[Module]:
    """Within the block the parameters that `where` names are W + std · ε; afterwards they are W again (N2 §8.2).

    Run forward and backward inside: the gradients are those at the perturbed weights.
    """
    chosen = [parameter for name, parameter in model.named_parameters() if where(name)]
    kept = [parameter.detach().clone() for parameter in chosen]
    try:
        with no_grad():
            for parameter in chosen:
                parameter.add_(weft.randn_like(parameter.detach()) * std)
        yield model
    finally:
        with no_grad():
            for parameter, value in zip(chosen, kept, strict=True):
                parameter.copy_(value)
