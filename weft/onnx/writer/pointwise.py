"""Rules of elementwise primitives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .builder import Builder, writes
from .sizes import Band, Number
from .unify import Step

__all__ = ["same"]

_SAME = {
    "Abs": "Abs",
    "Acos": "Acos",
    "Acosh": "Acosh",
    "Asin": "Asin",
    "Asinh": "Asinh",
    "Atan": "Atan",
    "Atanh": "Atanh",
    "Ceil": "Ceil",
    "Cos": "Cos",
    "Cosh": "Cosh",
    "Erf": "Erf",
    "Exp": "Exp",
    "Floor": "Floor",
    "Isnan": "IsNaN",
    "Log": "Log",
    "Neg": "Neg",
    "Reciprocal": "Reciprocal",
    "Relu": "Relu",
    "RoundHalfEven": "Round",
    "Sigmoid": "Sigmoid",
    "Sign": "Sign",
    "Sgn": "Sign",
    "Sin": "Sin",
    "Sinh": "Sinh",
    "Sqrt": "Sqrt",
    "Tan": "Tan",
    "Tanh": "Tanh",
    "Isinf": "IsInf",
    "Add": "Add",
    "Sub": "Sub",
    "Mul": "Mul",
    "Div": "Div",
    "Maximum": "Max",
    "Minimum": "Min",
    "Fmax": "Max",
    "Fmin": "Min",
    "Pow": "Pow",
}
_COMPARISONS = {"Eq": "Equal", "Gt": "Greater", "Ge": "GreaterOrEqual", "Lt": "Less", "Le": "LessOrEqual"}
_LOGIC = {"LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor", "LogicalNot": "Not"}
_BITS = {"BitwiseAnd": "And", "BitwiseOr": "Or", "BitwiseXor": "Xor", "BitwiseNot": "Not"}
BOOL = np.dtype(bool)


def _cast_all(b: Builder, step: Step, names: tuple[str, ...], kind: np.dtype) -> list[str]:
    return [b.cast(name, v.dtype, kind) for name, v in zip(names, step.inputs, strict=True)]


@writes(" ".join(_SAME))
def same(b: Builder, step: Step, *names: str) -> str:
    """Primitives that ONNX has, in the type of their result."""
    kind = step.output.dtype if step.title not in ("Isnan", "Isinf") else step.inputs[0].dtype
    if step.title in ("Add", "Mul") and kind == BOOL:
        return b.emit("Or" if step.title == "Add" else "And", _cast_all(b, step, names, kind))
    return b.emit(_SAME[step.title], _cast_all(b, step, names, kind))


@writes(" ".join(_COMPARISONS) + " Ne")
def compared(b: Builder, step: Step, *names: str) -> str:
    kind = (
        np.result_type(*(v.dtype for v in step.inputs))
        if len({v.dtype for v in step.inputs}) > 1
        else step.inputs[0].dtype
    )
    if kind == BOOL and step.title not in ("Eq", "Ne"):
        kind = np.dtype(np.int32)
    given = _cast_all(b, step, names, kind)
    return b.emit("Not", [b.emit("Equal", given)]) if step.title == "Ne" else b.emit(_COMPARISONS[step.title], given)


@writes(" ".join(_LOGIC))
def logic(b: Builder, step: Step, *names: str) -> str:
    given = [_truth(b, name, v.dtype) for name, v in zip(names, step.inputs, strict=True)]
    return b.emit(_LOGIC[step.title], given)


def _truth(b: Builder, name: str, kind: np.dtype) -> str:
    return name if kind == BOOL else b.emit("Cast", [name], to=9)


@writes(" ".join(_BITS))
def bits(b: Builder, step: Step, *names: str) -> str:
    word = _BITS[step.title]
    given = _cast_all(b, step, names, step.output.dtype)
    return b.emit(word if step.output.dtype == BOOL else f"Bitwise{word}", given)


@writes("BitwiseLeftShift BitwiseRightShift")
def shifted(b: Builder, step: Step, *names: str) -> str:
    direction = "LEFT" if "Left" in step.title else "RIGHT"
    signed = step.output.dtype
    unsigned = np.dtype(f"u{signed.itemsize}") if signed.kind == "i" else signed
    moved = b.emit("BitShift", _cast_all(b, step, names, unsigned), direction=direction)
    return b.cast(moved, unsigned, signed)


@writes("Isfinite Isposinf Isneginf")
def finite(b: Builder, step: Step, x: str) -> str:
    if step.title == "Isfinite":
        return b.emit("Not", [b.emit("Or", [b.emit("IsInf", [x]), b.emit("IsNaN", [x])])])
    plus = int(step.title == "Isposinf")
    return b.emit("IsInf", [x], detect_negative=1 - plus, detect_positive=plus)


@writes("Cast")
def cast(b: Builder, step: Step, x: str) -> str:
    return b.cast(x, step.inputs[0].dtype, step.output.dtype)


@writes("Clone Alias")
def clone(b: Builder, step: Step, x: str) -> str:
    return x


@writes("Square")
def square(b: Builder, step: Step, x: str) -> str:
    return b.emit("Mul", [x, x])


@writes("Rsqrt")
def rsqrt(b: Builder, step: Step, x: str) -> str:
    return b.emit("Reciprocal", [b.emit("Sqrt", [x])])


@writes("Expm1")
def expm1(b: Builder, step: Step, x: str) -> str:
    return b.emit("Sub", [b.emit("Exp", [x]), b.scalar(1, step.output)])


@writes("Log1p")
def log1p(b: Builder, step: Step, x: str) -> str:
    return b.emit("Log", [b.emit("Add", [x, b.scalar(1, step.output)])])


@writes("Exp2")
def exp2(b: Builder, step: Step, x: str) -> str:
    return b.emit("Exp", [b.emit("Mul", [x, b.scalar(math.log(2), step.output)])])


@writes("Log2 Log10")
def log_base(b: Builder, step: Step, x: str) -> str:
    base = 2 if step.title == "Log2" else 10
    return b.emit("Mul", [b.emit("Log", [x]), b.scalar(1 / math.log(base), step.output)])


@writes("Erfc")
def erfc(b: Builder, step: Step, x: str) -> str:
    return b.emit("Sub", [b.scalar(1, step.output), b.emit("Erf", [x])])


@writes("Trunc")
def trunc(b: Builder, step: Step, x: str) -> str:
    return b.emit("Mul", [b.emit("Sign", [x]), b.emit("Floor", [b.emit("Abs", [x])])])


@writes("Logaddexp")
def logaddexp(b: Builder, step: Step, x: str, y: str) -> str:
    """max + log(1 + e^−|x − y|)."""
    apart = b.emit("Neg", [b.emit("Abs", [b.emit("Sub", [x, y])])])
    log = b.emit("Log", [b.emit("Add", [b.emit("Exp", [apart]), b.scalar(1, step.output)])])
    return b.emit("Add", [b.emit("Max", [x, y]), log])


@writes("Atan2")
def atan2(b: Builder, step: Step, y: str, x: str) -> str:
    """atan(y / x), and ±π where x < 0."""
    zero, pi = b.scalar(0, step.output), b.scalar(math.pi, step.output)
    signed = b.emit("Where", [b.emit("Less", [y, zero]), b.emit("Neg", [pi]), pi])
    turn = b.emit("Where", [b.emit("Less", [x, zero]), signed, zero])
    angle = b.emit("Add", [b.emit("Atan", [b.emit("Div", [y, x])]), turn])
    return b.emit("Where", [b.emit("IsNaN", [angle]), zero, angle])


@writes("Heaviside")
def heaviside(b: Builder, step: Step, x: str, values: str) -> str:
    zero, one = b.scalar(0, step.output), b.scalar(1, step.output)
    positive = b.emit("Where", [b.emit("Greater", [x, zero]), one, zero])
    return b.emit("Where", [b.emit("Equal", [x, zero]), values, positive])


@writes("Where")
def where(b: Builder, step: Step, condition: str, x: str, y: str) -> str:
    kind = step.output.dtype
    chosen = [b.cast(name, v.dtype, kind) for name, v in zip((x, y), step.inputs[1:], strict=True)]
    truth = _truth(b, condition, step.inputs[0].dtype)
    if kind != BOOL:
        return b.emit("Where", [truth, *chosen])
    first = b.emit("And", [truth, chosen[0]])  # runtimes have no choice between truths
    return b.emit("Or", [first, b.emit("And", [b.emit("Not", [truth]), chosen[1]])])


@writes("FloorDivide TruncDivide Remainder Fmod")
def divided(b: Builder, step: Step, *names: str) -> str:
    """Whole numbers divide towards zero in ONNX; the floor follows from the remainder with the divisor's sign."""
    kind = step.output.dtype
    x, y = _cast_all(b, step, names, kind)
    whole = kind.kind in "iu"
    if step.title == "Fmod" or (step.title == "Remainder" and whole):
        return b.emit("Mod", [x, y], fmod=int(step.title == "Fmod"))
    if step.title == "TruncDivide":
        quotient = b.emit("Div", [x, y])
        return (
            quotient
            if whole
            else b.emit("Mul", [b.emit("Sign", [quotient]), b.emit("Floor", [b.emit("Abs", [quotient])])])
        )
    if whole:
        return b.emit("Div", [b.emit("Sub", [x, b.emit("Mod", [x, y])]), y])
    quotient = b.emit("Floor", [b.emit("Div", [x, y])])
    return quotient if step.title == "FloorDivide" else b.emit("Sub", [x, b.emit("Mul", [quotient, y])])


@writes("Xlogy")
def xlogy(b: Builder, step: Step, x: str, y: str) -> str:
    zero = b.scalar(0, step.output)
    return b.emit("Where", [b.emit("Equal", [x, zero]), zero, b.emit("Mul", [x, b.emit("Log", [y])])])


@writes("Constant Fetched")
def constant(b: Builder, step: Step) -> str:
    content: Any = step.content
    if isinstance(content, np.ndarray):
        return b.constant(content)
    kind = step.output.dtype
    if isinstance(content, Number):
        return b.number(content, kind, [1] * step.output.rank)
    return b.band(content, kind) if isinstance(content, Band) else b.iota(content, kind)
