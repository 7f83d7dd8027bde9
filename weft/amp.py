"""Automatic mixed precision: within `autocast`, products are computed in 16 bits; `GradScaler` scales losses.

    >>> with weft.amp.autocast(dtype=weft.bfloat16):
    ...     y = weft.nn.Linear(3, 2)(weft.ones(1, 3))
    >>> y.dtype
    weft.bfloat16

Linear layers, matrix products, convolutions and attention take their inputs and weights rounded to `dtype` and give results
of that type; sums inside are accumulated in float32. Losses (cross entropy, with or without logits) are computed in
float32, recurrent layers stay in the type of their weights, and everything else is in the type of what comes to it. Gradients
arrive in the type of each parameter. In compiled code, on processors with AVX512-BF16, matrix products in bfloat16 are about
twice as fast as in float32, and whole training steps of transformers 1.5 times. All else (float16, eager code, convolutions,
the insides of attention, other processors) is computed in float32 and rounded: it shows what mixed precision does to a training and is not faster.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .dtypes import bfloat16, float16
from .errors import DeviceError, OptionError
from .ops.core.casting import cast
from .runtime.lazy import later as _later
from .tape.modes import mode, switches
from .train.precision import GradScaler

__all__ = ["GradScaler", "autocast", "cast", "get_autocast_dtype", "is_autocast_enabled"]


class autocast:  # PyTorch spells it in lower case
    """Within it (or in a function that it decorates), products are computed in `dtype`: bfloat16 or float16.

    `enabled=False` switches an outer autocast off. Blocks nest; each thread has its own.
    """

    def __init__(
        self, device_type: str = "cpu", dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if str(device_type) != "cpu":
            raise DeviceError(f"autocast: {device_type!r} is not available in this build; use device_type='cpu'")
        self.kind = bfloat16 if dtype is None else dtype
        if enabled and self.kind not in (bfloat16, float16):
            raise OptionError(f"autocast: dtype must be bfloat16 or float16, got {dtype}")
        self.enabled, self.outer = enabled, []

    def __enter__(self) -> autocast:
        self.outer.append(mode.casting)
        mode.casting = self.kind if self.enabled else None
        switches.casting += 1
        return self

    def __exit__(self, *_: object) -> None:
        mode.casting = self.outer.pop()
        switches.casting -= 1

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return within


def is_autocast_enabled(device_type: str = "cpu") -> bool:
    """Whether products are computed in 16 bits here."""
    return mode.casting is not None and str(device_type) == "cpu"


def get_autocast_dtype(device_type: str = "cpu") -> Any:
    """The type of the open autocast, or the one that it would have."""
    return bfloat16 if mode.casting is None else mode.casting


__getattr__, __dir__ = _later(__name__)
