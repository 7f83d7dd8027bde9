"""What `weft.amp.autocast` does to the inputs of an operation: products in 16 bits, losses in 32.

Callers ask `switches.casting` first, which costs nothing where no autocast is open.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ...dtypes import float32, float64
from ...tape.modes import mode
from ...tensor import Tensor

__all__ = ["cast", "lowered", "raised", "uncast"]


def cast(x: Any, kind: Any) -> Any:
    """A tensor of floating-point numbers in another type; float64, whole numbers and all else as they are."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.dtype is float64:
        return x
    return x.to(kind)


def lowered(*inputs: Any) -> tuple[Any, ...]:
    """The inputs of a product, in the type of the open autocast."""
    return inputs if mode.casting is None else tuple(cast(x, mode.casting) for x in inputs)


def raised(*inputs: Any) -> tuple[Any, ...]:
    """The inputs of a loss, in float32 under an open autocast."""
    return inputs if mode.casting is None else tuple(cast(x, float32) for x in inputs)


@contextlib.contextmanager
def uncast() -> Iterator[None]:
    """Within it no autocast is open."""
    before, mode.casting = mode.casting, None
    try:
        yield
    finally:
        mode.casting = before
