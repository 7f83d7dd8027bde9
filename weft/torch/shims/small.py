"""Small modules of PyTorch's that programs import one or two names from."""

from __future__ import annotations

import builtins
import collections.abc as container_abcs
import math
import types
from collections.abc import Sequence
from typing import Any

import weft

from ...tape.node import Handle as RemovableHandle
from ...utils.pytree import TreeSpec, register_pytree_node, tree_flatten, tree_leaves, tree_map, tree_unflatten
from ..version import VERSION as __version__

__all__ = ["Device", "Number", "RemovableHandle", "cuda", "debug", "git_version", "hip", "inf", "int_classes"]
__all__ += ["container_abcs", "string_classes"]

# torch.version
cuda = hip = xpu = None
debug, git_version = False, "weft"

# torch.types
Number = builtins.int | builtins.float | builtins.bool
Device = Any
_int, _float, _bool, _dtype, _device = builtins.int, builtins.float, builtins.bool, weft.dtype, weft.device
_size = _layout = _qscheme = Any
FileLike = Storage = Any

# torch._six
string_classes, int_classes, inf, nan = (str, bytes), int, math.inf, math.nan
PY2, PY3, PY37 = False, True, True


def with_metaclass(meta: type, *bases: type) -> type:
    """A base class made by `meta`."""
    return types.new_class("temporary_class", bases, {"metaclass": meta})


# torch.utils._pytree
_register_pytree_node = register_pytree_node
LeafSpec, PyTree = TreeSpec, Any


def tree_any(predicate: Any, tree: Any) -> bool:
    """Whether `predicate` holds for a leaf."""
    return any(map(predicate, tree_leaves(tree)))


def tree_all(predicate: Any, tree: Any) -> bool:
    """Whether `predicate` holds for every leaf."""
    return all(map(predicate, tree_leaves(tree)))


def tree_map_only(kind: Any, function: Any, tree: Any) -> Any:
    """`function` of the leaves of a class, the others as they are."""
    return tree_map(lambda leaf: function(leaf) if isinstance(leaf, kind) else leaf, tree)


# torch._utils
def _flatten_dense_tensors(tensors: Sequence[Any]) -> Any:
    return weft.cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Sequence[Any]) -> tuple[Any, ...]:
    parts = flat.split([tensor.numel() for tensor in tensors])
    return tuple(part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True))


# torch.overrides
def has_torch_function(args: Any) -> bool:
    """False: operations of Weft are not handed over."""
    return False


has_torch_function_unary = has_torch_function_variadic = lambda *args: False


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor."""
    return isinstance(inp, weft.Tensor)


def handle_torch_function(public_api: Any, relevant_args: Any, *args: Any, **kwargs: Any) -> Any:
    """The function itself."""
    return public_api(*args, **kwargs)


_tree_names = (tree_flatten, tree_unflatten, tree_map, tree_leaves, container_abcs, RemovableHandle, __version__)
