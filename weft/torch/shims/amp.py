"""`torch.amp`, `torch.cuda.amp`, `torch.cpu.amp`: casts to 16 bits around products, and scaled losses."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ... import amp
from ...amp import GradScaler as _GradScaler
from ...amp import get_autocast_dtype, is_autocast_enabled
from ...runtime.frames import level_outside

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "get_autocast_dtype", "is_autocast_enabled"]


class autocast(amp.autocast):  # PyTorch spells it in lower case
    """`weft.amp.autocast`; for a card that is not there it does nothing, after a warning, as in PyTorch."""

    def __init__(self, device_type: Any = "cpu", dtype: Any = None, enabled: bool = True, cache_enabled: Any = None):
        if str(device_type) != "cpu" and enabled:
            warnings.warn(f"autocast: {device_type!r} is not available, so nothing is cast", stacklevel=level_outside())
            enabled = False
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """`weft.amp.GradScaler`; for a card that is not there it scales nothing, after a warning, as in PyTorch."""

    def __init__(self, device: Any = "cuda", *args: Any, enabled: bool = True, **options: Any) -> None:
        if isinstance(device, (int, float)) and not isinstance(device, bool):  # torch.cuda.amp.GradScaler(init_scale)
            device, args = "cuda", (device, *args)
        if str(device).partition(":")[0] != "cpu" and enabled:
            warnings.warn(f"GradScaler: {device!r} is not available, so nothing is scaled", stacklevel=level_outside())
            enabled = False
        super().__init__("cpu", *args, enabled=enabled, **options)


def custom_fwd(fwd: Callable | None = None, *, device_type: str = "cpu", cast_inputs: Any = None) -> Callable:
    """For `forward` of an `autograd.Function`: under autocast, inputs are cast to `cast_inputs` and nothing else is."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        if cast_inputs is None or not is_autocast_enabled():
            return fwd(*args, **kwargs)
        with amp.autocast(enabled=False):
            return fwd(*(amp.cast(value, cast_inputs) for value in args), **kwargs)

    return forward


def custom_bwd(bwd: Callable | None = None, *, device_type: str = "cpu") -> Callable:
    """For `backward` of an `autograd.Function`: it runs as it is."""
    return functools.partial(custom_bwd, device_type=device_type) if bwd is None else bwd
