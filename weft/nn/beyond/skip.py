"""Connections that skip layers: the old representation goes on beside the new one (N2 §3.7.2–3.7.3, N1 §2.6).

A skip hands gradients of later layers straight to earlier ones: δ_in = δ_out + δ_update for a sum.
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
from ..container import ModuleList
from ..module import Module
from ..modules.linear import Identity, Linear
from ..parameter import Parameter

__all__ = ["AttentionCombine", "DenselyConnected", "Highway", "Residual", "Skip"]


class Residual(Module):
    """v_out = shortcut(v_in) + f(v_in): f is an update, not a representation (N2 §3.7.2).

    Shape: that of f's output

    function: f
    shortcut: the identity unless a module is given, as for parts that change the shape

    >>> nn.Residual(nn.Linear(4, 4))(weft.ones(2, 4)).shape
    weft.Size([2, 4])
    """

    def __init__(self, function: Module, shortcut: Module | None = None) -> None:
        super().__init__()
        self.function = function
        self.shortcut = Identity() if shortcut is None else shortcut

    def forward(self, input: Tensor) -> Tensor:
        old, new = self.shortcut(input), self.function(input)
        _check_same(old, new, "Residual")
        return old + new


class DenselyConnected(Module):
    """v_l = f_l([v_0, v_1, …, v_{l−1}]): every layer gets all that was computed before it, concatenated (N2 §3.7.3).

    Takes the layers one by one; layer l must take Z_0 + … + Z_{l−1} features. The output is [v_0, …, v_L]. Sizes grow
    linearly with the number of layers, the number of weights as its square. Shape: (…, Z_0, …) → (…, Z_0 + … + Z_L, …)

    dim: the dimension of the features

    >>> nn.DenselyConnected(nn.Linear(4, 3), nn.Linear(7, 2))(weft.ones(5, 4)).shape
    weft.Size([5, 9])
    """

    def __init__(self, *layers: Module, dim: int = -1) -> None:
        super().__init__()
        self.layers, self.dim = ModuleList(layers), dim

    def forward(self, input: Tensor) -> Tensor:
        together = input
        for layer in self.layers:
            together = weft.cat([together, layer(together)], self.dim)
        return together

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Highway(Module):
    """v_out = t ⊙ f(v_in) + (1 − t) ⊙ v_in, t = σ(W v_in + b): a learned gate between new and old (N2 §3.7.3).

    Shape: (*, features) → the same; f must keep it

    function: f
    features: the size of v
    gate_bias: where b starts; below 0, so that the layer starts close to the identity

    >>> nn.Highway(nn.Linear(4, 4), 4)(weft.ones(2, 4)).shape
    weft.Size([2, 4])
    """

    def __init__(
        self, function: Module, features: int, gate_bias: float = -2.0, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.function = function
        self.gate = Linear(features, features, True, device, dtype)
        self.gate_bias = gate_bias
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The gate's first weights: those of `Linear`, and its bias at `gate_bias`."""
        self.gate.reset_parameters()
        init.constant_(self.gate.bias, self.gate_bias)

    def forward(self, input: Tensor) -> Tensor:
        new, gate = self.function(input), self.gate(input).sigmoid()
        _check_same(input, new, "Highway")
        return gate * new + (1 - gate) * input


class Skip(Module):
    """v_out = combine(shortcut(v_in), f(v_in)): a skip connection in general (N2 §3.7.3).

    function: f
    combine: 'add', 'concat', 'average', 'max' (elementwise), or a module of two tensors such as `AttentionCombine`
    shortcut: the identity unless a module is given
    dim: the dimension along which 'concat' joins

    >>> nn.Skip(nn.Linear(4, 3), "concat")(weft.ones(2, 4)).shape
    weft.Size([2, 7])
    """

    def __init__(
        self, function: Module, combine: str | Module = "add", shortcut: Module | None = None, dim: int = -1
    ) -> None:
        super().__init__()
        if isinstance(combine, str) and combine not in _COMBINE:
            raise OptionError(
                f"Skip: combine must be one of {', '.join(_COMBINE)}, or a module such as AttentionCombine(features); "
                f"got {combine!r}"
            )
        self.function, self.combine, self.dim = function, combine, dim
        self.shortcut = Identity() if shortcut is None else shortcut

    def forward(self, input: Tensor) -> Tensor:
        old, new = self.shortcut(input), self.function(input)
        if not isinstance(self.combine, str):
            return self.combine(old, new)
        if self.combine != "concat":
            _check_same(old, new, f"Skip({self.combine!r})")
        return _COMBINE[self.combine](old, new, self.dim)

    def extra_repr(self) -> str:
        return f"combine={self.combine!r}, dim={self.dim}" if isinstance(self.combine, str) else ""


class AttentionCombine(Module):
    """Σᵢ αᵢ vᵢ, α = softmax(⟨w, v_1⟩, …, ⟨w, v_n⟩ / √Z): a learned query w attends over representations (N2 §3.7.3).

    There is one α for every place of the other dimensions. Shape: n × (…, Z, …) → (…, Z, …); query (Z,), zero at first, so
    that it starts as the average

    features: Z
    dim: the dimension of the features

    >>> nn.AttentionCombine(2)(weft.zeros(1, 2), weft.ones(1, 2)).tolist()
    [[0.5, 0.5]]
    """

    def __init__(self, features: int, dim: int = -1, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.dim = dim
        self.query = Parameter(weft.empty(features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.zeros_(self.query)

    def forward(self, *inputs: Tensor) -> Tensor:
        for other in inputs[1:]:
            _check_same(inputs[0], other, "AttentionCombine")
        values = weft.stack([x.movedim(self.dim, -1) for x in inputs], -2)  # (…, n, Z)
        weights = F.softmax(values @ self.query / math.sqrt(self.query.shape[0]), -1)  # (…, n)
        return (weights.unsqueeze(-2) @ values).squeeze(-2).movedim(-1, self.dim)  # (…, 1, n) @ (…, n, Z)

    def extra_repr(self) -> str:
        return f"features={self.query.shape[0]}, dim={self.dim}"


_COMBINE: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "add": lambda old, new, dim: old + new,
    "concat": lambda old, new, dim: weft.cat([old, new], dim),
    "average": lambda old, new, dim: (old + new) / 2,
    "max": lambda old, new, dim: weft.maximum(old, new),
}


def _check_same(old: Tensor, new: Tensor, name: str) -> None:
    if old.shape != new.shape:
        raise ShapeError(
            f"{name}: the skipped input has shape {tuple(old.shape)} and the new representation {tuple(new.shape)}; "
            f"they must be equal (a shortcut module can map the one to the other)"
        )
