"""softmax(q kᵀ · scale + mask) v in one pass over the keys, and its gradients; memory is linear in the length.

Lanes run along queries: scores are columns of a block Sᵀ (keys × queries), so that maxima and sums over keys are
vertical and only the queries are transposed.
"""

from __future__ import annotations

from .body import Access
from .kernel import Kernel
from .llvm import Function


class AttentionForward(Kernel):
    """o = softmax(q kᵀ · scale + mask) v and lse = log Σ exp of each row of scores.

    batch: sizes of the leading axes (…, heads); queries L, keys S, width E, value_width V.
    q (*batch, L, E), k (*batch, S, E), v (*batch, S, V), o (*batch, L, V): Access with a stride for each axis (0: the same
    for all). lse: Access over (*batch, L) or None. mask: Access over (*batch, L, S), i1 (true: the pair takes part) or
    of the type of q (added), with strides 0 where it is broadcast. causal: query i sees keys ≤ i. A query that sees no
    key gets o = 0 and lse = -inf. `scratch_word` is the argument word of the scratch memory.
    """

    def __init__(
        self,
        batch: tuple[int, ...],
        sizes: tuple[int, int, int, int],
        q: Access,
        k: Access,
        v: Access,
        o: Access,
        lse: Access | None,
        scale: float,
        causal: bool,
        mask: Access | None,
        scratch_word: int,
    ) -> None: ...

    def key(self) -> str: ...

    def emit(self, f: Function) -> None: ...


class AttentionBackward(Kernel):
    """Gradients of AttentionForward: from q, k, v, o, lse and g = ∂/∂o the gradients dq, dk, dv (same axes).

    With few heads the keys are worked on in `groups` independent parts whose shares of dq are added in a fixed order;
    they need the shared memory `workspace` (bytes, 0 for one group), whose address is argument word `workspace_word`.
    """

    def __init__(
        self,
        batch: tuple[int, ...],
        sizes: tuple[int, int, int, int],
        q: Access,
        k: Access,
        v: Access,
        o: Access,
        lse: Access,
        g: Access,
        dq: Access,
        dk: Access,
        dv: Access,
        scale: float,
        causal: bool,
        mask: Access | None,
        scratch_word: int,
        workspace_word: int,
    ) -> None: ...

    def key(self) -> str: ...

    def emit(self, f: Function) -> None: ...
