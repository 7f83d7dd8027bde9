"""How many floating-point operations a layer needs for one call.

A multiplication and an addition count as two. Matrix products and convolutions are counted in full (a bias is the
addition that the first product does not need); the gates of recurrent layers and the softmax of attention, which are
small beside them, are not. Cheap layers count per element: an activation 1; a normalisation 2 for (x − μ)/σ, 3 more
where μ and σ come from the data, and 1 for each of weight and bias; a pool one for each element of its window.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import nn
from ..nn.modules import activation, softmax
from ..tensor import Tensor

__all__ = ["ACTIVATIONS", "CONVOLUTIONS", "DROPOUTS", "NORMS", "POOLS", "first_tensor", "rule_for", "sizes"]

Rule = Callable[[Any, tuple[Any, ...], Any], int]


def first_tensor(value: Any) -> Tensor | None:
    """The first tensor in the arguments or results of a module (of a packed sequence: its data)."""
    if isinstance(value, Tensor):
        return value
    if isinstance(getattr(value, "data", None), Tensor):
        return value.data
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return next((found for v in values if (found := first_tensor(v)) is not None), None)


def _count(value: Any) -> int:
    found = first_tensor(value)
    return 0 if found is None else found.numel()


def sizes(value: Any, dimensions: int) -> tuple[int, ...]:
    """A size given once for all dimensions, or for each."""
    return (value,) * dimensions if isinstance(value, int) else tuple(value)


def _linear(layer: Any, inputs: Any, output: Any) -> int:
    return 2 * layer.in_features * _count(output)


def _bilinear(layer: Any, inputs: Any, output: Any) -> int:
    """xᵀ A y for every output: A y, then the product with x."""
    return 2 * layer.in1_features * (layer.in2_features + 1) * _count(output)


def _convolution(layer: Any, inputs: Any, output: Any) -> int:
    return 2 * layer.in_channels // layer.groups * math.prod(layer.kernel_size) * _count(output)


def _transposed_convolution(layer: Any, inputs: Any, output: Any) -> int:
    return 2 * layer.out_channels // layer.groups * math.prod(layer.kernel_size) * _count(inputs)


def _recurrent(layer: Any, inputs: Any, output: Any) -> int:
    """Every weight matrix meets every time step of every sequence once."""
    x = first_tensor(inputs)
    steps = x.numel() // layer.input_size
    return 2 * steps * sum(p.numel() for p in layer.parameters() if p.ndim == 2)


def _attention(layer: Any, inputs: Any, output: Any) -> int:
    """Projections of queries, keys, values and result, then scores and weighted sums."""
    query, key = inputs[0], inputs[1] if len(inputs) > 1 else inputs[0]
    E, time = layer.embed_dim, 0 if query.ndim == 2 or not layer.batch_first else 1
    queries, keys = query.numel() // E, key.numel() // layer.kdim
    length = key.shape[time] + (layer.bias_k is not None) + bool(layer.add_zero_attn)
    projections = 2 * queries * E * E + keys * (layer.kdim + layer.vdim) * E
    return 2 * (projections + 2 * queries * length * E)


def _normalisation(layer: Any, inputs: Any, output: Any) -> int:
    from_data = 0 if getattr(layer, "running_mean", None) is not None and not layer.training else 3
    affine = sum(getattr(layer, name, None) is not None for name in ("weight", "bias"))
    return (2 + from_data + affine) * _count(output)


def _root_mean_square(layer: Any, inputs: Any, output: Any) -> int:
    return (3 + (layer.weight is not None)) * _count(output)


def _pool(layer: Any, inputs: Any, output: Any) -> int:
    return math.prod(sizes(layer.kernel_size, int(type(layer).__name__[-2]))) * _count(output)


def _each_input(layer: Any, inputs: Any, output: Any) -> int:
    return _count(inputs)


def _each_output(layer: Any, inputs: Any, output: Any) -> int:
    return _count(output)


def _classes(names: str) -> tuple[type, ...]:
    return tuple(getattr(nn, name) for name in names.split())


CONVOLUTIONS = _classes("Conv1d Conv2d Conv3d")
POOLS = _classes("MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d LPPool3d")
NORMS = _classes(
    "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm GroupNorm"
)
ACTIVATIONS = tuple(getattr(room, name) for room in (activation, softmax) for name in room.__all__)
DROPOUTS = _classes("Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout Identity")

RULES: tuple[tuple[tuple[type, ...], Rule], ...] = (
    ((nn.Linear,), _linear),
    ((nn.Bilinear,), _bilinear),
    (CONVOLUTIONS, _convolution),
    (_classes("ConvTranspose1d ConvTranspose2d ConvTranspose3d"), _transposed_convolution),
    (_classes("RNN LSTM GRU RNNCell LSTMCell GRUCell"), _recurrent),
    ((nn.MultiheadAttention,), _attention),
    ((nn.RMSNorm,), _root_mean_square),
    (NORMS, _normalisation),
    (POOLS, _pool),
    (
        _classes(
            "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d"
        ),
        _each_input,
    ),
    (ACTIVATIONS, _each_output),
)


def rule_for(module: Any) -> Rule | None:
    """How the operations of this module are counted; None for containers and layers that only move data."""
    return next((rule for classes, rule in RULES if isinstance(module, classes)), None)
