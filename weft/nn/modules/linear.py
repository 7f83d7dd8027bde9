"""Linear maps of features, and the reshapes that go before and after them."""

from __future__ import annotations

import math
from typing import Any

import weft

from ...errors import ArgumentError, InvalidValueError
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..lazy import LazyModuleMixin
from ..module import Module
from ..parameter import Parameter, UninitializedParameter

__all__ = ["Bilinear", "Flatten", "Identity", "LazyLinear", "Linear", "Unflatten"]


class Identity(Module):
    """y = x, whatever the constructor was given: a place that something else may take later.

    >>> nn.Identity(54, unused=True)(weft.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """y = x Wᵀ + b.

    Shape: (*, in_features) → (*, out_features); weight W (out_features, in_features), bias b (out_features,), both from
    U(−1/√in_features, 1/√in_features).

    in_features, out_features: the sizes of x and of y
    bias: whether there is a b

    >>> layer = nn.Linear(3, 2)
    >>> layer(weft.ones(5, 3)).shape
    weft.Size([5, 2])
    >>> layer.weight.shape
    weft.Size([2, 3])
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(weft.empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(weft.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial weights: Kaiming's uniform rule with a = √5, which is U(±1/√in_features)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` that takes in_features from its first input.

    out_features: the size of y
    bias: whether there is a b

    >>> layer = nn.LazyLinear(2)
    >>> layer(weft.ones(5, 3)).shape
    weft.Size([5, 2])
    >>> layer
    Linear(in_features=3, out_features=2, bias=True)
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if self.in_features and not self.has_uninitialized_params():
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Shapes from the last dimension of the first input; loaded weights stay as they are."""
        self.in_features = input.shape[-1]
        if self.has_uninitialized_params():
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()


class Bilinear(Module):
    """y_o = x₁ᵀ W_o x₂ + b_o.

    Shape: (*, in1_features), (*, in2_features) → (*, out_features); weight (out, in1, in2), bias (out,),
    both from U(−1/√in1, 1/√in1).

    in1_features, in2_features: the sizes of x₁ and x₂
    out_features: the size of y
    bias: whether there is a b

    >>> nn.Bilinear(3, 4, 2)(weft.ones(5, 3), weft.ones(5, 4)).shape
    weft.Size([5, 2])
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise InvalidValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(weft.empty(out_features, in1_features, in2_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(weft.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Flatten(Module):
    """Several dimensions as one: (N, C, H, W) → (N, C·H·W).

    start_dim, end_dim: the first and the last of them

    >>> nn.Flatten()(weft.ones(2, 3, 4, 5)).shape
    weft.Size([2, 60])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One dimension as several: (…, Π sizes, …) → (…, *sizes, …).

    dim: the dimension
    unflattened_size: the sizes it becomes; one of them may be −1

    >>> nn.Unflatten(1, (3, -1))(weft.ones(2, 12)).shape
    weft.Size([2, 3, 4])
    """

    def __init__(self, dim: int, unflattened_size: tuple[int, ...] | list[int]) -> None:
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)):
            raise ArgumentError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for place, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise ArgumentError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(size).__name__} at pos "
                    f"{place}"
                )
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
