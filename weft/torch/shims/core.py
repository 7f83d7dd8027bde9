"""`torch._C`: the few inner names that programs of others touch; none of them does anything here."""

from __future__ import annotations

import contextlib
from typing import Any

import weft

__all__ = ["Generator", "TensorBase", "_TensorBase"]

Generator, _TensorBase, TensorBase, _TensorMeta = weft.Generator, weft.Tensor, weft.Tensor, type(weft.Tensor)


class Value:
    """A value of a graph of TorchScript; nothing is one."""


def _nothing(*args: Any, **options: Any) -> None:
    """Nothing to do."""


_log_api_usage_once = _get_tracing_state = _jit_set_profiling_executor = _jit_set_profiling_mode = _nothing
_jit_override_can_fuse_on_cpu = _jit_override_can_fuse_on_gpu = _jit_set_texpr_fuser_enabled = _nothing
_set_graph_executor_optimize = _set_worker_signal_handlers = _debug_set_autodiff_subgraph_inlining = _nothing


def _disabled_torch_function_impl(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The function itself: Weft hands no operations over."""
    return func(*args, **(kwargs or {}))


_has_cuda = _has_xpu = _has_mps = _has_mtia = False
_has_mkldnn = _has_distributed = True
DisableTorchFunctionSubclass = DisableTorchFunction = contextlib.nullcontext
_VariableFunctions = weft


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """(device, dtype, non_blocking, memory format) of the arguments of `Module.to`."""
    device, kind = kwargs.get("device"), kwargs.get("dtype")
    for value in args:
        if isinstance(value, weft.Tensor):
            device, kind = value.device, value.dtype
        elif isinstance(value, weft.dtype):
            kind = value
        elif isinstance(value, (str, weft.device, int)) and not isinstance(value, bool):
            device = value
    device = weft.device(device) if device is not None else None
    return device, kind, bool(kwargs.get("non_blocking")), kwargs.get("memory_format")


def _are_functorch_transforms_active() -> bool:
    """False: what a transform hands to Python are tensors like all others."""
    return False


def _cuda_isCurrentStreamCapturing() -> bool:
    """False: there is no card."""
    return False
