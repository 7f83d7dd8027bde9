"""Matrix products as anchors."""

from __future__ import annotations

from collections.abc import Sequence

from ..anchor import Anchor, AnchorNode, AnchorValue, Strides
from ..body import Body
from ..kernel import Kernel
from ..llvm.values import type_of
from .product import Product

__all__ = ["product"]


def product(node: AnchorNode, x: AnchorValue, y: AnchorValue, narrow: bool = False) -> Anchor | None:
    """(…, n, k) @ (…, k, m) with broadcast leading dimensions; `narrow`: of operands rounded to bfloat16."""
    kind = type_of(node.output.dtype)
    if kind not in ("f32", "f64") or node.output.size == 0 or x.size == 0 or x.dtype != y.dtype:
        return None
    batch = node.output.shape[:-2]
    m, n, k = node.output.shape[-2], node.output.shape[-1], x.shape[-1]

    def spread(value: AnchorValue, strides: Strides) -> Strides:
        missing = len(batch) - (len(value.shape) - 2)
        lead = [0] * missing + [
            0 if size == 1 else stride for size, stride in zip(value.shape[:-2], strides[:-2], strict=True)
        ]
        return (*lead, *strides[-2:])

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        return Product.planned(kind, batch, m, n, k, spread(x, strides[0]), spread(y, strides[1]), body, narrow)

    return Anchor(node, (x, y), (*batch, m, n), make)
