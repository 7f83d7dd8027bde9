"""What `torch` itself has beyond Weft's names."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any

import weft

from ... import dtypes
from ...errors import ArgumentError, ConditionError, OutOfMemoryError
from ..inner import Future
from ..version import VERSION as __version__
from ..version import TorchVersion
from .amp import GradScaler, autocast, get_autocast_dtype, is_autocast_enabled
from .cuda import Event, Stream
from .library import ops
from .saving import load, save

__all__ = [
    "Event",
    "Future",
    "GradScaler",
    "OutOfMemoryError",
    "Stream",
    "TorchVersion",
    "__version__",
    "autocast",
    "channels_last_3d",
    "compile",
    "fork_rng",
    "get_autocast_dtype",
    "get_num_interop_threads",
    "is_autocast_enabled",
    "is_warn_always_enabled",
    "layout",
    "load",
    "memory_format",
    "ops",
    "range",
    "save",
    "set_default_tensor_type",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_warn_always",
    "typename",
]

DeviceObjType = weft.device
memory_format = layout = str  # Weft's are plain words
sparse_csc, sparse_bsr, sparse_bsc, jagged = "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"  # named, never made
channels_last_3d = "channels_last_3d"
_counts = {"interop": 1}


def _assert(condition: Any, message: str) -> None:
    """`assert`, as a function."""
    if not condition:
        raise ConditionError(message)


def compile(model: Callable | None = None, *, fullgraph: bool = False, disable: bool = False, **options: Any) -> Any:
    """`weft.compile`, which takes PyTorch's options; what cannot be traced runs as Python unless `fullgraph` is True."""
    if model is None:
        return lambda model: compile(model, fullgraph=fullgraph, disable=disable, **options)
    if disable:
        return model
    return weft.compile(model, fullgraph=fullgraph, fallback="error" if fullgraph else "eager", **options)


def set_default_tensor_type(t: Any) -> None:
    """Set the default element type by the name of a class of tensors, 'torch.DoubleTensor'; those of cards mean the CPU."""
    name = t if isinstance(t, str) else getattr(t, "__name__", str(t))
    kinds = {"FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16"}
    last = name.rpartition(".")[2]
    if last not in kinds:
        raise ArgumentError(f"set_default_tensor_type: expected one of {', '.join(kinds)}, got {name!r}")
    if ".cuda." in name:
        weft.set_default_device("cuda")
    dtypes.set_default_dtype(getattr(weft, kinds[last]))


def typename(obj: Any) -> str:
    """The name of the class of anything; of a tensor its type, as `Tensor.type` gives it."""
    if isinstance(obj, weft.Tensor):
        return obj.type().replace("weft.", "torch.")
    kind = obj if isinstance(obj, type) else type(obj)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def range(start: float, end: float | None = None, step: float = 1, **options: Any) -> Any:
    """start, start + step …, the end included."""
    if end is None:
        start, end = 0, start
    return weft.arange(start, end + step / 2, step, **{"dtype": weft.get_default_dtype(), **options})


def get_num_interop_threads() -> int:
    """What `set_num_interop_threads` was told; Weft runs one operation at a time."""
    return _counts["interop"]


def set_num_interop_threads(number: int) -> None:
    """Remembered only."""
    _counts["interop"] = number


def set_flush_denormal(mode: bool) -> bool:
    """False: numbers below the smallest normal one are kept."""
    return False


def set_warn_always(b: bool) -> None:
    """Remembered by nobody: Weft warns once for each line."""


def is_warn_always_enabled() -> bool:
    """Whether the same warning comes at every call."""
    return False


def is_distributed(tensor: Any) -> bool:
    """Whether a tensor is a part of one over several processes."""
    return False


# Sizes are plain numbers.
SymInt, SymFloat, SymBool = int, float, bool
sym_int, sym_float, sym_max, sym_min, sym_not, sym_sum = int, float, max, min, operator.not_, sum
has_mkl = has_lapack = has_openmp = has_spectral = True  # what they stand for is computed by Weft


def is_autocast_cache_enabled() -> bool:
    """Whether casts of weights are kept: each is made when it is asked for."""
    return False


def clear_autocast_cache() -> None:
    """Nothing is kept."""


def is_autocast_cpu_enabled() -> bool:
    """`is_autocast_enabled('cpu')`."""
    return is_autocast_enabled()


def get_autocast_cpu_dtype() -> Any:
    """The type that products are cast to."""
    return get_autocast_dtype("cpu")


get_autocast_gpu_dtype = get_autocast_cpu_dtype


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """`autograd.set_detect_anomaly` under its inner name."""
    weft.autograd.set_detect_anomaly(mode, check_nan)


def get_deterministic_debug_mode() -> int:
    """0: results never depend on the order of work."""
    return 0


def set_deterministic_debug_mode(debug_mode: Any) -> None:
    """Remembered by nobody."""


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """False: there is nothing to warn of."""
    return False


def is_vulkan_available() -> bool:
    """False."""
    return False


def _shape_as_tensor(x: Any) -> Any:
    return weft.tensor(list(x.shape), dtype=weft.int64)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **options: Any) -> Iterator[None]:
    """Random numbers drawn within it leave the stream outside where it is."""
    state = weft.get_rng_state()
    try:
        yield
    finally:
        if enabled:
            weft.set_rng_state(state)
