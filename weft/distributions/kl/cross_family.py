"""KL(p‖q) of different families, as cross-entropy less entropy: −E_p[log q(x)] − H(p).

−E_p[log q] needs only a few expectations under p: E x and Var x (from the distribution), E log x, E log(1 − x) and
E e^(tx), tabulated below for the families that have them. So one function serves each family of q.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch
from typing import Any

import weft

from ...errors import UnsupportedError
from ...tensor import Tensor
from ..bernoulli import Bernoulli
from ..beta import Beta
from ..continuous_bernoulli import ContinuousBernoulli
from ..distribution import Distribution
from ..exponential import Exponential
from ..gamma import Gamma
from ..gumbel import Gumbel
from ..laplace import Laplace
from ..normal import Normal
from ..pareto import Pareto
from ..poisson import Poisson
from ..uniform import Uniform
from ..utils import euler_constant
from .registry import register_kl

# ------------------------------------------------------------------------------- expectations under p


@singledispatch
def expected_log(p: Any) -> Tensor:
    """E log x."""
    raise UnsupportedError(type(p))


@expected_log.register
def _(p: Beta) -> Tensor:
    return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()


@expected_log.register
def _(p: Exponential) -> Tensor:
    return -p.rate.log() - euler_constant


@expected_log.register
def _(p: Gamma) -> Tensor:
    return p.concentration.digamma() - p.rate.log()


@expected_log.register
def _(p: Pareto) -> Tensor:
    return p.scale.log() + p.alpha.reciprocal()


@expected_log.register
def _(p: Uniform) -> Tensor:
    return (weft.xlogy(p.high, p.high) - weft.xlogy(p.low, p.low)) / (p.high - p.low) - 1


def uniform_expected_log_rest(p: Uniform) -> Tensor:
    """E log(1 − x)."""
    return expected_log(Uniform(1 - p.high, 1 - p.low, validate_args=False))


@singledispatch
def expected_exp(p: Any, t: Tensor) -> Tensor:
    """E e^(tx)."""
    raise UnsupportedError(type(p))


@expected_exp.register
def _(p: Exponential, t: Tensor) -> Tensor:
    return p.rate / (p.rate - t)


@expected_exp.register
def _(p: Gamma, t: Tensor) -> Tensor:
    return (-p.concentration * (-t / p.rate).log1p()).exp()


@expected_exp.register
def _(p: Normal, t: Tensor) -> Tensor:
    return (p.loc * t + (p.scale * t).square() / 2).exp()


@expected_exp.register
def _(p: Uniform, t: Tensor) -> Tensor:
    return ((t * p.high).exp() - (t * p.low).exp()) / (t * (p.high - p.low))


# --------------------------------------------------------------------------- cross-entropies −E_p[log q]


def _against_normal(p: Distribution, q: Normal) -> Tensor:
    square = p.variance + (p.mean - q.loc).square()
    return 0.5 * math.log(2 * math.pi) + q.scale.log() + square / (2 * q.scale.square())


def _against_exponential(p: Distribution, q: Exponential) -> Tensor:
    return q.rate * p.mean - q.rate.log()


def _against_gamma(p: Distribution, q: Gamma) -> Tensor:
    normaliser = q.concentration.lgamma() - q.concentration * q.rate.log()
    return normaliser - (q.concentration - 1) * expected_log(p) + q.rate * p.mean


def _against_gumbel(p: Distribution, q: Gumbel) -> Tensor:
    tail = (q.loc / q.scale).exp() * expected_exp(p, -q.scale.reciprocal())
    return q.scale.log() + (p.mean - q.loc) / q.scale + tail


def _against_continuous_bernoulli(p: Distribution, q: ContinuousBernoulli) -> Tensor:
    return -p.mean * q.logits - (-q.probs).log1p() - q._log_constant


def _against_uniform(p: Distribution, q: Uniform) -> Tensor:
    return (q.high - q.low).log()


def _against_laplace(p: Normal, q: Laplace) -> Tensor:
    shift = (p.loc - q.loc) / p.scale
    folded = math.sqrt(2 / math.pi) * (-shift.square() / 2).exp() + shift * (shift / math.sqrt(2)).erf()
    return (2 * q.scale).log() + p.scale / q.scale * folded


def _against_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - p.probs * q.rate.log()


def _against_beta(p: Uniform, q: Beta) -> Tensor:
    powers = (q.concentration1 - 1) * expected_log(p) + (q.concentration0 - 1) * uniform_expected_log_rest(p)
    return q._log_normalizer(q.concentration1, q.concentration0) - powers


def _against_pareto(p: Uniform, q: Pareto) -> Tensor:
    return (q.alpha + 1) * expected_log(p) - q.alpha.log() - q.alpha * q.scale.log()


# --------------------------------------------------- where p puts mass outside the support of q: infinite


def _nowhere(p: Distribution, q: Distribution) -> Any:
    return False


def _below_zero(p: Uniform, q: Distribution) -> Tensor:
    return p.low < 0


def _outside_unit(p: Uniform, q: Distribution) -> Tensor:
    return (p.low < 0) | (p.high > 1)


def _below_scale(p: Uniform, q: Pareto) -> Tensor:
    return p.low < q.scale


def _unit_outside(p: Distribution, q: Uniform) -> Tensor:
    return (q.low > 0) | (q.high < 1)


def _no_mean(p: Pareto, q: Distribution) -> Tensor:
    return p.alpha <= 1


def _no_variance(p: Pareto, q: Distribution) -> Tensor:
    return p.alpha <= 2


TABLE: list[tuple[type, type, Callable, Callable]] = [
    (Bernoulli, Poisson, _against_poisson, _nowhere),
    (Beta, ContinuousBernoulli, _against_continuous_bernoulli, _nowhere),
    (Beta, Exponential, _against_exponential, _nowhere),
    (Beta, Gamma, _against_gamma, _nowhere),
    (Beta, Normal, _against_normal, _nowhere),
    (Beta, Uniform, _against_uniform, _unit_outside),
    (ContinuousBernoulli, Exponential, _against_exponential, _nowhere),
    (ContinuousBernoulli, Normal, _against_normal, _nowhere),
    (ContinuousBernoulli, Uniform, _against_uniform, _unit_outside),
    (Exponential, Gamma, _against_gamma, _nowhere),
    (Exponential, Gumbel, _against_gumbel, _nowhere),
    (Exponential, Normal, _against_normal, _nowhere),
    (Gamma, Exponential, _against_exponential, _nowhere),
    (Gamma, Gumbel, _against_gumbel, _nowhere),
    (Gamma, Normal, _against_normal, _nowhere),
    (Gumbel, Normal, _against_normal, _nowhere),
    (Laplace, Normal, _against_normal, _nowhere),
    (Normal, Gumbel, _against_gumbel, _nowhere),
    (Normal, Laplace, _against_laplace, _nowhere),
    (Pareto, Exponential, _against_exponential, _no_mean),
    (Pareto, Gamma, _against_gamma, _no_mean),
    (Pareto, Normal, _against_normal, _no_variance),
    (Uniform, Beta, _against_beta, _outside_unit),
    (Uniform, ContinuousBernoulli, _against_continuous_bernoulli, _outside_unit),
    (Uniform, Exponential, _against_exponential, _below_zero),
    (Uniform, Gamma, _against_gamma, _below_zero),
    (Uniform, Gumbel, _against_gumbel, _nowhere),
    (Uniform, Normal, _against_normal, _nowhere),
    (Uniform, Pareto, _against_pareto, _below_scale),
]


def _enter(type_p: type, type_q: type, cross_entropy: Callable, escapes: Callable) -> None:
    @register_kl(type_p, type_q)
    def divergence(p: Distribution, q: Distribution) -> Tensor:
        found, infinite = cross_entropy(p, q) - p.entropy(), escapes(p, q)
        return found if infinite is False else weft.where(infinite, math.inf, found)


for _row in TABLE:
    _enter(*_row)
