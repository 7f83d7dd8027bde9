"""The temporal convolutional network: dilated causal convolutions in residual blocks (Bai, Kolter, Koltun 2018)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ... import nn
from ...nn.utils.parametrizations import weight_norm
from ...tensor import Tensor

__all__ = ["TCN", "TemporalBlock"]


class TemporalBlock(nn.Module):
    """y = ReLU(x + f(x)), f twice: causal convolution with normed weights, ReLU, dropout.

    A 1×1 convolution carries x over where the channels differ. Shape: (B, C_in, T) → (B, C_out, T)
    """

    def __init__(self, inputs: int, outputs: int, kernel_size: int, dilation: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv1 = weight_norm(nn.CausalConv1d(inputs, outputs, kernel_size, dilation=dilation))
        self.conv2 = weight_norm(nn.CausalConv1d(outputs, outputs, kernel_size, dilation=dilation))
        self.dropout = nn.Dropout(dropout)
        self.downsample = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.dropout(self.conv1(x).relu())
        y = self.dropout(self.conv2(y).relu())
        return ((x if self.downsample is None else self.downsample(x)) + y).relu()


class TCN(nn.Module):
    """Blocks with dilations 1, 2, 4, … and a linear map of every place: y_t depends on x_{t−R+1} … x_t only.

    R = 1 + 2 (K − 1)(2ᴸ − 1) for L blocks of kernel size K: `receptive_field`.
    channels: of the blocks; out_features: of the outputs, None leaves the last block's channels
    Shape: (B, T, in_features) → (B, T, out_features)

    >>> model = TCN(1, [16, 16, 16], 1, kernel_size=3)
    >>> model.receptive_field
    29
    """

    def __init__(
        self,
        in_features: int,
        channels: Sequence[int],
        out_features: int | None = None,
        *,
        kernel_size: int = 2,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        pairs = itertools.pairwise([in_features, *channels])
        self.network = nn.Sequential(
            *(TemporalBlock(a, b, kernel_size, 2**level, dropout) for level, (a, b) in enumerate(pairs))
        )
        self.output = nn.Identity() if out_features is None else nn.Linear(channels[-1], out_features)
        self.receptive_field = 1 + 2 * (kernel_size - 1) * (2 ** len(channels) - 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.network(x.transpose(1, 2))  # (B, T, C) → (B, C, T)
        return self.output(y.transpose(1, 2))  # (B, C, T) → (B, T, out_features)
