"""Multi-head attention as a module."""

from __future__ import annotations

from typing import Any

import weft

from ...errors import ConditionError, InvalidValueError
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import Parameter
from .linear import Linear

__all__ = ["MultiheadAttention"]


class NonDynamicallyQuantizableLinear(Linear):
    """A `Linear` under the name that PyTorch prints for the output projection."""


class MultiheadAttention(Module):
    """concat(head_1 … head_h) W_O, head_i = softmax(Q W_Q K̃ᵀ / √d) V W_V with d = embed_dim / num_heads (N1 §12.4.1).

    The three input projections are one matrix in_proj_weight (3E, E), or q/k/v_proj_weight if kdim or vdim differ from
    embed_dim. In masks true means: not allowed; float masks are added to the scores. Returns the output and, with
    need_weights, the attention weights.
    Shape: (L, N, E), (S, N, kdim), (S, N, vdim) → (L, N, E), (N, L, S) or (N, H, L, S); (N, L, E) with batch_first;
    N optional

    embed_dim: E, the size of queries and results
    num_heads: how many heads share it; must divide it
    dropout: the probability of dropping an attention weight in training
    bias: whether the projections have one
    add_bias_kv: append a learned key and value to every sequence
    add_zero_attn: append a key and value of zeros
    kdim, vdim: the sizes of keys and values; None: embed_dim
    batch_first: whether tensors are (N, L, E) instead of (L, N, E)

    >>> attention = nn.MultiheadAttention(16, 4, batch_first=True)
    >>> x = weft.randn(2, 5, 16)
    >>> y, weights = attention(x, x, x)
    >>> y.shape, weights.shape
    (weft.Size([2, 5, 16]), weft.Size([2, 5, 5]))
    """

    random_in_training = True  # the dropout of the weights

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_sizes(embed_dim, num_heads)
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        for name, shape in self._shapes(bias, add_bias_kv).items():
            value = None if shape is None else Parameter(weft.empty(shape, device=device, dtype=dtype))
            self.register_parameter(name, value)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self._reset_parameters()

    def _shapes(self, bias: bool, add_bias_kv: bool) -> dict[str, tuple[int, ...] | None]:
        """The shapes of the parameters, None for those that are left out."""
        E, one, three = self.embed_dim, self._qkv_same_embed_dim, not self._qkv_same_embed_dim
        return {
            "q_proj_weight": (E, E) if three else None,
            "k_proj_weight": (E, self.kdim) if three else None,
            "v_proj_weight": (E, self.vdim) if three else None,
            "in_proj_weight": (3 * E, E) if one else None,
            "in_proj_bias": (3 * E,) if bias else None,
            "bias_k": (1, 1, E) if add_bias_kv else None,
            "bias_v": (1, 1, E) if add_bias_kv else None,
        }

    def _reset_parameters(self) -> None:
        """Xavier's uniform rule for the input projections, its normal rule for bias_k and bias_v, biases 0."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        if self.bias_k is not None:
            init.xavier_normal_(self.bias_k)
            init.xavier_normal_(self.bias_v)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        turned = self.batch_first and query.ndim == 3
        if turned:
            query, key, value = _time_first(query, key, value)
        separate = not self._qkv_same_embed_dim
        y, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=separate,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (y.transpose(0, 1) if turned else y), weights


def _time_first(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(N, L, E) → (L, N, E) for all three; the same tensor stays the same, so that one product projects it."""
    turned = query.transpose(0, 1)
    keys = turned if key is query else key.transpose(0, 1)
    return turned, keys, keys if value is key else value.transpose(0, 1)


def _check_sizes(embed_dim: int, num_heads: int) -> None:
    if embed_dim <= 0 or num_heads <= 0:
        raise InvalidValueError(
            f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead"
        )
    if embed_dim % num_heads:
        raise ConditionError(f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}")
