"""A formula of several operations as one operation, where its arrays are large: one pass over memory instead of many.

Only its inputs are kept for the gradient, which computes the formula again on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ...tape import tape
from ...tape.interpreter import interpreter_of
from ...tape.modes import enable_grad, mode, unrecorded
from ...tensor import Tensor, wrap
from . import base
from .formula import DROP, SAVE
from .operands import FLOATS
from .primitive import PRIMITIVES, Opaque, register_module

__all__ = ["together", "with_slope"]

PLAIN = frozenset({bool, int, float, str, type(None)})


def text_of(function: Any) -> str | None:
    """A name that only functions of the same code and the same numbers in their closures share; None: there is none."""
    parts = []
    for cell in function.__closure__ or ():
        content = cell.cell_contents
        plain = content.__class__ in PLAIN
        text = repr(content) if plain else text_of(content) if isinstance(content, FunctionType) else None
        if text is None:
            return None
        parts.append(text)
    return f"{function.__qualname__} {id(function.__code__)} ({', '.join(parts)})"


class Formula:
    """A function of tensors alone, as a parameter."""

    __slots__ = ("function", "text")

    def __init__(self, function: Callable[..., Tensor], text: str) -> None:
        self.function, self.text = function, text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text


class TogetherSlope(Opaque):
    """Gradients of a formula for those inputs that are `wanted`."""

    differentiable = False

    def reference(self, g, *arrays, formula, wanted):
        found = _gradients(wrap(g), [wrap(a) for a in arrays], formula.function, wanted)
        return tuple(x.array for x in found)

    def parts(self, g, *inputs, formula, wanted):
        return _gradients(g, inputs, formula.function, wanted)


def _gradients(
    g: Tensor, inputs: Sequence[Tensor], function: Callable[..., Tensor], wanted: Sequence[bool]
) -> tuple[Tensor, ...]:
    with enable_grad():
        leaves = [x.detach().requires_grad_() if want else x for x, want in zip(inputs, wanted, strict=True)]
        return tape.grad(function(*leaves), [x for x, want in zip(leaves, wanted, strict=True) if want], g)


class Together(Opaque):
    """formula(x₁, x₂, …), one tensor."""

    def reference(self, *arrays, formula):
        return (formula.function(*(wrap(a) for a in arrays)).array,)

    def parts(self, *inputs, formula):
        return (formula.function(*inputs),)

    def _make_plan(self, needs):
        return DROP, (SAVE,) * len(needs)

    def vjp(self, g, y, *inputs, formula, sloped=False):
        wanted = tuple(x._needs_grad for x in inputs)
        if mode.grad:
            targets = [x for x, want in zip(inputs, wanted, strict=True) if want]
            found = tape.grad(formula.function(*inputs), targets, g, create_graph=True)
        elif sloped:
            ones = wrap(np.ones((), g.dtype.np)).expand(g.shape)
            found = [g * slope for slope in _gradients(ones, inputs, formula.function, wanted)]
        else:
            found = _planned_gradients(g, inputs, formula, wanted)
        found = iter(found)
        return tuple(next(found) if want else None for want in wanted)


def _planned_gradients(
    g: Tensor, inputs: Sequence[Tensor], formula: Formula, wanted: tuple[bool, ...]
) -> Sequence[Any]:
    if interpreter_of(g) is None:
        arrays = [g.array, *(x.array for x in inputs)]
        found = base.compute_large(SLOPE, arrays, {"formula": formula, "wanted": wanted})
        if found is not None:
            return [wrap(a) for a in found]
    return _gradients(g, inputs, formula.function, wanted)


def together(function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """function(*inputs) for a function that depends on nothing else but numbers; as one operation if that is faster."""
    if any(interpreter_of(x) is not None or x.array.dtype not in FLOATS for x in inputs):
        return function(*inputs)
    arrays = [x.array for x in inputs]
    if max(a.size for a in arrays) < 4 * base.LARGE or not all(a.flags.c_contiguous for a in arrays):
        return function(*inputs)
    text = text_of(function)
    params = {"formula": Formula(function, text)}
    found = None if text is None else base.compute_large(TOGETHER, arrays, params)
    return function(*inputs) if found is None else TOGETHER.record(wrap(found[0]), inputs, params)


def with_slope(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """`together` for a function of one element. Compiled code computes its slope beside it, which is all that it keeps for
    the gradient: less than the parts of the function, where these are many."""
    if mode.interpreter is None or x._interpreter is not None or not (x._needs_grad and mode.grad):
        return together(function, x)
    with unrecorded():
        y = function(x)
    return TOGETHER.record(y, (x,), {"formula": Formula(function, function.__qualname__), "sloped": True})


register_module(__name__)
TOGETHER, SLOPE = PRIMITIVES["Together"], PRIMITIVES["TogetherSlope"]
