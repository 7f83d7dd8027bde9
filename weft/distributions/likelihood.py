"""Maximum likelihood in closed form, and the bound that stands for it where there is none (N1 exercise 1.1, N3, N0 §1.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import weft

from ..errors import AutogradError, OptionError, ShapeError
from ..tensor import Tensor
from .bernoulli import Bernoulli
from .categorical import Categorical
from .distribution import Distribution
from .exponential import Exponential
from .geometric import Geometric
from .gumbel import Gumbel
from .kl import kl_divergence
from .laplace import Laplace
from .log_normal import LogNormal
from .multivariate_normal import MultivariateNormal
from .normal import Normal
from .poisson import Poisson
from .uniform import Uniform

__all__ = ["Evidence", "elbo", "evidence", "linear_gaussian", "maximum_likelihood"]


def maximum_likelihood(family: type[Distribution], x: Tensor) -> Distribution:
    """argmax over the family of Σₙ log p(xₙ): the member under which independent data x (N, …) are most likely.

        Normal       μ = mean x, σ² = mean (x − μ)²              LogNormal    the same of log x
        Laplace      μ = median x, b = mean |x − μ|              Exponential  λ = 1 / mean x
        Bernoulli    p = mean x                                  Geometric    p = 1 / (1 + mean x)
        Categorical  p_c = share of c                            Poisson      λ = mean x
        Uniform      min x, max x                                MultivariateNormal   mean and covariance of rows
        Gumbel       β = mean x − Σ x e^(−x/β) / Σ e^(−x/β), found by Newton's method; μ = −β log mean e^(−x/β)

    those of Gumbel being where both derivatives of N1 eqs. 80–81 vanish. Other families are fitted by minimising the negative
    log-likelihood.

    family: a class of `weft.distributions`
    x: the data; every further dimension is fitted by itself, but for MultivariateNormal (N, D) and Categorical (N,)

    >>> maximum_likelihood(Poisson, weft.tensor([2.0, 4.0, 3.0])).rate
    tensor(3.)
    """
    if family not in _FITS:
        known = ", ".join(sorted(cls.__name__ for cls in _FITS))
        raise OptionError(
            f"maximum_likelihood: no closed form for {getattr(family, '__name__', family)!r}; there is one for {known}, "
            "others are fitted by minimising −log_prob(x).sum()"
        )
    if not x.ndim or not len(x):
        raise ShapeError(f"maximum_likelihood: expected data (N, …) with N ≥ 1, got shape {tuple(x.shape)}")
    return _FITS[family](x)


def _normal(x: Tensor) -> Normal:
    return Normal(x.mean(0), x.std(0, correction=0))


def _laplace(x: Tensor) -> Laplace:
    middle = x.quantile(0.5, 0)
    return Laplace(middle, (x - middle).abs().mean(0))


def _categorical(x: Tensor) -> Categorical:
    return Categorical(probs=weft.bincount(x.long()).to(weft.get_default_dtype()) / len(x))


def _multivariate(x: Tensor) -> MultivariateNormal:
    centred = x - x.mean(0)
    return MultivariateNormal(x.mean(0), centred.mT @ centred / len(x))


def _gumbel(x: Tensor, steps: int = 100) -> Gumbel:
    """The zero in β of mean x − E_w x − β, with weights w ∝ e^(−x/β); its slope is −Var_w x / β² − 1, so it is unique."""
    mean = x.mean(0)
    scale = x.std(0, correction=0) * (6**0.5 / weft.pi)  # by moments: σ = πβ/√6
    if bool((scale == 0).any()):
        raise OptionError("maximum_likelihood: all numbers are equal; the likelihood of a Gumbel has no maximum")
    for _ in range(steps):
        weights = (-x / scale).softmax(0)
        first = (weights * x).sum(0)
        spread = (weights * (x - first).square()).sum(0)
        change = (mean - first - scale) / (spread / scale.square() + 1)
        following = (scale + change).clamp(min=scale / 2)
        done = bool((following - scale).abs().max() <= 4 * weft.finfo(x.dtype).eps * following.max())
        scale = following
        if done:
            break
    location = -scale * ((-x / scale).logsumexp(0) - weft.log(weft.tensor(float(len(x)), dtype=x.dtype)))
    return Gumbel(location, scale)


_FITS: dict[type[Distribution], Callable[[Tensor], Distribution]] = {
    Normal: _normal,
    LogNormal: lambda x: LogNormal(x.log().mean(0), x.log().std(0, correction=0)),
    Laplace: _laplace,
    Exponential: lambda x: Exponential(1 / x.mean(0)),
    Bernoulli: lambda x: Bernoulli(probs=x.mean(0)),
    Geometric: lambda x: Geometric(probs=1 / (1 + x.mean(0))),
    Poisson: lambda x: Poisson(x.mean(0)),
    Uniform: lambda x: Uniform(x.amin(0), x.amax(0)),
    Categorical: _categorical,
    MultivariateNormal: _multivariate,
    Gumbel: _gumbel,
}


def linear_gaussian(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """argmax of Σ log N(yₙ; wᵀxₙ + b, σ²): (w, b, σ²). Least squares is maximum likelihood with Gaussian noise (N0 §1.3).

    −log p = N/2 log 2πσ² + Σ (yₙ − wᵀxₙ − b)² / 2σ²: whatever σ, w and b minimise the squares; σ² is their mean.
    Shape: (N, D), (N,) → (D,), (), ()
    """
    if x.ndim != 2 or tuple(y.shape) != (len(x),) or not len(x):
        raise ShapeError(f"linear_gaussian: expected x (N, D) and y (N,), got {tuple(x.shape)} and {tuple(y.shape)}")
    wide = weft.cat([x, x.new_ones((len(x), 1))], 1)  # (N, D + 1)
    found = weft.linalg.pinv(wide) @ y
    return found[:-1], found[-1], (y - wide @ found).square().mean()


# ---------------------------------------------------------------------------------- the evidence bound


class Evidence(NamedTuple):
    """log p(x) = elbo + divergence, the divergence being KL(q(z|x) ‖ p(z|x)) ≥ 0 (N3)."""

    log_evidence: Tensor
    elbo: Tensor
    divergence: Tensor


def evidence(log_joint: Callable[[Tensor], Tensor], posterior: Distribution) -> Evidence:
    """log p(x), its lower bound, and the gap, exactly, for a z with finitely many values (N3).

    log p(x) = log Σ_z p(x, z);  elbo = Σ_z q(z) (log p(x, z) − log q(z));  the rest is KL(q ‖ p(z|x)).

    log_joint: z (K,) ↦ log p(x, z) (K,)
    posterior: q, with `enumerate_support`

    >>> q = Bernoulli(weft.tensor(0.5))
    >>> found = evidence(lambda z: weft.tensor([0.1, 0.3]).log(), q)
    >>> round(found.log_evidence.exp().item(), 4), bool(found.elbo < found.log_evidence)
    (0.4, True)
    """
    z = posterior.enumerate_support()
    joint, log_q = log_joint(z), posterior.log_prob(z)
    total = joint.logsumexp(0)
    q = log_q.exp()
    parts = weft.where(q > 0, q * (joint - log_q), weft.zeros_like(q))
    inner = weft.where(q > 0, q * (log_q - (joint - total)), weft.zeros_like(q))
    return Evidence(total, parts.sum(0), inner.sum(0))


def elbo(
    log_likelihood: Callable[[Tensor], Tensor], posterior: Distribution, prior: Distribution, samples: int = 1
) -> Tensor:
    """E_q[log p(x|z)] − KL(q(z|x) ‖ p(z)) ≤ log p(x): the bound in the form a VAE is trained by (N3, N0 §8.2).

    The expectation is the mean over samples z = g(φ, x, ε), through which gradients flow; the divergence is exact where
    its closed form is known, else a mean over the same samples.

    log_likelihood: z (S, …) ↦ log p(x|z) (S, …), summed over what belongs to one example
    posterior, prior: q(z|x) and p(z), of the same event shape
    samples: S
    """
    if not posterior.has_rsample:
        raise AutogradError(
            f"elbo: {type(posterior).__name__} has no rsample; use `evidence` for z with finitely many values, or "
            "weft.autograd.score_function_gradient"
        )
    z = posterior.rsample((samples,))
    try:
        divergence = kl_divergence(posterior, prior)
    except NotImplementedError:
        divergence = (posterior.log_prob(z) - prior.log_prob(z)).mean(0)
    return log_likelihood(z).mean(0) - divergence
