"""Derivatives of functions in the form of `torch.autograd.functional`: inputs are passed, results returned.

`weft.func` has the composable form. Here `create_graph=True` leaves the results attached to the
graph, `strict=True` raises where an output does not depend on an input instead of giving zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ArgumentError, AutogradError, InvalidValueError, ShapeError, UnsupportedError
from ..ops.core.batching import basis, one_row, reshaped, stacked, variable
from ..tape import tape
from ..tape.modes import enable_grad, set_grad_enabled
from ..tensor import Tensor
from .batched import vmap
from .transforms import jacfwd

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _as_tuple(value: Any, role: str, name: str) -> tuple[Tensor, ...]:
    parts = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    for x in parts:
        if not isinstance(x, Tensor):
            raise ArgumentError(f"{name}: the {role} must be a tensor or a tuple of tensors, got {type(x).__name__}")
    return parts


def _alike(parts: Sequence[Any], template: Any) -> Any:
    """A tuple where the template is one, else the single part."""
    return tuple(parts) if isinstance(template, (tuple, list)) else parts[0]


class _Call:
    """One differentiable call: its inputs as variables of their own, and its outputs."""

    def __init__(self, func: Callable, inputs: Any, create_graph: bool, strict: bool, name: str) -> None:
        self.name, self.create_graph, self.strict = name, create_graph, strict
        self.inputs = [self._variable(x) for x in _as_tuple(inputs, "inputs", name)]
        self.result = func(*self.inputs)
        self.outputs = _as_tuple(self.result, "outputs of the function", name)
        for number, y in enumerate(self.outputs):
            if strict and not y.requires_grad:
                raise AutogradError(
                    f"{name}: output {number} of the user-provided function does not require gradients; in strict mode "
                    "outputs must be computed in a differentiable manner from the input"
                )

    def _variable(self, x: Tensor) -> Tensor:
        if self.create_graph and x.requires_grad:
            return variable(x)
        return x.detach().requires_grad_()

    def pulled(self, outputs: Sequence[Tensor], seeds: Sequence[Tensor], what: str, create: bool) -> list[Tensor]:
        """Gradients for all inputs; zeros (or an error, if strict) where there is no dependence."""
        pairs = [(y, v) for y, v in zip(outputs, seeds, strict=True) if y.requires_grad]
        found: Sequence[Any] = [None] * len(self.inputs)
        if pairs:
            ys, vs = zip(*pairs, strict=True)
            found = tape.grad(ys, self.inputs, vs, True, create, allow_unused=True)
        for number, g in enumerate(found):
            if g is None and self.strict:
                raise AutogradError(
                    f"{self.name}: {what} is independent of input {number}; this is not allowed in strict mode"
                )
        return [x._filled(0) if g is None else g for g, x in zip(found, self.inputs, strict=True)]

    def scalar(self) -> Tensor:
        """The only output, which must be one real number."""
        if len(self.outputs) != 1 or isinstance(self.result, (tuple, list)) or self.outputs[0].numel() != 1:
            shapes = [tuple(y.shape) for y in self.outputs]
            raise AutogradError(
                f"{self.name}: the function should return a single tensor with a single element, got shapes {shapes}"
            )
        return self.outputs[0]

    def finished(self, tensors: Any) -> Any:
        """Results as the caller may see them: attached only if create_graph."""
        if self.create_graph:
            return tensors
        return tuple(x.detach() for x in tensors) if isinstance(tensors, (tuple, list)) else tensors.detach()


def _vectors(v: Any, like: Sequence[Tensor], name: str, of: str) -> list[Tensor]:
    """The vector v, one part for each tensor of `like`; 1 if it may be left away."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise AutogradError(
                f"{name}: the vector v can only be None if the {of} of the function is a single tensor with a single "
                f"element, got shapes {[tuple(x.shape) for x in like]}"
            )
        return [like[0].detach()._filled(1)]
    parts = _as_tuple(v, "vector v", name)
    if len(parts) != len(like):
        raise AutogradError(f"{name}: v is a tuple of invalid length: should be {len(like)} but got {len(parts)}")
    for part, x in zip(parts, like, strict=True):
        if part.shape != x.shape:
            raise ShapeError(f"{name}: v has invalid size: should be {tuple(x.shape)} but got {tuple(part.shape)}")
    return list(parts)


def vjp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(f(x), vᵀJ)."""
    with enable_grad():
        call = _Call(func, inputs, create_graph, strict, "vjp")
        seeds = _vectors(v, call.outputs, "vjp", "output")
        found = call.pulled(call.outputs, seeds, "the output", create_graph)
    return call.finished(call.result), call.finished(_alike(found, inputs))


def jvp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(f(x), Jv), by reverse mode twice: u ↦ Jᵀu is linear, and its adjoint is v ↦ Jv."""
    with enable_grad():
        call = _Call(func, inputs, create_graph, strict, "jvp")
        tangents = _vectors(v, call.inputs, "jvp", "input")
        dummies = [y.detach()._filled(0).requires_grad_() for y in call.outputs]
        pulled = call.pulled(call.outputs, dummies, "the output", True)
        pairs = [(g, v) for g, v in zip(pulled, tangents, strict=True) if g.requires_grad]
        found: Sequence[Any] = [None] * len(dummies)
        if pairs:
            gs, vs = zip(*pairs, strict=True)
            found = tape.grad(gs, dummies, vs, True, create_graph, allow_unused=True)
        pushed = [u.detach() if p is None else p for p, u in zip(found, dummies, strict=True)]
    return call.finished(call.result), call.finished(_alike(pushed, call.result))


def jacobian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """∂f/∂x, shape (*output, *input) for each pair of an output and an input.

    `vectorize` computes all rows together with vmap instead of one after the other;
    strategy='forward-mode' (with vectorize) computes columns.
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise InvalidValueError(f"jacobian: strategy must be 'reverse-mode' or 'forward-mode', got {strategy!r}")
    if strategy == "forward-mode":
        return _forward_jacobian(func, inputs, create_graph, strict, vectorize)
    with enable_grad():
        call = _Call(func, inputs, create_graph, strict, "jacobian")
        blocks = [_alike(_rows(call, number, vectorize), inputs) for number in range(len(call.outputs))]
        blocks = [call.finished(block) for block in blocks]
    return _alike(blocks, call.result)


def _rows(call: _Call, number: int, vectorize: bool) -> list[Tensor]:
    """∂ output `number` / ∂ every input."""
    y = call.outputs[number]
    one = lambda seed: call.pulled([y], [seed], f"output {number} of the user-provided function", call.create_graph)
    seeds = basis(y)
    if vectorize or not y.numel():
        rows = vmap(one)(seeds)
    else:
        rows = [stacked(column) for column in zip(*(one(one_row(seeds, k)) for k in range(y.numel())), strict=True)]
    if call.strict and call.create_graph and not all(r.requires_grad for r in rows):
        raise AutogradError(
            "jacobian: the jacobian of the user-provided function is independent of an input; this is not allowed in "
            "strict mode when create_graph=True"
        )
    return [reshaped(r, (*y.shape, *x.shape)) for r, x in zip(rows, call.inputs, strict=True)]


def _forward_jacobian(func: Callable, inputs: Any, create_graph: bool, strict: bool, vectorize: bool) -> Any:
    if strict:
        raise AutogradError("jacobian: strict=True is not supported with strategy='forward-mode'; use reverse-mode")
    if not vectorize:
        raise UnsupportedError("jacobian: strategy='forward-mode' is only implemented for vectorize=True")
    args = _as_tuple(inputs, "inputs", "jacobian")
    single = not isinstance(inputs, (tuple, list))
    with set_grad_enabled(create_graph):
        return jacfwd(func, 0 if single else tuple(range(len(args))))(*args)


def hessian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """∂²f/∂x∂x of a function with one real result: the Jacobian of the gradient."""
    args = _as_tuple(inputs, "inputs", "hessian")

    def gradient(*xs: Tensor) -> tuple[Tensor, ...]:
        with enable_grad():
            call = _Call(func, xs, True, strict, "hessian")
            return tuple(call.pulled([call.scalar()], [call.scalar()._filled(1)], "the output", True))

    found = jacobian(gradient, args, create_graph, strict, vectorize, outer_jacobian_strategy)
    return found if isinstance(inputs, (tuple, list)) else found[0][0]


def vhp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(f(x), vᵀH) of a function with one real result."""
    with enable_grad():
        call = _Call(func, inputs, create_graph, strict, "vhp")
        vector = _vectors(v, call.inputs, "vhp", "input")
        gradient = call.pulled([call.scalar()], [call.scalar()._filled(1)], "the output", True)
        found = call.pulled(gradient, vector, "the jacobian", create_graph)
    return call.finished(call.result), call.finished(_alike(found, inputs))


def hvp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(f(x), Hv) of a function with one real result: the gradient's derivative along v."""
    with enable_grad():
        call = _Call(func, inputs, create_graph, strict, "hvp")
        vector = _vectors(v, call.inputs, "hvp", "input")

        def gradient(*xs: Tensor) -> tuple[Tensor, ...]:
            again = _Call(func, xs, True, strict, "hvp")
            return tuple(again.pulled([again.scalar()], [again.scalar()._filled(1)], "the output", True))

        call.scalar()
        _, found = jvp(gradient, tuple(call.inputs), tuple(vector), create_graph, strict)
    return call.finished(call.result), call.finished(_alike(found, inputs))
