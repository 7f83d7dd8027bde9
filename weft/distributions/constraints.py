"""Where parameters and draws may lie: each constraint checks a value, element by element or event by event.

`constraint.check(value)` returns a bool tensor with the event dimensions reduced. Ready-made instances (`real`,
`positive`, `simplex` …) and classes under PyTorch's lower-case names (`greater_than`, `interval` …) stand at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft

from ..errors import InvalidValueError, UnsupportedError
from ..tape.interpreter import interpreter_of
from ..tensor import Tensor

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A region of values. `event_dim`: how many dimensions on the right are one value together."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether each event of `value` lies in the region: (*, event) → (*), bool."""
        raise UnsupportedError(f"{type(self).__name__} does not state check")

    def __repr__(self) -> str:
        return type(self).__name__.removeprefix("_") + "()"


def fails(check: Tensor) -> bool:
    """Whether some element does not satisfy a check; a transform that does not know the values lets them pass."""
    return interpreter_of(check) is None and not bool(check.all())


def _bound(value: Any) -> Any:
    """A bound as it is printed: a number where a tensor holds just one."""
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


# ------------------------------------------------------------------------ that depend on other values


class _Dependent(Constraint):
    """The region depends on parameters, so it is known only for an instance of the distribution."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> bool:
        if self._is_discrete is NotImplemented:
            raise UnsupportedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> int:
        if self._event_dim is NotImplemented:
            raise UnsupportedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise InvalidValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property that returns a constraint: `@constraints.dependent_property(event_dim=1)`."""

    def __init__(
        self, fn: Callable | None = None, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> None:
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable) -> _DependentProperty:
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint depends on parameters."""
    return isinstance(constraint, _Dependent)


# ----------------------------------------------------------------------------------- composed ones


class _IndependentConstraint(Constraint):
    """The last dimensions of a simpler constraint taken together as one event."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        valid = self.base_constraint.check(value)
        count = self.reinterpreted_batch_ndims
        if valid.ndim < count:
            raise InvalidValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return valid.all(dim=tuple(range(-count, 0))) if count else valid

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture: values that lie in the support of the components."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        event = self.event_dim
        if value.ndim < event:
            raise InvalidValueError(f"Expected value.dim() >= {event} but got {value.dim()}")
        widened = value.unsqueeze(-1 - event)  # (*, event) → (*, 1, event)
        return self.base_constraint.check(widened).all(dim=-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Cat(Constraint):
    """Pieces of lengths `lengths` along `dim`, each with its own constraint."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    @property
    def is_discrete(self) -> bool:
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        pieces = value.split(self.lengths, self.dim)
        return weft.cat([c.check(v) for c, v in zip(self.cseq, pieces, strict=True)], self.dim)


class _Stack(Constraint):
    """Slices along `dim`, each with its own constraint."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self) -> bool:
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        slices = value.unbind(self.dim)
        return weft.stack([c.check(v) for c, v in zip(self.cseq, slices, strict=True)], self.dim)


# ----------------------------------------------------------------------------------- single numbers


class _Real(Constraint):
    """Numbers, also infinite ones; not NaN."""

    def check(self, value: Tensor) -> Tensor:
        return value == value


class _Boolean(Constraint):
    """0 or 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _LowerBounded(Constraint):
    """Regions with a lower bound."""

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}(lower_bound={_bound(self.lower_bound)})"


class _GreaterThan(_LowerBounded):
    """x > lower bound."""

    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class _GreaterThanEq(_LowerBounded):
    """x ≥ lower bound."""

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class _IntegerGreaterThan(_LowerBounded):
    """Integers ≥ lower bound."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _UpperBounded(Constraint):
    """Regions with an upper bound."""

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}(upper_bound={_bound(self.upper_bound)})"


class _LessThan(_UpperBounded):
    """x < upper bound."""

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _IntegerLessThan(_UpperBounded):
    """Integers ≤ upper bound."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value <= self.upper_bound)


class _Bounded(Constraint):
    """Regions between two bounds."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def __repr__(self) -> str:
        bounds = f"lower_bound={_bound(self.lower_bound)}, upper_bound={_bound(self.upper_bound)}"
        return f"{type(self).__name__[1:]}({bounds})"


class _Interval(_Bounded):
    """lower ≤ x ≤ upper."""

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Bounded):
    """lower ≤ x < upper."""

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerInterval(_Bounded):
    """Integers from lower to upper, both included."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


# ------------------------------------------------------------------------------- vectors and matrices


class _OneHot(Constraint):
    """Vectors of zeros with a single one."""

    is_discrete, event_dim = True, 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    """Vectors of non-negative numbers whose sum is 1 (to 1e-6)."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(dim=-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of counts whose sum is the upper bound."""

    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(dim=-1) & (value.sum(dim=-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    """Square matrices that are zero above the diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)  # (*, D, D) → (*)


class _LowerCholesky(Constraint):
    """Lower triangular matrices with a positive diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        triangular = (value.tril() == value).flatten(-2).all(-1)
        return triangular & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    """Cholesky factors of correlation matrices: lower Cholesky with rows of length 1."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        tolerance = weft.finfo(value.dtype).eps * value.shape[-1] * 10
        lengths = value.square().sum(-1).sqrt()
        return lower_cholesky.check(value) & ((lengths - 1).abs() <= tolerance).all(dim=-1)


class _Square(Constraint):
    """Square matrices."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        fits = value.shape[-2] == value.shape[-1]
        return weft.full(value.shape[:-2], fits, dtype=weft.bool)


class _Symmetric(_Square):
    """Symmetric matrices (to 1e-6)."""

    def check(self, value: Tensor) -> Tensor:
        square_check = super().check(value)
        if fails(square_check):
            return square_check
        return weft.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        symmetric_check = super().check(value)
        if fails(symmetric_check):
            return symmetric_check
        return weft.linalg.eigvalsh(value).ge(0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices with positive eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        symmetric_check = super().check(value)
        if fails(symmetric_check):
            return symmetric_check
        return weft.linalg.cholesky_ex(value).info == 0


dependent, dependent_property = _Dependent(), _DependentProperty
independent, cat, stack = _IndependentConstraint, _Cat, _Stack
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval
multinomial = _Multinomial

real, boolean = _Real(), _Boolean()
real_vector = independent(real, 1)
positive, nonnegative = _GreaterThan(0.0), _GreaterThanEq(0.0)
positive_integer, nonnegative_integer = _IntegerGreaterThan(1), _IntegerGreaterThan(0)
unit_interval = _Interval(0.0, 1.0)
one_hot, simplex = _OneHot(), _Simplex()
lower_triangular, lower_cholesky, corr_cholesky = _LowerTriangular(), _LowerCholesky(), _CorrCholesky()
square, symmetric = _Square(), _Symmetric()
positive_semidefinite, positive_definite = _PositiveSemidefinite(), _PositiveDefinite()
