"""Batch normalisation over vertices, of which some may stand for nothing."""

from __future__ import annotations

import weft

from ... import nn
from ...errors import ShapeError
from ...tensor import Tensor

__all__ = ["BatchNorm"]


class BatchNorm(nn.Module):
    """y = (x − μ) / √(σ² + ε) · weight + bias with μ and σ² of each column over the vertices (PyTorch Geometric's name).

    With a mask μ, σ² and the running statistics are those of the chosen rows alone, so that what is said of the vertices of a
    `weft.graphs.padded` batch is what is said of them without the others. The layer is `module`, an `nn.BatchNorm1d`.

    eps: ε; momentum: how far running statistics move towards those of a batch; affine: whether weight and bias are learned

    Shape: x (N, in_channels), mask (N,) bool → (N, in_channels)

    >>> layer = BatchNorm(1, affine=False)
    >>> layer(weft.tensor([[0.0], [2.0], [50.0]]), weft.tensor([True, True, False]))[:2].round(decimals=3).tolist()
    [[-1.0], [1.0]]
    """

    def __init__(self, in_channels: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True) -> None:
        super().__init__()
        self.module = nn.BatchNorm1d(in_channels, eps, momentum, affine)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        norm = self.module
        if mask is None or not norm.training:
            return norm(x)
        if mask.shape != x.shape[:1]:
            raise ShapeError(f"BatchNorm: mask must have a bool for each of {x.shape[0]} rows, got {tuple(mask.shape)}")
        there = mask.to(x.dtype).unsqueeze(1)  # (N, 1)
        count = there.sum()
        mean = (x * there).sum(0) / count
        centred = (x - mean) * there
        variance = centred.square().sum(0) / count
        with weft.no_grad():
            norm.num_batches_tracked.add_(1)
            norm.running_mean.lerp_(mean.detach(), norm.momentum)
            norm.running_var.lerp_(variance.detach() * (count / (count - 1)), norm.momentum)
        y = centred * (variance + norm.eps).rsqrt()
        return y if norm.weight is None else y * norm.weight + norm.bias
