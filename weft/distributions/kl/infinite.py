"""Pairs whose divergence is always infinite: p puts mass where q has none."""

from __future__ import annotations

import math

import weft

from ...tensor import Tensor
from ..bernoulli import Bernoulli
from ..beta import Beta
from ..binomial import Binomial
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
from .registry import register_kl

BOUNDED, HALF_LINE = (Beta, ContinuousBernoulli, Uniform), (Exponential, Gamma)
INFINITE: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (*BOUNDED, Pareto),
    Gamma: (*BOUNDED, Pareto),
    Gumbel: (*BOUNDED, *HALF_LINE, Pareto),
    Laplace: (*BOUNDED, *HALF_LINE, Pareto),
    Normal: (*BOUNDED, *HALF_LINE, Pareto),
    Pareto: BOUNDED,
    Poisson: (Bernoulli, Binomial),
}


def _infinite(p: Distribution, q: Distribution) -> Tensor:
    shape = weft.broadcast_shapes(p.batch_shape, q.batch_shape)
    return weft.full(shape, math.inf, dtype=p.mean.dtype)


for _type_p, _types_q in INFINITE.items():
    for _type_q in _types_q:
        register_kl(_type_p, _type_q)(_infinite)
