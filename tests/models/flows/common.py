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
    Continuous,
    IntegralTransform,
    InvertibleLinear,
    LULinear,
    MultiScale,
    Permutation,
    Planar,
    Radial,
    RationalQuadraticSpline,
    Residual,
    RowCoupling,
    Scaling,
    SequenceBijector,
    Shift,
    Squash,
    Squeeze,
    Sylvester,
    Transformed,
    VectorField,
    normal_conditionals,
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
    tolerance: float = 1e-9  # of inverse and log-determinant in double precision
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


def _iterated(block: Any) -> Any:
    for layer in block.layers:
        layer.iterate(200)
    return block


def _glow(shape: Any, scales: int, lu: bool, dtype: Any) -> Bijector:
    return MultiScale(shape, scales, 1, 4, lu, 2.0, None, dtype)


def _shaken(model: Any) -> Any:
    """Away from where it starts, but not far: matrices stay well-conditioned."""
    generator = seeded(3)
    with weft.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.15 * weft.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return model


def _continuous(features: int, context: int = 0, dtype: Any = None) -> Bijector:
    field = VectorField(features, (6,), context, dtype)
    return Continuous(field, method="rk4", options={"num_steps": 4})


def _sequence(context: int = 0, dtype: Any = None) -> Bijector:
    return SequenceBijector(MAF(2, (6,), context=4 + context, dtype=dtype), 2, 4, context=context, dtype=dtype)


def _integral(dtype: Any) -> Bijector:
    mean = weft.tensor([0.1, -0.2, 0.3], dtype=dtype)
    covariance = weft.tensor([[1.0, 0.5, 0.2], [0.5, 2.0, -0.3], [0.2, -0.3, 1.5]], dtype=dtype)
    return IntegralTransform(lambda x: normal_conditionals(mean.to(x.dtype), covariance.to(x.dtype))(x))


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
    "squeeze": Case(lambda dtype: Squeeze(), (2, 4, 2), contextual=False),
    "glow": Case(lambda **o: _glow((1, 4, 4), 2, True, **o), (1, 4, 4), contextual=False, scale=None, prepare=_shaken),
    "glow-plain": Case(
        lambda **o: _glow((2, 2, 2), 1, False, **o), (2, 2, 2), contextual=False, scale=None, prepare=_shaken
    ),
    "residual": Case(lambda **o: Residual(3, (8, 8), **o), scale=0.6, prepare=_iterated),
    "residual-plane": Case(lambda **o: Residual(2, (8,), **o), (2,), scale=0.6, prepare=_iterated),
    "continuous": Case(lambda **o: _continuous(2, **o), (2,), tolerance=2e-6),
    "sequence": Case(_sequence, (3, 2)),
    "integral-transform": Case(_integral, contextual=False),
    "squash": Case(lambda dtype: Squash(4.0, 0.01), contextual=False),
    "lu-linear": Case(lambda **o: LULinear(3, **o), (3, 2, 2), contextual=False, scale=0.8),
}
