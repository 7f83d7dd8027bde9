"""functorch as it was: models as functions of their parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import vmap
from ...func import functional_call, stack_module_state

__all__ = ["combine_state_for_ensemble", "make_functional", "make_functional_with_buffers", "vmap"]


def make_functional(model: Any, disable_autograd_tracking: bool = False) -> tuple[Callable, tuple[Any, ...]]:
    """f(params, *args) and the parameters of a model, as functorch gave them."""
    function, params, _ = make_functional_with_buffers(model, disable_autograd_tracking)
    return lambda params, *args, **kwargs: function(params, tuple(model.buffers()), *args, **kwargs), params


def make_functional_with_buffers(
    model: Any, disable_autograd_tracking: bool = False
) -> tuple[Callable, tuple[Any, ...], tuple[Any, ...]]:
    """f(params, buffers, *args), the parameters and the buffers of a model."""
    names, held = [n for n, _ in model.named_parameters()], [n for n, _ in model.named_buffers()]
    params = tuple(p.detach() if disable_autograd_tracking else p for p in model.parameters())

    def function(params: Sequence[Any], buffers: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        state = dict(zip(names, params, strict=True)) | dict(zip(held, buffers, strict=True))
        return functional_call(model, state, args, kwargs)

    return function, params, tuple(model.buffers())


def combine_state_for_ensemble(models: Sequence[Any]) -> tuple[Callable, tuple[Any, ...], tuple[Any, ...]]:
    """f(params, buffers, *args) for one of them, and the parameters and buffers of all, stacked."""
    function, _, _ = make_functional_with_buffers(models[0])
    params, buffers = stack_module_state(list(models))
    return function, tuple(params.values()), tuple(buffers.values())
