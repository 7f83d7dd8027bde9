"""The linear map of features that graph layers share: glorot's weights, and x may be sparse."""

from __future__ import annotations

from typing import Any, Literal

import weft

from ... import nn
from ...nn import functional as F
from ...nn import init
from ...sparse import SparseTensor
from ...tensor import Tensor

__all__ = ["Features", "Linear", "dropout", "glorot"]

Features = Tensor | SparseTensor  # (N, F): bags of words are nearly all zeros


def glorot(weight: Tensor) -> Tensor:
    """U(−√(6 / (n + m)), √(6 / (n + m))) over the last two sizes n, m, in place (Glorot and Bengio 2010)."""
    bound = (6.0 / max(weight.shape[-2] + weight.shape[-1], 1)) ** 0.5
    return init.uniform_(weight, -bound, bound)


def dropout(x: Any, p: float, training: bool) -> Any:
    """Each element 0 with probability p, the others over 1 − p; of a sparse x the stored ones, which comes to the same."""
    if isinstance(x, SparseTensor):
        return x._with(F.dropout(x._values(), p, training))
    return F.dropout(x, p, training)


class Linear(nn.Module):
    """y = x Wᵀ + b for dense or sparse x, W from glorot's uniform distribution ("kaiming_uniform": as in nn.Linear).

    Shape: (N, in_channels) → (N, out_channels); weight (out_channels, in_channels)

    >>> layer = Linear(3, 2)
    >>> layer(weft.eye(3).to_sparse()).shape
    weft.Size([3, 2])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        bias: bool = True,
        weight_initializer: Literal["glorot", "kaiming_uniform"] = "glorot",
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels, self.weight_initializer = in_channels, out_channels, weight_initializer
        self.weight = nn.Parameter(weft.empty(out_channels, in_channels))
        self.bias = nn.Parameter(weft.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights anew; b becomes 0 under glorot's rule, U(−1/√in, 1/√in) otherwise."""
        bound = self.in_channels**-0.5 if self.in_channels else 0.0
        if self.weight_initializer == "glorot":
            glorot(self.weight)
        else:
            init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.zeros_(self.bias) if self.weight_initializer == "glorot" else init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Features) -> Tensor:
        y = x @ self.weight.T  # (N, in) @ (in, out)
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, bias={self.bias is not None}"
