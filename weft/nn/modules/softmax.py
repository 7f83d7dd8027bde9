"""Activations that look along a dimension: gates, which halve it, and distributions over classes."""

from __future__ import annotations

from ...errors import ShapeError
from ...tensor import Tensor
from .. import functional as F
from .activation import Activation

__all__ = ["GLU", "LogSoftmax", "Softmax", "Softmax2d", "Softmin", "SwiGLU"]


class GLU(Activation):
    """y = a · σ(b), a and b the halves of x along `dim`. Shape: (*, 2n, *) → (*, n, *).

    dim: the dimension that is halved

    >>> nn.GLU()(weft.tensor([1.0, 2.0, 0.0, 100.0]))
    tensor([0.5000, 2.0000])
    """

    shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)


class SwiGLU(Activation):
    """y = silu(a) · b, a and b the halves of x along `dim` (Shazeer 2020). Shape: (*, 2n, *) → (*, n, *).

    The gate is the first half, as in Llama's layers; in `GLU` it is the second.

    dim: the dimension that is halved

    >>> nn.SwiGLU()(weft.tensor([1.0, 100.0, 2.0, 3.0]))
    tensor([  1.4621, 300.0000])
    """

    shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.swiglu(input, self.dim)


# ------------------------------------------------------------------------------ distributions over classes


class AlongDimension(Activation):
    """A distribution along a dimension.

    dim: the dimension whose entries sum to 1; None lets the function guess, with its warning
    """

    shown = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim


class Softmax(AlongDimension):
    """yᵢ = exp(xᵢ) / Σⱼ exp(xⱼ).

    >>> nn.Softmax(dim=1)(weft.tensor([[0.0, 0.0], [0.0, 100.0]]))
    tensor([[5.0000e-01, 5.0000e-01],
            [3.7835e-44, 1.0000e+00]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(AlongDimension):
    """yᵢ = xᵢ − log Σⱼ exp(xⱼ).

    >>> nn.LogSoftmax(dim=0)(weft.tensor([0.0, 0.0]))
    tensor([-0.6931, -0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmin(AlongDimension):
    """yᵢ = exp(−xᵢ) / Σⱼ exp(−xⱼ).

    >>> nn.Softmin(dim=0)(weft.tensor([1.0, 1.0, 100.0]))
    tensor([5.0000e-01, 5.0000e-01, 5.0447e-44])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax2d(Activation):
    """Softmax over the channels of every place. Shape: (N, C, H, W) or (C, H, W) → the same.

    >>> nn.Softmax2d()(weft.zeros(1, 4, 2, 2)).sum(1)
    tensor([[[1., 1.],
             [1., 1.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ShapeError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3, _stacklevel=5)
