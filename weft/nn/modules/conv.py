"""Convolutions over 1, 2 or 3 spatial dimensions, transposed convolutions, and their lazy forms.

As in all of deep learning these are cross-correlations (N2 §6.1.3); `nn.filters.convolution` flips the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import weft

from ...errors import InvalidValueError, ShapeError
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..functional._arguments import spread
from ..lazy import LazyModuleMixin
from ..module import Module
from ..parameter import Parameter, UninitializedParameter

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
PADDING_NAMES = ("valid", "same", "full")


class _ConvNd(Module):
    """What convolutions and transposed convolutions share: options, weights and their initial values.

    Weights and biases start as U(±1/√(C_in / groups · K)), K the number of places of a kernel.

    in_channels, out_channels: C_in and C_out
    kernel_size: K, the sizes of the kernel; this and the options below are one number, or one for each dimension
    stride: the step from one place of the kernel to the next
    dilation: the step between the elements of the kernel
    groups: into how many groups the channels fall; each sees only its own, and groups = C_in is a depth-wise convolution
    bias: whether there is a b
    """

    dimensions: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]
    transposed: ClassVar[bool] = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        n = self.dimensions
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.dilation = spread(kernel_size, n), spread(stride, n), spread(dilation, n)
        self.padding = padding if isinstance(padding, str) else spread(padding, n)
        self.output_padding, self.groups, self.padding_mode = spread(output_padding, n), groups, padding_mode
        self._check_options()
        self.weight = Parameter(weft.empty(self._weight_shape(), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(weft.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _check_options(self) -> None:
        if self.groups <= 0:
            raise InvalidValueError("groups must be a positive integer")
        if self.in_channels % self.groups:
            raise InvalidValueError("in_channels must be divisible by groups")
        if self.out_channels % self.groups:
            raise InvalidValueError("out_channels must be divisible by groups")
        if isinstance(self.padding, str):
            if self.padding not in PADDING_NAMES:
                raise InvalidValueError(f"Invalid padding string {self.padding!r}, should be one of {PADDING_NAMES}")
            if self.padding == "same" and any(s != 1 for s in self.stride):
                raise InvalidValueError("padding='same' is not supported for strided convolutions")
        if self.padding_mode not in PADDING_MODES:
            raise InvalidValueError(
                f"padding_mode must be one of {PADDING_MODES}, but got padding_mode={self.padding_mode!r}"
            )

    def _weight_shape(self) -> tuple[int, ...]:
        """(out, in / groups, *kernel); a transposed convolution has in and out changed over."""
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        return (first, second // self.groups, *self.kernel_size)

    def reset_parameters(self) -> None:
        """Weight and bias from U(−1/√k, 1/√k), k the number of weights that make one output."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        zeros, ones = (0,) * self.dimensions, (1,) * self.dimensions
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        parts += [f"padding={self.padding}"] if self.padding != zeros else []
        parts += [f"dilation={self.dilation}"] if self.dilation != ones else []
        parts += [f"output_padding={self.output_padding}"] if self.output_padding != zeros else []
        parts += [f"groups={self.groups}"] if self.groups != 1 else []
        parts += ["bias=False"] if self.bias is None else []
        parts += [f"padding_mode={self.padding_mode}"] if self.padding_mode != "zeros" else []
        return ", ".join(parts)


class _Conv(_ConvNd):
    """The constructor and the call of Conv1d, Conv2d and Conv3d.

    padding: how much is put on both sides; 'valid' (nothing), 'same' (the output is as large as the input), or 'full'
      (dilation·(K − 1) on both sides: every overlap of kernel and input)
    padding_mode: with what: 'zeros', 'reflect', 'replicate' or 'circular'
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            0,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._edges(), mode=self.padding_mode), 0
        elif padding == "full":
            padding = self._reach()
        return type(self).function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def _reach(self) -> tuple[int, ...]:
        """How far the kernel extends past its first element."""
        return tuple(d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True))

    def _edges(self) -> list[int]:
        """Padding before and after each dimension, the last dimension first, as `F.pad` takes it."""
        if self.padding == "same":  # the odd one goes behind
            sides = [(reach // 2, reach - reach // 2) for reach in self._reach()]
        else:
            named = {"valid": (0,) * self.dimensions, "full": self._reach()}
            sides = [(p, p) for p in named.get(self.padding, self.padding)]
        return [side for pair in reversed(sides) for side in pair]


class Conv1d(_Conv):
    """y[o, t] = b[o] + Σ_{c,k} w[o, c, k] · x[c, stride·t + dilation·k − padding].

    Shape: (N, C_in, L) or (C_in, L) → (N, C_out, L′), L′ = ⌊(L + 2·padding − dilation·(K − 1) − 1) / stride⌋ + 1;
    weight (C_out, C_in / groups, K)

    >>> nn.Conv1d(2, 4, 3, padding=1)(weft.ones(5, 2, 10)).shape
    weft.Size([5, 4, 10])
    """

    dimensions, function = 1, F.conv1d


class Conv2d(_Conv):
    """Convolution of images, as `Conv1d` over two dimensions.

    Shape: (N, C_in, H, W) or (C_in, H, W) → (N, C_out, H′, W′); weight (C_out, C_in / groups, K_h, K_w)

    >>> nn.Conv2d(3, 8, 3, stride=2, padding=1)(weft.ones(5, 3, 32, 32)).shape
    weft.Size([5, 8, 16, 16])
    """

    dimensions, function = 2, F.conv2d


class Conv3d(_Conv):
    """Convolution of volumes, as `Conv1d` over three dimensions.

    Shape: (N, C_in, D, H, W) or (C_in, D, H, W) → (N, C_out, D′, H′, W′); weight (C_out, C_in / groups, K_d, K_h, K_w)

    >>> nn.Conv3d(1, 2, (1, 3, 3))(weft.ones(1, 1, 4, 8, 8)).shape
    weft.Size([1, 2, 4, 6, 6])
    """

    dimensions, function = 3, F.conv3d


# ------------------------------------------------------------------------------------------- transposed


class _ConvTranspose(_ConvNd):
    """The constructor and the call of ConvTranspose1d, ConvTranspose2d and ConvTranspose3d.

    padding: how much is cut off both sides of the output
    output_padding: how much is added to one side of it, to choose among the sizes that the stride leaves open
    padding_mode: 'zeros', the only one
    """

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise InvalidValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        output_padding = self.output_padding if output_size is None else self._padding_for(input, output_size)
        return type(self).function(
            input, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups, self.dilation
        )

    def _padding_for(self, input: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """The output padding that gives this output size: strides leave several sizes open."""
        n = self.dimensions
        whole = input.ndim - n
        if len(output_size) not in (n, n + whole):
            raise InvalidValueError(
                f"ConvTranspose{n}D: for {input.ndim}D input, output_size must have {n} or {n + whole} elements "
                f"(got {len(output_size)})"
            )
        wanted = [int(size) for size in output_size][-n:]
        options = zip(input.shape[-n:], self.stride, self.padding, self.dilation, self.kernel_size, strict=True)
        least = [(size - 1) * s - 2 * p + d * (k - 1) + 1 for size, s, p, d, k in options]
        most = [low + s - 1 for low, s in zip(least, self.stride, strict=True)]
        if any(not low <= size <= high for low, size, high in zip(least, wanted, most, strict=True)):
            raise InvalidValueError(
                f"requested an output size of {tuple(output_size)}, but valid sizes range from {least} to {most} "
                f"(for an input of {input.shape[-n:]})"
            )
        return tuple(size - low for size, low in zip(wanted, least, strict=True))


class ConvTranspose1d(_ConvTranspose):
    """The transpose of the linear map `Conv1d`: every input spreads over K outputs.

    Shape: (N, C_in, L) or (C_in, L) → (N, C_out, L′),
    L′ = (L − 1)·stride − 2·padding + dilation·(K − 1) + output_padding + 1; weight (C_in, C_out / groups, K).
    `forward(x, output_size)` chooses among the sizes that the stride leaves open.

    >>> nn.ConvTranspose1d(2, 4, 3, stride=2)(weft.ones(5, 2, 10)).shape
    weft.Size([5, 4, 21])
    """

    dimensions, function = 1, F.conv_transpose1d


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution of images; see `ConvTranspose1d`.

    Shape: (N, C_in, H, W) or (C_in, H, W) → (N, C_out, H′, W′); weight (C_in, C_out / groups, K_h, K_w)

    >>> nn.ConvTranspose2d(8, 3, 4, stride=2, padding=1)(weft.ones(5, 8, 16, 16)).shape
    weft.Size([5, 3, 32, 32])
    """

    dimensions, function = 2, F.conv_transpose2d


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution of volumes; see `ConvTranspose1d`.

    Shape: (N, C_in, D, H, W) or (C_in, D, H, W) → (N, C_out, D′, H′, W′); weight (C_in, C_out / groups, K_d, K_h, K_w)

    >>> nn.ConvTranspose3d(2, 1, 2, stride=2)(weft.ones(1, 2, 3, 3, 3)).shape
    weft.Size([1, 1, 6, 6, 6])
    """

    dimensions, function = 3, F.conv_transpose3d


# ------------------------------------------------------------------------------------------- lazy forms


class _LazyChannels(LazyModuleMixin):
    """Takes in_channels from the first input."""

    def _make_lazy(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if self.in_channels and not self.has_uninitialized_params():
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        n = self.dimensions
        if input.ndim not in (n + 1, n + 2):
            raise ShapeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {type(self).__name__}, but got input of "
                f"size: {input.shape}"
            )
        self.in_channels = input.shape[-n - 1]
        if self.in_channels % self.groups:
            raise InvalidValueError("in_channels must be divisible by groups")
        if self.has_uninitialized_params():
            self.weight.materialize(self._weight_shape())
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()


class _LazyConv(_LazyChannels):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """A `Conv1d` that takes in_channels from its first input.

    out_channels: C_out

    >>> nn.LazyConv1d(4, 3)(weft.ones(5, 2, 10)).shape
    weft.Size([5, 4, 8])
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A `Conv2d` that takes in_channels from its first input.

    out_channels: C_out

    >>> nn.LazyConv2d(8, 3)(weft.ones(5, 3, 8, 8)).shape
    weft.Size([5, 8, 6, 6])
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A `Conv3d` that takes in_channels from its first input.

    out_channels: C_out

    >>> nn.LazyConv3d(2, 3)(weft.ones(1, 1, 4, 4, 4)).shape
    weft.Size([1, 2, 2, 2, 2])
    """

    cls_to_become = Conv3d


class _LazyConvTranspose(_LazyChannels):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A `ConvTranspose1d` that takes in_channels from its first input.

    out_channels: C_out

    >>> nn.LazyConvTranspose1d(4, 3)(weft.ones(5, 2, 10)).shape
    weft.Size([5, 4, 12])
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A `ConvTranspose2d` that takes in_channels from its first input.

    out_channels: C_out

    >>> nn.LazyConvTranspose2d(3, 2, stride=2)(weft.ones(5, 8, 4, 4)).shape
    weft.Size([5, 3, 8, 8])
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A `ConvTranspose3d` that takes in_channels from its first input.

    out_channels: C_out

    >>> nn.LazyConvTranspose3d(1, 2)(weft.ones(1, 2, 3, 3, 3)).shape
    weft.Size([1, 1, 4, 4, 4])
    """

    cls_to_become = ConvTranspose3d
