"""Receptive fields: how far a position of a feature map looks into the input.

Along each axis, a window of k positions (dilation d, stride s) on a map with field r and jump j gives
r' = r + (k − 1) d j and j' = j s, from r = j = 1 at the input (N1: convolutional networks). Maps are recognised as
tensors and, across sums and concatenations, by the tape; where branches meet, the widest field counts.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ..ops.core.pointwise import Elementwise
from ..ops.shape.join import Cat
from ..tensor import Tensor
from .flops import ACTIVATIONS, CONVOLUTIONS, DROPOUTS, NORMS, POOLS, first_tensor, sizes

__all__ = ["FieldTracer"]


@dataclasses.dataclass(frozen=True)
class Field:
    """Field and jump along each axis; no axes yet at the input."""

    size: tuple[int, ...] = ()
    jump: tuple[int, ...] = ()

    def through(self, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]) -> Field:
        size, jump = self.size or (1,) * len(kernel), self.jump or (1,) * len(kernel)
        size = tuple(r + (k - 1) * d * j for r, k, d, j in zip(size, kernel, dilation, jump, strict=True))
        return Field(size, tuple(j * s for j, s in zip(jump, stride, strict=True)))


class FieldTracer:
    """Knows the field of every feature map seen so far."""

    def __init__(self, inputs: list[Tensor]) -> None:
        self.kept: list[Any] = list(inputs)  # an id is only good while its object lives
        self.fields: dict[int, Field | None] = {id(x): Field() for x in inputs}

    def after(self, module: Any, inputs: Any, output: Any) -> tuple[int, ...] | None:
        """The field of a module's output, remembered for those that use it."""
        x, y = first_tensor(inputs), first_tensor(output)
        if x is None or y is None:
            return None
        if isinstance(module, (*CONVOLUTIONS, *POOLS)):
            found = self.find(x)
            found = found and found.through(*_geometry(module))
        elif isinstance(module, (*NORMS, *ACTIVATIONS, *DROPOUTS)):
            found = self.find(x)
        else:
            found = self.find(y)
        self.remember(y, found)
        return found.size if found is not None and found.size else None

    def remember(self, y: Tensor, found: Field | None) -> None:
        self.kept += [y, y.node]
        self.fields[id(y)] = found
        if y.node is not None:
            self.fields[id(y.node)] = found

    def find(self, x: Tensor) -> Field | None:
        """The field of a tensor: known, or the widest of those it was made from by sums and the like."""
        if id(x) in self.fields:
            return self.fields[id(x)]
        met, pending, seen = [], [x.node], set()
        while pending:
            node = pending.pop()
            if node is None or id(node) in seen:
                continue
            seen.add(id(node))
            if id(node) in self.fields:
                met.append(self.fields[id(node)])
            elif isinstance(node, Tensor):
                continue  # a parameter or a constant
            elif isinstance(node.op, (Elementwise, Cat)):
                pending += node.edges
            else:
                return None
        return _widest(met)


def _widest(met: list[Field | None]) -> Field | None:
    if not met or None in met or len({len(field.size) for field in met}) > 1 or len({f.jump for f in met}) > 1:
        return None
    return Field(tuple(max(along) for along in zip(*(f.size for f in met), strict=True)), met[0].jump)


def _geometry(module: Any) -> tuple[tuple[int, ...], ...]:
    """Kernel, stride and dilation along each axis."""
    axes = int(type(module).__name__[-2]) if not hasattr(module, "weight") else module.weight.ndim - 2
    kernel = sizes(module.kernel_size, axes)
    stride = kernel if module.stride is None else sizes(module.stride, axes)
    return kernel, stride, sizes(getattr(module, "dilation", 1), axes)
