"""Attention as pictures: the weights that every attention layer of a model gave, without a change to the model."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import weft

from ..errors import OptionError
from ..nn import functional
from ..nn.beyond.scores import Attention
from ..nn.functional import attention as kernels
from ..nn.module import Module
from ..ops.layers.attention import attention_weights
from ..tensor import Tensor
from .drawing import Picture, array_of, blank
from .observe import evaluating

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["AttentionMaps", "attention_maps"]

HEADS_AT_MOST, LAYERS_AT_MOST = 8, 6


@dataclasses.dataclass(frozen=True)
class AttentionMaps(Picture):
    """Weights (B, H, L, S) by layer: how much query l takes from key s; every row sums to 1 (or 0: it saw nothing)."""

    weights: dict[str, NDArray]

    def figure(
        self,
        layer: str | None = None,
        sample: int = 0,
        queries: Sequence[str] | None = None,
        keys: Sequence[str] | None = None,
    ) -> Figure:
        """Heads side by side, layers below each other (or one layer); queries and keys name rows and columns."""
        if layer is not None and layer not in self.weights:
            raise OptionError(f"figure: {layer!r} gave no weights; layers that did: {', '.join(self.weights)}")
        chosen = [layer] if layer is not None else list(self.weights)[:LAYERS_AT_MOST]
        heads = min(HEADS_AT_MOST, max(self.weights[name].shape[1] for name in chosen))
        side = 2.0 if queries is None and keys is None else 3.4
        figure, axes = blank(len(chosen), heads, side, side + 0.3)
        for row, name in zip(axes, chosen, strict=True):
            for h, axis in enumerate(row):
                if h < self.weights[name].shape[1]:
                    _panel(axis, self.weights[name][sample, h], f"{name}, head {h}", queries, keys)
                else:
                    axis.axis("off")
        return figure


def _panel(axis: Any, weights: NDArray, title: str, queries: Sequence[str] | None, keys: Sequence[str] | None) -> None:
    axis.imshow(weights, cmap="magma", vmin=0, vmax=max(float(weights.max(initial=0.0)), 1e-12))
    axis.set_title(title, fontsize=9)
    axis.tick_params(labelsize=6)
    axis.set(xlabel="key", ylabel="query")
    if keys is not None:
        axis.set_xticks(range(len(keys)), keys, rotation=90 if max(map(len, keys), default=0) > 2 else 0, fontsize=9)
    if queries is not None:
        axis.set_yticks(range(len(queries)), queries, fontsize=9)


def attention_maps(model: Module, *inputs: Any, **options: Any) -> AttentionMaps:
    """Run a model in evaluation mode and keep the weights of all attention in it.

    Found are `nn.MultiheadAttention`, `nn.Attention` with any score, and whatever calls
    `F.scaled_dot_product_attention`. Layers called once a step (decoders) give one row a step.

    >>> attention_maps(nn.TransformerEncoder(layer, 2), x).weights["layers.0.self_attn"].shape
    (2, 4, 10, 10)
    """
    found: dict[str, list[NDArray]] = {}
    with evaluating(model), weft.no_grad(), _recording(model, found):
        model(*inputs, **options)
    if not found:
        raise OptionError("attention_maps: the model computed no attention")
    return AttentionMaps({name: _joined(parts) for name, parts in found.items()})


def _joined(parts: list[NDArray]) -> NDArray:
    """Steps of one query each become the rows of one map; otherwise the last call counts."""
    steps = len(parts) > 1 and all(p.shape[-2] == 1 and p.shape == parts[0].shape for p in parts)
    return np.concatenate(parts, -2) if steps else parts[-1]


@contextlib.contextmanager
def _recording(model: Module, found: dict[str, list[NDArray]]) -> Iterator[None]:
    """Weights are computed once more beside the kernel that never holds them; names are those of the calling modules."""
    inside: list[tuple[str, Module]] = []
    attended, many_heads = kernels._attended, functional.multi_head_attention_forward

    def note(weights: Tensor) -> None:
        name, module = inside[-1] if inside else ("", model)
        found.setdefault(name, []).append(_by_head(array_of(weights), getattr(module, "num_heads", 1)))

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, causal: bool = False) -> Tensor:
        note(attention_weights((q * scale) @ k.mT, mask, causal))
        return attended(q, k, v, mask, scale, causal)

    def forward(*args: Any, need_weights: bool = True, average_attn_weights: bool = True, **rest: Any) -> Any:
        y, weights = many_heads(*args, need_weights=need_weights, average_attn_weights=False, **rest)
        if weights is not None:
            note(weights)
        return y, weights.mean(-3) if weights is not None and average_attn_weights else weights

    handles = [handle for name, module in model.named_modules() for handle in _hooks(name, module, inside, note)]
    try:
        kernels._attended, functional.multi_head_attention_forward = attend, forward
        yield
    finally:
        kernels._attended, functional.multi_head_attention_forward = attended, many_heads
        for handle in handles:
            handle.remove()


def _hooks(name: str, module: Module, inside: list[tuple[str, Module]], note: Callable[[Tensor], None]) -> list[Any]:
    def leave(m: Module, args: Any, output: Any) -> None:
        if isinstance(m, Attention):
            note(output[1])
        inside.pop()

    enter = lambda m, args: inside.append((name, m))
    return [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]


def _by_head(weights: NDArray, heads: int) -> NDArray:
    """(L, S), (B, L, S), (B·H, L, S) of multi-head attention or (B, H, L, S) → (B, H, L, S)."""
    if weights.ndim >= 4:
        return weights.reshape(-1, *weights.shape[-3:])
    rows = weights.reshape(-1, *weights.shape[-2:])
    return rows.reshape(-1, heads if len(rows) % heads == 0 else 1, *rows.shape[1:])
