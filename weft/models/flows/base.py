"""`Flow`: noise through invertible maps, x = f(z), with the density that follows (Rezende and Mohamed 2015).

    log p(x) = log p(z) + log|det ∂f⁻¹/∂x|,   z = f⁻¹(x)

`flow(c)` is a `weft.distributions.Distribution`; `log_prob` and `sample` of the protocol are the same density without
that object around it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import weft

from ...distributions import Distribution, constraints
from ...errors import ArgumentError, DtypeError, ShapeError
from ...sizes import Size
from ...tensor import Tensor
from ..generative.plans import in_one_plan
from ..generative.protocol import GenerativeModel, exact
from .bijector import Bijector, as_bijector
from .noise import GaussianNoise, Noise

__all__ = ["Flow", "FlowDistribution"]

Shape = int | tuple[int, ...]
_VALUES = ("log_prob", "energy", "score")  # what an estimated log-determinant makes an estimate


class Flow(GenerativeModel):
    """x = f(z; c), z ~ noise.

    maps: a `Bijector`, or several, the first next to the noise
    noise: a `Noise`, or a shape of standard normal noise
    event_shape: that of x, where it is not that of the noise
    context: size or shape of one context c, for flows that have one; None: they model x alone

    >>> from weft.models.flows import Planar
    >>> flow = Flow([Planar(2) for _ in range(4)], 2)
    >>> flow.log_prob(weft.zeros(3, 2)).shape, flow().rsample((5,)).shape
    (weft.Size([3]), weft.Size([5, 2]))
    """

    continuous = True

    def __init__(
        self,
        maps: Bijector | Sequence[Bijector],
        noise: Noise | Shape,
        event_shape: Shape | None = None,
        context: Shape | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.bijector = as_bijector(maps)
        self.noise = noise if isinstance(noise, Noise) else GaussianNoise(noise, dtype=dtype)
        self.event_shape = self.noise.event_shape if event_shape is None else _shape(event_shape)
        self.context_shape = None if not context else _shape(context)

    def _quality(self, name: str) -> str | None:
        found = super()._quality(name)
        return "estimate" if found and name in _VALUES and not self.bijector.exact else found

    def forward(self, context: Tensor | None = None) -> FlowDistribution:
        """p(x | c) as a distribution: its batch shape is () without a context, (B,) with one of shape (B, *)."""
        return FlowDistribution(self, context)

    # ------------------------------------------------------------------------------------- the protocol
    @exact
    def log_prob(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """log p(z) + log|det ∂z/∂x|: (B, *event) → (B,)"""
        self._check(x)
        condition = self._given(len(x), condition)
        z, volume = self.bijector.inverse(x, condition)
        return self.noise.log_prob(z, condition) + volume

    @exact(where=lambda model: model.context_shape is None)
    def energy(self, x: Tensor) -> Tensor:
        """−log p(x), with Z = 1: (B, *event) → (B,)"""
        return -self.log_prob(x)

    @exact
    @in_one_plan
    @weft.no_grad()
    def sample(self, n: int, condition: Tensor | None = None, generator: Any = None) -> Tensor:
        """n draws as one native plan; one condition stands for all: (n, *event)"""
        condition = self._given(n, condition)
        return self.bijector(self.noise.draw(n, condition, generator), condition)[0]

    @exact
    def encode(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """z = f⁻¹(x): (B, *event) → (B, *noise)"""
        self._check(x)
        return self.bijector.inverse(x, self._given(len(x), condition))[0]

    @exact
    def decode(self, z: Tensor, condition: Tensor | None = None) -> Tensor:
        """x = f(z): (B, *noise) → (B, *event)"""
        return self.bijector(z, self._given(len(z), condition))[0]

    def rsample_and_log_prob(
        self, n: int, condition: Tensor | None = None, generator: Any = None
    ) -> tuple[Tensor, Tensor]:
        """n draws with gradients and log p of each, in one pass without inverses: (n, *event), (n,)"""
        condition = self._given(n, condition)
        z = self.noise.draw(n, condition, generator)
        x, volume = self.bijector(z, condition)
        return x, self.noise.log_prob(z, condition) - volume

    # ------------------------------------------------------------------------------------- what is minimised
    def forward_kld(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        """KL(data ‖ p) but for the entropy of the data: −mean log p(x)."""
        return -self.log_prob(x, condition).mean()

    def reverse_kld(
        self,
        log_prob: Callable[[Tensor], Tensor],
        n: int,
        condition: Tensor | None = None,
        generator: Any = None,
    ) -> Tensor:
        """KL(p ‖ target) by n draws, up to the target's unknown log Z: mean of log p(x) − log_prob(x)."""
        x, own = self.rsample_and_log_prob(n, condition, generator)
        return (own - log_prob(x)).mean()

    # ------------------------------------------------------------------------------------- checks
    def _check(self, x: Tensor) -> None:
        if tuple(x.shape[1:]) != self.event_shape or not x.ndim:
            sizes = ", ".join(("B", *map(str, self.event_shape)))
            raise ShapeError(f"{type(self).__name__}: expected x of shape ({sizes}), got {tuple(x.shape)}")
        if not x.is_floating_point():
            raise DtypeError(f"{type(self).__name__}: densities are of real numbers, got {x.dtype}; write x.float()")

    def _given(self, n: int, condition: Tensor | None) -> Tensor | None:
        """The context as (n, *context); one of them stands for all."""
        if self.context_shape is None:
            self._unconditional(condition)
            return None
        if condition is None:
            raise ArgumentError(f"{type(self).__name__}: this flow needs a context of shape (B, {self.context_shape})")
        if tuple(condition.shape) == self.context_shape:
            condition = condition.expand(n, *self.context_shape)
        if tuple(condition.shape) != (n, *self.context_shape):
            raise ShapeError(
                f"{type(self).__name__}: expected {n} contexts of shape {self.context_shape}, got {tuple(condition.shape)}"
            )
        return condition

    def extra_repr(self) -> str:
        given = "" if self.context_shape is None else f", context={self.context_shape}"
        return f"event_shape={self.event_shape}{given}"


class FlowDistribution(Distribution):
    """p(x | c) of a flow, for every c of a batch: log_prob, sample, rsample, and draws together with their density.

    >>> from weft.models.flows import Planar
    >>> q = Flow(Planar(2), 2)()
    >>> x, log_prob = q.rsample_and_log_prob((4,))
    >>> bool((q.log_prob(x) - log_prob).abs().max() < 1e-4)
    True
    """

    arg_constraints: ClassVar = {}
    has_rsample = True

    def __init__(self, flow: Flow, context: Tensor | None = None, validate_args: bool | None = None) -> None:
        self.flow, self.context = flow, context
        if context is not None:
            flow._given(len(context), context)
        elif flow.context_shape is not None:
            flow._given(0, None)
        batch = () if context is None else (len(context),)
        super().__init__(batch, flow.event_shape, validate_args)

    @property
    def support(self) -> constraints.Constraint:
        return constraints.independent(constraints.real, len(self._event_shape))

    def expand(self, batch_shape: Any, _instance: Any = None) -> FlowDistribution:
        shape = tuple(batch_shape)
        if len(shape) > 1 or (self.context is None and shape):
            raise ShapeError(f"FlowDistribution.expand: a flow has the batch shape of its contexts, not {shape}")
        return (
            self
            if self.context is None
            else FlowDistribution(self.flow, self.context.expand(*shape, *self.context.shape[1:]))
        )

    def log_prob(self, value: Tensor) -> Tensor:
        lead = value.shape[: value.ndim - len(self._event_shape)]
        if self.context is not None:
            lead = weft.broadcast_shapes(tuple(lead), tuple(self._batch_shape))
            value = value.expand(*lead, *self._event_shape)
        rows = value.reshape(math.prod(lead), *self._event_shape)
        return self.flow.log_prob(rows, self._contexts(lead)).reshape(*lead)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.rsample_and_log_prob(sample_shape)[0]

    def rsample_and_log_prob(self, sample_shape: Any = ()) -> tuple[Tensor, Tensor]:
        """Draws with gradients and their log-densities, which the way from noise to x gives for nothing."""
        lead = Size(sample_shape) + self._batch_shape
        x, value = self.flow.rsample_and_log_prob(math.prod(lead), self._contexts(lead))
        return x.reshape(*lead, *self._event_shape), value.reshape(*lead)

    def _contexts(self, lead: Any) -> Tensor | None:
        """One for each row: (B, *) → (rows, *)"""
        if self.context is None:
            return None
        each = self.context.shape[1:]
        return self.context.expand(*lead, *each).reshape(math.prod(lead), *each)

    def __repr__(self) -> str:
        return f"FlowDistribution(event_shape: {tuple(self._event_shape)}, batch_shape: {tuple(self._batch_shape)})"


def _shape(sizes: Shape) -> tuple[int, ...]:
    return (sizes,) if isinstance(sizes, int) else tuple(sizes)
