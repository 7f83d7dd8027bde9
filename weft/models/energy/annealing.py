"""Annealed importance sampling: partition functions estimated from below, and in reverse from above (Neal 2001).

A chain walks from a machine whose Z is known to the one asked for, and keeps the ratio of weights at every step. The
mean of exp(log weight) is Z_B / Z_A without bias, so its logarithm is too small on average: log Z from below.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import weft

from ...errors import OptionError
from ...tensor import Tensor

if TYPE_CHECKING:
    from .rbm import RBM

__all__ = ["LogPartition", "ais", "base_rates", "dense_near_one", "reverse_ais"]


class LogPartition(NamedTuple):
    """log Z from one side: `value` ± `error` (a standard error), and the log weights of all chains."""

    value: Tensor
    side: str
    error: Tensor
    log_weights: Tensor


@weft.no_grad()
def ais(
    rbm: RBM, chains: int = 100, temperatures: int | Tensor = 1000, *, base: Tensor | None = None, generator: Any = None
) -> LogPartition:
    """log Z of an RBM from below (Salakhutdinov and Murray 2008). One native plan under `weft.compile`.

    log w = log Z_A + Σₖ F(v; βₖ) − F(v; βₖ₊₁), then v moves at βₖ₊₁; log Z ≈ log mean w.

    temperatures: even steps between β = 0 and 1, or all βₖ themselves (`dense_near_one`); base: the visible bias at β = 0, best that of the data's means (`base_rates`);
    by default the machine's own
    """
    base, beta = _path(rbm, temperatures, base)
    v = rbm.draw_visible(weft.zeros(chains, len(base), dtype=base.dtype), base, generator)
    log_weight = _walked(rbm, v, beta, base, generator)
    mean, error = _log_mean(log_weight)
    return LogPartition(_log_base(rbm, base) + mean, "lower", error, log_weight)


@weft.no_grad()
def reverse_ais(
    rbm: RBM, start: Tensor, temperatures: int | Tensor = 1000, *, base: Tensor | None = None, generator: Any = None
) -> LogPartition:
    """log Z from above: the walk of `ais` backwards, from samples of the machine, estimates Z_A / Z_B without bias.

    start: samples (N, *event) of the machine itself. Exact ones (`rbm.exact_sample`) make it a bound; the ends of Gibbs
    chains do as far as these have converged.
    """
    base, beta = _path(rbm, temperatures, base)
    log_weight = _walked(rbm, start, beta.flip(0), base, generator)
    mean, error = _log_mean(log_weight)
    return LogPartition(_log_base(rbm, base) - mean, "upper", error, log_weight)


def base_rates(v: Tensor, smoothing: float = 0.05) -> Tensor:
    """The bias of independent bits with the means of the data, which are kept away from 0 and 1: (N, D) → (D,).

    The best start of the path for a `BernoulliRBM`.
    """
    mean = (v.mean(0) + smoothing) / (1 + 2 * smoothing)
    return weft.logit(mean)


def dense_near_one(steps: int, dtype: Any = None) -> Tensor:
    """β from 0 to 1 with a tenth of the steps below 0.5, three tenths up to 0.9 and the rest above: (steps + 1,).

    Coupled machines change most at the end of the path (the spacing of Salakhutdinov and Murray 2008).
    """
    first, middle = steps // 10, 3 * steps // 10
    sizes = ((0.0, 0.5, first), (0.5, 0.9, middle), (0.9, 1.0, steps - first - middle))
    parts = [weft.linspace(low, high, count + 1, dtype=dtype)[:-1] for low, high, count in sizes]
    return weft.cat([*parts, weft.ones(1, dtype=dtype)])


def _path(rbm: RBM, temperatures: int | Tensor, base: Tensor | None) -> tuple[Tensor, Tensor]:
    bias = (rbm.visible_bias if base is None else base).detach()
    if isinstance(temperatures, Tensor):
        return bias, temperatures
    if temperatures < 1:
        raise OptionError(f"annealing: expected at least one step between β = 0 and 1, got {temperatures}")
    return bias, weft.linspace(0, 1, temperatures + 1, dtype=rbm.weight.dtype)


def _walked(rbm: RBM, v: Tensor, beta: Tensor, base: Tensor, generator: Any) -> Tensor:
    """Log weights of chains that start at v and move along the path, one step at each β but the first: (N,)."""

    def step(state: tuple[Tensor, Tensor], betas: tuple[Tensor, Tensor]) -> tuple[tuple[Tensor, Tensor], None]:
        (v, log_weight), (now, next) = state, betas
        log_weight = log_weight + rbm.free_energy(v, now, base) - rbm.free_energy(v, next, base)
        return (rbm.gibbs_step(v, generator, next, base), log_weight), None

    begun = (v, weft.zeros(len(v), dtype=base.dtype))
    return weft.scan(step, begun, (beta[:-1], beta[1:]))[0][1]


def _log_base(rbm: RBM, base: Tensor) -> Tensor:
    """log Z at β = 0, where all is independent and every hidden unit a fair coin."""
    return rbm.hidden * math.log(2) + rbm.log_visible_sum(weft.zeros_like(base), base)


def _log_mean(log_weight: Tensor) -> tuple[Tensor, Tensor]:
    """log mean w, and its standard error to first order: that of the mean, divided by the mean."""
    count = len(log_weight)
    mean = log_weight.logsumexp(0) - math.log(count)
    relative = (log_weight - mean).exp()
    return mean, relative.std() / math.sqrt(count)
