"""Which parts of an example are hidden: the same number in every example, at places drawn for each (N2 §8.5.3)."""

from __future__ import annotations

import weft

from ...errors import OptionError
from ...tensor import Tensor

__all__ = ["hidden_count", "hidden_places"]


def hidden_count(parts: int, ratio: float) -> int:
    """round(ratio · parts), at least one and never all of them.

    >>> hidden_count(49, 0.75), hidden_count(4, 0.01), hidden_count(4, 0.99)
    (37, 1, 3)
    """
    if not 0 < ratio < 1 or parts < 2:
        raise OptionError(f"hiding: expected a ratio in (0, 1) of two parts or more, got {ratio} of {parts}")
    return min(max(round(ratio * parts), 1), parts - 1)


def hidden_places(rows: int, parts: int, count: int, noise: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """The parts of each example in random order: the first are seen, the last `count` hidden.

    noise: numbers whose order is that of the parts, (rows, parts); drawn uniformly unless given
    Returns the order (rows, parts), the place of each part in it (rows, parts), and a mask that is 1 where a part is hidden.

    >>> order, places, mask = hidden_places(1, 4, 2, weft.tensor([[0.9, 0.1, 0.5, 0.3]]))
    >>> order.tolist(), places.tolist(), mask.tolist()
    ([[1, 3, 2, 0]], [[3, 0, 2, 1]], [[1.0, 0.0, 1.0, 0.0]])
    """
    drawn = weft.rand(rows, parts) if noise is None else noise
    order = drawn.argsort(1)
    places = order.argsort(1)
    return order, places, (places >= parts - count).to(drawn.dtype)
