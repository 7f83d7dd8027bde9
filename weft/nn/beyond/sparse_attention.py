"""Attention for long sequences: sparse masks, a window computed without its mask, and the linear transformer in O(n).

N2 §5.9.1 (masks that trade representational power for cost) and table 1 of N2 §5.6.3; N3, linear transformers.
A mask m[i, j] is true where query i sees key j, as in `scaled_dot_product_attention`; masks combine with | and &.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import weft

from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..modules.dropout import Dropout
from ..modules.linear import Linear
from ..modules.norm import LayerNorm
from ..parameter import Parameter

__all__ = [
    "LinearAttention",
    "LinearTransformerLayer",
    "block_mask",
    "causal_mask",
    "global_mask",
    "linear_attention",
    "local_attention",
    "local_mask",
    "positive_elu",
    "strided_mask",
]


# ------------------------------------------------------------------------------------------------ masks


def causal_mask(length: int) -> Tensor:
    """j ≤ i: nothing ahead (N2 §5.9.1, N3 causal transformer). Shape: (T, T)"""
    return _ahead(length) <= 0


def local_mask(length: int, window: int, dilation: int = 1) -> Tensor:
    """|i − j| ≤ window · dilation and dilation divides i − j: a band around the diagonal, O(T · window) pairs.

    The restricted self-attention of N2 §5.6.3 table 1, dilated for dilation > 1. Shape: (T, T)
    """
    _check_positive("local_mask", dilation=dilation)
    distance = _ahead(length).abs()
    return (distance <= window * dilation) & (distance % dilation == 0)


def strided_mask(length: int, stride: int) -> Tensor:
    """stride divides i − j: every stride-th key; with `local_mask` any two places are two layers apart. (T, T)"""
    _check_positive("strided_mask", stride=stride)
    return _ahead(length) % stride == 0


def block_mask(length: int, block: int) -> Tensor:
    """⌊i / block⌋ = ⌊j / block⌋: attention inside consecutive blocks. Shape: (T, T)"""
    _check_positive("block_mask", block=block)
    number = weft.arange(length) // block
    return number.unsqueeze(-1) == number


def global_mask(length: int, positions: int | Sequence[int]) -> Tensor:
    """i ∈ G or j ∈ G: the places G (a list, or the first few) see everything and are seen by all. Shape: (T, T)"""
    chosen = weft.zeros(length, dtype=weft.bool)
    chosen[list(range(positions)) if isinstance(positions, int) else list(positions)] = True
    return chosen.unsqueeze(-1) | chosen


def _ahead(length: int) -> Tensor:
    """j − i. Shape: (T, T)"""
    return weft.arange(length) - weft.arange(length).unsqueeze(-1)


def _check_positive(name: str, **values: int) -> None:
    for what, value in values.items():
        if value < 1:
            raise OptionError(f"{name}: {what} must be at least 1, got {value}")


# ------------------------------------------------------------------------------------- attention in a window


def local_attention(query: Tensor, key: Tensor, value: Tensor, window: int, causal: bool = False) -> Tensor:
    """softmax(q kᵀ/√D) v over the keys with |i − j| ≤ window (causal: i − window ≤ j ≤ i), in O(T · window).

    Equal to `scaled_dot_product_attention` with `local_mask` (N2 §5.6.3 table 1, restricted self-attention), without
    ever forming the T × T scores. Shape: (*, T, D), (*, T, D), (*, T, V) → (*, T, V)
    """
    length, ahead = query.shape[-2], 0 if causal else window
    size = window + 1 + ahead
    keys = F.pad(key, (0, 0, window, ahead)).unfold(-2, size, 1)  # (*, T, D, W)
    values = F.pad(value, (0, 0, window, ahead)).unfold(-2, size, 1)  # (*, T, V, W)
    scores = (query.unsqueeze(-2) @ keys).squeeze(-2) / math.sqrt(query.shape[-1])  # (*, T, W)
    place = weft.arange(size) + weft.arange(-window, length - window).unsqueeze(-1)  # j of every window, (T, W)
    weights = scores.masked_fill((place < 0) | (place >= length), float("-inf")).softmax(-1)
    return (values @ weights.unsqueeze(-1)).squeeze(-1)


# --------------------------------------------------------------------------------------- linear attention


def positive_elu(x: Tensor) -> Tensor:
    """φ(x) = elu(x) + 1 > 0, the usual feature map of linear attention. Shape: any"""
    return F.elu(x) + 1


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    feature_map: Callable[[Tensor], Tensor] = positive_elu,
    causal: bool = False,
    key_mask: Tensor | None = None,
    chunk: int = 64,
) -> Tensor:
    """hᵢ = φ(qᵢ)ᵀ S / φ(qᵢ)ᵀ z, S = Σⱼ φ(kⱼ) vⱼᵀ, z = Σⱼ φ(kⱼ): O(T) for fixed widths (N3, linear transformers).

    Equal to weights φ(qᵢ)ᵀφ(kⱼ) / Σⱼ φ(qᵢ)ᵀφ(kⱼ), which softmax would take O(T²) for. Causal sums run over j ≤ i: those of
    earlier chunks as a running S, those inside a chunk as a masked product. `key_mask` (*, S) is false for keys to
    leave out; a query that sees no key gets 0. φ must be positive. Shape: (*, L, D), (*, S, D), (*, S, V) → (*, L, V)
    """
    q, k = feature_map(query), feature_map(key)
    if key_mask is not None:
        k = k * key_mask.unsqueeze(-1)
    values = weft.cat([value, weft.ones(*value.shape[:-1], 1, dtype=value.dtype)], -1)  # the last column sums to z
    sums = _causal_sums(q, k, values, chunk) if causal else q @ (k.mT @ values)  # (*, L, V + 1)
    total = sums[..., -1:]
    return sums[..., :-1] / total.masked_fill(total == 0, 1)


def _causal_sums(q: Tensor, k: Tensor, v: Tensor, chunk: int) -> Tensor:
    """hᵢ = Σ_{j ≤ i} (qᵢᵀ kⱼ) vⱼ. Shape: (*, T, D), (*, T, D), (*, T, V) → (*, T, V)"""
    length = q.shape[-2]
    if k.shape[-2] != length:
        raise ShapeError(f"linear_attention: causal needs as many keys as queries, got {k.shape[-2]} and {length}")
    count = -(-length // chunk)
    split = lambda x: F.pad(x, (0, 0, 0, count * chunk - length)).unflatten(-2, (count, chunk))  # (*, N, chunk, ·)
    q, k, v = split(q), split(k), split(v)
    state = (k.mT @ v).cumsum(-3)  # (*, N, D, V)
    before = F.pad(state[..., :-1, :, :], (0, 0, 0, 0, 1, 0))
    inside = (q @ k.mT).tril() @ v
    return (q @ before + inside).flatten(-3, -2)[..., :length, :]


class LinearAttention(Module):
    """`linear_attention` in several heads between projections; names and shapes of parameters as in MultiheadAttention.

    Shape: (*, T, E) → the same; in_proj_weight (3E, E) from Xavier's uniform rule, in_proj_bias (3E,) zero, out_proj

    embed_dim: E
    num_heads: how many heads share it; must divide it
    causal: whether a place sees only itself and what was before
    feature_map: φ, a positive function of queries and keys that stands for the exponential
    bias: whether the projections have one

    >>> nn.LinearAttention(16, 4, causal=True)(weft.randn(2, 5, 16)).shape
    weft.Size([2, 5, 16])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        causal: bool = False,
        feature_map: Callable[[Tensor], Tensor] = positive_elu,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise OptionError(f"LinearAttention: embed_dim {embed_dim} is not divisible by num_heads {num_heads}")
        self.embed_dim, self.num_heads, self.causal, self.feature_map = embed_dim, num_heads, causal, feature_map
        self.in_proj_weight = Parameter(weft.empty(3 * embed_dim, embed_dim, device=device, dtype=dtype))
        if bias:
            self.in_proj_bias = Parameter(weft.empty(3 * embed_dim, device=device, dtype=dtype))
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.xavier_uniform_(self.in_proj_weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)

    def forward(self, input: Tensor, key_mask: Tensor | None = None) -> Tensor:
        projected = F.linear(input, self.in_proj_weight, self.in_proj_bias)
        parts = projected.unflatten(-1, (3, self.num_heads, -1)).movedim(-3, 0)  # (3, *, T, H, d)
        query, key, value = parts.transpose(-3, -2)  # each (*, H, T, d)
        key_mask = None if key_mask is None else key_mask.unsqueeze(-2)  # (*, 1, T)
        y = linear_attention(query, key, value, self.feature_map, self.causal, key_mask)
        return self.out_proj(y.transpose(-3, -2).flatten(-2))  # (*, T, H, d) → (*, T, E)

    def extra_repr(self) -> str:
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, causal={self.causal}"


class LinearTransformerLayer(Module):
    """A transformer layer around `LinearAttention`: x + attention, x + two-layer network, each normalised (N3).

    Names of parameters as in TransformerEncoderLayer. Shape: (*, T, d_model) → the same

    d_model: the size of a place
    nhead: the number of heads; must divide it
    dim_feedforward: the hidden size of the two-layer network
    dropout: the probability of dropping in training
    activation: between its two layers
    layer_norm_eps: ε of the normalisations
    norm_first: normalise before each part instead of after each sum
    causal: whether a place sees only itself and what was before
    feature_map: φ of `linear_attention`
    bias: whether linear layers and normalisations have one

    >>> nn.LinearTransformerLayer(16, 4, dim_feedforward=32)(weft.randn(2, 5, 16)).shape
    weft.Size([2, 5, 16])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        norm_first: bool = False,
        causal: bool = False,
        feature_map: Callable[[Tensor], Tensor] = positive_elu,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.self_attn = LinearAttention(d_model, nhead, causal, feature_map, bias, device, dtype)
        self.linear1 = Linear(d_model, dim_feedforward, bias, device, dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device, dtype)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, True, bias, device, dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, True, bias, device, dtype)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self.activation, self.norm_first = activation, norm_first

    def forward(self, input: Tensor, key_mask: Tensor | None = None) -> Tensor:
        if self.norm_first:
            x = input + self._attended(self.norm1(input), key_mask)
            return x + self._fed_forward(self.norm2(x))
        x = self.norm1(input + self._attended(input, key_mask))
        return self.norm2(x + self._fed_forward(x))

    def _attended(self, x: Tensor, key_mask: Tensor | None) -> Tensor:
        return self.dropout1(self.self_attn(x, key_mask))

    def _fed_forward(self, x: Tensor) -> Tensor:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))
