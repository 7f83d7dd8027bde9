"""Arithmetic as PyTorch spells it: scalars, `alpha`, rounding modes, and Python's operators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...dtypes import FLOAT
from ...errors import DtypeError, InvalidValueError
from ...tensor import Tensor
from ..core.operands import as_operand, is_number, is_operand, number_error
from ..core.primitive import OPERATIONS, PRIMITIVES, operation
from .complex_numbers import complex_from
from .division import FLOOR_DIVIDE, TRUNC_DIVIDE
from .elementwise import ADD, DIV, MUL, POW, SUB, where
from .rounding import ROUND

operation("where", method=False, primitive=PRIMITIVES["Where"], kind="Elementwise")(where)


def _method_where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """self where the condition holds, else other."""
    return where(condition, self, other)


Tensor.where = _method_where


def need_tensor(name: str, **arguments: Any) -> None:
    """Refuse numbers for arguments that must be tensors."""
    for argument, value in arguments.items():
        if is_number(value):
            raise number_error(name, argument, value)


def _scaled(other: Any, alpha: Any, name: str, kind: Any) -> Any:
    if alpha.__class__ is float and kind.category < FLOAT:
        raise DtypeError(f"{name}: for integral input tensors, argument alpha must not be a floating point number")
    if kind is dtypes.bool_:
        return other & bool(alpha)
    return other * alpha


def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input + alpha · other."""
    if alpha != 1:
        other = _scaled(other, alpha, "add", dtypes.result_dtype((input, other)))
    return ADD.fast(input, other)


def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input − alpha · other; bool tensors are refused (use ^ or logical_xor)."""
    if alpha != 1:
        other = _scaled(other, alpha, "sub", dtypes.result_dtype((input, other)))
    return SUB.fast(input, other)


add = operation(out=True, inplace=ADD.into(add, "add_"), kind="Elementwise", primitive=ADD)(add)
sub = operation(out=True, inplace=SUB.into(sub, "sub_"), aliases=("subtract",), kind="Elementwise", primitive=SUB)(sub)


@operation()
def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """other − alpha · input."""
    need_tensor("rsub", input=input)
    return sub(other, input, alpha=alpha)


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """input / other; rounding_mode 'trunc' rounds towards 0, 'floor' towards −∞."""
    if rounding_mode is None:
        return DIV.fast(input, other)
    if rounding_mode == "trunc":
        return _no_gradient(TRUNC_DIVIDE(input, other), input, other)
    if rounding_mode == "floor":
        return _no_gradient(FLOOR_DIVIDE(input, other), input, other)
    raise InvalidValueError(f"div: rounding_mode must be None, 'trunc' or 'floor', got {rounding_mode!r}")


def _no_gradient(result: Tensor, *inputs: Any) -> Tensor:
    """A piecewise constant result: part of the graph, with gradient 0, as PyTorch has it."""
    if any(isinstance(x, Tensor) and x.requires_grad for x in inputs) and result.is_floating_point():
        tensor = next(x for x in inputs if isinstance(x, Tensor) and x.requires_grad)
        return where(result == result, result, tensor * 0) if tensor.ndim <= result.ndim else result
    return result


div = operation(
    out=True, inplace=DIV.into(div, "div_"), aliases=("divide", "true_divide"), kind="Elementwise", primitive=DIV
)(div)


def pow(input: Any, exponent: Any) -> Tensor:
    """input ** exponent, for tensors and numbers on either side."""
    need_tensor("pow", input=input if is_number(exponent) else exponent)
    if is_number(exponent) and isinstance(input, Tensor):
        if exponent == 2 and input.dtype.category >= FLOAT:
            return input.square()
        if exponent == 1 and input.dtype is not dtypes.bool_:
            return input.clone()
        if isinstance(exponent, int) and exponent < 0 and input.dtype.category < FLOAT:
            raise DtypeError("pow: integers to negative integer powers are not allowed; convert with .float() first")
    return POW.fast(input, exponent) if isinstance(input, Tensor) else POW.fast(input, exponent).contiguous()


pow = operation(out=True, inplace=True, kind="Elementwise", primitive=POW)(pow)


@operation(out=True, inplace=True)
def float_power(input: Any, exponent: Any) -> Tensor:
    """input ** exponent in double precision."""
    need_tensor("float_power", input=input if is_number(exponent) else exponent)
    kind = dtypes.complex128 if dtypes.result_dtype((input, exponent)).is_complex else dtypes.float64
    as_double = lambda x: x.to(kind) if isinstance(x, Tensor) else x
    return pow(as_double(input), as_double(exponent))


@operation(out=True, inplace=True)
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest multiple of 10^−decimals, halves to even."""
    if decimals == 0 or input.dtype.category < FLOAT:
        return ROUND.fast(input)
    scale = 10.0 ** abs(decimals)
    return ROUND.fast(input * scale) / scale if decimals > 0 else ROUND.fast(input / scale) * scale


@operation(out=True, inplace=True)
def frac(input: Tensor) -> Tensor:
    """The fractional part, with the sign of x."""
    if input.dtype.category != FLOAT:
        raise DtypeError(f"frac: expected a floating-point tensor, got {input.dtype}")
    return input - input.trunc()


@operation(out=True)
def positive(input: Tensor) -> Tensor:
    """+x: the tensor itself."""
    if input.dtype is dtypes.bool_:
        raise DtypeError("positive: the + operator on a bool tensor is not supported; convert with .int()")
    return input


@operation(out=True, inplace=True)
def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """input + weight · (end − input), in the form that is exact at both ends."""
    if input.dtype is not end.dtype:
        raise DtypeError(f"lerp: expected dtype {input.dtype} for `end`, but got dtype {end.dtype}")
    step = end - input
    if is_number(weight):
        return input + weight * step if abs(weight) < 0.5 else end - step * (1 - weight)
    return where(weight.abs() < 0.5, input + weight * step, end - step * (1 - weight))


@operation(out=True, inplace=True)
def addcmul(input: Tensor, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """input + value · tensor1 · tensor2."""
    product = tensor1 * tensor2
    return input + (product if value == 1 else value * product)


@operation(out=True, inplace=True)
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value · tensor1 / tensor2 (floating-point only)."""
    if all(t.dtype.category < FLOAT for t in (tensor1, tensor2)):
        raise DtypeError("addcdiv: integer division with addcdiv is no longer supported; use float tensors")
    return input + (value * tensor1) / tensor2 if value != 1 else input + tensor1 / tensor2


@operation(out=True, inplace=True)
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input · 2^other."""
    need_tensor("ldexp", input=input, other=other)
    power = POW.fast(2.0, other)
    return input * (power.to(input.dtype) if other.dtype.category < FLOAT <= input.dtype.category else power)


@operation(out=True, inplace=True)
def deg2rad(input: Tensor) -> Tensor:
    """Degrees to radians."""
    if input.is_complex():
        raise DtypeError(f"deg2rad: is not supported for complex tensors, got {input.dtype}; take .angle() first")
    return input * (math.pi / 180)


@operation(out=True, inplace=True)
def rad2deg(input: Tensor) -> Tensor:
    """Radians to degrees."""
    if input.is_complex():
        raise DtypeError(f"rad2deg: is not supported for complex tensors, got {input.dtype}; take .angle() first")
    return input * (180 / math.pi)


@operation(differentiable=False)
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """|input − other| ≤ atol + rtol · |other|, element by element."""
    need_tensor("isclose", input=input, other=other)
    if rtol < 0 or atol < 0:
        raise InvalidValueError(f"isclose: rtol and atol must be at least zero, got {rtol} and {atol}")
    if input.dtype is not other.dtype:
        raise DtypeError(f"isclose: {input.dtype} did not match {other.dtype}; convert one of them")
    close = input == other
    if equal_nan and input.dtype.category >= FLOAT:
        close = close | (input.isnan() & other.isnan())
    if rtol == 0 and atol == 0:
        return close
    if input.dtype is dtypes.bool_:
        input = input.double()
    wide = other if other.dtype.category >= FLOAT else other.double()
    difference = (input - wide).abs()
    return close | (difference.isfinite() & (difference <= atol + (rtol * wide).abs()))


@operation(differentiable=False)
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements are close."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@operation(differentiable=False)
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same sizes and elements."""
    if input.dtype is not other.dtype and (input.dtype.category != other.dtype.category):
        raise DtypeError(f"equal: expected both tensors of one type, got {input.dtype} and {other.dtype}")
    return input.shape == other.shape and bool((input == other).all())


# ------------------------------------------------------------------------------------------ clamping


@operation(out=True, inplace=True, aliases=("clip",))
def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Each element moved into [min, max]; NaN stays. The gradient is 1 inside (ends included)."""
    need_tensor("clamp", input=input)
    if min is None and max is None:
        raise InvalidValueError("clamp: at least one of 'min' or 'max' must not be None")
    if input.is_complex():
        raise DtypeError(f"clamp: is not supported for complex types, got {input.dtype}")
    kind = dtypes.result_dtype([x for x in (input, min, max) if x is not None])
    result = input if input.dtype is kind else input.to(kind)
    if min is not None:
        result = where(result < min, min, result) if is_number(min) else _clamped_below(result, min)
    if max is not None:
        result = where(result > max, max, result) if is_number(max) else _clamped_above(result, max)
    return result if result is not input else input.clone()


def _clamped_below(x: Tensor, bound: Tensor) -> Tensor:
    return where((x < bound) | bound.isnan(), bound, x).to(x.dtype)


def _clamped_above(x: Tensor, bound: Tensor) -> Tensor:
    return where((x > bound) | bound.isnan(), bound, x).to(x.dtype)


@operation(out=True, inplace=True)
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """max(x, min)."""
    return clamp(input, min=min)


@operation(out=True, inplace=True)
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """min(x, max)."""
    return clamp(input, max=max)


@operation(out=True, inplace=True)
def nan_to_num(input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """Replace NaN by `nan` and infinities by the largest finite numbers (or those given)."""
    if input.dtype.category < FLOAT:
        return input.clone()
    if input.is_complex():
        return complex_from(nan_to_num(input.real, nan, posinf, neginf), nan_to_num(input.imag, nan, posinf, neginf))
    limits = dtypes.finfo(input.dtype)
    posinf = limits.max if posinf is None else posinf
    neginf = limits.min if neginf is None else neginf
    bounded = where(input == math.inf, posinf, where(input == -math.inf, neginf, input))
    return where(input.isnan(), 0.0 if nan is None else nan, bounded)


# ------------------------------------------------------------------------------------ Python's operators


def _operator(function: Any) -> Any:
    """A dunder method: the function, or NotImplemented for operands that are not tensors or numbers."""

    def method(self: Tensor, other: Any) -> Any:
        return function(self, as_operand(other)) if is_operand(other) else NotImplemented

    return method


def _reflected(function: Any) -> Any:
    """The dunder method for the tensor on the right."""

    def method(self: Tensor, other: Any) -> Any:
        return function(other, self)

    return method


def _augmented(method: Any) -> Any:
    """The dunder method of `x += y`; a NumPy array is left to `x = x + y`, which may widen the type."""

    def dunder(self: Tensor, other: Any) -> Any:
        return NotImplemented if isinstance(other, np.ndarray) else method(self, other)

    return dunder


def _install_operators() -> None:
    quick = {"add": ADD, "sub": SUB, "mul": MUL, "truediv": DIV}
    quick |= {name: PRIMITIVES[name.title()] for name in ("eq", "ne", "lt", "le", "gt", "ge")}
    for name, primitive in quick.items():
        setattr(Tensor, f"__{name}__", primitive.operator())
    for name in ("add", "sub", "mul", "truediv"):
        setattr(Tensor, f"__r{name}__", _reflected(quick[name].operator()))
    named = {"pow": "pow", "floordiv": "floor_divide", "mod": "remainder", "and": "bitwise_and", "or": "bitwise_or"}
    named |= {"xor": "bitwise_xor", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift"}
    for name, public in named.items():
        function = OPERATIONS[public].function
        setattr(Tensor, f"__{name}__", _operator(function))
        setattr(Tensor, f"__r{name}__", _operator(lambda x, other, function=function: function(other, x)))
    inplace = dict(add="add_", sub="sub_", mul="mul_", truediv="div_", pow="pow_", floordiv="floor_divide_")
    inplace |= dict(mod="remainder_", lshift="bitwise_left_shift_", rshift="bitwise_right_shift_")
    inplace |= {"and": "bitwise_and_", "or": "bitwise_or_", "xor": "bitwise_xor_"}
    for name, method in inplace.items():
        setattr(Tensor, f"__i{name}__", _augmented(getattr(Tensor, method)))
    Tensor.__neg__ = PRIMITIVES["Neg"].fast
    Tensor.__abs__ = OPERATIONS["abs"].function
    Tensor.__pos__ = positive
    Tensor.__invert__ = OPERATIONS["bitwise_not"].function
    Tensor.__div__, Tensor.__rdiv__ = Tensor.__truediv__, Tensor.__rtruediv__
    Tensor.__hash__ = object.__hash__


_install_operators()
