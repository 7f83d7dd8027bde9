"""Python's operators on Arrays: each is one elementwise function (or matmul), also reflected and in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ArgumentError
from . import elementwise
from .array import SCALARS, Array
from .linear import matmul

BINARY = {
    "add": elementwise.add,
    "sub": elementwise.subtract,
    "mul": elementwise.multiply,
    "truediv": elementwise.divide,
    "floordiv": elementwise.floor_divide,
    "mod": elementwise.remainder,
    "pow": elementwise.pow,
    "and": elementwise.bitwise_and,
    "or": elementwise.bitwise_or,
    "xor": elementwise.bitwise_xor,
    "lshift": elementwise.bitwise_left_shift,
    "rshift": elementwise.bitwise_right_shift,
    "matmul": matmul,
}
COMPARISON = {
    "eq": elementwise.equal,
    "ne": elementwise.not_equal,
    "lt": elementwise.less,
    "le": elementwise.less_equal,
    "gt": elementwise.greater,
    "ge": elementwise.greater_equal,
}
UNARY = {
    "abs": elementwise.abs,
    "neg": elementwise.negative,
    "pos": elementwise.positive,
    "invert": elementwise.bitwise_invert,
}


def _forward(function: Callable, takes: tuple[type, ...]) -> Callable:
    def method(self: Array, other: Any, /) -> Any:
        return function(self, other) if isinstance(other, takes) else NotImplemented

    return method


def _reflected(function: Callable, takes: tuple[type, ...]) -> Callable:
    def method(self: Array, other: Any, /) -> Any:
        return function(other, self) if isinstance(other, takes) else NotImplemented

    return method


def _in_place(function: Callable, takes: tuple[type, ...], name: str) -> Callable:
    def method(self: Array, other: Any, /) -> Any:
        if not isinstance(other, takes):
            return NotImplemented
        result = function(self, other)
        if result.dtype is not self.dtype or result.shape != self.shape:
            raise ArgumentError(
                f"{name}: the result is {result.dtype} of shape {result.shape} and cannot be written into "
                f"{self.dtype} of shape {self.shape}; write it out of place"
            )
        self.tensor.copy_(result.tensor)
        return self

    return method


def _unary(function: Callable) -> Callable:
    def method(self: Array, /) -> Array:
        return function(self)

    return method


def _add(name: str, method: Callable) -> None:
    method.__name__, method.__qualname__ = name, f"Array.{name}"
    setattr(Array, name, method)


def add_operators() -> None:
    """Give Array its operators."""
    for name, function in UNARY.items():
        _add(f"__{name}__", _unary(function))
    for name, function in COMPARISON.items():
        _add(f"__{name}__", _forward(function, (Array, *SCALARS)))
    for name, function in BINARY.items():
        takes = (Array,) if name == "matmul" else (Array, *SCALARS)
        _add(f"__{name}__", _forward(function, takes))
        _add(f"__r{name}__", _reflected(function, takes))
        _add(f"__i{name}__", _in_place(function, takes, f"__i{name}__"))


add_operators()
