"""Gradients that are not those of the steps taken: straight through a hard decision, and through a
fixed point by the implicit function theorem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtypes import finfo
from ..errors import AutogradError, ShapeError
from ..ops.core.batching import largest, magnitude, variable
from ..tape import tape
from ..tape.modes import enable_grad, mode, unrecorded
from ..tensor import Tensor
from .batched import physical
from .function import Function, FunctionCtx

__all__ = ["fixed_point", "straight_through"]


class _StraightThrough(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(ctx: FunctionCtx, hard: Tensor, soft: Tensor) -> Tensor:
        return hard

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> Any:
        return None, g


def straight_through(hard: Tensor, soft: Tensor) -> Tensor:
    """The value of `hard` with the gradient of `soft` (Bengio, Léonard and Courville, 2013).

    For decisions that have no useful derivative of their own: y = hard, ∂y/∂soft = 1, ∂y/∂hard = 0.

    >>> import weft
    >>> x = weft.tensor([0.2, 0.7], requires_grad=True)
    >>> y = straight_through(x.round(), x)
    >>> (y * weft.tensor([2.0, 3.0])).sum().backward()
    >>> y.tolist(), x.grad.tolist()
    ([0.0, 1.0], [2.0, 3.0])
    """
    if hard.shape != soft.shape:
        raise ShapeError(
            f"straight_through: hard has shape {tuple(hard.shape)}, soft {tuple(soft.shape)}; they must be equal"
        )
    return _StraightThrough.apply(hard.detach(), soft)


# -------------------------------------------------------------------------------------- fixed points


def fixed_point(
    f: Callable,
    x0: Tensor,
    *params: Any,
    tol: float | None = None,
    max_iter: int = 1000,
) -> Tensor:
    """x* = f(x*, *params), found by iteration from x0, with its gradient by the implicit function theorem.

    From x* = f(x*, θ):  dx*/dθ = (I − ∂f/∂x)⁻¹ ∂f/∂θ, so a gradient g of x* gives

        w = g + (∂f/∂x)ᵀ w        (again a fixed point, found by iteration)
        gradient of θ = (∂f/∂θ)ᵀ w

    (Almeida 1987, Pineda 1987). Nothing of the iteration is kept. f must be a contraction near x*;
    the gradient by x0 is 0. Only what is passed in `params` gets a gradient. Iteration ends when no
    element changes by more than tol · (1 + |x|), by default 8 units in the last place; if that does
    not happen in `max_iter` steps, an error is raised. Derivatives of any order follow, since the
    backward pass is a fixed point too.

    >>> import weft
    >>> a = weft.tensor(2.0, dtype=weft.float64, requires_grad=True)
    >>> root = fixed_point(lambda x, a: (x + a / x) / 2, weft.ones((), dtype=weft.float64), a)
    >>> root.backward()
    >>> round(root.item(), 6), round(a.grad.item(), 6)  # √2 and 1 / (2√2)
    (1.414214, 0.353553)
    """
    if tol is None:
        tol = 8 * finfo(x0.dtype).eps
    return _FixedPoint.apply(f, tol, max_iter, x0, *params)


class _FixedPoint(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(ctx: FunctionCtx, f: Callable, tol: float, max_iter: int, x0: Tensor, *params: Any) -> Tensor:
        x = _iterated(lambda x: f(x, *params), x0.detach(), tol, max_iter)
        ctx.f, ctx.tol, ctx.max_iter = f, tol, max_iter
        ctx.others = [None if isinstance(p, Tensor) else p for p in params]
        ctx.save_for_backward(x, *(p for p in params if isinstance(p, Tensor)))
        return x

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> Any:
        x, *tensors = ctx.saved_tensors
        given = iter(tensors)
        params = [next(given) if p is None else p for p in ctx.others]
        w = fixed_point(_adjoint_step(ctx.f, params), g, g, x, *tensors, tol=ctx.tol, max_iter=ctx.max_iter)
        gradients = iter(_pulled(ctx.f, x, params, w, by_state=False))
        return None, None, None, None, *(next(gradients) if isinstance(p, Tensor) else None for p in params)


def _adjoint_step(f: Callable, params: list[Any]) -> Callable:
    """w ↦ g + (∂f/∂x)ᵀ w, as a function of w and of everything its fixed point depends on."""

    def step(w: Tensor, g: Tensor, x: Tensor, *tensors: Tensor) -> Tensor:
        given = iter(tensors)
        current = [next(given) if isinstance(p, Tensor) else p for p in params]
        return g + _pulled(f, x, current, w, by_state=True)[0]

    return step


def _pulled(f: Callable, x: Tensor, params: list[Any], w: Tensor, by_state: bool) -> list[Tensor]:
    """(∂f/∂x)ᵀ w, or (∂f/∂θ)ᵀ w for every tensor among the parameters."""
    attached = bool(mode.grad)
    with enable_grad():
        state = _variable(x, attached)
        current = [_variable(p, attached) if isinstance(p, Tensor) else p for p in params]
        y = f(state, *current)
        inputs = [state] if by_state else [p for p in current if isinstance(p, Tensor)]
        if not y.requires_grad or not inputs:
            return [v._filled(0) for v in inputs]
        return list(tape.grad(y, inputs, w, None, attached, allow_unused=True, materialize_grads=True))


def _variable(x: Tensor, attached: bool) -> Tensor:
    """x with a place of its own on the tape, so that derivatives by it are partial ones."""
    if attached and x.requires_grad:
        return variable(x)
    return x.detach().requires_grad_(x.is_floating_point() or x.is_complex())


def _iterated(step: Callable, x: Tensor, tol: float, max_iter: int) -> Tensor:
    """x, step(x), step(step(x)), … until nothing changes any more."""
    with unrecorded():
        for _ in range(max_iter):
            following = step(x)
            if following.shape != x.shape:
                raise ShapeError(
                    f"fixed_point: f turned shape {tuple(x.shape)} into {tuple(following.shape)}; it must keep it"
                )
            change = largest(physical(magnitude(following - x) - tol * magnitude(following)))
            x = following
            if change <= tol:
                return x
    raise AutogradError(
        f"fixed_point: no convergence to tol={tol} in {max_iter} steps (the last change was {change:.3g}); f must be a "
        "contraction: damp it, regularise its parameters, or raise tol or max_iter"
    )
