"""Gradients of tables that hold only the rows in use: what `embedding(…, sparse=True)` sends back.

The look-up itself is `index_select`; only its gradient differs: instead of a table full of zeros it is a `SparseRows`,
which optimisers for sparse gradients (SGD, SparseAdam, Adagrad) apply row by row.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import weft

from ...errors import ArgumentError, StateError
from ...sizes import Size
from ...tape.interpreter import interpreter_of
from ...tape.modes import mode
from ...tape.node import Node, counter
from ...tape.tape import edge_of
from ...tensor import Tensor

__all__ = ["sparse_rows_of", "takes_sparse_gradient"]

__all__: list[str] = []


class SparseRows:
    """A matrix (V, D) with values[k] added into row index[k] and zeros elsewhere: PyTorch's hybrid COO gradient."""

    is_sparse = True
    layout = "sparse_coo"
    ndim = 2

    def __init__(self, index: Tensor, values: Tensor, shape: Sequence[int], coalesced: bool = False) -> None:
        self._index, self._rows, self.shape, self._coalesced = index, values, Size(shape), coalesced

    @property
    def dtype(self) -> Any:
        return self._rows.dtype

    @property
    def device(self) -> Any:
        return self._rows.device

    @property
    def requires_grad(self) -> bool:
        return self._rows.requires_grad

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        return 2

    def sparse_dim(self) -> int:
        return 1

    def dense_dim(self) -> int:
        return 1

    # --------------------------------------------------------------------------------- places and values
    def is_coalesced(self) -> bool:
        """Whether no row occurs twice and rows are in order."""
        return self._coalesced

    def coalesce(self) -> SparseRows:
        """The same matrix with each row once, in order."""
        if self._coalesced:
            return self
        rows, place = self._index.unique(return_inverse=True)
        values = self._rows.new_zeros(rows.shape[0], self.shape[1]).index_add(0, place, self._rows)
        return SparseRows(rows, values, self.shape, coalesced=True)

    def indices(self) -> Tensor:
        """(1, n): the row of each value."""
        self._need_coalesced("indices")
        return self._indices()

    def values(self) -> Tensor:
        """(n, D): the rows."""
        self._need_coalesced("values")
        return self._rows

    def _need_coalesced(self, name: str) -> None:
        if not self._coalesced:
            raise StateError(f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first")

    def _indices(self) -> Tensor:
        return self._index.unsqueeze(0)

    def _values(self) -> Tensor:
        return self._rows

    def _nnz(self) -> int:
        return self._index.shape[0]

    def to_dense(self) -> Tensor:
        """The ordinary tensor (V, D)."""
        return self._rows.new_zeros(*self.shape).index_add(0, self._index, self._rows)

    # --------------------------------------------------------------------------------- arithmetic
    def _with(self, values: Tensor) -> SparseRows:
        return SparseRows(self._index, values, self.shape, self._coalesced)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, SparseRows):
            index = weft.cat([self._index, other._index])
            return SparseRows(index, weft.cat([self._rows, other._rows]), self.shape)
        return self.to_dense() + other

    __radd__ = __add__

    def __mul__(self, factor: Any) -> SparseRows:
        if not isinstance(factor, numbers.Number) and factor.ndim:
            raise ArgumentError("SparseRows: can only be multiplied by a number; use to_dense() first")
        return self._with(self._rows * factor)

    __rmul__ = __mul__

    def __neg__(self) -> SparseRows:
        return self._with(-self._rows)

    def mul_(self, factor: Any) -> SparseRows:
        self._rows.mul_(factor)
        return self

    def detach(self) -> SparseRows:
        return self._with(self._rows.detach())

    def clone(self) -> SparseRows:
        return self._with(self._rows.clone())

    _copy = clone

    def to(self, *args: Any, **kwargs: Any) -> SparseRows:
        return self._with(self._rows.to(*args, **kwargs))

    def norm(self, p: float = 2) -> Tensor:
        return self.coalesce()._rows.norm(p)

    def _has_nan(self) -> bool:
        return bool(self._rows.isnan().any())

    def __repr__(self) -> str:
        return (
            f"tensor(indices={self._indices()!r}, values={self._rows!r}, size={tuple(self.shape)}, nnz={self._nnz()}, "
            "layout=weft.sparse_coo)"
        )


class _Lookup:
    """The node of a look-up whose gradient is a `SparseRows`."""

    title, node_name = "Embedding", "EmbeddingSparseBackward"

    def __init__(self, index: Tensor, padding_row: int | None, shape: Sequence[int]) -> None:
        self.index, self.padding_row, self.shape = index, padding_row, shape

    def pull(self, node: Node, g: Tensor, useful: Any = None) -> list[SparseRows]:
        index = self.index
        if self.padding_row is not None:
            kept = index != self.padding_row
            index, g = index[kept], g[kept]
        return [SparseRows(index, g, self.shape)]


def takes_sparse_gradient(weight: Tensor) -> bool:
    """Whether the gradient of a look-up in `weight` may be sparse: it goes to a leaf, and no transform is at work."""
    return (
        mode.grad
        and not mode.forward
        and weight.requires_grad
        and weight.node is None
        and interpreter_of(weight) is None
    )


def sparse_rows_of(weight: Tensor, index: Tensor, padding_row: int | None) -> Tensor:
    """weight[index] for a 1-D index, with a sparse gradient: (V, D), (n,) → (n, D)."""
    index, node = index.long().clone(), Node()
    node.op, node.edges, node.order = _Lookup(index, padding_row, weight.shape), (edge_of(weight),), next(counter)
    rows = weight.detach().index_select(0, index)
    rows.node, rows._needs_grad = node, True
    return rows
