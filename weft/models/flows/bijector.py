"""What a bijector is: an invertible map of rows, in both directions with the logarithm of its change of volume.

Both directions are written with the sign of their own Jacobian, so that a chain of maps adds what its parts return.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import weft

from ... import nn
from ...distributions import Transform
from ...errors import ArgumentError, ShapeError
from ...tensor import Tensor

__all__ = ["Bijector", "Chain", "Inverted", "Transformed", "as_bijector"]

Pair = tuple[Tensor, Tensor]


class Bijector(nn.Module):
    """y = f(x; c): (B, *event) → (B, *event'), with log|det ∂y/∂x| of shape (B,).

    forward(x, context) → (y, log|det J|)        inverse(y, context) → (x, log|det J⁻¹|)

    In a `Flow` forward goes from noise to data. context: (B, *) or None, what the map may depend on besides
    """

    exact = True  # whether log|det J| is exact, and not an unbiased estimate

    @abstractmethod
    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        """y = f(x) and log|det ∂y/∂x|"""

    @abstractmethod
    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        """x = f⁻¹(y) and log|det ∂x/∂y|"""

    @property
    def inv(self) -> Bijector:
        """f⁻¹ with the same parameters."""
        return Inverted(self)


class Inverted(Bijector):
    """f⁻¹: the two directions of f exchanged."""

    def __init__(self, bijector: Bijector) -> None:
        super().__init__()
        self.bijector = bijector

    @property
    def exact(self) -> bool:
        return self.bijector.exact

    @property
    def inv(self) -> Bijector:
        return self.bijector

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        return self.bijector.inverse(x, context)

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        return self.bijector.forward(y, context)


class Chain(Bijector):
    """f = f_K ∘ … ∘ f₁: log-determinants add.

    >>> from weft.models.flows import Planar
    >>> y, volume = Chain(Planar(2), Planar(2))(weft.zeros(3, 2))
    >>> y.shape, volume.shape
    (weft.Size([3, 2]), weft.Size([3]))
    """

    def __init__(self, *bijectors: Bijector) -> None:
        super().__init__()
        self.parts = nn.ModuleList(bijectors)

    @property
    def exact(self) -> bool:
        return all(part.exact for part in self.parts)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        total = weft.zeros(len(x), dtype=x.dtype)
        for part in self.parts:
            x, volume = part(x, context)
            total = total + volume
        return x, total

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        total = weft.zeros(len(y), dtype=y.dtype)
        for part in reversed(self.parts):
            y, volume = part.inverse(y, context)
            total = total + volume
        return y, total


class Transformed(Bijector):
    """A map of `weft.distributions.transforms` as a bijector of rows; log-determinants are summed over the event.

    >>> from weft.distributions import ExpTransform
    >>> Transformed(ExpTransform())(weft.ones(1, 3))[1]
    tensor([3.])
    """

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        if not transform.bijective:
            raise ArgumentError(f"Transformed: {transform!r} has no inverse, so it is no part of a flow")
        self.transform = transform

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        y = self.transform(x)
        return y, _summed(self.transform.log_abs_det_jacobian(x, y), len(x))

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        x = self.transform.inv(y)
        return x, -_summed(self.transform.log_abs_det_jacobian(x, y), len(y))

    def extra_repr(self) -> str:
        return repr(self.transform)


def as_bijector(maps: Bijector | Sequence[Bijector]) -> Bijector:
    """One map, or several as a chain, the first next to the noise."""
    return maps if isinstance(maps, Bijector) else Chain(*maps)


def _summed(volume: Tensor, rows: int) -> Tensor:
    """(B, …) → (B,)"""
    if volume.ndim == 0 or len(volume) != rows:
        raise ShapeError(f"Transformed: the map's log-determinants have shape {tuple(volume.shape)}, not one a row")
    return volume.reshape(rows, -1).sum(1) if rows else volume.reshape(0)
