"""Maps put side by side (cat, stack) and maps that only rearrange (reshape)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft

from ...errors import InvalidValueError
from ...sizes import Size
from ...tensor import Tensor
from .. import constraints
from ..utils import sum_rightmost
from .base import Transform

__all__ = ["CatTransform", "ReshapeTransform", "StackTransform"]


class ReshapeTransform(Transform):
    """An event in another shape; volume is kept.

    in_shape, out_shape: the shapes of the event before and after

    >>> weft.distributions.ReshapeTransform((4,), (2, 2))(weft.zeros(3, 4)).shape
    weft.Size([3, 2, 2])
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise InvalidValueError(
                f"in_shape, out_shape have different numbers of elements: {self.in_shape} and {self.out_shape}"
            )
        super().__init__(cache_size)

    @property
    def domain(self) -> constraints.Constraint:
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> constraints.Constraint:
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        batch = x.shape[: x.dim() - len(self.in_shape)]
        return x.reshape(batch + self.out_shape)  # (*, in) → (*, out)

    def _inverse(self, y: Tensor) -> Tensor:
        batch = y.shape[: y.dim() - len(self.out_shape)]
        return y.reshape(batch + self.in_shape)  # (*, out) → (*, in)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        return _replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return _replaced(shape, self.out_shape, self.in_shape)


def _replaced(shape: Any, old: Size, new: Size) -> Any:
    """(*, old) → (*, new)."""
    if len(shape) < len(old):
        raise InvalidValueError(f"Too few dimensions on input: expected at least {len(old)}, got {tuple(shape)}")
    cut = len(shape) - len(old)
    if tuple(shape[cut:]) != tuple(old):
        raise InvalidValueError(f"Shape mismatch: expected {tuple(shape[cut:])} but got {old}")
    return shape[:cut] + new


class _Joined(Transform):
    """Several maps, each on its part of a tensor.

    tseq: the maps
    dim: the dimension along which the parts lie
    """

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise InvalidValueError(f"{type(self).__name__}: expected a sequence of Transforms, got {tseq}")
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    def _check_dim(self, x: Tensor) -> None:
        if not -x.dim() <= self.dim < x.dim():
            raise InvalidValueError(
                f"{type(self).__name__}: dim {self.dim} is not a dimension of a tensor of shape {x.shape}"
            )


class CatTransform(_Joined):
    """Maps of consecutive pieces of a tensor.

    lengths: the length of each piece; None: 1 each

    >>> parts = [weft.distributions.ExpTransform(), weft.distributions.AffineTransform(0.0, 2.0)]
    >>> weft.distributions.CatTransform(parts, lengths=[1, 2])(weft.tensor([0.0, 1.0, 2.0]))
    tensor([1., 2., 4.])
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise InvalidValueError(f"CatTransform: {len(self.transforms)} transforms but {len(self.lengths)} lengths")

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The size along `dim`."""
        return sum(self.lengths)

    @property
    def domain(self) -> constraints.Constraint:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> constraints.Constraint:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _pieces(self, x: Tensor) -> tuple[Tensor, ...]:
        self._check_dim(x)
        if x.shape[self.dim] != self.length:
            raise InvalidValueError(
                f"CatTransform: expected size {self.length} along dim {self.dim}, got shape {x.shape}"
            )
        return x.split(self.lengths, self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return weft.cat([t(piece) for t, piece in zip(self.transforms, self._pieces(x), strict=True)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return weft.cat([t.inv(piece) for t, piece in zip(self.transforms, self._pieces(y), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        parts = []
        for transform, start, end in zip(self.transforms, self._pieces(x), self._pieces(y), strict=True):
            slope = transform.log_abs_det_jacobian(start, end)
            parts.append(sum_rightmost(slope, self.event_dim - transform.event_dim))
        dim = (self.dim if self.dim < 0 else self.dim - x.dim()) + self.event_dim
        return weft.cat(parts, dim) if dim < 0 else sum(parts)


class StackTransform(_Joined):
    """One map for each slice of a tensor.

    >>> parts = [weft.distributions.ExpTransform(), weft.distributions.AffineTransform(0.0, 2.0)]
    >>> weft.distributions.StackTransform(parts)(weft.tensor([0.0, 1.0]))
    tensor([1., 2.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    @property
    def domain(self) -> constraints.Constraint:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> constraints.Constraint:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _slices(self, x: Tensor) -> tuple[Tensor, ...]:
        self._check_dim(x)
        if x.shape[self.dim] != len(self.transforms):
            raise InvalidValueError(
                f"StackTransform: {len(self.transforms)} transforms, got shape {x.shape}, dim {self.dim}"
            )
        return x.unbind(self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return weft.stack([t(part) for t, part in zip(self.transforms, self._slices(x), strict=True)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return weft.stack([t.inv(part) for t, part in zip(self.transforms, self._slices(y), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        triples = zip(self.transforms, self._slices(x), self._slices(y), strict=True)
        return weft.stack([t.log_abs_det_jacobian(start, end) for t, start, end in triples], self.dim)
