"""Coupling: one part of x is moved by maps whose parameters are functions of the other part, which stays (N1 §10.2).

Triangular by construction, and both directions cost one pass through a network that need not be invertible.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from .bijector import Bijector, Pair
from .univariate import Affine, Univariate

__all__ = ["ContextMLP", "Coupling", "RowCoupling"]


class Coupling(Bijector):
    """y_kept = x_kept,   y_moved = map(x_moved; net(x_kept, c)),   log|det J| = Σ log-slopes

    net: (B, kept, *), context → parameters (B, moved, *, K); x is parted along its first dimension after the batch
    pattern: "halves", or "alternate" for every second element; swap: which part is kept
    """

    def __init__(
        self, net: nn.Module, map: Univariate | None = None, pattern: str = "halves", swap: bool = False
    ) -> None:
        super().__init__()
        if pattern not in ("halves", "alternate"):
            raise OptionError(f"Coupling: pattern is 'halves' or 'alternate', got {pattern!r}")
        self.net, self.map, self.pattern, self.swap = net, Affine() if map is None else map, pattern, swap

    def forward(self, x: Tensor, context: Tensor | None = None) -> Pair:
        kept, moved = self.parted(x)
        moved, slopes = self.map.forward(moved, self.net(kept, context))
        return self.joined(kept, moved), slopes.reshape(len(x), -1).sum(1) if len(x) else x.new_zeros(0)

    def inverse(self, y: Tensor, context: Tensor | None = None) -> Pair:
        kept, moved = self.parted(y)
        moved, slopes = self.map.inverse(moved, self.net(kept, context))
        return self.joined(kept, moved), slopes.reshape(len(y), -1).sum(1) if len(y) else y.new_zeros(0)

    def parted(self, x: Tensor) -> Pair:
        """What stays and what is moved."""
        count = x.shape[1]
        first, second = (
            (x[:, : count // 2], x[:, count // 2 :]) if self.pattern == "halves" else (x[:, ::2], x[:, 1::2])
        )
        return (second, first) if self.swap else (first, second)

    def joined(self, kept: Tensor, moved: Tensor) -> Tensor:
        """The inverse of `parted`."""
        first, second = (moved, kept) if self.swap else (kept, moved)
        if self.pattern == "halves":
            return weft.cat([first, second], 1)
        pairs = second.shape[1]
        mixed = weft.stack([first[:, :pairs], second], 2).flatten(1, 2)  # (B, n, 2, *) → (B, 2n, *)
        return mixed if first.shape[1] == pairs else weft.cat([mixed, first[:, pairs:]], 1)

    def extra_repr(self) -> str:
        return f"map={self.map!r}, pattern={self.pattern!r}, swap={self.swap}"


class ContextMLP(nn.Module):
    """θ(x, c) by a network of full layers whose last starts at 0: (B, in), (B, context) → (B, out, K)"""

    def __init__(
        self, inputs: int, outputs: int, parameters: int, hidden: Sequence[int], context: int = 0, dtype: Any = None
    ) -> None:
        super().__init__()
        sizes = [inputs + context, *hidden]
        self.outputs, self.parameters_each, self.context = outputs, parameters, context
        self.layers = nn.ModuleList([nn.Linear(a, b, dtype=dtype) for a, b in itertools.pairwise(sizes)])
        self.last = nn.Linear(sizes[-1], outputs * parameters, dtype=dtype)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        h = weft.cat([x, context], 1) if self.context else x
        for layer in self.layers:
            h = weft.relu(layer(h))
        return self.last(h).unflatten(-1, (self.outputs, self.parameters_each))


class RowCoupling(Coupling):
    """A coupling of rows (B, D) with a network of full layers.

    >>> y, volume = RowCoupling(5)(weft.ones(2, 5))
    >>> y.shape, volume.tolist()
    (weft.Size([2, 5]), [0.0, 0.0])
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int] = (64, 64),
        map: Univariate | None = None,
        *,
        pattern: str = "halves",
        swap: bool = False,
        context: int = 0,
        dtype: Any = None,
    ) -> None:
        if features < 2:
            raise OptionError(f"RowCoupling: a coupling needs at least 2 features, got {features}")
        map = Affine() if map is None else map
        first = features // 2 if pattern == "halves" else (features + 1) // 2
        kept = features - first if swap else first
        super().__init__(ContextMLP(kept, features - kept, map.parameters, hidden, context, dtype), map, pattern, swap)
