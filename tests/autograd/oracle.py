"""Runs one function of (library, tensors) in PyTorch and in Weft and compares everything it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.autograd.functional
import torch.func

import weft
import weft.func


def given(library: Any, tree: Any) -> Any:
    """NumPy arrays in a tree as tensors of a library."""
    if isinstance(tree, np.ndarray):
        return library.tensor(tree)
    if isinstance(tree, (tuple, list)):
        return type(tree)(given(library, x) for x in tree)
    if isinstance(tree, dict):
        return {k: given(library, v) for k, v in tree.items()}
    return tree


def plain(tree: Any) -> Any:
    """Tensors in a tree as NumPy arrays (and whether they are attached), containers as lists."""
    if isinstance(tree, (torch.Tensor, weft.Tensor)):
        return tree.requires_grad, np.array(tree.detach().numpy())
    if isinstance(tree, (tuple, list)):
        return [plain(x) for x in tree]
    if isinstance(tree, dict):
        return {k: plain(v) for k, v in tree.items()}
    return tree


def compare(ours: Any, theirs: Any, path: str = "result", rtol: float = 1e-9) -> None:
    if isinstance(theirs, tuple):
        assert ours[1].shape == theirs[1].shape, f"{path}: shape {ours[1].shape}, PyTorch {theirs[1].shape}"
        assert ours[1].dtype == theirs[1].dtype, f"{path}: {ours[1].dtype}, PyTorch {theirs[1].dtype}"
        np.testing.assert_allclose(ours[1], theirs[1], rtol, 1e-10, err_msg=path)
        assert ours[0] == theirs[0], f"{path}: requires_grad {ours[0]}, PyTorch {theirs[0]}"
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), f"{path}: {len(ours)} parts, PyTorch {len(theirs)}"
        for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            compare(a, b, f"{path}[{k}]", rtol)
    elif isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for k in theirs:
            compare(ours[k], theirs[k], f"{path}[{k!r}]", rtol)
    else:
        assert ours == theirs, f"{path}: {ours!r}, PyTorch {theirs!r}"


def same(function: Callable, *arrays: Any, rtol: float = 1e-9) -> None:
    """`function(library, *tensors)` must return the same in both libraries."""
    ours = plain(function(weft, *given(weft, arrays)))
    theirs = plain(function(torch, *given(torch, arrays)))
    compare(ours, theirs, rtol=rtol)


def same_error(function: Callable, *arrays: Any) -> str:
    """Both libraries must raise, ours an instance of PyTorch's class; returns our message."""
    try:
        function(torch, *given(torch, arrays))
    except Exception as error:
        theirs = type(error)
    else:
        raise AssertionError("PyTorch does not raise")
    try:
        function(weft, *given(weft, arrays))
    except Exception as error:
        assert isinstance(error, theirs) or isinstance(error, (RuntimeError, ValueError)), (theirs, error)
        return str(error)
    raise AssertionError(f"Weft does not raise, PyTorch raises {theirs.__name__}")
