"""Pooling that PyTorch leaves to its users: over whole maps, and over channels (N2 §6.3.3)."""

from __future__ import annotations

from ...errors import InvalidValueError
from ...tensor import Tensor
from ..module import Module

__all__ = ["ChannelAvgPool", "ChannelMaxPool", "GlobalAvgPool", "GlobalMaxPool", "Maxout"]


class GlobalAvgPool(Module):
    """The mean of each map, whatever its size. Shape: (N, C, *) → (N, C), or (N, C, 1, …).

    keepdim: whether the dimensions of the map stay, with size 1

    >>> nn.GlobalAvgPool()(weft.ones(2, 4, 7, 9)).shape
    weft.Size([2, 4])
    """

    def __init__(self, keepdim: bool = False) -> None:
        super().__init__()
        self.keepdim = keepdim

    def forward(self, input: Tensor) -> Tensor:
        return input.mean(tuple(range(2, input.ndim)), keepdim=self.keepdim)

    def extra_repr(self) -> str:
        return f"keepdim={self.keepdim}"


class GlobalMaxPool(Module):
    """The maximum of each map, whatever its size. Shape: (N, C, *) → (N, C), or (N, C, 1, …).

    keepdim: whether the dimensions of the map stay, with size 1

    >>> nn.GlobalMaxPool(keepdim=True)(weft.ones(2, 4, 7, 9)).shape
    weft.Size([2, 4, 1, 1])
    """

    def __init__(self, keepdim: bool = False) -> None:
        super().__init__()
        self.keepdim = keepdim

    def forward(self, input: Tensor) -> Tensor:
        y = input.flatten(2).max(-1)[0]  # (N, C)
        return y.reshape(*y.shape, *(1,) * (input.ndim - 2)) if self.keepdim else y

    def extra_repr(self) -> str:
        return f"keepdim={self.keepdim}"


class _ChannelPool(Module):
    """Windows along the channels.

    kernel_size: how many channels a window has
    stride: the step from window to window; None: kernel_size
    """

    def __init__(self, kernel_size: int, stride: int | None = None) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride

    def _windows(self, input: Tensor) -> Tensor:
        """(N, C, *) → (N, C′, *, kernel_size)."""
        if input.shape[1] < self.kernel_size:
            raise InvalidValueError(
                f"{type(self).__name__}: kernel_size {self.kernel_size} is larger than the {input.shape[1]} channels of "
                f"an input {tuple(input.shape)}"
            )
        return input.unfold(1, self.kernel_size, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}"


class ChannelMaxPool(_ChannelPool):
    """The maximum over windows of channels, which gives invariance between features: (N, C, *) → (N, C′, *).

    >>> nn.ChannelMaxPool(2)(weft.tensor([[1.0, 3.0, 5.0, 2.0]]))
    tensor([[3., 5.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return self._windows(input).max(-1)[0]


class ChannelAvgPool(_ChannelPool):
    """The mean over windows of channels: (N, C, *) → (N, C′, *), C′ = ⌊(C − kernel_size) / stride⌋ + 1.

    >>> nn.ChannelAvgPool(2)(weft.tensor([[1.0, 3.0, 5.0, 2.0]]))
    tensor([[2.0000, 3.5000]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return self._windows(input).mean(-1)


class Maxout(Module):
    """y_j = max_i x_{j·pieces + i}: the maximum over groups of features.

    After a linear layer with pieces · out features this is a learned convex, piecewise linear activation
    (Goodfellow et al., 2013); with weights w and −w it is |w·x|, with w and 0 it is ReLU.
    Shape: (…, pieces·C, …) → (…, C, …) along `dim`

    pieces: how many features a group has
    dim: the dimension of the features

    >>> nn.Maxout(2)(weft.tensor([1.0, 3.0, 5.0, 2.0]))
    tensor([3., 5.])
    """

    def __init__(self, pieces: int, dim: int = -1) -> None:
        super().__init__()
        self.pieces, self.dim = pieces, dim

    def forward(self, input: Tensor) -> Tensor:
        size = input.shape[self.dim]
        if size % self.pieces:
            raise InvalidValueError(
                f"Maxout: {size} features along dim {self.dim} are not a multiple of pieces={self.pieces}"
            )
        dim = self.dim % input.ndim
        return input.unflatten(dim, (size // self.pieces, self.pieces)).max(dim + 1)[0]

    def extra_repr(self) -> str:
        return f"pieces={self.pieces}, dim={self.dim}"
