"""What a tracer needs of the operations, under names of its own.

`compiler/` names no operation: where a trace has to read a window of memory, convert or repeat a value, it uses these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dtypes import dtype
from ..math.elementwise import CAST
from ..shape.strided import STRIDED_READ, STRIDED_REPLACE, window_of
from ..shape.view import EXPAND
from .primitive import PRIMITIVES, Primitive

__all__ = [
    "adding",
    "choosing",
    "converting",
    "joining",
    "pairing",
    "parting",
    "parts_of",
    "reading",
    "repeating",
    "replacing",
    "swapping",
]

Step = tuple[Primitive, dict[str, Any]]


def converting(to: np.dtype) -> Step:
    """The primitive that converts to an element type, and its parameters."""
    return CAST, {"to": dtype.by_numpy[to]}


def repeating(shape: Sequence[int]) -> Step:
    """The primitive that broadcasts to `shape`."""
    return EXPAND, {"shape": tuple(shape)}


def adding() -> Step:
    """The primitive that adds two values."""
    return PRIMITIVES["Add"], {}


def choosing() -> Step:
    """The primitive that takes its second input where the first is true, else the third."""
    return PRIMITIVES["Where"], {}


def swapping(rank: int) -> Step:
    """The primitive that swaps the last two of `rank` dimensions."""
    return PRIMITIVES["Permute"], {"dims": (*range(rank - 2), rank - 1, rank - 2)}


def reading(root: np.ndarray, view: np.ndarray) -> Step:
    """The primitive that gives what `view` shows from the value of `root`, which owns its memory."""
    return STRIDED_READ, window_of(root, view)


def replacing(root: np.ndarray, view: np.ndarray) -> Step:
    """The primitive that gives the value of `root` after another was written through `view`."""
    return STRIDED_REPLACE, window_of(root, view)


def parting(rank: int) -> tuple[Step, Step, Step]:
    """The views of a complex value of `rank` dimensions as (…, 2) real ones, and of those as its two parts."""
    everything = ((None, None, None),) * rank
    first, second = ((PRIMITIVES["Slice"], {"index": (*everything, number)}) for number in (0, 1))
    return (PRIMITIVES["ViewAsReal"], {}), first, second


def joining() -> Step:
    """The primitive that makes a complex value of its real and imaginary parts."""
    return PRIMITIVES["ComplexFrom"], {}


def pairing() -> Step:
    """The view of (…, 2) real values as complex ones."""
    return PRIMITIVES["ViewAsComplex"], {}


def parts_of(x: np.ndarray) -> np.ndarray:
    """A complex array seen as (…, 2) real numbers."""
    return PRIMITIVES["ViewAsReal"].reference(x)
