"""Layers that extend signals, images and volumes at their borders."""

from __future__ import annotations

from typing import Any, ClassVar

from ...errors import InvalidValueError
from ...tensor import Tensor
from .. import functional as F
from ..functional._arguments import spread
from ..module import Module

__all__ = [
    f"{kind}Pad{n}d" for kind in ("Circular", "Constant", "Reflection", "Replication", "Zero") for n in (1, 2, 3)
]


class _Pad(Module):
    """Something around a tensor.

    padding: one number for all sides, or (before, after) of the last dimension, then of the one before it …
    """

    dimensions: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = spread(padding, 2 * self.dimensions)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """Fill with a number: works on any number of leading dimensions.

    value: the number
    """

    mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """`value` around (…, L).

    >>> nn.ConstantPad1d((1, 2), 7.0)(weft.tensor([[1.0, 2.0]]))
    tensor([[7., 1., 2., 7., 7.]])
    """

    dimensions = 1


class ConstantPad2d(_ConstantPad):
    """`value` around (…, H, W).

    >>> nn.ConstantPad2d((1, 0, 0, 1), 7.0)(weft.tensor([[[1.0, 2.0]]]))
    tensor([[[7., 1., 2.],
             [7., 7., 7.]]])
    """

    dimensions = 2


class ConstantPad3d(_ConstantPad):
    """`value` around (…, D, H, W).

    >>> nn.ConstantPad3d(1, 7.0)(weft.ones(1, 2, 2, 2)).shape
    weft.Size([1, 4, 4, 4])
    """

    dimensions = 3


class _ZeroPad(_ConstantPad):
    """Fill with 0."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    extra_repr = _Pad.extra_repr


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """0 around (…, L).

    >>> nn.ZeroPad1d((0, 2))(weft.tensor([[1.0, 2.0]]))
    tensor([[1., 2., 0., 0.]])
    """


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """0 around (…, H, W).

    >>> nn.ZeroPad2d(1)(weft.tensor([[[1.0]]]))
    tensor([[[0., 0., 0.],
             [0., 1., 0.],
             [0., 0., 0.]]])
    """


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """0 around (…, D, H, W).

    >>> nn.ZeroPad3d((0, 0, 1, 1, 2, 2))(weft.ones(1, 2, 2, 2)).shape
    weft.Size([1, 6, 4, 2])
    """


class _ReflectionPad(_Pad):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPad):
    """Mirror at the border, which is not repeated: (N, C, L) or (C, L).

    >>> nn.ReflectionPad1d(2)(weft.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 2., 1., 2., 3., 2., 1.]])
    """

    dimensions = 1


class ReflectionPad2d(_ReflectionPad):
    """Mirror at the border, which is not repeated: (N, C, H, W) or (C, H, W).

    >>> nn.ReflectionPad2d((1, 1, 0, 0))(weft.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[2., 1., 2., 3., 2.]]])
    """

    dimensions = 2


class ReflectionPad3d(_ReflectionPad):
    """Mirror at the border, which is not repeated: (N, C, D, H, W) or (C, D, H, W).

    >>> nn.ReflectionPad3d(1)(weft.ones(1, 2, 3, 4)).shape
    weft.Size([1, 4, 5, 6])
    """

    dimensions = 3


class _ReplicationPad(_Pad):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPad):
    """Repeat the border: (N, C, L) or (C, L).

    >>> nn.ReplicationPad1d(2)(weft.tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 1., 1., 2., 3., 3., 3.]])
    """

    dimensions = 1


class ReplicationPad2d(_ReplicationPad):
    """Repeat the border: (N, C, H, W) or (C, H, W).

    >>> nn.ReplicationPad2d((0, 1, 1, 0))(weft.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 2., 2.],
             [1., 2., 2.]]])
    """

    dimensions = 2


class ReplicationPad3d(_ReplicationPad):
    """Repeat the border: (N, C, D, H, W) or (C, D, H, W).

    >>> nn.ReplicationPad3d(1)(weft.ones(1, 2, 3, 4)).shape
    weft.Size([1, 4, 5, 6])
    """

    dimensions = 3


class _CircularPad(_Pad):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        least = self.dimensions + 1
        if input.ndim not in (least, least + 1):
            raise InvalidValueError(f"expected {least}D or {least + 1}D input (got {input.ndim}D input)")
        return F.pad(input, self.padding, self.mode)


class CircularPad1d(_CircularPad):
    """Go on at the other end: (N, C, L) or (C, L).

    >>> nn.CircularPad1d((1, 2))(weft.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 1., 2., 3., 1., 2.]])
    """

    dimensions = 1


class CircularPad2d(_CircularPad):
    """Go on at the other side: (N, C, H, W) or (C, H, W).

    >>> nn.CircularPad2d((0, 1, 0, 1))(weft.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    tensor([[[1., 2., 1.],
             [3., 4., 3.],
             [1., 2., 1.]]])
    """

    dimensions = 2


class CircularPad3d(_CircularPad):
    """Go on at the other side: (N, C, D, H, W) or (C, D, H, W).

    >>> nn.CircularPad3d(1)(weft.ones(1, 2, 3, 4)).shape
    weft.Size([1, 4, 5, 6])
    """

    dimensions = 3
