"""Writing into a tensor's memory: all views see it, and the history of each tells of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..errors import DtypeError, ShapeError
from ..tensor import Tensor

new = object.__new__


def in_place(function: Callable, name: str) -> Callable:
    """The method `name` (with its trailing underscore) that writes `function(self, …)` into self."""

    @functools.wraps(function)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return update(self, function, args, kwargs, name)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place version of `{name[:-1]}`."
    return method


def update(target: Tensor, function: Callable, args: Sequence[Any], kwargs: dict[str, Any], name: str) -> Tensor:
    """target ← function(target, *args, **kwargs), keeping the memory and rewriting the history."""
    if target._interpreter is not None:
        return target._interpreter.write(target, function(target, *args, **kwargs), name)
    target._check_writable(name)
    source = target
    if target._tracked(*args, *kwargs.values()):
        source = new(Tensor)  # the old value under its old history: later writes do not touch it
        source.array = target.array.copy()
        source.node, source._needs_grad = target.node, target._needs_grad
    return write(target, function(source, *args, **kwargs), name, checked=True)


def write(target: Tensor, value: Tensor, name: str, checked: bool = False) -> Tensor:
    """Copy `value` into the memory of `target`; every view sees it, and gradients follow it."""
    if not checked:
        target._check_writable(name)
    if value._interpreter is not None:
        return value._interpreter.write(target, value, name)
    if not dtypes.can_cast(value.dtype, target.dtype):
        raise DtypeError(
            f"{name}: result type {value.dtype} can't be cast to the desired output type {target.dtype}; "
            f"use the out-of-place form, or convert the tensor first"
        )
    if value.array.shape != target.array.shape:
        raise ShapeError(
            f"{name}: output with shape {list(target.shape)} doesn't match the broadcast shape {list(value.shape)}; "
            "the tensor written to cannot grow"
        )
    tracked = target._tracked(value)
    if tracked and value.dtype is not target.dtype:
        value = value.to(target.dtype)
    np.copyto(target.array, value.array, casting="unsafe")
    target._bump()
    if tracked:
        rebase(target, value)
    return target


def rebase(target: Tensor, value: Tensor) -> None:
    """Let the history of `target`, of the owner of its memory and of all its views tell of the write."""
    from .view import view_of_root, write_into_root

    root = target._base
    if root is None:
        root, fresh = target, value
    else:
        fresh = write_into_root(root, target, value)
        target.node, target._needs_grad = value.node, value._needs_grad
    root.node, root._needs_grad = fresh.node, fresh._needs_grad
    for reference in root._views or ():
        view = reference()
        if view is not None and view is not target:
            renewed = view_of_root(root, view)
            view.node, view._needs_grad = renewed.node, renewed._needs_grad
