"""`torch.nn.attention.flex_attention`: attention whose scores and masks are functions of positions.

    y = softmax(score_mod(scale · q kᵀ, b, h, i, j) where mask_mod(b, h, i, j), −∞ elsewhere) v

PyTorch calls the functions for single numbers under vmap; here they get tensors that stretch over (B, H, L, S).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import weft
from weft.nn import functional as F

from ...errors import ArgumentError, ShapeError

__all__ = ["AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention"]
__all__ += ["noop_mask", "or_masks"]

Mask = Callable[..., Any]


class AuxRequest(NamedTuple):
    """What `flex_attention(…, return_aux=…)` gives besides: log Σ exp of the scores, the largest of them."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for; else None."""

    lse: Any = None
    max_scores: Any = None


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """True everywhere."""
    return (token_q >= 0) & (token_kv >= 0)


_DEFAULT_SPARSE_BLOCK_SIZE = 128


def and_masks(*mask_mods: Mask) -> Mask:
    """Where all masks hold."""
    return lambda *at: functools.reduce(lambda a, b: a & b, (mask(*at) for mask in mask_mods), noop_mask(*at))


def or_masks(*mask_mods: Mask) -> Mask:
    """Where one of the masks holds."""
    return lambda *at: functools.reduce(lambda a, b: a | b, (mask(*at) for mask in mask_mods), ~noop_mask(*at))


def _places(*sizes: int) -> list[Any]:
    """An index of each dimension, (n, 1, 1, 1), (1, n, 1, 1) …"""
    return [weft.arange(n).reshape([-1 if k == d else 1 for k in range(4)]) for d, n in enumerate(sizes)]


def create_mask(
    mod_fn: Mask, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = "cpu", **options: Any
) -> Any:
    """The mask written out: truth values (B, H, Q_LEN, KV_LEN); B or H None: 1."""
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    with weft.no_grad():
        return weft.as_tensor(mod_fn(*_places(*sizes))).bool().expand(sizes).contiguous()


class BlockMask:
    """A mask with the function that it came from. `dense` (B, H, Q, KV) is what attention reads."""

    def __init__(self, dense: Any, mask_mod: Mask, block: tuple[int, int]) -> None:
        self.dense, self.mask_mod, self.BLOCK_SIZE = dense, mask_mod, block
        self.seq_lengths = tuple(dense.shape[2:])

    shape = property(lambda self: tuple(self.dense.shape), doc="(B, H, Q_LEN, KV_LEN).")

    def to_dense(self) -> Any:
        """1 for each block with a place where the mask holds, (B, H, ⌈Q / block⌉, ⌈KV / block⌉)."""
        rows, columns = self.BLOCK_SIZE
        padded = F.pad(self.dense.float(), (0, -self.dense.shape[3] % columns, 0, -self.dense.shape[2] % rows))
        b, h, q, k = padded.shape
        return padded.reshape(b, h, q // rows, rows, k // columns, columns).amax((3, 5)).int()

    def sparsity(self) -> float:
        """Per cent of blocks that are empty."""
        return 100.0 * (1 - self.to_dense().float().mean().item())

    def to(self, device: Any) -> BlockMask:
        """Itself: there is one place."""
        weft.empty(0, device=device)
        return self

    def __getitem__(self, index: Any) -> BlockMask:
        found = self.dense[index]
        while found.ndim < 4:
            found = found.unsqueeze(0)
        return BlockMask(found, self.mask_mod, self.BLOCK_SIZE)


def create_block_mask(
    mask_mod: Mask,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = "cpu",
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
) -> BlockMask:
    """The mask of a function, for `flex_attention`."""
    block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    return BlockMask(create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device), mask_mod, block)


def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Callable | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: Any = None,
) -> Any:
    """Attention with scores changed by `score_mod(score, b, h, q_idx, kv_idx)` and places left out by `block_mask`.

    A query that sees nothing gives 0. Without `score_mod` it is `scaled_dot_product_attention`. `return_lse`: also log Σ exp of
    the scores. Shape: (B, H, L, E), (B, G, S, E), (B, G, S, V) → (B, H, L, V)
    """
    if query.ndim != 4 or key.ndim != 4 or value.ndim != 4:
        raise ShapeError(f"flex_attention: expected (B, H, L, E), got {tuple(query.shape)}, {tuple(key.shape)}")
    if key.shape[1] != query.shape[1] and not enable_gqa:
        raise ArgumentError(f"flex_attention: {query.shape[1]} heads of q, {key.shape[1]} of k; pass enable_gqa=True")
    B, H, L, S = (*query.shape[:3], key.shape[2])
    mask = None if block_mask is None else block_mask.dense[..., :L, :S]
    if score_mod is None and not return_lse and return_aux is None:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale, enable_gqa=enable_gqa)
    if key.shape[1] != H:
        key, value = (x.repeat_interleave(H // x.shape[1], 1) for x in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)  # (B, H, L, S)
    if score_mod is not None:
        scores = score_mod(scores, *_places(B, H, L, S))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    total = scores.logsumexp(-1)
    weights = (scores - total.masked_fill(total == float("-inf"), 0.0).unsqueeze(-1)).exp()
    if return_aux is not None:
        most = scores.amax(-1) if return_aux.max_scores else None
        return weights @ value, AuxOutput(total if return_aux.lse else None, most)
    return (weights @ value, total) if return_lse else weights @ value
