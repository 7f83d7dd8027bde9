"""How an operation asks for a kernel of its own: an index space, and a kernel made around a body.

An operation returns one of these from its method `native(node)`; None means there is no native form for this node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from .body import Body
from .kernel import Kernel
from .llvm.values import type_of

__all__ = ["Anchor", "AnchorNode", "AnchorValue", "Strides", "Whole"]

Strides = tuple[int, ...]


class AnchorValue(Protocol):
    """What an anchor reads of a value of the graph; `known` is its array if that is the same at every call."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    size: int
    known: np.ndarray | None


class AnchorNode(Protocol):
    """What an anchor reads of a node of the graph."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    output: Any
    params: dict[str, Any]


class Asking:
    """What the compiler reads of either kind of anchor."""

    node: AnchorNode
    operands: tuple[Any, ...]
    space: tuple[int, ...] = ()
    fusible: bool  # whether pointwise operations may join the kernel
    dense: tuple[Any, ...] = ()  # operands that have to be contiguous
    rows: tuple[Any, ...] = ()  # operands whose rows are read whole: their last dimension has to be densest
    images: tuple[Any, ...] = ()  # operands and results (n, c, *positions) whose channels have to be densest
    taken_over: Any = None  # an operand in whose own memory the result may be made, if it lies there alike


class Anchor(Asking):
    """`make(strides, body, word)` builds the kernel: argument words are the operands, then what the body names, then the
    shared workspace and the private scratch memory in the words from `word` on.

    Operands are values of the graph, or arrays that are the same at every call.
    `strides` has for each operand its strides in elements. The body's one given value is the result at an index of
    `space`. Without `fusible`, nothing joins the kernel and the body only stores.
    """

    fusible = True

    def __init__(
        self,
        node: AnchorNode,
        operands: Sequence[AnchorValue | np.ndarray],
        space: Sequence[int],
        make: Callable[[Sequence[Strides], Body, int], Kernel],
        kind: str | None = None,
    ) -> None:
        self.node, self.operands, self.space, self.make = node, tuple(operands), tuple(space), make
        self.kind = kind or type_of(node.output.dtype)


class Whole(Asking):
    """A kernel for an operation with several results, or whose results nothing can join.

    `make(strides, results)` gets the strides of the operands and of the results; the argument words are the operands,
    then the results, then workspace and scratch memory. `dense`: operands that are not contiguous are copied first.
    `spare`: results that the kernel leaves out if nobody reads them; their strides are then None, and they have no word.
    """

    fusible = False

    def __init__(
        self,
        node: AnchorNode,
        operands: Sequence[AnchorValue | np.ndarray],
        make: Callable[[Sequence[Strides], Sequence[Strides | None]], Kernel],
        dense: bool = False,
        spare: Sequence[AnchorValue] = (),
    ) -> None:
        self.node, self.operands, self.make, self.spare = node, tuple(operands), make, tuple(spare)
        self.dense = self.operands if dense else ()
