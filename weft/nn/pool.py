"""Pooling layers: one number for each window, for each cell of a grid, or for a whole map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..tensor import Tensor
from . import functional as F
from .module import Module

__all__ = [
    *(f"{kind}Pool{n}d" for kind in ("AdaptiveAvg", "AdaptiveMax", "Avg", "LP", "Max") for n in (1, 2, 3)),
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


def _tuple(value: Any, n: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * n


# ------------------------------------------------------------------------------------------- windows


class _MaxPool(Module):
    """Options of max pooling; `return_indices` adds the places of the maxima, for `MaxUnpool`."""

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
    """y[t] = max_k x[stride·t + dilation·k − padding]: (N, C, L) or (C, L) → (N, C, L′)."""

    function = F.max_pool1d


class MaxPool2d(_MaxPool):
    """The largest value in each window of an image: (N, C, H, W) or (C, H, W) → (N, C, H′, W′)."""

    function = F.max_pool2d


class MaxPool3d(_MaxPool):
    """The largest value in each window of a volume: (N, C, D, H, W) or (C, D, H, W) → (N, C, D′, H′, W′)."""

    function = F.max_pool3d


class _AvgPool(Module):
    """Options of average pooling in two and three dimensions."""

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
    """y[t] = mean_k x[stride·t + k − padding]: (N, C, L) or (C, L) → (N, C, L′)."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size, self.padding = _tuple(kernel_size, 1), _tuple(padding, 1)
        self.stride = self.kernel_size if stride is None else _tuple(stride, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    extra_repr = _AvgPool.extra_repr


class AvgPool2d(_AvgPool):
    """The mean of each window of an image: (N, C, H, W) or (C, H, W) → (N, C, H′, W′)."""

    function = F.avg_pool2d


class AvgPool3d(_AvgPool):
    """The mean of each window of a volume: (N, C, D, H, W) or (C, D, H, W) → (N, C, D′, H′, W′)."""

    function = F.avg_pool3d


class _LPPool(Module):
    """Options of power-average pooling."""

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
    """y = (Σ xᵖ)^(1/p) over each window: (N, C, L) or (C, L) → (N, C, L′)."""

    function = F.lp_pool1d


class LPPool2d(_LPPool):
    """y = (Σ xᵖ)^(1/p) over each window: (N, C, H, W) or (C, H, W) → (N, C, H′, W′)."""

    function = F.lp_pool2d


class LPPool3d(_LPPool):
    """y = (Σ xᵖ)^(1/p) over each window: (N, C, D, H, W) or (C, D, H, W) → (N, C, D′, H′, W′)."""

    function = F.lp_pool3d


# ------------------------------------------------------------------------------------------- adaptive


class _AdaptiveAvgPool(Module):
    """`output_size`: cells along each dimension; None keeps a dimension as it is."""

    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """The means of `output_size` equal stretches: (N, C, L) or (C, L) → (N, C, output_size)."""

    function = F.adaptive_avg_pool1d


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """The means of a grid of equal cells: (N, C, H, W) or (C, H, W) → (N, C, *output_size)."""

    function = F.adaptive_avg_pool2d


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """The means of a grid of equal cells: (N, C, D, H, W) or (C, D, H, W) → (N, C, *output_size)."""

    function = F.adaptive_avg_pool3d


class _AdaptiveMaxPool(Module):
    """`output_size`: cells along each dimension; `return_indices` adds the places of the maxima."""

    function: ClassVar[Callable[..., Any]]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return type(self).function(input, self.output_size, self.return_indices)

    extra_repr = _AdaptiveAvgPool.extra_repr


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The maxima of `output_size` equal stretches: (N, C, L) or (C, L) → (N, C, output_size)."""

    function = F.adaptive_max_pool1d


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The maxima of a grid of equal cells: (N, C, H, W) or (C, H, W) → (N, C, *output_size)."""

    function = F.adaptive_max_pool2d


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The maxima of a grid of equal cells: (N, C, D, H, W) or (C, D, H, W) → (N, C, *output_size)."""

    function = F.adaptive_max_pool3d


# ------------------------------------------------------------------------------------------- random windows


class _FractionalMaxPool(Module):
    """Options of fractional pooling: either `output_size`, or `output_ratio` between 0 and 1."""

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
        self.kernel_size, self.return_indices = _tuple(kernel_size, n), return_indices
        self.output_size = None if output_size is None else _tuple(output_size, n)
        self.output_ratio = None if output_ratio is None else _tuple(output_ratio, n)
        self.register_buffer("_random_samples", _random_samples)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return type(self).function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Max pooling over windows whose steps are random, so that any ratio of sizes is possible: (N, C, H, W)."""

    dimensions, function = 2, F.fractional_max_pool2d


class FractionalMaxPool3d(_FractionalMaxPool):
    """Max pooling over windows whose steps are random, so that any ratio of sizes is possible: (N, C, D, H, W)."""

    dimensions, function = 3, F.fractional_max_pool3d


# ------------------------------------------------------------------------------------------- the way back


class _MaxUnpool(Module):
    """Options of the max pooling that is to be undone."""

    dimensions: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        n = self.dimensions
        self.kernel_size, self.padding = _tuple(kernel_size, n), _tuple(padding, n)
        self.stride = self.kernel_size if stride is None else _tuple(stride, n)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return type(self).function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    extra_repr = _AvgPool.extra_repr


class MaxUnpool1d(_MaxUnpool):
    """Each maximum back to where `MaxPool1d(return_indices=True)` found it, 0 elsewhere: (N, C, L) → (N, C, L′)."""

    dimensions, function = 1, F.max_unpool1d


class MaxUnpool2d(_MaxUnpool):
    """Each maximum back to where `MaxPool2d` found it, 0 elsewhere: (N, C, H, W) → (N, C, H′, W′)."""

    dimensions, function = 2, F.max_unpool2d


class MaxUnpool3d(_MaxUnpool):
    """Each maximum back to where `MaxPool3d` found it, 0 elsewhere: (N, C, D, H, W) → (N, C, D′, H′, W′)."""

    dimensions, function = 3, F.max_unpool3d
