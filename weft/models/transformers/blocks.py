"""What the transformers of this folder share: masks, attention with grouped queries, gates.

Their layers bear the names of Hugging Face's checkpoints, so projections stand in each model's file; here is what is
computed with them. Sizes: B batch, T or L queries, S keys, H heads, G heads of keys and values, D features of a head.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import NamedTuple

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...ops.layers.attention import attention_weights
from ...tape.modes import no_grad
from ...tensor import Tensor
from ..pretrained.watching import watched_weights

__all__ = [
    "ACTIVATIONS",
    "Conv1D",
    "GatedFeedForward",
    "KeyValues",
    "Visible",
    "activation",
    "attend",
    "attention_maps",
    "join_heads",
    "split_heads",
    "visible",
]

F = nn.functional

# the names that files have for them
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),
    "relu6": F.relu6,
    "leaky_relu": F.leaky_relu,
    "gelu": F.gelu,
    "gelu_python": F.gelu,
    "gelu_10": lambda x: F.gelu(x).clamp(-10, 10),
    **dict.fromkeys(
        ("gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh", "gelu_python_tanh"),
        lambda x: F.gelu(x, approximate="tanh"),
    ),
    "quick_gelu": lambda x: x * (1.702 * x).sigmoid(),
    "silu": F.silu,
    "swish": F.silu,
    "hardswish": F.hardswish,
    "mish": F.mish,
    "tanh": weft.tanh,
    "sigmoid": weft.sigmoid,
    "linear": lambda x: x,
}


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """The function of a name in a config."""
    if name not in ACTIVATIONS:
        raise OptionError(f"activation: expected one of {', '.join(ACTIVATIONS)}, got {name!r}")
    return ACTIVATIONS[name]


# ------------------------------------------------------------------------------------------- who sees whom


class Visible(NamedTuple):
    """Which pairs take part: a bool mask broadcasting to (B, H, L, S), or None for all; causal: keys ≤ query alone."""

    mask: Tensor | None
    causal: bool = False


def visible(
    keys_mask: Tensor | None,
    queries: int,
    keys: int,
    *,
    causal: bool = False,
    prefix: Tensor | None = None,
    window: int | None = None,
    start: Tensor | None = None,
) -> Visible:
    """The pairs that take part when `queries` are the last of `keys` places, or those from place `start` on.

    keys_mask (B, S): true or 1 for keys that count, 0 for padding. causal: nobody looks ahead, save that all see the
    first prefix[b] places (the prefix or non-causal decoder: Raffel et al., 2020, §3.2.1). window: a causal query sees
    the last `window` places, itself included. start (): of a cache with fixed capacity, whose last places are empty.
    """
    mask, narrow = None, window is not None and window < keys
    causal = causal and (queries > 1 or start is not None)  # the last place is ahead of nobody
    if causal and queries == keys and keys_mask is None and prefix is None and start is None and not narrow:
        return Visible(None, causal=True)
    if causal or narrow:
        first = keys - queries if start is None else start
        place, key = (weft.arange(queries) + first).unsqueeze(-1), weft.arange(keys)
        mask = key <= place  # (L, S)
        if narrow:
            mask = mask & (place - key < window)
        if prefix is not None:
            mask = mask | (key < prefix.reshape(-1, 1, 1, 1))  # (B, 1, L, S)
    if keys_mask is not None:
        counts = _checked_mask(keys_mask, keys)[:, None, None]  # (B, 1, 1, S)
        mask = counts if mask is None else mask & counts
    return Visible(mask)


def _checked_mask(mask: Tensor, keys: int) -> Tensor:
    if mask.ndim != 2 or mask.shape[1] != keys:
        raise ShapeError(
            f"attention_mask: expected (B, {keys}), 1 for tokens and 0 for padding, got {tuple(mask.shape)}"
        )
    return mask if mask.dtype is weft.bool else mask != 0


# ------------------------------------------------------------------------------------------- attention


class KeyValues(NamedTuple):
    """Keys and values of the places seen so far, (B, G, S, D) each."""

    keys: Tensor
    values: Tensor


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, T, H · D) → (B, H, T, D)"""
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """(B, H, T, D) → (B, T, H · D)"""
    batch, heads, length, width = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * width)


def attend(
    query: Tensor,
    pairs: KeyValues,
    seen: Visible,
    *,
    bias: Tensor | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """softmax(q kᵀ · scale + bias) v over the visible keys, heads joined; scale = 1/√D unless given.

    Each head of keys and values serves H / G heads of queries. Shape: (B, H, L, D), (B, G, S, D) → (B, L, H · D)
    """
    mask, causal = seen
    if bias is not None:
        allowed = _causal(query.shape[-2], pairs.keys.shape[-2]) if causal else mask
        mask, causal = bias if allowed is None else bias.masked_fill(~allowed, float("-inf")), False
    grouped = query.shape[1] != pairs.keys.shape[1]
    if _MAPS.get() is not None:
        with no_grad():
            _MAPS.get().append(_weights(query, pairs.keys, mask, causal, scale))
    kept = watched_weights()
    if kept is not None:  # the weights are a result, so they are computed whole
        weights = F.dropout(_weights(query, pairs.keys, mask, causal, scale), dropout)
        kept.append(weights)
        return join_heads(weights @ _repeated(pairs.values, query.shape[1]))
    return join_heads(
        F.scaled_dot_product_attention(
            query, *pairs, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=grouped
        )
    )


def _causal(queries: int, keys: int) -> Tensor:
    """j ≤ i, the queries being the last of the keys. Shape: (L, S)"""
    return weft.arange(keys) <= weft.arange(keys - queries, keys).unsqueeze(-1)


_MAPS: ContextVar[list[Tensor] | None] = ContextVar("attention maps", default=None)


@contextlib.contextmanager
def attention_maps() -> Iterator[list[Tensor]]:
    """The weights of every `attend` inside the block, in the order of computing: (B, H, L, S) each, outside the graph.

    >>> with attention_maps() as maps:
    ...     model(tokens)
    >>> maps[0].shape  # of the first layer
    """
    maps: list[Tensor] = []
    token = _MAPS.set(maps)
    try:
        yield maps
    finally:
        _MAPS.reset(token)


def _weights(query: Tensor, keys: Tensor, mask: Tensor | None, causal: bool, scale: float | None) -> Tensor:
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return attention_weights(query * scale @ _repeated(keys, query.shape[1]).mT, mask, causal)


def _repeated(x: Tensor, heads: int) -> Tensor:
    """Keys or values for every head of queries. Shape: (B, G, S, D) → (B, H, S, D)"""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


# ------------------------------------------------------------------------------------------- layers


class GatedFeedForward(nn.Module):
    """y = W_down (φ(W_gate x) ∘ W_up x): SwiGLU with φ = silu (Shazeer, 2020). Shape: (*, C) → (*, C)"""

    def __init__(self, width: int, hidden: int, function: str = "silu", bias: bool = False) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(width, hidden, bias=bias), nn.Linear(width, hidden, bias=bias)
        self.down_proj = nn.Linear(hidden, width, bias=bias)
        self.function = activation(function)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.function(self.gate_proj(x)) * self.up_proj(x))


class Conv1D(nn.Module):
    """y = x W + b: a linear map whose weight (in, out) lies the other way round, as GPT-2's files have it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.normal_(weft.empty(inputs, outputs), std=0.02))
        self.bias = nn.Parameter(weft.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.mT, self.bias)

    def extra_repr(self) -> str:
        return "inputs={}, outputs={}".format(*self.weight.shape)
