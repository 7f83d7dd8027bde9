"""`autograd.grad`: gradients that are returned; with a batch of grad_outputs, many at once."""

from __future__ import annotations

from typing import Any

from ..tape import tape
from ..tensor import Tensor
from .batched import vmap

__all__ = ["grad"]


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Gradients of Σ⟨output, grad_output⟩ with respect to `inputs`, returned instead of accumulated.

    is_grads_batched: each of `grad_outputs` carries a batch at dimension 0, as do the gradients then
    """
    options = (retain_graph, create_graph, only_inputs, allow_unused, materialize_grads)
    if is_grads_batched:
        return _batched(outputs, inputs, grad_outputs, options)
    return tape.grad(outputs, inputs, grad_outputs, *options)


def _batched(outputs: Any, inputs: Any, grad_outputs: Any, options: tuple[Any, ...]) -> tuple[Any, ...]:
    unused: list[bool] = []

    def once(*seeds: Tensor) -> list[Tensor]:
        found = tape.grad(outputs, inputs, seeds, *options)
        unused[:] = [g is None for g in found]
        return [g for g in found if g is not None]

    seeds = grad_outputs if isinstance(grad_outputs, (list, tuple)) else (grad_outputs,)
    found = iter(vmap(once)(*seeds))
    return tuple(None if missing else next(found) for missing in unused)
