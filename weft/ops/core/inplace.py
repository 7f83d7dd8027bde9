"""Writing into a tensor's memory: all views see it, and the history of each tells of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import AutogradError, DtypeError, ShapeError
from ...refusal import reword, rewritten
from ...tape.interpreter import chosen, interpreter_of
from ...tape.modes import FORWARD, NEVER, mode
from ...tensor import Tensor

__all__ = ["in_place", "rebase", "update", "write", "written"]

new = object.__new__


def in_place(function: Callable, name: str) -> Callable:
    """The method `name` (with its trailing underscore) that writes `function(self, …)` into self."""

    @functools.wraps(function)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        try:
            return update(self, function, args, kwargs, name)
        except Exception as error:
            again = rewritten(error, name, (self, *args), kwargs)
            if again is not None and again[0][0] is self:
                return method(*again[0], **again[1])
            reword(error, name, (self, *args), kwargs)
            raise

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place version of `{name[:-1]}`."
    return method


def update(target: Tensor, function: Callable, args: Sequence[Any], kwargs: dict[str, Any], name: str) -> Tensor:
    """target ← function(target, *args, **kwargs), keeping the memory and rewriting the history."""
    interpreter = interpreter_of(target)
    if interpreter is not None:
        tracked = target._tracked(*args, *kwargs.values())
        source = interpreter.renewed(target) if tracked else target
        return write(target, function(source, *args, **kwargs), name)
    target._check_writable(name)
    source = target
    if target._tracked(*args, *kwargs.values()):
        source = new(Tensor)  # the old value under its old history: later writes do not touch it
        source.array = target.array.copy()
        source.node, source._needs_grad = target.node, target._needs_grad
        if target._tangents is not None:
            source._tangents = dict(target._tangents)
    return write(target, function(source, *args, **kwargs), name, checked=True)


def write(target: Tensor, value: Tensor, name: str, checked: bool = False) -> Tensor:
    """Copy `value` into the memory of `target`; every view sees it, and gradients follow it.

    `checked`: the target is known to be writable.
    """
    interpreter = chosen((target, value))
    if interpreter is not None:
        return interpreter.write(target, value, name)
    if not checked:
        target._check_writable(name)
    return written(target, value, name, _copy)


def _copy(target: Tensor, value: Tensor) -> None:
    np.copyto(target.array, value.array, casting="unsafe")


def written(target: Tensor, value: Tensor, name: str, copy: Callable[[Tensor, Tensor], None]) -> Tensor:
    """`write` to a target that is known to be writable, where `copy(target, value)` writes the memory itself."""
    if not dtypes.can_cast(value.dtype, target.dtype):
        raise DtypeError(
            f"{name}: result type {value.dtype} can't be cast to the desired output type {target.dtype}; "
            f"use the out-of-place form, or convert the tensor first"
        )
    if value.shape != target.shape:
        raise ShapeError(
            f"{name}: output with shape {list(target.shape)} doesn't match the broadcast shape {list(value.shape)}; "
            "the tensor written to cannot grow"
        )
    tracked = target._tracked(value)
    if tracked:
        _check_rebasable(target, name)
        if value.dtype is not target.dtype:
            value = value.to(target.dtype)
    copy(target, value)
    target._bump()
    if tracked:
        rebase(target, value)
    return target


def _check_rebasable(view: Tensor, name: str) -> None:
    """Refuse recorded writes through views whose making was not recorded, or that came several at once."""
    if view._origin is None or (view._origin == "no_grad" and not view._base._needs_grad):
        return
    what = (
        "a view created in no_grad mode is being modified inplace with grad mode enabled; do both inside or both "
        "outside of no_grad"
        if view._origin == "no_grad"
        else "this view is one of several that one function returned (unbind, split, chunk); such views cannot be "
        "modified inplace; index the tensor instead, or .clone() the view"
    )
    raise AutogradError(f"{name}: {what}")


def rebase(target: Tensor, value: Tensor) -> None:
    """Let the history of `target`, of the owner of its memory and of all its views tell of the write."""
    from ..shape.strided import overwritten, view_of_root, write_into_root

    root = target._base
    if root is None:
        _set_history(target, overwritten(target, value))
        root = target
    else:
        _set_history(root, write_into_root(root, target, value))
        _set_history(target, value if value._needs_grad else view_of_root(root, target))
    for reference in root._views or ():
        view = reference()
        if view is not None and view is not target and view._origin != "no_grad":
            _set_history(view, view_of_root(root, view))


def _set_history(tensor: Tensor, told: Tensor) -> None:
    """Give `tensor` the place of `told` on the tape; `retain_grad` follows the new value."""
    if tensor._retains:
        _move_retained(tensor, told.node)
    if mode.grad is FORWARD and tensor._is_grad_leaf():  # it stays a leaf, as under no_grad; its tangents change
        for running in mode.forward:
            running.move(tensor, told)
        return
    if mode.forward and told.node is not None and told.node._wanted == NEVER:
        mode.forward[0].adopt(tensor, tensor.node, tensor._needs_grad)
    tensor.node, tensor._needs_grad = told.node, told._needs_grad


def _move_retained(tensor: Tensor, node: Any) -> None:
    before = tensor.node.retained
    reference = next(r for r in before if r() is tensor)
    before.remove(reference)
    node.retain(reference)
