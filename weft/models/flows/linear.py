"""Linear bijectors along the features of rows (B, D) or the channels of images (B, C, H, W): scales, normalisations,
permutations, and the 1×1 convolution of Glow, as a plain matrix and as its triangular factors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from .bijector import Bijector, Pair

__all__ = ["ActNorm", "BatchNorm", "InvertibleLinear", "LULinear", "Permutation", "Scaling"]


class Scaling(Bijector):
    """y = eˢ ⊙ x, one scale a feature: log|det J| = (pixels) · Σ s"""

    def __init__(self, features: int, dtype: Any = None) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(weft.zeros(features, dtype=dtype))

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        return x * _along(self.log_scale.exp(), x), _volume(self.log_scale, x)

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        return y * _along((-self.log_scale).exp(), y), -_volume(self.log_scale, y)


class ActNorm(Bijector):
    """y = eˢ ⊙ x + b, where s and b start so that the first batch comes out with mean 0 and variance 1 (Glow).

    The first call in training mode, in either direction, decides; compiled or not, since what decides is a buffer. Before
    it, and in evaluation mode until then, the map is the identity.
    """

    def __init__(self, features: int, dtype: Any = None) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(weft.zeros(features, dtype=dtype))
        self.shift = nn.Parameter(weft.zeros(features, dtype=dtype))
        self.register_buffer("started", weft.tensor(False))

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        if self.training and len(x):
            mean, log_std = _moments(x)
            self._start(-log_std, -mean * (-log_std).exp())
        return x * _along(self.log_scale.exp(), x) + _along(self.shift, x), _volume(self.log_scale, x)

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        if self.training and len(y):
            mean, log_std = _moments(y)
            self._start(log_std, mean)
        return (y - _along(self.shift, y)) * _along((-self.log_scale).exp(), y), -_volume(self.log_scale, y)

    @weft.no_grad()
    def _start(self, log_scale: Tensor, shift: Tensor) -> None:
        self.log_scale.copy_(weft.where(self.started, self.log_scale, log_scale))
        self.shift.copy_(weft.where(self.started, self.shift, shift))
        self.started.fill_(True)


class BatchNorm(Bijector):
    """x = (y − m) / √(v + ε) · eᵍ + b on the way from data to noise, m and v of the batch in training, running otherwise.

    Noise to data (forward) always uses the running values: before any training they are 0 and 1, and the map is nearly
    the identity, not undefined. In training mode the directions are therefore no inverses of each other (MAF, appendix B).
    """

    def __init__(self, features: int, momentum: float = 0.1, eps: float = 1e-5, dtype: Any = None) -> None:
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.gain = nn.Parameter(weft.zeros(features, dtype=dtype))
        self.shift = nn.Parameter(weft.zeros(features, dtype=dtype))
        self.register_buffer("running_mean", weft.zeros(features, dtype=dtype))
        self.register_buffer("running_var", weft.ones(features, dtype=dtype))

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        mean, log_scale = self.running_mean, self._log_scale(self.running_var)
        y = (x - _along(self.shift, x)) * _along(log_scale.exp(), x) + _along(mean, x)
        return y, _volume(log_scale, x)

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        mean, var = self.running_mean, self.running_var
        if self.training and len(y) > 1:
            rest = [0, *range(2, y.ndim)]
            mean, var = y.mean(rest), y.var(rest, correction=0)
            with weft.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
        log_scale = self._log_scale(var)
        x = (y - _along(mean, y)) * _along((-log_scale).exp(), y) + _along(self.shift, y)
        return x, -_volume(log_scale, y)

    def _log_scale(self, var: Tensor) -> Tensor:
        return 0.5 * (var + self.eps).log() - self.gain


class Permutation(Bijector):
    """y = x with its features in another order: "reversed", "random" (drawn from `seed`), or the places."""

    def __init__(self, features: int, order: str | Sequence[int] = "reversed", seed: int = 0) -> None:
        super().__init__()
        if order == "reversed":
            places = weft.arange(features).flip(0)
        elif order == "random":
            places = weft.randperm(features, generator=weft.Generator().manual_seed(seed))
        elif isinstance(order, str) or sorted(order) != list(range(features)):
            raise OptionError(
                f"Permutation: order is 'reversed', 'random' or the places 0 … {features - 1} in some order"
            )
        else:
            places = weft.tensor(list(order))
        self.register_buffer("places", places)
        self.register_buffer("back", weft.argsort(places))

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        return x[:, self.places], weft.zeros(len(x), dtype=x.dtype)

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        return y[:, self.back], weft.zeros(len(y), dtype=y.dtype)


class InvertibleLinear(Bijector):
    """y = W x at every pixel, W starting as a rotation: log|det J| = pixels · log|det W|, O(C³)."""

    def __init__(self, features: int, dtype: Any = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(_rotation(features, dtype))

    def matrix(self) -> Tensor:
        """W: (C, C)"""
        return self.weight

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        return _multiplied(self.weight, x), weft.linalg.slogdet(self.weight)[1] * _pixels(x) + x.new_zeros(len(x))

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        volume = weft.linalg.slogdet(self.weight)[1]
        return _multiplied(weft.linalg.inv(self.weight), y), y.new_zeros(len(y)) - volume * _pixels(y)


class LULinear(Bijector):
    """The same with W = P L (U + diag s): P and the signs of s fixed, log|det J| = pixels · Σ log|s|, O(C)."""

    def __init__(self, features: int, dtype: Any = None) -> None:
        super().__init__()
        p, lower, upper = weft.linalg.lu(_rotation(features, dtype))
        diagonal = upper.diagonal()
        self.lower, self.upper = nn.Parameter(lower.tril(-1)), nn.Parameter(upper.triu(1))
        self.log_scale = nn.Parameter(diagonal.abs().log())
        self.register_buffer("signs", diagonal.sign())
        self.register_buffer("order", p)

    def matrix(self) -> Tensor:
        """W: (C, C)"""
        lower, upper = self._factors()
        return self.order @ lower @ upper

    def _factors(self) -> Pair:
        one = weft.eye(len(self.signs), dtype=self.signs.dtype)
        return self.lower.tril(-1) + one, self.upper.triu(1) + (self.signs * self.log_scale.exp()) * one

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        return _multiplied(self.matrix(), x), _volume(self.log_scale, x)

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        lower, upper = self._factors()
        half = weft.linalg.solve_triangular(lower, self.order.mT, upper=False, unitriangular=True)
        back = weft.linalg.solve_triangular(upper, half, upper=True)
        return _multiplied(back, y), -_volume(self.log_scale, y)


def _rotation(features: int, dtype: Any) -> Tensor:
    with weft.no_grad():
        return weft.linalg.qr(weft.randn(features, features, dtype=dtype))[0]


def _multiplied(w: Tensor, x: Tensor) -> Tensor:
    """W x along dimension 1: (C, C), (B, C, *) → (B, C, *)"""
    if x.ndim == 2:
        return x @ w.mT
    return (w @ x.flatten(2)).reshape(x.shape) if len(x) else x


def _along(value: Tensor, x: Tensor) -> Tensor:
    """One value a feature, to be broadcast against x: (C,) → (C, 1, …)"""
    return value.reshape(-1, *(1 for _ in x.shape[2:]))


def _pixels(x: Tensor) -> int:
    return math.prod(x.shape[2:])


def _volume(log_scale: Tensor, x: Tensor) -> Tensor:
    """The same for every row: (C,) → (B,)"""
    return log_scale.sum() * _pixels(x) + weft.zeros(len(x), dtype=x.dtype)


@weft.no_grad()
def _moments(x: Tensor) -> Pair:
    """Mean and log of the standard deviation of each feature, over all else: (B, C, *) → (C,), (C,)"""
    rest = [0, *range(2, x.ndim)]
    return x.mean(rest), 0.5 * (x.var(rest, correction=0) + 1e-6).log()
