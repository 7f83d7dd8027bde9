"""Layers that rearrange or resample space: up-sampling, shuffles, sliding blocks."""

from __future__ import annotations

from typing import Any

from ...tensor import Tensor
from .. import functional as F
from ..module import Module

__all__ = [
    "ChannelShuffle",
    "Fold",
    "PixelShuffle",
    "PixelUnshuffle",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


class Upsample(Module):
    """Resample images, signals or volumes to other sizes.

    Shape: (N, C, L), (N, C, H, W) or (N, C, D, H, W) → the same with other spatial sizes

    size: the sizes to reach, one number or one for each dimension
    scale_factor: or by what to multiply them
    mode: 'nearest', 'linear' (signals), 'bilinear', 'bicubic' (images), 'trilinear' (volumes)
    align_corners: whether the centres of the corner elements stay in place, rather than their outer edges
    recompute_scale_factor: whether scale_factor is first rounded to the ratio of whole sizes

    >>> nn.Upsample(scale_factor=2)(weft.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 1., 2., 2.]]])
    >>> nn.Upsample(size=(4, 6), mode="bilinear")(weft.ones(1, 3, 2, 2)).shape
    weft.Size([1, 3, 4, 6])
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, (tuple, list)):
            scale_factor = tuple(float(factor) for factor in scale_factor)
        self.scale_factor = float(scale_factor) if isinstance(scale_factor, (int, float)) else scale_factor
        self.mode, self.align_corners, self.recompute_scale_factor = mode, align_corners, recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        size = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Each pixel repeated: (N, C, H, W) → (N, C, H′, W′).

    >>> nn.UpsamplingNearest2d(scale_factor=2)(weft.ones(1, 1, 2, 3)).shape
    weft.Size([1, 1, 4, 6])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Linear in both directions, corners on corners: (N, C, H, W) → (N, C, H′, W′).

    >>> nn.UpsamplingBilinear2d(size=(1, 3))(weft.tensor([[[[0.0, 1.0]]]]))
    tensor([[[[0.0000, 0.5000, 1.0000]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PixelShuffle(Module):
    """Channels spread over space: (…, C·r², H, W) → (…, C, H·r, W·r).

    upscale_factor: r

    >>> nn.PixelShuffle(2)(weft.arange(4.0).reshape(1, 4, 1, 1))
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Space gathered into channels: (…, C, H·r, W·r) → (…, C·r², H, W).

    downscale_factor: r

    >>> nn.PixelUnshuffle(2)(weft.ones(1, 3, 8, 8)).shape
    weft.Size([1, 12, 4, 4])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Channels interleaved across groups: channel g·k + i of (N, groups·k, …) goes to i·groups + g.

    groups: into how many groups the channels fall

    >>> nn.ChannelShuffle(2)(weft.arange(6.0).reshape(1, 6, 1)).flatten()
    tensor([0., 3., 1., 4., 2., 5.])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class _Blocks(Module):
    """The geometry of sliding blocks.

    kernel_size: the sizes of a block
    dilation: the step between its elements
    padding: zeros on each side
    stride: the step from block to block; each of the four is one number, or one for each dimension
    """

    def __init__(self, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Unfold(_Blocks):
    """Sliding blocks as columns: (N, C, H, W) → (N, C·K_h·K_w, number of blocks).

    >>> nn.Unfold(2)(weft.arange(9.0).reshape(1, 1, 3, 3))[0, :, 0]
    tensor([0., 1., 3., 4.])
    """

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__(kernel_size, dilation, padding, stride)

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(_Blocks):
    """Columns summed back into place, the transpose of `Unfold`: (N, C·K_h·K_w, blocks) → (N, C, *output_size).

    output_size: the sizes of the image

    >>> blocks = nn.Unfold(2)(weft.ones(1, 1, 3, 3))
    >>> nn.Fold((3, 3), 2)(blocks)[0, 0]
    tensor([[1., 2., 1.],
            [2., 4., 2.],
            [1., 2., 1.]])
    """

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"
