"""x[mask] without knowing how many elements are chosen: the same computations done for all elements.

What is computed from chosen elements, element by element, is computed for every element; sums leave the others out, and
writes at the same mask keep the old values there. Shapes are then those of x, whatever the mask holds. A tracer uses
this, which can go on with a result whose size it does not know only in such a form.

What comes in from outside (x itself, operands that need gradients) passes through `where(mask, x, 1)`, so that
gradients of the elements that are not chosen are 0 also where the slope there is not finite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...tape.modes import mode
from ...tensor import Tensor, wrap
from ..core.pointwise import Elementwise
from ..core.primitive import PRIMITIVES, Primitive, Reduction
from ..math.elementwise import where
from .places import INDEX, check_places

__all__ = ["Chosen", "chosen", "combined", "places_in", "put", "reduced"]


@dataclass
class Chosen:
    """The elements of `dense` (*mask sizes, *rest) at which the mask holds; as one tensor they are (count, *rest)."""

    dense: Tensor
    mask: Tensor

    @property
    def rest(self) -> tuple[int, ...]:
        return tuple(self.dense.shape[self.mask.ndim :])

    @property
    def wide(self) -> Tensor:
        """The mask, to be broadcast with `dense`."""
        return _wide(self.mask, len(self.rest))

    def with_others(self, number: float) -> Tensor:
        """All elements, with a number in the place of those that are not chosen."""
        return where(self.wide, self.dense, wrap(np.full((), number, self.dense.dtype.np)))


def _wide(mask: Tensor, rest: int) -> Tensor:
    return mask.reshape(*mask.shape, *(1,) * rest) if rest else mask


def places_in(mask: np.ndarray) -> tuple[Tensor, ...]:
    """The positions of the true elements of a mask in each of its dimensions."""
    return tuple(wrap(i) for i in np.nonzero(mask))


def chosen(x: Tensor, mask: Tensor) -> Chosen:
    """x[mask] in this form."""
    return Chosen(_let_in(x, _wide(mask, x.ndim - mask.ndim)), mask)


def _let_in(x: Tensor, wide: Tensor) -> Tensor:
    """An operand from outside: its gradient is 0 where the mask does not hold, whatever comes back."""
    return where(wide, x, wrap(np.ones((), x.dtype.np))) if mode.grad and x._needs_grad else x


# ------------------------------------------------------------------------------- computing with it

NEUTRAL = {"Sum": 0, "AnyTrue": 0, "AllTrue": 1}  # results of nothing that are also those of eager code
MAY_FAIL = {"FloorDivide", "Remainder", "Fmod", "Pow"}  # of integers, at numbers that nobody chose


def combined(primitive: Primitive, inputs: Sequence[Any], parts: Sequence[Chosen | None], params: Any) -> Tensor | None:
    """An elementwise operation on chosen elements and others (`parts`: None) for all elements; None: not in this form."""
    first = next(part for part in parts if part is not None)
    if not isinstance(primitive, Elementwise):
        return None
    operands = []
    for x, part in zip(inputs, parts, strict=True):
        if part is not None:
            if len(part.rest) != len(first.rest):
                return None
            operands.append(part.dense)
        elif not isinstance(x, Tensor):
            operands.append(x)
        elif x._interpreter is not None or not _fits(x, first.rest):
            return None
        elif (
            x.ndim == 0 and x.dtype is not first.dense.dtype
        ):  # counts less where types differ: as it is, or not at all
            if mode.grad and x._needs_grad:
                return None
            operands.append(x)
        else:
            operands.append(_let_in(_fitted(x, first), first.wide))
    whole = lambda x: isinstance(x, int) if not isinstance(x, Tensor) else not x.is_floating_point()
    if primitive.title in MAY_FAIL and all(map(whole, operands)):
        return None
    return primitive(*operands, **params)


def _fits(x: Tensor, rest: tuple[int, ...]) -> bool:
    """Whether x is the same for every chosen element."""
    shape = tuple(x.shape)
    if len(shape) == len(rest) + 1 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) > len(rest):
        return False
    return all(s in (1, r) for s, r in zip(reversed(shape), reversed(rest), strict=False))


def _fitted(x: Tensor, part: Chosen) -> Tensor:
    return x.squeeze(0) if x.ndim == len(part.rest) + 1 else x


def reduced(primitive: Reduction, part: Chosen, params: dict[str, Any]) -> tuple[Tensor | None, bool]:
    """A reduction for all elements, and whether its result is a plain one (else of chosen elements, with the same mask);
    None: not in this form."""
    dim, keepdim = params["dim"], params["keepdim"]
    dims, rank = dim if isinstance(dim, tuple) else (dim,), part.mask.ndim
    inner = tuple(d - 1 + rank for d in dims if d)
    if 0 not in dims:
        within = primitive(part.dense, **params | {"dim": inner if isinstance(dim, tuple) else inner[0]})
        return (within, False) if isinstance(within, Tensor) else (None, False)
    title = "Sum" if primitive.title == "Mean" else primitive.title
    if title not in NEUTRAL:
        return None, True
    over = (*range(rank), *inner)
    total = PRIMITIVES[title](part.with_others(NEUTRAL[title]), **params | {"dim": over})
    if primitive.title == "Mean":
        count = part.mask.sum() * math.prod(part.rest[d - 1] for d in dims if d)
        total = total / count.to(total.dtype)
    return total.reshape(1, *total.shape[rank:]) if keepdim else total, True


# ------------------------------------------------------------------------------------------ writing


def put(x: Tensor, mask: Tensor, value: Tensor, part: Chosen | None) -> bool:
    """x[mask] = value, where value is `part` of all elements, the same for all chosen ones, or has as many rows as are
    chosen. False: nothing has been done."""
    rest, wide = tuple(x.shape[mask.ndim :]), _wide(mask, x.ndim - mask.ndim)
    if part is not None:
        if len(part.rest) > len(rest) or not all(
            s in (1, r) for s, r in zip(part.rest[::-1], rest[::-1], strict=False)
        ):
            return False
        missing = len(rest) - len(part.rest)
        value = part.dense.reshape(*mask.shape, *(1,) * missing, *part.rest) if missing else part.dense
    elif _fits(value, rest):
        value = value.squeeze(0) if value.ndim == len(rest) + 1 else value
    elif value.ndim == len(rest) + 1 and value.shape[0] and _fits(value[0], rest) and mask.numel():
        value = _in_order(mask, value)
    else:
        return False
    x.copy_(where(wide, value, x))
    return True


def _in_order(mask: Tensor, rows: Tensor) -> Tensor:
    """The rows, one after the other, at the places where the mask holds; there must be as many."""
    number = mask.reshape(-1).long().cumsum(0)
    count = rows.shape[0]
    check_places(number[-1:], count + 1, 0, "setitem: values for another number of chosen elements", low=count)
    return INDEX(rows, (number - 1).clamp(0, count - 1).reshape(mask.shape), at=0)
