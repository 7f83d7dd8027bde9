"""`torch.cuda.amp`: the older spelling, without the word for the device."""

from __future__ import annotations

from typing import Any

from . import amp
from .amp import GradScaler, custom_bwd, custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):  # PyTorch spells it in lower case
    """`torch.amp.autocast('cuda', …)`."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)
