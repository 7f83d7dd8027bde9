"""Attention whole, with masks, caches and groups of heads, and rotary positions."""

from __future__ import annotations

import math
from typing import Any

import weft

from ...nn import functional as F
from ...tensor import Tensor
from ..tensors import ELEMENT_TYPES
from .registry import rule
from .types import converted


def _in_heads(x: Tensor, heads: int | None) -> Tensor:
    """(B, T, H·D) → (B, H, T, D); four dimensions are in heads already."""
    if x.ndim == 4:
        return x
    b, t, width = x.shape
    return x.reshape(b, t, heads, width // (heads or 1)).transpose(1, 2)


def _bias(mask: Tensor | None, queries: int, keys: int, kind: Any) -> Tensor | None:
    """What is added to the scores; a mask may end before the keys do, which are not seen then."""
    if mask is None:
        return None
    if mask.dtype is weft.bool:
        mask = weft.where(mask, weft.zeros((), dtype=kind), weft.full((), -math.inf, dtype=kind))
    missing = keys - mask.shape[-1]
    return F.pad(mask, [0, missing], value=-math.inf) if missing > 0 else mask


@rule("Attention")
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    past_k: Tensor | None = None,
    past_v: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    outputs: int = 1,
) -> tuple[Any, ...]:
    """softmax(q kᵀ · scale + mask) v; further outputs: keys and values with the past, and the scores at some stage."""
    flat, kind = q.ndim == 3, q.dtype
    q, k, v = _in_heads(q, q_num_heads), _in_heads(k, kv_num_heads), _in_heads(v, kv_num_heads)
    k = k if past_k is None else weft.cat([past_k, k], 2)
    v = v if past_v is None else weft.cat([past_v, v], 2)
    present = k, v
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    simple = softcap == 0 and lengths is None and outputs < 4 and past_k is None and softmax_precision is None
    if simple and (mask is None or not is_causal) and (not is_causal or q.shape[2] == k.shape[2]):
        mask = _fitted(mask, k.shape[2])
        y, stages = F.scaled_dot_product_attention(q, k, v, mask, is_causal=bool(is_causal), scale=factor), []
    else:
        y, stages = _in_steps(q, k, v, mask, lengths, factor, bool(is_causal), past_k, softcap, softmax_precision)
    y = y.to(kind)
    if flat:  # (B, H, T, D) → (B, T, H·D)
        y = y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)
    stage = stages[qk_matmul_output_mode] if stages else None
    return (y, *present, stage)[: max(outputs, 1)]


def _fitted(mask: Tensor | None, keys: int) -> Tensor | None:
    if mask is None or mask.shape[-1] == keys:
        return mask
    return F.pad(mask, [0, keys - mask.shape[-1]], value=False if mask.dtype is weft.bool else -math.inf)


def _in_steps(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    factor: float,
    causal: bool,
    past: Tensor | None,
    softcap: float,
    precision: int | None,
) -> tuple[Tensor, list[Tensor]]:
    """The same with every stage of the scores: products, with the mask, with the cap, as weights."""
    root = math.sqrt(factor)
    products = (q * root) @ (k * root).mT
    capped = softcap * weft.tanh(products / softcap) if softcap else products
    bias = _bias(mask, q.shape[2], k.shape[2], q.dtype)
    scores = capped if bias is None else capped + bias
    seen = _seen(q, k, lengths, past, causal)
    if seen is not None:
        scores = weft.where(seen, scores, weft.full((), -math.inf, dtype=scores.dtype))
    wide = scores if precision is None else converted(scores, ELEMENT_TYPES[precision])
    weights = weft.softmax(wide, -1).to(scores.dtype)
    weights = weft.where(weft.isnan(weights), weft.zeros((), dtype=weights.dtype), weights)
    return weights @ v, [products, scores, capped, weights]


def _seen(q: Tensor, k: Tensor, lengths: Tensor | None, past: Tensor | None, causal: bool) -> Tensor | None:
    """Which keys a query may look at: those that are there, and none after its own place."""
    queries, keys = q.shape[2], k.shape[2]
    place = weft.arange(keys)
    there = None if lengths is None else place < lengths.reshape(-1, 1, 1, 1)
    if not causal:
        return there
    if past is None and lengths is not None:
        first: Any = (lengths - queries).reshape(-1, 1, 1, 1)
    else:
        first = 0 if past is None else past.shape[2]
    before = place <= first + weft.arange(queries).reshape(-1, 1)
    return before if there is None else before & there


@rule("RotaryEmbedding")
def rotary_embedding(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Pairs of features turned by angles that grow with the position."""
    flat = x.ndim == 3
    shape = x.shape
    if flat:  # (B, T, H·D) → (B, T, H, D)
        x = x.reshape(shape[0], shape[1], num_heads, -1)
    else:  # (B, H, T, D) → (B, T, H, D)
        x = x.transpose(1, 2)
    width = rotary_embedding_dim or x.shape[-1]
    moved, rest = x[..., :width], x[..., width:]
    if positions is not None:
        cos, sin = cos[positions.to(weft.int64)], sin[positions.to(weft.int64)]
    cos, sin = (t[..., : width // 2].unsqueeze(2) for t in (cos, sin))
    if interleaved:
        pairs = moved.reshape(*moved.shape[:-1], -1, 2)
        a, b = pairs.select(-1, 0), pairs.select(-1, 1)
        turned = weft.stack([cos * a - sin * b, sin * a + cos * b], -1).reshape(moved.shape)
    else:
        a, b = moved.chunk(2, -1)
        turned = weft.cat([cos * a - sin * b, sin * a + cos * b], -1)
    y = weft.cat([turned, rest], -1) if rest.shape[-1] else turned
    return y.reshape(shape) if flat else y.transpose(1, 2)


