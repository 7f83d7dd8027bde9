"""Exponential families, whose entropy and divergence follow from their log-normaliser by differentiation."""

from __future__ import annotations

import weft

from ..autograd import enable_grad
from ..errors import UnsupportedError
from ..tensor import Tensor
from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """p(x; θ) = exp(⟨t(x), θ⟩ − F(θ) + k(x)).

    θ: natural parameters, t: sufficient statistic, F: log-normaliser, k: carrier measure. A subclass gives
    `_natural_params` (a tuple of tensors), `_log_normalizer(*θ)` and E[k(X)] as `_mean_carrier_measure`.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise UnsupportedError(f"{type(self).__name__} does not state its natural parameters")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise UnsupportedError(f"{type(self).__name__} does not state its log-normaliser")

    @property
    def _mean_carrier_measure(self) -> float | Tensor:
        raise UnsupportedError(f"{type(self).__name__} does not state E[k(X)]")

    def entropy(self) -> Tensor:
        """F(θ) − ⟨θ, ∇F(θ)⟩ − E[k(X)], the gradient by automatic differentiation."""
        carrier, given = self._mean_carrier_measure, self._natural_params
        with enable_grad():
            natural = [p if p.requires_grad else p.detach().requires_grad_() for p in given]
            normaliser = self._log_normalizer(*natural)
            slopes = weft.autograd.grad(normaliser.sum(), natural, create_graph=True)
        result = normaliser - carrier
        for parameter, slope in zip(natural, slopes, strict=True):
            product = parameter * slope
            result = result - product.reshape((*self._batch_shape, -1)).sum(-1)  # (batch, event) → (batch)
        return result if any(p.requires_grad for p in given) else result.detach()
