"""`Distribution`, what every distribution promises: shapes, draws, densities, moments and checked arguments."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from ..autograd import no_grad
from ..errors import InvalidValueError, UnsupportedError
from ..refusal import guard_methods
from ..sizes import Size
from ..tensor import Tensor
from . import constraints
from .utils import lazy_property

__all__ = ["Distribution"]


_GUARDED = ("__init__", "sample", "rsample", "log_prob", "cdf", "icdf", "entropy", "expand")


class Distribution:
    """A probability distribution over tensors of shape `event_shape`, in a batch of shape `batch_shape`.

    Draws have shape sample_shape + batch_shape + event_shape, `log_prob` of them sample_shape + batch_shape.
    A subclass states `arg_constraints` (its parameters and where they may lie), `support`, and as many of
    `rsample` / `sample`, `log_prob`, `cdf`, `icdf`, `entropy`, `mean`, `mode`, `variance` as have a formula.
    Parameters are numbers and tensors that broadcast.

    batch_shape, event_shape: the shapes that its parameters gave
    validate_args: whether parameters and values are checked; None: as `set_default_validate_args` says

    >>> weft.distributions.Normal(weft.zeros(3), 1.0).sample((5,)).shape
    weft.Size([5, 3])
    """

    has_rsample = False  # whether draws carry gradients of the parameters
    has_enumerate_support = False
    _lattice: tuple[float, float] | None = None  # the first value and the step of a discrete distribution of numbers
    _validate_args = __debug__
    _look_first: ClassVar[tuple[str, ...]] = ("log_prob", "cdf")  # Weft's own methods that get only values that fit

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check their arguments unless they are told otherwise."""
        if value not in (True, False):
            raise InvalidValueError(f"set_default_validate_args: expected True or False, got {value!r}")
        Distribution._validate_args = value

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if (
            cls.__module__.partition(".")[0] == "weft"
        ):  # users' classes call `_validate_sample` themselves, as in PyTorch
            for name in cls._look_first:
                if name in cls.__dict__:
                    setattr(cls, name, _looking_first(cls.__dict__[name]))
        guard_methods(cls, *_GUARDED)

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    # ------------------------------------------------------------------------------------- shapes
    @property
    def batch_shape(self) -> Size:
        """The shape over which parameters are batched."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one draw, without batching."""
        return self._event_shape

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        """The same distribution with its parameters expanded (as views) to a larger batch shape."""
        new = self._get_checked_instance(type(self), _instance)
        shape = Size(batch_shape)
        for name, value in self.__dict__.items():
            if name in self.arg_constraints and isinstance(value, Tensor):
                tail = value.shape[value.ndim - self.arg_constraints[name].event_dim :]
                new.__dict__[name] = value.expand(shape + tail)
            elif not isinstance(getattr(type(self), name, None), lazy_property):
                new.__dict__[name] = value
        new._batch_shape = shape
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """An empty instance for `expand` to fill, or the one that a subclass prepared."""
        return object.__new__(type(self)) if _instance is None else _instance

    # -------------------------------------------------------------------------- what a family states
    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """The constraint of each parameter."""
        raise UnsupportedError(f"{type(self).__name__} does not state arg_constraints")

    @property
    def support(self) -> Any:
        """The constraint that draws satisfy."""
        raise UnsupportedError(f"{type(self).__name__} does not state its support")

    @property
    def mean(self) -> Tensor:
        """The expected value E[X]."""
        raise UnsupportedError(f"{type(self).__name__} has no formula for its mean")

    @property
    def mode(self) -> Tensor:
        """A value of greatest density or probability."""
        raise UnsupportedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """E[(X − E X)²], element by element."""
        raise UnsupportedError(f"{type(self).__name__} has no formula for its variance")

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    # -------------------------------------------------------------------------------------- draws
    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws without gradient, of shape sample_shape + batch_shape + event_shape."""
        with no_grad():
            return self.rsample(sample_shape).detach()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draws that are differentiable in the parameters (where `has_rsample`)."""
        raise UnsupportedError(f"{type(self).__name__} has no reparameterised draws; use sample()")

    def sample_n(self, n: int) -> Tensor:
        """n draws; PyTorch's older name of sample((n,))."""
        warnings.warn("sample_n(n) will be deprecated. Use .sample((n,)) instead.", FutureWarning, stacklevel=2)
        return self.sample((n,))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution along a new first dimension."""
        raise UnsupportedError(f"{type(self).__name__} cannot enumerate its support")

    # ----------------------------------------------------------------------------------- densities
    def log_prob(self, value: Tensor) -> Tensor:
        """log of the density or probability at `value`."""
        raise UnsupportedError(f"{type(self).__name__} has no formula for log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """P(X ≤ value)."""
        raise UnsupportedError(f"{type(self).__name__} has no formula for cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile: the x with cdf(x) = value; of discrete distributions, the least with cdf(x) ≥ value."""
        raise UnsupportedError(f"{type(self).__name__} has no formula for icdf")

    def entropy(self) -> Tensor:
        """−E[log p(X)] in nats, of shape batch_shape."""
        raise UnsupportedError(f"{type(self).__name__} has no formula for its entropy")

    def perplexity(self) -> Tensor:
        """exp of the entropy."""
        return self.entropy().exp()

    # -------------------------------------------------------------------------------------- checks
    def _check_parameters(self) -> None:
        try:
            found = self.arg_constraints
        except NotImplementedError:
            found = {}
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
        for name, constraint in found.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property):
                continue
            value = getattr(self, name)
            valid = constraint.check(value)
            if constraints.fails(valid):
                raise InvalidValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def _validate_sample(self, value: Any) -> None:
        """Refuse what is no tensor, does not fit batch_shape + event_shape, or lies outside the support."""
        if not isinstance(value, Tensor):
            raise InvalidValueError("The value argument to log_prob must be a Tensor")
        event = value.ndim - len(self._event_shape)
        if value.shape[max(event, 0) :] != self._event_shape:
            raise InvalidValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise InvalidValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {expected}."
                )
        self._check_support(value)

    def _check_support(self, value: Tensor) -> None:
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(f"{type(self)} does not define `support` to enable sample validation.", stacklevel=4)
            return
        if constraints.fails(support.check(value)):
            raise InvalidValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        shown = []
        for name in self.arg_constraints:
            value = self.__dict__.get(name)
            if value is not None:
                shown.append(f"{name}: {value if not isinstance(value, Tensor) or value.numel() == 1 else value.shape}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _looking_first(method: Callable[[Any, Tensor], Tensor]) -> Callable[[Any, Tensor], Tensor]:
    """The method, whose value is checked before it is used."""

    @functools.wraps(method)
    def checked(self: Distribution, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return method(self, value)

    return checked


guard_methods(Distribution, *_GUARDED)
