"""softmax(q kᵀ · scale + mask) v and its gradients in one pass over the keys, as anchors."""

from __future__ import annotations

from collections.abc import Sequence

from ..anchor import AnchorNode, AnchorValue, Strides, Whole
from ..body import Access
from ..kernel import Kernel
from ..llvm.values import type_of
from .backward import AttentionBackward
from .forward import AttentionForward

__all__ = ["attend", "attend_slopes"]

Sizes = tuple[tuple[int, ...], tuple[int, int, int, int]]


def _sizes(q: AnchorValue, k: AnchorValue, v: AnchorValue, mask: AnchorValue | None) -> Sizes | None:
    """Batch dimensions and (queries, keys, width, width of values); None where there is no native form."""
    kinds = {type_of(x.dtype) for x in (q, k, v)} | ({type_of(mask.dtype)} - {"i1"} if mask is not None else set())
    sizes = (q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1])
    if len(kinds) > 1 or not kinds <= {"f32", "f64"} or 0 in (*q.shape, *sizes):
        return None
    return q.shape[:-2], sizes


def _accesses(values: Sequence[AnchorValue], strides: Sequence[Strides], first: int = 0) -> list[Access]:
    return [Access(first + n, type_of(v.dtype), s) for n, (v, s) in enumerate(zip(values, strides, strict=True))]


def _mask(mask: AnchorValue | None, access: Access | None, batch: tuple[int, ...]) -> Access | None:
    """The mask over (*batch, queries, keys), not moving along dimensions that it lacks or has once."""
    if mask is None:
        return None
    own = [0 if size == 1 else stride for size, stride in zip(mask.shape, access.strides, strict=True)]
    return Access(access.arg, access.kind, (*(0,) * (len(batch) + 2 - len(own)), *own))


def _of_rows(access: Access) -> Access:
    """(*batch, queries, 1) without the last dimension."""
    return Access(access.arg, access.kind, access.strides[:-1])


def attend(node: AnchorNode, scale: float, causal: bool) -> Whole | None:
    """q, k, v and maybe a mask to the output and the logarithmic sums."""
    q, k, v, *rest = node.inputs
    mask = rest[0] if rest else None
    sizes = _sizes(q, k, v, mask)
    if sizes is None:
        return None

    def make(strides: Sequence[Strides], results: Sequence[Strides]) -> Kernel:
        given = _accesses(node.inputs, strides)
        o, lse = _accesses(node.outputs, results, len(given))
        shown = _mask(mask, given[-1], sizes[0])
        return AttentionForward(*sizes, *given[:3], o, _of_rows(lse), scale, causal, shown, len(given) + 2)

    return Whole(node, node.inputs, make)


def attend_slopes(node: AnchorNode, scale: float, causal: bool) -> Whole | None:
    """g, q, k, v, maybe a mask, the output and the logarithmic sums to the gradients of q, k and v."""
    _, q, k, v, *rest = node.inputs
    mask = rest[0] if len(rest) == 3 else None
    sizes = _sizes(q, k, v, mask)
    if sizes is None:
        return None

    def make(strides: Sequence[Strides], results: Sequence[Strides]) -> Kernel:
        g, q, k, v, *others, o, lse = given = _accesses(node.inputs, strides)
        shown = _mask(mask, others[0] if others else None, sizes[0])
        slopes = _accesses(node.outputs, results, len(given))
        word = len(given) + len(slopes)
        return AttentionBackward(*sizes, q, k, v, o, _of_rows(lse), g, *slopes, scale, causal, shown, word + 1, word)

    return Whole(node, node.inputs, make)
