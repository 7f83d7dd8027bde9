"""`Transform`, what every map promises, and the ways to build one from others: inverse, chain, joint events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import InvalidValueError, UnsupportedError
from ...refusal import guard_methods
from ...tensor import Tensor
from .. import constraints
from ..utils import sum_rightmost

__all__ = ["ComposeTransform", "IndependentTransform", "Transform", "identity_transform"]


_GUARDED = ("__init__", "__call__", "forward_shape", "inverse_shape", "log_abs_det_jacobian")


class Transform:
    """An invertible map y = f(x) from `domain` to `codomain`, with log|det ∂y/∂x|.

    Subclasses state `_call`, `_inverse` and `log_abs_det_jacobian(x, y)`; the last sums over the event dimensions
    of the domain. `f.inv` is the inverse map.

    cache_size: 1 keeps the last pair, so that inverting a result costs and loses nothing; 0 keeps none

    >>> f = weft.distributions.ExpTransform()
    >>> f.inv(f(weft.tensor(2.0)))
    tensor(2.)
    """

    bijective = False
    domain: constraints.Constraint
    codomain: constraints.Constraint

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        guard_methods(cls, *_GUARDED)

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise InvalidValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached_pair: tuple[Any, Any] = (None, None)

    @property
    def event_dim(self) -> int:
        """The event dimension of domain and codomain, where they agree."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise InvalidValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse map."""
        return _InverseTransform(self)

    @property
    def sign(self) -> Any:
        """The sign of the derivative of a monotone map of numbers: 1 or −1."""
        raise UnsupportedError(f"{type(self).__name__} is not a monotone map of numbers")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same map with another cache size."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise UnsupportedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        """y = f(x)."""
        if self._cache_size == 0:
            return self._call(x)
        if x is not self._cached_pair[0]:
            self._cached_pair = x, self._call(x)
        return self._cached_pair[1]

    def _inv_call(self, y: Tensor) -> Tensor:
        """x = f⁻¹(y)."""
        if self._cache_size == 0:
            return self._inverse(y)
        if y is not self._cached_pair[1]:
            self._cached_pair = self._inverse(y), y
        return self._cached_pair[0]

    def _call(self, x: Tensor) -> Tensor:
        raise UnsupportedError(f"{type(self).__name__} does not state its map")

    def _inverse(self, y: Tensor) -> Tensor:
        raise UnsupportedError(f"{type(self).__name__} does not state its inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log|det ∂y/∂x| at a pair y = f(x): (*, event) → (*)."""
        raise UnsupportedError(f"{type(self).__name__} has no log-determinant")

    def forward_shape(self, shape: Any) -> Any:
        """The shape of y for a shape of x."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of x for a shape of y."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class PlainTransform(Transform):
    """A map without parameters: any two of one class are equal."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


class _InverseTransform(Transform):
    """x = f⁻¹(y) as a map from y to x; shares the cache of f."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._inv = transform

    @property
    def domain(self) -> constraints.Constraint:
        return self._inv.codomain

    @property
    def codomain(self) -> constraints.Constraint:
        return self._inv.domain

    @property
    def bijective(self) -> bool:
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __hash__(self) -> int:
        return hash(("inverse", self._inv))

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"


class ComposeTransform(Transform):
    """f = f_n ∘ … ∘ f₁; log-determinants add.

    parts: [f₁, …, f_n]

    >>> f = weft.distributions.ComposeTransform([weft.distributions.AffineTransform(0.0, 2.0), weft.distributions.ExpTransform()])
    >>> f(weft.tensor(0.5))
    tensor(2.7183)
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    @property
    def domain(self) -> constraints.Constraint:
        if not self.parts:
            return constraints.real
        event_dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event_dim += part.domain.event_dim - part.codomain.event_dim
            event_dim = max(event_dim, part.domain.event_dim)
        return _of_event_dim(self.parts[0].domain, event_dim)

    @property
    def codomain(self) -> constraints.Constraint:
        if not self.parts:
            return constraints.real
        event_dim = self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim += part.codomain.event_dim - part.domain.event_dim
            event_dim = max(event_dim, part.codomain.event_dim)
        return _of_event_dim(self.parts[-1].codomain, event_dim)

    @property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        sign = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Transform:
        return ComposeTransform([part.inv for part in reversed(self.parts)], cache_size=self._cache_size)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return x.new_zeros(x.shape)
        points = [x]
        for part in self.parts[:-1]:
            points.append(part(points[-1]))
        points.append(y)
        event_dim, total = self.domain.event_dim, 0
        for part, start, end in zip(self.parts, points[:-1], points[1:], strict=True):
            total = total + sum_rightmost(part.log_abs_det_jacobian(start, end), event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        inner = ",\n    ".join(repr(part) for part in self.parts)
        return f"{type(self).__name__}(\n    {inner}\n)"


def _of_event_dim(constraint: constraints.Constraint, event_dim: int) -> constraints.Constraint:
    """The constraint with further dimensions made part of the event."""
    more = event_dim - constraint.event_dim
    return constraints.independent(constraint, more) if more > 0 else constraint


class IndependentTransform(Transform):
    """A map whose last batch dimensions count as event: log-determinants are summed over them.

    base_transform: the map
    reinterpreted_batch_ndims: how many of its batch dimensions

    >>> f = weft.distributions.IndependentTransform(weft.distributions.ExpTransform(), 1)
    >>> f.log_abs_det_jacobian(weft.tensor([1.0, 2.0]), None)
    tensor(3.)
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @property
    def domain(self) -> constraints.Constraint:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> constraints.Constraint:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.dim() < self.domain.event_dim:
            raise InvalidValueError(
                f"Too few dimensions on input: expected at least {self.domain.event_dim}, got {x.dim()}"
            )
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.dim() < self.codomain.event_dim:
            raise InvalidValueError(
                f"Too few dimensions on input: expected at least {self.codomain.event_dim}, got {y.dim()}"
            )
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


guard_methods(Transform, *_GUARDED)
identity_transform = ComposeTransform([])
