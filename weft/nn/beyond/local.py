"""What is left of a convolution when one of its two principles is given up: shared weights, or locality.

A locally connected layer looks at windows as a convolution does, with weights of its own at each place (N3, N4 §7); a
non-local block lets every place look at all others, with weights that depend on what is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft

from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..modules.linear import Identity, Linear
from ..parameter import Parameter

__all__ = ["LocallyConnected1d", "LocallyConnected2d", "NonLocal"]


class LocallyConnected2d(Module):
    """h[o, i, j] = u[o, i, j] + Σ_{c,p,q} W[i, j, o, c, p, q] · x[c, s·i + p, s·j + q]: local, but nothing is shared.

    The convolution before translation equivariance is asked for (N3, N4 §7): (C_in·K² + 1)·C_out numbers at each of the
    H′·W′ places. With equal weights everywhere it is a `Conv2d` (see `from_conv`).
    Shape: (N, C_in, H, W) → (N, C_out, H′, W′); weight (H′·W′, C_out, C_in·K²), bias (C_out, H′, W′), both from
    U(−1/√n, 1/√n), n = C_in·K²

    in_channels, out_channels: the numbers of channels of x and of h
    input_size: (H, W), or one number for both: the layer fits images of this size only
    kernel_size, stride, padding: of the windows, as in `Conv2d`; zeros are put around
    bias: whether there is a u
    device, dtype: of the parameters

    >>> layer = nn.LocallyConnected2d(1, 2, input_size=5, kernel_size=3)
    >>> layer(weft.ones(4, 1, 5, 5)).shape, layer.weight.shape
    (weft.Size([4, 2, 3, 3]), weft.Size([9, 2, 9]))
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        input_size: int | tuple[int, int],
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.input_size, self.kernel_size = _pair(input_size), _pair(kernel_size)
        self.stride, self.padding = _pair(stride), _pair(padding)
        self.output_size = tuple(
            (n + 2 * p - k) // s + 1
            for n, k, s, p in zip(self.input_size, self.kernel_size, self.stride, self.padding, strict=True)
        )
        if min(self.output_size) < 1:
            raise ShapeError(
                f"{type(self).__name__}: no window of {self.kernel_size} fits into {self.input_size} with padding "
                f"{self.padding}; make input_size larger or kernel_size smaller"
            )
        places, seen = math.prod(self.output_size), in_channels * math.prod(self.kernel_size)
        self.weight = Parameter(weft.empty(places, out_channels, seen, device=device, dtype=dtype))
        kept = weft.empty(out_channels, *self.output_size, device=device, dtype=dtype) if bias else None
        self.register_parameter("bias", None if kept is None else Parameter(kept))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.weight.shape[-1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    @classmethod
    def from_conv(cls, conv: Module, input_size: int | tuple[int, int]) -> LocallyConnected2d:
        """The layer that computes what the convolution does, with a copy of its kernel at every place."""
        if conv.groups != 1 or _pair(conv.dilation) != (1, 1) or isinstance(conv.padding, str):
            raise OptionError(f"from_conv: only for groups=1, dilation=1 and padding in numbers, got {conv}")
        layer = cls(
            *(conv.in_channels, conv.out_channels, input_size, conv.kernel_size, conv.stride, conv.padding),
            bias=conv.bias is not None,
            dtype=conv.weight.dtype,
        )
        with weft.no_grad():
            layer.weight.copy_(conv.weight.reshape(conv.out_channels, -1).expand_as(layer.weight))
            if conv.bias is not None:
                layer.bias.copy_(conv.bias.reshape(-1, *(1,) * (layer.bias.ndim - 1)).expand_as(layer.bias))
        return layer

    def forward(self, input: Tensor) -> Tensor:
        if tuple(input.shape[-2:]) != self.input_size or input.shape[-3] != self.in_channels:
            raise ShapeError(
                f"{type(self).__name__}: expected (N, {self.in_channels}, {self.input_size[0]}, {self.input_size[1]}), "
                f"got {tuple(input.shape)}; each place has weights of its own, so sizes are fixed"
            )
        windows = F.unfold(input, self.kernel_size, padding=self.padding, stride=self.stride)  # (N, C·K², places)
        found = windows.permute(2, 0, 1) @ self.weight.mT  # (places, N, C_out)
        found = found.permute(1, 2, 0).reshape(input.shape[0], self.out_channels, *self.output_size)
        return found if self.bias is None else found + self.bias

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, input_size={self.input_size}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding}, bias={self.bias is not None}"
        )


class LocallyConnected1d(Module):
    """h[o, t] = u[o, t] + Σ_{c,p} W[t, o, c, p] · x[c, s·t + p]: `LocallyConnected2d` over sequences.

    Shape: (N, C_in, T) → (N, C_out, T′); weight (T′, C_out, C_in·K), bias (C_out, 1, T′)

    in_channels, out_channels: the numbers of channels of x and of h
    input_size: T: the layer fits sequences of this length only
    kernel_size, stride, padding: of the windows, as in `Conv1d`; zeros are put around
    bias: whether there is a u
    device, dtype: of the parameters

    >>> nn.LocallyConnected1d(2, 3, input_size=8, kernel_size=3)(weft.ones(4, 2, 8)).shape
    weft.Size([4, 3, 6])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        input_size: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.rows = LocallyConnected2d(
            *(in_channels, out_channels, (1, input_size), (1, kernel_size), (1, stride), (0, padding)),
            *(bias, device, dtype),
        )

    def forward(self, input: Tensor) -> Tensor:
        return self.rows(input.unsqueeze(-2)).squeeze(-2)


class NonLocal(Module):
    """z_i = x_i + W_z y_i,  y_i = Σ_j w(x_i, x_j) g(x_j): every place of an image, a sequence or a video looks at all.

    The non-local block (Wang et al., 2018; N3: a convolution without locality, weighted by content). w by `pairwise`, with
    θ, φ and g linear maps of the channels and P the number of places:

        'embedded'    softmax_j θ(x_i)ᵀφ(x_j)             self-attention without the 1/√d
        'gaussian'    softmax_j x_iᵀx_j
        'dot'         θ(x_i)ᵀφ(x_j) / P

    W_z starts at 0, so that the block can be put into a trained network without changing it.
    Shape: (N, C, *) → the same, with any number of dimensions behind the channels

    channels: C
    inner_channels: the size of θ, φ and g; C / 2 if left away
    pairwise: w
    device, dtype: of the parameters

    >>> block, x = nn.NonLocal(4), weft.ones(2, 4, 3, 3)
    >>> bool((block(x) == x).all())
    True
    """

    def __init__(
        self,
        channels: int,
        inner_channels: int | None = None,
        pairwise: str = "embedded",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if pairwise not in _PAIRWISE:
            raise OptionError(f"NonLocal: pairwise must be one of {', '.join(_PAIRWISE)}, got {pairwise!r}")
        inner = max(1, channels // 2) if inner_channels is None else inner_channels
        made = lambda a, b: Linear(a, b, device=device, dtype=dtype)
        embeds = pairwise != "gaussian"
        self.pairwise = pairwise
        self.query, self.key = (made(channels, inner) if embeds else Identity() for _ in range(2))
        self.value, self.out = made(channels, inner), made(inner, channels)
        init.zeros_(self.out.weight)
        init.zeros_(self.out.bias)

    def forward(self, input: Tensor) -> Tensor:
        places = input.flatten(2).mT  # (N, P, C)
        weights = _PAIRWISE[self.pairwise](self.query(places) @ self.key(places).mT)  # (N, P, P)
        found = self.out(weights @ self.value(places))  # (N, P, C)
        return input + found.mT.reshape(input.shape)

    def extra_repr(self) -> str:
        return f"pairwise={self.pairwise!r}"


_PAIRWISE: dict[str, Callable[[Tensor], Tensor]] = {
    "embedded": lambda scores: scores.softmax(-1),
    "gaussian": lambda scores: scores.softmax(-1),
    "dot": lambda scores: scores / scores.shape[-1],
}


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)
