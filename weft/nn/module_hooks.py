"""Hooks of modules: registered, and at work before and after forward and on the gradients that pass on the way back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..autograd.function import Function
from ..tape.holders import global_hooks
from ..tape.node import Handle
from ..tensor import Tensor

if TYPE_CHECKING:
    from .module import Module

__all__ = [
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


def register_module_forward_hook(hook: Callable, *, with_kwargs: bool = False, always_call: bool = False) -> Handle:
    """Call `hook(module, args, output)` after the forward of every module."""
    table = global_hooks.setdefault("forward", OrderedDict())
    return Handle(table, (hook, {"with_kwargs": with_kwargs}))


def register_module_forward_pre_hook(hook: Callable) -> Handle:
    """Call `hook(module, args)` before the forward of every module."""
    return Handle(global_hooks.setdefault("forward_pre", OrderedDict()), (hook, {}))


def register_module_full_backward_hook(hook: Callable) -> Handle:
    """Call `hook(module, grad_input, grad_output)` for every module when the gradients of its inputs are known."""
    return Handle(global_hooks.setdefault("backward", OrderedDict()), (hook, {}))


register_module_backward_hook = register_module_full_backward_hook


def register_module_full_backward_pre_hook(hook: Callable) -> Handle:
    """Call `hook(module, grad_output)` for every module when the gradients of its outputs are known."""
    return Handle(global_hooks.setdefault("backward_pre", OrderedDict()), (hook, {}))


def register_module_parameter_registration_hook(hook: Callable) -> Handle:
    """Call `hook(module, name, parameter)` before a module takes a parameter; what it returns is taken instead."""
    return Handle(registration_hooks.setdefault("parameter", OrderedDict()), hook)


def register_module_buffer_registration_hook(hook: Callable) -> Handle:
    """Call `hook(module, name, buffer)` before a module takes a buffer; what it returns is taken instead."""
    return Handle(registration_hooks.setdefault("buffer", OrderedDict()), hook)


def register_module_module_registration_hook(hook: Callable) -> Handle:
    """Call `hook(module, name, submodule)` before a module takes a part; what it returns is taken instead."""
    return Handle(registration_hooks.setdefault("module", OrderedDict()), hook)


registration_hooks: dict[str, OrderedDict[int, Callable]] = {}


def registered(module: Module, kind: str, name: str, value: Any) -> Any:
    """What a module takes under a name, after the hooks that look at it."""
    for hook in registration_hooks.get(kind, {}).values():
        changed = hook(module, name, value)
        value = value if changed is None else changed
    return value


class ModuleHooks:
    """The part of `Module` that registers hooks on forward and on gradients."""

    def _add_hook(self, kind: str, hook: Callable, **options: Any) -> Handle:
        table = self.__dict__.setdefault("_hooks", {}).setdefault(kind, OrderedDict())
        prepend = options.pop("prepend", False)
        handle = Handle(table, (hook, options))
        if prepend:
            table.move_to_end(handle.id, last=False)
        return handle

    _forward_hooks = property(lambda self: self._hooks_by_kind("forward"))
    _forward_pre_hooks = property(lambda self: self._hooks_by_kind("forward_pre"))
    _backward_hooks = property(lambda self: self._hooks_by_kind("backward"))
    _backward_pre_hooks = property(lambda self: self._hooks_by_kind("backward_pre"))

    def _hooks_by_kind(self, kind: str) -> OrderedDict[int, Any]:
        """The hooks of a kind by number, for libraries that count or clear them."""
        return self.__dict__.setdefault("_hooks", {}).setdefault(kind, OrderedDict())

    def register_forward_pre_hook(self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False) -> Handle:
        """Call `hook(module, args)` before forward; what it returns replaces the arguments."""
        return self._add_hook("forward_pre", hook, prepend=prepend, with_kwargs=with_kwargs)

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> Handle:
        """Call `hook(module, args, output)` after forward; what it returns replaces the output."""
        return self._add_hook("forward", hook, prepend=prepend, with_kwargs=with_kwargs, always_call=always_call)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the inputs are known."""
        return self._add_hook("backward", hook, prepend=prepend)

    register_backward_hook = register_full_backward_hook

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """Call `hook(module, grad_output)` when the gradients of the outputs are known."""
        return self._add_hook("backward_pre", hook, prepend=prepend)


def _hooks_of(module: Module, kind: str) -> list[tuple[Callable, dict[str, Any]]]:
    return [*global_hooks.get(kind, {}).values(), *module.__dict__.get("_hooks", {}).get(kind, {}).values()]


def call_with_hooks(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    for hook, options in _hooks_of(module, "forward_pre"):
        if options.get("with_kwargs"):
            changed = hook(module, args, kwargs)
            if changed is not None:
                args, kwargs = changed
        else:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
    before, after = _hooks_of(module, "backward_pre"), _hooks_of(module, "backward")
    if before or after:
        output = _with_backward_hooks(module, args, kwargs, before, after)
    else:
        output = module.forward(*args, **kwargs)
    for hook, options in _hooks_of(module, "forward"):
        changed = hook(module, args, kwargs, output) if options.get("with_kwargs") else hook(module, args, output)
        output = output if changed is None else changed
    return output


def _with_backward_hooks(module: Module, args: Any, kwargs: Any, before: list[Any], after: list[Any]) -> Any:
    """Run forward between two identities whose gradients tell the hooks what passes.

    Where no input needs a gradient (a first layer), hooks get None for each as soon as the output has its gradient.
    """
    passed: dict[str, tuple[Any, ...]] = {}
    first = not any(isinstance(value, Tensor) and value.requires_grad for value in args)

    def entering(*grads: Any) -> tuple[Any, ...]:
        for hook, _ in after:
            changed = hook(module, grads, passed.get("output", ()))
            if changed is not None:
                grads = changed if isinstance(changed, tuple) else (changed,)
        return grads

    def leaving(*grads: Any) -> tuple[Any, ...]:
        for hook, _ in before:
            changed = hook(module, grads)
            if changed is not None:
                grads = changed if isinstance(changed, tuple) else (changed,)
        passed["output"] = grads
        if first:
            entering(*(None for _ in args))
        return grads

    args = _gate(args, entering)
    output = module.forward(*args, **kwargs)
    single = isinstance(output, Tensor)
    out = _gate((output,) if single else tuple(output), leaving)
    return out[0] if single else type(output)(out) if not hasattr(output, "_fields") else type(output)(*out)


def _gate(values: tuple[Any, ...], hook: Callable) -> tuple[Any, ...]:
    """Pass tensors on unchanged; on the way back their gradients go through `hook` together."""

    class Gate(Function):
        @staticmethod
        def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
            return tuple(t.view_as(t) for t in tensors)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return hook(*grads)

    positions = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
    if not positions:
        return values
    passed = Gate.apply(*(values[i] for i in positions))
    out = list(values)
    for i, tensor in zip(positions, passed if isinstance(passed, tuple) else (passed,), strict=True):
        out[i] = tensor
    return tuple(out)
