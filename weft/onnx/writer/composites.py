"""Patterns of primitives that ONNX has an operator for: found where they end, the parts fall away as dead code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .builder import WRITERS, Builder, producer, writes
from .pointwise import same
from .unify import Step, Var


def _number(var: Var) -> float | None:
    """The number that a constant is."""
    content: Any = var.step.content if var.step.title == "Constant" else None
    return (
        float(content.item())
        if isinstance(content, np.ndarray) and content.size == 1 and content.dtype.kind in "fiu"
        else None
    )


def _is(var: Var, value: float) -> bool:
    number = _number(var)
    return number is not None and math.isclose(number, value, rel_tol=1e-5)


def _with_number(var: Var, title: str, value: float) -> Var | None:
    """The other operand of `title` with a constant."""
    step = producer(var, title)
    if step is None or len(step.inputs) != 2:
        return None
    for one, other in (step.inputs, step.inputs[::-1]):
        if _is(other, value):
            return one
    return None


def _unviewed(var: Var) -> Var:
    """What a value is before reshapes that only add dimensions of size 1."""
    while var.step.title == "ViewAs":
        inner = var.step.inputs[0]
        if [n for n in inner.shape if n != 1] != [n for n in var.shape if n != 1]:
            break
        var = inner
    return var


@writes("Mul")
def mul(b: Builder, step: Step, *names: str) -> str:
    x = _gelu(step) if b.opset >= 20 else None
    if x is not None:
        return b.emit("Gelu", [b.names[x]])
    return same(b, step, *names)


def _gelu(step: Step) -> Var | None:
    """x · (½ erf(x / √2) + ½)."""
    for x, factor in (step.inputs, step.inputs[::-1]):
        half = _with_number(factor, "Add", 0.5)
        error = None if half is None else _with_number(half, "Mul", 0.5)
        erf = None if error is None else producer(error, "Erf")
        if erf is not None and _with_number(erf.inputs[0], "Mul", math.sqrt(0.5)) is x:
            return x
    return None


@writes("Add")
def add(b: Builder, step: Step, *names: str) -> str:
    found = _batch_norm(step)
    if found is not None:
        x, scale, shift, mean, var, eps = found
        channels = int(mean.shape[0])  # type: ignore[arg-type]
        weight = b.names[scale] if scale is not None else b.constant(np.ones(channels), mean.dtype)
        bias = b.names[shift] if shift is not None else b.constant(np.zeros(channels), mean.dtype)
        return b.emit("BatchNormalization", [b.names[x], weight, bias, b.names[mean], b.names[var]], epsilon=eps)
    convolution = _biased(b, step)
    return same(b, step, *names) if convolution is None else convolution


def _biased(b: Builder, step: Step) -> str | None:
    """A convolution and a number for every channel."""
    for y, shift in (step.inputs, step.inputs[::-1]):
        inner = producer(y, "Convolve") or producer(y, "ConvolveTransposed")
        bias = _unviewed(shift)
        if inner is None or bias.rank != 1 or bias.shape[0] != y.shape[1] or shift.rank < y.rank - 1:
            continue
        if shift.shape[1 - y.rank] == bias.shape[0] and all(n == 1 for n in shift.shape[2 - y.rank :]):
            names = [b.names[v] for v in inner.inputs]
            return WRITERS[inner.title](b, inner, *names, b.names[bias])
    return None


def _batch_norm(step: Step) -> tuple[Var, Var | None, Var | None, Var, Var, float] | None:
    """x · s + t with s = w / √(v + ε) and t = b − m · s, everything but x of the module itself."""
    scaled = producer(step.inputs[0], "Mul")
    if scaled is None or scaled.inputs[0].rank < 2:
        return None
    x, factor, shift = scaled.inputs[0], _unviewed(scaled.inputs[1]), _unviewed(step.inputs[1])
    root, weight = _root(factor)
    moved, bias = _moved(shift, factor)
    if root is None or moved is None or factor.rank != 1 or factor.shape[0] != x.shape[1]:
        return None
    inside = producer(root.inputs[0], "Add")
    eps = None if inside is None else _number(inside.inputs[1])
    if inside is None or eps is None or inside.inputs[0].step.title != "Captured" or moved.step.title != "Captured":
        return None
    return x, weight, bias, moved, inside.inputs[0], round_eps(eps)


def round_eps(eps: float) -> float:
    """A number that was rounded to float32, as it was written."""
    return float(np.format_float_scientific(np.float32(eps)))


def _root(factor: Var) -> tuple[Step | None, Var | None]:
    root = producer(factor, "Rsqrt")
    if root is not None:
        return root, None
    product = producer(factor, "Mul")
    if product is None:
        return None, None
    for one, other in (product.inputs, product.inputs[::-1]):
        root = producer(one, "Rsqrt")
        if root is not None:
            return root, _unviewed(other)
    return None, None


def _moved(shift: Var, factor: Var) -> tuple[Var | None, Var | None]:
    """−m · s, or b − m · s: m and b."""
    bias, product = None, producer(shift, "Mul")
    if product is None:
        total = producer(shift, "Add")
        if total is None:
            return None, None
        product, bias = producer(total.inputs[0], "Mul"), _unviewed(total.inputs[1])
    negative = None if product is None or product.inputs[1] is not factor else producer(product.inputs[0], "Neg")
    return (None if negative is None else negative.inputs[0]), bias
