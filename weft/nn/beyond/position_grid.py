"""Where in an image, and positions put beside the input instead of added to it (N1 example 12.2, N2 §5.7.1, N3)."""

from __future__ import annotations

from typing import Any

import weft

from ...errors import ShapeError
from ...tape.modes import no_grad
from ...tensor import Tensor
from .. import init
from ..module import Module
from ..parameter import Parameter
from .position import sinusoidal_positions

__all__ = [
    "ConcatenatedPosition",
    "LearnedPosition2d",
    "SinusoidalPosition2d",
    "grid_reconstruction_error",
    "sinusoidal_positions_2d",
]


def sinusoidal_positions_2d(height: int, width: int, features: int, base: float = 10000.0) -> Tensor:
    """p[i, j] = [s(i) ‖ s(j)]: half of the features tell the row, half the column, each by `sinusoidal_positions`.

    What the patches of an image need (N1 example 12.2): in a flat sequence of them neighbours above each other are far apart.
    Shape: (H, W, D), D even
    """
    if features % 2:
        raise ShapeError(f"sinusoidal_positions_2d: features must be even, one half for each direction, got {features}")
    rows = sinusoidal_positions(height, features // 2, base)  # (H, D/2)
    columns = sinusoidal_positions(width, features // 2, base)  # (W, D/2)
    shape = (height, width, features // 2)
    return weft.cat([rows.unsqueeze(1).expand(shape), columns.unsqueeze(0).expand(shape)], -1)


class SinusoidalPosition2d(Module):
    """y_ij = x_ij + p_ij with the fixed vectors of `sinusoidal_positions_2d`; no parameters, any size of image.

    Shape: (*, H, W, D) → the same

    features: D, even
    base: of the wave lengths, which go from 2π to 2π·base

    >>> nn.SinusoidalPosition2d(8)(weft.zeros(2, 3, 4, 8)).shape
    weft.Size([2, 3, 4, 8])
    """

    def __init__(self, features: int, base: float = 10000.0) -> None:
        super().__init__()
        self.features, self.base = features, base

    def forward(self, input: Tensor) -> Tensor:
        height, width = input.shape[-3:-1]
        return input + sinusoidal_positions_2d(height, width, self.features, self.base).to(input.dtype)

    def extra_repr(self) -> str:
        return f"features={self.features}, base={self.base}"


class LearnedPosition2d(Module):
    """y_ij = x_ij + [r_i ‖ c_j]: a learned vector for each row and one for each column, D/2 numbers each.

    (H + W)·D/2 parameters instead of the H·W·D of one vector a place. Shape: (*, H, W, D) → the same; both weights
    (height or width, D/2) from N(0, std²)

    height, width: of the largest image
    features: D, even
    std: the standard deviation at the start
    device, dtype: of the parameters

    >>> layer = nn.LearnedPosition2d(3, 4, 8)
    >>> layer(weft.zeros(2, 3, 4, 8)).shape, sum(p.numel() for p in layer.parameters())
    (weft.Size([2, 3, 4, 8]), 28)
    """

    def __init__(
        self, height: int, width: int, features: int, std: float = 0.02, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        if features % 2:
            raise ShapeError(f"LearnedPosition2d: features must be even, one half for each direction, got {features}")
        self.std = std
        self.rows = Parameter(weft.empty(height, features // 2, device=device, dtype=dtype))
        self.columns = Parameter(weft.empty(width, features // 2, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.normal_(self.rows, std=self.std)
        init.normal_(self.columns, std=self.std)

    def forward(self, input: Tensor) -> Tensor:
        height, width = input.shape[-3:-1]
        if height > self.rows.shape[0] or width > self.columns.shape[0]:
            raise ShapeError(
                f"LearnedPosition2d: an image of {height} × {width} is larger than the {self.rows.shape[0]} × "
                f"{self.columns.shape[0]} that positions were learned for"
            )
        shape = (height, width, self.rows.shape[1])
        rows, columns = self.rows[:height].unsqueeze(1), self.columns[:width].unsqueeze(0)
        return input + weft.cat([rows.expand(shape), columns.expand(shape)], -1)

    def extra_repr(self) -> str:
        return f"height={self.rows.shape[0]}, width={self.columns.shape[0]}, features={2 * self.rows.shape[1]}"


class ConcatenatedPosition(Module):
    """y_i = [x_i ‖ p_i]: positions beside the input, X′ = [X ‖ E], instead of added to it (N3, N1 eq. 330).

    The input keeps its own coordinates, at the price of more of them. `positions` is any module that adds positions:
    it is given zeros to add to. Shape: (*, T, D) → (*, T, D + P), or (*, H, W, D) → (*, H, W, D + P)

    positions: a layer as `SinusoidalPosition`, `LearnedPosition` or one of the two-dimensional ones, for P features
    features: P

    >>> layer = nn.ConcatenatedPosition(nn.SinusoidalPosition(4), 4)
    >>> layer(weft.zeros(2, 5, 3)).shape
    weft.Size([2, 5, 7])
    """

    def __init__(self, positions: Module, features: int) -> None:
        super().__init__()
        self.positions, self.features = positions, features

    def forward(self, input: Tensor) -> Tensor:
        beside = self.positions(input.new_zeros((*input.shape[:-1], self.features)))
        return weft.cat([input, beside], -1)

    def extra_repr(self) -> str:
        return f"features={self.features}"


@no_grad()
def grid_reconstruction_error(embeddings: Tensor, folds: int = 5) -> tuple[float, float]:
    """Mean |i − î| and |j − ĵ| where î and ĵ are linear functions of the vector at (i, j), fitted to the other places.

    `position_reconstruction_error` for a grid: one linear map must tell the row, one the column, wherever the place is.
    Fold f holds every `folds`-th place out. Shape: (H, W, D) → two numbers
    """
    height, width, _ = embeddings.shape
    rows, columns = (
        x.flatten().to(weft.float64) for x in weft.meshgrid(weft.arange(height), weft.arange(width), indexing="ij")
    )
    flat = embeddings.flatten(0, 1).to(weft.float64)  # (H·W, D)
    seen = weft.cat([flat, weft.ones(height * width, 1, dtype=weft.float64)], -1)
    wanted, found = weft.stack([rows, columns], -1), weft.zeros(height * width, 2, dtype=weft.float64)
    for fold in range(folds):
        held_out = weft.arange(height * width) % folds == fold
        found[held_out] = seen[held_out] @ (weft.linalg.pinv(seen[~held_out]) @ wanted[~held_out])
    return tuple((found - wanted).abs().mean(0).tolist())
