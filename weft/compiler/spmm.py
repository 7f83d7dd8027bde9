"""Products of sparse matrices (CSR) with dense ones.

The pattern of a matrix is two integer buffers, `starts` (rows + 1) and `columns` (entries). The transposed matrix is a
pattern of its own, made once by `transposed_pattern`; its third buffer `order` says which value belongs to each entry.
"""

from __future__ import annotations

from .body import Access, Body
from .kernel import Kernel
from .llvm import Function


class SparseProductKernel(Kernel):
    """y = A x for A (rows, inner) in CSR, x (inner, columns): y[i, j] = Σₑ value[order[e]] · x[column[e], j].

    starts, indices, order: Access over (entry,), i32 or i64 (order None: the values are in the order of the entries).
    values: Access over (entry,); x: Access over (row, column). `body` has index space (i, j), given: the sum.
    """

    def __init__(
        self,
        rows: int,
        columns: int,
        entries: int,
        starts: Access,
        indices: Access,
        values: Access,
        x: Access,
        body: Body,
        order: Access | None = None,
    ) -> None: ...

    def key(self) -> str: ...

    def emit(self, f: Function) -> None: ...


class SampledProductKernel(Kernel):
    """yₑ = Σⱼ a[rowₑ, j] · b[columnₑ, j] for every entry e; row and column numbers are i32 or i64 over (entry,).

    a, b: Access over (row, j), `width` the number of j. `body` has index space (e,), given: the sum.
    """

    def __init__(
        self, entries: int, width: int, rows: Access, columns: Access, a: Access, b: Access, body: Body
    ) -> None: ...

    def key(self) -> str: ...

    def emit(self, f: Function) -> None: ...
