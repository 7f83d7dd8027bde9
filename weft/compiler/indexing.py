"""Reading and writing at places that integer tensors name.

A space of some axes is walked; the place of an element in the indexed buffer is a sum of what its own axes give (the
strides of an `Access`) and of one `Coordinate` for each index tensor. Negative indices count from the end. An index out
of range is replaced by the nearest valid one and reported: argument word `flag` is the address of three int64, which
then become (1, the index, the size it was out of range for); the caller sets the first to 0 before and looks after.
"""

from __future__ import annotations

from dataclasses import dataclass

from .body import Access, Body
from .kernel import Kernel
from .llvm import Function


@dataclass(frozen=True)
class Coordinate:
    """An index tensor (integers, an `Access` over the axes of the space) for one dimension of the indexed buffer.

    The dimension has `size` entries, `stride` elements apart.
    """

    index: Access
    size: int
    stride: int


class Gather(Kernel):
    """y[e] = x[places(e)] for every e of the space `shape`; `body` (given: the element of x) stores the results.

    `source` has a stride for each axis of the space: those of x along axes that x keeps, 0 along axes that only index
    tensors have. x[idx] on rows: shape (N, D), source (0, 1), Coordinate(Access(idx, 'i64', (1, 0)), rows, D).
    gather(x, 1, idx): shape (N, K), source (D, 0), Coordinate(Access(idx, 'i64', (K, 1)), D, 1).
    """

    def __init__(
        self, shape: tuple[int, ...], source: Access, coordinates: tuple[Coordinate, ...], body: Body, flag: int
    ) -> None: ...

    def key(self) -> str: ...

    def emit(self, f: Function) -> None: ...


class Scatter(Kernel):
    """target[places(e)] ∘= value(e) for every e of the space `shape` in C order, ∘ by `combine`.

    combine: 'add', 'put' (the last write stays), 'prod', 'amax', 'amin'. `target` has strides over the axes of the
    space as `source` of Gather. `value` is a body over the space without stores, whose last value is combined. Before
    that the target is filled: target_shape and target_strides describe all of it, `initial` (an Access with strides over
    target_shape) is copied there, or 0 where it is None. No two threads write to one place and the order of the
    writes to it is that of the space: results do not depend on the number of threads.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        value: Body,
        target: Access,
        coordinates: tuple[Coordinate, ...],
        target_shape: tuple[int, ...],
        target_strides: tuple[int, ...],
        flag: int,
        combine: str = "add",
        initial: Access | None = None,
    ) -> None: ...

    def key(self) -> str: ...

    def emit(self, f: Function) -> None: ...
