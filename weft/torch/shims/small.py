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


_names = (container_abcs, RemovableHandle, __version__)


# torch.utils.hooks
def unserializable_hook(f: Any) -> Any:
    """The hook itself."""
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Hooks are left out of files, silently."""
