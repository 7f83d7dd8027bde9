"""The same computation over and over: gated for a number of steps, or to a fixed point (N2 §7.7)."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...autograd.implicit import fixed_point
from ...errors import OptionError, ShapeError
from ...nn import init
from ...tensor import Tensor
from .linear import Linear
from .message_passing import Adjacency, MessagePassing

__all__ = ["FixedPointConv", "GatedGraphConv"]


class GatedGraphConv(MessagePassing):
    """m_i = Σ_j w_ji W_t h_j,  h_i ← GRU(m_i, h_i), num_layers times; each step its own W_t (Li et al. 2016).

    x with fewer than out_channels columns is filled up with zeros.

    Shape: x (N, F ≤ out_channels), edge_weight (E,) → (N, out_channels)

    >>> GatedGraphConv(4, num_layers=2)(weft.ones(3, 2), weft.tensor([[0, 1], [1, 2]])).shape
    weft.Size([3, 4])
    """

    def __init__(
        self, out_channels: int, num_layers: int, aggr: str = "sum", bias: bool = True, **options: Any
    ) -> None:
        super().__init__(aggr, **options)
        self.out_channels, self.num_layers = out_channels, num_layers
        self.weight = nn.Parameter(weft.empty(num_layers, out_channels, out_channels))
        self.rnn = nn.GRUCell(out_channels, out_channels, bias=bias)
        bound = out_channels**-0.5
        init.uniform_(self.weight, -bound, bound)

    def forward(self, x: Tensor, edge_index: Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        if x.shape[-1] > self.out_channels:
            raise ShapeError(
                f"GatedGraphConv: x has {x.shape[-1]} features, states only {self.out_channels}; raise out_channels"
            )
        if x.shape[-1] < self.out_channels:
            x = weft.cat([x, x.new_zeros(x.shape[0], self.out_channels - x.shape[-1])], 1)
        for weight in self.weight:
            gathered = self.propagate(edge_index, x=x @ weight, edge_weight=edge_weight)
            x = self.rnn(gathered, x)
        return x

    def message(self, x_j: Tensor, edge_weight: Tensor | None) -> Tensor:
        return x_j if edge_weight is None else edge_weight.unsqueeze(-1) * x_j


class FixedPointConv(MessagePassing):
    """h_i = tanh(W · mean_j h_j + U x_i + b), solved for h (Scarselli et al. 2009; N2 §7.7).

    Iterated from 0 until nothing changes. W is scaled to a largest row sum of at most `contraction` < 1, so that with means of
    neighbours and tanh the map shortens the greatest distance of any two states by that factor: there is one fixed point, and it
    is found. Gradients are Almeida's and Pineda's: those of the fixed point, by a second iteration, with nothing kept of the
    first (`weft.autograd.fixed_point`).

    tol, max_iter: of both iterations; unrolled=n takes n steps instead, recorded one by one

    Shape: x (N, in_channels) → (N, out_channels)

    >>> FixedPointConv(2, 4)(weft.ones(3, 2), weft.tensor([[0, 1], [1, 2]])).shape
    weft.Size([3, 4])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        contraction: float = 0.9,
        tol: float | None = None,
        max_iter: int = 1000,
        unrolled: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__("mean", **options)
        if not 0 <= contraction < 1:
            raise OptionError(
                f"FixedPointConv: contraction must be in [0, 1), or there may be no fixed point; got {contraction}"
            )
        self.contraction, self.tol, self.max_iter, self.unrolled = contraction, tol, max_iter, unrolled
        self.lin = Linear(in_channels, out_channels)
        self.weight = nn.Parameter(weft.empty(out_channels, out_channels))
        bound = out_channels**-0.5
        init.uniform_(self.weight, -bound, bound)

    def contracting(self) -> Tensor:
        """W: `weight` over its largest row sum Σ_k |w_lk| where that is larger than `contraction`. Shape: (C, C)"""
        return self.weight * (self.contraction / self.weight.abs().sum(1).max().clamp(min=self.contraction))

    def forward(self, x: Tensor, edge_index: Adjacency) -> Tensor:
        driven = self.lin(x)
        if not isinstance(edge_index, Tensor):
            edge_index, _ = self._as_edges(edge_index, {})

        def step(h: Tensor, driven: Tensor, weight: Tensor) -> Tensor:
            return (self.propagate(edge_index, x=h) @ weight.T + driven).tanh()

        h, weight = weft.zeros_like(driven), self.contracting()
        if self.unrolled is None:
            return fixed_point(step, h, driven, weight, tol=self.tol, max_iter=self.max_iter)
        for _ in range(self.unrolled):
            h = step(h, driven, weight)
        return h
