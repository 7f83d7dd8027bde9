"""Where in a sequence: vectors added to the input, biases added to attention scores, rotations of queries and keys.

Attention alone is equivariant under permutations; these tell it the order (N2 §5.7, N1 §12.2.1, N3).
Positions count from 0. PyTorch has none of these.
"""

from __future__ import annotations

import math
from typing import Any

import weft

from ...errors import OptionError, ShapeError
from ...refusal import need_bounded
from ...tape.modes import no_grad
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import Parameter

__all__ = [
    "ALiBi",
    "LearnedPosition",
    "RelativePositionBias",
    "RotaryPosition",
    "SinusoidalPosition",
    "alibi_slopes",
    "position_reconstruction_error",
    "relative_position_bucket",
    "relative_positions",
    "rotate_by_position",
    "sinusoidal_positions",
]


# -------------------------------------------------------------------------------------- vectors to be added


def sinusoidal_positions(positions: int | Tensor, features: int, base: float = 10000.0) -> Tensor:
    """p[i, 2k] = sin(i / base^(2k/D)), p[i, 2k+1] = cos(i / base^(2k/D)) (N2 §5.7.1).

    N1 def. 12.4 writes the number of the component where N2 (and the transformer's authors) write 2k.
    Shape: positions (*), or a number T for 0…T−1 → (*, D)
    """
    positions = weft.arange(positions) if isinstance(positions, int) else positions
    kind = positions.dtype if positions.is_floating_point() else weft.get_default_dtype()
    angles = _angles(positions, features, base)
    both = weft.stack([angles.sin(), angles.cos()], -1)  # (*, ⌈D/2⌉, 2)
    return both.flatten(-2)[..., :features].to(kind)


def _angles(positions: Tensor, features: int, base: float) -> Tensor:
    """i / base^(2k/D) for k < ⌈D/2⌉, in double precision: angles grow with i. Shape: (*) → (*, ⌈D/2⌉)"""
    k = weft.arange((features + 1) // 2, dtype=weft.float64)
    return positions.unsqueeze(-1).to(weft.float64) * base ** (-2 * k / features)


class SinusoidalPosition(Module):
    """y_i = x_i + p_i with the fixed vectors of `sinusoidal_positions` (N2 §5.7.1); no parameters, any length.

    `offset` of the call is the position of the first row. Shape: (*, T, D) → the same

    features: D
    base: the slowest wave is about 2π · base places long

    >>> nn.SinusoidalPosition(4)(weft.zeros(2, 4))[0]
    tensor([0., 1., 0., 1.])
    """

    def __init__(self, features: int, base: float = 10000.0) -> None:
        super().__init__()
        self.features, self.base = features, base

    def forward(self, input: Tensor, offset: int | Tensor = 0) -> Tensor:
        positions = weft.arange(input.shape[-2]) + offset
        return input + sinusoidal_positions(positions, self.features, self.base).to(input.dtype)  # (T, D)

    def extra_repr(self) -> str:
        return f"features={self.features}, base={self.base}"


class LearnedPosition(Module):
    """y_i = x_i + weight[i]: one learned vector a position, as in BERT and GPT (N2 §5.7.1).

    `offset` of the call is the position of the first row. Shape: (*, T, D), T + offset ≤ max_length → the same;
    weight (max_length, D) from N(0, std²)

    max_length: how many positions there are
    features: D
    std: the spread of the vectors at first

    >>> nn.LearnedPosition(100, 8)(weft.zeros(2, 5, 8)).shape
    weft.Size([2, 5, 8])
    """

    def __init__(
        self, max_length: int, features: int, std: float = 0.02, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.std = std
        self.weight = Parameter(weft.empty(max_length, features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.normal_(self.weight, std=self.std)

    def forward(self, input: Tensor, offset: int = 0) -> Tensor:
        end = offset + input.shape[-2]
        if end > self.weight.shape[0]:
            raise ShapeError(
                f"LearnedPosition: input {tuple(input.shape)} at offset {offset} ends at position {end}, "
                f"but max_length is {self.weight.shape[0]}"
            )
        return input + self.weight[offset:end]

    def extra_repr(self) -> str:
        return "max_length={}, features={}".format(*self.weight.shape)


@no_grad()
def position_reconstruction_error(embeddings: Tensor, folds: int = 5) -> float:
    """Mean |i − î| where î is a linear function of row i, fitted by least squares to the other rows (N2 §5.7.1 table 1).

    Fold f holds the rows i ≡ f (mod folds) out. 0 for sinusoids; the notes list 1.03 for GPT-2, 6.06 for RoBERTa, 34.14
    for BERT, whose learned vectors have lost part of the position. Shape: (T, D) → a number
    """
    length = embeddings.shape[0]
    positions = weft.arange(length, dtype=weft.float64)
    rows = weft.cat([embeddings.to(weft.float64), weft.ones(length, 1, dtype=weft.float64)], -1)  # (T, D + 1)
    errors = []
    for fold in range(folds):
        held_out = weft.arange(length) % folds == fold
        coefficients = weft.linalg.pinv(rows[~held_out]) @ positions[~held_out]
        errors.append((rows[held_out] @ coefficients - positions[held_out]).abs())
    return float(weft.cat(errors).mean())


# --------------------------------------------------------------------------------- biases added to scores


def relative_positions(queries: int, keys: int, offset: int | Tensor = 0) -> Tensor:
    """r[i, j] = j − (i + offset): how far key j lies ahead of query i; `offset` is the first query's position."""
    return weft.arange(keys) - (weft.arange(queries) + offset).unsqueeze(-1)  # (L, S)


def relative_position_bucket(
    relative: Tensor, bidirectional: bool = True, num_buckets: int = 32, max_distance: int = 128
) -> Tensor:
    """T5's numbering of distances: one bucket each for small ones, then buckets that widen as logarithms.

    With n buckets for a direction and m = n // 2, a distance d falls into bucket d if d < m, else into
    m + ⌊(n − m) · ln(d/m) / ln(max_distance/m)⌋, at most n − 1. Bidirectional: half of the buckets for keys behind
    or at the query, half for keys ahead of it; else keys ahead count as distance 0. Shape: any → the same, int64
    """
    count = num_buckets // 2 if bidirectional else num_buckets
    first = (relative > 0).to(weft.int64) * count if bidirectional else 0
    distance = relative.abs() if bidirectional else (-relative).clamp(min=0)
    exact = count // 2
    if not 0 < exact < max_distance:
        raise OptionError(f"relative_position_bucket: need 0 < {exact} exact buckets < max_distance = {max_distance}")
    growth = (distance.clamp(min=1).to(weft.float64) / exact).log() / math.log(max_distance / exact)
    far = (exact + (growth * (count - exact)).to(weft.int64)).clamp(max=count - 1)
    return first + weft.where(distance < exact, distance, far)


class RelativePositionBias(Module):
    """b[h, i, j] = weight[bucket(j − i), h], to be added to the scores of head h: the form of T5 (N2 §5.7.2, N3).

    Every head learns which distances and directions it prefers. forward(L, S, offset=0) → (H, L, S);
    weight (num_buckets, H) from N(0, 1)

    num_heads: H
    num_buckets: how many classes of distances there are; half of them for single distances, the rest on a log scale
    max_distance: from which distance on all are in the last bucket
    bidirectional: whether what comes later has buckets of its own

    >>> nn.RelativePositionBias(4)(5, 7).shape
    weft.Size([4, 5, 7])
    """

    def __init__(
        self,
        num_heads: int,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_heads, self.num_buckets = num_heads, num_buckets
        self.max_distance, self.bidirectional = max_distance, bidirectional
        self.weight = Parameter(weft.empty(num_buckets, num_heads, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.normal_(self.weight)

    def forward(self, queries: int, keys: int, offset: int | Tensor = 0) -> Tensor:
        relative = relative_positions(queries, keys, offset)
        bucket = relative_position_bucket(relative, self.bidirectional, self.num_buckets, self.max_distance)
        return F.embedding(bucket, self.weight).permute(2, 0, 1)  # (L, S, H) → (H, L, S)

    def extra_repr(self) -> str:
        return (
            f"num_heads={self.num_heads}, num_buckets={self.num_buckets}, max_distance={self.max_distance}, "
            f"bidirectional={self.bidirectional}"
        )


def alibi_slopes(num_heads: int) -> list[float]:
    """m_h = 2^(−8h/H), h = 1…H, for H a power of two.

    For other H: the slopes of the next lower power of two P, then the 1st, 3rd, 5th, … slope of 2P.
    """
    if num_heads < 1:
        raise OptionError(f"alibi_slopes: num_heads must be at least 1, got {num_heads}")
    need_bounded(num_heads, "alibi_slopes", "num_heads")
    power = 1 << (num_heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * h / power) for h in range(1, power + 1)]
    return slopes + [2.0 ** (-4 * h / power) for h in range(1, 2 * (num_heads - power), 2)]


class ALiBi(Module):
    """b[h, i, j] = −m_h · |i − j|, to be added to the scores of head h: attention with linear biases (N2 §5.7.2, N3).

    Nothing is learned; the slopes m_h are those of `alibi_slopes`, a buffer that is not saved.
    forward(L, S, offset=0) → (H, L, S)

    num_heads: H

    >>> nn.ALiBi(2)(1, 3)[0]
    tensor([[-0.0000, -0.0625, -0.1250]])
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.register_buffer("slopes", weft.tensor(alibi_slopes(num_heads)), persistent=False)

    def forward(self, queries: int, keys: int, offset: int = 0) -> Tensor:
        distance = relative_positions(queries, keys, offset).abs()
        return -self.slopes.reshape(-1, 1, 1) * distance  # (H, 1, 1) · (L, S)

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}"


# -------------------------------------------------------------------------------- rotations


def rotate_by_position(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
    """Every pair (x[2k], x[2k+1]) of the row at position i, turned by the angle i / base^(2k/D): rotary position.

    Rotations keep lengths, and ⟨R_i q, R_j k⟩ = ⟨q, R_{j−i} k⟩ depends on the distance alone (relative position in
    the sense of N2 §5.7.2, N3). Positions (T,) are 0…T−1 unless given. Shape: (*, T, D), D even → the same
    """
    if x.shape[-1] % 2:
        raise ShapeError(f"rotate_by_position: the last size must be even, got {tuple(x.shape)}")
    positions = weft.arange(x.shape[-2]) if positions is None else positions
    angles = _angles(positions, x.shape[-1], base)  # (T, D/2)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return weft.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)  # (*, T, D/2, 2) → (*, T, D)


class RotaryPosition(Module):
    """Queries and keys after `rotate_by_position`; no parameters.

    `offset` of the call is the position of the first query; keys start at 0. Shape: (*, L, D), (*, S, D) → the same two

    base: the slowest pair of coordinates turns once in about 2π · base places

    >>> q, k = nn.RotaryPosition()(weft.ones(3, 8), weft.ones(5, 8))
    >>> q.shape, k.shape
    (weft.Size([3, 8]), weft.Size([5, 8]))
    """

    def __init__(self, base: float = 10000.0) -> None:
        super().__init__()
        self.base = base

    def forward(self, query: Tensor, key: Tensor, offset: int = 0) -> tuple[Tensor, Tensor]:
        positions = weft.arange(offset, offset + query.shape[-2])
        return rotate_by_position(query, positions, self.base), rotate_by_position(key, None, self.base)

    def extra_repr(self) -> str:
        return f"base={self.base}"
