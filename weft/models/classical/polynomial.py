"""Feature maps, and regression that is linear in them: polynomials, Chebyshev and Gaussian bases, random features.

ŷ = Σⱼ wⱼ φⱼ(x) + b is fitted exactly by least squares however curved the φⱼ are (N1 §1, N4 §3).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from .linear_models import LinearRegression

__all__ = ["BasisRegression", "PolynomialRegression", "chebyshev", "gaussians", "monomials", "random_relu"]


class BasisRegression(nn.Module):
    """ŷ = φ(x) Wᵀ + b for a fixed feature map φ: (N, D) → (N, features).

    >>> x = weft.linspace(0, 1, 20)[:, None]
    >>> model = BasisRegression(lambda x: (6.2831853 * x).sin(), features=1).solve(x, 2 + (6.2831853 * x[:, 0]).sin())
    >>> round(model.regression.linear.bias.item(), 4)
    2.0
    """

    def __init__(self, basis: Callable[[Tensor], Tensor], features: int, out_features: int = 1) -> None:
        super().__init__()
        self.basis = basis
        self.regression = LinearRegression(features, out_features)

    def forward(self, x: Tensor) -> Tensor:
        return self.regression(self.basis(x))

    def solve(self, x: Tensor, y: Tensor, **options: Any) -> BasisRegression:
        """The exact solution; options of `LinearRegression.solve`. Features are computed in float64."""
        self.regression.solve(self.basis(x.detach().double()), y, **options)
        return self

    def fit(self, x: Tensor, y: Tensor, **options: Any) -> list[float]:
        """Train by SGD with the options of `descend`; the mean loss of each epoch."""
        return self.regression.fit(self.basis(x), y, **options)


def PolynomialRegression(degree: int, in_features: int = 1, out_features: int = 1) -> BasisRegression:
    """The `BasisRegression` on all monomials of total degree 1 … `degree`; the bias is the constant term."""
    features = len(_exponents(in_features, degree)) - 1
    return BasisRegression(partial(monomials, degree=degree, constant=False), features, out_features)


def monomials(x: Tensor, degree: int, constant: bool = True) -> Tensor:
    """All products x₁^a₁ … x_D^a_D with a₁ + … + a_D ≤ degree, by rising degree: (N, D) → (N, C(D + degree, degree)).

    >>> monomials(weft.tensor([[2.0, 3.0]]), 2).tolist()
    [[1.0, 2.0, 3.0, 4.0, 6.0, 9.0]]
    """
    if x.ndim != 2:
        raise ShapeError(f"monomials: expected x of shape (N, D), got {tuple(x.shape)}")
    columns: dict[tuple[int, ...], Tensor] = {(): weft.ones_like(x[:, 0])}
    for chosen in _exponents(x.shape[1], degree)[1:]:
        columns[chosen] = columns[chosen[:-1]] * x[:, chosen[-1]]
    return weft.stack(list(columns.values())[0 if constant else 1 :], 1)


def _exponents(features: int, degree: int) -> list[tuple[int, ...]]:
    """Each monomial as the sorted tuple of its factors: (), (0,), (1,), (0, 0), (0, 1), …"""
    if degree < 0:
        raise OptionError(f"monomials: expected degree >= 0, got {degree}")
    rising = (itertools.combinations_with_replacement(range(features), d) for d in range(degree + 1))
    return list(itertools.chain.from_iterable(rising))


def chebyshev(x: Tensor, degree: int) -> Tensor:
    """T₁(x) … T_degree(x) of one variable in [−1, 1]: (N, 1) → (N, degree).

    T₀ = 1, T₁ = x, T_{k+1} = 2 x T_k − T_{k−1}. They span the monomials, and stay well-conditioned at high degree.
    """
    if x.ndim != 2 or x.shape[1] != 1:
        raise ShapeError(f"chebyshev: expected x of shape (N, 1), got {tuple(x.shape)}")
    terms = [weft.ones_like(x), x]
    for _ in range(degree - 1):
        terms.append(2 * x * terms[-1] - terms[-2])
    return weft.cat(terms[1:], 1)


def gaussians(x: Tensor, centres: Tensor, width: float) -> Tensor:
    """exp(−‖x − cⱼ‖² / (2 width²)): (N, D), centres (K, D) → (N, K)."""
    distance = ((x[:, None] - centres.to(x.dtype)) ** 2).sum(-1)  # (N, 1, D) − (K, D) → (N, K)
    return (-distance / (2 * width**2)).exp()


def random_relu(x: Tensor, features: int, seed: int = 0) -> Tensor:
    """max(0, ⟨vⱼ, (x, 1)⟩) / √features for fixed normal vⱼ, a hidden layer that is not trained: (N, D) → (N, features).

    vⱼ is a pure function of (seed, j): more features extend the earlier ones.
    """
    inputs = x.shape[1] + 1
    drawn = weft.Generator().manual_seed(seed).normal((features, inputs), "float64")
    directions = weft.tensor(drawn).to(x.dtype)  # (features, D + 1)
    z = x @ directions[:, :-1].mT + directions[:, -1]
    return z.relu() / features**0.5
