"""Predictive sparse decomposition: sparse codes by optimisation, and an encoder that learns to guess them (N1 eq. 225)."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from ..generative.protocol import GenerativeModel, exact

__all__ = ["PredictiveSparseDecomposition"]

F = nn.functional


class PredictiveSparseDecomposition(GenerativeModel):
    """min over D, f, z of ‖x − D z‖² + λ |z|₁ + α ‖z − f(x)‖²,   f(x) = g ∘ tanh(Wx + b) (Kavukcuoglu et al. 2008).

    `infer` finds the best z, `encode` guesses it at once: f(x). The columns of the dictionary D have length 1
    (`normalise` after each step), or z would shrink while D grows.

    sparsity: λ; prediction: α; α = 0 in `infer` is the lasso
    Shape: x (B, features), z (B, code); code may exceed features

    >>> model = PredictiveSparseDecomposition(64, 100)
    >>> optimizer = weft.optim.Adam(model.parameters(), lr=1e-2)
    >>> model.loss(weft.randn(8, 64)).backward()
    >>> optimizer.step()
    >>> model.normalise()
    """

    def __init__(
        self, features: int, code: int, sparsity: float = 0.1, prediction: float = 1.0, dtype: Any = None
    ) -> None:
        super().__init__()
        if sparsity < 0 or prediction < 0:
            raise OptionError(f"{type(self).__name__}: weights must be >= 0, got {sparsity} and {prediction}")
        self.sparsity, self.prediction = sparsity, prediction
        self.dictionary = nn.Parameter(weft.randn(features, code, dtype=dtype))  # D
        self.predictor = nn.Linear(features, code, dtype=dtype)
        self.gain = nn.Parameter(weft.ones(code, dtype=dtype))
        self.normalise()

    @weft.no_grad()
    def normalise(self) -> None:
        """Give every column of D length 1."""
        self.dictionary.copy_(F.normalize(self.dictionary, dim=0))

    @exact
    def encode(self, x: Tensor) -> Tensor:
        """The guess f(x): (B, features) → (B, code)"""
        return self.gain * self.predictor(x).tanh()

    @exact
    def decode(self, z: Tensor) -> Tensor:
        """D z: (B, code) → (B, features)"""
        return z @ self.dictionary.mT

    def objective(self, x: Tensor, z: Tensor) -> Tensor:
        """The sum of all three terms for each row: (B,)"""
        error = ((x - self.decode(z)) ** 2).sum(1) + self.prediction * ((z - self.encode(x)) ** 2).sum(1)
        return error + self.sparsity * z.abs().sum(1)

    def loss(self, x: Tensor, generator: Any = None, steps: int = 50) -> Tensor:
        """The mean objective at the best codes. Its slope in D and f is that of the minimum: ∂z does not count there."""
        return self.objective(x, self.infer(x, steps)).mean()

    @weft.no_grad()
    def infer(self, x: Tensor, steps: int = 200) -> Tensor:
        """The codes that minimise the objective, by FISTA from the guess (Beck and Teboulle 2009): (B, code).

        z ← S(y − ∇/L, λ/L),  S(u, t) = sign(u) max(|u| − t, 0),  L = 2 (‖D‖₂² + α)
        """
        d, guess = self.dictionary, self.encode(x)
        steepest = 2 * (weft.linalg.matrix_norm(d, 2) ** 2 + self.prediction)

        def step(_: Any, state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
            z, y, t = state
            slope = 2 * ((y @ d.mT - x) @ d + self.prediction * (y - guess))
            better = _shrunk(y - slope / steepest, self.sparsity / steepest)
            faster = (1 + (1 + 4 * t**2).sqrt()) / 2
            return better, better + (t - 1) / faster * (better - z), faster

        return weft.fori_loop(0, steps, step, (guess, guess, weft.ones((), dtype=guess.dtype)))[0]


def _shrunk(u: Tensor, by: Tensor) -> Tensor:
    return u.sign() * (u.abs() - by).clamp(min=0)
