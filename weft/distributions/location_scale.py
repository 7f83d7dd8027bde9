"""Symmetric families of numbers X = loc + scale · Z, where Z has no parameters."""

from __future__ import annotations

from typing import Any, ClassVar

from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_parameters

__all__ = ["LocationScale"]


class LocationScale(Distribution):
    """What families of a location and a scale share: their parameters, and the location as the mode.

    loc, scale: where the density is greatest, and how wide it is
    """

    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        shape, (self.loc, self.scale) = broadcast_parameters(loc, scale)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def _standard(self, value: Tensor) -> Tensor:
        """z = (x − loc) / scale."""
        return (value - self.loc) / self.scale
