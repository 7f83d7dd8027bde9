"""Gradients by the adjoint equation, solved backwards in time: memory does not grow with the number of steps
(Pontryagin 1962; Chen et al. 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft

from .. import nn
from ..autograd import Function
from ..errors import ArgumentError
from ..tensor import Tensor
from .solve import odeint

__all__ = ["odeint_adjoint"]


def odeint_adjoint(
    func: Callable[[Tensor, Any], Any],
    y0: Any,
    t: Tensor,
    *,
    rtol: float = 1e-7,
    atol: float = 1e-9,
    method: str | None = None,
    options: dict[str, Any] | None = None,
    adjoint_rtol: float | None = None,
    adjoint_atol: float | None = None,
    adjoint_method: str | None = None,
    adjoint_options: dict[str, Any] | None = None,
    adjoint_params: Sequence[Tensor] | None = None,
) -> Any:
    """Like `odeint`, but the gradient comes from a second solution, from the last time back to the first:

        da/dt = −aᵀ ∂f/∂y,   dL/dθ = ∫ aᵀ ∂f/∂θ dt,   a(T) = ∂L/∂y(T)

    together with y itself, so that nothing of the way there is kept. It is the gradient of the equation, not of the steps:
    both agree as far as rtol and atol let them.

    adjoint_params: what gets a gradient besides y0 and t; by default the parameters of func, if it is a module
    adjoint_…: for the second solution, by default as for the first

    >>> rate = weft.tensor(2.0, dtype=weft.float64, requires_grad=True)
    >>> one, times = weft.ones(1, dtype=weft.float64), weft.tensor([0.0, 1.0], dtype=weft.float64)
    >>> odeint_adjoint(lambda t, y: -rate * y, one, times, adjoint_params=[rate])[-1].sum().backward()
    >>> round(rate.grad.item(), 5)  # −e⁻²
    -0.13534
    """
    if adjoint_params is None:
        if not isinstance(func, nn.Module):
            raise ArgumentError("odeint_adjoint: func is no module; pass adjoint_params, or () for none")
        adjoint_params = list(func.parameters())
    params = [p for p in adjoint_params if p.requires_grad]
    alone = isinstance(y0, Tensor)
    start = [y0] if alone else list(y0)
    ahead = {"rtol": rtol, "atol": atol, "method": method, "options": options}
    back = {
        "rtol": rtol if adjoint_rtol is None else adjoint_rtol,
        "atol": atol if adjoint_atol is None else adjoint_atol,
        "method": method if adjoint_method is None else adjoint_method,
        "options": options if adjoint_options is None else adjoint_options,
    }
    field = (lambda t, ys: (func(t, ys[0]),)) if alone else (lambda t, ys: tuple(func(t, tuple(ys))))
    found = _Adjoint.apply(field, ahead, back, len(start), t, *start, *params)
    return found[0] if alone else tuple(found)


class _Adjoint(Function):
    @staticmethod
    def forward(ctx: Any, field: Callable, ahead: dict, back: dict, count: int, t: Tensor, *tensors: Tensor) -> Any:
        ys = odeint(field, tensors[:count], t, **ahead)
        ctx.field, ctx.back, ctx.count, ctx.params = field, back, count, tensors[count:]
        ctx.save_for_backward(t, *ys)
        return tuple(ys)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        t, *ys = ctx.saved_tensors
        a, slopes, times = _swept(ctx, t, ys, gradients)
        return None, None, None, None, times, *a, *slopes


def _swept(
    ctx: Any, t: Tensor, ys: list[Tensor], gradients: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """From the last time to the first: gradients of y0, of the parameters and of the times."""
    count, params = ctx.count, ctx.params

    def field(s: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        y, a = state[:count], state[count : 2 * count]
        slope, pulled = _pulled(ctx.field, s, y, params, a)
        return (*slope, *(-v for v in pulled[1:]), -pulled[0].reshape(()))  # y, a, θ, t

    def interval(carry: tuple, row: tuple) -> tuple[tuple, Tensor]:
        a, slopes, moved = carry
        late, early, y, g = row
        a = tuple(x + v for x, v in zip(a, g, strict=True))
        there = _dot(ctx.field(late, y), g)
        state = (*y, *a, *slopes, moved - there)
        last = [part[-1] for part in odeint(field, state, weft.stack([late, early]), **ctx.back)]
        end = 2 * count + len(params)
        return (tuple(last[count : 2 * count]), tuple(last[2 * count : end]), last[end]), there

    zero = weft.zeros((), dtype=t.dtype)
    start = (tuple(weft.zeros_like(y[0]) for y in ys), tuple(weft.zeros_like(p) for p in params), zero)
    rows = (t[1:], t[:-1], tuple(y[1:] for y in ys), tuple(g[1:] for g in gradients))
    (a, slopes, moved), at_times = weft.scan(interval, start, rows, reverse=True)
    a = [x + g[0] for x, g in zip(a, gradients, strict=True)]
    return a, list(slopes), weft.cat([moved.reshape(1), at_times])


def _dot(x: Sequence[Tensor], y: Sequence[Tensor]) -> Tensor:
    return sum(((a * b).sum() for a, b in zip(x, y, strict=True)), start=0)


def _pulled(field: Callable, t: Tensor, y: Sequence[Tensor], params: Sequence[Tensor], a: Sequence[Tensor]) -> Any:
    """f(t, y), and aᵀ ∂f by t, every part of y and every parameter."""
    with weft.enable_grad():
        t = t.detach().requires_grad_()
        y = [x.detach().requires_grad_() for x in y]
        slope = field(t, y)
        wanted = [t, *y, *params]
        moved = [(v, g) for v, g in zip(slope, a, strict=True) if v.requires_grad]  # the others are constants
        if not moved:
            return [x.detach() for x in slope], [weft.zeros_like(x) for x in wanted]
        outputs, seeds = zip(*moved, strict=True)
        pulled = weft.autograd.grad(outputs, wanted, seeds, allow_unused=True, materialize_grads=True)
    return [x.detach() for x in slope], pulled
