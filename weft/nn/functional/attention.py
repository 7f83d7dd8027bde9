"""Linear maps and attention: `linear`, `bilinear`, scaled dot products, many heads at once."""

from __future__ import annotations

import math

import weft

from ...dtypes import bool_, dtype, float32
from ...errors import DtypeError, InvalidValueError, ShapeError
from ...ops.core.casting import lowered
from ...ops.layers.attention import ATTENTION, attention_weights
from ...ops.linalg.contract import AFFINE, LINEAR
from ...ops.shape.shape import broadcast_shapes
from ...refusal import reword
from ...tape.modes import switches
from ...tensor import Tensor
from ._common import require_float, require_tensor, widened
from .dropout import dropout

__all__ = ["bilinear", "linear", "multi_head_attention_forward", "scaled_dot_product_attention"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y = x Wᵀ + b. Shape: (*, in), weight (out, in) or (in,), bias (out,) or () → (*, out) or (*)."""
    try:
        require_tensor(input, "linear")
        require_tensor(weight, "linear", "weight")
        if switches.casting:
            input, weight, bias = lowered(input, weight, bias)
        sizes, form = tuple(input.shape), tuple(weight.shape)
        if not sizes or len(form) not in (1, 2) or sizes[-1] != form[-1]:
            raise ShapeError(
                f"linear: mat1 and mat2 shapes cannot be multiplied: input {sizes} and weight {form}; "
                "expected (*, in) and (out, in)"
            )
        kind = input.dtype
        if weight.dtype is not kind or (bias is not None and bias.dtype is not kind):
            found = ", ".join(str(x.dtype) for x in (input, weight, bias) if x is not None)
            raise DtypeError(
                f"linear: expected input, weight and bias to have the same dtype, but got {found}; "
                "convert the input, for example with .float(), or the module with .to(dtype)"
            )
        if bias is not None:
            offsets = tuple(bias.shape)
            if offsets != form[:-1] and bias.numel() != 1:
                raise ShapeError(f"linear: bias of shape {offsets} does not fit weight {form}")
            if len(form) == 2 and offsets == form[:1]:
                return AFFINE(input, weight, bias)
        y = LINEAR(input, weight) if len(form) == 2 else input @ weight
        return y if bias is None else y + bias
    except Exception as error:
        reword(error, "linear", (input, weight, bias), {})
        raise


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y_o = x₁ᵀ W_o x₂ + b_o. Shape: (*, in₁), (*, in₂), weight (out, in₁, in₂), bias (out,) → (*, out)."""
    if weight.ndim != 3:
        raise ShapeError(f"bilinear: expected weight (out, in1, in2), got shape {tuple(weight.shape)}")
    if input1.shape[:-1] != input2.shape[:-1]:
        raise ShapeError(
            f"bilinear: input batch dimensions do not match: {tuple(input1.shape)} and {tuple(input2.shape)}"
        )
    outputs, first, second = weight.shape
    if input1.shape[-1] != first or input2.shape[-1] != second:
        raise ShapeError(
            f"bilinear: input sizes {input1.shape[-1]} and {input2.shape[-1]} do not match weight {tuple(weight.shape)}"
        )
    if bias is not None and tuple(bias.shape) != (outputs,):
        raise ShapeError(
            f"bilinear: bias size does not match weight size: got {tuple(bias.shape)} but expected {outputs}"
        )
    matrix = weight.permute(1, 0, 2).reshape(first, outputs * second)
    mapped = (input1 @ matrix).reshape(*input1.shape[:-1], outputs, second)  # x₁ᵀ W_o
    y = (mapped @ input2.unsqueeze(-1)).squeeze(-1)
    return y if bias is None else y + bias


# ---------------------------------------------------------------------------------------- dot products


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(q kᵀ · scale + mask) v, scale = 1/√E unless given.

    A bool mask says which pairs take part, a float mask is added; is_causal lets query i see keys ≤ i.
    A query that sees no key gets 0. `dropout_p` drops weights (always: pass 0 outside training).
    `enable_gqa` repeats the heads of key and value to the number of query heads.
    Shape: (*, H, L, E), (*, H, S, E), (*, H, S, V), mask broadcasting to (*, H, L, S) → (*, H, L, V)
    """
    if switches.casting:
        query, key, value = lowered(query, key, value)
    _check_attention(query, key, value, attn_mask, is_causal)
    if enable_gqa:
        key, value = (_repeated_heads(x, query.shape[-3]) for x in (key, value))
    q, k, v = widened(query, key, value)
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    if dropout_p or min(*query.shape, *key.shape, *value.shape) == 0:
        weights = attention_weights((q * scale) @ k.mT, attn_mask, is_causal)  # (*, L, S)
        return (_dropped(weights, dropout_p) @ v).to(query.dtype)
    return _attended(q, k, v, attn_mask, scale, is_causal).to(query.dtype)


def _attended(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, causal: bool = False) -> Tensor:
    """The attention of all heads as one operation; leading dimensions broadcast."""
    batch = broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2], () if mask is None else mask.shape[:-2])
    q, k, v = (x if x.shape[:-2] == batch else x.expand(*batch, *x.shape[-2:]) for x in (q, k, v))
    if mask is None:
        return ATTENTION(q, k, v, scale=scale, causal=causal)[0]
    if mask.ndim < 2:
        mask = mask.reshape(1, -1)
    return ATTENTION(q, k, v, mask if mask.dtype is bool_ else mask.to(q.dtype), scale=scale, causal=causal)[0]


def _dropped(weights: Tensor, p: float) -> Tensor:
    return dropout(weights, p) if p else weights


def _repeated_heads(x: Tensor, heads: int) -> Tensor:
    """(*, G, S, E) → (*, heads, S, E), each head repeated heads / G times."""
    groups = x.shape[-3]
    if groups == 0 or heads % groups:
        raise ShapeError(
            "scaled_dot_product_attention: number of heads in key and value must divide the number of heads in query, "
            f"got {groups} and {heads}"
        )
    return x if groups == heads else x.repeat_interleave(heads // groups, -3)


def _check_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool) -> None:
    name = "scaled_dot_product_attention"
    for what, x in (("query", query), ("key", key), ("value", value)):
        require_tensor(x, name, what)
    if not query.dtype is key.dtype is value.dtype:
        raise DtypeError(
            f"{name}: expected query, key, and value to have the same dtype, but got {query.dtype}, {key.dtype} and "
            f"{value.dtype}"
        )
    require_float(query, name)
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ShapeError(
            f"{name}: expected query, key, and value to all be at least 2 dimensional, but got {query.ndim}, "
            f"{key.ndim} and {value.ndim} dimensions"
        )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            f"{name}: expected query (*, L, E), key (*, S, E), value (*, S, V), but got {tuple(query.shape)}, "
            f"{tuple(key.shape)} and {tuple(value.shape)}"
        )
    if mask is None:
        return
    if is_causal:
        raise InvalidValueError(f"{name}: explicit attn_mask should not be set when is_causal=True")
    if mask.dtype not in (bool_, query.dtype, float32):
        raise DtypeError(
            f"{name}: expected attn_mask dtype to be bool or float or to match query dtype, but got {mask.dtype} and "
            f"{query.dtype}"
        )


# -------------------------------------------------------------------------------------------- many heads


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention in `num_heads` projections at once: concat_h softmax(q_h k_hᵀ/√d) v_h, then projected.

    `bias_k`, `bias_v` append one learned key and value, `add_zero_attn` one of zeros; `static_k`,
    `static_v` (N·H, S, d) replace the projected ones. In both masks true means: left out; float masks
    are added. `is_causal` is a hint that needs attn_mask. Returns the output and the weights (averaged
    over heads unless told otherwise), or None.
    Shape: (L, N, E), (S, N, E), (S, N, E) → (L, N, E), (N, L, S); the same without N
    """
    _check_heads(query, key, value, embed_dim_to_check, num_heads, key_padding_mask, attn_mask, is_causal)
    batched = query.ndim == 3
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, examples, width = query.shape
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else in_proj_weight
    q, k, v = _projected(query, key, value, weights, in_proj_bias)
    if bias_k is not None and bias_v is not None:
        _refuse_static(static_k, static_v)
        k = weft.cat([k, bias_k.expand(1, examples, width)])
        v = weft.cat([v, bias_v.expand(1, examples, width)])
    kind = query.dtype
    q, k, v = _in_heads(q, k, v, static_k, static_v, num_heads, add_zero_attn)
    sources = k.shape[1]
    mask = _merged_mask(attn_mask, key_padding_mask, examples, num_heads, length, sources, q.dtype)
    attended, attention = _attended_by_heads(q, k, v, mask, dropout_p if training else 0.0, need_weights)
    joined = attended.transpose(0, 1).reshape(length * examples, width).to(kind)  # heads side by side
    y = linear(joined, out_proj_weight, out_proj_bias).reshape(length, examples, -1)
    if not batched:
        y = y.squeeze(1)
    if not need_weights:
        return y, None
    shown = attention.reshape(examples, num_heads, length, sources).to(kind)
    if average_attn_weights:
        shown = shown.mean(1)
    return y, shown if batched else shown.squeeze(0)


def _projected(
    query: Tensor, key: Tensor, value: Tensor, weights: Tensor | tuple[Tensor, ...], bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values after their projections, whose weights come in one matrix or in three."""
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    if isinstance(weights, tuple):
        if any(w is None for w in weights):
            raise InvalidValueError(
                "multi_head_attention_forward: use_separate_proj_weight is True but q_proj_weight, k_proj_weight or "
                "v_proj_weight is None"
            )
    elif weights is None:
        raise InvalidValueError(
            "multi_head_attention_forward: use_separate_proj_weight is False but in_proj_weight is None"
        )
    elif query is key and key is value:
        return linear(query, weights, bias).chunk(3, -1)
    else:
        weights = weights.chunk(3)
    return tuple(linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))


def _in_heads(
    q: Tensor, k: Tensor, v: Tensor, static_k: Tensor | None, static_v: Tensor | None, num_heads: int, add_zero: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values (·, N, E) apart by heads, (N·H, ·, d); `add_zero`: with one more key and value of zeros."""
    rows, head_width = q.shape[1] * num_heads, q.shape[2] // num_heads
    q, k, v, static_k, static_v = widened(q, k, v, static_k, static_v)
    heads = lambda x: x.reshape(-1, rows, head_width).transpose(0, 1)
    q = heads(q)
    k = heads(k) if static_k is None else _static("static_k", static_k, rows, head_width)
    v = heads(v) if static_v is None else _static("static_v", static_v, rows, head_width)
    if add_zero:
        nothing = weft.zeros(rows, 1, head_width, dtype=k.dtype)
        k, v = weft.cat([k, nothing], 1), weft.cat([v, nothing], 1)
    return q, k, v


def _attended_by_heads(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropped: float, need_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """What each head attends to (N·H, L, d), and its weights (N·H, L, S) where they were needed.

    With weights asked for, a query that sees no key gets NaN as in PyTorch; without, it gets 0.
    """
    scale = 1 / math.sqrt(q.shape[-1])
    if not need_weights and not dropped:
        return _attended(q, k, v, mask, scale), None
    scores = (q * scale) @ k.mT  # (N·H, L, S)
    if need_weights:
        attention = (scores if mask is None else scores + mask).softmax(-1)
    else:
        attention = attention_weights(scores, mask)
    attention = _dropped(attention, dropped)
    return attention @ v, attention


def _static(what: str, given: Tensor, rows: int, head_width: int) -> Tensor:
    if given.ndim != 3 or given.shape[0] != rows or given.shape[2] != head_width:
        raise ShapeError(
            f"multi_head_attention_forward: expecting {what} of shape ({rows}, S, {head_width}), got "
            f"{tuple(given.shape)}"
        )
    return given


def _refuse_static(*given: Tensor | None) -> None:
    if any(x is not None for x in given):
        raise InvalidValueError("multi_head_attention_forward: bias cannot be added to static key or value")


def _merged_mask(
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    examples: int,
    heads: int,
    length: int,
    sources: int,
    kind: dtype,
) -> Tensor | None:
    """Both masks as one float mask to add to the scores, broadcasting against (N·H, L, S)."""
    if attn_mask is not None:
        attn_mask = _open_end(_as_float_mask(attn_mask, kind), sources)
    if key_padding_mask is None:
        return attn_mask
    padding = _open_end(_as_float_mask(key_padding_mask, kind), sources)  # (N, S)
    padding = padding.reshape(examples, 1, 1, sources).expand(examples, heads, 1, sources)
    padding = padding.reshape(examples * heads, 1, sources)
    return padding if attn_mask is None else attn_mask + padding


def _as_float_mask(mask: Tensor, kind: dtype) -> Tensor:
    """True → −∞, false → 0; float masks as they are."""
    if mask.dtype is not bool_:
        return mask
    return weft.zeros(mask.shape, dtype=kind).masked_fill(mask, float("-inf"))


def _open_end(mask: Tensor, sources: int) -> Tensor:
    """The mask with zeros (seen by all) for keys that were appended."""
    extra = sources - mask.shape[-1]
    if extra <= 0:
        return mask
    return weft.cat([mask, weft.zeros(*mask.shape[:-1], extra, dtype=mask.dtype)], -1)


def _check_heads(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    width: int,
    heads: int,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    is_causal: bool,
) -> None:
    name = "multi_head_attention_forward"
    if query.ndim not in (2, 3):
        raise ShapeError(f"{name}: query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D")
    if key.ndim != query.ndim or value.ndim != query.ndim:
        raise ShapeError(
            f"{name}: for {query.ndim}-D query expected key and value to be {query.ndim}-D but found {key.ndim}-D and "
            f"{value.ndim}-D tensors respectively"
        )
    if query.shape[-1] != width:
        raise ShapeError(f"{name}: was expecting embedding dimension of {width}, but got {query.shape[-1]}")
    if width % heads:
        raise ShapeError(f"{name}: embed_dim {width} not divisible by num_heads {heads}")
    if key.shape[:-1] != value.shape[:-1]:
        raise ShapeError(
            f"{name}: key's sequence and batch dims {tuple(key.shape[:-1])} do not match value's "
            f"{tuple(value.shape[:-1])}"
        )
    if is_causal and attn_mask is None:
        raise InvalidValueError(f"{name}: need attn_mask if specifying the is_causal hint")
    for what, mask in (("key_padding_mask", key_padding_mask), ("attn_mask", attn_mask)):
        if mask is not None and mask.dtype is not bool_ and not mask.is_floating_point():
            raise DtypeError(f"{name}: only bool and floating types of {what} are supported, got {mask.dtype}")
    if key_padding_mask is not None and key_padding_mask.ndim != query.ndim - 1:
        raise ShapeError(f"{name}: expected key_padding_mask {query.ndim - 1}-D, got {tuple(key_padding_mask.shape)}")
    _check_attention_mask(name, query, key, heads, attn_mask)


def _check_attention_mask(name: str, query: Tensor, key: Tensor, heads: int, mask: Tensor | None) -> None:
    if mask is None:
        return
    examples = query.shape[1] if query.ndim == 3 else 1
    pair = (query.shape[0], key.shape[0])
    if tuple(mask.shape) not in (pair, (examples * heads, *pair)):
        raise ShapeError(
            f"{name}: the shape of the attn_mask is {tuple(mask.shape)}, but should be {pair} or "
            f"{(examples * heads, *pair)}"
        )
