"""Quotients rounded to integers, remainders, and the divisors and multiples that integers share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dtypes import FLOAT, INTEGER, result_dtype, uint8
from ...errors import DivisionError, WeftError
from ...tape.modes import mode, switches
from ...tensor import Tensor
from ..core import base
from ..core.pointwise import Elementwise
from ..core.primitive import Opaque, register_module

__all__ = ["FLOOR_DIVIDE", "TRUNC_DIVIDE"]

NUMERIC = (INTEGER, FLOAT)


def _integer_zero_guard(name: str, other: np.ndarray) -> None:
    if other.dtype.kind in "iub" and (other == 0).any():
        raise DivisionError(_by_zero(name))


def _by_zero(name: str) -> str:
    return f"{name}: ZeroDivisionError: integer division by zero; mask the zeros out first"


class CheckFlags(Opaque, abstract=True):
    """An error where a flag is not 0; else nothing of interest. It stands in graphs, where values are not known yet."""

    public, differentiable, checks = False, False, True
    error: type[WeftError]

    def __call__(self, flags: Tensor, name: str) -> Tensor:
        return Opaque.__call__(self, flags.to(uint8), low=0, size=1, skip=None, name=name)

    def reference(self, flags, *, low, size, skip, name):
        if flags.any():
            raise self.error(self.message(1, name=name))
        return np.zeros((), np.bool_)

    def message(self, index: int, *, name: str, **_: Any) -> str:
        raise NotImplementedError

    def shapes(self, flags, **params):
        return (), np.dtype(np.bool_)

    def native(self, node):
        from ...kernels.memory.anchors import check_places

        return check_places(node)

    def batch(self, inputs, batched, size, params):
        return self(*inputs, params["name"]).expand(size)


class CheckDivisor(CheckFlags):
    """An error where a divisor is 0."""

    error = DivisionError

    def message(self, index: int, *, name: str, **_: Any) -> str:
        return _by_zero(name)


class Division(Elementwise, abstract=True):
    """x and other: integers are not divided by zero, whoever computes."""

    def __call__(self, x: Any, other: Any) -> Tensor:
        if switches.interpreting and mode.interpreter is not None:
            self._check(x, other)
        return Elementwise.__call__(self, x, other)

    def _check(self, x: Any, other: Any) -> None:
        """Put a check into the graph that is being made, unless the divisor is a number that is not 0."""
        if result_dtype((x, other)).category > INTEGER:
            return
        if isinstance(other, Tensor):
            CHECK_DIVISOR(other == 0, self.name)
        elif type(other) is int and other == 0:
            raise DivisionError(_by_zero(self.name))

    def evaluate(self, inputs: Sequence[Any], params: dict[str, Any]) -> Tensor:
        if isinstance(inputs[1], Tensor) and inputs[1].array.size >= base.LARGE:
            if result_dtype(inputs).category <= INTEGER:  # a native plan would not look
                _integer_zero_guard(self.name, inputs[1].array)
        return Elementwise.evaluate(self, inputs, params)


class Remainder(Division):
    """x − other · ⌊x / other⌋: the remainder with the sign of the divisor (Python's %)."""

    cost = 60
    categories = NUMERIC

    def reference(self, x, other):
        _integer_zero_guard("remainder", other)
        return np.remainder(x, other)

    def lower(self, f, x, other):
        return f.remainder(x, other)

    def vjp(self, g, y, x, other):
        return lambda: g, lambda: -g * (x / other).floor()


class Fmod(Division):
    """The remainder with the sign of the dividend (C's fmod)."""

    cost = 60
    numbers = "second"
    categories = NUMERIC

    def reference(self, x, other):
        _integer_zero_guard("fmod", other)
        return np.fmod(x, other)

    def lower(self, f, x, other):
        return f.fmod(x, other)

    def vjp(self, g, y, x, other):
        return lambda: g, lambda: -g * (x / other).trunc()


class FloorDivide(Division):
    """⌊x / other⌋, rounding towards −∞."""

    cost = 60
    numbers = "both"
    differentiable, categories = False, NUMERIC

    def reference(self, x, other):
        _integer_zero_guard("floor_divide", other)
        quotient = np.floor_divide(x, other)
        if x.dtype.kind == "f":
            quotient = np.where(other == 0, np.divide(x, other), quotient)
        return quotient

    def lower(self, f, x, other):
        return f.floor_divide(x, other)


class TruncDivide(Division):
    """x / other rounded towards 0."""

    cost = 10
    public, differentiable, categories = False, False, NUMERIC

    def reference(self, x, other):
        _integer_zero_guard("div", other)
        if x.dtype.kind == "f":
            return np.trunc(np.divide(x, other))
        quotient = np.floor_divide(x, other)
        return quotient + ((np.remainder(x, other) != 0) & ((x < 0) != (other < 0))).astype(quotient.dtype)

    def lower(self, f, x, other):
        return f.quotient(x, other)


class Gcd(Elementwise):
    """The greatest common divisor of integers."""

    numbers = "none"
    cost = 300
    reference, differentiable, categories = np.gcd, False, (INTEGER, INTEGER)

    def lower(self, f, x, other):
        return f.gcd(x, other)


class Lcm(Elementwise):
    """The least common multiple of integers."""

    numbers = "none"
    cost = 300
    reference, differentiable, categories = np.lcm, False, (INTEGER, INTEGER)

    def lower(self, f, x, other):
        return f.lcm(x, other)


FLOOR_DIVIDE, TRUNC_DIVIDE, CHECK_DIVISOR = FloorDivide(), TruncDivide(), CheckDivisor()
register_module(__name__)
