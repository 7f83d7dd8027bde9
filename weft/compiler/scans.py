"""Running sums and products along an axis."""

from __future__ import annotations

from .body import Body
from .kernel import Kernel
from .llvm import Function


class Scan(Kernel):
    """yᵢ = x₀ ∘ … ∘ xᵢ along `axis` of the space `shape`; combine: 'add', 'prod', 'amax', 'amin'.

    `value` is a body over the space without stores, whose last value is scanned; `body` (given: the running value)
    stores. reverse: from the other end.
    """

    def __init__(
        self, shape: tuple[int, ...], axis: int, value: Body, body: Body, combine: str = "add", reverse: bool = False
    ) -> None: ...

    def key(self) -> str: ...

    def emit(self, f: Function) -> None: ...
