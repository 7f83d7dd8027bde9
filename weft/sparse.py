"""Sparse matrices: only the entries that may differ from zero are stored.

`Pattern` says where the entries are; `SparseTensor` adds their values, an ordinary tensor, so that gradients flow
to it. What can be computed with them lives in `ops/linalg/sparse.py`, which adds the operators and functions.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import dtypes
from .errors import DtypeError, IndexRangeError, ShapeError
from .runtime.lazy import LazyModule
from .sizes import Size
from .tensor import Tensor, wrap

__all__ = ["COO", "CSR", "Pattern", "Places", "SparseTensor", "ordered"]

sparse = LazyModule("scipy.sparse")

COO, CSR = "sparse_coo", "sparse_csr"


class Pattern:
    """The places of the entries of a matrix, row by row as in CSR; compared by identity.

    `flipped`: the transposed matrix, with the entries still in the order of the original.
    """

    __slots__ = ("__weakref__", "_by_row", "_other", "_rows", "columns", "flipped", "size", "starts")

    def __init__(self, starts: np.ndarray, columns: np.ndarray, size: tuple[int, int]) -> None:
        small = max(*size, len(columns)) < 2**31  # what SciPy would convert to in every product
        kind = np.int32 if small else np.int64
        self.starts, self.columns = starts.astype(kind, copy=False), columns.astype(kind, copy=False)
        self.size, self.flipped, self._rows, self._other, self._by_row = size, False, None, None, None

    @property
    def T(self) -> Pattern:
        """The pattern of the transposed matrix."""
        if self._other is None:
            other = object.__new__(Pattern)
            other.starts, other.columns, other.size, other._rows = self.starts, self.columns, self.size, self._rows
            other.flipped, other._other, other._by_row, self._other = not self.flipped, self, None, other
        return self._other

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.size[::-1] if self.flipped else self.size

    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """The row and the column of each entry."""
        if self._rows is None:
            self._rows = np.repeat(np.arange(self.size[0], dtype=self.columns.dtype), np.diff(self.starts))
        return (self.columns, self._rows) if self.flipped else (self._rows, self.columns)

    def by_row(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Where the entries of each row begin, their columns, and their numbers (None: 0, 1, 2, …); found once."""
        if not self.flipped:
            return self.starts, self.columns, None
        if self._by_row is None:
            numbers = np.arange(len(self.columns), dtype=self.columns.dtype)
            found = sparse.csr_array((numbers, self.columns, self.starts), shape=self.size).tocsc()
            self._by_row = found.indptr, found.indices, found.data
        return self._by_row

    def matrix(self, values: np.ndarray) -> Any:
        """SciPy's matrix with these entries."""
        found = sparse.csr_array((values, self.columns, self.starts), shape=self.size)
        return found.T if self.flipped else found

    def same_places(self, other: Pattern) -> bool:
        """Whether both patterns hold the same places."""
        if self is other:
            return True
        equal = self.size == other.size and self.flipped == other.flipped
        return equal and np.array_equal(self.starts, other.starts) and np.array_equal(self.columns, other.columns)


class Places:
    """Row and column numbers in any order, also repeated, and how their values become those of a pattern."""

    __slots__ = ("_index", "_pattern", "_repeats", "columns", "rows", "size")

    def __init__(self, rows: np.ndarray, columns: np.ndarray, size: Sequence[int]) -> None:
        self.rows, self.columns, self.size = rows, columns, (int(size[0]), int(size[1]))
        self._pattern = None

    @property
    def pattern(self) -> Pattern:
        """The different places in order; found once, when they are first needed."""
        if self._pattern is None:
            width = max(1, self.size[1])
            keys = self.rows.astype(np.int64) * width + self.columns
            unique, inverse = np.unique(keys, return_inverse=True)
            self._repeats = len(unique) < len(keys)
            self._index = wrap(inverse.astype(np.int64) if self._repeats else np.argsort(keys, kind="stable"))
            starts = np.searchsorted(unique, np.arange(self.size[0] + 1, dtype=np.int64) * width)
            self._pattern = Pattern(starts, unique % width, self.size)
        return self._pattern

    def arranged(self, values: Tensor) -> Tensor:
        """The values of the pattern: put in order, those of equal places added."""
        count = len(self.pattern.columns)
        return values.new_zeros(count).index_add(0, self._index, values) if self._repeats else values[self._index]


class SparseTensor:
    """A sparse matrix: a pattern of places and a tensor of the values there, which may require gradients.

    Made by `weft.sparse_coo_tensor`, `weft.sparse_csr_tensor`, `Tensor.to_sparse` or `weft.sparse.from_scipy`.
    A COO matrix may hold several values for one place until it is coalesced; they count as their sum.
    """

    __slots__ = (
        "_entries",
        "_given",
        "_pattern",
        "layout",
    )  # _given: the places of a COO matrix before it is coalesced
    is_sparse_matrix = True
    ndim = 2
    __array_ufunc__ = None  # NumPy leaves operators to this class

    def __init__(self, values: Tensor, pattern: Pattern | None, layout: str, given: Places | None = None) -> None:
        self._entries, self._pattern, self.layout, self._given = values, pattern, layout, given

    # ----------------------------------------------------------------------------------- what it is
    @property
    def shape(self) -> Size:
        """Rows and columns."""
        return Size(self._pattern.shape if self._given is None else self._given.size)

    def size(self, dim: int | None = None) -> Any:
        """The size of one dimension, or of both."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """Two: rows and columns."""
        return 2

    def sparse_dim(self) -> int:
        """Two: rows and columns are named by indices."""
        return 2

    def dense_dim(self) -> int:
        """None: an entry is one number."""
        return 0

    def is_floating_point(self) -> bool:
        """Whether the values are floating-point numbers."""
        return self._entries.is_floating_point()

    def numel(self) -> int:
        """The number of elements, zeros among them."""
        return self.shape.numel()

    @property
    def dtype(self) -> dtypes.dtype:
        """The element type of the values."""
        return self._entries.dtype

    @property
    def device(self) -> Any:
        """Where the memory lies."""
        return self._entries.device

    @property
    def nnz(self) -> int:
        """The number of stored entries."""
        return self._entries.shape[0]

    def _nnz(self) -> int:
        return self.nnz

    @property
    def is_sparse(self) -> bool:
        """Whether the layout is COO."""
        return self.layout == COO

    @property
    def is_sparse_csr(self) -> bool:
        """Whether the layout is CSR."""
        return self.layout == CSR

    @property
    def requires_grad(self) -> bool:
        """Whether gradients with respect to the values are wanted."""
        return self._entries.requires_grad

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Ask for gradients of the values (in place)."""
        self._entries.requires_grad_(requires_grad)
        return self

    @property
    def grad(self) -> SparseTensor | None:
        """The gradient of the values, as a sparse matrix with the same pattern."""
        found = self._entries.grad
        return None if found is None else self._with(found)

    def __repr__(self) -> str:
        if self.layout == CSR:
            places = f"crow_indices={self.crow_indices()!r}, col_indices={self.col_indices()!r}"
        else:
            places = f"indices={self._indices()!r}"
        return (
            f"tensor({places}, values={self._entries!r}, size={tuple(self.shape)}, nnz={self.nnz}, "
            f"layout=weft.{self.layout})"
        )

    # ------------------------------------------------------------------------------- places and values
    def is_coalesced(self) -> bool:
        """Whether no place occurs twice and the entries are in order."""
        return self._given is None

    def coalesce(self) -> SparseTensor:
        """The same matrix with one entry for each place, in order: values of the same place are added."""
        if self._given is None:
            return self
        return SparseTensor(self._given.arranged(self._entries), self._given.pattern, self.layout)

    def _values(self) -> Tensor:
        return self._entries

    def values(self) -> Tensor:
        """The values of the entries; part of the graph."""
        self._need_coalesced("values")
        return self._entries

    def indices(self) -> Tensor:
        """(2, nnz): the row and the column of each entry of a COO matrix."""
        self._need_coalesced("indices")
        self._need_layout(COO, "indices")
        return self._indices()

    def _indices(self) -> Tensor:
        places = self._pattern.places() if self._given is None else (self._given.rows, self._given.columns)
        return wrap(np.stack(places).astype(np.int64))

    def crow_indices(self) -> Tensor:
        """(rows + 1): where the entries of each row begin in a CSR matrix."""
        self._need_layout(CSR, "crow_indices")
        return wrap(self._pattern.starts.astype(np.int64))

    def col_indices(self) -> Tensor:
        """(nnz): the column of each entry of a CSR matrix."""
        self._need_layout(CSR, "col_indices")
        return wrap(self._pattern.columns.astype(np.int64))

    def _need_coalesced(self, name: str) -> None:
        if self._given is not None:
            raise ShapeError(f"{name}: cannot get {name} on an uncoalesced tensor, please call .coalesce() first")

    def _need_layout(self, layout: str, name: str) -> None:
        if self.layout != layout:
            raise DtypeError(f"{name}: expected {layout} layout, got {self.layout}; convert with to_{layout}()")

    def _with(self, values: Tensor) -> SparseTensor:
        return SparseTensor(values, self._pattern, self.layout, self._given)

    # ------------------------------------------------------------------------------------ conversions
    def to_dense(self) -> Tensor:
        """The ordinary tensor with zeros at all other places."""
        if self._given is not None:
            return self.coalesce().to_dense()
        rows, columns = self._pattern.places()
        count, width = self.shape.numel(), self.shape[1]
        flat = wrap(rows.astype(np.int64) * width + columns)
        return self._entries.new_zeros(count).index_add(0, flat, self._entries).reshape(self.shape)

    def to_sparse_csr(self) -> SparseTensor:
        """The same matrix in CSR layout."""
        found = self.coalesce()
        return SparseTensor(found._entries, found._pattern, CSR)

    def to_sparse_coo(self) -> SparseTensor:
        """The same matrix in COO layout."""
        return self if self.layout == COO else SparseTensor(self._entries, self._pattern, COO)

    def to_sparse(self, *, layout: str = COO) -> SparseTensor:
        """The same matrix in another layout."""
        return self.to_sparse_csr() if layout == CSR else self.to_sparse_coo()

    def t(self) -> SparseTensor:
        """The transposed matrix in the same layout."""
        found = self.coalesce()
        rows, columns = found._pattern.places()
        return ordered(columns, rows, found._entries, found.shape[::-1], self.layout)

    T = property(t)

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """The matrix with two dimensions exchanged."""
        for dim in (dim0, dim1):
            if not -2 <= dim < 2:
                raise IndexRangeError(f"transpose: dim {dim} is out of range for a matrix; use 0 and 1")
        return self if dim0 % 2 == dim1 % 2 else self.t()

    def scipy(self) -> Any:
        """A SciPy csr_array (or coo_array) with copies of the values."""
        found = self.coalesce()
        matrix = found._pattern.matrix(found._entries.detach().numpy().copy())
        return matrix.tocoo() if self.layout == COO else matrix

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """The same matrix with values of another element type; arguments as of `Tensor.to`."""
        return self._with(self._entries.to(*args, **kwargs))

    def cpu(self) -> SparseTensor:
        """The matrix itself, which is on the CPU."""
        return self

    def half(self) -> SparseTensor:
        """The same matrix in float16."""
        return self.to(dtypes.float16)

    def float(self) -> SparseTensor:
        """The same matrix in float32."""
        return self.to(dtypes.float32)

    def double(self) -> SparseTensor:
        """The same matrix in float64."""
        return self.to(dtypes.float64)

    def detach(self) -> SparseTensor:
        """The same matrix outside the graph."""
        return self._with(self._entries.detach())

    def clone(self) -> SparseTensor:
        """A matrix with a copy of the values."""
        return self._with(self._entries.clone())

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        out = memo[id(self)] = self._with(copy.deepcopy(self._entries, memo))
        return out

    def parts(self) -> list[Any]:
        """What a file keeps: indices (2, nnz), values, rows and columns, layout, whether it is coalesced."""
        return [self._indices(), self._entries, list(self.shape), self.layout, self.is_coalesced()]

    @staticmethod
    def from_parts(indices: Tensor, values: Tensor, size: list[int], layout: str, coalesced: bool) -> SparseTensor:
        """A matrix from its `parts`, which may come from anywhere and are checked."""
        rows, columns = indices.array
        count, width = (int(n) for n in size)
        fits = values.array.shape == rows.shape and layout in (COO, CSR) and indices.array.dtype == np.int64
        for numbers, limit in ((rows, count), (columns, width)):
            fits = fits and bool((numbers >= 0).all() and (numbers < limit).all())
        in_order = bool((np.diff(rows * max(1, width) + columns) > 0).all())
        if not fits or (not in_order and (coalesced or layout == CSR)):
            raise ShapeError(f"a sparse matrix of {count} × {width} cannot have these entries")
        if not coalesced and layout == COO:
            return SparseTensor(values, None, COO, Places(rows, columns, (count, width)))
        starts = np.searchsorted(rows, np.arange(count + 1))
        return SparseTensor(values, Pattern(starts, columns, (count, width)), layout)


def ordered(rows: np.ndarray, columns: np.ndarray, values: Tensor, size: Sequence[int], layout: str) -> SparseTensor:
    """A matrix with its entries in order, the values of equal places added."""
    places = Places(rows, columns, size)
    return SparseTensor(places.arranged(values), places.pattern, layout)
