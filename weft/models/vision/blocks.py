"""Blocks that vision models share: convolution + normalisation + activation, dropped branches, initial values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor

__all__ = [
    "ConvNormActivation",
    "LayerNorm2d",
    "Permute",
    "StochasticDepth",
    "conv1x1",
    "conv3x3",
    "fill",
    "he_fan_out",
    "make_divisible",
]

F = nn.functional
Maker = Callable[..., nn.Module]


def conv3x3(inputs: int, outputs: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Conv2d:
    """A 3×3 convolution without bias that keeps the size: (B, inputs, H, W) → (B, outputs, H/stride, W/stride)."""
    return nn.Conv2d(inputs, outputs, 3, stride, padding=dilation, dilation=dilation, groups=groups, bias=False)


def conv1x1(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    """A 1×1 convolution without bias, one linear map for every pixel."""
    return nn.Conv2d(inputs, outputs, 1, stride, bias=False)


class ConvNormActivation(nn.Sequential):
    """activation(norm(conv x)), torchvision's `Conv2dNormActivation`: the convolution is part 0, the norm part 1.

    The size is kept at stride 1 unless a padding is given; there is a bias only without a norm.
    Shape: (B, in_channels, H, W) → (B, out_channels, H/stride, W/stride)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int = 3,
        stride: int = 1,
        padding: int | None = None,
        groups: int = 1,
        norm_layer: Maker | None = nn.BatchNorm2d,
        activation_layer: Maker | None = nn.ReLU,
        bias: bool | None = None,
    ) -> None:
        padding = (kernel_size - 1) // 2 if padding is None else padding
        bias = norm_layer is None if bias is None else bias
        conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding, groups=groups, bias=bias)
        norm = () if norm_layer is None else (norm_layer(out_channels),)
        super().__init__(conv, *norm, *(() if activation_layer is None else (activation_layer(),)))


class Permute(nn.Module):
    """`x.permute(dims)` as a layer."""

    def __init__(self, dims: tuple[int, ...]) -> None:
        super().__init__()
        self.dims = tuple(dims)

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(self.dims)

    def extra_repr(self) -> str:
        return f"dims={self.dims}"


class LayerNorm2d(nn.LayerNorm):
    """Layer normalisation over the channels of every pixel: (B, C, H, W) → the same."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)  # (B, H, W, C) and back


class StochasticDepth(nn.Module):
    """In training, whole examples of a residual branch become 0 with probability p, the others x / (1 − p).

    Huang et al. 2016; torchvision's layer of this name: mode "row" draws for every example, "batch" once for all.
    Shape: (B, *) → the same
    """

    random_in_training = True

    def __init__(self, p: float, mode: str = "row") -> None:
        super().__init__()
        if not 0 <= p <= 1 or mode not in ("row", "batch"):
            raise OptionError(f"StochasticDepth: expected 0 <= p <= 1 and mode 'row' or 'batch', got {p}, {mode!r}")
        self.p, self.mode = p, mode

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return input
        rows = input.shape[0] if self.mode == "row" else 1
        kept = weft.ones(rows, *(1,) * (input.ndim - 1), dtype=input.dtype)  # (B, 1, …)
        return input * F.dropout(kept, self.p)

    def extra_repr(self) -> str:
        return f"p={self.p}, mode={self.mode}"


def make_divisible(channels: float, divisor: int = 8) -> int:
    """The nearest multiple of the divisor, one step up where that would lose more than a tenth (MobileNet).

    >>> make_divisible(24 * 0.75), make_divisible(16 * 0.6)
    (24, 16)
    """
    nearest = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return nearest if nearest >= 0.9 * channels else nearest + divisor


# ------------------------------------------------------------------------------------------- initial values

he_fan_out = partial(nn.init.kaiming_normal_, mode="fan_out", nonlinearity="relu")


def fill(
    model: nn.Module,
    kind: type[nn.Module] | tuple[type[nn.Module], ...],
    weight: Callable[[Tensor], Tensor] | None = None,
    bias: Callable[[Tensor], Tensor] | None = nn.init.zeros_,
) -> None:
    """Set weights and biases of all layers of a kind by the given rules; None leaves them as they are."""
    for layer in model.modules():
        if isinstance(layer, kind):
            if weight is not None:
                weight(layer.weight)
            if bias is not None and layer.bias is not None:
                bias(layer.bias)
