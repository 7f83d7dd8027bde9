"""Layers that extend signals, images and volumes at their borders."""

from __future__ import annotations

from typing import Any, ClassVar

from ..tensor import Tensor
from . import functional as F
from .module import Module

__all__ = [
    f"{kind}Pad{n}d" for kind in ("Circular", "Constant", "Reflection", "Replication", "Zero") for n in (1, 2, 3)
]


class _Pad(Module):
    """`padding`: one number for all sides, or (before, after) of the last dimension, then of the one before it …"""

    dimensions: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * (2 * self.dimensions)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """Fill with a number: works on any number of leading dimensions."""

    mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """`value` around (…, L)."""

    dimensions = 1


class ConstantPad2d(_ConstantPad):
    """`value` around (…, H, W)."""

    dimensions = 2


class ConstantPad3d(_ConstantPad):
    """`value` around (…, D, H, W)."""

    dimensions = 3


class ZeroPad1d(ConstantPad1d):
    """0 around (…, L)."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    extra_repr = _Pad.extra_repr


class ZeroPad2d(ConstantPad2d):
    """0 around (…, H, W)."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    extra_repr = _Pad.extra_repr


class ZeroPad3d(ConstantPad3d):
    """0 around (…, D, H, W)."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    extra_repr = _Pad.extra_repr


class _ReflectionPad(_Pad):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPad):
    """Mirror at the border, which is not repeated: (N, C, L) or (C, L)."""

    dimensions = 1


class ReflectionPad2d(_ReflectionPad):
    """Mirror at the border, which is not repeated: (N, C, H, W) or (C, H, W)."""

    dimensions = 2


class ReflectionPad3d(_ReflectionPad):
    """Mirror at the border, which is not repeated: (N, C, D, H, W) or (C, D, H, W)."""

    dimensions = 3


class _ReplicationPad(_Pad):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPad):
    """Repeat the border: (N, C, L) or (C, L)."""

    dimensions = 1


class ReplicationPad2d(_ReplicationPad):
    """Repeat the border: (N, C, H, W) or (C, H, W)."""

    dimensions = 2


class ReplicationPad3d(_ReplicationPad):
    """Repeat the border: (N, C, D, H, W) or (C, D, H, W)."""

    dimensions = 3


class _CircularPad(_Pad):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        least = self.dimensions + 1
        if input.ndim not in (least, least + 1):
            raise ValueError(f"expected {least}D or {least + 1}D input (got {input.ndim}D input)")
        return F.pad(input, self.padding, self.mode)


class CircularPad1d(_CircularPad):
    """Go on at the other end: (N, C, L) or (C, L)."""

    dimensions = 1


class CircularPad2d(_CircularPad):
    """Go on at the other side: (N, C, H, W) or (C, H, W)."""

    dimensions = 2


class CircularPad3d(_CircularPad):
    """Go on at the other side: (N, C, D, H, W) or (C, D, H, W)."""

    dimensions = 3
