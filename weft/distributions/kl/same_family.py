"""KL(p‖q) of two distributions of one family."""

from __future__ import annotations

import math

import weft

from ...autograd import enable_grad
from ...errors import UnsupportedError
from ...nn import functional as F
from ...tensor import Tensor
from .. import constraints
from ..bernoulli import Bernoulli
from ..beta import Beta
from ..binomial import Binomial
from ..categorical import Categorical
from ..cauchy import Cauchy
from ..continuous_bernoulli import ContinuousBernoulli
from ..dirichlet import Dirichlet
from ..exp_family import ExponentialFamily
from ..exponential import Exponential
from ..gamma import Gamma
from ..geometric import Geometric
from ..gumbel import Gumbel
from ..half_normal import HalfNormal
from ..independent import Independent
from ..laplace import Laplace
from ..one_hot_categorical import OneHotCategorical
from ..pareto import Pareto
from ..poisson import Poisson
from ..transformed_distribution import TransformedDistribution
from ..uniform import Uniform
from ..utils import euler_constant, sum_rightmost
from .registry import kl_divergence, register_kl

# ---------------------------------------------------------------------------------- discrete families


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    one = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    zero = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    one = weft.where(p.probs == 0, 0.0, weft.where(q.probs == 0, math.inf, one))
    return one + weft.where(p.probs == 1, 0.0, weft.where(q.probs == 1, math.inf, zero))


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if constraints.fails(p.total_count >= q.total_count):
        raise UnsupportedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    one_trial = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return weft.where(p.total_count > q.total_count, math.inf, p.total_count * one_trial)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = weft.where((q.probs == 0).expand(terms.shape), math.inf, terms)
    return weft.where((p.probs == 0).expand(terms.shape), 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return kl_divergence(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return weft.xlogy(p.rate, p.rate / q.rate) - (p.rate - q.rate)


# -------------------------------------------------------------------------------- continuous families


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    total_p = p.concentration1 + p.concentration0
    normalisers = q._log_normalizer(*q._natural_params) - p._log_normalizer(*p._natural_params)
    first = (p.concentration1 - q.concentration1) * (p.concentration1.digamma() - total_p.digamma())
    second = (p.concentration0 - q.concentration0) * (p.concentration0.digamma() - total_p.digamma())
    return normalisers + first + second


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    top = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return top.log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    constants = p._log_constant - q._log_constant
    return p.mean * (p.logits - q.logits) + constants + (-p.probs).log1p() - (-q.probs).log1p()


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    expected_log = p.concentration.digamma() - p.concentration.sum(-1, True).digamma()
    return q._log_beta() - p._log_beta() + ((p.concentration - q.concentration) * expected_log).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    normalisers = q.concentration * (p.rate / q.rate).log() + q.concentration.lgamma() - p.concentration.lgamma()
    shapes = (p.concentration - q.concentration) * p.concentration.digamma()
    return normalisers + shapes + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, shift = p.scale / q.scale, (q.loc - p.loc) / q.scale
    return -ratio.log() - shift + ratio * euler_constant + (shift + (1 + ratio).lgamma()).exp() - (1 + euler_constant)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    found = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return weft.where(p.scale < q.scale, math.inf, found)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return weft.where((q.low > p.low) | (q.high < p.high), math.inf, found)


# ------------------------------------------------------------------------------------- whole classes


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise UnsupportedError("KL of Independents with different reinterpreted_batch_ndims is not implemented")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    """The same invertible map on both sides leaves the divergence as it was."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise UnsupportedError("KL of TransformedDistributions needs equal transforms and event shapes")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """Bregman's divergence F(θ_q) − F(θ_p) − ⟨θ_q − θ_p, ∇F(θ_p)⟩ of the log-normaliser."""
    if type(p) is not type(q):
        raise UnsupportedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            f"divergences: {type(p).__name__} and {type(q).__name__}"
        )
    given, others = p._natural_params, q._natural_params
    with enable_grad():
        own = [n if n.requires_grad else n.detach().requires_grad_() for n in given]
        normaliser = p._log_normalizer(*own)
        slopes = weft.autograd.grad(normaliser.sum(), own, create_graph=True)
    result = q._log_normalizer(*others) - normaliser
    for mine, other, slope in zip(own, others, slopes, strict=True):
        result = result - sum_rightmost((other - mine) * slope, mine.dim() - len(p.batch_shape))
    return result if any(n.requires_grad for n in (*given, *others)) else result.detach()
