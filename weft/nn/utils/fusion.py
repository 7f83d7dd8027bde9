"""Fold a batch normalisation with fixed statistics into the linear layer before it.

y = γ (W x + b − μ) / √(σ² + ε) + β is linear again: W′ = s W, b′ = s (b − μ) + β with s = γ / √(σ² + ε).
"""

from __future__ import annotations

import copy
from typing import TypeVar

from ...tensor import Tensor
from ..module import Module
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

M = TypeVar("M", bound=Module)


def _scale_and_shift(
    bias: Tensor | None, mean: Tensor, variance: Tensor, eps: float, gamma: Tensor | None, beta: Tensor | None
) -> tuple[Tensor, Tensor]:
    """s and b′ of the fused map."""
    scale = (variance + eps).rsqrt()
    scale = scale if gamma is None else gamma * scale
    shift = (-mean if bias is None else bias - mean) * scale
    return scale, shift if beta is None else shift + beta


def _pair(weight: Tensor, bias: Tensor, like: Tensor, bias_like: Tensor | None) -> tuple[Parameter, Parameter]:
    trained = bias_like.requires_grad if bias_like is not None else False
    return (
        Parameter(weight.detach().to(like.dtype), like.requires_grad),
        Parameter(bias.detach().to(like.dtype), trained),
    )


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the convolution that does the work of both; `transpose` for transposed convolutions."""
    scale, shift = _scale_and_shift(conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    sizes = [1] * conv_w.ndim
    sizes[1 if transpose else 0] = -1
    return _pair(conv_w * scale.reshape(sizes), shift, conv_w, conv_b)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the linear layer that does the work of both."""
    scale, shift = _scale_and_shift(linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    return _pair(linear_w * scale.unsqueeze(-1), shift, linear_w, linear_b)


def _check_modes(layer: Module, bn: Module) -> None:
    assert not layer.training and not bn.training, "Fusion only for eval!"


def fuse_conv_bn_eval(conv: M, bn: Module, transpose: bool = False) -> M:
    """A copy of the convolution that also does the work of the batch normalisation behind it."""
    _check_modes(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_linear_bn_eval(linear: M, bn: Module) -> M:
    """A copy of the linear layer that also does the work of the batch normalisation behind it."""
    _check_modes(linear, bn)
    assert linear.out_features == bn.num_features or bn.num_features == 1, (
        "To fuse, linear.out_features == bn.num_features or bn.num_features == 1"
    )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        linear.weight, linear.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused
