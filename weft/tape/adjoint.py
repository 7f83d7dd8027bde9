"""The tangent of one operation from its gradient formula alone: forward mode where a kind has no rule of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import tape
from .modes import FORWARD, mode
from .node import counter
from .tape import edge_of

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = ["by_adjoint"]


def by_adjoint(formula: Callable, out: Any, tangents: Sequence[Tensor | None]) -> Any:
    """Jt of one operation from its gradient formula u ↦ Jᵀu: that is linear in u, and its own adjoint is t ↦ Jt.

    `out` is the output or a tuple of them, as is what comes back; `formula` returns one gradient for each tangent.
    """
    first, record, mode.grad = next(counter), mode.grad, True
    try:
        starts = [_start(o) for o in (out if isinstance(out, tuple) else (out,))]
        found = formula(starts if isinstance(out, tuple) else starts[0])
        pairs = [(g, t) for g, t in zip(found, tangents, strict=True) if g is not None and t is not None]
        pairs = [(g, t) for g, t in pairs if g.requires_grad]
    finally:
        mode.grad = record
    if not pairs:
        return None
    gradients, seeds = zip(*pairs, strict=True)
    floating = [start for start in starts if start.requires_grad]
    pushed = iter(tape.grad(gradients, floating, seeds, bool(record), record, allow_unused=True))
    pushed = [next(pushed) if start.requires_grad else None for start in starts]
    if record is FORWARD:  # outer tangents depend on the nodes that keep them: the collector is not waited for
        for node in tape.collect(map(edge_of, gradients)):
            if node.order >= first:
                node._tangents = None
    return pushed if isinstance(out, tuple) else pushed[0]


def _start(out: Tensor) -> Tensor:
    start = out._filled(0)
    start._running = [False]  # transforms are not to take it for a variable of somebody's
    return start.requires_grad_() if start.is_floating_point() or start.is_complex() else start
