"""Attention whole, with masks, caches and groups of heads, and rotary positions."""

from __future__ import annotations

import functools
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
    left_window_size: int = -1,
    right_window_size: int = -1,
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
    window = left_window_size, right_window_size
    simple = softcap == 0 and lengths is None and outputs < 4 and past_k is None and softmax_precision is None
    if (
        simple
        and window == (-1, -1)
        and (mask is None or not is_causal)
        and (not is_causal or q.shape[2] == k.shape[2])
    ):
        mask = _fitted(mask, k.shape[2])
        y, stages = F.scaled_dot_product_attention(q, k, v, mask, is_causal=bool(is_causal), scale=factor), []
    else:
        seen = _seen(q, k, lengths, past_k, bool(is_causal), window)
        y, stages = _in_steps(q, k, v, mask, seen, factor, softcap, softmax_precision)
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
    seen: Tensor | None,
    factor: float,
    softcap: float,
    precision: int | None,
) -> tuple[Tensor, list[Tensor]]:
    """The same with every stage of the scores: products, with the cap, with the mask, as weights."""
    root = math.sqrt(factor)
    products = (q * root) @ (k * root).mT
    capped = softcap * weft.tanh(products / softcap) if softcap else products
    bias = _bias(mask, q.shape[2], k.shape[2], q.dtype)
    scores = capped if bias is None else capped + bias
    if seen is not None:
        scores = weft.where(seen, scores, weft.full((), -math.inf, dtype=scores.dtype))
    wide = scores if precision is None else converted(scores, ELEMENT_TYPES[precision])
    weights = weft.softmax(wide, -1).to(scores.dtype)
    weights = weft.where(weft.isnan(weights), weft.zeros((), dtype=weights.dtype), weights)
    return weights @ v, [products, capped, scores, weights]


def _seen(
    q: Tensor, k: Tensor, lengths: Tensor | None, past: Tensor | None, causal: bool, window: tuple[int, int]
) -> Tensor | None:
    """Which keys a query may look at: those that are there, none after its own place, none outside of its window."""
    queries, keys = q.shape[2], k.shape[2]
    place = weft.arange(keys)
    there = None if lengths is None else place < lengths.reshape(-1, 1, 1, 1)
    left, right = window
    if not causal and window == (-1, -1):
        return there
    if past is None and lengths is not None:
        first: Any = (lengths - queries).reshape(-1, 1, 1, 1)
    else:
        first = 0 if past is None else past.shape[2]
    own = first + weft.arange(queries).reshape(-1, 1)
    conditions = [place <= own] if causal else []
    conditions += [place >= own - left] if left >= 0 else []
    conditions += [place <= own + right] if right >= 0 else []
    conditions += [] if there is None else [there]
    return functools.reduce(weft.logical_and, conditions)


@rule("LinearAttention")
def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> tuple[Tensor, Tensor]:
    """S ← e^g S + β k ⊗ (v − e^g Sᵀ k), or without gate g or without the delta; o = scale · Sᵀ q, step by step."""
    query, key, value = _in_heads(q, q_num_heads), _in_heads(k, kv_num_heads), _in_heads(v, kv_num_heads)
    batch, heads, steps, width = key.shape
    factor = scale or 1 / math.sqrt(query.shape[-1])
    state = weft.zeros(batch, heads, width, value.shape[-1], dtype=q.dtype) if past is None else past
    gates = None if decay is None else _in_heads(decay, kv_num_heads).exp().unsqueeze(-1)  # (B, H, T, D or 1, 1)
    rates = None if beta is None else beta.transpose(1, 2).unsqueeze(-1)  # (B, H or 1, T, 1)
    made = []
    for t in range(steps):
        row, new = key[:, :, t], value[:, :, t]
        state = state if gates is None or "gated" not in update_rule else state * gates[:, :, t]
        if "delta" in update_rule:
            new = new - (row.unsqueeze(-2) @ state).squeeze(-2)
            new = new if rates is None else new * rates[:, :, t]
        state = state + row.unsqueeze(-1) * new.unsqueeze(-2)
        shared = state.repeat_interleave(q_num_heads // kv_num_heads, 1)
        made.append((query[:, :, t].unsqueeze(-2) @ shared).squeeze(-2) * factor)
    y = weft.stack(made, 1)  # (B, T, H, V)
    return y.reshape(batch, steps, -1), state


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
