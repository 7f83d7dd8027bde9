"""Convolutions that PyTorch leaves to its users: causal, and depth-wise separable."""

from __future__ import annotations

from typing import Any

from ...tensor import Tensor
from .. import functional as F
from ..module import Module
from ..modules.conv import Conv1d, Conv2d

__all__ = ["CausalConv1d", "DepthwiseSeparableConv2d"]


class CausalConv1d(Conv1d):
    """y[o, t] = b[o] + Σ_{c,k} w[o, c, k] · x[c, t − dilation·(K − 1 − k)]: never looks ahead (N3, causal convolution).

    dilation·(K − 1) zeros go before the sequence and none behind it, so the output is as long as the input (with
    stride 1). Weights, state dict and initial values are those of `Conv1d`. Shape: (N, C_in, L) → (N, C_out, L)

    kernel_size: K, how many steps back it looks (times the dilation)
    stride: the step from one output to the next
    dilation: the step between the inputs that it looks at

    >>> nn.CausalConv1d(1, 1, 3)(weft.ones(1, 1, 6)).shape
    weft.Size([1, 1, 6])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, "valid", dilation, groups, bias, "zeros", device, dtype
        )

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(F.pad(input, (*self._reach(), 0)), self.weight, self.bias)


class DepthwiseSeparableConv2d(Module):
    """One kernel for each input channel (`depthwise`), then a 1×1 convolution over channels (`pointwise`).

    N2 §6.3.2: K²·C_in + C_in·C_out weights instead of K²·C_in·C_out; the map is a `Conv2d` whose kernel factorises,
    w[o, c, i, j] = p[o, c] · d[c, i, j]. Shape: (N, C_in, H, W) → (N, C_out, H′, W′)

    in_channels, out_channels: C_in and C_out
    kernel_size, stride, padding, dilation, padding_mode: of the depth-wise part, as in `Conv2d`
    bias: whether both parts have one

    >>> nn.DepthwiseSeparableConv2d(4, 8, 3, padding=1)(weft.ones(2, 4, 6, 6)).shape
    weft.Size([2, 8, 6, 6])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.depthwise = Conv2d(
            in_channels,
            in_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            in_channels,
            False,
            padding_mode,
            device,
            dtype,
        )
        self.pointwise = Conv2d(in_channels, out_channels, 1, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor) -> Tensor:
        return self.pointwise(self.depthwise(input))
