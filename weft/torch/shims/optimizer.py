"""`torch.optim.optimizer`: words that optimisers of others import."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import weft

__all__ = ["ParamsT", "required"]

ParamsT = Iterable[weft.Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, weft.Tensor]]


class _Required:
    """Stands for a hyper-parameter that has no default."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
