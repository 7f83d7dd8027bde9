"""What tests of flows share: every bijector in one table, with weights large enough that nothing is hidden."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import weft
from weft.models.flows import (
    IAF,
    MAF,
    ActNorm,
    BatchNorm,
    Bijector,
    Chain,
    CircularSpline,
    InvertibleLinear,
    LULinear,
    Permutation,
    Planar,
    Radial,
    RationalQuadraticSpline,
    RowCoupling,
    Scaling,
    Shift,
    Sylvester,
    Transformed,
)

CONTEXT = 3


def seeded(seed: int = 0) -> weft.Generator:
    return weft.Generator().manual_seed(seed)


def filled(model: Any, scale: float = 0.4, seed: int = 0) -> Any:
    generator = seeded(seed)
    with weft.no_grad():
        for parameter in model.parameters():
            parameter.copy_(scale * weft.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return model


@dataclass
class Case:
    """make(context, dtype) → a bijector of `event_shape`; draw(n, dtype) → x in its domain."""

    make: Callable[..., Bijector]
    event_shape: tuple[int, ...] = (3,)
    contextual: bool = True
    scale: float | None = 0.4  # of the random weights; None: as they start
    prepare: Callable[[Any], Any] = lambda bijector: bijector
    domain: Callable[[Any], Any] = lambda x: x

    def bijector(self, context: int = 0, dtype: Any = weft.float64) -> Bijector:
        with weft.random.fork_rng():
            weft.manual_seed(0)
            options = {"context": context} if context else {}
            found = self.make(dtype=dtype, **options)
        return self.prepare(found if self.scale is None else filled(found, self.scale)).eval()

    def draw(self, n: int, dtype: Any = weft.float64, seed: int = 1) -> Any:
        return self.domain(weft.randn(n, *self.event_shape, dtype=dtype, generator=seeded(seed)))


def _sigmoid(dtype: Any) -> Bijector:
    return Transformed(weft.distributions.SigmoidTransform())


def _seen(norm: Any) -> Any:
    """After training on numbers away from 0 and 1."""
    norm.train().inverse(3 + 2 * weft.randn(50, 3, dtype=weft.float64, generator=seeded(7)))
    return norm


BIJECTORS: dict[str, Case] = {
    "planar": Case(lambda **o: Planar(3, **o)),
    "radial": Case(lambda **o: Radial(3, **o)),
    "iaf": Case(lambda **o: IAF(3, (8, 8), **o)),
    "maf": Case(lambda **o: MAF(3, (8, 8), order="reversed", **o)),
    "chain": Case(lambda **o: Chain(Planar(3, **o), MAF(3, (8,), **o).inv, Radial(3, **o))),
    "transform": Case(_sigmoid, contextual=False),
    "sylvester": Case(lambda **o: Sylvester(4, 3, **o), (4,)),
    "sylvester-full": Case(lambda **o: Sylvester(2, **o), (2,)),
    "additive-coupling": Case(lambda **o: RowCoupling(5, (8,), Shift(), pattern="alternate", **o), (5,)),
    "affine-coupling": Case(lambda **o: RowCoupling(5, (8,), swap=True, **o), (5,)),
    "spline-coupling": Case(lambda **o: RowCoupling(3, (8,), RationalQuadraticSpline(5, 2.0), **o)),
    "spline-autoregressive": Case(lambda **o: MAF(3, (8,), RationalQuadraticSpline(4, 2.0), **o)),
    "circular-spline": Case(
        lambda **o: MAF(3, (8,), CircularSpline(4), angles=True, **o), domain=lambda x: 3.1 * weft.tanh(x)
    ),
    "scaling": Case(lambda **o: Scaling(3, **o), contextual=False),
    "actnorm": Case(lambda **o: ActNorm(2, **o), (2, 3, 2), contextual=False),
    "batchnorm": Case(lambda **o: BatchNorm(3, **o), contextual=False, prepare=_seen),
    "permutation": Case(lambda dtype: Permutation(4, "random"), (4,), contextual=False),
    "linear": Case(lambda **o: InvertibleLinear(3, **o), (3, 2, 2), contextual=False, scale=0.8),
    "lu-linear": Case(lambda **o: LULinear(3, **o), (3, 2, 2), contextual=False, scale=0.8),
}
