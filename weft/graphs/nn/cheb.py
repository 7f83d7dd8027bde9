"""Spectral filters as polynomials of the Laplacian, without its eigenvectors (Defferrard et al. 2016; N2 §7.8)."""

from __future__ import annotations

from typing import Any, Literal

import weft

from ... import nn
from ...errors import OptionError
from ...nn import init
from ...sparse import SparseTensor
from ...tensor import Tensor
from ..segment import aggregate as along
from ..segment import scatter
from .linear import Linear
from .message_passing import Adjacency, MessagePassing

__all__ = ["ChebConv"]


class ChebConv(MessagePassing):
    """X' = Σ_{k<K} T_k(L̂) X W_k + b,  L̂ = 2 L / λ_max − I,  T_k = 2 L̂ T_{k−1} − T_{k−2}, T_0 = I, T_1 = L̂.

    The filter Σ θ_k T_k(λ̂) of the graph's frequencies, exactly; a vertex sees K − 1 steps far. Loops of the graph do not count.

    normalization: "sym" L = I − D^-½ A D^-½ (λ_max ≤ 2, the default), "rw" L = I − D^-1 A, None L = D − A, with the sum of
        what comes to i as d_i; for the last two the largest eigenvalue must be given to forward

    Shape: x (N, in_channels), edge_weight (E,), lambda_max a number → (N, out_channels)

    >>> ChebConv(2, 4, K=3)(weft.ones(3, 2), weft.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
    weft.Size([3, 4])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        K: int,
        normalization: Literal["sym", "rw"] | None = "sym",
        bias: bool = True,
        **options: Any,
    ) -> None:
        super().__init__("sum", **options)
        if K < 1 or normalization not in ("sym", "rw", None):
            raise OptionError(
                f"ChebConv: K must be at least 1 and normalization 'sym', 'rw' or None, got {K} and {normalization!r}"
            )
        self.normalization = normalization
        self.lins = nn.ModuleList([Linear(in_channels, out_channels, bias=False) for _ in range(K)])
        self.bias = nn.Parameter(weft.zeros(out_channels)) if bias else None

    def reset_parameters(self) -> None:
        """Draw weights anew."""
        for layer in self.lins:
            layer.reset_parameters()
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(
        self, x: Tensor, edge_index: Adjacency, edge_weight: Tensor | None = None, lambda_max: Any = None
    ) -> Tensor:
        if lambda_max is None and self.normalization != "sym":
            raise OptionError("ChebConv: without normalization='sym' lambda_max must be given to forward")
        if isinstance(edge_index, SparseTensor):
            edge_index, found = self._as_edges(edge_index, {"edge_weight": edge_weight})
            edge_weight = found["edge_weight"]
        top = 2.0 if lambda_max is None else lambda_max
        weight, diagonal = self._laplacian(edge_index, edge_weight, x, top)
        edges = edge_index if self.flow == "source_to_target" else edge_index.flip(0)
        step = lambda z: along(z, edges, weight) + diagonal.unsqueeze(-1) * z  # L̂ z
        before, now = x, x
        y = self.lins[0](x)
        for k, layer in enumerate(self.lins):
            if k:
                before, now = now, step(x) if k == 1 else 2 * step(now) - before
                y = y + layer(now)
        return y if self.bias is None else y + self.bias

    def _laplacian(self, edge_index: Tensor, weight: Tensor | None, x: Tensor, top: Any) -> tuple[Tensor, Tensor]:
        """Entries of L̂ at the edges, (E,), and on the diagonal, (N,)."""
        source, target = edge_index[0], edge_index[1]
        weight = weft.ones(edge_index.shape[1], dtype=x.dtype) if weight is None else weight.reshape(-1)
        weight = weft.where(source != target, weight, 0.0)
        into, other = (target, source) if self.flow == "source_to_target" else (source, target)
        degree = scatter(weight, into, 0, x.shape[0])
        if self.normalization is None:
            return -2 / top * weight, 2 / top * degree - 1
        power = -0.5 if self.normalization == "sym" else -1.0
        scale = weft.where(degree > 0, degree.clamp(min=1e-30) ** power, 0.0)
        if self.normalization == "sym":
            weight = weight * scale[other]
        return -2 / top * scale[into] * weight, weft.ones_like(degree) * (2 / top - 1)
