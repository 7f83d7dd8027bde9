"""Listening to a model while it runs: its calls one by one, and models that are a single chain of layers."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import weft

from ..errors import OptionError
from ..nn.container import Sequential
from ..nn.module import Module
from ..tensor import Tensor, wrap
from .flops import first_tensor

__all__ = ["Call", "chain", "evaluating", "is_layer", "listening", "named_module"]

PROBES = 16


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of a module: its name in the model, what it was given first and what it returned."""

    name: str
    module: Module
    input: Tensor
    output: Tensor


def is_layer(module: Module) -> bool:
    """A module without parts, and no empty container."""
    return next(iter(module.children()), None) is None and not isinstance(module, Sequential)


@contextlib.contextmanager
def evaluating(model: Module) -> Iterator[None]:
    """Evaluation mode inside, the modes of all parts as they were afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        yield
    finally:
        for module, training in modes:
            module.__dict__["training"] = training


@contextlib.contextmanager
def listening(model: Module, hear: Callable[[Call], Any], to: Callable[[Module], bool] = is_layer) -> Iterator[None]:
    """`hear` is told of every call of the modules chosen by `to`; a tensor it returns replaces the output."""
    handles = []
    for name, module in model.named_modules():
        if to(module):
            handles.append(module.register_forward_hook(_teller(name, hear), with_kwargs=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _teller(name: str, hear: Callable[[Call], Any]) -> Callable:
    def hook(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        given, made = first_tensor((*args, *kwargs.values())), first_tensor(output)
        return None if given is None or made is None else hear(Call(name, module, given, made))

    return hook


def calls(model: Module, *inputs: Any, to: Callable[[Module], bool] = is_layer) -> list[Call]:
    """The calls of one forward pass in evaluation mode, in the order in which they end."""
    heard: list[Call] = []
    with evaluating(model), listening(model, heard.append, to):
        model(*inputs)
    return heard


def chain(model: Module, x: Tensor, name: str) -> list[Call]:
    """The calls of a model in which each layer is given what the one before returned, reshaped at most.

    The model is run on noise of the shape and kind of x (N, …), so that values tell: an OptionError is raised where
    something else happens between two layers (a sum, a function that is no module).
    """
    heard: list[Call] = []
    noise = weft.Generator().manual_seed(0).normal((PROBES, *x.shape[1:]), x.array.dtype)
    x = wrap(noise * (1 + np.abs(x.array).max(initial=0)))
    with weft.no_grad(), evaluating(model), listening(model, heard.append):
        result = model(x)
    if not heard:
        raise OptionError(f"{name}: {type(model).__name__} called no layer; expected a chain such as nn.Sequential")
    made, after = x, "the input"
    for call in heard:
        _check_same(name, made, call.input, after, f"{call.name or 'the model'} ({type(call.module).__name__})")
        made, after = call.output, call.name
    _check_same(name, made, first_tensor(result), after, "the output")
    return heard


def _check_same(name: str, made: Tensor, given: Tensor | None, after: str, before: str) -> None:
    same = given is not None and (
        given is made or (given.numel() == made.numel() and np.array_equal(given.array.ravel(), made.array.ravel()))
    )
    if not same:
        raise OptionError(
            f"{name}: expected a chain of modules, but between {after} and {before} something is computed outside of "
            f"modules (a sum, a functional call); use modules such as nn.ReLU in the place of functions"
        )


def named_module(model: Module, layer: str | Module, name: str) -> Module:
    """A part of the model, given as such or by its name in `named_modules()`."""
    parts = dict(model.named_modules())
    found = layer if isinstance(layer, Module) else parts.get(layer)
    if found is None or all(found is not part for part in parts.values()):
        known = ", ".join(part for part in parts if part) or "none"
        raise OptionError(f"{name}: {layer!r} is no part of the model; its parts: {known}")
    return found
