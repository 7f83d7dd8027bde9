"""Pooling layers: one number for each window, for each cell of a grid, or for a whole map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ...errors import InvalidValueError
from ...tensor import Tensor
from .. import functional as F
from ..functional._arguments import spread
from ..module import Module

__all__ = [
    *(f"{kind}Pool{n}d" for kind in ("AdaptiveAvg", "AdaptiveMax", "Avg", "LP", "Max") for n in (1, 2, 3)),
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


# ------------------------------------------------------------------------------------------- windows


class _MaxPool(Module):
    """Options of max pooling, each one number, or one for each dimension.

    kernel_size: the sizes of the window
    stride: the step from window to window; None: kernel_size, so that windows do not overlap
    padding: how far the first window reaches over the border, where −∞ stands
    dilation: the step between the elements of a window
    return_indices: return also the places of the maxima, for `MaxUnpool`
    ceil_mode: whether a last window that reaches over the end counts
    """

    function: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        return type(self).function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """y[t] = max_k x[stride·t + dilation·k − padding]. Shape: (N, C, L) or (C, L) → (N, C, L′).

    >>> nn.MaxPool1d(2)(weft.tensor([[1.0, 3.0, 2.0, 5.0]]))
    tensor([[3., 5.]])
    """

    function = F.max_pool1d


class MaxPool2d(_MaxPool):
    """The largest value in each window of an image. Shape: (N, C, H, W) or (C, H, W) → (N, C, H′, W′).

    >>> nn.MaxPool2d(3, stride=2, padding=1)(weft.ones(2, 4, 8, 8)).shape
    weft.Size([2, 4, 4, 4])
    """

    function = F.max_pool2d


class MaxPool3d(_MaxPool):
    """The largest value in each window of a volume. Shape: (N, C, D, H, W) or (C, D, H, W) → (N, C, D′, H′, W′).

    >>> nn.MaxPool3d((1, 2, 2))(weft.ones(2, 4, 3, 8, 8)).shape
    weft.Size([2, 4, 3, 4, 4])
    """

    function = F.max_pool3d


class _AvgPool(Module):
    """Options of average pooling, each one number, or one for each dimension.

    kernel_size: the sizes of the window
    stride: the step from window to window; None: kernel_size
    padding: how far the first window reaches over the border, where 0 stands
    ceil_mode: whether a last window that reaches over the end counts
    count_include_pad: whether the zeros of the padding are counted in the mean
    divisor_override: divide the sum by this number instead of the count
    """

    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(Module):
    """y[t] = mean_k x[stride·t + k − padding]. Shape: (N, C, L) or (C, L) → (N, C, L′).

    kernel_size: the length of the window
    stride: the step from window to window; None: kernel_size
    padding: how far the first window reaches over the border, where 0 stands
    ceil_mode: whether a last window that reaches over the end counts
    count_include_pad: whether the zeros of the padding are counted in the mean

    >>> nn.AvgPool1d(2)(weft.tensor([[1.0, 3.0, 2.0, 5.0]]))
    tensor([[2.0000, 3.5000]])
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size, self.padding = spread(kernel_size, 1), spread(padding, 1)
        self.stride = self.kernel_size if stride is None else spread(stride, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    extra_repr = _AvgPool.extra_repr


class AvgPool2d(_AvgPool):
    """The mean of each window of an image. Shape: (N, C, H, W) or (C, H, W) → (N, C, H′, W′).

    >>> nn.AvgPool2d(2)(weft.ones(2, 4, 8, 8)).shape
    weft.Size([2, 4, 4, 4])
    """

    function = F.avg_pool2d


class AvgPool3d(_AvgPool):
    """The mean of each window of a volume. Shape: (N, C, D, H, W) or (C, D, H, W) → (N, C, D′, H′, W′).

    >>> nn.AvgPool3d(2)(weft.ones(2, 4, 4, 8, 8)).shape
    weft.Size([2, 4, 2, 4, 4])
    """

    function = F.avg_pool3d


class _LPPool(Module):
    """Options of power-average pooling.

    norm_type: p; 1 sums, ∞ takes the maximum
    kernel_size: the sizes of the window
    stride: the step from window to window; None: kernel_size
    ceil_mode: whether a last window that reaches over the end counts
    """

    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """y = (Σ xᵖ)^(1/p) over each window. Shape: (N, C, L) or (C, L) → (N, C, L′).

    >>> nn.LPPool1d(2, 2)(weft.tensor([[3.0, 4.0, 0.0, 1.0]]))
    tensor([[5., 1.]])
    """

    function = F.lp_pool1d


class LPPool2d(_LPPool):
    """y = (Σ xᵖ)^(1/p) over each window. Shape: (N, C, H, W) or (C, H, W) → (N, C, H′, W′).

    >>> nn.LPPool2d(2, 2)(weft.ones(1, 1, 4, 4))[0, 0]
    tensor([[2., 2.],
            [2., 2.]])
    """

    function = F.lp_pool2d


class LPPool3d(_LPPool):
    """y = (Σ xᵖ)^(1/p) over each window. Shape: (N, C, D, H, W) or (C, D, H, W) → (N, C, D′, H′, W′).

    >>> nn.LPPool3d(1, 2)(weft.ones(1, 1, 2, 2, 2)).item()
    8.0
    """

    function = F.lp_pool3d


# ------------------------------------------------------------------------------------------- adaptive


class _AdaptiveAvgPool(Module):
    """Options of adaptive average pooling.

    output_size: cells along each dimension, one number or one each; None keeps a dimension as it is
    """

    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """The means of equal stretches. Shape: (N, C, L) or (C, L) → (N, C, output_size).

    >>> nn.AdaptiveAvgPool1d(2)(weft.tensor([[1.0, 3.0, 2.0, 4.0]]))
    tensor([[2., 3.]])
    """

    function = F.adaptive_avg_pool1d


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """The means of a grid of equal cells. Shape: (N, C, H, W) or (C, H, W) → (N, C, *output_size).

    >>> nn.AdaptiveAvgPool2d((1, None))(weft.ones(2, 4, 7, 9)).shape
    weft.Size([2, 4, 1, 9])
    """

    function = F.adaptive_avg_pool2d


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """The means of a grid of equal cells. Shape: (N, C, D, H, W) or (C, D, H, W) → (N, C, *output_size).

    >>> nn.AdaptiveAvgPool3d(2)(weft.ones(2, 4, 5, 6, 7)).shape
    weft.Size([2, 4, 2, 2, 2])
    """

    function = F.adaptive_avg_pool3d


class _AdaptiveMaxPool(Module):
    """Options of adaptive max pooling.

    output_size: cells along each dimension, one number or one each; None keeps a dimension as it is
    return_indices: return also the places of the maxima
    """

    function: ClassVar[Callable[..., Any]]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return type(self).function(input, self.output_size, self.return_indices)

    extra_repr = _AdaptiveAvgPool.extra_repr


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The maxima of equal stretches. Shape: (N, C, L) or (C, L) → (N, C, output_size).

    >>> nn.AdaptiveMaxPool1d(2)(weft.tensor([[1.0, 3.0, 2.0, 4.0]]))
    tensor([[3., 4.]])
    """

    function = F.adaptive_max_pool1d


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The maxima of a grid of equal cells. Shape: (N, C, H, W) or (C, H, W) → (N, C, *output_size).

    >>> nn.AdaptiveMaxPool2d(1)(weft.ones(2, 4, 7, 9)).shape
    weft.Size([2, 4, 1, 1])
    """

    function = F.adaptive_max_pool2d


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The maxima of a grid of equal cells. Shape: (N, C, D, H, W) or (C, D, H, W) → (N, C, *output_size).

    >>> nn.AdaptiveMaxPool3d(2)(weft.ones(2, 4, 5, 6, 7)).shape
    weft.Size([2, 4, 2, 2, 2])
    """

    function = F.adaptive_max_pool3d


# ------------------------------------------------------------------------------------------- random windows


class _FractionalMaxPool(Module):
    """Options of fractional pooling.

    kernel_size: the sizes of the window
    output_size: the sizes of the output
    output_ratio: or their ratio to those of the input, between 0 and 1
    return_indices: return also the places of the maxima, for `MaxUnpool`
    _random_samples: the random numbers that place the windows, one for each dimension of each channel: (N, C, 2 or 3)
    """

    dimensions: ClassVar[int]
    function: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        n, name = self.dimensions, type(self).__name__
        self.kernel_size, self.return_indices = spread(kernel_size, n), return_indices
        self.output_size = None if output_size is None else spread(output_size, n)
        self.output_ratio = None if output_ratio is None else spread(output_ratio, n)
        self.register_buffer("_random_samples", _random_samples)
        if output_size is None and output_ratio is None:
            raise InvalidValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise InvalidValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise InvalidValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return type(self).function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Max pooling over windows whose steps are random, so that any ratio of sizes is possible: (N, C, H, W).

    >>> nn.FractionalMaxPool2d(2, output_ratio=0.7)(weft.ones(1, 3, 10, 10)).shape
    weft.Size([1, 3, 7, 7])
    """

    dimensions, function = 2, F.fractional_max_pool2d


class FractionalMaxPool3d(_FractionalMaxPool):
    """Max pooling over windows whose steps are random, so that any ratio of sizes is possible: (N, C, D, H, W).

    >>> nn.FractionalMaxPool3d(2, output_size=3)(weft.ones(1, 3, 5, 5, 5)).shape
    weft.Size([1, 3, 3, 3, 3])
    """

    dimensions, function = 3, F.fractional_max_pool3d


# ------------------------------------------------------------------------------------------- the way back


class _MaxUnpool(Module):
    """Options of the max pooling that is to be undone.

    kernel_size: the sizes of its window
    stride: its step from window to window; None: kernel_size
    padding: how far its first window reached over the border
    """

    dimensions: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        n = self.dimensions
        self.kernel_size, self.padding = spread(kernel_size, n), spread(padding, n)
        self.stride = self.kernel_size if stride is None else spread(stride, n)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return type(self).function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    extra_repr = _AvgPool.extra_repr


class MaxUnpool1d(_MaxUnpool):
    """Each maximum back to where `MaxPool1d(return_indices=True)` found it, 0 elsewhere: (N, C, L) → (N, C, L′).

    >>> y, places = nn.MaxPool1d(2, return_indices=True)(weft.tensor([[1.0, 3.0, 5.0, 2.0]]))
    >>> nn.MaxUnpool1d(2)(y, places)
    tensor([[0., 3., 5., 0.]])
    """

    dimensions, function = 1, F.max_unpool1d


class MaxUnpool2d(_MaxUnpool):
    """Each maximum back to where `MaxPool2d` found it, 0 elsewhere: (N, C, H, W) → (N, C, H′, W′).

    >>> y, places = nn.MaxPool2d(2, return_indices=True)(weft.ones(1, 1, 4, 4))
    >>> nn.MaxUnpool2d(2)(y, places).sum()
    tensor(4.)
    """

    dimensions, function = 2, F.max_unpool2d


class MaxUnpool3d(_MaxUnpool):
    """Each maximum back to where `MaxPool3d` found it, 0 elsewhere: (N, C, D, H, W) → (N, C, D′, H′, W′).

    >>> y, places = nn.MaxPool3d(2, return_indices=True)(weft.ones(1, 1, 4, 4, 4))
    >>> nn.MaxUnpool3d(2)(y, places).shape
    weft.Size([1, 1, 4, 4, 4])
    """

    dimensions, function = 3, F.max_unpool3d
