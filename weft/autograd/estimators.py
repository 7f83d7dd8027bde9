"""Gradients of expectations, ∇φ E[f(x)] with x ~ qφ, estimated from samples.

Two unbiased estimators: the score-function (log-derivative, REINFORCE) one needs only log q and any
f; the reparameterised (pathwise) one needs x as a differentiable function of φ and noise, and mostly
has the far smaller variance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..ops.core.batching import averaged_front, reshaped
from ..tensor import Tensor
from ..utils.pytree import tree_flatten, tree_map, tree_unflatten
from .batched import vmap
from .transforms import grad

__all__ = ["Estimate", "reparameterised_gradient", "score_function_gradient"]


class Estimate(NamedTuple):
    """An estimated gradient (like φ), the variance of one term, and all N terms (N, *φ)."""

    gradient: Any
    variance: Any
    terms: Any

    @property
    def standard_error(self) -> Any:
        """√(variance / N) of the mean."""
        return tree_map(lambda v, terms: (v / terms.shape[0]) ** 0.5, self.variance, self.terms)


def score_function_gradient(
    f: Callable[[Tensor], Tensor],
    params: Any,
    samples: Tensor,
    log_prob: Callable[[Tensor, Any], Tensor],
    baseline: float | Tensor = 0.0,
) -> Estimate:
    """∇φ E[f(x)] ≈ 1/N Σ (f(xᵢ) − c) ∇φ log q(xᵢ; φ), with xᵢ drawn from q(·; φ).

    `f` takes one sample and returns a number (it need not be differentiable), `log_prob(x, params)`
    the log-density of one sample. Any constant `baseline` c leaves the mean as it is, because
    E[∇ log q] = 0, and can lower the variance.
    """

    def term(x: Tensor) -> Any:
        weight = (f(x) - baseline).detach()
        return grad(lambda p: weight * log_prob(x, p))(params)

    return _estimate(vmap(term)(samples.detach()))


def reparameterised_gradient(
    f: Callable[[Tensor], Tensor],
    params: Any,
    noise: Tensor,
    transform: Callable[[Tensor, Any], Tensor],
) -> Estimate:
    """∇φ E[f(x)] ≈ 1/N Σ ∇φ f(t(εᵢ; φ)), where x = t(ε; φ) has the distribution q(·; φ).

    `transform(noise, params)` makes one sample from one draw of parameter-free noise; `f` must be
    differentiable.
    """
    return _estimate(vmap(lambda e: grad(lambda p: f(transform(e, p)))(params))(noise.detach()))


def _estimate(terms: Any) -> Estimate:
    flat, spec = tree_flatten(terms)
    means = [averaged_front(column) for column in flat]
    variances = [_variance(column, m) for column, m in zip(flat, means, strict=True)]
    return Estimate(tree_unflatten(means, spec), tree_unflatten(variances, spec), terms)


def _variance(terms: Tensor, middle: Tensor) -> Tensor:
    """Σ (term − mean)² / (N − 1)."""
    count = terms.shape[0]
    centred = terms - reshaped(middle, (1, *middle.shape))
    return averaged_front(centred * centred) * (count / (count - 1 if count > 1 else 1))
