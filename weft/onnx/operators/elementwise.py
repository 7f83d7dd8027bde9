"""Operators on single elements: arithmetic, comparisons, logic, bits, the functions of a calculator."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

import weft

from ...tensor import Tensor
from .registry import rule

__all__ = ["truncated_division"]

_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": weft.abs,
    "Acos": weft.acos,
    "Acosh": weft.acosh,
    "Asin": weft.asin,
    "Asinh": weft.asinh,
    "Atan": weft.atan,
    "Atanh": weft.atanh,
    "Ceil": weft.ceil,
    "Cos": weft.cos,
    "Cosh": weft.cosh,
    "Erf": weft.erf,
    "Exp": weft.exp,
    "Floor": weft.floor,
    "IsNaN": weft.isnan,
    "Log": weft.log,
    "Neg": weft.neg,
    "Not": weft.logical_not,
    "Reciprocal": weft.reciprocal,
    "Round": weft.round,
    "Sign": weft.sign,
    "Sin": weft.sin,
    "Sinh": weft.sinh,
    "Sqrt": weft.sqrt,
    "Tan": weft.tan,
    "BitwiseNot": weft.bitwise_not,
}
_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "And": weft.logical_and,
    "Or": weft.logical_or,
    "Xor": weft.logical_xor,
    "Equal": weft.eq,
    "Greater": weft.gt,
    "GreaterOrEqual": weft.ge,
    "Less": weft.lt,
    "LessOrEqual": weft.le,
    "BitwiseAnd": weft.bitwise_and,
    "BitwiseOr": weft.bitwise_or,
    "BitwiseXor": weft.bitwise_xor,
}


def _enter_unary(name: str, function: Callable[[Tensor], Tensor]) -> None:
    rule(name)(lambda x: function(x))


def _enter_binary(name: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    rule(name)(lambda a, b: function(a, b))


for _name, _function in _UNARY.items():
    _enter_unary(_name, _function)
for _name, _function in _BINARY.items():
    if _name != "Equal":
        _enter_binary(_name, _function)


@rule("Equal", raw=True)
def equal(a: Any, b: Any) -> Any:
    """Strings are compared as well."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.asarray(a == b, bool)
    return weft.eq(weft.as_tensor(a), weft.as_tensor(b))


def truncated_division(a: Tensor, b: Tensor) -> Tensor:
    """a / b; of whole numbers the quotient without its fraction, as in C."""
    return a / b if a.is_floating_point() else weft.div(a, b, rounding_mode="trunc")


rule("Div")(truncated_division)


@rule("Mod")
def mod(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    return weft.fmod(a, b) if fmod else weft.remainder(a, b)


@rule("Pow")
def power(x: Tensor, exponent: Tensor) -> Tensor:
    """xʸ in the type of x."""
    if x.is_floating_point() or exponent.is_floating_point():
        exact = x if x.is_floating_point() else x.to(weft.float64)
        return weft.pow(exact, exponent.to(exact.dtype)).to(x.dtype)
    return weft.pow(x, exponent).to(x.dtype)


@rule("BitShift")
def bit_shift(x: Tensor, by: Tensor, *, direction: str) -> Tensor:
    return (weft.bitwise_left_shift if direction == "LEFT" else weft.bitwise_right_shift)(x, by)


@rule("IsInf")
def is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    found = weft.zeros_like(x, dtype=weft.bool)
    if detect_positive:
        found = weft.logical_or(found, weft.isposinf(x))
    return weft.logical_or(found, weft.isneginf(x)) if detect_negative else found


@rule("Tanh")
def tanh(x: Tensor) -> Tensor:
    return weft.tanh(x)


@rule("Sigmoid")
def sigmoid(x: Tensor) -> Tensor:
    return weft.sigmoid(x)


@rule("Max")
def largest(*xs: Tensor) -> Tensor:
    return functools.reduce(weft.maximum, xs)


@rule("Min")
def smallest(*xs: Tensor) -> Tensor:
    return functools.reduce(weft.minimum, xs)


@rule("Sum")
def total(*xs: Tensor) -> Tensor:
    return functools.reduce(operator.add, xs)


@rule("Mean")
def mean(*xs: Tensor) -> Tensor:
    return functools.reduce(operator.add, xs) / len(xs)


@rule("Clip")
def clip_old(x: Tensor, *, min: float | None = None, max: float | None = None) -> Tensor:
    return x if min is None and max is None else weft.clamp(x, min, max)


@rule("Clip", 11, fixed=(1, 2))
def clip(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """min(max(x, low), high): where the limits cross, the upper one holds."""
    x = x if low is None else weft.maximum(x, low)
    return x if high is None else weft.minimum(x, high)


@rule("Where")
def where(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return weft.where(condition, a, b)


@rule("CumSum", numbers=(1,))
def cumulative_sum(x: Tensor, axis: np.ndarray, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _running(weft.cumsum, x, int(axis.reshape(())), exclusive, reverse, 0)


@rule("CumProd", numbers=(1,))
def cumulative_product(x: Tensor, axis: np.ndarray, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _running(weft.cumprod, x, int(axis.reshape(())), exclusive, reverse, 1)


def _running(scan: Callable[..., Tensor], x: Tensor, axis: int, exclusive: int, reverse: int, start: int) -> Tensor:
    """A running total; `exclusive` leaves the element itself out, `reverse` comes from the end."""
    x = x.flip(axis) if reverse else x
    if exclusive:
        first = weft.full_like(x.narrow(axis, 0, 1), start)
        x = weft.cat([first, x.narrow(axis, 0, x.shape[axis] - 1)], axis)
    found = scan(x, axis).to(x.dtype)
    return found.flip(axis) if reverse else found
